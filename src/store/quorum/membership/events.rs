//! What heartbeats have shown, as events. A store acts on them, in their order.

use super::{election::Election, known::Known};
use crate::store::quorum::paxos::ballot::ServerId;
use std::collections::BTreeSet;
use tokio::time::Instant;

/// What the heartbeats of other servers say to this one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// A server has been silent for so long that nothing needs to be known of it.
    Gone(ServerId),
    /// A server lives.
    Lives {
        server: ServerId,
        /// The number of its last heartbeat.
        count: u64,
        /// Whether it watches events.
        watches: bool,
        /// How many notices it has sent to this server.
        notices: u64,
    },
    /// Another server leads this partition.
    Led(u16, Known),
    /// No living server but this one leads this partition, as far as heartbeats say.
    Unled(u16),
    /// This server is to hand this partition over.
    HandOver(u16, ServerId),
}

/// Which servers live.
#[derive(Debug)]
pub(crate) struct Servers {
    /// Those that live, this one first.
    pub(crate) living: BTreeSet<ServerId>,
    /// The other servers that calls may wait on.
    pub(crate) gateways: BTreeSet<ServerId>,
    /// Those that do not live any more.
    pub(crate) dead: Vec<ServerId>,
}

/// What this server does in a store.
pub(crate) struct Own<'a> {
    pub(crate) me: ServerId,
    /// The partitions that it leads. `None` while it hands one of them over: what is planned next depends on whether
    /// that is taken over.
    pub(crate) leads: Option<&'a [u16]>,
    /// Whether it leaves.
    pub(crate) leaves: bool,
}

/// The events that follow from what an election has seen, in a store of so many partitions.
pub(crate) fn events(election: &mut Election, partitions: u16, own: &Own<'_>, now: Instant) -> (Vec<Event>, Servers) {
    let mut events: Vec<Event> = election.forget_gone(now).into_iter().map(Event::Gone).collect();
    events.extend(election.heartbeats(now).map(|(server, heartbeat)| {
        let to_me = heartbeat.notices.iter().find(|(to, _)| *to == own.me);
        let notices = to_me.map_or(0, |(_, sent)| *sent);
        Event::Lives { server, count: heartbeat.count, watches: heartbeat.watches, notices }
    }));
    let leader = |at| election.leader(at, now).map_or(Event::Unled(at), |known| Event::Led(at, known));
    events.extend((0..partitions).map(leader));
    let heirs = own.leads.map(|leads| election.heirs(leads, own.leaves, now)).unwrap_or_default();
    events.extend(heirs.into_iter().map(|(partition, heir)| Event::HandOver(partition, heir)));
    let living = election.living(now).collect();
    let gateways = election.gateways(now).into_iter().collect();
    (events, Servers { living, gateways, dead: election.dead(now).collect() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        domain::time::StoreTime,
        store::quorum::{
            paxos::{
                acceptor::Seen,
                ballot::{Ballot, Position},
            },
            rpc::messages::{Heartbeat, Led},
        },
    };
    use std::time::Duration;

    const ME: ServerId = ServerId([1; 12]);
    const OTHER: ServerId = ServerId([2; 12]);
    const PARTITIONS: u16 = 4;

    /// The other server has sent this many heartbeats, each of which says that it leads these partitions, and the node
    /// was seen with each of them.
    fn seen(from: Instant, heartbeats: u64, leads: &[u16]) -> (Election, Instant) {
        let mut election = Election::new(ME, 1, PARTITIONS, from);
        let mut now = from;
        for count in 1..=heartbeats {
            now = from + Duration::from_millis(300 * count);
            let time = StoreTime::from_micros(count);
            let leads = leads.iter().map(|partition| Led { partition: *partition, round: 3, now: time }).collect();
            let notices = vec![(ServerId([9; 12]), 8), (ME, 5)];
            let heartbeat = Heartbeat { count, watches: true, leads, notices, ..Heartbeat::default() };
            let ballot = Ballot { round: 3, server: OTHER };
            let votes = Seen::Votes { promised: ballot, accepted: Position { ballot, seq: count } };
            election.saw(0, (now, now, time), vec![votes; 4], vec![(OTHER, heartbeat)]);
        }
        (election, now)
    }

    #[test]
    fn what_heartbeats_say_comes_in_the_order_in_which_it_is_acted_on() {
        let (mut election, now) = seen(Instant::now(), 2, &[0]);
        let own = Own { me: ME, leads: Some(&[]), leaves: false };
        let (events, servers) = events(&mut election, PARTITIONS, &own, now);
        let time = StoreTime::from_micros(2);
        let known = Known { ballot: Ballot { round: 3, server: OTHER }, time, heard: time };
        let lives = Event::Lives { server: OTHER, count: 2, watches: true, notices: 5 };
        assert_eq!(
            events,
            [lives, Event::Led(0, known), Event::Unled(1), Event::Unled(2), Event::Unled(3)],
            "nothing is handed over by who leads nothing"
        );
        assert_eq!(servers.living, BTreeSet::from([ME, OTHER]));
        assert_eq!((servers.gateways, servers.dead), (BTreeSet::from([OTHER]), vec![]));
    }

    #[test]
    fn partitions_are_handed_over_by_who_leads_too_many_and_not_while_it_hands_one_over() {
        let (mut election, now) = seen(Instant::now(), 12, &[0]);
        let mut handed_over = |leads, leaves| {
            let (events, _) = events(&mut election, PARTITIONS, &Own { me: ME, leads, leaves }, now);
            let to = |event: &Event| if let Event::HandOver(_, to) = event { Some(*to) } else { None };
            events.iter().filter_map(to).collect::<Vec<_>>()
        };
        assert_eq!(handed_over(Some(&[1, 2, 3]), false), [OTHER]);
        assert_eq!(handed_over(Some(&[1, 2, 3]), true), [OTHER; 3]);
        assert_eq!(handed_over(None, true), []);
    }

    #[test]
    fn a_server_that_was_silent_for_long_is_dead_and_in_the_end_gone() {
        let (mut election, last) = seen(Instant::now(), 2, &[0]);
        let own = Own { me: ME, leads: Some(&[]), leaves: false };
        let mut look = |after: u64| {
            let now = last + Duration::from_millis(after);
            let votes = Seen::Votes { promised: Ballot::default(), accepted: Position::default() };
            election.saw(0, (now, now, StoreTime::default()), vec![votes; 4], vec![]);
            events(&mut election, PARTITIONS, &own, now)
        };
        let mut dead_at = None;
        for after in (0..=30_000).step_by(300) {
            let (events, servers) = look(after);
            let is_dead = servers.dead == [OTHER];
            dead_at = dead_at.or(is_dead.then_some(after));
            assert_eq!(events.contains(&Event::Gone(OTHER)), after == 30_000, "after {after} ms");
            let is_unled = events.contains(&Event::Unled(0));
            assert_eq!(is_unled, dead_at.is_some(), "after {after} ms: the lead of a dead server ends with it");
        }
        assert_eq!(dead_at, Some(1_200));
    }
}
