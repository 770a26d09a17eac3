"""The guards, each with its driver and a real store."""

from __future__ import annotations

import json
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
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


OUTSIDE = "not in a transaction"


def test_psycopg_needs_a_transaction(dsns: dict[str, Any]) -> None:
    with psycopg.connect(dsns["psycopg"], autocommit=True) as connection:
        guard_psycopg.create_table(connection)
        with pytest.raises(FencepostError, match=OUTSIDE):
            guard_psycopg.raise_fence(connection, Held("outside", 1))
        with connection.transaction():
            guard_psycopg.raise_fence(connection, Held("outside", 1))


def test_mysql_needs_a_transaction(dsns: dict[str, Any]) -> None:
    with closing(pymysql.connect(**dsns["pymysql"], autocommit=True)) as connection:
        guard_pymysql.create_table(connection)
        with pytest.raises(FencepostError, match=OUTSIDE):
            guard_pymysql.raise_fence(connection, Held("outside", 1))
        connection.begin()
        guard_pymysql.raise_fence(connection, Held("outside", 1))
    options = {**dsns["pymysql"], "autocommit": True, "collation": "utf8mb4_general_ci"}
    with closing(mysql.connector.connect(**options)) as other:
        with pytest.raises(FencepostError, match=OUTSIDE):
            guard_mysql_connector.raise_fence(other, Held("outside", 1))
        other.start_transaction()
        guard_mysql_connector.raise_fence(other, Held("outside", 1))


def test_sqlite_needs_a_transaction(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "db", isolation_level=None)) as connection:
        connection.row_factory = sqlite3.Row
        guard_sqlite.create_table(connection)
        with pytest.raises(FencepostError, match=OUTSIDE):
            guard_sqlite.raise_fence(connection, Held("outside", 1))
    with closing(sqlite3.connect(tmp_path / "db")) as connection:
        # Python begins one before the first statement that writes.
        guard_sqlite.raise_fence(connection, Held("outside", 1))
        connection.rollback()


def test_sqlalchemy_needs_a_transaction(tmp_path: Path) -> None:
    engine = sqlalchemy.create_engine(f"sqlite:///{tmp_path / 'db'}")
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        guard_sqlalchemy.create_table(connection)
        with pytest.raises(FencepostError, match=OUTSIDE):
            guard_sqlalchemy.raise_fence(connection, Held("outside", 1))
    engine.dispose()
