"""The engine's rules of renewals and losses, with messages and a clock of the test."""

from __future__ import annotations

import pytest
from support.engine import LOST, World

from fencepost._core import timing
from fencepost._core.convert import duration
from fencepost._core.lease import Lease
from fencepost.types import Loss, LossReason
from fencepost.v1 import lock_pb2 as pb


def test_a_renewal_counts_from_the_answer_to_its_beat() -> None:
    world = World()
    lease = world.held()
    world.pass_time(4.0)
    world.answer(pb.SessionResponse(beat=pb.Beat(beat=1)))
    assert world.send_one().answer.beat == 1
    sent = world.now
    world.pass_time(1.0)
    renewed = pb.Renewed(beat=1, leases=[pb.RenewedLeases(ttl=duration(10.0), handles=[1])])
    world.answer(pb.SessionResponse(renewed=renewed))
    assert lease.valid_until == pytest.approx(sent + 10 - 0.1 - 0.5)
    forgotten = pb.Renewed(beat=9, leases=[pb.RenewedLeases(ttl=duration(100.0), handles=[1])])
    world.answer(pb.SessionResponse(renewed=forgotten))
    assert lease.valid_until == pytest.approx(sent + 10 - 0.1 - 0.5)


def test_a_paused_process_loses_first_and_answers_no_beat_for_the_lost() -> None:
    world = World()
    lease = world.held()
    world.now += 60.0  # no timer ran
    world.answer(pb.SessionResponse(beat=pb.Beat(beat=1)))
    assert lease.lost == Loss(LossReason.SILENCE)
    kinds = [it.WhichOneof("message") for it in world.sent()]
    assert kinds == ["detach", "answer"]


def test_a_beat_is_answered_before_anything_that_can_wait() -> None:
    world = World()
    lease = world.held()
    world.acquire(name="b")
    detached = pb.Detached(handle=1, reason=pb.Detached.REASON_ATTACHED_ELSEWHERE)
    world.answer(pb.SessionResponse(detached=detached))
    world.answer(pb.SessionResponse(beat=pb.Beat(beat=1)))
    assert [it.WhichOneof("message") for it in world.sent()] == ["answer", "attach", "acquire"]
    assert lease.attempt == 2


def detach(world: World, handle: int) -> None:
    """Another attachment of the lease has replaced that with this handle."""
    detached = pb.Detached(handle=handle, reason=pb.Detached.REASON_ATTACHED_ELSEWHERE)
    world.answer(pb.SessionResponse(detached=detached))


def moved(world: World) -> int:
    """Moves to the next session. Returns the handle of the lease there, or 0 if it is not attached."""
    world.engine.ended(world.session, LOST, world.now)
    world.connect()
    return sum(it.handle for message in world.sent() for it in message.attach.leases)


def test_a_lease_that_was_attached_elsewhere_is_attached_again_once_for_each_session() -> None:
    world = World()
    lease, handle = world.held(ttl=60.0), 1
    for attempt in (2, 4, 6):
        detach(world, handle)
        (again,) = world.send_one().attach.leases
        assert (again.lease_id, again.attempt, lease.at_risk) == ("lease", attempt, False)
        # A message of this session may replace the attachment to the next one.
        handle = moved(world)


def test_a_lease_that_another_process_keeps_is_given_up_for_good() -> None:
    world = World()
    lease = world.held(ttl=60.0)
    detach(world, 1)
    (again,) = world.send_one().attach.leases
    detach(world, again.handle)
    assert world.sent() == []
    assert lease.at_risk
    assert lease.is_valid(world.now)
    assert moved(world) == 0
    world.pass_time(60.0)
    assert lease.lost == Loss(LossReason.SILENCE)
    assert world.engine.is_idle


def test_a_lease_that_is_given_up_sets_no_pace() -> None:
    """The beats are those of the leases that the session keeps: no silence is measured by another one."""
    world = World()
    world.held(ttl=60.0)
    acquire = world.acquire(name="b", ttl=2.0)
    request = world.send_one()
    world.grant(request, 2.0, lease_id="short")
    assert acquire.lease is not None
    detach(world, request.acquire.handle)
    (again,) = world.send_one().attach.leases
    detach(world, again.handle)
    world.pass_time(3.0)
    assert acquire.lease.lost == Loss(LossReason.SILENCE)
    assert len(world.opened) == 1


def test_the_server_reports_leases_at_risk() -> None:
    world = World()
    lease, risks = world.held(), 0

    def on_at_risk() -> None:
        nonlocal risks
        risks += 1

    lease.on_at_risk = on_at_risk
    for _ in range(2):
        world.answer(pb.SessionResponse(at_risk=pb.AtRisk(handles=[1, 7])))
    assert (risks, lease.at_risk) == (1, True)
    assert lease.is_valid(world.now)


def test_silence_moves_the_leases_to_the_next_server() -> None:
    world = World(servers=2)
    lease = world.held(ttl=10.0)
    world.pass_time(4.9)
    assert not world.session.ended
    world.pass_time(0.2)
    assert world.opened[0].ended
    world.pass_time(0.1)
    assert world.session.server == 1
    world.connect()
    attach = world.send_one().attach.leases
    assert [(it.lease_id, it.attempt) for it in attach] == [("lease", 2)]
    attached = pb.Attached(leases=[pb.RenewedLeases(ttl=duration(10.0), handles=[attach[0].handle])])
    sent = world.now
    world.pass_time(0.3)
    world.answer(pb.SessionResponse(attached=attached))
    assert lease.valid_until == pytest.approx(sent + 10 - 0.1 - 0.5)


def test_a_lease_is_lost_once_when_all_servers_are_silent() -> None:
    world = World()
    lease, ends = world.held(ttl=10.0), 0

    def on_end() -> None:
        nonlocal ends
        ends += 1

    lease.on_end = on_end
    world.pass_time(30.0)
    assert (lease.lost, ends) == (Loss(LossReason.SILENCE), 1)
    assert world.engine.is_idle


def test_the_server_reports_a_loss() -> None:
    world = World()
    lease = world.held()
    lost = pb.Lost(handle=1, end=pb.LEASE_END_REVOKED, successor_token=9)
    world.answer(pb.SessionResponse(lost=lost))
    assert lease.lost == Loss(LossReason.REVOKED, 9)
    assert world.engine.is_idle


def test_a_drain_keeps_the_old_session_until_the_next_keeps_all() -> None:
    world = World(servers=2)
    lease = world.held()
    old = world.session
    world.answer(pb.SessionResponse(draining=pb.Draining(grace=duration(10.0))))
    world.pass_time(0.1)
    assert world.session is not old
    assert not old.ended
    new = world.connect()
    (attach,) = world.send_one().attach.leases
    # The old session still answers beats.
    world.answer(pb.SessionResponse(beat=pb.Beat(beat=5)), old)
    assert world.send_one(old).answer.beat == 5
    # The lease is the new session's now: the old one says so, and that is no news.
    detached = pb.Detached(handle=1, reason=pb.Detached.REASON_ATTACHED_ELSEWHERE)
    world.answer(pb.SessionResponse(detached=detached), old)
    assert not lease.at_risk
    attached = pb.Attached(leases=[pb.RenewedLeases(ttl=duration(10.0), handles=[attach.handle])])
    world.answer(pb.SessionResponse(attached=attached), new)
    assert old.ended
    assert not new.ended


def moved_to_a_full_session(world: World) -> Lease:
    lease = world.held(ttl=10.0)
    world.engine.ended(world.session, LOST, world.now)
    world.connect()
    (attach,) = world.send_one().attach.leases
    full = pb.Detached(handle=attach.handle, reason=pb.Detached.REASON_STREAM_FULL)
    world.answer(pb.SessionResponse(detached=full))
    return lease


def test_a_lease_that_has_no_room_on_its_session_is_renewed_by_itself() -> None:
    world = World()
    lease = moved_to_a_full_session(world)
    renewed = pb.RenewResponse(outcome=pb.RenewResponse.OUTCOME_RENEWED, ttl=duration(10.0))
    for _ in range(5):
        request = world.send_one()
        assert request.renew.lease_id == "lease"
        world.answer(pb.SessionResponse(operation=request.operation, renew=renewed))
        assert lease.valid_until == pytest.approx(world.now + 10 - 0.1 - 0.5)
        world.pass_time(2.4)
        assert world.sent() == []
        world.pass_time(1.0)
    assert not lease.at_risk
    # One that fails is soon repeated.
    world.fail(world.send_one(), code=14)
    world.pass_time(0.1)
    assert world.send_one().renew.lease_id == "lease"
    # None is sent after the release.
    world.engine.release(lease, world.now)
    assert world.send_one().release.lease_id == "lease"
    world.pass_time(5.0)
    assert world.sent() == []


def test_the_next_session_may_have_room() -> None:
    world = World()
    moved_to_a_full_session(world)
    world.send_one()
    world.engine.ended(world.session, LOST, world.now)
    world.connect()
    assert len(world.send_one().attach.leases) == 1
    world.pass_time(3.0)
    assert world.sent() == []


def test_a_renewal_by_itself_reports_a_loss() -> None:
    world = World()
    lease = moved_to_a_full_session(world)
    request = world.send_one()
    lost = pb.RenewResponse(outcome=pb.RenewResponse.OUTCOME_LOST, end=pb.LEASE_END_REVOKED, successor_token=9)
    world.answer(pb.SessionResponse(operation=request.operation, renew=lost))
    assert lease.lost == Loss(LossReason.REVOKED, 9)
    assert world.engine.is_idle
    world.engine.rest(world.now)
    world.pass_time(timing.LINGER + 0.1)
    assert world.session.ended
    assert world.engine.timers.next() is None
