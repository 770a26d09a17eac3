"""Retries of a call that reads: when, where, and for how long."""

from __future__ import annotations

import random

from fencepost._core import timing
from fencepost._core.failure import Failure


class Servers:
    """The server that calls prefer: the one that last worked."""

    def __init__(self, count: int) -> None:
        self._count = count
        self.preferred = 0

    def failed(self, server: int) -> None:
        if server == self.preferred:
            self.preferred = (server + 1) % self._count


class Retries:
    """The retries of one call."""

    def __init__(self, servers: Servers, now: float, retry_for: float) -> None:
        self._servers = servers
        self._until = now + retry_for
        self._tries = 0

    def limit(self, now: float) -> float:
        """Returns how long the next transmission may take, in seconds."""
        return min(timing.CALL_TIMEOUT, max(self._until - now, timing.TRANSMISSION_MIN))

    def failed(self, server: int, failure: Failure, now: float) -> float:
        """Returns the pause before the next transmission; raises the error if there is none."""
        if not failure.is_transient:
            raise failure.error()
        self._servers.failed(server)
        pause = max(timing.retry_pause(self._tries, random.random()), failure.retry_delay)
        self._tries += 1
        if now + pause >= self._until:
            raise failure.error()
        return pause
