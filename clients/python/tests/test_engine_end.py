"""The engine's rules of releases and of its own end, with messages and a clock of the test."""

from __future__ import annotations

from support.engine import LOST, World, end

from fencepost._core import timing
from fencepost._core.release import Release
from fencepost.errors import (
    ClientClosed,
    OutcomeUnknown,
)
from fencepost.types import LeaseEnd
from fencepost.v1 import lock_pb2 as pb


def test_no_renewal_is_sent_after_the_release() -> None:
    world = World()
    lease = world.held()
    world.answer(pb.SessionResponse(beat=pb.Beat(beat=1)))
    release = world.engine.start_release(lease, world.now, lambda: None)
    assert [it.WhichOneof("message") for it in world.sent()] == ["release", "answer"]
    assert not lease.is_valid(world.now)
    response = pb.ReleaseResponse(end=pb.LEASE_END_RELEASED)
    world.answer(pb.SessionResponse(operation=2, release=response))
    assert release.result is not None
    assert release.result.end is LeaseEnd.RELEASED


def test_a_release_is_repeated_in_the_background() -> None:
    world = World()
    lease = world.held(ttl=60.0)
    done: list[Release] = []
    release = world.engine.start_release(lease, world.now, lambda: done.append(release))
    world.sent()
    for _ in range(6):
        world.engine.ended(world.session, LOST, world.now)
        world.pass_time(2.5)
    assert len(done) == 1
    assert isinstance(release.error, OutcomeUnknown)
    world.connect()
    request = world.send_one()
    assert request.release.lease_id == "lease"
    world.answer(pb.SessionResponse(operation=request.operation, release=pb.ReleaseResponse(end=pb.LEASE_END_RELEASED)))
    assert world.engine.is_idle
    assert len(done) == 1


def test_a_refused_release_waits_as_long_as_the_server_asks() -> None:
    world = World()
    lease = world.held(ttl=60.0)
    world.engine.release(lease, world.now)
    world.fail(world.send_one(), code=14, reason="STORE_UNAVAILABLE", delay=3.0)
    assert world.send_one().HasField("detach"), "the server renews it no longer"
    world.pass_time(2.9)
    assert world.sent() == []
    world.pass_time(0.2)
    assert world.send_one().release.lease_id == "lease"


def test_an_idle_session_lingers_and_ends() -> None:
    world = World()
    lease = world.held()
    world.engine.release(lease, world.now)
    request = world.send_one()
    world.answer(pb.SessionResponse(operation=request.operation, release=pb.ReleaseResponse(end=pb.LEASE_END_RELEASED)))
    world.engine.rest(world.now)
    world.pass_time(timing.LINGER - 0.1)
    assert not world.session.ended
    world.pass_time(0.2)
    assert world.session.ended
    assert world.engine.timers.next() is None or world.engine.is_idle
    world.acquire()
    assert not world.session.ended, "the next acquire opens a session at once"
    assert world.session.server == 0


def test_close_ends_waits_and_releases_locks() -> None:
    world = World()
    lease = world.held()
    waiting = world.acquire(wait=60.0)
    request = world.send_one()
    world.engine.close(world.now)
    assert isinstance(end(waiting), ClientClosed)
    assert not lease.is_valid(world.now)
    sent = world.sent()
    assert {it.WhichOneof("message") for it in sent} == {"release", "cancel"}
    timed_out = pb.AcquireResponse(outcome=pb.AcquireResponse.OUTCOME_TIMED_OUT)
    world.answer(pb.SessionResponse(operation=request.operation, acquire=timed_out))
    release = next(it for it in sent if it.HasField("release"))
    world.answer(pb.SessionResponse(operation=release.operation, release=pb.ReleaseResponse(end=pb.LEASE_END_RELEASED)))
    world.engine.rest(world.now)
    assert world.session.ended


def test_cancelled_timers_are_swept() -> None:
    world = World()
    for _ in range(1000):
        world.engine.timers.cancel(world.engine.timers.at(world.now + 1000, lambda _: None))
    assert len(world.engine.timers._heap) < 200
