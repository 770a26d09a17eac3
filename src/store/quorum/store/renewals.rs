//! Renewals: those of the leases of a stream are submitted together, and wait for their answers together.

use super::{
    QuorumStore,
    router::{Given, NotDone},
};
use crate::{
    domain::{command::Command, limits::ANSWER_TIME_MAX, name::LockName},
    store::{
        Answer, StoreError,
        quorum::{
            nodes::client::NodeClient,
            proposer::{delivery::Confirmed, route::Route},
        },
    },
};
use futures_util::future::{join, join_all};
use std::iter::once;
use tokio::time::Instant;

/// A renewal: its lock and where that is, and its command.
type Renewal<'a> = (&'a LockName, Route, &'a Command);

impl<C: NodeClient> QuorumStore<C> {
    /// Executes renewals. For those of one partition that this server leads, the mutex of the partition is locked
    /// once; the nodes are woken once for all; and one timer bounds how long all of them wait.
    pub(super) async fn renew_all(&self, renewals: Vec<(&LockName, Command)>) -> Vec<Answer> {
        debug_assert!(
            renewals.iter().all(|(_, command)| matches!(command, Command::RenewKept(..) | Command::Attach { .. })),
            "other commands change what is known of waiting calls"
        );
        let until = Instant::now() + ANSWER_TIME_MAX;
        let renewals: &[Renewal<'_>] =
            &renewals.iter().map(|(name, command)| (*name, self.route(name), command)).collect::<Vec<_>>();
        let (mut done, mut given, mut not_there) = (Vec::with_capacity(renewals.len()), Vec::new(), Vec::new());
        for (at, one) in self.give_each(renewals) {
            match one {
                Ok(one) => given.push((at, one)),
                Err(NotDone::NotThere(_)) => not_there.push(at),
                Err(NotDone::Fails(why)) => done.push((at, Err(why))),
            }
        }
        let by_next_leader = |at: usize| async move {
            let (name, route, command) = renewals[at];
            (at, self.execute_at_next_leader(name, route, command).await)
        };
        let mut not_there_any_more = Vec::new();
        let confirmed = async {
            for (at, one) in given {
                match self.confirmed(renewals[at].1.partition, one, until).await {
                    Err(NotDone::NotThere(_)) => not_there_any_more.push(at),
                    one => done.push((at, one.map_err(Into::into))),
                }
            }
        };
        let ((), found) = join(confirmed, join_all(not_there.into_iter().map(by_next_leader))).await;
        done.extend(found);
        done.extend(join_all(not_there_any_more.into_iter().map(by_next_leader)).await);
        done.sort_unstable_by_key(|(at, _)| *at);
        let answer = |(at, one): (usize, Result<Confirmed, StoreError>)| {
            let partition = renewals[at].1.partition;
            one.map(|Confirmed { outcome, .. }| outcome).map_err(|why| self.explained(why, once(partition)))
        };
        done.into_iter().map(answer).collect()
    }

    /// Gives each renewal to the leader of its partition, those of one partition in their order. Returns them with
    /// their numbers in the list.
    fn give_each(&self, renewals: &[Renewal<'_>]) -> Vec<(usize, Result<Given<'_>, NotDone>)> {
        let mut order: Vec<_> = renewals.iter().enumerate().map(|(at, (_, route, _))| (route.partition, at)).collect();
        order.sort_unstable();
        let (mut given, mut here, since) = (Vec::with_capacity(renewals.len()), 0, Instant::now());
        for part in order.chunk_by(|(one, _), (other, _)| one == other) {
            let partition = part[0].0;
            let submitted = self.at_lead(partition, since, |lead, now, exit| {
                given.extend(part.iter().map(|(_, at)| {
                    let (name, Route { hash, .. }, command) = renewals[*at];
                    (*at, Ok(self.submit(lead, now, exit, (name, hash, command))))
                }));
                here += part.len();
            });
            let known = match submitted {
                Ok(Some(())) => continue,
                Ok(None) => self.leader_of(partition),
                Err(why) => Err(why),
            };
            given.extend(part.iter().map(|(_, at)| {
                let (name, _, command) = renewals[*at];
                (*at, known.clone().map(|known| self.send(partition, known, name, command)))
            }));
        }
        if here > 0 {
            self.driver.submitted(here);
        }
        given
    }
}
