"""A connection that falls silent, a server that moves, and web proxies: a client with one address goes on."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager

import pytest
from conftest import PATIENCE
from support.names import Names
from support.processes import Server
from support.proxy import Proxy

from fencepost import Client, EventKind, aio
from fencepost._core.address import Address
from fencepost._core.timing import RETRY_FOR

# What a call may take that meets a dead connection.
QUICK = RETRY_FOR / 2


@contextmanager
def quick() -> Generator[None, None, None]:
    start = time.monotonic()
    yield
    assert time.monotonic() - start < QUICK


def test_a_connection_that_falls_silent(proxy: Proxy, name: str) -> None:
    with Client(proxy.address) as client, client.lock(name, ttl=5) as lock:
        client.get(name)
        before = proxy.connections
        proxy.silence()
        with quick(), client.lock(f"{name}/next"):
            pass
        with quick():
            assert client.get(name).newest_token == lock.token
        assert not lock.lost.wait(6)
        assert lock.valid()
        assert proxy.connections == before + 3, "one for the session, one for calls that read, one to look why"


async def test_a_connection_that_falls_silent_with_asyncio(proxy: Proxy, name: str) -> None:
    async with aio.Client(proxy.address) as client, client.lock(name, ttl=5) as lock:
        await client.get(name)
        proxy.silence()
        with quick():
            await (await client.acquire(f"{name}/next")).release()
        with quick():
            assert (await client.get(name)).newest_token == lock.token
        await asyncio.sleep(6)
        assert lock.valid()


async def test_a_connection_without_locks_falls_silent(proxy: Proxy, name: str) -> None:
    with Client(proxy.address) as client:
        client.acquire(name).release()
        proxy.silence()
        with quick():
            lock = client.acquire(name, wait=PATIENCE)
        proxy.silence()
        with quick():
            lock.release()
    async with aio.Client(proxy.address) as async_client:
        await (await async_client.acquire(name)).release()
        proxy.silence()
        with quick():
            async_lock = await async_client.acquire(name, wait=PATIENCE)
        proxy.silence()
        with quick():
            await async_lock.release()


def test_other_calls_go_on_when_one_finds_the_connection_dead(proxy: Proxy, name: str) -> None:
    with Client(proxy.address) as client, client.watch(name) as events:
        kept = client._calls._channels.take(0)
        failed = client._calls._channels.give_back(0, kept, works=False)
        assert failed is None, "the watch uses it"
        with client.lock(name) as lock:
            assert client.get(name).newest_token == lock.token
            assert next(events).token == lock.token


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> Generator[Names, None, None]:
    with Names("127.0.0.1") as names:
        monkeypatch.setattr(Address, "target", property(lambda address: names.target(address.port)))
        yield names


@contextmanager
def moving(server: Server, names: Names, first: Proxy) -> Generator[Proxy, None, None]:
    """The server gets another address, and nothing is left at the old one."""
    with Proxy(server.port, ("127.0.0.2", int(first.address.rpartition(":")[2]))) as second:
        names.address = "127.0.0.2"
        first.__exit__(None, None, None)
        yield second


def test_a_server_that_moves(proxy: Proxy, server: Server, names: Names, name: str) -> None:
    with Client(proxy.address) as client, client.watch(name) as events, client.lock(name, ttl=5) as lock:
        client.get(name)
        with moving(server, names, proxy) as second:
            with quick():
                assert client.get(name).newest_token == lock.token
            assert not lock.lost.wait(6)
            assert lock.valid()
            assert next(events).kind is EventKind.MISSED
            with client.lock(f"{name}/next") as following:
                assert next(events).token == following.token
            assert second.connections


async def test_a_server_that_moves_with_asyncio(proxy: Proxy, server: Server, names: Names, name: str) -> None:
    async with aio.Client(proxy.address) as client, client.lock(name, ttl=5) as lock:
        await client.get(name)
        with moving(server, names, proxy):
            with quick():
                assert (await client.get(name)).newest_token == lock.token
            await asyncio.sleep(6)
            assert lock.valid()
            await (await client.acquire(f"{name}/next")).release()


BEHIND_A_PROXY = """
import asyncio, sys
from fencepost import Client, aio
name, server = sys.argv[1:]
with Client(server) as client, client.lock(name) as lock:
    assert client.get(name).newest_token == lock.token

async def main():
    async with aio.Client(server) as client, client.lock(name) as lock:
        assert (await client.get(name)).newest_token == lock.token

asyncio.run(main())
print("ok")
"""


def test_no_web_proxy_is_used(server: Server, name: str) -> None:
    variables = ("http_proxy", "https_proxy", "grpc_proxy", "all_proxy")
    proxies = {form: "http://127.0.0.1:1" for it in variables for form in (it, it.upper())}
    environment = {it: value for it, value in os.environ.items() if it.lower() not in ("no_proxy", "no_grpc_proxy")}
    command = [sys.executable, "-c", BEHIND_A_PROXY, name, server.address]
    done = subprocess.run(
        command, check=False, capture_output=True, text=True, timeout=PATIENCE, env=environment | proxies
    )
    assert (done.stdout, done.stderr) == ("ok\n", "")
