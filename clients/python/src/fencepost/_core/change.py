"""A change of a lease that is held, by a call of its own: a conversion, say.

It is repeated with the same fields while its outcome is unknown, so the effect is that of one call. The changes of one
lease are made one after another, in the order in which they were asked for, and all end when the lease does. If the
caller gives up, a change goes on without it: the holder has to know what became of its lease.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from fencepost._core import failure, timing
from fencepost._core.failure import Failure
from fencepost._core.lease import Lease
from fencepost._core.outcome import ended_error
from fencepost._core.port import Answer, Call, Request
from fencepost._core.session import Operation, Session
from fencepost._core.timers import Timer
from fencepost.errors import ClientClosed, FencepostError, OutcomeUnknown
from fencepost.v1 import lock_pb2 as pb

if TYPE_CHECKING:
    from fencepost._core.engine import Engine

# A refusal with one of these codes is about the lease as it is. One with another code is about one transmission only.
_OF_THE_LEASE = frozenset({"ABORTED", "FAILED_PRECONDITION", "INVALID_ARGUMENT"})


class Change:
    """``on_done`` is called once, with ``error`` set if it failed."""

    is_acquire = False

    def __init__(self, engine: Engine, lease: Lease, on_done: Callable[[], None]) -> None:
        self.error: FencepostError | None = None
        self._engine = engine
        self._lease = lease
        self._on_done: Callable[[], None] | None = on_done
        self._sends: Request | None = None
        self._call: Call | None = None
        """The transmission without an answer."""
        self._until = 0.0
        self._timer: Timer | None = None
        self._retries = 0
        self._may_be_applied = False
        self._last: Failure | None = None
        self._answer: Failure | None = None
        """The last failure that a server answered."""

    def _request(self) -> Request:
        """Returns what is sent, for the lease as it is now."""
        raise NotImplementedError

    def _answered(self, answer: Answer) -> FencepostError | None:
        """Applies an answer. Returns the error if it is one."""
        raise NotImplementedError

    def begin(self, now: float) -> None:
        """Makes the change, after those of the lease that were asked for before."""
        if self._lease.is_over:
            self.ended()
            return
        self._lease.changes.append(self)
        if self._lease.changes[0] is self:
            self.start(now)

    def ended(self) -> None:
        """The lease has ended."""
        self._stop()
        self._report(ClientClosed() if self._engine.closed else ended_error(self._lease))

    # From the session

    def message(self, number: int, handle: int, now: float) -> pb.SessionRequest | None:
        """Sends the request beside the session, which has no message for it."""
        session = self._engine.carrier
        if self._sends is not None and self._call is None and session is not None:
            timeout = min(self._engine.answer_time, max(self._until - now, timing.TRANSMISSION_MIN))
            self._call = Call(session, self, self._sends, timeout)
            self._engine.port.call(self._call)
        return None

    def sent(self, operation: Operation) -> None:
        """It is no operation of a session."""

    def waiting(self, ahead: int) -> None:
        """It does not wait."""

    def answered(self, session: Session, operation: Operation, response: pb.SessionResponse, now: float) -> None:
        """It is no operation of a session."""

    def called(self, call: Call, result: Answer | Failure, sent: float, now: float) -> None:
        self._call = None
        if not isinstance(result, Failure):
            self._finish(self._answered(result), now)
            return
        if result.code == "UNIMPLEMENTED" and not result.reason:
            result = failure.not_fencepost(self._engine.name_of(call.session))
        self._failed(result)
        if not result.is_transient:
            self._finish(self._refusal(result), now)
            return
        self._may_be_applied = self._may_be_applied or result.is_outcome_unknown
        pause = max(timing.retry_pause(self._retries, self._engine.random()), result.retry_delay)
        self._retries += 1
        self._engine.suspect(call.session, now)
        if now + pause < self._until:
            self._engine.timers.at(now + pause, self._again)
        else:
            self._over(now)

    def failed(self, failure: Failure, now: float) -> None:
        """No session can be opened."""
        self._failed(failure)
        self._finish(self._refusal(failure), now)

    # Steps

    def start(self, now: float) -> None:
        self._until = now + self._engine.retry_for
        self._sends = self._request()
        self._timer = self._engine.timers.at(self._until, self._over)
        self._engine.send(self, now)

    def _again(self, now: float) -> None:
        if self in self._engine.flows:
            self._engine.send(self, now)

    def _failed(self, failure: Failure) -> None:
        self._last = failure
        self._answer = failure if failure.reason else self._answer

    def _refusal(self, failure: Failure) -> FencepostError:
        return failure.error() if failure.code in _OF_THE_LEASE else self._as_known(failure)

    def _over(self, now: float) -> None:
        """The time for retries is over."""
        if self._call is not None:
            self._may_be_applied = True
            self._last = Failure("DEADLINE_EXCEEDED", "the server did not answer in time")
        self._finish(self._as_known(self._engine.unreached.why(self._last, self._call is not None)), now)

    def _as_known(self, failure: Failure) -> FencepostError:
        """Returns the error of the whole change: other transmissions may have taken effect."""
        error = failure.after(self._answer).error()
        return OutcomeUnknown(error) if self._may_be_applied and not isinstance(error, OutcomeUnknown) else error

    def _finish(self, error: FencepostError | None, now: float) -> None:
        self._stop()
        self._report(error)
        changes = self._lease.changes
        if changes and changes[0] is self:
            del changes[0]
            if changes:
                changes[0].start(now)

    def _stop(self) -> None:
        self._engine.timers.cancel(self._timer)
        call, self._call = self._call, None
        if call is not None:
            call.flow = None
            self._engine.port.cancel(call)
        self._engine.done(self)

    def _report(self, error: FencepostError | None) -> None:
        on_done, self._on_done = self._on_done, None
        if on_done is not None:
            self.error = error
            on_done()
