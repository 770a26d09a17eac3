"""Whether somebody waits for a lock, with threads."""

from __future__ import annotations

import threading

from fencepost._core.lease import Lease


class WantedEvent:
    """Whether somebody waits for a lock. Like a ``threading.Event`` that only the client sets. It keeps the lock."""

    def __init__(self, lock: object, lease: Lease, stirred: threading.Event) -> None:
        self._lock = lock
        self._lease = lease
        self._stirred = stirred
        """Set when the lock is wanted, and when it ends."""

    def is_set(self) -> bool:
        """Whether a server has told that somebody waits."""
        return self._lease.wanted is not None

    def wait(self, timeout: float | None = None) -> bool:
        """Waits until somebody waits for the lock, or the lock is lost or released, at most ``timeout`` seconds.
        Returns whether somebody waits.
        """
        self._stirred.wait(timeout)
        return self.is_set()
