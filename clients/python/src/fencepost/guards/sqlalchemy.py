"""The guard for PostgreSQL, MySQL, MariaDB and SQLite with SQLAlchemy 2.

With asyncio: ``await connection.run_sync(raise_fence, lock)``, and the same with an ``AsyncSession``.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass

from sqlalchemy import text
from sqlalchemy.engine import Connection
from sqlalchemy.orm import Session

from fencepost import _facts as facts
from fencepost.errors import StaleToken
from fencepost.guards._fence import Held, create, fence_name, no_transaction, own_transaction, refused, shared, values


@dataclass(frozen=True)
class _Statements:
    create: str
    has_shared: str
    add_shared: str
    raise_it: str
    newest: str
    raise_shared: str
    check_shared: str
    newest_shared: str


_MYSQL = _Statements(
    facts.GUARD_MYSQL_CREATE,
    facts.GUARD_MYSQL_HAS_SHARED,
    facts.GUARD_MYSQL_ADD_SHARED,
    facts.GUARD_MYSQL_RAISE,
    facts.GUARD_MYSQL_NEWEST,
    facts.GUARD_MYSQL_RAISE_SHARED,
    facts.GUARD_MYSQL_CHECK_SHARED,
    facts.GUARD_MYSQL_NEWEST_SHARED,
)
_STATEMENTS = {
    "postgresql": _Statements(
        facts.GUARD_POSTGRES_CREATE,
        facts.GUARD_POSTGRES_HAS_SHARED,
        facts.GUARD_POSTGRES_ADD_SHARED,
        facts.GUARD_POSTGRES_RAISE,
        facts.GUARD_POSTGRES_NEWEST,
        facts.GUARD_POSTGRES_RAISE_SHARED,
        facts.GUARD_POSTGRES_CHECK_SHARED,
        facts.GUARD_POSTGRES_NEWEST,
    ),
    "mysql": _MYSQL,
    "mariadb": _MYSQL,
    "sqlite": _Statements(
        facts.GUARD_SQLITE_CREATE,
        facts.GUARD_SQLITE_HAS_SHARED,
        facts.GUARD_SQLITE_ADD_SHARED,
        facts.GUARD_SQLITE_RAISE,
        facts.GUARD_SQLITE_NEWEST,
        facts.GUARD_SQLITE_RAISE_SHARED,
        facts.GUARD_SQLITE_CHECK_SHARED,
        facts.GUARD_SQLITE_NEWEST,
    ),
}


def create_table(connection: Connection | Session) -> None:
    """Creates the table of fences, unless it is there. Adds what one of an earlier version lacks. Commit it."""
    connection = _connection(connection)
    statements = _statements(connection)

    def run(statement: str) -> None:
        # In PostgreSQL an error ends a transaction, unless it is in a savepoint.
        savepoint = connection.dialect.name == "postgresql" and not _is_autocommit(connection)
        with connection.begin_nested() if savepoint else nullcontext():
            connection.execute(text(statement))

    def found() -> int:
        return int(connection.execute(text(statements.has_shared)).scalar_one())

    create(run, found, statements.create, statements.add_shared)


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
    statements = _statements(connection)
    if _is_autocommit(connection):
        raise no_transaction()
    result = connection.execute(text(statements.raise_it), values(lock))
    if connection.dialect.name in ("mysql", "mariadb"):
        row = connection.execute(text(statements.newest), {"lock_name": fence_name(lock)}).one()
        if (row[0], row[1]) != (lock.token, lock.grant_id):
            raise StaleToken(lock.name, lock.token, row[0])
    elif result.first() is None:
        row = connection.execute(text(statements.newest), {"lock_name": fence_name(lock)}).one()
        raise StaleToken(lock.name, lock.token, row[0])


def raise_shared(connection: Connection | Session, lock: Held) -> None:
    """Raises the token of a shared lock, in a transaction of its own. Call it once after the grant.

    It waits for the transactions that work under this lock at that time. Under REPEATABLE READ and SERIALIZABLE,
    PostgreSQL may fail with 40001: call it again.

    Raises:
        StaleToken: a writer with a newer token has raised the fence.
        FencepostError: the connection or the session is in a transaction.
        ValueError: there is no guard for this database.
    """
    if connection.in_transaction():
        raise own_transaction()
    with connection.begin():
        inner = _connection(connection)
        statements = _statements(inner)
        result = inner.execute(text(statements.raise_shared), values(shared(lock)))
        if inner.dialect.name in ("mysql", "mariadb"):
            _check(inner, statements, lock)
        elif result.first() is None:
            raise refused(lock, _newest(inner, statements, lock))


def check_shared(connection: Connection | Session, lock: Held) -> None:
    """Checks the token of a shared lock. Call it first in each transaction that works under the lock.

    Writers wait until the end of the transaction, and other readers do not. Under REPEATABLE READ and SERIALIZABLE,
    PostgreSQL may fail with 40001: run the whole transaction again. With SQLite, execute ``BEGIN`` before it, or
    ``BEGIN IMMEDIATE`` if the transaction writes: Python begins none before a read.

    Raises:
        StaleToken: a writer with a newer token has raised the fence. The transaction has to be rolled back.
        FencepostError: the connection is not in a transaction, or :func:`raise_shared` was not called.
        ValueError: there is no guard for this database.
    """
    connection = _connection(connection)
    statements = _statements(connection)
    # Only the drivers of SQLite have this attribute.
    begun = getattr(connection.connection.driver_connection, "in_transaction", True)
    if _is_autocommit(connection) or (connection.dialect.name == "sqlite" and not begun):
        raise no_transaction()
    _check(connection, statements, lock)


def _check(connection: Connection, statements: _Statements, lock: Held) -> None:
    if connection.execute(text(statements.check_shared), values(shared(lock))).first() is None:
        raise refused(lock, _newest(connection, statements, lock))


def _newest(connection: Connection, statements: _Statements, lock: Held) -> int:
    return int(connection.execute(text(statements.newest_shared), {"lock_name": lock.name}).scalar() or 0)


def _is_autocommit(connection: Connection) -> bool:
    return connection.get_execution_options().get("isolation_level") == "AUTOCOMMIT"


def _connection(connection: Connection | Session) -> Connection:
    return connection.connection() if isinstance(connection, Session) else connection


def _statements(connection: Connection) -> _Statements:
    name = connection.dialect.name
    if name not in _STATEMENTS:
        raise ValueError(f"there is no guard for {name}: only for {', '.join(_STATEMENTS)}")
    return _STATEMENTS[name]
