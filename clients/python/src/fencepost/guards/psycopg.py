"""The guard for PostgreSQL with psycopg 3."""

from __future__ import annotations

from typing import Any

from psycopg import AsyncConnection, Connection
from psycopg.pq import TransactionStatus
from psycopg.rows import tuple_row

from fencepost._facts import GUARD_POSTGRES_CREATE, GUARD_POSTGRES_NEWEST, GUARD_POSTGRES_RAISE
from fencepost.errors import StaleToken
from fencepost.guards._fence import Held, no_transaction, pyformat, values

_RAISE = pyformat(GUARD_POSTGRES_RAISE).encode()
_NEWEST = pyformat(GUARD_POSTGRES_NEWEST).encode()


def create_table(connection: Connection[Any]) -> None:
    """Creates the table of fences, unless it is there. Commit it."""
    connection.execute(GUARD_POSTGRES_CREATE.encode())


def raise_fence(connection: Connection[Any], lock: Held) -> None:
    """Raises the fence of the lock to its token. Call it first in the transaction of the write.

    The fence stays locked until the end of the transaction. Under REPEATABLE READ and SERIALIZABLE it may fail with
    ``psycopg.errors.SerializationFailure`` (40001): run the whole transaction again.

    Raises:
        StaleToken: the store has seen a newer token. The transaction has to be rolled back.
        FencepostError: the connection is not in a transaction.
    """
    with connection.cursor(row_factory=tuple_row) as cursor:
        raised = cursor.execute(_RAISE, values(lock)).fetchone()
        if connection.info.transaction_status is TransactionStatus.IDLE:
            raise no_transaction()
        if raised is None:
            newest = cursor.execute(_NEWEST, values(lock)).fetchone()
            raise StaleToken(lock.name, lock.token, newest[0] if newest else 0)


async def create_table_async(connection: AsyncConnection[Any]) -> None:
    """Does what :func:`create_table` does."""
    await connection.execute(GUARD_POSTGRES_CREATE.encode())


async def raise_fence_async(connection: AsyncConnection[Any], lock: Held) -> None:
    """Does what :func:`raise_fence` does."""
    async with connection.cursor(row_factory=tuple_row) as cursor:
        await cursor.execute(_RAISE, values(lock))
        raised = await cursor.fetchone()
        if connection.info.transaction_status is TransactionStatus.IDLE:
            raise no_transaction()
        if raised is None:
            await cursor.execute(_NEWEST, values(lock))
            newest = await cursor.fetchone()
            raise StaleToken(lock.name, lock.token, newest[0] if newest else 0)
