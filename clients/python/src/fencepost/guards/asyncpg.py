"""The guard for PostgreSQL with asyncpg."""

from __future__ import annotations

from typing import Any

from asyncpg import Connection
from asyncpg.pool import PoolConnectionProxy

from fencepost._facts import GUARD_POSTGRES_CREATE, GUARD_POSTGRES_NEWEST, GUARD_POSTGRES_RAISE
from fencepost.errors import StaleToken
from fencepost.guards._fence import Held, no_transaction, numbered, values

_RAISE = numbered(GUARD_POSTGRES_RAISE)
_NEWEST = numbered(GUARD_POSTGRES_NEWEST)


async def create_table(connection: Connection[Any] | PoolConnectionProxy[Any]) -> None:
    """Creates the table of fences, unless it is there."""
    await connection.execute(GUARD_POSTGRES_CREATE)


async def raise_fence(connection: Connection[Any] | PoolConnectionProxy[Any], lock: Held) -> None:
    """Raises the fence of the lock to its token. Call it first in the transaction of the write.

    The fence stays locked until the end of the transaction. Under REPEATABLE READ and SERIALIZABLE it may fail with
    ``asyncpg.SerializationError`` (40001): run the whole transaction again.

    Raises:
        StaleToken: the store has seen a newer token. The transaction has to be rolled back.
        FencepostError: the connection is not in a transaction.
    """
    if not connection.is_in_transaction():
        raise no_transaction()
    if await connection.fetchval(_RAISE, *values(lock).values()) is None:
        raise StaleToken(lock.name, lock.token, await connection.fetchval(_NEWEST, lock.name))
