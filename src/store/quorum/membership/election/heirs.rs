//! Planned changes of leaders: which partitions this server hands over, and to whom.

use super::{Election, LATE_AFTER, LEADERLESS_AFTER, Peer, SETTLED_AFTER, SILENCE_MAX};
use crate::{
    domain::features::Features,
    store::quorum::{
        membership::shares::{Share, chosen, left_behind, levelled},
        paxos::ballot::ServerId,
    },
};
use tokio::time::Instant;

impl Election {
    /// The partitions of this server, which leads `mine`, that it is to hand over, and to whom. One that stays levels
    /// the shares, but only while no partition changes its leader, as heartbeats say: a move that is under way is not
    /// planned again. Others get a partition if they can lead, have lived for a while, and did not give one up just
    /// now: such a server may leave, which its heartbeats do not say yet. A server that leaves gives all to any that
    /// can lead. Where others understand all that this one does, only they get any: the others may be unable to read
    /// what is kept.
    pub(crate) fn heirs(&self, mine: &[u16], leaves: bool, now: Instant) -> Vec<(u16, ServerId)> {
        let is_past = |at: Instant| now.duration_since(at) >= SETTLED_AFTER;
        let settled = |peer: &Peer| is_past(peer.lives_since) && peer.gave.is_none_or(is_past);
        // Calls wait for a hand-over to a dead server, so one that can wait is not begun if a heartbeat is late.
        let within = if leaves { SILENCE_MAX } else { LATE_AFTER };
        let may_get = |peer: &Peer| peer.reaches_majority(within, now) && (leaves || settled(peer));
        let others: Vec<_> =
            self.servers.iter().filter(|(_, peer)| peer.lives(now) && !peer.heartbeat.leaves).collect();
        let understands = |peer: &Peer| Features::OWN.are_among(peer.heartbeat.features);
        let any_understands = others.iter().any(|(_, peer)| may_get(peer) && understands(peer));
        let share = |(server, peer): (&ServerId, &Peer)| Share {
            server: *server,
            leads: peer.heartbeat.leads.len(),
            gets: may_get(peer) && (understands(peer) || !any_understands),
        };
        let mut shares: Vec<Share> = others.into_iter().map(share).collect();
        if leaves {
            return chosen(mine.to_vec(), left_behind(shares, mine.len()));
        }
        shares.push(Share { server: self.me, leads: mine.len(), gets: true });
        if self.is_settled(mine, now) { chosen(mine.to_vec(), levelled(shares, self.me)) } else { Vec::new() }
    }

    /// Whether nobody leads a partition twice, and nobody is about to lead one: this server leads `mine`.
    fn is_settled(&self, mine: &[u16], now: Instant) -> bool {
        let others = self.servers.values().filter(|peer| peer.lives(now) && !peer.heartbeat.leaves);
        let led = others.flat_map(|peer| &peer.heartbeat.leads).map(|led| led.partition).chain(mine.iter().copied());
        let mut leaders = vec![0; self.partitions.len()];
        for partition in led {
            if let Some(count) = leaders.get_mut(usize::from(partition)) {
                *count += 1;
            }
        }
        let nothing_rises = |at: usize| {
            let rose = self.nodes.iter().flatten().filter_map(|sight| sight.rose.get(at));
            rose.max().is_none_or(|rose| now.duration_since(*rose) >= LEADERLESS_AFTER)
        };
        leaders.iter().enumerate().all(|(at, count)| *count == 1 || *count == 0 && nothing_rises(at))
    }
}
