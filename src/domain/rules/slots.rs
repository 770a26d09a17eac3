//! The slots of a semaphore: small numbers, each of at most one lease at a time.
//!
//! For what exists a fixed number of times: the ids of workers, ports, seats of a licence (CURATOR-230). The lock's
//! tokens rise for each slot too, so a store can fence by lock and slot.

use crate::domain::limits::HOLDERS_MAX;
use std::num::NonZeroU32;

/// Words of bits that hold all slots: no slot is higher than there are holders.
const WORDS_MAX: usize = HOLDERS_MAX.div_ceil(u64::BITS as usize);

/// Which slots are taken: the first bit is slot 1.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Slots(Vec<u64>);

impl Slots {
    /// Takes the lowest free one.
    pub(super) fn take(&mut self) -> NonZeroU32 {
        let word = self.0.iter().position(|word| *word != u64::MAX).unwrap_or(self.0.len());
        if word == self.0.len() {
            self.0.push(0);
        }
        let bit = self.0[word].trailing_ones();
        self.0[word] |= 1 << bit;
        NonZeroU32::MIN.saturating_add(word as u32 * u64::BITS + bit)
    }

    /// Takes this one, which a lease has. False if another lease has it, or no lease can.
    pub(super) fn insert(&mut self, slot: NonZeroU32) -> bool {
        let Some((word, mask)) = place(slot) else { return false };
        if self.0.len() <= word {
            self.0.resize(word + 1, 0);
        }
        let is_free = self.0[word] & mask == 0;
        self.0[word] |= mask;
        is_free
    }

    /// Frees one.
    pub(super) fn remove(&mut self, slot: NonZeroU32) {
        if let Some((word, mask)) = place(slot)
            && let Some(bits) = self.0.get_mut(word)
        {
            *bits &= !mask;
        }
        while self.0.last() == Some(&0) {
            self.0.pop();
        }
    }

    /// How many are taken.
    pub(super) fn count(&self) -> u32 {
        self.0.iter().map(|word| word.count_ones()).sum()
    }
}

/// The word and the bit of a slot.
fn place(slot: NonZeroU32) -> Option<(usize, u64)> {
    let index = slot.get() - 1;
    let word = (index / u64::BITS) as usize;
    (word < WORDS_MAX).then_some((word, 1 << (index % u64::BITS)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slot(number: u32) -> NonZeroU32 {
        NonZeroU32::new(number).expect("slots begin at 1")
    }

    #[test]
    fn the_lowest_free_slot_is_taken() {
        let mut slots = Slots::default();
        let taken = |slots: &mut Slots, count| (0..count).map(|_| slots.take().get()).collect::<Vec<_>>();
        assert_eq!(taken(&mut slots, 130), (1..=130).collect::<Vec<_>>());
        for number in [3, 128, 129] {
            slots.remove(slot(number));
        }
        assert_eq!(taken(&mut slots, 4), [3, 128, 129, 131]);
        (1..=131).for_each(|number| slots.remove(slot(number)));
        assert_eq!((slots.count(), slots.clone()), (0, Slots::default()), "nothing is left of them");
    }

    #[test]
    fn a_slot_is_inserted_once_and_only_if_a_lease_can_have_it() {
        let mut slots = Slots::default();
        assert!(slots.insert(slot(70)) && !slots.insert(slot(70)) && slots.insert(slot(1)));
        assert!(!slots.insert(NonZeroU32::MAX) && slots.insert(slot(HOLDERS_MAX as u32)));
        assert_eq!((slots.count(), slots.take().get()), (3, 2));
    }
}
