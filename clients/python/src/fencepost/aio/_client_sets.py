"""The part of a client that acquires several locks at once, with asyncio."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta

from fencepost._core import convert
from fencepost._core.clock import now
from fencepost._core.options import Options
from fencepost._core.together import Asked
from fencepost.aio._lock_set import Collector, LockSet
from fencepost.aio._tasks import Driver
from fencepost.errors import LockLost
from fencepost.types import LockMode


class Sets:
    """Acquires several locks together."""

    _options: Options
    _driver: Driver

    async def acquire_all(
        self,
        names: Iterable[str | tuple[str, LockMode]],
        *,
        ttl: float | timedelta | None = None,
        wait: float | timedelta = 0,
        holder: str | None = None,
        metadata: Mapping[str, str] | None = None,
        max_hold: float | timedelta | None = None,
        min_hold: float | timedelta | None = None,
        lock_delay: float | timedelta | None = None,
        owner: str | None = None,
        on_lost: Callable[[LockLost], None] | None = None,
    ) -> LockSet:
        """Acquires several locks together: all of them, or none.

        The locks are acquired one after another, in the order of the bytes of their names, in which all clients acquire
        them: so no two calls wait for each other in a circle. It is not one step: others see that some are held, and
        those are held while later ones are waited for. :meth:`try_all` does not do that.

        Fails, and gives back what it has, when one is not acquired, and when one is lost while later ones are waited
        for. Cancelled, it gives back what it has in the background.

        Args:
            names: 1 to 64 names of locks; one that is given twice counts once. A tuple of a name and
                :attr:`LockMode.SHARED` shares that lock: in a hierarchy, share the parents of what you change.
            ttl: How long each lease lasts without a renewal; see :meth:`acquire`.
            wait: How long to wait for all of them in sum, in seconds: 0 (do not wait) to 1 h.
            holder: The label for these locks, in place of the client's.
            metadata: Shown with the holder of each lock: at most 4 KiB.
            max_hold: The longest time to hold each lock from its grant; see :meth:`acquire`. The set is lost with the
                first lock for which it is over.
            min_hold: How long each lock stays unavailable after its grant; see :meth:`acquire`. So do those that are
                given back because another one was not acquired.
            lock_delay: How long each lock stays unavailable if it is not released; see :meth:`acquire`.
            owner: A label of what acquires locks one after another, and waits for one while it holds others; see
                :meth:`acquire`.
            on_lost: Called once, when the first lock of the set is lost, by the event loop.

        Raises:
            NotAllAcquired: the error names the lock and what was given back; its cause is what :meth:`acquire` raises.
            ClientClosed: the client was closed, or this process was forked after it was made.
        """
        collector = self._together(names, ttl, wait, holder, metadata, max_hold, min_hold, lock_delay, owner, on_lost)
        return await collector.acquire()

    async def try_all(
        self,
        names: Iterable[str | tuple[str, LockMode]],
        *,
        ttl: float | timedelta | None = None,
        wait: float | timedelta = 0,
        holder: str | None = None,
        metadata: Mapping[str, str] | None = None,
        max_hold: float | timedelta | None = None,
        min_hold: float | timedelta | None = None,
        lock_delay: float | timedelta | None = None,
        owner: str | None = None,
        on_lost: Callable[[LockLost], None] | None = None,
    ) -> LockSet | None:
        """Acquires several locks together when all of them are free at the same moment; returns None if they were not
        within ``wait``.

        It never waits for one lock while it holds another: it tries to acquire all, and if one is not free it gives
        back what it has and tries again after a random pause of up to a second. So it holds up nobody, and it may come
        too late again and again if the locks are rarely free. With ``min_hold``, what a try gives back is unavailable
        to the next ones as well. Arguments and errors: see :meth:`acquire_all`.
        """
        collector = self._together(names, ttl, wait, holder, metadata, max_hold, min_hold, lock_delay, owner, on_lost)
        return await collector.acquire_by_tries()

    def _together(
        self,
        names: Iterable[str | tuple[str, LockMode]],
        ttl: float | timedelta | None,
        wait: float | timedelta,
        holder: str | None,
        metadata: Mapping[str, str] | None,
        max_hold: float | timedelta | None,
        min_hold: float | timedelta | None,
        lock_delay: float | timedelta | None,
        owner: str | None,
        on_lost: Callable[[LockLost], None] | None,
    ) -> Collector:
        label = self._options.holder if holder is None else holder
        convert.callback(on_lost, "on_lost")
        asked = Asked(names, ttl, wait, label, metadata, max_hold, min_hold, lock_delay, owner, now())
        return Collector(self, self._driver, asked, label, on_lost)
