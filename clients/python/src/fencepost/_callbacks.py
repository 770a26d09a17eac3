"""Runs code of the user that the client calls back."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable

logger = logging.getLogger("fencepost")


class Callbacks:
    """A thread for code that may block; it ends when it has nothing to do."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.calls: deque[Callable[[], None]] = deque()
        self._runs = False

    def call(self, call: Callable[[], None]) -> None:
        with self._lock:
            self.calls.append(call)
            if not self._runs:
                self._runs = True
                threading.Thread(target=self._run, name="fencepost-callbacks", daemon=True).start()

    def _run(self) -> None:
        while True:
            with self._lock:
                if not self.calls:
                    self._runs = False
                    return
                call = self.calls.popleft()
            try:
                call()
            except Exception:
                logger.exception("a callback raised an error")
