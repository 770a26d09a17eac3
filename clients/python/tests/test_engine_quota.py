"""The engine's rules above a quota, with messages and a clock of the test."""

from __future__ import annotations

import pytest
from support.engine import LOST, World, end

from fencepost import FencepostError, OutcomeUnknown, Refused, Unavailable
from fencepost._core.campaign import Campaign
from fencepost._core.failure import Failure
from fencepost._core.retries import Retries, Servers
from fencepost.v1 import lock_pb2 as pb

DELAY = 0.5
RESOURCE_EXHAUSTED = 8
OVER_QUOTA = Failure("RESOURCE_EXHAUSTED", "no more streams", "QUOTA_EXCEEDED", DELAY)
FULL = Failure("RESOURCE_EXHAUSTED", "too many streams", "SERVER_FULL", DELAY)


def refuse(world: World, request: pb.SessionRequest) -> None:
    world.fail(request, RESOURCE_EXHAUSTED, "QUOTA_EXCEEDED", DELAY)


def is_over_quota(error: FencepostError | None) -> bool:
    return isinstance(error, Refused) and (error.reason, error.retry_after) == ("QUOTA_EXCEEDED", DELAY)


def test_an_acquire_that_waits_is_repeated_on_the_same_session_after_the_delay() -> None:
    world = World(servers=2)
    acquire = world.acquire(wait=30.0)
    world.connect()
    first = world.send_one()
    # A session that is open for long would be left for another server if it did not answer well.
    world.pass_time(2.0)
    world.answer(pb.SessionResponse(operation=first.operation, waiting=pb.Waiting(ahead=1)))
    world.pass_time(8.0)
    refuse(world, first)
    world.pass_time(DELAY - 0.01)
    assert world.sent() == []
    world.pass_time(0.02)
    again = world.send_one()
    request = again.acquire.request
    assert (request.request_id, request.attempt) == (first.acquire.request.request_id, 2)
    assert 19 <= request.wait_timeout.seconds < 20
    world.grant(again)
    assert acquire.lease is not None
    assert len(world.opened) == 1


def test_one_that_does_not_wait_is_told_at_once() -> None:
    world = World()
    acquire = world.acquire()
    world.connect()
    refuse(world, world.send_one())
    assert is_over_quota(end(acquire))
    assert world.engine.is_idle


def test_a_wait_that_ends_above_the_quota_says_so_and_leaves_nothing_to_withdraw() -> None:
    world = World()
    acquire = world.acquire(wait=1.8)
    world.connect()
    times = 0
    while acquire.error is None:
        for request in world.sent():
            refuse(world, request)
            times += 1
        world.pass_time(0.05)
    assert is_over_quota(end(acquire))
    assert 2 <= times <= 4
    assert world.engine.is_idle


def test_one_that_is_abandoned_between_two_transmissions_sends_nothing_more() -> None:
    world = World()
    acquire = world.acquire(wait=30.0)
    world.connect()
    refuse(world, world.send_one())
    acquire.abandon(world.now)
    world.pass_time(2.0)
    assert world.sent() == []
    assert world.engine.is_idle


def test_a_request_that_may_be_applied_is_withdrawn_whatever_the_quota() -> None:
    world = World()
    acquire = world.acquire()
    world.connect()
    world.send_one()
    world.engine.ended(world.session, LOST, world.now)
    world.connect()
    refuse(world, world.send_one())
    assert is_over_quota(end(acquire))
    for _ in range(2):
        world.pass_time(DELAY + 0.1)
        request = world.send_one()
        refuse(world, request)
    world.pass_time(2 * DELAY)
    world.grant(world.send_one())
    assert world.send_one().release.lease_id == "lease"


@pytest.mark.parametrize("is_connected", [False, True])
def test_a_refused_session_is_opened_again_on_the_same_server(is_connected: bool) -> None:
    world = World(servers=2)
    acquire = world.acquire(wait=30.0)
    if is_connected:
        # The headers of a refusal may come before its status: what was sent meanwhile has no effect.
        world.connect()
        world.send_one()
    for times in range(1, 4):
        world.engine.ended(world.session, OVER_QUOTA, world.now)
        assert world.session.puzzle is None
        world.pass_time(DELAY - 0.01)
        assert len(world.opened) == times
        world.pass_time(2.0 - DELAY)
        assert len(world.opened) == times + 1
    world.connect()
    world.grant(world.send_one())
    assert acquire.lease is not None
    assert {it.server for it in world.opened} == {0}


def test_what_waits_for_a_refused_session_ends_in_its_time_and_says_why() -> None:
    world = World(retry_for=5.0)
    held = world.held(ttl=60.0)
    world.engine.ended(world.session, LOST, world.now)
    acquire, done = world.acquire(), list[bool]()
    release = world.engine.start_release(held, world.now, lambda: done.append(True))
    while not done:
        if not world.session.ended:
            world.engine.ended(world.session, OVER_QUOTA, world.now)
        world.pass_time(0.05)
    assert world.now == pytest.approx(1005, abs=0.1)
    assert is_over_quota(end(acquire))
    assert isinstance(release.error, OutcomeUnknown)
    assert is_over_quota(release.error.cause)
    assert len(world.opened) < 12


def test_an_acquire_that_never_was_sent_leaves_nothing() -> None:
    world = World()
    acquire = world.acquire(wait=30.0)
    world.engine.ended(world.session, OVER_QUOTA, world.now)
    acquire.abandon(world.now)
    assert world.engine.is_idle
    world.pass_time(5.0)
    assert len(world.opened) == 1


def test_leases_stay_with_the_server_that_refuses_their_session() -> None:
    world = World(servers=2)
    lease = world.held(ttl=10.0)
    world.engine.ended(world.session, LOST, world.now)
    for _ in range(2):
        world.pass_time(1.0)
        assert world.session.server == 1
        world.engine.ended(world.session, OVER_QUOTA, world.now)
    world.pass_time(1.0)
    world.connect()
    assert world.session.server == 1
    assert world.send_one().attach.leases[0].lock_name == lease.name


def test_a_server_that_is_full_is_left_for_the_next_one() -> None:
    world = World(servers=2, retry_for=5.0)
    acquire = world.acquire()
    while acquire.error is None:
        if not world.session.ended:
            world.engine.ended(world.session, FULL, world.now)
        world.pass_time(0.05)
    assert {it.server for it in world.opened} == {0, 1}
    error = end(acquire)
    assert isinstance(error, Refused)
    assert (error.reason, str(error)) == ("SERVER_FULL", "too many streams (SERVER_FULL)")


def test_a_campaign_pauses_as_long_as_the_server_asks_for() -> None:
    campaign = Campaign("a", World())
    assert campaign.failed(OVER_QUOTA.error()) >= DELAY


def test_a_stream_that_is_opened_again_waits_for_room() -> None:
    servers = Servers(["a", "b"])
    retries = Retries(servers, 0.0, 10.0, again=True)
    assert retries.failed(0, OVER_QUOTA, 0.0) >= DELAY
    assert servers.preferred == 0
    full = Failure("RESOURCE_EXHAUSTED", "no", "WATCHERS_FULL", DELAY)
    assert retries.failed(0, full, 1.0) >= DELAY
    assert servers.preferred == 1
    with pytest.raises(Refused) as late:
        retries.failed(1, OVER_QUOTA, 9.9)
    assert is_over_quota(late.value)


def test_a_call_is_told_at_once() -> None:
    servers = Servers(["a", "b"])
    with pytest.raises(Refused) as refused:
        Retries(servers, 0.0, 10.0).failed(0, OVER_QUOTA, 0.0)
    assert is_over_quota(refused.value)
    assert servers.preferred == 0


def test_what_is_not_reached_after_a_refusal_is_told_as_before() -> None:
    world = World(retry_for=5.0)
    acquire = world.acquire()
    world.engine.ended(world.session, OVER_QUOTA, world.now)
    world.connect()
    world.answer(pb.SessionResponse(beat=pb.Beat(beat=1)))
    world.sent()
    world.engine.ended(world.session, LOST, world.now)
    world.pass_time(10.0)
    assert not isinstance(end(acquire), (Refused, Unavailable)), "it was sent, and has no answer"
