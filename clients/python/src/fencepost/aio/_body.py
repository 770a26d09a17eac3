"""The body of a statement that holds locks: a task to cancel when one is lost."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable


class Body:
    """A body, from its beginning to its end. A loss before or after it cancels nothing."""

    def __init__(self) -> None:
        self.ended = asyncio.Event()
        """Set when a lock is lost or released."""
        self._loop = asyncio.get_running_loop()
        self._task: asyncio.Task[object] | None = None
        self._cancels_before = 0
        self._cancelled = False

    def enter(self) -> None:
        self._task = asyncio.current_task()
        self._cancels_before = cancelling(self._task)

    def leave(self) -> bool:
        """Returns whether somebody else has cancelled the task, as far as can be known. That cancellation goes on."""
        task, self._task = self._task, None
        # As in asyncio.timeout.
        return not self._cancelled or _uncancel(task) > self._cancels_before

    def cancel_soon(self, name: str) -> None:
        """Cancels the body, because this lock is lost."""
        # In a turn of its own: the body may have found out by itself, and a task that cancels itself would be
        # interrupted at its next await, wherever that is.
        self._call_soon(lambda: self._cancel(name))

    def _cancel(self, name: str) -> None:
        if self._task is not None and not self._cancelled:
            self._cancelled = True
            self._task.cancel(f"{name} is lost")

    def _call_soon(self, call: Callable[[], None]) -> None:
        self._loop.call_soon(call)


if sys.version_info >= (3, 11):

    def cancelling(task: asyncio.Task[object] | None) -> int:
        return 0 if task is None else task.cancelling()

    def _uncancel(task: asyncio.Task[object] | None) -> int:
        return 0 if task is None else task.uncancel()

else:
    # Python 3.10 does not count cancellations: one of somebody else at the same moment is taken for the loss.
    def cancelling(_task: asyncio.Task[object] | None) -> int:
        return 0

    def _uncancel(_task: asyncio.Task[object] | None) -> int:
        return 0
