"""The guard for PostgreSQL with asyncpg."""

from __future__ import annotations

from typing import Any

from asyncpg import Connection
from asyncpg.pool import PoolConnectionProxy

from fencepost import _facts as facts
from fencepost.errors import StaleToken
from fencepost.guards._fence import Held, fence_name, no_transaction, numbered, own_transaction, refused, shared, values

_RAISE = numbered(facts.GUARD_POSTGRES_RAISE)
_NEWEST = numbered(facts.GUARD_POSTGRES_NEWEST)
_RAISE_SHARED = numbered(facts.GUARD_POSTGRES_RAISE_SHARED)
_CHECK_SHARED = numbered(facts.GUARD_POSTGRES_CHECK_SHARED)


async def create_table(connection: Connection[Any] | PoolConnectionProxy[Any]) -> None:
    """Creates the table of fences, unless it is there. Adds what one of an earlier version lacks."""
    if await connection.fetchval(facts.GUARD_POSTGRES_HAS_SHARED):
        return
    try:
        async with connection.transaction():
            await connection.execute(facts.GUARD_POSTGRES_CREATE)
            await connection.execute(facts.GUARD_POSTGRES_ADD_SHARED)
    except Exception:
        if not await connection.fetchval(facts.GUARD_POSTGRES_HAS_SHARED):
            raise


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
        raise StaleToken(lock.name, lock.token, await connection.fetchval(_NEWEST, fence_name(lock)))


async def raise_shared(connection: Connection[Any] | PoolConnectionProxy[Any], lock: Held) -> None:
    """Raises the token of a shared lock, in a transaction of its own. Call it once after the grant.

    It waits for the transactions that work under this lock at that time. If the default of the connection is REPEATABLE
    READ or SERIALIZABLE, it may fail with ``asyncpg.SerializationError`` (40001): call it again.

    Raises:
        StaleToken: a writer with a newer token has raised the fence.
        FencepostError: the connection is in a transaction.
    """
    if connection.is_in_transaction():
        raise own_transaction()
    if await connection.fetchval(_RAISE_SHARED, *values(shared(lock)).values()) is None:
        raise refused(lock, await connection.fetchval(_NEWEST, lock.name) or 0)


async def check_shared(connection: Connection[Any] | PoolConnectionProxy[Any], lock: Held) -> None:
    """Checks the token of a shared lock. Call it first in each transaction that works under the lock.

    Writers wait until the end of the transaction, and other readers do not. Under REPEATABLE READ and SERIALIZABLE it
    may fail with ``asyncpg.SerializationError`` (40001): run the whole transaction again.

    Raises:
        StaleToken: a writer with a newer token has raised the fence. The transaction has to be rolled back.
        FencepostError: the connection is not in a transaction, or :func:`raise_shared` was not called.
    """
    if not connection.is_in_transaction():
        raise no_transaction()
    if await connection.fetchval(_CHECK_SHARED, *values(shared(lock)).values()) is None:
        raise refused(lock, await connection.fetchval(_NEWEST, lock.name) or 0)
