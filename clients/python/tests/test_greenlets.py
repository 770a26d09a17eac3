"""Processes whose threads gevent or eventlet have patched. Each runs a program of its own."""

from __future__ import annotations

import subprocess
import sys

import pytest
from conftest import PATIENCE
from support.processes import Server


def run(program: str, server: Server, name: str) -> str:
    """Returns what a program prints. It has the lock name and the address as arguments."""
    command = [sys.executable, "-W", "ignore", "-c", program, name, server.address]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=PATIENCE)
    assert done.stderr == ""
    return done.stdout.strip()


TOLD = """
import gevent.monkey
gevent.monkey.patch_all()
import grpc.experimental.gevent
grpc.experimental.gevent.init_gevent()
import sys
import gevent
from fencepost import Client
name, server = sys.argv[1:]
ticks = 0

def tick():
    global ticks
    while True:
        ticks += 1
        gevent.sleep(0.05)

def second():
    with client.lock(name, wait=30) as lock:
        return lock.token

ticking = gevent.spawn(tick)
with Client(server) as client:
    with client.watch(name) as events:
        with client.lock(name, ttl=1) as lock:
            assert next(events).token == lock.token
            waiting = gevent.spawn(second)
            while not client.get(name).waiters:
                gevent.sleep(0.01)
            before = ticks
            gevent.sleep(2)
            assert lock.valid(), "it is renewed"
            assert ticks > before + 10, "other greenlets run"
        assert waiting.get(timeout=20) > lock.token
print("ok")
"""


def test_gevent_that_grpc_was_told_of(server: Server, name: str) -> None:
    assert run(TOLD, server, name) == "ok"


UNTOLD = """
{patch}
import sys
from fencepost import Refused
from fencepost{package} import Client
{before}
try:
    client = Client(sys.argv[2])
    {call}
except Refused as error:
    print(error.code, error)
"""


@pytest.mark.parametrize(
    ("patch", "package", "words"),
    [
        ("import gevent.monkey; gevent.monkey.patch_all()", "", "grpc.experimental.gevent.init_gevent()"),
        (
            "import gevent.monkey; gevent.monkey.patch_all()",
            ".aio",
            "gevent.monkey.patch_all(thread=False, queue=False)",
        ),
        (
            "import gevent.monkey; gevent.monkey.patch_all(); import grpc.experimental.gevent as it; it.init_gevent()",
            ".aio",
            "gevent.monkey.patch_all(thread=False, queue=False)",
        ),
        ("import gevent.monkey as it; it.patch_all(thread=False)", "", "patch_all(thread=False, queue=False)"),
        ("import eventlet; eventlet.monkey_patch()", "", "eventlet.monkey_patch(thread=False)"),
        ("import eventlet; eventlet.monkey_patch()", ".aio", "eventlet.monkey_patch(thread=False)"),
    ],
    ids=["gevent", "gevent-aio", "gevent-aio-told", "gevent-queue", "eventlet", "eventlet-aio"],
)
def test_a_client_that_would_hang_is_refused(patch: str, package: str, words: str, server: Server, name: str) -> None:
    printed = run(UNTOLD.format(patch=patch, package=package, before="", call=""), server, name)
    assert printed.startswith("FAILED_PRECONDITION ")
    assert "would hang" in printed
    assert words in printed


@pytest.mark.parametrize(
    "call",
    ["client.acquire('a')", "client.get('a')", "client.watch()", "list(client.list())", "client.check_token('a', 1)"],
)
def test_a_patch_that_comes_later(call: str, server: Server, name: str) -> None:
    late = f"import gevent.monkey; gevent.monkey.patch_all(); {call}"
    assert "init_gevent()" in run(UNTOLD.format(patch="", package="", before="", call=late), server, name)


UNPATCHED = """
{patch}
import sys, time
from fencepost import Client
with Client(sys.argv[2]) as client, client.lock(sys.argv[1], ttl=1) as lock:
    time.sleep(2)
    print(lock.valid())
"""


@pytest.mark.parametrize(
    "patch",
    [
        "import gevent.monkey; gevent.monkey.patch_all(thread=False, queue=False)",
        "import eventlet; eventlet.monkey_patch(thread=False)",
    ],
    ids=["gevent", "eventlet"],
)
def test_threads_that_are_not_patched(patch: str, server: Server, name: str) -> None:
    assert run(UNPATCHED.format(patch=patch), server, name) == "True"


UNPATCHED_AIO = """
import gevent.monkey
gevent.monkey.patch_all(thread=False, queue=False)
import asyncio, sys
from fencepost.aio import Client

async def main():
    async with Client(sys.argv[2]) as client, client.lock(sys.argv[1], ttl=1) as lock:
        await asyncio.sleep(2)
        print(lock.valid())

asyncio.run(main())
"""


def test_threads_that_are_not_patched_with_asyncio(server: Server, name: str) -> None:
    assert run(UNPATCHED_AIO, server, name) == "True"
