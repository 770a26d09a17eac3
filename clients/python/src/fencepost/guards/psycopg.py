"""The guard for PostgreSQL with psycopg 3."""

from __future__ import annotations

from typing import Any

from psycopg import AsyncConnection, Connection
from psycopg.pq import TransactionStatus
from psycopg.rows import tuple_row

from fencepost import _facts as facts
from fencepost.errors import StaleToken
from fencepost.guards._fence import Held, create, no_transaction, own_transaction, pyformat, refused, shared, values

_CREATE = facts.GUARD_POSTGRES_CREATE.encode()
_HAS_SHARED = facts.GUARD_POSTGRES_HAS_SHARED.encode()
_ADD_SHARED = facts.GUARD_POSTGRES_ADD_SHARED.encode()
_RAISE = pyformat(facts.GUARD_POSTGRES_RAISE).encode()
_NEWEST = pyformat(facts.GUARD_POSTGRES_NEWEST).encode()
_RAISE_SHARED = pyformat(facts.GUARD_POSTGRES_RAISE_SHARED).encode()
_CHECK_SHARED = pyformat(facts.GUARD_POSTGRES_CHECK_SHARED).encode()


def create_table(connection: Connection[Any]) -> None:
    """Creates the table of fences, unless it is there. Adds what one of an earlier version lacks. Commit it."""

    def run(statement: str) -> None:
        with connection.transaction():
            connection.execute(statement.encode())

    def found() -> int:
        with connection.cursor(row_factory=tuple_row) as cursor:
            return _number(cursor.execute(_HAS_SHARED).fetchone())

    create(run, found, facts.GUARD_POSTGRES_CREATE, facts.GUARD_POSTGRES_ADD_SHARED)


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
            raise StaleToken(lock.name, lock.token, _number(cursor.execute(_NEWEST, values(lock)).fetchone()))


def raise_shared(connection: Connection[Any], lock: Held) -> None:
    """Raises the token of a shared lock, in a transaction of its own. Call it once after the grant.

    It waits for the transactions that work under this lock at that time. Under REPEATABLE READ and SERIALIZABLE it may
    fail with ``psycopg.errors.SerializationFailure`` (40001): call it again.

    Raises:
        StaleToken: a writer with a newer token has raised the fence.
        FencepostError: the connection is in a transaction.
    """
    if connection.info.transaction_status is not TransactionStatus.IDLE:
        raise own_transaction()
    with connection.transaction(), connection.cursor(row_factory=tuple_row) as cursor:
        if cursor.execute(_RAISE_SHARED, values(shared(lock))).fetchone() is None:
            raise refused(lock, _number(cursor.execute(_NEWEST, values(lock)).fetchone()))


def check_shared(connection: Connection[Any], lock: Held) -> None:
    """Checks the token of a shared lock. Call it first in each transaction that works under the lock.

    Writers wait until the end of the transaction, and other readers do not. Under REPEATABLE READ and SERIALIZABLE it
    may fail with ``psycopg.errors.SerializationFailure`` (40001): run the whole transaction again.

    Raises:
        StaleToken: a writer with a newer token has raised the fence. The transaction has to be rolled back.
        FencepostError: the connection is not in a transaction, or :func:`raise_shared` was not called.
    """
    with connection.cursor(row_factory=tuple_row) as cursor:
        passed = cursor.execute(_CHECK_SHARED, values(shared(lock))).fetchone()
        if connection.info.transaction_status is TransactionStatus.IDLE:
            raise no_transaction()
        if passed is None:
            raise refused(lock, _number(cursor.execute(_NEWEST, values(lock)).fetchone()))


async def create_table_async(connection: AsyncConnection[Any]) -> None:
    """Does what :func:`create_table` does."""

    async def found() -> int:
        async with connection.cursor(row_factory=tuple_row) as cursor:
            await cursor.execute(_HAS_SHARED)
            return _number(await cursor.fetchone())

    if await found():
        return
    try:
        async with connection.transaction():
            await connection.execute(_CREATE)
            await connection.execute(_ADD_SHARED)
    except Exception:
        if not await found():
            raise


async def raise_fence_async(connection: AsyncConnection[Any], lock: Held) -> None:
    """Does what :func:`raise_fence` does."""
    async with connection.cursor(row_factory=tuple_row) as cursor:
        await cursor.execute(_RAISE, values(lock))
        raised = await cursor.fetchone()
        if connection.info.transaction_status is TransactionStatus.IDLE:
            raise no_transaction()
        if raised is None:
            await cursor.execute(_NEWEST, values(lock))
            raise StaleToken(lock.name, lock.token, _number(await cursor.fetchone()))


async def raise_shared_async(connection: AsyncConnection[Any], lock: Held) -> None:
    """Does what :func:`raise_shared` does."""
    if connection.info.transaction_status is not TransactionStatus.IDLE:
        raise own_transaction()
    async with connection.transaction(), connection.cursor(row_factory=tuple_row) as cursor:
        await cursor.execute(_RAISE_SHARED, values(shared(lock)))
        if await cursor.fetchone() is None:
            await cursor.execute(_NEWEST, values(lock))
            raise refused(lock, _number(await cursor.fetchone()))


async def check_shared_async(connection: AsyncConnection[Any], lock: Held) -> None:
    """Does what :func:`check_shared` does."""
    async with connection.cursor(row_factory=tuple_row) as cursor:
        await cursor.execute(_CHECK_SHARED, values(shared(lock)))
        passed = await cursor.fetchone()
        if connection.info.transaction_status is TransactionStatus.IDLE:
            raise no_transaction()
        if passed is None:
            await cursor.execute(_NEWEST, values(lock))
            raise refused(lock, _number(await cursor.fetchone()))


def _number(row: tuple[Any, ...] | None) -> int:
    return int(row[0]) if row else 0
