"""The stores of the guards' tests: for each, how to read a value and to write it, with the guard or without.

As a program, it is the holder that is stopped past its lease:

stores.py STORE DSN SERVER NAME     acquires the lock, waits for a line, and then writes twice
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import Generator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import asyncpg
import mysql.connector
import psycopg
import pymysql
import redis
import redis.asyncio
import sqlalchemy
import sqlalchemy.ext.asyncio
import sqlalchemy.orm

import fencepost
from fencepost import guards
from fencepost.guards import asyncpg as guard_asyncpg
from fencepost.guards import mysql_connector as guard_mysql_connector
from fencepost.guards import psycopg as guard_psycopg
from fencepost.guards import pymysql as guard_pymysql
from fencepost.guards import redis as guard_redis
from fencepost.guards import sqlalchemy as guard_sqlalchemy
from fencepost.guards import sqlite as guard_sqlite

CREATE = "CREATE TABLE IF NOT EXISTS orders (id VARCHAR(200) PRIMARY KEY, state VARCHAR(20))"


class Store(ABC):
    """A store with a table of orders."""

    def __init__(self, dsn: Any) -> None:
        self.dsn = dsn

    @abstractmethod
    def create(self) -> None:
        """Creates the tables, unless they are there."""

    @abstractmethod
    def write(self, key: str, state: str, lock: guards.Held | None) -> None:
        """Writes in a transaction, with the guard if there is a lock."""

    @abstractmethod
    def raise_shared(self, lock: guards.Held) -> None:
        """Takes the first step of a reader."""

    @abstractmethod
    def work(self, key: str, state: str, lock: guards.Held) -> None:
        """Writes in a transaction of a reader, which begins with the second step."""

    @abstractmethod
    def read(self, key: str) -> str | None: ...


def upsert(key: str, state: str) -> list[str]:
    # Without parameters: their style differs between drivers.
    assert "'" not in key + state
    return [f"DELETE FROM orders WHERE id = '{key}'", f"INSERT INTO orders VALUES ('{key}', '{state}')"]


def select(key: str) -> str:
    return f"SELECT state FROM orders WHERE id = '{key}'"


class Psycopg(Store):
    def create(self) -> None:
        with psycopg.connect(self.dsn) as connection:
            connection.execute(CREATE)
            guard_psycopg.create_table(connection)

    def write(self, key: str, state: str, lock: guards.Held | None) -> None:
        with psycopg.connect(self.dsn) as connection:
            if lock is not None:
                guard_psycopg.raise_fence(connection, lock)
            for statement in upsert(key, state):
                connection.execute(statement.encode())

    def raise_shared(self, lock: guards.Held) -> None:
        with psycopg.connect(self.dsn) as connection:
            guard_psycopg.raise_shared(connection, lock)
            connection.rollback()

    def work(self, key: str, state: str, lock: guards.Held) -> None:
        with psycopg.connect(self.dsn) as connection:
            guard_psycopg.check_shared(connection, lock)
            for statement in upsert(key, state):
                connection.execute(statement.encode())

    def read(self, key: str) -> str | None:
        with psycopg.connect(self.dsn) as connection:
            row = connection.execute(select(key).encode()).fetchone()
            return row[0] if row else None


class PsycopgAsync(Psycopg):
    def create(self) -> None:
        asyncio.run(self._create())
        super().create()

    async def _create(self) -> None:
        async with await psycopg.AsyncConnection.connect(self.dsn) as connection:
            await guard_psycopg.create_table_async(connection)

    def write(self, key: str, state: str, lock: guards.Held | None) -> None:
        asyncio.run(self._write(key, state, lock))

    async def _write(self, key: str, state: str, lock: guards.Held | None) -> None:
        async with await psycopg.AsyncConnection.connect(self.dsn) as connection:
            if lock is not None:
                await guard_psycopg.raise_fence_async(connection, lock)
            for statement in upsert(key, state):
                await connection.execute(statement.encode())

    def raise_shared(self, lock: guards.Held) -> None:
        asyncio.run(self._raise_shared(lock))

    async def _raise_shared(self, lock: guards.Held) -> None:
        async with await psycopg.AsyncConnection.connect(self.dsn) as connection:
            await guard_psycopg.raise_shared_async(connection, lock)
            await connection.rollback()

    def work(self, key: str, state: str, lock: guards.Held) -> None:
        asyncio.run(self._work(key, state, lock))

    async def _work(self, key: str, state: str, lock: guards.Held) -> None:
        async with await psycopg.AsyncConnection.connect(self.dsn) as connection:
            await guard_psycopg.check_shared_async(connection, lock)
            for statement in upsert(key, state):
                await connection.execute(statement.encode())


class Asyncpg(Psycopg):
    def create(self) -> None:
        super().create()
        asyncio.run(self._create())

    async def _create(self) -> None:
        connection = await asyncpg.connect(self.dsn)
        await guard_asyncpg.create_table(connection)
        await connection.close()

    def write(self, key: str, state: str, lock: guards.Held | None) -> None:
        asyncio.run(self._write(key, state, lock))

    async def _write(self, key: str, state: str, lock: guards.Held | None) -> None:
        async with asyncpg.create_pool(self.dsn, min_size=1) as pool:
            async with pool.acquire() as connection, connection.transaction():
                if lock is not None:
                    await guard_asyncpg.raise_fence(connection, lock)
                for statement in upsert(key, state):
                    await connection.execute(statement)

    def raise_shared(self, lock: guards.Held) -> None:
        asyncio.run(self._raise_shared(lock))

    async def _raise_shared(self, lock: guards.Held) -> None:
        connection = await asyncpg.connect(self.dsn)
        try:
            await guard_asyncpg.raise_shared(connection, lock)
        finally:
            await connection.close()

    def work(self, key: str, state: str, lock: guards.Held) -> None:
        asyncio.run(self._work(key, state, lock))

    async def _work(self, key: str, state: str, lock: guards.Held) -> None:
        async with asyncpg.create_pool(self.dsn, min_size=1) as pool:
            async with pool.acquire() as connection, connection.transaction():
                await guard_asyncpg.check_shared(connection, lock)
                for statement in upsert(key, state):
                    await connection.execute(statement)


class Sqlite(Store):
    @contextmanager
    def _connect(self) -> Generator[sqlite3.Connection, None, None]:
        with closing(sqlite3.connect(self.dsn, isolation_level=None)) as connection:
            yield connection

    def create(self) -> None:
        with self._connect() as connection:
            connection.execute(CREATE)
            guard_sqlite.create_table(connection)

    def write(self, key: str, state: str, lock: guards.Held | None) -> None:
        with self._connect() as connection, connection:
            connection.execute("BEGIN IMMEDIATE")
            if lock is not None:
                guard_sqlite.raise_fence(connection, lock)
            for statement in upsert(key, state):
                connection.execute(statement)

    def raise_shared(self, lock: guards.Held) -> None:
        with self._connect() as connection:
            guard_sqlite.raise_shared(connection, lock)

    def work(self, key: str, state: str, lock: guards.Held) -> None:
        with self._connect() as connection, connection:
            connection.execute("BEGIN IMMEDIATE")
            guard_sqlite.check_shared(connection, lock)
            for statement in upsert(key, state):
                connection.execute(statement)

    def read(self, key: str) -> str | None:
        with self._connect() as connection:
            row = connection.execute(select(key)).fetchone()
            return row[0] if row else None


class PyMySql(Store):
    def _connect(self) -> Any:
        return closing(pymysql.connect(**self.dsn))

    def _create_table(self, connection: Any) -> None:
        guard_pymysql.create_table(connection)

    def _raise_fence(self, connection: Any, lock: guards.Held) -> None:
        guard_pymysql.raise_fence(connection, lock)

    def _raise_shared(self, connection: Any, lock: guards.Held) -> None:
        guard_pymysql.raise_shared(connection, lock)

    def _check_shared(self, connection: Any, lock: guards.Held) -> None:
        guard_pymysql.check_shared(connection, lock)

    def create(self) -> None:
        with self._connect() as connection:
            connection.cursor().execute(CREATE)
            self._create_table(connection)

    def write(self, key: str, state: str, lock: guards.Held | None) -> None:
        with self._connect() as connection:
            if lock is not None:
                self._raise_fence(connection, lock)
            for statement in upsert(key, state):
                connection.cursor().execute(statement)
            connection.commit()

    def raise_shared(self, lock: guards.Held) -> None:
        with self._connect() as connection:
            self._raise_shared(connection, lock)
            connection.rollback()

    def work(self, key: str, state: str, lock: guards.Held) -> None:
        with self._connect() as connection:
            self._check_shared(connection, lock)
            for statement in upsert(key, state):
                connection.cursor().execute(statement)
            connection.commit()

    def read(self, key: str) -> str | None:
        with self._connect() as connection, closing(connection.cursor()) as cursor:
            cursor.execute(select(key))
            row = cursor.fetchone()
            return row[0] if row else None


class MySqlConnector(PyMySql):
    def _connect(self) -> Any:
        # The collation of MySQL 8, which is the default, is unknown to MariaDB of Debian 12.
        return closing(mysql.connector.connect(**self.dsn, collation="utf8mb4_general_ci"))

    def _create_table(self, connection: Any) -> None:
        guard_mysql_connector.create_table(connection)

    def _raise_fence(self, connection: Any, lock: guards.Held) -> None:
        guard_mysql_connector.raise_fence(connection, lock)

    def _raise_shared(self, connection: Any, lock: guards.Held) -> None:
        guard_mysql_connector.raise_shared(connection, lock)

    def _check_shared(self, connection: Any, lock: guards.Held) -> None:
        guard_mysql_connector.check_shared(connection, lock)


class SqlAlchemy(Store):
    @contextmanager
    def _begin(self) -> Generator[sqlalchemy.Connection, None, None]:
        engine = sqlalchemy.create_engine(self.dsn)
        try:
            with engine.begin() as connection:
                yield connection
        finally:
            engine.dispose()

    def create(self) -> None:
        with self._begin() as connection:
            connection.execute(sqlalchemy.text(CREATE))
            guard_sqlalchemy.create_table(connection)

    def write(self, key: str, state: str, lock: guards.Held | None) -> None:
        with self._begin() as connection:
            if lock is not None:
                guard_sqlalchemy.raise_fence(sqlalchemy.orm.Session(connection), lock)
            for statement in upsert(key, state):
                connection.execute(sqlalchemy.text(statement))

    def raise_shared(self, lock: guards.Held) -> None:
        engine = sqlalchemy.create_engine(self.dsn)
        try:
            with sqlalchemy.orm.Session(engine) as session:
                guard_sqlalchemy.raise_shared(session, lock)
                session.rollback()
        finally:
            engine.dispose()

    def work(self, key: str, state: str, lock: guards.Held) -> None:
        with self._begin() as connection:
            if connection.dialect.name == "sqlite":
                connection.execute(sqlalchemy.text("BEGIN IMMEDIATE"))
            guard_sqlalchemy.check_shared(sqlalchemy.orm.Session(connection), lock)
            for statement in upsert(key, state):
                connection.execute(sqlalchemy.text(statement))

    def read(self, key: str) -> str | None:
        with self._begin() as connection:
            return connection.execute(sqlalchemy.text(select(key))).scalar()


class SqlAlchemyAsync(SqlAlchemy):
    def write(self, key: str, state: str, lock: guards.Held | None) -> None:
        asyncio.run(self._write(key, state, lock))

    async def _write(self, key: str, state: str, lock: guards.Held | None) -> None:
        engine = sqlalchemy.ext.asyncio.create_async_engine(self.dsn)
        try:
            async with engine.begin() as connection:
                if lock is not None:
                    await connection.run_sync(guard_sqlalchemy.raise_fence, lock)
                for statement in upsert(key, state):
                    await connection.execute(sqlalchemy.text(statement))
        finally:
            await engine.dispose()

    def raise_shared(self, lock: guards.Held) -> None:
        asyncio.run(self._raise_shared(lock))

    async def _raise_shared(self, lock: guards.Held) -> None:
        engine = sqlalchemy.ext.asyncio.create_async_engine(self.dsn)
        try:
            async with engine.connect() as connection:
                await connection.run_sync(guard_sqlalchemy.raise_shared, lock)
                await connection.rollback()
        finally:
            await engine.dispose()

    def work(self, key: str, state: str, lock: guards.Held) -> None:
        asyncio.run(self._work(key, state, lock))

    async def _work(self, key: str, state: str, lock: guards.Held) -> None:
        engine = sqlalchemy.ext.asyncio.create_async_engine(self.dsn)
        try:
            async with engine.begin() as connection:
                await connection.run_sync(guard_sqlalchemy.check_shared, lock)
                for statement in upsert(key, state):
                    await connection.execute(sqlalchemy.text(statement))
        finally:
            await engine.dispose()


SAVE = guard_redis.Script("return redis.call('SET', KEYS[2], ARGV[3])")


class Redis(Store):
    def create(self) -> None:
        """There is nothing to create."""

    def write(self, key: str, state: str, lock: guards.Held | None) -> None:
        with redis.Redis.from_url(self.dsn) as client:
            if lock is None:
                client.set(key, state)
            else:
                SAVE(client, lock, f"{{{key}}}:{lock.name}", keys=[key], args=[state])

    def raise_shared(self, lock: guards.Held) -> None:
        with redis.Redis.from_url(self.dsn) as client:
            guard_redis.raise_shared(client, lock, f"{{{lock.name}}}:{lock.name}")

    def work(self, key: str, state: str, lock: guards.Held) -> None:
        with redis.Redis.from_url(self.dsn) as client:
            SAVE.check_shared(client, lock, f"{{{key}}}:{lock.name}", keys=[key], args=[state])

    def read(self, key: str) -> str | None:
        with redis.Redis.from_url(self.dsn, decode_responses=True) as client:
            state = client.get(key)
            return None if state is None else str(state)


class RedisAsync(Redis):
    def write(self, key: str, state: str, lock: guards.Held | None) -> None:
        asyncio.run(self._write(key, state, lock))

    async def _write(self, key: str, state: str, lock: guards.Held | None) -> None:
        async with redis.asyncio.Redis.from_url(self.dsn) as client:
            if lock is None:
                await client.set(key, state)
            else:
                await SAVE.run_async(client, lock, f"{{{key}}}:{lock.name}", keys=[key], args=[state])

    def raise_shared(self, lock: guards.Held) -> None:
        asyncio.run(self._raise_shared(lock))

    async def _raise_shared(self, lock: guards.Held) -> None:
        async with redis.asyncio.Redis.from_url(self.dsn) as client:
            await guard_redis.raise_shared_async(client, lock, f"{{{lock.name}}}:{lock.name}")

    def work(self, key: str, state: str, lock: guards.Held) -> None:
        asyncio.run(self._work(key, state, lock))

    async def _work(self, key: str, state: str, lock: guards.Held) -> None:
        async with redis.asyncio.Redis.from_url(self.dsn) as client:
            await SAVE.check_shared_async(client, lock, f"{{{key}}}:{lock.name}", keys=[key], args=[state])


STORES: dict[str, type[Store]] = {
    "psycopg": Psycopg,
    "psycopg-async": PsycopgAsync,
    "asyncpg": Asyncpg,
    "sqlite": Sqlite,
    "pymysql": PyMySql,
    "mysql-connector": MySqlConnector,
    "sqlalchemy-postgres": SqlAlchemy,
    "sqlalchemy-postgres-async": SqlAlchemyAsync,
    "sqlalchemy-mysql": SqlAlchemy,
    "sqlalchemy-sqlite": SqlAlchemy,
    "redis": Redis,
    "redis-async": RedisAsync,
}


@contextmanager
def started(folder: Path) -> Generator[dict[str, Any], None, None]:
    """Starts the stores. Returns how to reach each."""
    program = Path(__file__).resolve().parents[3] / "stores.py"
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, program], stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, "the stores do not start"
        found = json.loads(line)
        postgres, mysql_ = found["postgres"], found["mysql"]
        by_alchemy = postgres.replace("postgresql:", "postgresql+psycopg:")
        yield {
            "psycopg": postgres,
            "psycopg-async": postgres,
            "asyncpg": postgres,
            "sqlite": str(folder / "orders.sqlite"),
            "pymysql": mysql_,
            "mysql-connector": mysql_,
            "sqlalchemy-postgres": by_alchemy,
            "sqlalchemy-postgres-async": by_alchemy,
            "sqlalchemy-mysql": "mysql+pymysql://{user}:{password}@{host}:{port}/{database}".format(**mysql_),
            "sqlalchemy-sqlite": f"sqlite:///{folder / 'alchemy.sqlite'}",
            "redis": found["redis"],
            "redis-async": found["redis"],
        }


def main() -> None:
    kind, dsn, server, name = sys.argv[1:]
    store = STORES[kind](json.loads(dsn))
    with fencepost.Client(server) as client:
        lock = client.acquire(name, ttl=1)
        store.write(name, "first", lock)
        print(lock.token, flush=True)
        sys.stdin.readline()
        # It does not look whether its lock is valid. A pause after the look would do the same.
        try:
            store.write(name, "late", lock)
        except fencepost.StaleToken as error:
            print("stale", error.token, error.newest, flush=True)
        sys.stdin.readline()
        store.write(name, "late", None)
        print("written", flush=True)


if __name__ == "__main__":
    main()
