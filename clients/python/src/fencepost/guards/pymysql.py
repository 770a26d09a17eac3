"""The guard for MySQL and MariaDB with PyMySQL."""

from __future__ import annotations

from typing import Any

from pymysql.connections import Connection
from pymysql.constants.SERVER_STATUS import SERVER_STATUS_IN_TRANS
from pymysql.cursors import Cursor

from fencepost._facts import GUARD_MYSQL_CREATE, GUARD_MYSQL_NEWEST, GUARD_MYSQL_RAISE
from fencepost.errors import StaleToken
from fencepost.guards._fence import Held, no_transaction, pyformat, values

_RAISE = pyformat(GUARD_MYSQL_RAISE)
_NEWEST = pyformat(GUARD_MYSQL_NEWEST)


def create_table(connection: Connection[Any]) -> None:
    """Creates the table of fences, unless it is there."""
    with connection.cursor(Cursor) as cursor:
        cursor.execute(GUARD_MYSQL_CREATE)


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
    state: Any = connection  # the types of PyMySQL lack this attribute
    if not state.server_status & SERVER_STATUS_IN_TRANS:
        raise no_transaction()
    if (newest, grant_id) != (lock.token, lock.grant_id):
        raise StaleToken(lock.name, lock.token, newest)
