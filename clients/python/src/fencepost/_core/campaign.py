"""The campaign of an elector: which errors pass, how long it pauses, and what it tells the log.

An elector survives an outage: what a later try may mend does not end it. It pauses longer each time, so that a fleet
whose terms end at once, or whose servers are away, is not hammered by all of its electors.
"""

from __future__ import annotations

import asyncio
import logging
import random

from fencepost._core import timing
from fencepost._core.events import Log, write
from fencepost._facts import RECONNECT_MAX_MS, WAIT_MAX_MS
from fencepost.errors import (
    Contended,
    FencepostError,
    LockLost,
    OutcomeUnknown,
    Refused,
    TimedOut,
    Unavailable,
)

# A refusal of another kind may be over the next time: a queue is full, or a server fails.
_FINAL = frozenset(
    {
        "INVALID_ARGUMENT",
        "OUT_OF_RANGE",
        "FAILED_PRECONDITION",
        "PERMISSION_DENIED",
        "UNAUTHENTICATED",
        "UNIMPLEMENTED",
    }
)

# A term that was shorter is a failure of its own.
_TERM_MIN = RECONNECT_MAX_MS / 1000

# A server that allows no wait of this length allows none.
_WAIT_MIN = 0.1


class Campaign:
    """What one elector knows from one try to the next."""

    def __init__(self, name: str, log: Log) -> None:
        self.wait = WAIT_MAX_MS / 1000
        """How long one acquire waits: the longest wait, unless a server is configured for a shorter one."""
        self._name = name
        self._log = log
        self._tries = 0
        """The failures and short terms since the last long term or wait."""
        self._is_told = False
        """Whether the log knows of this outage."""
        self._elected_at = 0.0

    def failed(self, error: FencepostError) -> float:
        """Returns the pause after an acquire that failed. Raises its error if no later try can be better."""
        if isinstance(error, TimedOut):
            self.works()
            self._tries = 0
            return 0.0
        if isinstance(error, Refused) and [it.field for it in error.violations] == ["wait_timeout"] and self.wait:
            self.wait = self.wait / 2 if self.wait > _WAIT_MIN else 0.0
            return 0.0
        if not _passes(error):
            raise error
        if not isinstance(error, Contended):
            self.trouble(error)
        asked = error.retry_after if isinstance(error, Refused) else None
        return max(self._pause(), asked or 0.0)

    def trouble(self, cause: object) -> None:
        """A try failed, and the campaign goes on. May be called by the engine."""
        if not self._is_told:
            self._is_told = True
            text = f"the campaign for {self._name} fails, and goes on: {cause}"
            self._log.log(logging.WARNING, text, {"lock": self._name, "cause": str(cause)})

    def works(self) -> None:
        """A server has answered well: the outage is over. May be called by the engine."""
        self._is_told = False

    def elected(self, now: float) -> None:
        self.works()
        self._elected_at = now

    def lost(self, error: FencepostError, token: int, now: float) -> float:
        """Returns the pause after a term that ended so. Raises the error if that is not the loss of the lock.

        Call it where the error is handled. What the body raised because of the loss is dropped; another error of it,
        which would be lost with that, goes to the log.
        """
        if not self._is_loss(error, token):
            raise error
        cause = error.__cause__
        if not (cause is None or isinstance(cause, asyncio.CancelledError) or self._is_loss(cause, token)):
            text = f"the leader's work failed after the loss of {self._name}: {cause!r}"
            write(logging.ERROR, text, {"lock": self._name, "token": token}, trace=True)
        if now - self._elected_at < _TERM_MIN:
            return self._pause()
        self._tries = 0
        return 0.0

    def _is_loss(self, error: BaseException, token: int) -> bool:
        return isinstance(error, LockLost) and (error.name, error.token) == (self._name, token)

    def _pause(self) -> float:
        pause = timing.reconnect_pause(self._tries, None, random.random())
        self._tries += 1
        return pause


def _passes(error: FencepostError) -> bool:
    """Whether a later try may succeed."""
    if isinstance(error, Refused):
        return error.code not in _FINAL
    if isinstance(error, Unavailable):
        return not error.permanent
    return isinstance(error, (Contended, LockLost, OutcomeUnknown))
