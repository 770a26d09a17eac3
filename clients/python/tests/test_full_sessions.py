"""More locks than one session of the server may have."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, ExitStack
from pathlib import Path

import pytest
import pytest_asyncio
from conftest import PATIENCE
from support.processes import Redis, Server, wait_for
from test_aio import until

import fencepost
from fencepost import Client, LeaseEnd, aio

ROOM = ("--leases-per-stream", "2")


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server(tmp_path_factory.mktemp("small"), *ROOM) as server:
        yield server


@pytest.fixture
def full(small: Server, name: str) -> Iterator[Client]:
    """A client whose session has no room."""
    with Client(small.address) as client, client.lock(f"{name}/1"), client.lock(f"{name}/2"):
        yield client


@pytest.fixture
def other(small: Server) -> Iterator[Client]:
    with Client(small.address) as client:
        yield client


@pytest_asyncio.fixture
async def full_aio(small: Server, name: str) -> AsyncIterator[aio.Client]:
    async with aio.Client(small.address) as client, client.lock(f"{name}/1"), client.lock(f"{name}/2"):
        yield client


def test_all_are_kept_with_threads(full: Client, other: Client, name: str) -> None:
    with ExitStack() as stack:
        locks = [stack.enter_context(full.lock(f"{name}/more/{it}", ttl=1)) for it in range(5)]
        assert not locks[0].lost.wait(2.5)
        assert all(it.valid() for it in locks)
        with pytest.raises(fencepost.Contended):
            full.acquire(locks[0].name)
    assert all(it.release().end is LeaseEnd.RELEASED for it in locks)
    assert not [it for it in other.list(f"{name}/more") if it.holders]


async def test_all_are_kept_with_asyncio(full_aio: aio.Client, name: str) -> None:
    async with AsyncExitStack() as stack:
        locks = [await stack.enter_async_context(full_aio.lock(f"{name}/more/{it}", ttl=1)) for it in range(5)]
        await asyncio.sleep(2.5)
        assert all(it.valid() for it in locks)
        with pytest.raises(fencepost.Contended):
            await full_aio.acquire(locks[0].name)
    assert [(await it.release()).end for it in locks] == [LeaseEnd.RELEASED] * 5


def test_waits_with_threads(small: Server, full: Client, other: Client, name: str) -> None:
    lock = other.acquire(name)
    served: list[int] = []

    def work() -> None:
        with full.lock(name, wait=PATIENCE) as mine:
            served.append(mine.token)

    thread = threading.Thread(target=work)
    thread.start()
    wait_for(lambda: other.get(name).waiters == 1, "it waits")
    with pytest.raises(fencepost.TimedOut):
        full.acquire(name, wait=0.1)
    lock.release()
    thread.join(PATIENCE)
    assert served > [lock.token]


async def test_a_cancelled_wait_leaves_the_queue(full_aio: aio.Client, other: Client, name: str) -> None:
    with other.lock(name):
        waiting = asyncio.create_task(full_aio.acquire(name, wait=PATIENCE))

        async def waits(count: int) -> bool:
            return (await full_aio.get(name)).waiters == count

        await until(lambda: waits(1), "it waits")
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await until(lambda: waits(0), "it has left the queue")
    assert other.get(name).holders == ()


async def test_cancelled_acquires_hold_nothing(full_aio: aio.Client, name: str) -> None:
    tasks = [asyncio.create_task(full_aio.acquire(f"{name}/more/{it}", ttl=60)) for it in range(64)]
    for number, task in enumerate(tasks):
        for _ in range(number % 16):
            await asyncio.sleep(0)
        task.cancel()
    for result in await asyncio.gather(*tasks, return_exceptions=True):
        if isinstance(result, aio.Lock):
            await result.release()

    async def free() -> bool:
        return [it async for it in full_aio.list(f"{name}/more") if it.holders] == []

    await until(free, "all are free long before their TTL")


def test_close_ends_waits(small: Server, other: Client, name: str) -> None:
    client = Client(small.address)
    held = [client.acquire(f"{name}/{it}") for it in range(3)]
    errors: list[Exception] = []

    def work() -> None:
        try:
            client.acquire(name, wait=PATIENCE)
        except fencepost.FencepostError as error:
            errors.append(error)

    with other.lock(name):
        thread = threading.Thread(target=work)
        thread.start()
        wait_for(lambda: other.get(name).waiters == 1, "it waits")
        client.close(PATIENCE)
        thread.join(PATIENCE)
        assert [type(it) for it in errors] == [fencepost.ClientClosed]
        assert other.get(name).waiters == 0
    assert all(other.get(it.name).previous_end is LeaseEnd.RELEASED for it in held)


def test_the_next_server_keeps_them(tmp_path: Path, redis: Redis, name: str) -> None:
    with (
        Server(tmp_path / "a", "--store", redis.url, *ROOM) as first,
        Server(tmp_path / "b", "--store", redis.url, *ROOM) as second,
        Client([first.address, second.address]) as client,
        ExitStack() as stack,
    ):
        locks = [stack.enter_context(client.lock(f"{name}/{it}", ttl=3)) for it in range(4)]
        first.kill()
        assert not locks[0].lost.wait(6.0)
        assert all(it.valid() for it in locks)
