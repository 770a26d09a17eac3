"""What callers wait for while the worker of a client acts for them."""

from __future__ import annotations

import threading

from fencepost._core.acquire import Acquire
from fencepost._core.campaign import Campaign
from fencepost.errors import FencepostError


class Wait:
    """What a caller waits for: a lock, which an interrupt cannot leave half changed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lock.acquire()
        self._error: Exception | None = None

    def end(self) -> None:
        if self._lock.locked():
            self._lock.release()

    def fail(self, error: Exception) -> None:
        self._error = error
        self.end()

    def wait(self, timeout: float = -1) -> None:
        """Waits for the end, without a bound by default. Raises the error if the job failed."""
        self._lock.acquire(timeout=min(timeout, threading.TIMEOUT_MAX))
        if self._error is not None:
            raise self._error


class Pending(Wait):
    """An acquire that the worker makes for a caller."""

    def __init__(self, campaign: Campaign | None = None) -> None:
        super().__init__()
        self.campaign = campaign
        """Of the elector that asks for the lock."""
        self.acquire: Acquire | None = None
        self.stopped: FencepostError | None = None
        """Why nobody wants the lock any more, before its acquire has begun."""

    def result(self) -> Acquire:
        self.wait()
        assert self.acquire is not None
        return self.acquire
