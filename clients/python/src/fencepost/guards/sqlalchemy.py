"""The guard for PostgreSQL, MySQL, MariaDB and SQLite with SQLAlchemy 2.

With asyncio: ``await connection.run_sync(raise_fence, lock)``, and the same with an ``AsyncSession``.
"""

from __future__ import annotations

from sqlalchemy import text
from sqlalchemy.engine import Connection
from sqlalchemy.orm import Session

from fencepost import _facts as facts
from fencepost.errors import StaleToken
from fencepost.guards._fence import Held, no_transaction, values

_MYSQL = (facts.GUARD_MYSQL_CREATE, facts.GUARD_MYSQL_RAISE, facts.GUARD_MYSQL_NEWEST)
_STATEMENTS = {
    "postgresql": (facts.GUARD_POSTGRES_CREATE, facts.GUARD_POSTGRES_RAISE, facts.GUARD_POSTGRES_NEWEST),
    "mysql": _MYSQL,
    "mariadb": _MYSQL,
    "sqlite": (facts.GUARD_SQLITE_CREATE, facts.GUARD_SQLITE_RAISE, facts.GUARD_SQLITE_NEWEST),
}


def create_table(connection: Connection | Session) -> None:
    """Creates the table of fences, unless it is there. Commit it."""
    connection.execute(text(_statements(_connection(connection))[0]))


def raise_fence(connection: Connection | Session, lock: Held) -> None:
    """Raises the fence of the lock to its token. Call it first in the transaction of the write.

    The fence stays locked until the end of the transaction. Under REPEATABLE READ and SERIALIZABLE, PostgreSQL may fail
    with 40001: run the whole transaction again.

    Raises:
        StaleToken: the store has seen a newer token. The transaction has to be rolled back.
        FencepostError: the execution options of the connection are those of ``AUTOCOMMIT``.
        ValueError: there is no guard for this database.
    """
    connection = _connection(connection)
    _, raise_it, newest = _statements(connection)
    if connection.get_execution_options().get("isolation_level") == "AUTOCOMMIT":
        raise no_transaction()
    result = connection.execute(text(raise_it), values(lock))
    if connection.dialect.name in ("mysql", "mariadb"):
        row = connection.execute(text(newest), {"lock_name": lock.name}).one()
        if (row[0], row[1]) != (lock.token, lock.grant_id):
            raise StaleToken(lock.name, lock.token, row[0])
    elif result.first() is None:
        row = connection.execute(text(newest), {"lock_name": lock.name}).one()
        raise StaleToken(lock.name, lock.token, row[0])


def _connection(connection: Connection | Session) -> Connection:
    return connection.connection() if isinstance(connection, Session) else connection


def _statements(connection: Connection) -> tuple[str, str, str]:
    name = connection.dialect.name
    if name not in _STATEMENTS:
        raise ValueError(f"there is no guard for {name}: only for {', '.join(_STATEMENTS)}")
    return _STATEMENTS[name]
