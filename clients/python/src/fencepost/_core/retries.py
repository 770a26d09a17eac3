"""Retries of a call that reads: when, where, and for how long."""

from __future__ import annotations

import random
from collections.abc import Sequence

from fencepost._core import timing
from fencepost._core.failure import Failure
from fencepost._core.unreached import Unreached


class Servers:
    """The server that calls prefer: the one that last worked."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = names
        self._count = len(names)
        self.preferred = 0

    def failed(self, server: int) -> None:
        if server == self.preferred:
            self.preferred = (server + 1) % self._count


class Retries:
    """The retries of one call. With ``again`` it opens a stream that was open before, and waits for room."""

    def __init__(self, servers: Servers, now: float, retry_for: float, again: bool = False) -> None:
        self._servers = servers
        self._until = now + retry_for
        self._answer_time = timing.answer_time(timing.CALL_TIMEOUT, retry_for, len(servers.names))
        self._again = again
        self._tries = 0
        self._unreached = Unreached(servers.names)
        self._answer: Failure | None = None
        """The last failure that a server answered."""

    def limit(self, now: float) -> float:
        """Returns how long the next transmission may take, in seconds. The first one may meet a dead connection."""
        limit = self._answer_time if self._tries else min(timing.SIGN_TIMEOUT, self._answer_time)
        return self._at_most(limit, now)

    def token_limit(self, now: float) -> float:
        """Returns how long the function for the token may take, in seconds."""
        return self._at_most(timing.TOKEN_TIMEOUT, now)

    def _at_most(self, limit: float, now: float) -> float:
        return min(limit, max(self._until - now, timing.TRANSMISSION_MIN))

    def failed(self, server: int, failure: Failure, now: float) -> float:
        """Returns the pause before the next transmission; raises the error if there is none."""
        waits = self._again and failure.is_no_room
        if not (failure.is_transient or failure.permanent or waits):
            raise failure.error()
        if not failure.is_over_quota:
            self._servers.failed(server)
        self._unreached.note(server, failure)
        self._answer = failure if failure.reason else self._answer
        pause = max(timing.retry_pause(self._tries, random.random()), failure.retry_delay)
        self._tries += 1
        if self._unreached.is_hopeless or now + pause >= self._until:
            last = failure if failure.did_nothing or waits else self._unreached.failure()
            raise last.after(self._answer).error()
        return pause
