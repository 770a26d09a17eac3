"""The guard for Redis with redis-py.

Redis has no transaction that can be rolled back, so the guard and the write are one script:

    from fencepost.guards.redis import Script

    save = Script("return redis.call('SET', KEYS[2], ARGV[3])")
    save(client, lock, "{order:42}:fence", keys=["{order:42}"], args=["paid"])

The holder of a shared lock raises its token once, after the grant, and then runs its scripts with ``check_shared``:

    raise_shared(client, lock, "{order:42}:fence")
    save.check_shared(client, lock, "{order:42}:fence", keys=["{order:42}"], args=["paid"])
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from redis import Redis
from redis import asyncio as aio
from redis.exceptions import ResponseError

from fencepost._facts import GUARD_REDIS_CHECK_SHARED, GUARD_REDIS_RAISE, GUARD_REDIS_RAISE_SHARED
from fencepost.errors import StaleToken
from fencepost.guards._fence import Held, fence_key, refused, shared

_STALE = re.compile(r"STALE (\d+)")

Value = str | bytes | int | float


class Script:
    """A script of Lua that runs only if no newer token of the lock was seen.

    ``KEYS[1]``, ``ARGV[1]`` and ``ARGV[2]`` belong to the guard. The keys of the script begin with ``KEYS[2]``, its
    arguments with ``ARGV[3]``. In a cluster all keys, that of the fence too, have to be in the same hash slot.
    """

    def __init__(self, text: str) -> None:
        self._text = f"{GUARD_REDIS_RAISE}\n{text}"
        self._shared = f"{GUARD_REDIS_CHECK_SHARED}\n{text}"

    def __call__(
        self, client: Redis, lock: Held, fence: str, keys: Iterable[str] = (), args: Iterable[Value] = ()
    ) -> Any:
        """Runs the script. Returns what it returns.

        Args:
            client: The client of Redis.
            lock: The lock that protects the data.
            fence: The key of the fence: one for each lock. For one permit of a semaphore the guard appends ``#SLOT``.
            keys: The keys of the script.
            args: The arguments of the script.

        Raises:
            StaleToken: the store has seen a newer token. Nothing was written.
        """
        try:
            return client.register_script(self._text)(
                [fence_key(lock, fence), *keys], [lock.token, lock.grant_id, *args]
            )
        except ResponseError as error:
            _raise_if_stale(error, lock)
            raise

    async def run_async(
        self, client: aio.Redis, lock: Held, fence: str, keys: Iterable[str] = (), args: Iterable[Value] = ()
    ) -> Any:
        """Does what a call does, with asyncio."""
        try:
            return await client.register_script(self._text)(
                [fence_key(lock, fence), *keys], [lock.token, lock.grant_id, *args]
            )
        except ResponseError as error:
            _raise_if_stale(error, lock)
            raise

    def check_shared(
        self, client: Redis, lock: Held, fence: str, keys: Iterable[str] = (), args: Iterable[Value] = ()
    ) -> Any:
        """Runs the script under a shared lock, after :func:`raise_shared`. Its arguments are those of a call.

        Raises:
            StaleToken: a writer with a newer token has raised the fence. The script did not run.
            FencepostError: :func:`raise_shared` was not called.
        """
        try:
            return client.register_script(self._shared)([fence, *keys], [shared(lock).token, lock.grant_id, *args])
        except ResponseError as error:
            _raise_if_refused(error, lock)
            raise

    async def check_shared_async(
        self, client: aio.Redis, lock: Held, fence: str, keys: Iterable[str] = (), args: Iterable[Value] = ()
    ) -> Any:
        """Does what :meth:`check_shared` does, with asyncio."""
        try:
            return await client.register_script(self._shared)(
                [fence, *keys], [shared(lock).token, lock.grant_id, *args]
            )
        except ResponseError as error:
            _raise_if_refused(error, lock)
            raise


def raise_shared(client: Redis, lock: Held, fence: str) -> None:
    """Raises the token of a shared lock. Call it once after the grant.

    Raises:
        StaleToken: a writer with a newer token has raised the fence.
    """
    try:
        client.register_script(GUARD_REDIS_RAISE_SHARED)([fence], [shared(lock).token, lock.grant_id])
    except ResponseError as error:
        _raise_if_refused(error, lock)
        raise


async def raise_shared_async(client: aio.Redis, lock: Held, fence: str) -> None:
    """Does what :func:`raise_shared` does, with asyncio."""
    try:
        await client.register_script(GUARD_REDIS_RAISE_SHARED)([fence], [shared(lock).token, lock.grant_id])
    except ResponseError as error:
        _raise_if_refused(error, lock)
        raise


def _raise_if_stale(error: ResponseError, lock: Held) -> None:
    stale = _STALE.match(str(error))
    if stale:
        raise StaleToken(lock.name, lock.token, int(stale[1])) from error


def _raise_if_refused(error: ResponseError, lock: Held) -> None:
    stale = _STALE.match(str(error))
    if stale:
        raise refused(lock, int(stale[1])) from error
