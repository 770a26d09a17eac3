"""The guard for SQLite with the module ``sqlite3``."""

from __future__ import annotations

import sqlite3

from fencepost._facts import GUARD_SQLITE_CREATE, GUARD_SQLITE_NEWEST, GUARD_SQLITE_RAISE
from fencepost.errors import StaleToken
from fencepost.guards._fence import Held, no_transaction, values


def create_table(connection: sqlite3.Connection) -> None:
    """Creates the table of fences, unless it is there."""
    connection.execute(GUARD_SQLITE_CREATE)


def raise_fence(connection: sqlite3.Connection, lock: Held) -> None:
    """Raises the fence of the lock to its token. Call it first in the transaction of the write.

    No other connection writes until the end of the transaction. SQLite 3.35 or later is needed.

    Raises:
        StaleToken: the store has seen a newer token. The transaction has to be rolled back.
        FencepostError: the connection is not in a transaction.
    """
    cursor = connection.cursor()
    cursor.row_factory = None
    raised = cursor.execute(GUARD_SQLITE_RAISE, values(lock)).fetchall()
    if not connection.in_transaction:
        raise no_transaction()
    if not raised:
        newest = cursor.execute(GUARD_SQLITE_NEWEST, {"lock_name": lock.name}).fetchone()
        raise StaleToken(lock.name, lock.token, newest[0])
