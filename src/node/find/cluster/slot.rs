//! The slot of a hash tag, as Redis Cluster computes it.

/// How many slots a cluster has.
pub(in crate::node) const SLOTS: u16 = 16_384;

/// The slot of all keys and channels whose hash tag is `tag`: CRC-16/XMODEM, modulo the number of slots.
pub(in crate::node) fn slot_of(tag: &str) -> u16 {
    let crc = tag.bytes().fold(0u16, |crc, byte| {
        (0..8).fold(crc ^ u16::from(byte) << 8, |crc, _| crc << 1 ^ if crc & 0x8000 == 0 { 0 } else { 0x1021 })
    });
    crc % SLOTS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_has_the_slot_that_redis_says() {
        // As CLUSTER KEYSLOT answers; the first is the check value of the algorithm.
        for (tag, slot) in [("123456789", 0x31c3), ("fp", 7_963), ("", 0), ("user1000", 3_443)] {
            assert_eq!(slot_of(tag), slot % SLOTS, "{tag}");
        }
    }
}
