"""Servers that cannot be called, and connections that are dead: what that does to requests and leases."""

from __future__ import annotations

import pytest
from support.engine import LOST, World, end

from fencepost import OutcomeUnknown, Refused, Unavailable
from fencepost._core import timing
from fencepost._core.failure import Failure, not_fencepost, unsent, unsuitable
from fencepost._core.unreached import Unreached
from fencepost.v1 import lock_pb2 as pb

REFUSED = unsent("server-0: connection refused")
FOREIGN = unsuitable("server-0", " is a web server")


def fails(world: World, found: Failure | None) -> None:
    """The last session cannot be connected, and a look at its server shows why."""
    while world.session.ended:
        world.pass_time(0.05)
    session = world.session
    world.engine.ended(session, REFUSED, world.now)
    assert session.puzzle is REFUSED
    if found is not None:
        world.engine.diagnosed(session, found, world.now)


def test_a_permanent_failure_ends_calls_at_once() -> None:
    world = World()
    acquire = world.acquire(wait=600.0)
    fails(world, FOREIGN)
    assert isinstance(end(acquire), Unavailable)
    assert str(end(acquire)) == "no server could be reached: server-0 is a web server"
    assert not world.engine.flows


def test_a_failure_that_may_pass_does_not() -> None:
    world = World(retry_for=10.0)
    acquire = world.acquire()
    fails(world, unsent("server-0 hangs"))
    assert acquire.error is None
    # Until the next look, the last one stands.
    fails(world, None)
    world.pass_time(20.0)
    assert str(end(acquire)) == "no server could be reached: server-0 hangs"


def test_another_server_is_left() -> None:
    world = World(servers=2)
    acquire = world.acquire()
    fails(world, FOREIGN)
    assert acquire.error is None
    fails(world, not_fencepost("server-1"))
    assert isinstance(end(acquire), Unavailable)
    assert "server-0 is a web server; server-1 does not implement this call" in str(end(acquire))


def test_all_servers_are_of_another_service() -> None:
    world = World()
    acquire = world.acquire()
    world.engine.ended(world.session, not_fencepost("server-0"), world.now)
    refused = end(acquire)
    assert isinstance(refused, Refused)
    assert refused.code == "UNIMPLEMENTED"


def test_the_next_call_tries_again() -> None:
    world = World()
    world.acquire()
    fails(world, FOREIGN)
    again = world.acquire()
    world.connect()
    world.grant(world.send_one())
    assert again.lease is not None


def test_a_look_that_comes_too_late() -> None:
    world = World()
    first = world.acquire(wait=60.0)
    session = world.session
    world.engine.ended(session, REFUSED, world.now)
    world.connect()
    world.send_one()
    second = world.acquire(wait=60.0)
    world.engine.diagnosed(session, FOREIGN, world.now)
    assert first.error is second.error is None


def test_held_locks_are_not_touched() -> None:
    world = World()
    lease = world.held(ttl=10.0)
    world.engine.ended(world.session, LOST, world.now)
    fails(world, FOREIGN)
    assert lease.is_valid(world.now)
    acquire = world.acquire()
    fails(world, FOREIGN)
    assert isinstance(end(acquire), Unavailable)
    assert lease.is_valid(world.now)
    world.connect()
    attach = world.send_one().attach.leases[0]
    assert attach.lock_name == lease.name


def test_a_request_that_may_have_taken_effect_is_withdrawn_until_a_server_is_there() -> None:
    world = World()
    acquire = world.acquire()
    world.connect()
    first = world.send_one()
    world.engine.ended(world.session, LOST, world.now)
    fails(world, FOREIGN)
    assert isinstance(end(acquire), OutcomeUnknown)
    fails(world, FOREIGN)
    world.connect()
    again = world.send_one()
    assert again.acquire.request.request_id == first.acquire.request.request_id
    world.grant(again)
    (release,) = [it for it in world.sent() if it.HasField("release")]
    assert release.release.lease_id == "lease"


def test_a_release_goes_on_in_the_background() -> None:
    world = World()
    lease = world.held(ttl=10.0)
    world.engine.ended(world.session, LOST, world.now)
    done: list[bool] = []
    release = world.engine.start_release(lease, world.now, lambda: done.append(True))
    fails(world, FOREIGN)
    assert done == [True]
    assert isinstance(release.error, Unavailable)
    world.connect()
    assert world.send_one().release.lease_id == "lease"


def test_a_request_without_a_sign_of_life_moves_to_a_new_connection() -> None:
    world = World()
    acquire = world.acquire(wait=60.0)
    world.connect()
    first = world.send_one()
    world.pass_time(timing.SIGN_TIMEOUT - 0.1)
    assert not world.session.ended
    world.pass_time(0.2)
    assert world.closed == [world.opened[0]]
    world.connect()
    again = world.send_one()
    assert again.acquire.request.attempt == first.acquire.request.attempt + 1
    assert acquire.error is None


@pytest.mark.parametrize("sign", ["waiting", "answer"])
def test_a_sign_of_life(sign: str) -> None:
    world = World()
    world.acquire(wait=60.0)
    world.connect()
    request = world.send_one()
    if sign == "waiting":
        world.answer(pb.SessionResponse(operation=request.operation, waiting=pb.Waiting(ahead=1)))
    else:
        world.grant(request, ttl=60.0)
    world.pass_time(2 * timing.SIGN_TIMEOUT)
    assert world.closed == []


def test_another_message_is_a_sign_for_a_while() -> None:
    world = World()
    world.acquire(wait=60.0)
    world.connect()
    world.send_one()
    world.pass_time(timing.SIGN_TIMEOUT - 0.1)
    world.answer(pb.SessionResponse(beat=pb.Beat(beat=1)))
    world.pass_time(timing.SIGN_TIMEOUT - 0.1)
    assert world.closed == []
    world.pass_time(0.2)
    assert len(world.closed) == 1


def test_what_is_known_of_servers() -> None:
    unreached = Unreached(["a:1", "b:2"])
    both = "a:1: no connection in time; b:2: no connection in time"
    assert str(unreached.failure().error()) == f"no server could be reached: {both}"
    unreached.note(0, unsent("a:1: cut"))
    unreached.diagnose(0, unsent("a:1 hangs"))
    unreached.note(0, unsent("a:1: cut again"))
    assert unreached.failure().message == "a:1 hangs"
    unreached.works(0)
    unreached.note(0, unsent("a:1: cut again"))
    assert unreached.failure().message == "a:1: cut again"
    assert not unreached.is_hopeless
