"""The guard for MySQL and MariaDB with PyMySQL."""

from __future__ import annotations

from typing import Any

from pymysql.connections import Connection
from pymysql.constants.SERVER_STATUS import SERVER_STATUS_IN_TRANS
from pymysql.cursors import Cursor

from fencepost import _facts as facts
from fencepost.errors import StaleToken
from fencepost.guards._fence import Held, create, no_transaction, own_transaction, pyformat, refused, shared, values

_RAISE = pyformat(facts.GUARD_MYSQL_RAISE)
_NEWEST = pyformat(facts.GUARD_MYSQL_NEWEST)
_RAISE_SHARED = pyformat(facts.GUARD_MYSQL_RAISE_SHARED)
_CHECK_SHARED = pyformat(facts.GUARD_MYSQL_CHECK_SHARED)
_NEWEST_SHARED = pyformat(facts.GUARD_MYSQL_NEWEST_SHARED)


def create_table(connection: Connection[Any]) -> None:
    """Creates the table of fences, unless it is there. Adds what one of an earlier version lacks."""
    with connection.cursor(Cursor) as cursor:

        def found() -> int:
            cursor.execute(facts.GUARD_MYSQL_HAS_SHARED)
            ((number,),) = cursor.fetchall()
            return int(number)

        create(cursor.execute, found, facts.GUARD_MYSQL_CREATE, facts.GUARD_MYSQL_ADD_SHARED)


def raise_fence(connection: Connection[Any], lock: Held) -> None:
    """Raises the fence of the lock to its token. Call it first in the transaction of the write.

    The fence stays locked until the end of the transaction. A deadlock of several locks ends with error 1213: run the
    whole transaction again.

    Raises:
        StaleToken: the store has seen a newer token. The transaction has to be rolled back.
        FencepostError: the connection is not in a transaction.
    """
    with connection.cursor(Cursor) as cursor:
        cursor.execute(_RAISE, values(lock))
        cursor.execute(_NEWEST, values(lock))
        ((newest, grant_id),) = cursor.fetchall()
    if not _in_transaction(connection):
        raise no_transaction()
    if (newest, grant_id) != (lock.token, lock.grant_id):
        raise StaleToken(lock.name, lock.token, newest)


def raise_shared(connection: Connection[Any], lock: Held) -> None:
    """Raises the token of a shared lock, in a transaction of its own. Call it once after the grant.

    It waits for the transactions that work under this lock at that time. A deadlock is error 1213: call it again.

    Raises:
        StaleToken: a writer with a newer token has raised the fence.
        FencepostError: the connection is in a transaction.
    """
    if _in_transaction(connection):
        raise own_transaction()
    connection.begin()
    try:
        with connection.cursor(Cursor) as cursor:
            cursor.execute(_RAISE_SHARED, values(shared(lock)))
            _check(cursor, lock)
        connection.commit()
    except BaseException:
        connection.rollback()
        raise


def check_shared(connection: Connection[Any], lock: Held) -> None:
    """Checks the token of a shared lock. Call it first in each transaction that works under the lock.

    Writers wait until the end of the transaction, and other readers do not. A deadlock of several locks ends with error
    1213: run the whole transaction again.

    Raises:
        StaleToken: a writer with a newer token has raised the fence. The transaction has to be rolled back.
        FencepostError: the connection is not in a transaction, or :func:`raise_shared` was not called.
    """
    # PyMySQL does not take the state from the answer to a read. Without autocommit, each statement is in a transaction.
    if connection.get_autocommit() and not _in_transaction(connection):
        raise no_transaction()
    with connection.cursor(Cursor) as cursor:
        _check(cursor, lock)


def _check(cursor: Cursor, lock: Held) -> None:
    cursor.execute(_CHECK_SHARED, values(shared(lock)))
    if not cursor.fetchall():
        cursor.execute(_NEWEST_SHARED, values(lock))
        rows = cursor.fetchall()
        raise refused(lock, rows[0][0] if rows else 0)


def _in_transaction(connection: Connection[Any]) -> bool:
    state: Any = connection  # the types of PyMySQL lack this attribute
    return bool(state.server_status & SERVER_STATUS_IN_TRANS)
