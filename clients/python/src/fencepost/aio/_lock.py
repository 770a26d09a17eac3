"""A lock held by this process, with asyncio."""

from __future__ import annotations

import asyncio
import logging
import warnings
from collections.abc import Callable, Mapping
from functools import partial
from types import TracebackType

from fencepost._core import convert
from fencepost._core.clock import now
from fencepost._core.events import write
from fencepost._core.lease import Lease
from fencepost._core.outcome import ended_error, lost_at_exit, lost_error, settled
from fencepost.aio._body import Body
from fencepost.aio._tasks import Driver
from fencepost.errors import FencepostError, LockLost
from fencepost.types import LeaseEnd, LockMode, Loss, Released


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
        on_end: Callable[[Lease], None] | None = None,
        tells_wanted: bool = False,
        on_wanted: Callable[[LockMode], None] | None = None,
    ) -> None:
        # "on_end" is for the set that the lock belongs to. It is called at any end, by the engine.
        self._client = client  # a client lives as long as its locks
        self._driver = driver
        self._lease = lease
        self._body = _Body(lease, on_end, tells_wanted)
        self.holder = holder
        """The label that others see."""
        self.previous_end = previous_end
        """How the previous lease of the lock ended. Unless it was released, check for unfinished work of its holder."""
        self._body.watch(on_lost, on_at_risk, on_wanted)

    @property
    def name(self) -> str:
        """The name of the lock."""
        return self._lease.name

    @property
    def token(self) -> int:
        """The fencing token: higher than those of all earlier grants of the lock. :meth:`try_upgrade` changes it, so
        read it for each write.
        """
        return self._lease.token

    @property
    def mode(self) -> LockMode:
        """Which others it excludes: that of the acquire, or of the last conversion."""
        return self._lease.mode

    @property
    def grant_id(self) -> str:
        """The public id of the grant."""
        return self._lease.grant_id

    @property
    def permits(self) -> int:
        """Its permits of a semaphore; 0 if the lock is held as none."""
        return self._lease.permits

    @property
    def slot(self) -> int | None:
        """Its slot, if it has one permit of a semaphore: a number that no other holder has, the lowest that was free,
        from 1 to the limit. For what exists so many times: ids of workers, ports, seats of a licence.
        """
        return self._lease.slot

    @property
    def wanted_mode(self) -> LockMode | None:
        """The mode that is waited for, as a server has told last; None if none has. For a lock that was acquired with
        ``tell_when_wanted``. A hint: servers may tell it late, or not at all.
        """
        return self._lease.wanted

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
        if self.loss is not None or self._lease.released:
            raise ended_error(self._lease)

    async def lost(self) -> Loss | None:
        """Waits until the lock is lost or released. Returns how it was lost, or None."""
        await self._body.ended.wait()
        return self.loss

    async def wanted(self) -> LockMode | None:
        """Waits until somebody waits whom the lock excludes, or the lock is lost or released. Returns
        :attr:`wanted_mode`.
        """
        await self._body.stirred.wait()
        return self.wanted_mode

    async def downgrade(self) -> None:
        """Lets others share the lock from now on: it is held without a moment in between, and keeps its token. Readers
        that are next in the queue get the lock at once, and a writer that waits comes after them. Stop writing before:
        readers may come in although no answer arrives. A lock that is shared already stays so.

        Raises:
            LockLost: the lock is lost.
            Refused: nothing was done. ``NOT_CONVERTIBLE``: it is held as a semaphore.
            OutcomeUnknown: no server has confirmed it within ``retry_for``. Call it again: a repeat does no harm.
            Unavailable: nothing was done, try later.
        """
        await self._convert(LockMode.SHARED)

    async def try_upgrade(self) -> bool:
        """Makes a shared lock exclusive, if nobody else shares it or is offered it. Returns whether it is exclusive;
        if not, it is still shared. It never waits: of two readers that both want this, one has to release. A lock that
        is exclusive already stays so, and gets a new token too.

        The lock has a new, higher :attr:`token` then. Cancelled, it goes on in the background.

        Raises:
            LockLost: the lock is lost.
            Refused: nothing was done. ``NOT_CONVERTIBLE``: it is held as a semaphore.
            OutcomeUnknown: no server has confirmed it within ``retry_for``. It may have taken effect, and then the lock
                has a token that this process does not know: call it again, which returns true then and corrects it.
            Unavailable: nothing was done, try later.
        """
        return await self._convert(LockMode.EXCLUSIVE)

    async def _convert(self, mode: LockMode) -> bool:
        self._driver.check_use()
        self.check()
        done = await self._driver.convert(self._lease, mode)
        if done.error is not None:
            raise done.error
        return done.converted

    async def describe(self, metadata: Mapping[str, str], holder: str | None = None) -> int:
        """Replaces what others see of the lock: all of its metadata, and its label if one is given. So the leader of an
        election tells its address, and a job its progress. Returns the number of the description, which others see as
        :attr:`Holder.description`.

        Raises:
            LockLost: the lock is lost.
            Refused: nothing was done; its fields say why.
            OutcomeUnknown: no server has confirmed it within ``retry_for``. Others may see it.
            Unavailable: nothing was done, try later.
            FencepostError: another process that has the same lease, by its ``request_id``, described it meanwhile.
        """
        said, label = convert.metadata(metadata), None if holder is None else convert.text(holder, "holder")
        self._driver.check_use()
        self.check()
        done = await self._driver.describe(self._lease, said, label)
        if done.error is not None:
            raise done.error
        self.holder = self.holder if label is None else label
        return done.number

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
        self._driver.check(self._lease)
        known = settled(self._lease, self._driver.give_up)
        if known is not None:
            return known
        done = await self._driver.release(self._lease)
        if done.error is not None:
            raise done.error
        assert done.result is not None
        self._lease.result = done.result
        return done.result

    async def __aenter__(self) -> Lock:
        if self.loss is not None:
            # No body runs, so the end of the block does not give up what the server may still have.
            await self.release()
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


class _Body(Body):
    """The body of the statement that holds a lock: a task to cancel when the lock is lost.

    The lease refers to it, and not to the lock, so that a lock that is forgotten is collected.
    """

    def __init__(self, lease: Lease, on_end: Callable[[Lease], None] | None, tells_wanted: bool) -> None:
        super().__init__()
        self._lease = lease
        self._on_end = on_end
        # One is enough for a lock that is never told: a client may hold many thousands.
        self.stirred = asyncio.Event() if tells_wanted else self.ended
        """Set when somebody waits for the lock, and when it ends."""

    def watch(
        self,
        on_lost: Callable[[Loss], None] | None,
        on_at_risk: Callable[[], None] | None,
        on_wanted: Callable[[LockMode], None] | None,
    ) -> None:
        """Runs code of the user in turns of its own; the event loop reports its errors."""
        self._lease.on_end = lambda: self._end(on_lost)
        if self.stirred is not self.ended:
            self._lease.on_wanted = lambda: self._wanted(on_wanted)
        if self._lease.wanted is not None:
            self._wanted(on_wanted)
        if on_at_risk is not None:
            self._lease.on_at_risk = lambda: self._call_soon(on_at_risk)
        if self._lease.is_over:
            self._end(on_lost)

    def _end(self, on_lost: Callable[[Loss], None] | None) -> None:
        self.ended.set()
        self.stirred.set()
        if self._on_end is not None:
            self._on_end(self._lease)
        loss = self._lease.lost
        if loss is None:
            return
        self.cancel_soon(self._lease.name)
        if on_lost is not None:
            self._call_soon(partial(on_lost, loss))

    def _wanted(self, on_wanted: Callable[[LockMode], None] | None) -> None:
        self.stirred.set()
        mode = self._lease.wanted
        if mode is not None and on_wanted is not None:
            self._call_soon(partial(on_wanted, mode))
