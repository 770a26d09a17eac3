"""Servers that hang, as a stopped process does: it accepts connections and says nothing, or has an open one and answers
no call on it. Each of them must leave time for the next server.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import Any

import grpc
import pytest
from support.ports import accepting
from support.processes import Server

from fencepost import Client, aio
from fencepost._core import timing


@contextmanager
def silent() -> Generator[str, None, None]:
    """A server that accepts connections and says nothing."""
    with accepting(lambda connection: None) as address:
        yield address


@contextmanager
def mute() -> Generator[str, None, None]:
    """A server that greets and answers no call."""
    end = threading.Event()

    def wait(request: bytes, context: grpc.ServicerContext) -> bytes:
        end.wait()
        return b""

    methods = ("Acquire", "CheckToken", "Get", "List", "Observe", "Session", "Watch")
    handlers: dict[str, Any] = {method: grpc.unary_unary_rpc_method_handler(wait) for method in methods}
    with ThreadPoolExecutor(32) as pool:
        server = grpc.server(pool)
        server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler("fencepost.v1.LockService", handlers)])
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        try:
            yield f"127.0.0.1:{port}"
        finally:
            end.set()
            server.stop(None).wait()


HUNG = pytest.mark.parametrize("hung", [silent, mute])


def _keep(client: Client) -> None:
    with client.lock("hung/keep", ttl=1) as lock:
        assert not lock.lost.wait(1.5)


def _watch(client: Client) -> None:
    with client.watch("hung/"):
        pass


def _observe(client: Client) -> None:
    with client.observe("hung") as states:
        next(states)


CALLS: list[Callable[[Client], object]] = [
    lambda client: client.get("hung"),
    lambda client: client.check_token("hung", 1),
    lambda client: list(client.list("none/")),
    lambda client: client.acquire("hung/wait", wait=1).release(),
    _keep,
    _watch,
    _observe,
]


@HUNG
def test_they_leave_time_for_the_next_one(hung: Callable[[], Any], server: Server, stack: ExitStack) -> None:
    servers = [stack.enter_context(hung()), stack.enter_context(hung()), server.address]

    def run(call: Callable[[Client], object]) -> None:
        with Client(servers) as client:
            call(client)

    with ThreadPoolExecutor(len(CALLS)) as pool:
        for done in [pool.submit(run, call) for call in CALLS]:
            done.result()


async def _aio_keep(client: aio.Client) -> None:
    async with client.lock("hung/aio/keep", ttl=1) as lock:
        await asyncio.sleep(1.5)
        assert lock.valid()


async def _aio_acquire(client: aio.Client) -> None:
    await (await client.acquire("hung/aio/wait", wait=1)).release()


async def _aio_list(client: aio.Client) -> None:
    async for _ in client.list("none/"):
        pass


async def _aio_watch(client: aio.Client) -> None:
    async with client.watch("hung/"):
        pass


async def _aio_observe(client: aio.Client) -> None:
    async with client.observe("hung") as states:
        await states.__anext__()


AIO_CALLS: list[Callable[[aio.Client], Coroutine[Any, Any, object]]] = [
    lambda client: client.get("hung"),
    lambda client: client.check_token("hung", 1),
    _aio_list,
    _aio_acquire,
    _aio_keep,
    _aio_watch,
    _aio_observe,
]


@HUNG
async def test_they_leave_time_with_asyncio(hung: Callable[[], Any], server: Server, stack: ExitStack) -> None:
    servers = [stack.enter_context(hung()), stack.enter_context(hung()), server.address]

    async def run(call: Callable[[aio.Client], Coroutine[Any, Any, object]]) -> None:
        async with aio.Client(servers) as client:
            await call(client)

    await asyncio.gather(*map(run, AIO_CALLS))


def test_each_of_several_servers_has_a_part_of_the_time() -> None:
    assert [timing.answer_time(5, 9, servers) for servers in (1, 2, 3, 100)] == [5, 4.5, 3, 0.5]
    assert timing.answer_time(0.02, 9, 2) == 0.02
