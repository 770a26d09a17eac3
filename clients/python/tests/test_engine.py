"""The rules of the engine, with messages and a clock of the test."""

from __future__ import annotations

import pytest

from fencepost._core import requests, timing
from fencepost._core.acquire import Acquire
from fencepost._core.convert import duration
from fencepost._core.engine import Engine
from fencepost._core.failure import Failure, unsent
from fencepost._core.lease import Lease
from fencepost._core.release import Release
from fencepost._core.session import Session
from fencepost.errors import (
    ClientClosed,
    Contended,
    FencepostError,
    LockLost,
    OutcomeUnknown,
    Refused,
    TimedOut,
    Unavailable,
)
from fencepost.types import LeaseEnd, Loss, LossReason
from fencepost.v1 import lock_pb2 as pb

LOST = Failure("UNAVAILABLE", "connection reset")


class World:
    """An engine, its port, and the time."""

    def __init__(self, servers: int = 1) -> None:
        self.now = 1000.0
        self.opened: list[Session] = []
        self.closed: list[Session] = []
        self.engine = Engine(self, servers, timing.RETRY_FOR)

    def open(self, session: Session) -> None:
        self.opened.append(session)

    def wake(self, session: Session) -> None:
        pass

    def close(self, session: Session) -> None:
        self.closed.append(session)

    @property
    def session(self) -> Session:
        return self.opened[-1]

    def connect(self) -> Session:
        """Connects the last session, after the pause before it."""
        for _ in range(100):
            if not self.session.ended and not self.session.connected:
                break
            self.pass_time(0.05)
        self.engine.connected(self.session, self.now)
        return self.session

    def pass_time(self, seconds: float) -> None:
        end = self.now + seconds
        while (due := self.engine.timers.next()) is not None and due <= end:
            self.now = max(due, self.now)
            self.engine.timers.run(self.now)
            self.engine.rest(self.now)
        self.now = end

    def acquire(self, wait: float = 0.0, ttl: float = 10.0, name: str = "a", request_id: str | None = None) -> Acquire:
        request = requests.acquire(name, ttl, wait, "me", None, request_id, 0)
        return Acquire(self.engine, request, self.now, lambda: None)

    def sent(self, session: Session | None = None) -> list[pb.SessionRequest]:
        """What is sent now."""
        messages: list[pb.SessionRequest] = []
        while (message := self.engine.next(session or self.session, self.now)) is not None:
            messages.append(message)
        return messages

    def send_one(self, session: Session | None = None) -> pb.SessionRequest:
        (message,) = self.sent(session)
        return message

    def answer(self, response: pb.SessionResponse, session: Session | None = None) -> None:
        self.engine.received(session or self.session, response, self.now)

    def grant(self, request: pb.SessionRequest, ttl: float = 10.0, token: int = 1, lease_id: str = "lease") -> None:
        lease = pb.Lease(lock_name="a", lease_id=lease_id, grant_id="grant", fencing_token=token, ttl=duration(ttl))
        acquired = pb.AcquireResponse(outcome=pb.AcquireResponse.OUTCOME_ACQUIRED, lease=lease)
        self.answer(pb.SessionResponse(operation=request.operation, acquire=acquired))

    def fail(self, request: pb.SessionRequest, code: int, reason: str = "") -> None:
        from google.rpc import error_details_pb2

        error = pb.OperationError(code=code, message="no")
        if reason:
            error.details.add().Pack(error_details_pb2.ErrorInfo(domain="fencepost", reason=reason))
        self.answer(pb.SessionResponse(operation=request.operation, error=error))

    def held(self, ttl: float = 10.0) -> Lease:
        acquire = self.acquire(ttl=ttl)
        self.connect()
        request = self.sent()[-1]
        self.grant(request, ttl)
        assert acquire.lease is not None
        return acquire.lease


def end(of: Acquire) -> FencepostError:
    assert of.error is not None
    return of.error


def test_nothing_is_sent_before_the_connection_is_made() -> None:
    world = World()
    world.acquire()
    assert world.sent() == []
    world.pass_time(0.5)
    world.connect()
    request = world.send_one()
    world.grant(request)
    (lease,) = world.engine._leases
    assert lease.valid_until == pytest.approx(world.now + 10 - 0.1 - 0.5)


def test_the_outcomes_of_an_acquire() -> None:
    world = World()
    refused, waited = world.acquire(), world.acquire(wait=5.0)
    world.connect()
    first, second = world.sent()
    assert second.acquire.request.wait_timeout.seconds == 5
    holders = [pb.LockHolder(holder="other", fencing_token=3)]
    contended = pb.AcquireResponse(outcome=pb.AcquireResponse.OUTCOME_CONTENDED, holders=holders, waiters=2)
    world.answer(pb.SessionResponse(operation=first.operation, acquire=contended))
    # The answer to a retry of a wait that was over.
    world.answer(pb.SessionResponse(operation=second.operation, acquire=contended))
    assert isinstance(end(refused), Contended)
    assert str(end(refused)) == "a is contended: it is held by other, 2 waiting"
    timed_out = end(waited)
    assert isinstance(timed_out, TimedOut)
    assert timed_out.waiters == 2
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
    timed_out = pb.AcquireResponse(outcome=pb.AcquireResponse.OUTCOME_CONTENDED)
    world.answer(pb.SessionResponse(operation=again.operation, acquire=timed_out))
    assert world.engine.is_idle


def test_a_late_grant_is_renewed_before_it_is_handed_out() -> None:
    world = World()
    acquire = world.acquire(ttl=10.0)
    world.connect()
    request = world.send_one()
    world.pass_time(4.9)
    world.grant(request, ttl=10.0)
    assert acquire.lease is None
    renewal = world.send_one()
    assert renewal.renew.lease_id == "lease"
    renewed = pb.RenewResponse(outcome=pb.RenewResponse.OUTCOME_RENEWED, ttl=duration(10.0))
    world.answer(pb.SessionResponse(operation=renewal.operation, renew=renewed))
    assert acquire.lease is not None
    assert acquire.lease.remaining(world.now) > 9


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
    world.answer(pb.SessionResponse(attached=attached))
    assert lease.remaining(world.now) > 9


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
