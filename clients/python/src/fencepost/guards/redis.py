"""The guard for Redis with redis-py.

Redis has no transaction that can be rolled back, so the guard and the write are one script:

    from fencepost.guards.redis import Script

    save = Script("return redis.call('SET', KEYS[2], ARGV[3])")
    save(client, lock, "{order:42}:fence", keys=["{order:42}"], args=["paid"])
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from redis import Redis
from redis import asyncio as aio
from redis.exceptions import ResponseError

from fencepost._facts import GUARD_REDIS_RAISE
from fencepost.errors import StaleToken
from fencepost.guards._fence import Held

_STALE = re.compile(r"STALE (\d+)")

Value = str | bytes | int | float


class Script:
    """A script of Lua that runs only if no newer token of the lock was seen.

    ``KEYS[1]``, ``ARGV[1]`` and ``ARGV[2]`` belong to the guard. The keys of the script begin with ``KEYS[2]``, its
    arguments with ``ARGV[3]``. In a cluster all keys, that of the fence too, have to be in the same hash slot.
    """

    def __init__(self, text: str) -> None:
        self._text = f"{GUARD_REDIS_RAISE}\n{text}"

    def __call__(
        self, client: Redis, lock: Held, fence: str, keys: Iterable[str] = (), args: Iterable[Value] = ()
    ) -> Any:
        """Runs the script. Returns what it returns.

        Args:
            client: The client of Redis.
            lock: The lock that protects the data.
            fence: The key of the fence: one for each lock.
            keys: The keys of the script.
            args: The arguments of the script.

        Raises:
            StaleToken: the store has seen a newer token. Nothing was written.
        """
        script = client.register_script(self._text)
        try:
            return script([fence, *keys], [lock.token, lock.grant_id, *args])
        except ResponseError as error:
            _raise_if_stale(error, lock)
            raise

    async def run_async(
        self, client: aio.Redis, lock: Held, fence: str, keys: Iterable[str] = (), args: Iterable[Value] = ()
    ) -> Any:
        """Does what a call does, with asyncio."""
        script = client.register_script(self._text)
        try:
            return await script([fence, *keys], [lock.token, lock.grant_id, *args])
        except ResponseError as error:
            _raise_if_stale(error, lock)
            raise


def _raise_if_stale(error: ResponseError, lock: Held) -> None:
    stale = _STALE.match(str(error))
    if stale:
        raise StaleToken(lock.name, lock.token, int(stale[1])) from error
