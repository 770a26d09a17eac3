//! How servers level their shares of the partitions: until no server leads two partitions more than another one.
//!
//! Rendezvous hashing alone would leave one of three servers without any of 8 partitions in a tenth of all fleets, and
//! of 4 partitions in more than half.
//! Shares of a bounded size ("Consistent Hashing with Bounded Loads", Mirrokni et al., 2016) depend on the set of
//! servers alone: while one server sees another set than the others, partitions move to and fro, and a server that dies
//! moves partitions among those that live. So this starts from what each server leads. A move makes the shares more
//! equal whoever plans it, and where they are equal, nothing moves.

use crate::store::quorum::paxos::ballot::ServerId;
use xxhash_rust::xxh3::xxh3_64;

/// What a server leads.
#[derive(Clone, Copy, Debug)]
pub(super) struct Share {
    pub(super) server: ServerId,
    pub(super) leads: usize,
    /// Whether it may get partitions.
    pub(super) gets: bool,
}

/// The servers to which `me` gives one partition each. Servers that see the same shares plan the same moves, of which
/// each does its own part.
pub(super) fn levelled(mut shares: Vec<Share>, me: ServerId) -> Vec<ServerId> {
    let mut gifts = Vec::new();
    loop {
        let most = shares.iter().enumerate().max_by_key(|(_, it)| (it.leads, it.server));
        let Some((most, giver)) = most.map(|(at, it)| (at, *it)) else { break };
        let Some(least) = least(&shares).filter(|least| shares[*least].leads + 1 < giver.leads) else { break };
        if giver.server == me {
            gifts.push(shares[least].server);
        }
        shares[most].leads -= 1;
        shares[least].leads += 1;
    }
    gifts
}

/// The servers that get so many partitions from one that leaves. None if no server may get any.
pub(super) fn left_behind(mut shares: Vec<Share>, partitions: usize) -> Vec<ServerId> {
    let next = |_| {
        let least = least(&shares)?;
        shares[least].leads += 1;
        Some(shares[least].server)
    };
    (0..partitions).map_while(next).collect()
}

fn least(shares: &[Share]) -> Option<usize> {
    let may_get = shares.iter().enumerate().filter(|(_, it)| it.gets);
    may_get.min_by_key(|(_, it)| (it.leads, it.server)).map(|(at, _)| at)
}

/// Which partition each of these servers gets: that of the rest for which its weight is the highest, so that it is
/// likely to be the first to campaign for it again.
pub(super) fn chosen(mut rest: Vec<u16>, gifts: Vec<ServerId>) -> Vec<(u16, ServerId)> {
    let choose = |server| {
        let (at, _) = rest.iter().enumerate().max_by_key(|(_, partition)| weight(server, **partition))?;
        Some((rest.swap_remove(at), server))
    };
    gifts.into_iter().map_while(choose).collect()
}

/// Rendezvous hashing: of the servers that live, the one with the highest weight is the first to campaign for a
/// partition.
pub(super) fn weight(server: ServerId, partition: u16) -> (u64, ServerId) {
    let mut bytes = [0; 14];
    let (id, number) = bytes.split_at_mut(12);
    id.copy_from_slice(&server.0);
    number.copy_from_slice(&partition.to_be_bytes());
    (xxh3_64(&bytes), server)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::{collection::vec, prelude::*};

    fn shares() -> impl Strategy<Value = Vec<Share>> {
        let of = |(at, leads)| Share { server: ServerId([at; 12]), leads, gets: true };
        vec(0_usize..40, 1..9).prop_map(move |all| (0..).zip(all).map(of).collect())
    }

    /// After each server has done its part.
    fn after(mut shares: Vec<Share>) -> Vec<Share> {
        let before = shares.clone();
        for giver in 0..shares.len() {
            for getter in levelled(before.clone(), before[giver].server) {
                shares[giver].leads -= 1;
                shares.iter_mut().find(|it| it.server == getter).unwrap().leads += 1;
            }
        }
        shares
    }

    fn moves(shares: &[Share]) -> usize {
        shares.iter().map(|it| levelled(shares.to_vec(), it.server).len()).sum()
    }

    proptest! {
        #[test]
        fn all_together_level_the_shares_with_the_fewest_moves(shares in shares()) {
            let (total, count) = (shares.iter().map(|it| it.leads).sum::<usize>(), shares.len());
            let (least, most) = (total / count, total.div_ceil(count));
            let above: usize = shares.iter().map(|it| it.leads.saturating_sub(most)).sum();
            let below: usize = shares.iter().map(|it| least.saturating_sub(it.leads)).sum();
            prop_assert_eq!(moves(&shares), above.max(below));
            let levelled = after(shares);
            prop_assert!(levelled.iter().all(|it| (least..=most).contains(&it.leads)), "{:?}", levelled);
            prop_assert_eq!(moves(&levelled), 0, "equal shares stay");
        }

        #[test]
        fn one_alone_makes_the_shares_more_equal(shares in shares(), me in 0_usize..8) {
            let (me, mut moved) = (me % shares.len(), shares.clone());
            for getter in levelled(shares.clone(), shares[me].server) {
                moved[me].leads -= 1;
                moved.iter_mut().find(|it| it.server == getter).unwrap().leads += 1;
            }
            let squares = |shares: &[Share]| shares.iter().map(|it| it.leads * it.leads).sum::<usize>();
            let is_same = shares.iter().zip(&moved).all(|(before, after)| before.leads == after.leads);
            prop_assert!(is_same || squares(&moved) < squares(&shares), "{:?}", moved);
        }

        #[test]
        fn what_a_server_leaves_goes_to_those_that_lead_least(shares in shares(), partitions in 0_usize..64) {
            let mut after = shares.clone();
            for getter in left_behind(shares.clone(), partitions) {
                let least = after.iter().map(|it| it.leads).min().unwrap();
                let getter = after.iter_mut().find(|it| it.server == getter).unwrap();
                prop_assert_eq!(getter.leads, least);
                getter.leads += 1;
            }
            let total = |shares: &[Share]| shares.iter().map(|it| it.leads).sum::<usize>();
            prop_assert_eq!(total(&after), total(&shares) + partitions);
        }
    }

    #[test]
    fn who_may_get_nothing_gets_nothing_and_gives_its_part_all_the_same() {
        let [one, two, three] = [1, 2, 3].map(|id| ServerId([id; 12]));
        let share = |server, leads, gets| Share { server, leads, gets };
        let shares = vec![share(one, 8, true), share(two, 0, false), share(three, 4, true)];
        assert_eq!(levelled(shares.clone(), one), [three, three]);
        assert_eq!(left_behind(shares, 2), [three, three]);
        assert_eq!(left_behind(vec![share(two, 0, false)], 2), []);
        let full = vec![share(one, 2, true), share(two, 8, false)];
        assert_eq!((levelled(full.clone(), one), levelled(full, two)), (vec![], vec![one; 3]));
    }

    #[test]
    fn each_gets_another_partition() {
        let [one, two] = [1, 2].map(|id| ServerId([id; 12]));
        let mut chosen = chosen((0..8).collect(), vec![one, two, one]);
        assert_eq!(chosen.iter().map(|(_, server)| *server).collect::<Vec<_>>(), [one, two, one]);
        let best = (0..8).max_by_key(|partition| weight(one, *partition)).unwrap();
        assert_eq!(chosen[0].0, best);
        chosen.sort_unstable();
        chosen.dedup_by_key(|(partition, _)| *partition);
        assert_eq!(chosen.len(), 3);
    }
}
