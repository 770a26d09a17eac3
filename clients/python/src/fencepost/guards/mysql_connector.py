"""The guard for MySQL and MariaDB with MySQL Connector/Python."""

from __future__ import annotations

from typing import Any

from mysql.connector.abstracts import MySQLConnectionAbstract
from mysql.connector.pooling import PooledMySQLConnection

from fencepost._facts import GUARD_MYSQL_CREATE, GUARD_MYSQL_NEWEST, GUARD_MYSQL_RAISE
from fencepost.errors import StaleToken
from fencepost.guards._fence import Held, no_transaction, pyformat, values

_RAISE = pyformat(GUARD_MYSQL_RAISE)
_NEWEST = pyformat(GUARD_MYSQL_NEWEST)


def create_table(connection: MySQLConnectionAbstract | PooledMySQLConnection) -> None:
    """Creates the table of fences, unless it is there."""
    with connection.cursor() as cursor:
        cursor.execute(GUARD_MYSQL_CREATE)


def raise_fence(connection: MySQLConnectionAbstract | PooledMySQLConnection, lock: Held) -> None:
    """Raises the fence of the lock to its token. Call it first in the transaction of the write.

    The fence stays locked until the end of the transaction. A deadlock of several locks ends with error 1213: run the
    whole transaction again.

    Raises:
        StaleToken: the store has seen a newer token. The transaction has to be rolled back.
        FencepostError: the connection is not in a transaction.
    """
    with connection.cursor(dictionary=False) as cursor:
        cursor.execute(_RAISE, values(lock))
        cursor.execute(_NEWEST, {"lock_name": lock.name})
        row: Any = cursor.fetchall()[0]
    if not connection.in_transaction:
        raise no_transaction()
    if row != (lock.token, lock.grant_id):
        raise StaleToken(lock.name, lock.token, row[0])
