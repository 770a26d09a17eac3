"""The renewal of one lease by itself, without a beat."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from fencepost._core import timing
from fencepost._core.convert import from_duration, loss
from fencepost._core.failure import Failure
from fencepost._core.lease import Lease
from fencepost._core.session import Operation, Session
from fencepost._core.timers import Timer
from fencepost._core.validity import Reading
from fencepost.v1 import lock_pb2 as pb

if TYPE_CHECKING:
    from fencepost._core.engine import Engine


class Renew:
    """Renews a lease once."""

    is_acquire = False

    def __init__(self, engine: Engine, lease: Lease, now: float, on_done: Callable[[float], None]) -> None:
        self._engine = engine
        self._lease = lease
        self._on_done = on_done
        self._timer = engine.timers.at(max(lease.valid_until, now), self._finish)
        engine.send(self, now)

    def message(self, number: int, handle: int, now: float) -> pb.SessionRequest | None:
        if self not in self._engine.flows:
            return None
        request = pb.RenewRequest(lock_name=self._lease.name, lease_id=self._lease.lease_id)
        return pb.SessionRequest(operation=number, renew=request)

    def sent(self, operation: Operation) -> None:
        """Its timer is the validity of the lease."""

    def waiting(self, ahead: int) -> None:
        """A renewal does not wait."""

    def answered(self, session: Session, operation: Operation, response: pb.SessionResponse, now: float) -> None:
        answer = response.renew
        if response.HasField("renew") and answer.outcome == pb.RenewResponse.OUTCOME_RENEWED:
            held_for, ttl = from_duration(answer.held_for), from_duration(answer.ttl)
            self._engine.renewed(self._lease, Reading(operation.sent, now, held_for, ttl))
        elif response.HasField("renew") and answer.outcome == pb.RenewResponse.OUTCOME_LOST:
            self._engine.lose(self._lease, loss(answer.end, answer.successor_token))
        self._finish(now)

    def failed(self, failure: Failure, now: float) -> None:
        self._finish(now)

    def drop(self) -> None:
        """Nobody wants the result any more."""
        self._engine.timers.cancel(self._timer)
        self._engine.done(self)

    def _finish(self, now: float) -> None:
        if self in self._engine.flows:
            self.drop()
            self._on_done(now)


class Alone:
    """Renews a lease for which its session has no room, until the session ends: the next one may have room."""

    def __init__(self, engine: Engine, session: Session, lease: Lease) -> None:
        self._engine = engine
        self._session = session
        self._lease = lease
        self._failures = 0
        self._known = 0.0
        """The end of the validity before the last renewal."""
        self._renewal: Renew | None = None
        self._timer: Timer | None = None

    def stop(self) -> None:
        """The lease has ended, or another session has no room for it either. No renewal is sent after this."""
        self._engine.timers.cancel(self._timer)
        if self._renewal is not None:
            self._renewal.drop()

    def pause(self, now: float) -> None:
        """Renews the lease after a while, sooner if the last renewal failed."""
        if self._lease.is_over or self._session.ended:
            return
        self._failures = 0 if self._lease.valid_until > self._known else self._failures + 1
        pause = timing.renewal_pause(self._failures, self._lease.ttl, self._engine.random())
        self._timer = self._engine.timers.at(now + pause, self.renew)

    def renew(self, now: float) -> None:
        """Renews the lease now."""
        if not self._session.ended:
            self._known = self._lease.valid_until
            self._renewal = Renew(self._engine, self._lease, now, self.pause)
