#!/usr/bin/env python3
"""Attacks the statements of the guards on real stores, with writers and readers side by side. It must never see:

- a write that is accepted under an exclusive token after a later reader or writer has raised the fence;
- the work of a reader, committed after a later writer has raised it;
- two values that readers between the same two writers have read under their locks;
- a write that is lost, or a reader that waits for the work of another one.

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
from contextlib import closing
from copy import copy
from functools import partial
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
# Of so many tokens in a row, one is that of a writer, and those after it are of readers.
ERA = 3
# The steps that are compared with the rule.
STEPS = 3000
# The table and the guard of the first version, which knew no shared locks.
FIRST_CREATE = """CREATE TABLE fencepost_fences (
    lock_name VARCHAR(512) PRIMARY KEY NOT NULL, token BIGINT NOT NULL, grant_id VARCHAR(36) NOT NULL)"""
FIRST_RAISE = """INSERT INTO fencepost_fences AS fence (lock_name, token, grant_id)
VALUES (:lock_name, :token, :grant_id)
ON CONFLICT (lock_name) DO UPDATE SET token = excluded.token, grant_id = excluded.grant_id
WHERE excluded.token > fence.token OR (excluded.token = fence.token AND excluded.grant_id = fence.grant_id)
RETURNING token"""
FIRST_MYSQL_CREATE = """CREATE TABLE fencepost_fences (
    lock_name VARBINARY(512) PRIMARY KEY, token BIGINT NOT NULL,
    grant_id VARCHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL) ENGINE = InnoDB"""
FIRST_MYSQL_RAISE = """INSERT INTO fencepost_fences (lock_name, token, grant_id)
VALUES (CONVERT(:lock_name USING utf8mb4), :token, :grant_id)
ON DUPLICATE KEY UPDATE
    grant_id = IF(VALUES(token) > token, VALUES(grant_id), grant_id),
    token = GREATEST(VALUES(token), token)"""
FIRST_MYSQL_NEWEST = """SELECT token, grant_id FROM fencepost_fences
WHERE lock_name = CONVERT(:lock_name USING utf8mb4) FOR UPDATE"""
TOKEN_MAX = facts.TOKEN_MAX
# Names that stores may take for one another.
NAMES = ["a", "A", "a ", "a  ", " a", "ä", "a\u0308", "Ä", "ß", "ss", "İ", "i", "\u200da", "%s", "a'b\\", "\\"]
NAMES += ["a" * 512, "a" * 511 + "b", "🦀" * 128, "日" * 170 + "aa"]


class Stale(Exception):
    """The highest token of the store."""


class Rule:
    """The rule, as it is written in docs/guards.md: what each step answers for one lock."""

    def __init__(self):
        self.writer, self.shared = (0, ""), 0

    def newest(self):
        return max(self.writer[0], self.shared)

    def is_of_the_writer_or_later(self, token, grant_id):
        return token > self.writer[0] or (token, grant_id) == self.writer

    def raise_fence(self, token, grant_id):
        if token <= self.shared or not self.is_of_the_writer_or_later(token, grant_id):
            raise Stale(self.newest())
        self.writer = (token, grant_id)

    def raise_shared(self, token, grant_id):
        if not self.is_of_the_writer_or_later(token, grant_id):
            raise Stale(self.newest())
        self.shared = max(self.shared, token)

    def check_shared(self, token, grant_id):
        if self.shared < token or not self.is_of_the_writer_or_later(token, grant_id):
            raise Stale(self.newest())


class Connection:
    """A connection to an SQL store, in autocommit mode."""

    def execute(self, text, parameters=None):
        return self.connection.execute(text, parameters or {})

    def close(self):
        self.connection.close()

    def rows(self, text):
        return list(self.execute(text).fetchall())

    def create(self):
        """Creates the table, or adds what one of the first version lacks. Others may do so at the same time."""
        if self.rows(self.HAS_SHARED)[0][0]:
            return
        try:
            self.execute(self.CREATE)
            if not self.rows(self.HAS_SHARED)[0][0]:
                self.execute(self.ADD_SHARED)
        except Exception:
            assert self.rows(self.HAS_SHARED)[0][0]

    def first_raise(self, name, token, grant_id):
        """What the guard of the first version does."""
        return self.execute(self.FIRST_RAISE, parameters(name, token, grant_id)).fetchone() is not None

    def raise_fence(self, name, token, grant_id):
        self.run(self.RAISE, self.NEWEST, parameters(name, token, grant_id))

    def raise_shared(self, name, token, grant_id):
        self.run(self.RAISE_SHARED, self.NEWEST, parameters(name, token, grant_id))

    def check_shared(self, name, token, grant_id):
        self.run(self.CHECK_SHARED, self.NEWEST, parameters(name, token, grant_id))

    def run(self, text, newest, values):
        if self.execute(text, values).fetchone() is None:
            row = self.execute(newest, values).fetchone()
            raise Stale(row[0] if row else 0)


def parameters(name, token, grant_id):
    return {"lock_name": name, "token": token, "grant_id": grant_id}


def formatted(text):
    return re.sub(r":(lock_name|token|grant_id)\b", r"%(\1)s", text)


class Postgres(Connection):
    LEVELS = ("READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE")
    CREATE, HAS_SHARED = facts.GUARD_POSTGRES_CREATE, facts.GUARD_POSTGRES_HAS_SHARED
    ADD_SHARED = facts.GUARD_POSTGRES_ADD_SHARED
    RAISE, NEWEST = formatted(facts.GUARD_POSTGRES_RAISE), formatted(facts.GUARD_POSTGRES_NEWEST)
    RAISE_SHARED = formatted(facts.GUARD_POSTGRES_RAISE_SHARED)
    CHECK_SHARED = formatted(facts.GUARD_POSTGRES_CHECK_SHARED)
    FIRST_CREATE, FIRST_RAISE = FIRST_CREATE, formatted(FIRST_RAISE)
    AGAIN = (psycopg.errors.SerializationFailure, psycopg.errors.DeadlockDetected)
    WAITED, IMPATIENT = psycopg.errors.LockNotAvailable, "SET lock_timeout = '300ms'"

    def __init__(self, places, level):
        self.connection = psycopg.connect(places["postgres"], autocommit=True)
        # Deadlocks are what some attacks are about, and the default is a second.
        self.execute("SET deadlock_timeout = '10ms'")
        self.begin = f"BEGIN ISOLATION LEVEL {level}"


class MySQL(Connection):
    LEVELS = ("READ UNCOMMITTED", "READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE")
    CREATE, HAS_SHARED = facts.GUARD_MYSQL_CREATE, facts.GUARD_MYSQL_HAS_SHARED
    ADD_SHARED = facts.GUARD_MYSQL_ADD_SHARED
    RAISE, NEWEST = formatted(facts.GUARD_MYSQL_RAISE), formatted(facts.GUARD_MYSQL_NEWEST)
    RAISE_SHARED = formatted(facts.GUARD_MYSQL_RAISE_SHARED)
    CHECK_SHARED = formatted(facts.GUARD_MYSQL_CHECK_SHARED)
    NEWEST_SHARED = formatted(facts.GUARD_MYSQL_NEWEST_SHARED)
    FIRST_CREATE, FIRST_RAISE = FIRST_MYSQL_CREATE, formatted(FIRST_MYSQL_RAISE)
    AGAIN = (pymysql.err.OperationalError,)
    WAITED, IMPATIENT = pymysql.err.OperationalError, "SET innodb_lock_wait_timeout = 1"
    begin = "START TRANSACTION"

    def __init__(self, places, level, charset="utf8mb4"):
        self.connection = pymysql.connect(**places["mysql"], charset=charset, autocommit=True).cursor()
        self.execute(f"SET SESSION TRANSACTION ISOLATION LEVEL {level}")

    def execute(self, text, parameters=None):
        self.connection.execute(text, parameters)
        return self.connection

    def close(self):
        self.connection.connection.close()

    def first_raise(self, name, token, grant_id):
        values = parameters(name, token, grant_id)
        self.execute(self.FIRST_RAISE, values)
        return self.execute(formatted(FIRST_MYSQL_NEWEST), values).fetchone() == (token, grant_id)

    def raise_fence(self, name, token, grant_id):
        values = parameters(name, token, grant_id)
        self.execute(self.RAISE, values)
        newest = self.execute(self.NEWEST, values).fetchone()
        if newest != (token, grant_id):
            raise Stale(newest[0])

    def raise_shared(self, name, token, grant_id):
        self.execute(self.RAISE_SHARED, parameters(name, token, grant_id))
        self.check_shared(name, token, grant_id)

    def check_shared(self, name, token, grant_id):
        self.run(self.CHECK_SHARED, self.NEWEST_SHARED, parameters(name, token, grant_id))


class SQLite(Connection):
    LEVELS = ("DEFERRED", "IMMEDIATE", "EXCLUSIVE")
    CREATE, HAS_SHARED = facts.GUARD_SQLITE_CREATE, facts.GUARD_SQLITE_HAS_SHARED
    ADD_SHARED = facts.GUARD_SQLITE_ADD_SHARED
    RAISE, NEWEST = facts.GUARD_SQLITE_RAISE, facts.GUARD_SQLITE_NEWEST
    RAISE_SHARED, CHECK_SHARED = facts.GUARD_SQLITE_RAISE_SHARED, facts.GUARD_SQLITE_CHECK_SHARED
    FIRST_CREATE, FIRST_RAISE = FIRST_CREATE, FIRST_RAISE
    AGAIN = (sqlite3.OperationalError,)
    WAITED, IMPATIENT = sqlite3.OperationalError, "PRAGMA busy_timeout = 300"

    def __init__(self, places, level):
        self.connection = sqlite3.connect(places["sqlite"], isolation_level=None, timeout=30)
        self.begin = f"BEGIN {level}"


def fresh(store, places):
    """A connection, after the tables were made anew."""
    connection = store(places, store.LEVELS[0])
    for table in ("fencepost_fences", "counters", "history", "work"):
        connection.execute(f"DROP TABLE IF EXISTS {table}")
    connection.create()
    connection.execute("CREATE TABLE counters (id INT PRIMARY KEY, value INT, token BIGINT)")
    connection.execute("CREATE TABLE history (id INT, value INT, token BIGINT, grant_id VARCHAR(36))")
    connection.execute("CREATE TABLE work (id INT, value INT, token BIGINT)")
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


def outcome(step, *arguments):
    """What a step answers: nothing, or the highest token that the store has seen."""
    try:
        step(*arguments)
    except Stale as stale:
        return stale.args[0]
    return None


def compare(name, raise_fence, raise_shared, check_shared):
    """Random steps on a few locks, with few tokens and grants: the store answers as the rule does."""
    chance, rules, counts = random.Random(1), {}, {True: 0, False: 0}
    for _ in range(STEPS):
        # Mostly rising, so that each lock is of use for a while.
        number = chance.randrange(STEPS // 40)
        rule = rules.setdefault(number, Rule())
        token, grant_id = max(1, rule.newest() + chance.choice((-2, -1, 0, 0, 0, 1, 1, 3))), chance.choice("gh")
        at_store, by_rule = chance.choice(
            [(raise_fence, rule.raise_fence), (raise_shared, rule.raise_shared), (check_shared, rule.check_shared)]
        )
        expected = outcome(by_rule, token, grant_id)
        found = outcome(at_store, f"rule/{number}", token, grant_id)
        assert found == expected, (name, by_rule.__name__, token, grant_id, vars(rule), found, expected)
        counts[found is None] += 1
    assert min(counts.values()) > STEPS / 5, counts


def first_version(store, places):
    """A table of the first version gets its column while many processes start, and the first guard goes on."""
    connection = fresh(store, places)
    connection.execute("DROP TABLE fencepost_fences")
    connection.execute(store.FIRST_CREATE)
    assert connection.first_raise("a", 10, "g10")
    with ThreadPoolExecutor(WRITERS) as pool:
        list(pool.map(lambda _: store(places, store.LEVELS[0]).create(), range(WRITERS)))
    assert outcome(connection.raise_fence, "a", 9, "g9") == 10
    for token, grant_id, passes in [(9, "g9", False), (10, "h", False), (10, "g10", True), (11, "g11", True)]:
        assert connection.first_raise("a", token, grant_id) == passes, (token, grant_id)
    assert connection.first_raise("b", 1, "g1")
    connection.raise_shared("a", 12, "g12")
    connection.check_shared("a", 12, "g12")
    assert outcome(connection.raise_fence, "a", 11, "g11") == 12


def side_by_side(store, places, level):
    """The work of two readers overlaps, and a writer waits for both of them. Who waits when nobody should fails."""
    check = fresh(store, places)
    check.execute("INSERT INTO counters VALUES (0, 0, 0)")
    one, two, writer = (store(places, level) for _ in range(3))
    for connection in (one, two, writer):
        connection.execute(store.IMPATIENT)
    one.raise_shared("a", 11, "g11")
    two.raise_shared("a", 12, "g12")
    for connection, token in ((one, 11), (two, 12)):
        connection.execute(connection.begin)
        connection.check_shared("a", token, f"g{token}")
        assert connection.rows("SELECT value FROM counters WHERE id = 0") == [(0,)]

    def writes():
        writer.execute(writer.begin)
        try:
            writer.raise_fence("a", 13, "g13")
            writer.execute("UPDATE counters SET value = 1 WHERE id = 0")
            writer.execute("COMMIT")
        except store.WAITED:
            writer.execute("ROLLBACK")
            return False
        return True

    assert not writes(), "a writer did not wait for two readers"
    two.execute("COMMIT")
    assert not writes(), "a writer did not wait for a reader"
    assert one.rows("SELECT value FROM counters WHERE id = 0") == [(0,)]
    one.execute("COMMIT")
    assert writes(), "a writer waits for readers that have ended"
    assert outcome(one.check_shared, "a", 11, "g11") == 13
    assert outcome(two.raise_shared, "a", 12, "g12") == 13


def attempt(store, step, connection, *arguments):
    """Why the store refused a step, if it did."""
    try:
        step(connection, *arguments)
    except Stale:
        return "stale"
    except store.AGAIN:
        return "again"
    return None


def storm(store, places, levels, locks, readers):
    """Each writer raises, reads a counter, and writes it plus one, with its token. Some tokens are old, some belong to
    another grant, some transactions roll back. Each reader raises once, and then works as often as it gets to it: it
    reads the counter, and writes down what it has read."""
    check = fresh(store, places)
    for number in range(locks):
        check.execute(f"INSERT INTO counters VALUES ({number}, 0, 0)")
    newest, marks, guard = [0] * locks, [Rule() for _ in range(locks)], threading.Lock()
    counts, end = {"written": 0, "read": 0, "stale": 0, "again": 0}, time.monotonic() + STORM
    # What the readers between two writers have read.
    seen = {}

    def raise_shared(connection, grants):
        for number, token, grant_id, shares in grants:
            if not shares:
                continue
            before = copy(marks[number])
            connection.raise_shared(f"lock/{number}", token, grant_id)
            assert outcome(before.raise_shared, token, grant_id) is None, ("late", number, token, vars(before))
            with guard:
                marks[number].shared = max(marks[number].shared, token)

    def work(connection, chance, grants):
        connection.execute(connection.begin)
        for number, token, grant_id, shares in grants:
            step = connection.check_shared if shares else connection.raise_fence
            step(f"lock/{number}", token, grant_id)
        values = {}
        for number, token, grant_id, shares in grants:
            value, last = connection.rows(f"SELECT value, token FROM counters WHERE id = {number}")[0]
            assert last <= token, (last, token)
            values[number] = value
            if shares:
                connection.execute(f"INSERT INTO work VALUES ({number}, {value}, {token})")
                continue
            connection.execute(f"UPDATE counters SET value = {value + 1}, token = {token} WHERE id = {number}")
            connection.execute(f"INSERT INTO history VALUES ({number}, {value + 1}, {token}, '{grant_id}')")
        if chance.random() < 0.1:
            connection.execute("ROLLBACK")
            return
        before = [copy(mark) for mark in marks]
        connection.execute("COMMIT")
        with guard:
            for number, token, grant_id, shares in grants:
                # Whoever had raised before the commit is an earlier holder, or a reader beside this one.
                mark = before[number]
                refused = outcome(mark.check_shared if shares else mark.raise_fence, token, grant_id)
                assert refused is None, ("late", number, token, grant_id, shares, vars(mark))
                counts["read" if shares else "written"] += 1
                if not shares:
                    marks[number].writer = max(marks[number].writer, (token, grant_id), key=lambda it: it[0])
                    continue
                value = seen.setdefault((number, token // ERA), values[number])
                assert value == values[number], ("what it had read has changed", number, token, value, values[number])

    def holder(seed):
        # Closed at the end: the locks of one that has failed would keep the others waiting.
        with closing(store(places, levels[seed % len(levels)])) as connection:
            hold(connection, random.Random(seed))

    def hold(connection, chance):
        while time.monotonic() < end:
            grants = []
            with guard:
                for number in chance.sample(range(locks), min(locks, 2)):
                    newest[number] += chance.choice((0, 1))
                    token = max(1, newest[number] - chance.choice((0, 0, 0, 1, 2)))
                    grant_id = f"g{token}" if chance.random() < 0.9 else "other"
                    # The first of an era is a writer, which may downgrade its lock.
                    shares = readers and chance.random() < (0.2 if token % ERA == 0 else 1)
                    grants.append((number, token, grant_id, shares))
            refused = attempt(store, raise_shared, connection, grants)
            if not refused:
                refused = attempt(store, work, connection, chance, grants)
                if refused:
                    connection.execute("ROLLBACK")
            if refused:
                with guard:
                    counts[refused] += 1

    with ThreadPoolExecutor(WRITERS) as pool:
        list(pool.map(holder, range(WRITERS)))
    for number in range(locks):
        history = check.rows(f"SELECT value, token, grant_id FROM history WHERE id = {number} ORDER BY value")
        assert [row[0] for row in history] == list(range(1, len(history) + 1)), "a write was lost"
        for (_, token, grant_id), (_, later, its_grant) in zip(history, history[1:], strict=False):
            assert later > token or (later, its_grant) == (token, grant_id), (token, later)
    assert counts["written"] > 0 and counts["stale"] > 0 and (counts["read"] > 0) == readers, counts
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
    client.flushdb()
    texts = {
        "raise_fence": facts.GUARD_REDIS_RAISE,
        "raise_shared": facts.GUARD_REDIS_RAISE_SHARED,
        "check_shared": facts.GUARD_REDIS_CHECK_SHARED,
    }
    note = "\nreturn redis.call('RPUSH', KEYS[2], ARGV[3] .. ' ' .. ARGV[1] .. ' ' .. ARGV[2])"
    scripts = {name: client.register_script(text + note) for name, text in texts.items()}

    def run(step, key, token, grant_id, own=client):
        try:
            scripts[step](keys=[key, "history"], args=[token, grant_id, step], client=own)
        except redis.ResponseError as refused:
            raise Stale(int(re.fullmatch(r"STALE (\d+)", str(refused))[1])) from refused

    compare("Redis", *(partial(run, step) for step in scripts))
    for readers in (False, True):
        client.flushdb()
        newest, end = [0], time.monotonic() + STORM

        def holder(seed, readers=readers, newest=newest, end=end):
            chance, own = random.Random(seed), redis.Redis.from_url(places["redis"], decode_responses=True)
            while time.monotonic() < end:
                newest[0] += chance.choice((0, 1))
                token = max(1, newest[0] - chance.choice((0, 0, 1, 2)))
                shares = readers and chance.random() < (0.2 if token % ERA == 0 else 1)
                for step in ("raise_shared", "check_shared") if shares else ("raise_fence",):
                    outcome(run, step, "fence", token, f"g{token}", own)

        with ThreadPoolExecutor(WRITERS) as pool:
            list(pool.map(holder, range(WRITERS)))
        rule, counts = Rule(), dict.fromkeys(scripts, 0)
        for line in client.lrange("history", 0, -1):
            step, token, grant_id = line.split()
            assert outcome(getattr(rule, step), int(token), grant_id) is None, (line, vars(rule))
            counts[step] += 1
        assert counts["raise_fence"] > 100 and (counts["check_shared"] > 100) == readers, counts
        print(f"Redis: {counts}", flush=True)


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
                first_version(store, places)
                connection = fresh(store, places)
                compare(store.__name__, connection.raise_fence, connection.raise_shared, connection.check_shared)
                # The other ways to begin let nobody read beside a transaction that may write.
                for level in ("DEFERRED",) if store is SQLite else store.LEVELS:
                    side_by_side(store, places, level)
                for readers in (False, True):
                    for level in store.LEVELS:
                        storm(store, places, [level], 1, readers)
                    storm(store, places, store.LEVELS, 1, readers)
                    storm(store, places, store.LEVELS, 3, readers)
            if "mysql" in chosen:
                character_sets(places)
            if "redis" in chosen:
                attack_redis(places)
        finally:
            if stores:
                stores.stdin.close()
                stores.wait()


main()
