"""Notices that a server went silent. Its connection is dead then: the session ends, and the next one opens another."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fencepost._core import timing
from fencepost._core.failure import Failure
from fencepost._core.session import Session

if TYPE_CHECKING:
    from fencepost._core.engine import Engine


class Silence:
    """The watch over the sessions of an engine."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._sign_timeout = min(timing.SIGN_TIMEOUT, engine.answer_time)

    def watch(self, session: Session, now: float) -> None:
        """Expects beats on a session that renews leases."""
        engine = self._engine
        pace = engine.kept.pace()
        if session is not engine.current or pace is None or not session.connected:
            return
        limit = timing.silence(pace) if session.answers else timing.answer_timeout(pace)
        engine.timers.cancel(session.timer)
        if now - session.last_received > limit:
            self._ended(session, limit, now)
            return
        session.timer = engine.timers.at(
            session.last_received + limit + timing.CLOCK_STEP, lambda now: self.watch(session, now)
        )

    def sent(self, session: Session, now: float) -> None:
        """A request was sent: the server answers soon, if only that it waits."""
        if session.unanswered_since is None:
            session.unanswered_since = now
        if session.sign_timer is None:
            session.sign_timer = self._engine.timers.at(
                now + self._sign_timeout, lambda now: self._check_sign(session, now)
            )

    def _check_sign(self, session: Session, now: float) -> None:
        session.sign_timer = None
        since = session.unanswered_since
        if session.ended or since is None:
            return
        due = since + self._sign_timeout
        if now >= due:
            self._ended(session, self._sign_timeout, now)
        else:
            session.sign_timer = self._engine.timers.at(due, lambda now: self._check_sign(session, now))

    def _ended(self, session: Session, limit: float, now: float) -> None:
        self._engine.ended(session, Failure("UNAVAILABLE", f"the server was silent for {limit:.3g} s"), now)
