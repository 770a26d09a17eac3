//! Records of a partition: what nodes kept may be of another version, or damaged.

use crate::seeds::GRANT;
use fencepost::testing::store::partition::record::{
    Key, ended, lock,
    share::{self, Share},
};

/// Any bytes as a key or a record: each decoder decodes or refuses them. What is decoded is encoded to the same again.
pub fn record(bytes: &[u8]) {
    let Some((kind, bytes)) = bytes.split_first() else { return };
    match kind % 4 {
        0 => {
            let Ok(read) = lock::decode(bytes) else { return };
            let end = read.lease().map(|lease| lease.expires_at).unwrap_or_default();
            let again = lock::encode(&read, end).expect("it holds something");
            let same = lock::decode(&again).expect("what a server writes, it reads");
            assert_eq!((same.lease(), same.tombstones()), (read.lease(), read.tombstones()));
        }
        1 => {
            let Ok(entries) = ended::decode(bytes) else { return };
            let mut again = Vec::new();
            for ended::Entry { name, ended } in &entries {
                ended::append(&mut again, name, ended);
            }
            assert!(again.is_empty() || ended::decode(&again).as_ref() == Ok(&entries), "{entries:?}");
        }
        3 => {
            let Ok(share) = share::decode(bytes, GRANT) else { return };
            let again = match &share {
                Share::Lease(lease) => share::encode(lease, lease.expires_at),
                Share::Ghost(ghost) => share::encode_ghost(ghost),
            };
            assert_eq!(share::decode(&again, GRANT), Ok(share));
        }
        _ => match Key::decode(bytes) {
            Ok(Key::Lock(name)) => assert_eq!(&Key::of_lock(&name)[..], bytes),
            Ok(Key::Share(name, grant_id)) => assert_eq!(&Key::of_share(&name, grant_id)[..], bytes),
            Ok(Key::Ended(number)) => assert_eq!(&Key::of_ended(number)[..], bytes),
            Err(_) => {}
        },
    }
}
