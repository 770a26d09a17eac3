//! What others see: descriptions of leases, those who wait, and what a holder is told of them.

use crate::{
    bench::{Bench, Harness, acquire, attachment, granted, request, try_acquire},
    notices::RecordingNotices,
};
use fencepost::testing::domain::{
    command::{Acquire, Command},
    lease::{Extra, LeaseEnd, Terms},
    mode::ModeName,
    name::{Holder, Metadata, Owner},
    outcome::{AcquireOutcome, DescribeOutcome, Fate, Gone, Grant, WaitersView},
};

/// An acquire that asks for more than most.
fn asking(acquire: Acquire, extra: Extra) -> Acquire {
    Acquire { terms: Terms { extra: extra.boxed(), ..acquire.terms }, ..acquire }
}

async fn describe(
    bench: &Bench<impl Harness>,
    grant: Grant,
    said: (&str, Option<&str>),
    number: u64,
) -> DescribeOutcome {
    let metadata = Metadata::new([("at".to_owned(), said.0.to_owned())]).unwrap();
    let holder = said.1.map(|label| Holder::new(label.to_owned()).unwrap());
    bench.run(Command::Describe { lease_id: grant.lease_id, metadata, holder, number }).await
}

pub(crate) async fn a_description_is_seen_until_one_with_a_higher_number(bench: &Bench<impl Harness>) {
    let grant = bench.acquire(1).await;
    for (said, number, outcome) in [
        (("first", None), 2, DescribeOutcome::Described(2)),
        (("late", None), 1, DescribeOutcome::Outdated(2)),
        (("a repeat", None), 2, DescribeOutcome::Described(2)),
        (("next", Some("leader")), 0, DescribeOutcome::Described(3)),
    ] {
        assert_eq!(describe(bench, grant, said, number).await, outcome, "{said:?}");
    }
    let current = bench.view().await.current.unwrap();
    let metadata: Vec<_> = current.metadata.pairs().collect();
    assert_eq!((metadata, current.holder.as_str()), (vec![("at", "next")], "leader"));
    assert_eq!((current.token, current.extra.unwrap().description), (grant.token, 3));
    bench.release(grant).await;
    let lost = DescribeOutcome::Lost(Gone { fate: Fate::Ended(LeaseEnd::Released), successor: None });
    assert_eq!(describe(bench, grant, ("too late", None), 4).await, lost);
}

pub(crate) async fn those_who_wait_are_listed_in_order_and_in_pages(bench: &Bench<impl Harness>) {
    let owner = |number: u128| Owner::new(format!("job {number}")).unwrap();
    let grant = granted(bench.request(asking(try_acquire(1), Extra { owner: owner(1), ..Extra::default() })).await);
    for number in 2..5 {
        let waiter = asking(acquire(number), Extra { owner: owner(number), ..Extra::default() });
        assert_eq!(bench.request(waiter).await, AcquireOutcome::Queued);
    }
    let page = async |after| *bench.run::<Box<WaitersView>>(Command::ListWaiters { after, max: 2 }).await;
    let first = page(None).await;
    assert!(first.has_more && first.lock.current.unwrap().extra.is_some_and(|extra| extra.owner == owner(1)));
    // The one who is asked for next may leave meanwhile.
    bench.give_up(4).await;
    let second = page(Some(first.waiters[1].position)).await;
    assert!(!second.has_more && second.waiters.is_empty() && second.lock.waiters == 2);
    let shown: Vec<_> = first.waiters.iter().map(|waiter| (waiter.request, waiter.owner.clone())).collect();
    assert_eq!(shown, [2, 3].map(|number| (request(number), owner(number))));
    assert!(first.waiters.iter().all(|waiter| waiter.mode == ModeName::Exclusive && !waiter.is_skipped));
    bench.drop_call(2, 1).await;
    assert!(page(None).await.waiters[0].is_skipped, "it keeps its place for a while");
    bench.release(grant).await;
}

pub(crate) async fn nobody_waits_behind_more_than_max_waiters(bench: &Bench<impl Harness>) {
    bench.acquire(1).await;
    let bounded = |number| asking(acquire(number), Extra { waiters_max: 1, ..Extra::default() });
    assert_eq!(bench.request(bounded(2)).await, AcquireOutcome::Queued);
    let refused = bench.request(bounded(3)).await;
    assert!(matches!(&refused, AcquireOutcome::Contended(it) if it.waiters == 1), "{refused:?}");
    assert_eq!(bench.request(bounded(2)).await, AcquireOutcome::Queued, "a repeat keeps its place");
}

pub(crate) async fn a_holder_that_asked_is_told_once_that_it_is_wanted(bench: &Bench<impl Harness>) {
    let extra = Extra { tell_when_wanted: true, ..Extra::default() };
    let grant = granted(bench.request(asking(try_acquire(1), extra)).await);
    bench.attach(grant, 7, 1).await;
    bench.queue([2, 3]).await;
    let wanted = async || {
        bench.done().await;
        RecordingNotices::take(&bench.notices().wanted)
    };
    assert_eq!(wanted().await, [(attachment(7), ModeName::Exclusive)]);
    bench.attach(grant, 8, 2).await;
    assert_eq!(wanted().await, [(attachment(8), ModeName::Exclusive)], "its new stream does not know it yet");
}
