//! What servers send each other: another server may be of another version, and what it sent may be damaged.

use fencepost::testing::store::quorum::rpc::messages::{Frame, Heartbeat, LIST_MAX, Parcel, parcels};

/// Any bytes as a parcel or as a heartbeat: each is decoded or refused. What is decoded is encoded to the same
/// again, and packed into parcels of which each is read.
pub fn parcel(bytes: &[u8]) {
    let Some((kind, bytes)) = bytes.split_first() else { return };
    if kind % 2 == 1 {
        let Ok(heartbeat) = Heartbeat::decode(bytes) else { return };
        assert_eq!(Heartbeat::decode(&heartbeat.encode()).as_ref(), Ok(&heartbeat));
        return;
    }
    let Ok(read) = Parcel::decode(bytes) else { return };
    assert_eq!(Parcel::decode(&read.encode()).as_ref(), Ok(&read));
    let packed = parcels(read.from, read.frames.iter().cloned());
    let unpacked = packed.iter().flat_map(|parcel| {
        let Parcel { from, frames } = Parcel::decode(parcel).expect("what a server sends, it reads");
        assert_eq!(from, read.from);
        frames
    });
    if read.frames.iter().all(|frame| length(frame) <= LIST_MAX) {
        assert!(unpacked.eq(read.frames.iter().cloned()));
    } else {
        let sent: usize = read.frames.iter().map(length).sum();
        assert_eq!(unpacked.map(|frame| length(&frame)).sum::<usize>(), sent);
    }
}

/// Of its list, where it may be sent in parts.
const fn length(frame: &Frame) -> usize {
    match frame {
        Frame::Notices { notices, .. } => notices.len(),
        Frame::Waiters { waiters, .. } => waiters.len(),
        Frame::Presented { outcomes, .. } => outcomes.len(),
        Frame::Forward { .. }
        | Frame::Reply { .. }
        | Frame::Gather { .. }
        | Frame::HandOver { .. }
        | Frame::Declines { .. } => 0,
    }
}
