"""The guard for SQLite with the module ``sqlite3``."""

from __future__ import annotations

import sqlite3

from fencepost import _facts as facts
from fencepost.errors import StaleToken
from fencepost.guards._fence import Held, create, fence_name, no_transaction, own_transaction, refused, shared, values


def create_table(connection: sqlite3.Connection) -> None:
    """Creates the table of fences, unless it is there. Adds what one of an earlier version lacks."""
    cursor = _cursor(connection)
    create(
        cursor.execute,
        lambda: _number(cursor.execute(facts.GUARD_SQLITE_HAS_SHARED).fetchone()),
        facts.GUARD_SQLITE_CREATE,
        facts.GUARD_SQLITE_ADD_SHARED,
    )


def raise_fence(connection: sqlite3.Connection, lock: Held) -> None:
    """Raises the fence of the lock to its token. Call it first in the transaction of the write.

    No other connection writes until the end of the transaction. SQLite 3.35 or later is needed.

    Raises:
        StaleToken: the store has seen a newer token. The transaction has to be rolled back.
        FencepostError: the connection is not in a transaction.
    """
    cursor = _cursor(connection)
    raised = cursor.execute(facts.GUARD_SQLITE_RAISE, values(lock)).fetchall()
    if not connection.in_transaction:
        raise no_transaction()
    if not raised:
        raise StaleToken(lock.name, lock.token, _newest(cursor, lock))


def raise_shared(connection: sqlite3.Connection, lock: Held) -> None:
    """Raises the token of a shared lock, in a transaction of its own. Call it once after the grant.

    Raises:
        StaleToken: a writer with a newer token has raised the fence.
        FencepostError: the connection is in a transaction. With ``autocommit=False`` it always is: use another one.
    """
    if connection.in_transaction:
        raise own_transaction()
    cursor = _cursor(connection)
    raised = cursor.execute(facts.GUARD_SQLITE_RAISE_SHARED, values(shared(lock))).fetchall()
    connection.commit()
    if not raised:
        raise refused(lock, _newest(cursor, lock))


def check_shared(connection: sqlite3.Connection, lock: Held) -> None:
    """Checks the token of a shared lock. Call it first in each transaction that works under the lock.

    Begin with ``BEGIN``, or ``BEGIN IMMEDIATE`` if the transaction writes: Python begins none before a read.

    Raises:
        StaleToken: a writer with a newer token has raised the fence. The transaction has to be rolled back.
        FencepostError: the connection is not in a transaction, or :func:`raise_shared` was not called.
    """
    if not connection.in_transaction:
        raise no_transaction()
    cursor = _cursor(connection)
    if not cursor.execute(facts.GUARD_SQLITE_CHECK_SHARED, values(shared(lock))).fetchall():
        raise refused(lock, _newest(cursor, lock))


def _cursor(connection: sqlite3.Connection) -> sqlite3.Cursor:
    cursor = connection.cursor()
    cursor.row_factory = None
    return cursor


def _newest(cursor: sqlite3.Cursor, lock: Held) -> int:
    return _number(cursor.execute(facts.GUARD_SQLITE_NEWEST, {"lock_name": fence_name(lock)}).fetchone())


def _number(row: tuple[int, ...] | None) -> int:
    return row[0] if row else 0
