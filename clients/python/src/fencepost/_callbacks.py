"""Runs code of the user that the client calls back."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable

from fencepost._core.events import write

# How many callbacks run at a time: many may block, and a client with thousands of locks that loses all of them does not
# start thousands of threads.
THREADS_MAX = 16


class Callbacks:
    """Threads for code that may block; they end when they have nothing to do.

    The calls about one subject run one after another, in their order. They hold back those about others only if
    ``THREADS_MAX`` block.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._threads = 0
        self._calls: dict[object, deque[Callable[[], object]]] = {}
        """The calls of each subject that has any, with the one that runs."""
        self._ready: deque[object] = deque()
        """The subjects of which a call may run."""

    def call(self, subject: object, call: Callable[[], object]) -> None:
        with self._lock:
            if subject in self._calls:
                self._calls[subject].append(call)
                return
            self._calls[subject] = deque([call])
            self._ready.append(subject)
            if self._threads < min(len(self._calls), THREADS_MAX):
                threading.Thread(target=self._run, name="fencepost-callbacks", daemon=True).start()
                self._threads += 1

    def _run(self) -> None:
        while (subject := self._next()) is not None:
            try:
                self._calls[subject][0]()
            except BaseException:  # noqa: BLE001 - also of sys.exit, which ends no process here
                write(logging.ERROR, "a callback raised an error", trace=True)
            self._done(subject)

    def _next(self) -> object | None:
        with self._lock:
            if self._ready:
                return self._ready.popleft()
            self._threads -= 1
            return None

    def _done(self, subject: object) -> None:
        with self._lock:
            self._calls[subject].popleft()
            if self._calls[subject]:
                self._ready.append(subject)
            else:
                del self._calls[subject]
