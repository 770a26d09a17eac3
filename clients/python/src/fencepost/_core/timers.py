"""Timers without a clock: the driver asks when the next one is due, and runs those that are."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable

# How many cancelled timers are kept at least before they are swept out.
_CANCELLED_MAX = 64


class Timer:
    """One pending call."""

    __slots__ = ("callback",)

    def __init__(self, callback: Callable[[float], None]) -> None:
        self.callback: Callable[[float], None] | None = callback


class Timers:
    """Pending calls, in the order of their time."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Timer]] = []
        self._order = itertools.count()
        self._cancelled = 0

    def at(self, when: float, callback: Callable[[float], None]) -> Timer:
        """Calls ``callback`` with the time, once ``when`` has come. It must not block."""
        timer = Timer(callback)
        heapq.heappush(self._heap, (when, next(self._order), timer))
        return timer

    def cancel(self, timer: Timer | None) -> None:
        if timer is None or timer.callback is None:
            return
        timer.callback = None
        self._cancelled += 1
        # Most locks are released long before their timers are due.
        if self._cancelled > _CANCELLED_MAX and 2 * self._cancelled > len(self._heap):
            self._heap = [it for it in self._heap if it[2].callback is not None]
            heapq.heapify(self._heap)
            self._cancelled = 0

    def next(self) -> float | None:
        """Returns when the next call is due; None if there is none."""
        while self._heap and self._heap[0][2].callback is None:
            heapq.heappop(self._heap)
            self._cancelled -= 1
        return self._heap[0][0] if self._heap else None

    def run(self, now: float) -> None:
        """Runs the calls that are due."""
        while self._heap and self._heap[0][0] <= now:
            timer = heapq.heappop(self._heap)[2]
            callback, timer.callback = timer.callback, None
            if callback is None:
                self._cancelled -= 1
            else:
                callback(now)
