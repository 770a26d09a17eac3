"""One acquire, over all of its transmissions.

Each transmission has the same request id and the next attempt number, so the effect is that of one request, whatever
the network lost or delayed. If the caller gives up, or the time is over with the outcome unknown, the request goes on
without its caller: a further attempt without a wait withdraws it from the queue, or gets the lease, which is released.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING

from fencepost._core import failure, timing
from fencepost._core.convert import delay, duration, from_duration, holder, lease_end, semaphore
from fencepost._core.failure import Failure
from fencepost._core.lease import Lease
from fencepost._core.port import Answer, Call
from fencepost._core.renew import Renew
from fencepost._core.requests import permits
from fencepost._core.session import Operation, Session
from fencepost._core.timers import Timer
from fencepost._core.validity import Reading
from fencepost._facts import LATE_DIVISOR
from fencepost.errors import Contended, FencepostError, LockLost, OutcomeUnknown, TimedOut
from fencepost.types import LeaseEnd, LossReason
from fencepost.v1 import lock_pb2 as pb

if TYPE_CHECKING:
    from fencepost._core.campaign import Campaign
    from fencepost._core.engine import Engine


class Acquire:
    """A request for a lock. ``on_done`` is called once, with ``lease`` or ``error`` set."""

    is_acquire = True

    def __init__(
        self,
        engine: Engine,
        request: pb.AcquireRequest,
        now: float,
        on_done: Callable[[], None],
        campaign: Campaign | None = None,
    ) -> None:
        self.lease: Lease | None = None
        self.previous_end = LeaseEnd.UNSPECIFIED
        self.error: FencepostError | None = None
        self.ahead: int | None = None
        """The number of requests ahead in the queue, at most."""
        self._engine = engine
        self._request = request
        self._chose_id = not request.request_id
        if self._chose_id:
            request.request_id = str(uuid.uuid4())
        self._ttl = from_duration(request.ttl)
        """0 if the server chooses it."""
        self._waits = bool(from_duration(request.wait_timeout))
        self._wait_until = now + from_duration(request.wait_timeout)
        self._until = self._wait_until + engine.retry_for
        self._on_done: Callable[[], None] | None = on_done
        self._campaign = campaign
        """Of an elector, which is told how its long wait goes."""
        self._withdrawing = False
        """Whether nobody waits for the lock any more."""
        self._transmissions = 0
        self._may_be_applied = False
        """Whether a transmission may have taken effect."""
        self._was_applied = False
        """The same without the last transmission."""
        self._retries = 0
        self._operation: Operation | None = None
        self._call: Call | None = None
        """The transmission apart from the session, if that is the last one."""
        self._last: Failure | None = None
        self._answer: Failure | None = None
        """The last failure that a server answered."""
        self._timer: Timer | None = engine.timers.at(self._until, self._over)
        engine.send(self, now)

    # From the session

    def message(self, number: int, handle: int, now: float) -> pb.SessionRequest | None:
        if self not in self._engine.flows:
            return None
        self._next_attempt(now)
        acquire = pb.SessionAcquire(request=self._request, handle=handle)
        return pb.SessionRequest(operation=number, acquire=acquire)

    def _next_attempt(self, now: float) -> float:
        """Prepares the next transmission. Returns how long it may take."""
        self._transmissions += 1
        self._was_applied, self._may_be_applied = self._may_be_applied, True
        left = 0.0 if self._withdrawing else max(self._wait_until - now, 0.0)
        self._request.attempt = self._transmissions
        self._request.wait_timeout.CopyFrom(duration(left))
        answer_time = timing.CALL_TIMEOUT if left else self._engine.answer_time
        late = min(now + left + answer_time, max(self._until, now + timing.TRANSMISSION_MIN))
        self._set_timer(late, self._late)
        return late - now

    def sent(self, operation: Operation) -> None:
        self._operation = operation

    def waiting(self, ahead: int) -> None:
        self.ahead = ahead
        if self._campaign is not None:
            self._campaign.works()

    def answered(self, session: Session, operation: Operation, response: pb.SessionResponse, now: float) -> None:
        self._operation = None
        self._set_timer(self._until, self._over)
        if response.HasField("acquire"):
            sent = operation.sent
            self._answered(response.acquire, sent, now, lambda it: session.granted(operation.handle, it, sent))
            return
        error = failure.from_operation(response.error)
        if not error.is_session_full:
            self._refused(error, session, now)
        elif self._withdrawing and not self._was_applied:
            self._finish(None)
        else:
            self._may_be_applied = self._was_applied
            self._send_alone(session, now)

    def called(self, call: Call, result: Answer | Failure, sent: float, now: float) -> None:
        """A transmission apart from the session was answered, or failed."""
        self._call = None
        self._set_timer(self._until, self._over)
        if isinstance(result, Failure):
            self._refused(result, call.session, now)
        else:
            assert isinstance(result, pb.AcquireResponse)
            self._answered(result, sent, now, None)

    def failed(self, failure: Failure, now: float) -> None:
        if self._operation is not None and not failure.sent:
            self._may_be_applied = self._was_applied
        self._operation = None
        self._set_timer(self._until, self._over)
        self._failed(failure)
        if failure.is_transient or failure.is_no_room or (self._withdrawing and failure.permanent):
            self._engine.send(self, now)
        else:
            # A refusal says what to correct, also if an earlier transmission may have taken effect.
            self._give_up(self._as_known(failure) if failure.permanent else failure.error(), now)

    # From the caller

    def abandon(self, now: float, error: FencepostError | None = None) -> None:
        """The caller gives up."""
        if self.lease is not None:
            self._engine.release(self.lease, now)
        elif self in self._engine.flows and not self._withdrawing:
            self._report(error)
            self._withdraw(now)

    # Steps

    def _send_alone(self, session: Session, now: float) -> None:
        """Sends the request by itself: the session has no room for its lease."""
        timeout = self._next_attempt(now)
        request = pb.AcquireRequest()
        request.CopyFrom(self._request)
        self._call = Call(session, self, request, timeout)
        self._engine.port.call(self._call)

    def _answered(
        self, answer: pb.AcquireResponse, sent: float, now: float, attach: Callable[[Lease], None] | None
    ) -> None:
        self._may_be_applied = False
        if answer.outcome == pb.AcquireResponse.OUTCOME_ACQUIRED:
            self._granted(answer, sent, now, attach)
        elif answer.outcome == pb.AcquireResponse.OUTCOME_UNSPECIFIED:
            self._finish(Failure("INTERNAL", "unknown answer from the server").error())
        else:
            # CONTENDED answers a retry that arrives when the wait is over. During the wait it means that the queue has
            # its max_waiters.
            is_full = self._request.max_waiters and from_duration(self._request.wait_timeout)
            waited = (self._waits and not is_full) or answer.outcome == pb.AcquireResponse.OUTCOME_TIMED_OUT
            kind = TimedOut if waited else Contended
            name, holders, count = self._request.lock_name, tuple(map(holder, answer.holders)), answer.holder_count
            self._finish(kind(name, holders, count, answer.waiters, delay(answer), semaphore(answer)))

    def _granted(
        self, answer: pb.AcquireResponse, sent: float, now: float, attach: Callable[[Lease], None] | None
    ) -> None:
        reading = Reading(sent, now, from_duration(answer.held_for), from_duration(answer.lease.ttl))
        max_hold, lock_delay = self._request.HasField("max_hold"), from_duration(self._request.lock_delay)
        count = permits(self._request)
        mode = answer.lease.mode or self._request.mode
        lease = Lease(
            answer.lease, reading, self._ttl, max_hold=max_hold, lock_delay=lock_delay, permits=count, mode=mode
        )
        if not self._chose_id:
            lease.description = None
        self.previous_end = lease_end(answer.previous_end)
        if attach is None:
            self._engine.keep_granted_alone(lease, now)
        else:
            attach(lease)
            self._engine.keep(lease, now)
        # If the caller named no TTL, the answer to a repeated request does not tell how much of it is left.
        is_late = lease.remaining(now) < lease.ttl / LATE_DIVISOR or (not self._ttl and self._transmissions > 1)
        if lease.is_valid(now) and is_late and not self._withdrawing:
            self._set_timer(None, None)
            # Tried once: the beats go on if it fails.
            Renew(self._engine, lease, now, lambda now: self._use(lease, now))
        else:
            self._use(lease, now)

    def _use(self, lease: Lease, now: float) -> None:
        """Hands a lease over, unless it is over or unwanted."""
        if self._withdrawing:
            self._engine.release(lease, now)
            self._finish(None)
        elif lease.is_valid(now):
            self.lease = lease
            self._finish(None)
        else:
            # The server may still keep it: others need not wait for its TTL.
            self._engine.release(lease, now)
            if now < self._wait_until and self._chose_id:
                self._restart(now)
            else:
                reason = lease.lost.reason if lease.lost else LossReason.SILENCE
                self._finish(LockLost(lease.name, lease.token, reason))

    def _refused(self, error: Failure, session: Session, now: float) -> None:
        self._failed(error)
        retried = self._transmissions > 1
        # ABORTED is the outcome of the request, whichever transmission caused it. Another refusal is about one
        # transmission only.
        self._may_be_applied = error.code != "ABORTED" and (error.is_outcome_unknown or self._was_applied)
        if error.is_request_ended and self._chose_id and retried and now < self._wait_until and not self._withdrawing:
            self._restart(now)
            return
        pause = max(timing.retry_pause(self._retries, self._engine.random()), error.retry_delay)
        self._retries += 1
        repeats_until = self._until
        if error.is_transient or error.is_session_full:
            self._engine.suspect(session, now)
        elif error.is_over_quota:
            # Another server has as much for this client. A quota delays a withdrawal, and does not stop it.
            repeats_until = self._until if self._withdrawing else self._wait_until
        else:
            self._give_up(error.error(), now)
            return
        if self._campaign is not None and not (self._withdrawing or error.is_draining):
            self._campaign.trouble(error.error())
        if now + pause < repeats_until:
            self._set_timer(now + pause, self._again)
        elif error.is_over_quota:
            self._give_up(error.error(), now)
        else:
            self._over(now)

    def _failed(self, failure: Failure) -> None:
        self._last = failure
        self._answer = failure if failure.reason else self._answer

    def _restart(self, now: float) -> None:
        """The request has ended. A new one waits for the rest of the time."""
        self._request.request_id = str(uuid.uuid4())
        self._answer = None
        self._transmissions, self._may_be_applied = 0, False
        self._set_timer(self._until, self._over)
        self._engine.send(self, now)

    def _again(self, now: float) -> None:
        self._set_timer(self._until, self._over)
        self._engine.send(self, now)

    def _late(self, now: float) -> None:
        """A transmission was not answered in time."""
        operation, self._operation = self._operation, None
        self._last = Failure("DEADLINE_EXCEEDED", "the server did not answer in time")
        if operation is not None:
            operation.session.cancel(operation)
            operation.session.abandon(operation)
            self._engine.unanswered(operation, now)
        self._drop_call()
        if now < self._until:
            self._again(now)
        else:
            self._over(now)

    def _over(self, now: float) -> None:
        """The time for retries is over."""
        is_sent = self._operation is not None or self._call is not None
        self._give_up(self._as_known(self._engine.unreached.why(self._last, is_sent)), now)

    def _as_known(self, failure: Failure) -> FencepostError:
        """Returns the error of the whole request: other transmissions may have taken effect."""
        error = failure.after(self._answer).error()
        return OutcomeUnknown(error) if self._may_be_applied and not isinstance(error, OutcomeUnknown) else error

    def _give_up(self, error: FencepostError, now: float) -> None:
        if self._withdrawing or not self._may_be_applied:
            if self._withdrawing and self._may_be_applied:
                self._engine.events.not_released(self._request.lock_name, error)
            self._finish(error)
        else:
            self._report(error)
            self._withdraw(now)

    def _withdraw(self, now: float) -> None:
        """Goes on without a caller, until it is known that nothing is held or queued."""
        self._withdrawing = True
        self._until = now + timing.RETRY_FOR
        if self._operation is not None:
            self._operation.session.cancel(self._operation)
            self._set_timer(now + timing.CALL_TIMEOUT, self._late)
            self._engine.port.wake(self._operation.session)
            return
        self._drop_call()
        if self._may_be_applied:
            self._again(now)
        else:
            self._finish(None)

    def _drop_call(self) -> None:
        """Nobody waits for the answer to a call any more. A grant that crosses this is found by the next attempt."""
        call, self._call = self._call, None
        if call is not None:
            call.flow = None
            self._engine.port.cancel(call)

    def _set_timer(self, when: float | None, callback: Callable[[float], None] | None) -> None:
        self._engine.timers.cancel(self._timer)
        self._timer = None if when is None or callback is None else self._engine.timers.at(when, callback)

    def _finish(self, error: FencepostError | None) -> None:
        self._set_timer(None, None)
        self._engine.done(self)
        self._report(error)

    def _report(self, error: FencepostError | None) -> None:
        on_done, self._on_done = self._on_done, None
        if on_done is not None:
            self.error = error
            on_done()
