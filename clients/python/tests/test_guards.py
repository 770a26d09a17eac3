"""The guards, each with its driver and a real store."""

from __future__ import annotations

import json
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import mysql.connector
import psycopg
import pymysql
import pytest
import sqlalchemy
from conftest import PATIENCE
from support import stores
from support.processes import Server
from support.stores import STORES, Store

from fencepost import Client, FencepostError, StaleToken
from fencepost.guards import fence_name
from fencepost.guards import mysql_connector as guard_mysql_connector
from fencepost.guards import psycopg as guard_psycopg
from fencepost.guards import pymysql as guard_pymysql
from fencepost.guards import sqlalchemy as guard_sqlalchemy
from fencepost.guards import sqlite as guard_sqlite


@dataclass(frozen=True)
class Held:
    """What a guard needs to know of a lock."""

    name: str
    token: int
    grants: str = "a"
    granted: int = 0
    permits: int = 0
    slot: int | None = None

    @property
    def grant_id(self) -> str:
        """Each grant has a token of its own, unless a server has lost its memory."""
        return f"{self.grants}0000000-0000-4000-8000-{(self.granted or self.token) % 10**12:012}"


@pytest.fixture(scope="module")
def dsns(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    with stores.started(tmp_path_factory.mktemp("stores")) as dsns:
        yield dsns


@pytest.fixture(params=list(STORES))
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def store(kind: str, dsns: dict[str, Any]) -> Store:
    store = STORES[kind](dsns[kind])
    store.create()
    store.create()
    return store


def test_a_late_write_is_refused(
    kind: str, dsns: dict[str, Any], store: Store, server: Server, client: Client, name: str
) -> None:
    command = [sys.executable, stores.__file__, kind, json.dumps(dsns[kind]), server.address, name]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, bufsize=1) as late:
        assert late.stdin is not None
        assert late.stdout is not None
        try:
            token = int(late.stdout.readline())
            assert store.read(name) == "first"
            late.send_signal(signal.SIGSTOP)
            with client.lock(name, wait=PATIENCE) as lock:
                store.write(name, "second", lock)
                late.send_signal(signal.SIGCONT)
                late.stdin.write("with the guard\n")
                assert late.stdout.readline() == f"stale {token} {lock.token}\n"
                assert store.read(name) == "second"
                # The control: without the guard, the same write goes through.
                late.stdin.write("without the guard\n")
                assert late.stdout.readline() == "written\n"
                assert store.read(name) == "late"
                # The guard of the holder still passes.
                store.write(name, "third", lock)
                assert store.read(name) == "third"
        finally:
            late.kill()


def test_tokens(store: Store, name: str) -> None:
    store.write(name, "a", Held(name, 5))
    store.write(name, "b", Held(name, 5))
    with pytest.raises(StaleToken, match=r"token 4 of .* is stale: the store has seen 5"):
        store.write(name, "c", Held(name, 4))
    with pytest.raises(StaleToken) as stale:
        store.write(name, "d", Held(name, 5, "b"))
    assert (stale.value.name, stale.value.token, stale.value.newest) == (name, 5, 5)
    with pytest.raises(StaleToken) as stale:
        store.write(name, "d", Held(name, 4, granted=5))
    assert (stale.value.token, stale.value.newest) == (4, 5), "a lower token is stale, whatever its grant"
    assert store.read(name) == "b", "what was written after the guard is rolled back"
    # The tokens of servers are microseconds, today near 2**51. Redis compares floats, which are exact up to 2**53.
    store.write(name, "e", Held(name, 2**51))
    with pytest.raises(StaleToken):
        store.write(name, "f", Held(name, 2**51 - 1))
    assert store.read(name) == "e"


def test_names_compare_byte_by_byte(store: Store, name: str) -> None:
    for token, lock in enumerate([f"{name}é", f"{name}e", f"{name}E", f"{name}e ", f"{name}😀", f"{name}%(token)s:x"]):
        store.write(name, str(token), Held(lock, 100 - token))
        assert store.read(name) == str(token)


def test_readers_hold_side_by_side(store: Store, name: str) -> None:
    store.write(name, "a", Held(name, 10))
    for token in (12, 11):
        store.raise_shared(Held(name, token))
        store.work(name, f"by {token}", Held(name, token))
    store.raise_shared(Held(name, 12))
    for token in (12, 11):
        store.work(name, f"by {token} again", Held(name, token))
    # What the readers have read stays so: no earlier writer gets through, nor one with the token of a reader.
    for writer in (Held(name, 10), Held(name, 11), Held(name, 12)):
        with pytest.raises(StaleToken) as stale:
            store.write(name, "late", writer)
        assert (stale.value.token, stale.value.newest) == (writer.token, 12)
    for reader in (Held(name, 9), Held(name, 10, "b")):
        with pytest.raises(StaleToken) as stale:
            store.raise_shared(reader)
        assert (stale.value.name, stale.value.token, stale.value.newest) == (name, reader.token, 12)
        with pytest.raises(StaleToken) as stale:
            store.work(name, "late", reader)
        assert (stale.value.name, stale.value.token, stale.value.newest) == (name, reader.token, 12)
    assert store.read(name) == "by 11 again"
    # After a later writer, the readers are stale.
    store.write(name, "b", Held(name, 13))
    for token in (11, 12):
        with pytest.raises(StaleToken) as stale:
            store.work(name, "late", Held(name, token))
        assert stale.value.newest == 13
        with pytest.raises(StaleToken):
            store.raise_shared(Held(name, token))
    assert store.read(name) == "b"


def test_a_reader_may_be_the_first(store: Store, name: str) -> None:
    store.raise_shared(Held(name, 2**51))
    store.work(name, "a", Held(name, 2**51))
    with pytest.raises(StaleToken):
        store.write(name, "late", Held(name, 2**51 - 1))
    store.write(name, "b", Held(name, 2**51 + 1))
    assert store.read(name) == "b"


def test_a_downgraded_writer_reads_with_its_token(store: Store, name: str) -> None:
    writer, another = Held(name, 10), Held(name, 10, "b")
    store.write(name, "a", writer)
    store.raise_shared(writer)
    store.work(name, "b", writer)
    with pytest.raises(StaleToken) as stale:
        store.write(name, "late", writer)
    assert stale.value.newest == 10
    with pytest.raises(StaleToken):
        store.raise_shared(another)
    with pytest.raises(StaleToken):
        store.work(name, "late", another)
    store.raise_shared(Held(name, 11))
    store.work(name, "c", writer)
    assert store.read(name) == "c"
    # An upgrade keeps the grant and draws a new token. A late write from before does not pass.
    store.write(name, "d", Held(name, 12, granted=10))
    with pytest.raises(StaleToken):
        store.work(name, "late", writer)
    # The same after a downgrade without any write: the grant is that of the row, and the token that of the readers.
    store.raise_shared(Held(name, 14, granted=10))
    with pytest.raises(StaleToken) as stale:
        store.write(name, "late", Held(name, 14, granted=10))
    assert stale.value.newest == 14
    assert store.read(name) == "d"


def test_work_without_the_first_step(store: Store, name: str) -> None:
    for newest in (0, 10):
        if newest:
            store.write(name, "a", Held(name, newest))
        with pytest.raises(FencepostError, match=r"token 12 .* was not raised .* call raise_shared"):
            store.work(name, "b", Held(name, 12))
    assert store.read(name) == "a"


def test_the_holders_of_slots_write_side_by_side(store: Store, name: str) -> None:
    def holder(token: int, slot: int) -> Held:
        return Held(name, token, permits=1, slot=slot)

    store.write(name, "a", holder(11, 2))
    store.write(name, "b", holder(10, 1))
    store.write(name, "c", holder(11, 2))
    store.write(name, "d", holder(10, 1))
    # After the next holder of its slot, a holder is stale, and that of the other slot is not.
    store.write(name, "e", holder(12, 1))
    with pytest.raises(StaleToken) as stale:
        store.write(name, "late", holder(10, 1))
    assert (stale.value.name, stale.value.token, stale.value.newest) == (name, 10, 12)
    assert store.read(name) == "e"
    store.write(name, "f", holder(11, 2))
    # The lock itself has another fence.
    store.write(name, "g", Held(name, 9))
    # A message of a queue that has the slot only.
    with pytest.raises(StaleToken):
        store.write(name, "late", Held(name, 10, slot=1))
    assert store.read(name) == "g"


def test_what_a_guard_refuses_of_a_semaphore(store: Store, name: str) -> None:
    several, one = Held(name, 10, permits=2), Held(name, 11, permits=1, slot=1)
    for step in (partial(store.write, name, "a", several), partial(store.raise_shared, several)):
        with pytest.raises(FencepostError, match=r"several permits of a semaphore.*one permit each.*check_token"):
            step()
    for step in (partial(store.raise_shared, one), partial(store.work, name, "a", one)):
        with pytest.raises(FencepostError, match="held as a semaphore, not as a shared lock"):
            step()
    assert store.read(name) is None


def test_the_name_of_a_fence() -> None:
    assert fence_name(Held("a", 1)) == "a"
    assert fence_name(Held("a", 1, permits=1, slot=7)) == "a#7"
    assert fence_name(Held("a" * 510, 1, permits=1, slot=7)) == "a" * 510 + "#7"
    with pytest.raises(FencepostError, match="#10 is longer than 512 bytes: give the lock a shorter name"):
        fence_name(Held("a" * 510, 1, permits=1, slot=10))


# The table of the first version, in each database.
FIRST = {
    "postgres": "CREATE TABLE fencepost_fences (lock_name VARCHAR(512) PRIMARY KEY, token BIGINT NOT NULL, "
    "grant_id VARCHAR(36) NOT NULL)",
    "sqlite": "CREATE TABLE fencepost_fences (lock_name VARCHAR(512) PRIMARY KEY NOT NULL, token BIGINT NOT NULL, "
    "grant_id VARCHAR(36) NOT NULL)",
    "mysql": "CREATE TABLE fencepost_fences (lock_name VARBINARY(512) PRIMARY KEY, token BIGINT NOT NULL, "
    "grant_id VARCHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL) ENGINE = InnoDB",
}


@pytest.mark.parametrize("before", [True, False], ids=["first-version", "no-table"])
@pytest.mark.parametrize("kind", [kind for kind in STORES if not kind.startswith("redis")])
def test_many_processes_create_the_table(
    kind: str, before: bool, dsns: dict[str, Any], store: Store, name: str
) -> None:
    database = next((name for name in FIRST if name in kind), "postgres")
    url = f"sqlite:///{dsns[kind]}" if kind == "sqlite" else dsns[f"sqlalchemy-{database}"]
    engine = sqlalchemy.create_engine(url)
    with engine.begin() as connection:
        connection.execute(sqlalchemy.text("DROP TABLE fencepost_fences"))
        if before:
            connection.execute(sqlalchemy.text(FIRST[database]))
            connection.execute(sqlalchemy.text("INSERT INTO fencepost_fences VALUES (:name, 10, 'g')"), {"name": name})
    engine.dispose()
    with ThreadPoolExecutor(6) as pool:
        list(pool.map(lambda _: store.create(), range(6)))
    if before:
        with pytest.raises(StaleToken):
            store.write(name, "late", Held(name, 9))
    store.raise_shared(Held(name, 12))
    store.work(name, "a", Held(name, 12))
    store.write(name, "b", Held(name, 13))


OUTSIDE = "not in a transaction"
OWN = "raise_shared is a transaction of its own"


def test_psycopg_needs_a_transaction(dsns: dict[str, Any]) -> None:
    with psycopg.connect(dsns["psycopg"], autocommit=True) as connection:
        guard_psycopg.create_table(connection)
        with pytest.raises(FencepostError, match=OUTSIDE):
            guard_psycopg.raise_fence(connection, Held("outside", 1))
        with pytest.raises(FencepostError, match=OUTSIDE):
            guard_psycopg.check_shared(connection, Held("outside", 1))
        with connection.transaction():
            guard_psycopg.raise_fence(connection, Held("outside", 1))
            with pytest.raises(FencepostError, match=OWN):
                guard_psycopg.raise_shared(connection, Held("outside", 1))


def test_mysql_needs_a_transaction(dsns: dict[str, Any]) -> None:
    with closing(pymysql.connect(**dsns["pymysql"], autocommit=True)) as connection:
        guard_pymysql.create_table(connection)
        with pytest.raises(FencepostError, match=OUTSIDE):
            guard_pymysql.raise_fence(connection, Held("outside", 1))
        guard_pymysql.raise_shared(connection, Held("read outside", 1))
        with pytest.raises(FencepostError, match=OUTSIDE):
            guard_pymysql.check_shared(connection, Held("read outside", 1))
        connection.begin()
        guard_pymysql.raise_fence(connection, Held("outside", 1))
        with pytest.raises(FencepostError, match=OWN):
            guard_pymysql.raise_shared(connection, Held("outside", 1))
    options = {**dsns["pymysql"], "autocommit": True, "collation": "utf8mb4_general_ci"}
    with closing(mysql.connector.connect(**options)) as other:
        with pytest.raises(FencepostError, match=OUTSIDE):
            guard_mysql_connector.raise_fence(other, Held("outside", 1))
        guard_mysql_connector.raise_shared(other, Held("read outside", 1))
        with pytest.raises(FencepostError, match=OUTSIDE):
            guard_mysql_connector.check_shared(other, Held("read outside", 1))
        other.start_transaction()
        guard_mysql_connector.raise_fence(other, Held("outside", 1))
        with pytest.raises(FencepostError, match=OWN):
            guard_mysql_connector.raise_shared(other, Held("outside", 1))


def test_sqlite_needs_a_transaction(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "db", isolation_level=None)) as connection:
        connection.row_factory = sqlite3.Row
        guard_sqlite.create_table(connection)
        with pytest.raises(FencepostError, match=OUTSIDE):
            guard_sqlite.raise_fence(connection, Held("outside", 1))
    with closing(sqlite3.connect(tmp_path / "db")) as connection:
        # Python begins one before the first statement that writes.
        guard_sqlite.raise_fence(connection, Held("outside", 1))
        with pytest.raises(FencepostError, match=OWN):
            guard_sqlite.raise_shared(connection, Held("outside", 1))
        connection.rollback()
        guard_sqlite.raise_shared(connection, Held("outside", 1))
        # It begins none before a read.
        with pytest.raises(FencepostError, match=OUTSIDE):
            guard_sqlite.check_shared(connection, Held("outside", 1))


def test_sqlalchemy_needs_a_transaction(tmp_path: Path) -> None:
    engine = sqlalchemy.create_engine(f"sqlite:///{tmp_path / 'db'}")
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        guard_sqlalchemy.create_table(connection)
        with pytest.raises(FencepostError, match=OUTSIDE):
            guard_sqlalchemy.raise_fence(connection, Held("outside", 1))
        with pytest.raises(FencepostError, match=OUTSIDE):
            guard_sqlalchemy.check_shared(connection, Held("outside", 1))
    with engine.connect() as connection:
        guard_sqlalchemy.raise_shared(connection, Held("outside", 1))
        with pytest.raises(FencepostError, match=OUTSIDE):
            guard_sqlalchemy.check_shared(connection, Held("outside", 1))
        connection.execute(sqlalchemy.text("SELECT 1"))
        with pytest.raises(FencepostError, match=OWN):
            guard_sqlalchemy.raise_shared(connection, Held("outside", 1))
    engine.dispose()
