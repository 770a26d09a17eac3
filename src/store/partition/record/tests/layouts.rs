//! The layouts of records of locks.

use super::*;
use crate::domain::name::{Identity, Owner};

/// A server of layout 1 would pass it over, but for the identity, which it may.
#[test]
fn what_a_server_of_layout_1_does_not_know_has_layout_2() {
    let layout = |change: fn(&mut Terms)| {
        let mut lease = lease();
        change(&mut lease.terms);
        encoded(&Lock::kept(Some(lease), Vec::new()))[0]
    };
    assert_eq!(layout(|_| {}), LAYOUT);
    assert_eq!(
        layout(|terms| terms.extra = Extra { identity: Some(Identity::new("app".into())), ..Extra::default() }.boxed()),
        LAYOUT
    );
    let changes: [fn(&mut Terms); 6] = [
        |terms| terms.max_hold = MaxHold::new(Duration::from_secs(1)),
        |terms| terms.mode = Mode::Shared,
        |terms| terms.extra = Extra::of_delays(Delays::new(Duration::from_secs(1), Duration::ZERO)),
        |terms| terms.extra = Extra { owner: Owner::new("group".into()).unwrap(), ..Extra::default() }.boxed(),
        |terms| terms.extra = Extra { description: 1, ..Extra::default() }.boxed(),
        |terms| terms.extra = Extra { tell_when_wanted: true, ..Extra::default() }.boxed(),
    ];
    for (at, change) in changes.into_iter().enumerate() {
        assert_eq!(layout(change), LAYOUT_OF_MODES, "{at}");
    }
}
