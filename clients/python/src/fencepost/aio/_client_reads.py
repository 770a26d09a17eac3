"""The part of a client that reads, with asyncio."""

from __future__ import annotations

from collections.abc import AsyncIterator

from fencepost.aio._calls import Calls
from fencepost.aio._tasks import Driver
from fencepost.aio._watch import Observation, Watch
from fencepost.types import LockInfo, TokenCheck, Waiter


class Reads:
    """Reads the state of locks."""

    _calls: Calls
    _driver: Driver

    async def get(self, name: str) -> LockInfo:
        """Returns the state of a lock: its holders, the time left, the number of waiters."""
        self._driver.check_use()
        return await self._calls.get(name)

    def list(self, prefix: str = "") -> AsyncIterator[LockInfo]:
        """Iterates over the locks that are held or waited for, in no particular order."""
        self._driver.check_use()
        return self._calls.list(prefix)

    def watch(self, prefix: str = "") -> Watch:
        """Reports events of the locks whose names begin with ``prefix``, from the return of this call on."""
        self._driver.check_use()
        return Watch(self._calls, prefix)

    async def check_token(self, name: str, token: int) -> TokenCheck:
        """Checks whether a token is that of a current lease. For stores that cannot keep the highest token themselves;
        the answer may be out of date when it arrives.
        """
        self._driver.check_use()
        return await self._calls.check_token(name, token)

    def waiters(self, name: str) -> AsyncIterator[Waiter]:
        """Iterates over the requests that wait for a lock, the next one first. They may join and leave meanwhile."""
        self._driver.check_use()
        return self._calls.waiters(name)

    def observe(self, name: str) -> Observation:
        """Reports the state of a lock: first the one that it has now, then each after a grant, a conversion, a
        description or the end of a lease. Who leads an election, and what it says of itself.
        """
        self._driver.check_use()
        return Observation(self._calls, name)
