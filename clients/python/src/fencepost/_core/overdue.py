"""Looks at each lease when a renewal must have failed, and when its validity is over by the clock."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fencepost._core import timing
from fencepost._core.lease import Lease

if TYPE_CHECKING:
    from fencepost._core.engine import Engine


class Overdue:
    """The watch over the leases of an engine."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def watch(self, lease: Lease) -> None:
        due = lease.valid_until if lease.at_risk else lease.overdue_at()
        lease.timer = self._engine.timers.at(due, lambda now: self._check(lease, now))

    def _check(self, lease: Lease, now: float) -> None:
        engine = self._engine
        if lease not in engine.kept or engine.expire(lease, now):
            return
        if now >= lease.overdue_at() and not lease.at_risk:
            engine.risk(lease, self._cause(), now)
            # Beats arrive, renewals do not. If there is no other server, another session would be no better.
            session = engine.current
            if session is not None and now - session.opened > timing.answer_timeout(lease.ttl):
                engine.move("renewals do not arrive", now)
        self.watch(lease)

    def _cause(self) -> str:
        session = self._engine.current
        is_connected = session is not None and session.connected
        return "no renewal arrived in time" if is_connected else self._engine.unreached.failure().message
