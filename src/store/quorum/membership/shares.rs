//! Which server is the first to lead which partition: by weights, in shares that differ by one partition at most.
//!
//! Rendezvous hashing alone moves the fewest partitions, but of 8 partitions one of three servers would get none in a
//! tenth of all fleets. So each server has a bound on its share ("Consistent Hashing with Bounded Loads", Mirrokni et
//! al., 2016), and the heaviest pairs of partition and server come first: few partitions move then, too.

use crate::store::quorum::paxos::ballot::ServerId;
use xxhash_rust::xxh3::xxh3_64;

/// The first server for each partition. All servers that know the same servers find the same. None without servers.
pub(super) fn shares(partitions: u16, servers: &[ServerId]) -> Vec<ServerId> {
    let count = usize::from(partitions);
    if servers.is_empty() {
        return Vec::new();
    }
    let (least, mut larger) = (count / servers.len(), count % servers.len());
    let mut pairs = Vec::with_capacity(count * servers.len());
    for partition in 0..partitions {
        pairs.extend(servers.iter().enumerate().map(|(at, server)| (weight(*server, partition), partition, at)));
    }
    pairs.sort_unstable_by(|one, other| other.cmp(one));
    let mut loads = vec![0; servers.len()];
    let mut first = vec![None; count];
    for (_, partition, at) in pairs {
        let (slot, load) = (&mut first[usize::from(partition)], &mut loads[at]);
        let is_larger = *load == least;
        if slot.is_some() || *load > least || is_larger && larger == 0 {
            continue;
        }
        larger -= usize::from(is_larger);
        *load += 1;
        *slot = Some(servers[at]);
    }
    // The shares add up to the partitions, so none is left over.
    first.into_iter().flatten().collect()
}

/// How much a server is to lead a partition.
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
    use proptest::{collection::btree_set, prelude::*};

    fn servers() -> impl Strategy<Value = Vec<ServerId>> {
        btree_set(any::<[u8; 12]>(), 1..9).prop_map(|ids| ids.into_iter().map(ServerId).collect())
    }

    fn counts(shares: &[ServerId], servers: &[ServerId]) -> Vec<usize> {
        servers.iter().map(|server| shares.iter().filter(|first| *first == server).count()).collect()
    }

    proptest! {
        #[test]
        fn shares_differ_by_one_partition_at_most(partitions in 1_u16..65, servers in servers()) {
            let shares = shares(partitions, &servers);
            prop_assert_eq!(shares.len(), usize::from(partitions));
            let counts = counts(&shares, &servers);
            let (least, most) = (counts.iter().min().unwrap(), counts.iter().max().unwrap());
            prop_assert!(most - least <= 1, "{:?}", counts);
        }

        #[test]
        fn all_servers_find_the_same(servers in servers(), turn in 0_usize..8) {
            let mut turned = servers.clone();
            turned.rotate_left(turn % servers.len());
            prop_assert_eq!(shares(8, &servers), shares(8, &turned));
        }
    }

    /// Of 32 partitions at least as many move as the server that comes gets; of the others few do.
    #[test]
    fn few_partitions_move_when_a_server_comes() {
        let (mut moved, mut needed) = (0, 0);
        for seed in 0..200_u8 {
            let server = |number: u8| ServerId([seed, number, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
            let before: Vec<_> = (0..3).map(server).collect();
            let after: Vec<_> = (0..4).map(server).collect();
            let (old, new) = (shares(32, &before), shares(32, &after));
            moved += old.iter().zip(&new).filter(|(old, new)| old != new).count();
            needed += new.iter().filter(|first| **first == server(3)).count();
        }
        assert!(moved < needed * 3 / 2, "{moved} moved, where {needed} had to");
    }

    #[test]
    fn without_servers_there_are_no_shares() {
        assert_eq!(shares(8, &[]), []);
    }
}
