"""A lock held by this process, with asyncio."""

from __future__ import annotations

import asyncio
import logging
import sys
import warnings
from collections.abc import Callable
from functools import partial
from types import TracebackType

from fencepost._core.clock import now
from fencepost._core.events import write
from fencepost._core.lease import Lease
from fencepost._core.outcome import known_end, lost_at_exit, lost_error
from fencepost.aio._tasks import Driver
from fencepost.errors import FencepostError, LockLost
from fencepost.types import LeaseEnd, Loss, Released


class Lock:
    """A lock held by this process, renewed in the background until it is released or lost.

    Send :attr:`token` with every write to the store that the lock protects, and have the store refuse lower tokens.
    Nothing else stops a process that was paused between a look at :meth:`valid` and the write that follows.

    An event loop that is blocked for longer than the TTL loses its locks.
    """

    def __init__(
        self,
        client: object,
        driver: Driver,
        lease: Lease,
        holder: str,
        previous_end: LeaseEnd,
        on_lost: Callable[[Loss], None] | None,
        on_at_risk: Callable[[], None] | None,
    ) -> None:
        self._client = client  # a client lives as long as its locks
        self._driver = driver
        self._lease = lease
        self._released: Released | None = None
        self._body = _Body(lease)
        self.holder = holder
        """The label that others see."""
        self.previous_end = previous_end
        """How the previous lease of the lock ended. Unless it was released, check for unfinished work of its holder."""
        self._body.watch(on_lost, on_at_risk)

    @property
    def name(self) -> str:
        """The name of the lock."""
        return self._lease.name

    @property
    def token(self) -> int:
        """The fencing token: higher than those of all earlier grants of the lock."""
        return self._lease.token

    @property
    def grant_id(self) -> str:
        """The public id of the grant."""
        return self._lease.grant_id

    @property
    def loss(self) -> Loss | None:
        """How the lock was lost; None if it was not."""
        self._driver.check(self._lease)
        return self._lease.lost

    def valid(self) -> bool:
        """Whether the lock is held, by the clock of this process. Once false, always false."""
        return self._driver.check(self._lease)

    def remaining(self) -> float:
        """Returns for how many seconds the lock is held without a renewal; 0 if it is not held."""
        return self._lease.remaining(now()) if self.valid() else 0.0

    def check(self) -> None:
        """Raises :class:`fencepost.LockLost` if the lock is lost. Call it before each step of the work.

        After a release it raises :class:`FencepostError`."""
        loss = self.loss
        if loss is not None:
            raise lost_error(self._lease, loss)
        if self._lease.released:
            raise FencepostError(f"{self.name} is released: the lock is not held any more")

    async def lost(self) -> Loss | None:
        """Waits until the lock is lost or released. Returns how it was lost, or None."""
        await self._body.ended.wait()
        return self.loss

    async def release(self) -> Released:
        """Releases the lock. Stop the work that it protects first: from now on others may get it.

        A repeated call returns the same. The result says how the lease ended: anything but ``RELEASED`` means that it
        had ended before; then the call returns at once. While the outcome is unknown, the release is repeated in the
        background; so it is if this call is cancelled.

        Raises:
            OutcomeUnknown: no server has confirmed the release within ``retry_for``. The client goes on to release it,
                until the TTL is over.
            Refused: the server refused the call. The lease ends by its TTL.
        """
        self._driver.check_use()
        loss = self.loss
        if self._released is None and loss is not None:
            self._driver.give_up(self._lease)
            self._released = known_end(loss)
        if self._released is None:
            done = await self._driver.release(self._lease)
            if done.error is not None:
                raise done.error
            self._released = done.result
        assert self._released is not None
        return self._released

    async def __aenter__(self) -> Lock:
        self.check()
        self._body.enter()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        lost = self.loss
        released = None
        interrupted = self._body.leave() and isinstance(error, asyncio.CancelledError)
        try:
            released = await self.release()
        except FencepostError as failure:
            # The work is done, and was protected. The lease ends by its TTL at the latest.
            write(logging.WARNING, f"{self.name} is not released yet: {failure}", {"lock": self.name})
        lost = lost_at_exit(lost, released)
        if lost is None or interrupted or (isinstance(error, LockLost) and error.token == self.token):
            return
        if error is None or isinstance(error, (Exception, asyncio.CancelledError)):
            raise lost_error(self._lease, lost) from error

    def __repr__(self) -> str:
        state = "released" if self._lease.released else "held" if self.valid() else "lost"
        return f"<fencepost.aio.Lock {self.name!r} token={self.token} {state}>"

    def __del__(self) -> None:
        lease = getattr(self, "_lease", None)
        if lease is not None and not lease.is_over:
            warnings.warn(f"lock {lease.name!r} was never released", ResourceWarning, stacklevel=2, source=self)
            self._driver.forget(lease)


class _Body:
    """The body of the statement that holds a lock: a task to cancel when the lock is lost.

    The lease refers to it, and not to the lock, so that a lock that is forgotten is collected.
    """

    def __init__(self, lease: Lease) -> None:
        self.ended = asyncio.Event()
        """Set when the lock is lost or released."""
        self._lease = lease
        self._loop = asyncio.get_running_loop()
        self._task: asyncio.Task[object] | None = None
        self._cancels_before = 0
        self._cancelled = False

    def watch(self, on_lost: Callable[[Loss], None] | None, on_at_risk: Callable[[], None] | None) -> None:
        """Runs code of the user in turns of its own; the event loop reports its errors."""
        self._lease.on_end = lambda: self._end(on_lost)
        if on_at_risk is not None:
            self._lease.on_at_risk = lambda: self._call_soon(on_at_risk)
        if self._lease.is_over:
            self._end(on_lost)

    def enter(self) -> None:
        self._task = asyncio.current_task()
        self._cancels_before = _cancelling(self._task)

    def leave(self) -> bool:
        """Returns whether somebody else has cancelled the task, as far as can be known. That cancellation goes on."""
        task, self._task = self._task, None
        # As in asyncio.timeout.
        return not self._cancelled or _uncancel(task) > self._cancels_before

    def _end(self, on_lost: Callable[[Loss], None] | None) -> None:
        self.ended.set()
        loss = self._lease.lost
        if loss is None:
            return
        # In a turn of its own: the body may have found out by itself, and a task that cancels itself would be
        # interrupted at its next await, wherever that is.
        self._call_soon(self._cancel)
        if on_lost is not None:
            self._call_soon(partial(on_lost, loss))

    def _cancel(self) -> None:
        if self._task is not None and not self._cancelled:
            self._cancelled = True
            self._task.cancel(f"{self._lease.name} is lost")

    def _call_soon(self, call: Callable[[], None]) -> None:
        self._loop.call_soon(call)


if sys.version_info >= (3, 11):

    def _cancelling(task: asyncio.Task[object] | None) -> int:
        return 0 if task is None else task.cancelling()

    def _uncancel(task: asyncio.Task[object] | None) -> int:
        return 0 if task is None else task.uncancel()

else:
    # Python 3.10 does not count cancellations: one of somebody else at the same moment is taken for the loss.
    def _cancelling(_task: asyncio.Task[object] | None) -> int:
        return 0

    def _uncancel(_task: asyncio.Task[object] | None) -> int:
        return 0
