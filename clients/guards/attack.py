#!/usr/bin/env python3
"""Attacks the statements of the guards on real stores, with writers side by side: no lower token may pass after a
higher one has committed, and no write may be lost.

    clients/guards/attack.py                   attacks all stores
    clients/guards/attack.py postgres redis    attacks these

`clients/guards/check` installs the drivers and runs it.
"""

import json
import random
import re
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pymysql
import redis

CLIENTS = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(CLIENTS / "python/src/fencepost"))
import _facts as facts  # noqa: E402

WRITERS = 6
# Seconds for each combination of a store, an isolation level and a number of locks.
STORM = 2
TOKEN_MAX = facts.TOKEN_MAX
# Names that stores may take for one another.
NAMES = ["a", "A", "a ", "a  ", " a", "ä", "a\u0308", "Ä", "ß", "ss", "İ", "i", "\u200da", "%s", "a'b\\", "\\"]
NAMES += ["a" * 512, "a" * 511 + "b", "🦀" * 128, "日" * 170 + "aa"]


class Stale(Exception):
    """The highest token of the store."""


class Connection:
    """A connection to an SQL store, in autocommit mode."""

    def execute(self, text, parameters=None):
        return self.connection.execute(text, parameters or {})

    def rows(self, text):
        return list(self.execute(text).fetchall())

    def raise_fence(self, name, token, grant_id):
        parameters = {"lock_name": name, "token": token, "grant_id": grant_id}
        if self.execute(self.RAISE, parameters).fetchone() is None:
            raise Stale(self.execute(self.NEWEST, parameters).fetchone()[0])


def formatted(text):
    return re.sub(r":(lock_name|token|grant_id)\b", r"%(\1)s", text)


class Postgres(Connection):
    LEVELS = ("READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE")
    CREATE, RAISE = facts.GUARD_POSTGRES_CREATE, formatted(facts.GUARD_POSTGRES_RAISE)
    NEWEST = formatted(facts.GUARD_POSTGRES_NEWEST)
    AGAIN = (psycopg.errors.SerializationFailure, psycopg.errors.DeadlockDetected)

    def __init__(self, places, level):
        self.connection = psycopg.connect(places["postgres"], autocommit=True)
        # Deadlocks are what some attacks are about, and the default is a second.
        self.execute("SET deadlock_timeout = '10ms'")
        self.begin = f"BEGIN ISOLATION LEVEL {level}"


class MySQL(Connection):
    LEVELS = ("READ UNCOMMITTED", "READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE")
    CREATE, RAISE = facts.GUARD_MYSQL_CREATE, formatted(facts.GUARD_MYSQL_RAISE)
    NEWEST = formatted(facts.GUARD_MYSQL_NEWEST)
    AGAIN = (pymysql.err.OperationalError,)
    begin = "START TRANSACTION"

    def __init__(self, places, level, charset="utf8mb4"):
        self.connection = pymysql.connect(**places["mysql"], charset=charset, autocommit=True).cursor()
        self.execute(f"SET SESSION TRANSACTION ISOLATION LEVEL {level}")

    def execute(self, text, parameters=None):
        self.connection.execute(text, parameters)
        return self.connection

    def raise_fence(self, name, token, grant_id):
        parameters = {"lock_name": name, "token": token, "grant_id": grant_id}
        self.execute(self.RAISE, parameters)
        newest = self.execute(self.NEWEST, parameters).fetchone()
        if newest != (token, grant_id):
            raise Stale(newest[0])


class SQLite(Connection):
    LEVELS = ("DEFERRED", "IMMEDIATE", "EXCLUSIVE")
    CREATE, RAISE, NEWEST = facts.GUARD_SQLITE_CREATE, facts.GUARD_SQLITE_RAISE, facts.GUARD_SQLITE_NEWEST
    AGAIN = (sqlite3.OperationalError,)

    def __init__(self, places, level):
        self.connection = sqlite3.connect(places["sqlite"], isolation_level=None, timeout=30)
        self.begin = f"BEGIN {level}"


def fresh(store, places):
    """A connection, after the tables were made anew."""
    connection = store(places, store.LEVELS[0])
    for table in ("fencepost_fences", "counters", "history"):
        connection.execute(f"DROP TABLE IF EXISTS {table}")
    connection.execute(store.CREATE)
    connection.execute("CREATE TABLE counters (id INT PRIMARY KEY, value INT, token BIGINT)")
    connection.execute("CREATE TABLE history (id INT, value INT, token BIGINT, grant_id VARCHAR(36))")
    return connection


def names(store, places):
    """Each name has a fence of its own, up to the largest token."""
    connection = fresh(store, places)
    for token, name in enumerate(NAMES, TOKEN_MAX - len(NAMES)):
        connection.raise_fence(name, token, "g")
    for token, name in enumerate(NAMES, TOKEN_MAX - len(NAMES)):
        connection.raise_fence(name, token, "g")
        for lower, grant_id in [(token - 1, "g"), (token - 1, "h"), (token, "h"), (1, "h")]:
            try:
                connection.raise_fence(name, lower, grant_id)
            except Stale as stale:
                assert stale.args == (token,), (name, stale)
            else:
                raise AssertionError(f"a stale token passed: {name!r} {lower} {grant_id}")


def storm(store, places, levels, locks):
    """Each writer raises, reads a counter, and writes it plus one, with its token. Some tokens are old, some belong to
    another grant, some transactions roll back."""
    check = fresh(store, places)
    for number in range(locks):
        check.execute(f"INSERT INTO counters VALUES ({number}, 0, 0)")
    newest, committed, guard = [0] * locks, [(0, "")] * locks, threading.Lock()
    counts, end = {"written": 0, "stale": 0, "again": 0}, time.monotonic() + STORM

    def write(connection, chance, grants):
        connection.execute(connection.begin)
        for number, token, grant_id in grants:
            connection.raise_fence(f"lock/{number}", token, grant_id)
        for number, token, grant_id in grants:
            value, last = connection.rows(f"SELECT value, token FROM counters WHERE id = {number}")[0]
            assert last <= token, (last, token)
            connection.execute(f"UPDATE counters SET value = {value + 1}, token = {token} WHERE id = {number}")
            connection.execute(f"INSERT INTO history VALUES ({number}, {value + 1}, {token}, '{grant_id}')")
        keeps = chance.random() > 0.1
        connection.execute("COMMIT" if keeps else "ROLLBACK")
        return keeps

    def writer(seed):
        chance = random.Random(seed)
        connection = store(places, levels[seed % len(levels)])
        while time.monotonic() < end:
            grants = []
            with guard:
                for number in chance.sample(range(locks), min(locks, 2)):
                    newest[number] += chance.choice((0, 1))
                    token = max(1, newest[number] - chance.choice((0, 0, 0, 1, 2)))
                    grants.append((number, token, f"g{token}" if chance.random() < 0.9 else "other"))
                before = list(committed)
            try:
                outcome = "written" if write(connection, chance, grants) else "again"
            except Stale:
                outcome = "stale"
                connection.execute("ROLLBACK")
            except store.AGAIN:
                outcome = "again"
                connection.execute("ROLLBACK")
            with guard:
                counts[outcome] += 1
                for number, token, grant_id in grants if outcome == "written" else ():
                    highest, its_grant = before[number]
                    assert token > highest or (token, grant_id) == (highest, its_grant), (number, token, before)
                    committed[number] = max(committed[number], (token, grant_id), key=lambda it: it[0])

    with ThreadPoolExecutor(WRITERS) as pool:
        list(pool.map(writer, range(WRITERS)))
    for number in range(locks):
        history = check.rows(f"SELECT value, token, grant_id FROM history WHERE id = {number} ORDER BY value")
        assert [row[0] for row in history] == list(range(1, len(history) + 1)), "a write was lost"
        for (_, token, grant_id), (_, later, its_grant) in zip(history, history[1:], strict=False):
            assert later > token or (later, its_grant) == (token, grant_id), (token, later)
    assert counts["written"] > 0 and counts["stale"] > 0, counts
    print(f"{store.__name__:<9}{' and '.join(levels):<75}{locks} locks: {counts}", flush=True)


def character_sets(places):
    """In MySQL, a name is the same whatever the character set of the connection."""
    fresh(MySQL, places).raise_fence("ä", 9, "g9")
    for charset in ("latin1", "cp1250", "utf8mb3"):
        try:
            MySQL(places, "REPEATABLE READ", charset).raise_fence("ä", 7, "g7")
        except Stale:
            continue
        raise AssertionError(f"a stale token passed: {charset}")


def attack_redis(places):
    client = redis.Redis.from_url(places["redis"], decode_responses=True)
    script = client.register_script(facts.GUARD_REDIS_RAISE + "\nreturn redis.call('RPUSH', KEYS[2], ARGV[1])")

    def passes(token, grant_id):
        try:
            return script(keys=["fence", "history"], args=[token, grant_id]) > 0
        except redis.ResponseError as refused:
            assert str(refused) == f"STALE {client.hget('fence', 'token')}", refused
            return False

    steps = [(TOKEN_MAX - 1, "g", True), (TOKEN_MAX - 1, "h", False), (TOKEN_MAX - 2, "g", False)]
    steps += [(TOKEN_MAX, "h", True), (TOKEN_MAX - 1, "g", False), ("nan", "g", False), ("-1", "g", False)]
    for token, grant_id, expected in steps:
        assert passes(token, grant_id) == expected, (token, grant_id)
    client.delete("fence", "history")
    newest, end = [0], time.monotonic() + STORM

    def writer(seed):
        chance, own = random.Random(seed), redis.Redis.from_url(places["redis"])
        while time.monotonic() < end:
            newest[0] += chance.choice((0, 1))
            token = max(1, newest[0] - chance.choice((0, 0, 1, 2)))
            try:
                script(keys=["fence", "history"], args=[token, f"g{token}"], client=own)
            except redis.ResponseError as refused:
                assert "STALE" in str(refused), refused

    with ThreadPoolExecutor(WRITERS) as pool:
        list(pool.map(writer, range(WRITERS)))
    history = [int(token) for token in client.lrange("history", 0, -1)]
    assert history == sorted(history) and len(history) > 100, len(history)
    print(f"Redis: {len(history)} written", flush=True)


def main():
    known = {"postgres": Postgres, "mysql": MySQL, "sqlite": SQLite, "redis": None}
    chosen = sys.argv[1:] or list(known)
    servers = [name for name in chosen if name != "sqlite"]
    with tempfile.TemporaryDirectory() as folder:
        stores = None
        places = {"sqlite": f"{folder}/fences.sqlite"}
        if servers:
            command = [sys.executable, "-B", CLIENTS / "stores.py", *servers]
            stores = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            places |= json.loads(stores.stdout.readline())
        try:
            for store in filter(None, (known[name] for name in chosen)):
                names(store, places)
                for level in store.LEVELS:
                    storm(store, places, [level], 1)
                storm(store, places, store.LEVELS, 1)
                storm(store, places, store.LEVELS, 3)
            if "mysql" in chosen:
                character_sets(places)
            if "redis" in chosen:
                attack_redis(places)
        finally:
            if stores:
                stores.stdin.close()
                stores.wait()


main()
