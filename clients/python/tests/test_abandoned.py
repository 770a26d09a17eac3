"""Waits that nobody waits for any more: the lock does not stay held for nobody."""

from __future__ import annotations

import asyncio
import concurrent.futures
import gc
import logging
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from conftest import PATIENCE
from support.processes import wait_for

from fencepost import Client, LeaseEnd, Lock, aio

pytestmark = pytest.mark.filterwarnings("ignore:lock .* was never released:ResourceWarning")

# How long the caller waits in these tests, much less than the lock is held.
SHORT = 0.2


def is_released(client: Client, name: str, caplog: pytest.LogCaptureFixture) -> None:
    """The lock that was granted to nobody is released, long before its TTL, and the log says so."""

    def warned() -> bool:
        gc.collect()
        return any(
            f"{name} (token " in it.getMessage() and "was forgotten without a release" in it.getMessage()
            for it in caplog.records
            if it.levelno == logging.WARNING
        )

    wait_for(warned, "it is told")
    with client.lock(name, wait=PATIENCE) as lock:
        assert lock.previous_end is LeaseEnd.RELEASED


def test_a_future_whose_result_is_not_awaited(client: Client, name: str, caplog: pytest.LogCaptureFixture) -> None:
    with ThreadPoolExecutor(1) as pool:
        with client.lock(name):
            future = pool.submit(client.acquire, name, ttl=600, wait=PATIENCE)
            with pytest.raises(concurrent.futures.TimeoutError):
                future.result(SHORT)
            # It runs already: this does not end the wait.
            assert not future.cancel()
        del future
        is_released(client, name, caplog)


def test_a_future_that_is_cancelled_before_it_runs(client: Client, name: str) -> None:
    release = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        pool.submit(release.wait, PATIENCE)
        assert pool.submit(client.acquire, name).cancel()
        release.set()
    with client.lock(name) as lock:
        assert lock.previous_end is LeaseEnd.UNSPECIFIED, "nobody has asked for it"


def test_a_thread_that_is_forgotten(client: Client, name: str, caplog: pytest.LogCaptureFixture) -> None:
    with client.lock(name):
        threading.Thread(
            target=client.acquire, args=(name,), kwargs={"ttl": 600, "wait": PATIENCE}, daemon=True
        ).start()
        wait_for(lambda: client.get(name).waiters == 1, "it waits")
    is_released(client, name, caplog)


def test_a_lock_that_is_used_is_not_forgotten(client: Client, name: str) -> None:
    # What belongs to a lock keeps it: its methods, and the statement that holds it.
    parts: list[Callable[[], object]] = []
    for it in range(4):
        lock = client.acquire(f"{name}/{it}", ttl=1)
        parts.append((lock.valid, lock.check, lock.release, lock.lost.is_set)[it])
        del lock
    body = client.lock(f"{name}/body", ttl=1)
    body.__enter__()
    gc.collect()
    threading.Event().wait(1.5)
    assert [len(client.get(f"{name}/{it}").holders) for it in (0, 1, 2, 3, "body")] == [1, 1, 1, 1, 1]
    body.__exit__(None, None, None)
    parts[2]()


async def _queue_has(client: Client, name: str, waiters: int) -> None:
    await asyncio.to_thread(wait_for, lambda: client.get(name).waiters == waiters, f"{waiters} wait")


async def test_wait_for_and_timeout(async_client: aio.Client, client: Client, name: str) -> None:
    async with async_client.lock(name):
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(async_client.acquire(name, wait=PATIENCE), SHORT)
        await _queue_has(client, name, 0)

        async def work() -> None:
            async with async_client.lock(name, wait=PATIENCE):
                raise AssertionError("it was granted")

        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(work(), SHORT)
        await _queue_has(client, name, 0)


async def test_a_task_that_is_abandoned(
    async_client: aio.Client, client: Client, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with async_client.lock(name):
        task = asyncio.create_task(async_client.acquire(name, ttl=600, wait=PATIENCE))
        done, _ = await asyncio.wait([task], timeout=SHORT)
        assert not done
        await _queue_has(client, name, 1)
    del task, done, _
    await asyncio.to_thread(is_released, client, name, caplog)


async def test_a_shielded_acquire(
    async_client: aio.Client, client: Client, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with async_client.lock(name):
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(asyncio.shield(async_client.acquire(name, ttl=600, wait=PATIENCE)), SHORT)
        await _queue_has(client, name, 1)
    await asyncio.to_thread(is_released, client, name, caplog)


async def test_the_first_of_two(async_client: aio.Client, client: Client, name: str) -> None:
    async with async_client.lock(f"{name}/1"):
        tasks = {asyncio.create_task(async_client.acquire(f"{name}/{it}", wait=PATIENCE)) for it in (1, 2)}
        done, rest = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in rest:
            task.cancel()
        await asyncio.wait(rest)
        await _queue_has(client, f"{name}/1", 0)
        (won,) = done
        await won.result().release()


async def test_a_thread_that_asyncio_waits_for(client: Client, name: str, caplog: pytest.LogCaptureFixture) -> None:
    lock: Lock = client.acquire(name)
    with pytest.raises(asyncio.TimeoutError):
        await asyncio.wait_for(asyncio.to_thread(client.acquire, name, ttl=600, wait=PATIENCE), SHORT)
    lock.release()
    await asyncio.to_thread(is_released, client, name, caplog)


async def test_a_coroutine_of_another_thread(
    async_client: aio.Client, client: Client, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    loop = asyncio.get_running_loop()

    def wait() -> None:
        future = asyncio.run_coroutine_threadsafe(async_client.acquire(name, ttl=600, wait=PATIENCE), loop)
        with pytest.raises(concurrent.futures.TimeoutError):
            future.result(SHORT)

    async with async_client.lock(name):
        await asyncio.to_thread(wait)
        await _queue_has(client, name, 1)
    await asyncio.to_thread(is_released, client, name, caplog)
