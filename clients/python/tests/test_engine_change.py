"""The engine: changes of a lease that is held, by calls of their own."""

from __future__ import annotations

import pytest
from support.engine import LOST, World

from fencepost._core.conversion import Conversion
from fencepost._core.failure import Failure
from fencepost._core.lease import Lease
from fencepost._core.port import Answer, Call
from fencepost.errors import ClientClosed, FencepostError, LockLost, OutcomeUnknown, Refused, Unavailable
from fencepost.types import LockMode, Loss, LossReason
from fencepost.v1 import lock_pb2 as pb

CONVERTED = pb.ConvertResponse(outcome=pb.ConvertResponse.OUTCOME_CONVERTED, fencing_token=7)
CONTENDED = pb.ConvertResponse(outcome=pb.ConvertResponse.OUTCOME_CONTENDED)
LEASE_LOST = pb.ConvertResponse(outcome=pb.ConvertResponse.OUTCOME_LOST, end=pb.LEASE_END_REVOKED, successor_token=9)


def convert(world: World, lease: Lease, mode: LockMode = LockMode.EXCLUSIVE) -> tuple[Conversion, list[str]]:
    done: list[str] = []
    conversion = Conversion(world.engine, lease, mode, lambda: done.append("done"))
    conversion.begin(world.now)
    return conversion, done


def calls(world: World) -> list[Call]:
    """What is sent apart from the session now."""
    world.sent()
    calls, world.calls = world.calls, []
    return calls


def call(world: World) -> Call:
    (call,) = calls(world)
    return call


def answer(world: World, call: Call, result: Answer | Failure) -> None:
    world.engine.called(call, result, world.now, world.now)


def request(call: Call) -> tuple[str, int, pb.LockMode]:
    assert isinstance(call.request, pb.ConvertRequest)
    return call.request.lease_id, call.request.fencing_token, call.request.mode


def test_a_repeat_has_the_same_token_and_the_answer_has_the_one_of_now() -> None:
    world = World()
    lease = world.held()
    conversion, done = convert(world, lease)
    first = call(world)
    answer(world, first, LOST)
    assert calls(world) == []
    world.pass_time(1.0)
    second = call(world)
    assert request(first) == request(second) == ("lease", 1, pb.LOCK_MODE_EXCLUSIVE)
    answer(world, second, CONVERTED)
    assert (conversion.converted, conversion.error, done) == (True, None, ["done"])
    assert (lease.token, lease.mode) == (7, LockMode.EXCLUSIVE)
    assert not world.engine.flows


def test_others_share_the_lock() -> None:
    world = World()
    lease = world.held()
    lease.mode = LockMode.SHARED
    conversion, _ = convert(world, lease)
    answer(world, call(world), CONTENDED)
    assert (conversion.converted, conversion.error) == (False, None)
    assert (lease.token, lease.mode) == (1, LockMode.SHARED)


def test_the_server_has_lost_the_lease() -> None:
    world = World()
    lease = world.held()
    conversion, done = convert(world, lease)
    answer(world, call(world), LEASE_LOST)
    assert lease.lost == Loss(LossReason.REVOKED, 9)
    assert isinstance(conversion.error, LockLost)
    assert done == ["done"]
    again, _ = convert(world, lease)
    assert isinstance(again.error, LockLost)
    assert calls(world) == []


def test_one_change_at_a_time_and_each_has_the_token_of_the_one_before() -> None:
    world = World()
    lease = world.held()
    (first, _), (second, _) = convert(world, lease), convert(world, lease, LockMode.SHARED)
    answer(world, call(world), CONVERTED)
    assert first.converted
    following = call(world)
    assert request(following) == ("lease", 7, pb.LOCK_MODE_SHARED)
    answer(world, following, CONVERTED)
    assert (second.converted, lease.mode) == (True, LockMode.SHARED)


@pytest.mark.parametrize("ends", ["lost", "released", "closed"])
def test_the_end_of_the_lease_ends_all_changes(ends: str) -> None:
    world = World()
    lease = world.held()
    both = [convert(world, lease), convert(world, lease)]
    sent = call(world)
    kind: type[FencepostError]
    if ends == "lost":
        kind = LockLost
        world.engine.lose(lease, Loss(LossReason.SILENCE))
    elif ends == "released":
        kind = FencepostError
        world.engine.release(lease, world.now)
    else:
        kind = ClientClosed
        world.engine.close(world.now)
    assert world.cancelled == [sent]
    assert [(type(it.error), done) for it, done in both] == [(kind, ["done"])] * 2
    answer(world, sent, CONVERTED)
    assert (lease.token, lease.changes) == (1, [])


def test_what_became_of_a_change_is_unknown_when_the_time_is_over() -> None:
    world = World(retry_for=2.0)
    lease = world.held(ttl=100.0)
    conversion, _ = convert(world, lease)
    sent = call(world)
    assert sent.timeout == 2.0
    world.pass_time(2.0)
    assert isinstance(conversion.error, OutcomeUnknown)
    assert world.cancelled == [sent]
    again, _ = convert(world, lease)
    answer(world, call(world), CONVERTED)
    assert (again.converted, lease.token) == (True, 7)


def test_nothing_was_done_when_no_session_works() -> None:
    world = World(retry_for=2.0)
    lease = world.held(ttl=100.0)
    world.engine.ended(world.session, LOST, world.now)
    conversion, _ = convert(world, lease)
    world.pass_time(2.0)
    assert isinstance(conversion.error, Unavailable)
    assert world.calls == []


@pytest.mark.parametrize(
    ("refusal", "is_unknown"),
    [
        (Failure("FAILED_PRECONDITION", "no", "NOT_CONVERTIBLE"), False),
        (Failure("ABORTED", "no", "TOKEN_OUTDATED"), False),
        (Failure("PERMISSION_DENIED", "no", "NOT_PERMITTED"), True),
    ],
)
def test_a_refusal_of_a_repeat(refusal: Failure, is_unknown: bool) -> None:
    world = World()
    lease = world.held()
    conversion, _ = convert(world, lease)
    answer(world, call(world), LOST)
    world.pass_time(1.0)
    answer(world, call(world), refusal)
    error = conversion.error
    if is_unknown:
        assert isinstance(error, OutcomeUnknown)
        error = error.cause
    assert isinstance(error, Refused)
    assert error.reason == refusal.reason


def test_an_older_server_does_not_know_the_call() -> None:
    world = World()
    conversion, _ = convert(world, world.held())
    answer(world, call(world), Failure("UNIMPLEMENTED", "unknown method"))
    assert isinstance(conversion.error, Refused)
    assert "server-0 does not implement this call" in str(conversion.error)


@pytest.mark.parametrize(
    ("asked", "answered", "mode"),
    [
        (True, pb.LOCK_MODE_UNSPECIFIED, LockMode.SHARED),
        (True, pb.LOCK_MODE_EXCLUSIVE, LockMode.EXCLUSIVE),
        (False, pb.LOCK_MODE_UNSPECIFIED, LockMode.EXCLUSIVE),
    ],
)
def test_the_mode_is_the_one_of_the_answer(asked: bool, answered: pb.LockMode, mode: LockMode) -> None:
    world = World()
    acquire = world.acquire(shared=asked)
    world.connect()
    world.grant(world.send_one(), mode=answered)
    assert acquire.lease is not None
    assert acquire.lease.mode is mode
