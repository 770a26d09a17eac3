"""The engine's rules of requests for which a session has no room, with messages and a clock of the test."""

from __future__ import annotations

import pytest
from support.engine import LOST, World, acquired, end

from fencepost._core.acquire import Acquire
from fencepost._core.convert import duration
from fencepost._core.failure import Failure
from fencepost._core.port import Call
from fencepost.errors import ClientClosed, OutcomeUnknown
from fencepost.v1 import lock_pb2 as pb

RESOURCE_EXHAUSTED = 8


def request(call: Call) -> pb.AcquireRequest:
    assert isinstance(call.request, pb.AcquireRequest)
    return call.request


def refused(world: World, wait: float = 30.0) -> tuple[Acquire, Call]:
    """An acquire that is sent by itself."""
    acquire = world.acquire(wait=wait)
    world.connect()
    world.fail(world.send_one(), RESOURCE_EXHAUSTED, "SESSION_FULL")
    (call,) = world.calls
    assert world.sent() == []
    return acquire, call


def answer(world: World, call: Call, result: pb.AcquireResponse | Failure, sent: float | None = None) -> None:
    world.engine.called(call, result, world.now if sent is None else sent, world.now)


def test_the_request_is_sent_by_itself_and_its_lease_is_renewed_alone() -> None:
    world = World()
    acquire, call = refused(world)
    assert (request(call).attempt, request(call).wait_timeout.seconds, call.session) == (2, 30, world.session)
    assert call.timeout == 35.0
    sent = world.now
    world.pass_time(1.0)
    answer(world, call, acquired(ttl=10.0), sent)
    assert acquire.lease is not None
    assert acquire.lease.valid_until == pytest.approx(sent + 10 - 0.1 - 0.5)
    assert world.sent() == []
    world.pass_time(3.2)
    renewal = world.send_one()
    assert renewal.renew.lease_id == "lease"
    renewed = pb.RenewResponse(outcome=pb.RenewResponse.OUTCOME_RENEWED, ttl=duration(10.0))
    world.answer(pb.SessionResponse(operation=renewal.operation, renew=renewed))
    assert acquire.lease.valid_until == pytest.approx(world.now + 10 - 0.1 - 0.5)
    world.engine.release(acquire.lease, world.now)
    assert world.send_one().release.lease_id == "lease"
    world.pass_time(4.9)
    assert world.sent() == [], "no renewal after the release"


def test_the_next_session_attaches_the_lease() -> None:
    world = World()
    acquire, call = refused(world)
    answer(world, call, acquired())
    world.engine.ended(world.session, LOST, world.now)
    world.connect()
    (attached,) = world.send_one().attach.leases
    assert (attached.lease_id, attached.attempt) == ("lease", 2)
    assert acquire.lease is not None


def test_a_grant_that_arrives_between_sessions_is_attached_to_the_next() -> None:
    world = World()
    acquire, call = refused(world)
    world.engine.ended(world.session, LOST, world.now)
    answer(world, call, acquired())
    assert acquire.lease is not None
    world.connect()
    assert len(world.send_one().attach.leases) == 1


def test_a_call_that_fails_is_repeated_on_the_session() -> None:
    world = World()
    acquire, call = refused(world)
    answer(world, call, LOST)
    world.pass_time(0.1)
    again = world.send_one().acquire.request
    assert (again.request_id, again.attempt) == (request(call).request_id, 3)
    assert acquire.error is None


def test_a_call_that_a_draining_server_refuses_is_repeated_on_the_next() -> None:
    world = World(servers=2)
    _, call = refused(world)
    answer(world, call, Failure("UNAVAILABLE", "draining", reason="DRAINING"))
    world.pass_time(0.1)
    world.connect()
    assert world.session.server == 1
    assert world.send_one().acquire.request.attempt == 3


def test_a_call_without_an_answer_is_cancelled_and_withdrawn() -> None:
    world = World()
    acquire, call = refused(world, wait=0.0)
    world.pass_time(5.1)
    assert world.cancelled == [call]
    world.pass_time(5.0)
    assert isinstance(end(acquire), OutcomeUnknown)
    # A late grant of the first call is found by the next attempt.
    answer(world, call, acquired())
    assert acquire.lease is None
    world.connect()
    withdrawal = world.sent()[-1]
    world.fail(withdrawal, RESOURCE_EXHAUSTED, "SESSION_FULL")
    last = world.calls[-1]
    assert last is not call
    assert request(last).wait_timeout.ToNanoseconds() == 0
    answer(world, last, acquired())
    assert world.send_one().release.lease_id == "lease"


def test_an_abandoned_call_is_cancelled_and_withdrawn() -> None:
    world = World()
    acquire, call = refused(world)
    acquire.abandon(world.now, ClientClosed())
    assert world.cancelled == [call]
    assert isinstance(end(acquire), ClientClosed)
    withdrawal = world.send_one()
    assert withdrawal.acquire.request.attempt == 3
    assert withdrawal.acquire.request.wait_timeout.ToNanoseconds() == 0


def test_an_abandoned_request_that_found_no_room_leaves_nothing() -> None:
    world = World()
    acquire = world.acquire(wait=30.0)
    world.connect()
    request = world.send_one()
    acquire.abandon(world.now)
    world.fail(request, RESOURCE_EXHAUSTED, "SESSION_FULL")
    assert world.calls == []
    assert world.engine.is_idle
