"""The one clock: monotonic, and on Linux and macOS it counts the time that the machine was suspended.

A lease ages on the server while the machine of its holder is suspended. ``time.monotonic`` and all timers of Python
stop meanwhile on Linux. So timers only wake threads and tasks, and this clock decides.
"""

from __future__ import annotations

import time

# Linux has CLOCK_BOOTTIME. On macOS, CLOCK_MONOTONIC counts suspend; on Windows, time.monotonic does.
_CLOCK: int | None = getattr(time, "CLOCK_BOOTTIME", getattr(time, "CLOCK_MONOTONIC", None))


def now() -> float:
    """Returns the time in seconds."""
    return time.monotonic() if _CLOCK is None else time.clock_gettime(_CLOCK)
