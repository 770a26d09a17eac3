//! A slice of the fuzzing in every test run: the seeds, and thousands of random mutations of them.
#![allow(clippy::unwrap_used, reason = "a test says what is wrong by failing")]

use fencepost::testing::store::{
    partition::record::{Key, ended, lock, share},
    quorum::rpc::messages::{Heartbeat, Parcel},
};
use fencepost_fuzz::{METHODS, access, config, parcel, record, request, seeds};
use tonic::Code;

/// Mutations of each seed.
const ROUNDS: u64 = 400;

/// A small generator with a fixed seed, so that a failure is reproducible.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % u64::try_from(end.max(1)).unwrap()).unwrap()
    }

    /// One to four mutations: a flipped bit, a replaced byte, a piece removed, duplicated or taken from another seed.
    fn mutate(&mut self, seed: &[u8], others: &[Vec<u8>]) -> Vec<u8> {
        let mut bytes = seed.to_vec();
        for _ in 0..=self.below(4) {
            let (from, to) = (self.below(bytes.len()), self.below(bytes.len() + 1));
            let piece = from.min(to)..from.max(to);
            match self.below(5) {
                0 if !bytes.is_empty() => bytes[from] ^= 1 << self.below(8),
                1 if !bytes.is_empty() => bytes[from] = [0, 1, 0x7f, 0x80, 0xff, b'\n'][self.below(6)],
                2 => drop(bytes.drain(piece)),
                3 => {
                    let twice = bytes[piece.clone()].to_vec();
                    bytes.splice(piece.start..piece.start, twice);
                }
                _ => {
                    let other = &others[self.below(others.len())];
                    bytes.splice(piece, other[self.below(other.len())..].iter().copied());
                }
            }
        }
        bytes
    }
}

fn run_mutations(seeds: &[Vec<u8>], target: impl Fn(&[u8])) {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    target(&[]);
    for seed in seeds {
        target(seed);
        for _ in 0..ROUNDS {
            target(&random.mutate(seed, seeds));
        }
    }
}

#[test]
fn no_request_makes_the_server_panic_or_report_itself_broken() {
    let seeds = seeds::requests();
    assert_eq!(request(&seeds[0]), Some(Code::Ok), "{} is reached", METHODS[0]);
    assert_eq!(request(&seeds::session()), Some(Code::Ok), "a valid session runs to its end");
    run_mutations(&seeds, |bytes| {
        request(bytes);
    });
}

#[test]
fn no_record_causes_a_panic() {
    run_mutations(&seeds::records(), record);
}

#[test]
fn each_seeded_record_decodes() {
    for seed in seeds::records() {
        let (kind, bytes) = seed.split_first().unwrap();
        let decodes = match kind {
            0 => lock::decode(bytes).is_ok(),
            1 => ended::decode(bytes).is_ok_and(|entries| entries.len() == 4),
            3 => share::decode(bytes, seeds::GRANT).is_ok(),
            _ => Key::decode(bytes).is_ok(),
        };
        assert!(decodes, "{kind} {bytes:x?}");
    }
}

#[test]
fn no_parcel_causes_a_panic() {
    run_mutations(&seeds::parcels(), parcel);
}

#[test]
fn each_seeded_parcel_decodes() {
    for seed in seeds::parcels() {
        let (kind, bytes) = seed.split_first().unwrap();
        let read = if *kind == 0 { Parcel::decode(bytes).map(drop) } else { Heartbeat::decode(bytes).map(drop) };
        assert_eq!(read, Ok(()), "{kind} {bytes:x?}");
    }
}

#[test]
fn no_credentials_cause_a_panic_or_are_taken_for_others() {
    run_mutations(&seeds::access(), access);
}

#[test]
fn no_configuration_causes_a_panic() {
    run_mutations(&seeds::configurations(), config);
}
