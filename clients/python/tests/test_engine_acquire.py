"""The engine's rules of acquires, with messages and a clock of the test."""

from __future__ import annotations

import pytest
from support.engine import LOST, World, end

from fencepost._core.convert import duration
from fencepost._core.failure import Failure, unsent
from fencepost.errors import (
    Contended,
    LockLost,
    OutcomeUnknown,
    Refused,
    TimedOut,
    Unavailable,
)
from fencepost.v1 import lock_pb2 as pb


def test_nothing_is_sent_before_the_connection_is_made() -> None:
    world = World()
    world.acquire()
    assert world.sent() == []
    world.pass_time(0.5)
    world.connect()
    request = world.send_one()
    world.grant(request)
    (lease,) = world.engine.kept
    assert lease.valid_until == pytest.approx(world.now + 10 - 0.1 - 0.5)


def test_the_outcomes_of_an_acquire() -> None:
    world = World()
    refused, waited = world.acquire(), world.acquire(wait=5.0)
    world.connect()
    first, second = world.sent()
    assert second.acquire.request.wait_timeout.seconds == 5
    holders = [pb.LockHolder(holder="other", fencing_token=3)]
    contended = pb.AcquireResponse(
        outcome=pb.AcquireResponse.OUTCOME_CONTENDED, holders=holders, holder_count=9, waiters=2
    )
    world.answer(pb.SessionResponse(operation=first.operation, acquire=contended))
    # The answer to a retry of a wait that was over.
    world.answer(pb.SessionResponse(operation=second.operation, acquire=contended))
    not_waited = end(refused)
    assert isinstance(not_waited, Contended)
    assert str(not_waited) == "a is held by other and 8 more, 2 waiting"
    timed_out = end(waited)
    assert isinstance(timed_out, TimedOut)
    assert str(timed_out) == "timed out waiting for a: it is held by other and 8 more, 2 waiting"
    assert (not_waited.holder_count, timed_out.holder_count, timed_out.waiters) == (9, 9, 2)
    assert world.engine.is_idle


def test_a_lost_answer_is_asked_for_again_with_the_same_id() -> None:
    world = World(servers=2)
    acquire = world.acquire(wait=30.0)
    world.connect()
    first = world.send_one().acquire.request
    world.pass_time(10.0)
    world.engine.ended(world.session, LOST, world.now)
    world.connect()
    assert world.session.server == 1
    second = world.send_one()
    again = second.acquire.request
    assert (again.request_id, again.attempt, first.attempt) == (first.request_id, 2, 1)
    assert 16 < again.wait_timeout.seconds < 20
    world.grant(second)
    assert acquire.lease is not None


def test_no_server() -> None:
    world = World(servers=3)
    acquire = world.acquire()
    for _ in range(1000):
        if acquire.error is not None:
            break
        if not world.session.ended:
            world.engine.ended(world.session, unsent("refused"), world.now)
        world.pass_time(0.05)
    assert isinstance(end(acquire), Unavailable)
    assert "refused" in str(end(acquire))
    assert {it.server for it in world.opened} == {0, 1, 2}
    # No busy loop: 10 s of retries over three servers.
    assert len(world.opened) < 20
    count = len(world.opened)
    world.pass_time(60.0)
    assert len(world.opened) == count, "nobody wants a session any more"


def test_a_refused_session_fails_what_waits_for_it() -> None:
    world = World()
    acquire = world.acquire(wait=30.0)
    world.engine.ended(world.session, Failure("UNAUTHENTICATED", "no token"), world.now)
    error = end(acquire)
    assert isinstance(error, Refused)
    assert error.code == "UNAUTHENTICATED"


def test_an_unknown_outcome_is_withdrawn_in_the_background() -> None:
    world = World()
    acquire = world.acquire()
    world.connect()
    world.send_one()
    for _ in range(5):
        world.engine.ended(world.session, LOST, world.now)
        world.pass_time(2.5)
    assert isinstance(end(acquire), OutcomeUnknown)
    world.connect()
    request = world.send_one()
    assert not request.acquire.request.HasField("wait_timeout") or request.acquire.request.wait_timeout.seconds == 0
    world.grant(request)
    assert world.send_one().release.lease_id == "lease"


def test_an_abandoned_acquire_is_cancelled_and_its_grant_released() -> None:
    world = World()
    acquire = world.acquire(wait=30.0)
    world.connect()
    request = world.send_one()
    acquire.abandon(world.now)
    assert world.send_one().cancel.operation == request.operation
    world.grant(request)  # it crossed the cancellation
    assert world.send_one().release.lease_id == "lease"
    assert acquire.lease is None


def test_an_abandoned_acquire_that_was_never_sent_leaves_nothing() -> None:
    world = World()
    world.acquire(wait=30.0).abandon(world.now)
    assert world.engine.is_idle
    world.connect()
    assert world.sent() == []


def test_an_abandoned_acquire_without_an_answer_is_withdrawn_elsewhere() -> None:
    world = World(servers=2)
    acquire = world.acquire(wait=30.0)
    world.connect()
    first = world.send_one()
    acquire.abandon(world.now)
    world.engine.ended(world.session, LOST, world.now)
    world.connect()
    again = world.send_one()
    assert again.acquire.request.request_id == first.acquire.request.request_id
    assert again.acquire.request.attempt == 2
    assert again.acquire.request.wait_timeout.ToNanoseconds() == 0, "it does not go back into the queue"
    timed_out = pb.AcquireResponse(outcome=pb.AcquireResponse.OUTCOME_CONTENDED)
    world.answer(pb.SessionResponse(operation=again.operation, acquire=timed_out))
    assert world.engine.is_idle


def test_a_late_grant_is_renewed_before_it_is_handed_out() -> None:
    world = World()
    acquire = world.acquire(ttl=5.0)
    world.connect()
    request = world.send_one()
    world.pass_time(2.5)
    world.grant(request, ttl=5.0)
    assert acquire.lease is None
    renewal = world.send_one()
    assert renewal.renew.lease_id == "lease"
    renewed = pb.RenewResponse(outcome=pb.RenewResponse.OUTCOME_RENEWED, ttl=duration(5.0))
    world.answer(pb.SessionResponse(operation=renewal.operation, renew=renewed))
    assert acquire.lease is not None
    assert acquire.lease.remaining(world.now) > 4.5


def test_a_grant_that_is_over_is_released_and_acquired_again() -> None:
    world = World()
    patient, tried = world.acquire(wait=60.0, ttl=1.0), world.acquire(ttl=1.0)
    world.connect()
    first, second = world.sent()
    world.pass_time(2.0)
    world.grant(first, ttl=1.0, lease_id="old")
    world.grant(second, ttl=1.0, lease_id="older")
    released, _, again = world.sent()
    assert released.release.lease_id == "old"
    assert again.acquire.request.request_id != first.acquire.request.request_id
    assert again.acquire.request.attempt == 1
    world.grant(again, ttl=1.0)
    assert patient.lease is not None
    assert isinstance(end(tried), LockLost)


def test_request_ended_starts_anew_unless_the_caller_chose_the_id() -> None:
    chosen = "6e3f3ba2-4c1e-4c52-8f9f-111111111111"
    for request_id, codes in ((None, 2), (chosen, 1)):
        world = World()
        acquire = world.acquire(wait=60.0, request_id=request_id)
        world.connect()
        first = world.send_one()
        world.engine.ended(world.session, LOST, world.now)
        world.connect()
        world.fail(world.send_one(), code=10, reason="REQUEST_ENDED")
        again = world.sent()
        if request_id is None:
            assert again[0].acquire.request.request_id != first.acquire.request.request_id
            assert acquire.error is None
        else:
            assert isinstance(end(acquire), Refused)
        assert len(again) == codes - 1


def test_the_last_transmission_ends_with_the_time_for_retries() -> None:
    world = World(retry_for=1.0)
    tried, waited = world.acquire(), world.acquire(wait=3.0)
    world.connect()
    world.sent()
    world.pass_time(1.0)
    assert isinstance(end(tried), OutcomeUnknown)
    assert waited.error is None
    world.pass_time(3.0)
    assert isinstance(end(waited), OutcomeUnknown)


def test_without_retries_there_is_time_for_one_transmission() -> None:
    world = World(retry_for=0.0)
    acquire = world.acquire()
    world.pass_time(0.01)
    world.connect()
    world.grant(world.send_one())
    assert acquire.lease is not None


UNAVAILABLE = 14


def test_a_refused_acquire_waits_as_long_as_the_server_asks() -> None:
    world = World()
    world.acquire(wait=60.0)
    world.connect()
    world.fail(world.send_one(), UNAVAILABLE, "STORE_UNAVAILABLE", delay=3.0)
    world.pass_time(2.9)
    assert world.sent() == []
    world.pass_time(0.2)
    assert world.send_one().acquire.request.attempt == 2


def test_a_draining_server_that_refuses_is_left() -> None:
    world = World(servers=2)
    world.acquire(wait=60.0)
    world.connect()
    # Its message that it drains is late.
    world.fail(world.send_one(), UNAVAILABLE, "DRAINING")
    world.pass_time(0.1)
    world.connect()
    assert world.session.server == 1
    assert world.send_one().acquire.request.attempt == 2
