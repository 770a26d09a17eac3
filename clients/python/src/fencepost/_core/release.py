"""The release of a lease, over all transmissions."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from fencepost._core import failure, timing
from fencepost._core.convert import released
from fencepost._core.failure import Failure
from fencepost._core.lease import Lease
from fencepost._core.session import Operation, Session
from fencepost._core.timers import Timer
from fencepost.errors import FencepostError, OutcomeUnknown
from fencepost.types import Released
from fencepost.v1 import lock_pb2 as pb

if TYPE_CHECKING:
    from fencepost._core.engine import Engine


class Release:
    """Releases a lease: repeated while the outcome is unknown, until the lease and the ``lock_delay`` after it are over
    on the server as well.
    """

    is_acquire = False

    def __init__(
        self, engine: Engine, lease: Lease, handle: int, now: float, on_done: Callable[[], None] | None
    ) -> None:
        self.result: Released | None = None
        self.error: FencepostError | None = None
        self._engine = engine
        self._is_background = on_done is None
        self._request = pb.ReleaseRequest(lock_name=lease.name, lease_id=lease.lease_id)
        self._handle = handle
        """The handle of the lease on the session that releases it, if it was attached there."""
        self._on_done = on_done
        self._last: Failure | None = None
        self._answer: Failure | None = None
        """The last failure that a server answered."""
        self._retries = 0
        self._operation: Operation | None = None
        self._answer_timer: Timer | None = None
        self._timer = engine.timers.at(now + max(lease.ttl + lease.lock_delay, timing.CALL_TIMEOUT), self._end)
        self._caller = engine.timers.at(now + engine.retry_for, self._report_unknown) if on_done else None
        engine.send(self, now)

    def message(self, number: int, handle: int, now: float) -> pb.SessionRequest | None:
        return pb.SessionRequest(operation=number, release=self._request)

    def sent(self, operation: Operation) -> None:
        self._operation = operation
        self._answer_timer = self._engine.timers.at(operation.sent + self._engine.answer_time, self._late)

    def waiting(self, ahead: int) -> None:
        """A release does not wait."""

    def answered(self, session: Session, operation: Operation, response: pb.SessionResponse, now: float) -> None:
        self._not_in_flight()
        if response.HasField("release"):
            self._finish(released(response.release), None)
            return
        error = failure.from_operation(response.error)
        session.detach_handle(self._handle)
        self._handle = 0
        if not (error.is_transient or error.is_session_full):
            self._finish(None, error.error())
            return
        self._failed(error)
        pause = max(timing.retry_pause(self._retries, self._engine.random()), error.retry_delay)
        self._retries += 1
        self._engine.timers.at(now + pause, self._retry)

    def failed(self, failure: Failure, now: float) -> None:
        self._not_in_flight()
        self._handle = 0
        self._failed(failure)
        if failure.is_transient or failure.is_no_room or failure.permanent:
            if failure.permanent:
                self._report(None, failure.error())
            self._engine.send(self, now)
        else:
            self._finish(None, failure.error())

    def _failed(self, failure: Failure) -> None:
        self._last = failure
        self._answer = failure if failure.reason else self._answer

    def _retry(self, now: float) -> None:
        if self in self._engine.flows:
            self._engine.send(self, now)

    def _report_unknown(self, _now: float) -> None:
        """The caller has waited long enough. The release goes on in the background."""
        self._report(None, self._unknown())

    def _unknown(self) -> OutcomeUnknown:
        why = self._engine.unreached.why(self._last, self._operation is not None)
        error = why.after(self._answer).error()
        return error if isinstance(error, OutcomeUnknown) else OutcomeUnknown(error)

    def _late(self, now: float) -> None:
        """A transmission was not answered in time."""
        operation = self._operation
        if operation is not None:
            self._not_in_flight()
            self._last = Failure("DEADLINE_EXCEEDED", "the server did not answer in time")
            operation.session.abandon(operation)
            self._engine.unanswered(operation, now)
            self._engine.send(self, now)

    def _not_in_flight(self) -> None:
        self._operation = None
        self._engine.timers.cancel(self._answer_timer)

    def _end(self, _now: float) -> None:
        if self._operation is not None:
            self._operation.session.abandon(self._operation)
        self._finish(None, self._unknown())

    def _finish(self, result: Released | None, error: FencepostError | None) -> None:
        if error is not None and self._is_background:
            self._engine.events.not_released(self._request.lock_name, error)
        self._not_in_flight()
        self._engine.timers.cancel(self._timer)
        self._engine.timers.cancel(self._caller)
        self._report(result, error)
        self._engine.done(self)

    def _report(self, result: Released | None, error: FencepostError | None) -> None:
        on_done, self._on_done = self._on_done, None
        if on_done is not None:
            self._is_background = True
            self.result, self.error = result, error
            on_done()
