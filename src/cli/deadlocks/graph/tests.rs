use super::*;
use LockMode::{Exclusive, Semaphore, Shared};
use fencepost_client::raw::v1;

/// A request or a lease: its owner, its mode, and its permits.
type Of<'a> = (&'a str, LockMode, u32);

fn queue(lock_name: &str, limit: u32, holders: &[Of<'_>], waiters: &[Of<'_>]) -> ListWaitersResponse {
    let holder = |(owner, mode, permits): &Of<'_>| LockHolder {
        owner: (*owner).to_owned(),
        grant_id: format!("{lock_name}/{owner}"),
        mode: (*mode).into(),
        permits: *permits,
        ..Default::default()
    };
    let waiter = |(place, (owner, mode, permits)): (usize, &Of<'_>)| LockWaiter {
        owner: (*owner).to_owned(),
        waiter_id: format!("{lock_name}/{place}/{owner}"),
        mode: (*mode).into(),
        permits: *permits,
        ..Default::default()
    };
    let lock = LockInfo {
        lock_name: lock_name.to_owned(),
        holders: holders.iter().map(holder).collect(),
        holder_count: u32::try_from(holders.len()).unwrap(),
        semaphore: (limit > 0).then(|| v1::Semaphore { permit_limit: limit, ..Default::default() }),
        ..Default::default()
    };
    let waiters = waiters.iter().enumerate().map(waiter).collect();
    ListWaitersResponse { lock: Some(lock), waiters, next_page_token: String::new() }
}

fn alone(lock_name: &str, holder: &str, waiters: &[&str]) -> ListWaitersResponse {
    let waiters: Vec<_> = waiters.iter().map(|owner| (*owner, Exclusive, 0)).collect();
    queue(lock_name, 0, &[(holder, Exclusive, 0)], &waiters)
}

/// The owners of each deadlock, in order; those of a request without an owner are empty.
fn owners(first: &[ListWaitersResponse], second: &[ListWaitersResponse]) -> Vec<Vec<String>> {
    let deadlocks = Known::of(first, second).deadlocks();
    let owners = |Deadlock(waits): &Deadlock| {
        let mut owners: Vec<_> = waits.iter().map(|blocked| blocked.waiter.owner.clone()).collect();
        owners.sort();
        owners
    };
    deadlocks.iter().map(owners).collect()
}

/// In two rounds that see the same.
fn stuck(queues: &[ListWaitersResponse]) -> Vec<Vec<String>> {
    owners(queues, queues)
}

const NONE: [[&str; 0]; 0] = [];

#[test]
fn owners_that_wait_for_each_other_are_found_with_what_they_wait_for() {
    let queues = [alone("a", "one", &["two", "victim"]), alone("b", "two", &["one"])];
    assert_eq!(stuck(&queues), [["one", "two"]]);
    let found = Known::of(&queues, &queues).deadlocks();
    let Deadlock(waits) = &found[0];
    for Blocked { lock_name, waiter, blockers } in waits {
        let (lock, holder) = if waiter.owner == "two" { ("a", "one") } else { ("b", "two") };
        assert_eq!(lock_name, lock);
        assert!(matches!(&blockers[..], [Blocker::Holder(it)] if it.owner == holder), "{blockers:?}");
    }
    assert_eq!(waits.len(), 2, "without the one that only waits for them");
}

#[test]
fn a_circle_may_have_any_number_of_owners() {
    let mut three = vec![alone("a", "one", &["two"]), alone("b", "two", &["three"]), alone("c", "three", &["one"])];
    assert_eq!(stuck(&three), [["one", "three", "two"]]);
    three[2] = alone("c", "four", &["one"]);
    assert_eq!(stuck(&three), NONE, "the fourth ends");
    assert_eq!(stuck(&[alone("a", "one", &["one"])]), [["one"]], "its own lock");
    let two = [alone("a", "1", &["2"]), alone("b", "2", &["1"]), alone("c", "3", &["4"]), alone("d", "4", &["3"])];
    assert_eq!(stuck(&two), [["1", "2"], ["3", "4"]]);
}

#[test]
fn those_who_are_before_a_request_are_waited_for() {
    // The holder of a, which has no owner, ends; but then the next one is `two`.
    let queues = [alone("a", "", &["two", "one"]), alone("b", "one", &["two"])];
    assert_eq!(stuck(&queues), [["one", "two"]]);
    let one_after_the_other = [alone("a", "other", &["one", "one", "one"])];
    assert_eq!(stuck(&one_after_the_other), NONE);
}

#[test]
fn readers_wait_for_writers_only_and_writers_for_all() {
    let reader_and_writer =
        |holders: &[Of<'_>], waiters: &[Of<'_>]| stuck(&[queue("a", 0, holders, waiters), alone("b", "two", &["one"])]);
    let (one, two, writer) = (("one", Shared, 0), ("two", Shared, 0), ("w", Exclusive, 0));
    assert_eq!(reader_and_writer(&[one], &[("two", Exclusive, 0)]), [["one", "two"]]);
    assert_eq!(reader_and_writer(&[("x", Shared, 0), one], &[("two", Exclusive, 0)]), [["one", "two"]]);
    // In a queue that is served at this moment.
    assert_eq!(reader_and_writer(&[one], &[two]), NONE);
    assert_eq!(reader_and_writer(&[one], &[writer, two]), [["one", "two", "w"]], "readers do not overtake writers");
    assert_eq!(reader_and_writer(&[one], &[("", Exclusive, 0), two]), [["", "one", "two"]], "whoever they are");
    assert_eq!(reader_and_writer(&[("x", Exclusive, 0)], &[one, two]), NONE, "nor wait for each other");
    let writers = [("x", Exclusive, 0), one, ("y", Shared, 0), ("two", Exclusive, 0)];
    assert_eq!(
        reader_and_writer(&[("z", Exclusive, 0)], &writers),
        [["one", "two"]],
        "a writer waits for all before it"
    );
}

#[test]
fn permits_that_others_give_back_may_be_enough() {
    let permits = |limit, holders: &[Of<'_>], wanted, others: &[ListWaitersResponse]| {
        let mut queues = vec![queue("a", limit, holders, &[("two", Semaphore, wanted)]), alone("b", "two", &["one"])];
        queues.extend_from_slice(others);
        stuck(&queues)
    };
    let holders = [("one", Semaphore, 1), ("three", Semaphore, 1)];
    assert_eq!(permits(2, &holders, 1, &[]), NONE, "those of three");
    assert_eq!(permits(2, &holders, 2, &[]), [["one", "two"]], "not enough");
    assert_eq!(permits(2, &holders, 1, &[alone("c", "two", &["three"])]), [["one", "three", "two"]]);
    assert_eq!(permits(3, &holders, 1, &[alone("c", "two", &["three"])]), NONE, "one is free");
    assert_eq!(permits(1, &holders[..1], 1, &[]), [["one", "two"]]);
    assert_eq!(permits(0, &[("one", Exclusive, 0)], 1, &[]), [["one", "two"]]);
}

#[test]
fn only_what_is_so_in_both_rounds_counts() {
    let now = [alone("a", "one", &["two"]), alone("b", "two", &["one"])];
    let with = |change: &dyn Fn(&mut ListWaitersResponse)| {
        let mut other = now.clone();
        change(&mut other[0]);
        (owners(&other, &now), owners(&now, &other))
    };
    let none = (Vec::new(), Vec::new());
    assert_eq!(with(&|queue| queue.waiters[0].waiter_id = "new".to_owned()), none);
    assert_eq!(with(&|queue| queue.lock.as_mut().unwrap().holders[0].grant_id = "new".to_owned()), none);
    assert_eq!(with(&|queue| queue.lock.as_mut().unwrap().holders.clear()), none);
    assert_eq!(with(&|queue| queue.waiters[0].skipped = true), none, "the queue passes over it");
    assert_eq!(with(&|queue| queue.waiters.clear()), none);
    assert_eq!(with(&|queue| queue.waiters[0].waiting_since = Some(prost_types::Duration::default())).0.len(), 1);
    assert_eq!(owners(&now, &now[..1]), NONE);
}

#[test]
fn a_request_that_lost_its_place_is_behind_the_others() {
    let before = [alone("a", "", &["two", "one"]), alone("b", "one", &["two"])];
    let mut after = before.clone();
    after[0].waiters.reverse();
    assert_eq!(owners(&before, &after), NONE);
    assert_eq!(owners(&before, &before), [["one", "two"]]);
}

#[test]
fn a_lease_that_was_converted_meanwhile_excludes_no_readers() {
    let rounds = |mode: LockMode, waits: LockMode| {
        let queues = |mode| [queue("a", 0, &[("one", mode, 0)], &[("two", waits, 0)]), alone("b", "two", &["one"])];
        owners(&queues(mode), &queues(Exclusive))
    };
    assert_eq!(rounds(Exclusive, Shared), [["one", "two"]]);
    assert_eq!(rounds(Shared, Shared), NONE);
    assert_eq!(rounds(Shared, Exclusive), [["one", "two"]]);
}

#[test]
fn what_is_not_known_is_counted() {
    let mut queues = [alone("a", "", &["one", ""]), alone("b", "two", &["one"])];
    queues[0].lock.as_mut().unwrap().holder_count = 9;
    let known = Known::of(&queues, &queues);
    assert_eq!(known.unknown, Unknown { without_owner: 2, not_shown: 8 });
    assert!(known.deadlocks().is_empty());
}

#[test]
fn requests_with_one_id_on_two_locks_are_two_requests() {
    let mut queues = [alone("a", "one", &["", "two"]), alone("b", "two", &[""])];
    for queue in &mut queues {
        queue.waiters[0].waiter_id = "id".to_owned();
    }
    assert_eq!(stuck(&queues), NONE);
}

#[test]
fn a_long_queue_takes_no_time() {
    let names: Vec<_> = (0..10_000).map(|index| format!("owner-{index}")).collect();
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    let queues = [alone("a", "holder", &names), alone("b", "owner-9999", &["holder"])];
    assert_eq!(stuck(&queues)[0].len(), 10_001);
    let queues = [alone("a", "holder", &names), alone("b", "other", &["holder"])];
    assert_eq!(stuck(&queues), NONE);
}
