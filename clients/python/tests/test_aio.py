"""The client for asyncio, against a real server."""

from __future__ import annotations

import asyncio
import gc
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from conftest import PATIENCE
from support.processes import Redis, Server, free_port
from support.proxy import Proxy
from test_loss import revoke

import fencepost
from fencepost import LockLost, Loss, LossReason, aio


async def until(condition: Callable[[], Awaitable[bool]], what: str) -> None:
    """Waits until a coroutine function returns true."""
    end = time.monotonic() + PATIENCE
    while not await condition():
        assert time.monotonic() < end, what
        await asyncio.sleep(0.01)


async def test_a_lock_is_kept_past_its_ttl(async_client: aio.Client, name: str) -> None:
    async with async_client.lock(name, ttl=1) as lock:
        await asyncio.sleep(2.5)
        assert lock.valid()
        assert 0 < lock.remaining() < 1
        assert await async_client.check_token(name, lock.token)
    assert not lock.valid()
    assert await lock.lost() is None
    assert (await lock.release()).end is fencepost.LeaseEnd.RELEASED


async def test_outcomes(async_client: aio.Client, name: str) -> None:
    async with async_client.lock(name, holder="worker-1"):
        with pytest.raises(fencepost.Contended, match="worker-1"):
            await async_client.acquire(name)
        assert await async_client.try_acquire(name) is None
        with pytest.raises(fencepost.TimedOut):
            await async_client.acquire(name, wait=0.1)
    lock = await async_client.try_acquire(name)
    assert lock is not None
    assert lock.previous_end is fencepost.LeaseEnd.RELEASED
    await lock.release()
    with pytest.raises(fencepost.Refused) as refused:
        await async_client.acquire(name, ttl=0.001)
    assert refused.value.violations[0].field == "ttl"


async def test_get_list_watch(async_client: aio.Client, name: str) -> None:
    async with async_client.watch(name) as events:
        async with async_client.lock(name, metadata={"job": "7"}) as lock:
            assert (await async_client.get(name)).holders[0].metadata == {"job": "7"}
            assert [it.name async for it in async_client.list(name)] == [name]
        seen = [await anext(events), await anext(events)]
    assert [(it.kind, it.token) for it in seen] == [
        (fencepost.EventKind.GRANTED, lock.token),
        (fencepost.EventKind.RELEASED, lock.token),
    ]
    assert [it async for it in events] == []


async def test_a_watch_that_was_cut_goes_on_and_says_so(proxy: Proxy, name: str) -> None:
    async with aio.Client(proxy.address) as client, client.watch(name) as events:
        proxy.cut()
        assert (await anext(events)).kind is fencepost.EventKind.MISSED
        async with client.lock(name) as lock:
            event = await anext(events)
        assert (event.kind, event.token) == (fencepost.EventKind.GRANTED, lock.token)


async def test_the_server_of_a_watch_is_killed(tmp_path: Path, redis: Redis, name: str) -> None:
    with Server(tmp_path / "a", "--store", redis.url) as first, Server(tmp_path / "b", "--store", redis.url) as second:
        async with aio.Client([first.address, second.address]) as client, client.watch(name) as events:
            # A server that has just started may have refused the watch: then it is on the second one.
            (first, second)[events._server].kill()
            assert (await anext(events)).kind is fencepost.EventKind.MISSED
            granted = False
            # Each change of the leader is a gap. What happens before the watch goes on may be missed, the grant too.
            while not granted:
                async with client.lock(name) as lock:
                    event = await anext(events)
                    while event.kind is not fencepost.EventKind.MISSED and event.token != lock.token:
                        event = await anext(events)
                granted = event.kind is fencepost.EventKind.GRANTED


async def test_a_lost_lock_cancels_its_body(async_client: aio.Client, server: Server, name: str) -> None:
    losses: list[Loss] = []
    with pytest.raises(LockLost, match="was revoked") as lost:
        async with async_client.lock(name, on_lost=losses.append) as lock:
            await asyncio.to_thread(revoke, server, name, lock.token)
            await asyncio.sleep(PATIENCE)
    assert isinstance(lost.value.__cause__, asyncio.CancelledError)
    assert losses == [Loss(LossReason.REVOKED)]
    await asyncio.sleep(0)  # the task is not cancelled any more
    task = asyncio.current_task()
    assert task is not None
    if sys.version_info >= (3, 11):
        assert task.cancelling() == 0


async def test_the_body_may_find_out_by_itself(async_client: aio.Client, server: Server, name: str) -> None:
    with pytest.raises(LockLost) as lost:
        async with async_client.lock(name) as lock:
            revoke(server, name, lock.token)  # the loop is blocked meanwhile
            while lock.valid():
                try:
                    await asyncio.sleep(0.01)
                except asyncio.CancelledError as error:
                    raise RuntimeError("cleaned up") from error
    assert isinstance(lost.value.__cause__, RuntimeError)


async def test_a_blocked_loop_loses_its_lock_and_notices_first(async_client: aio.Client, name: str) -> None:
    with pytest.raises(LockLost) as lost:
        async with async_client.lock(name, ttl=1) as lock:
            time.sleep(1.5)  # noqa: ASYNC251
            assert not lock.valid()
            # No await: the body ends before it can be cancelled.
    assert lost.value.reason is LossReason.SILENCE
    await asyncio.sleep(0.05)  # and it is not cancelled afterwards


async def test_a_cancellation_from_outside_goes_on(async_client: aio.Client, server: Server, name: str) -> None:
    entered = asyncio.Event()

    async def work() -> None:
        async with async_client.lock(name):
            entered.set()
            await asyncio.sleep(PATIENCE)

    task = asyncio.create_task(work())
    await entered.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    async with async_client.lock(name, wait=PATIENCE) as lock:
        assert lock.previous_end is fencepost.LeaseEnd.RELEASED


async def test_a_cancellation_from_outside_goes_on_although_the_lock_is_lost(
    async_client: aio.Client, name: str
) -> None:
    entered = asyncio.Event()

    async def work() -> None:
        async with async_client.lock(name, ttl=1) as lock:
            entered.set()
            try:
                await asyncio.sleep(PATIENCE)
            finally:
                time.sleep(1.5)  # noqa: ASYNC251
                assert not lock.valid()

    task = asyncio.create_task(work())
    await entered.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.skipif(sys.version_info < (3, 11), reason="Python 3.10 does not count cancellations")
async def test_a_cancellation_at_the_moment_of_the_loss_goes_on(
    async_client: aio.Client, server: Server, name: str
) -> None:
    entered: asyncio.Future[aio.Lock] = asyncio.get_running_loop().create_future()

    def cancel(_loss: Loss) -> None:
        # This runs after the lock has cancelled its body, and before the body runs.
        task.cancel()

    async def work() -> None:
        async with async_client.lock(name, on_lost=cancel) as lock:
            entered.set_result(lock)
            await asyncio.sleep(PATIENCE)

    task = asyncio.create_task(work())
    lock = await entered
    await asyncio.to_thread(revoke, server, name, lock.token)
    with pytest.raises(asyncio.CancelledError):
        await task
    assert lock.loss == Loss(LossReason.REVOKED)


async def test_nested_locks(async_client: aio.Client, server: Server, name: str) -> None:
    inner_lost = False
    async with async_client.lock(f"{name}/outer") as outer:
        try:
            async with async_client.lock(f"{name}/inner") as inner:
                await asyncio.to_thread(revoke, server, inner.name, inner.token)
                await asyncio.sleep(PATIENCE)
        except LockLost as error:
            inner_lost = error.name == inner.name
        assert inner_lost
        assert outer.valid()
    with pytest.raises(LockLost) as lost:
        async with async_client.lock(f"{name}/outer") as outer, async_client.lock(f"{name}/inner") as inner:
            await asyncio.to_thread(revoke, server, outer.name, outer.token)
            await asyncio.sleep(PATIENCE)
    assert lost.value.name == outer.name
    assert not inner.valid()


async def test_timeouts_inside_and_outside(async_client: aio.Client, server: Server, name: str) -> None:
    if sys.version_info < (3, 11):
        pytest.skip("asyncio.timeout is new in 3.11")
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.1), async_client.lock(name):
            await asyncio.sleep(PATIENCE)
    async with async_client.lock(name, wait=PATIENCE) as lock:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await asyncio.sleep(PATIENCE)
        assert lock.valid()
    with pytest.raises(LockLost):
        async with asyncio.timeout(PATIENCE), async_client.lock(name, wait=PATIENCE) as lock, asyncio.timeout(PATIENCE):
            await asyncio.to_thread(revoke, server, name, lock.token)
            await asyncio.sleep(PATIENCE)


async def test_a_cancelled_wait_leaves_the_queue(async_client: aio.Client, name: str) -> None:
    async with async_client.lock(name):
        waiting = asyncio.create_task(async_client.acquire(name, wait=PATIENCE))

        async def waits() -> bool:
            return (await async_client.get(name)).waiters == 1

        async def left() -> bool:
            return (await async_client.get(name)).waiters == 0

        await until(waits, "the acquire waits")
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await until(left, "it has left the queue")
    assert (await async_client.get(name)).holders == ()


async def test_cancelled_acquires_hold_nothing(async_client: aio.Client, name: str) -> None:
    tasks = [asyncio.create_task(async_client.acquire(f"{name}/{it}", ttl=60)) for it in range(64)]
    for number, task in enumerate(tasks):
        for _ in range(number % 8):
            await asyncio.sleep(0)
        task.cancel()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    for result in results:
        if isinstance(result, aio.Lock):
            await result.release()

    async def free() -> bool:
        return [it async for it in async_client.list(name) if it.holders] == []

    await until(free, "all locks are free long before their TTL")


async def test_a_thousand_locks_and_waiters_in_order(async_client: aio.Client, name: str) -> None:
    locks = await asyncio.gather(*(async_client.acquire(f"{name}/{it}", ttl=2) for it in range(1000)))
    await asyncio.sleep(3)
    assert all(it.valid() for it in locks)
    await asyncio.gather(*(it.release() for it in locks))
    order: list[int] = []
    first = await async_client.acquire(name)

    async def work(number: int) -> None:
        async with async_client.lock(name, wait=PATIENCE):
            order.append(number)

    tasks = []
    for number in range(64):
        tasks.append(asyncio.create_task(work(number)))
        await asyncio.sleep(0)
    await first.release()
    await asyncio.gather(*tasks)
    assert order == list(range(64))


async def test_servers_that_fail(proxy: Proxy, server: Server, name: str) -> None:
    async with aio.Client([f"127.0.0.1:{free_port()}", proxy.address, server.address]) as client:
        async with client.lock(name, ttl=3) as lock:
            proxy.blackhole()
            await asyncio.sleep(4)
            assert lock.valid()
    async with aio.Client(f"127.0.0.1:{free_port()}", retry_for=0.3) as client:
        with pytest.raises(fencepost.Unavailable):
            await client.acquire(name)
        with pytest.raises(fencepost.Unavailable):
            await client.get(name)


async def test_close_ends_everything(server: Server, name: str) -> None:
    client = aio.Client(server.address)
    lock = await client.acquire(name)
    waiting = asyncio.create_task(client.acquire(name, wait=PATIENCE))
    await asyncio.sleep(0.1)
    await client.close()
    with pytest.raises(fencepost.ClientClosed):
        await waiting
    with pytest.raises(fencepost.ClientClosed):
        await client.acquire(name)
    with pytest.raises(fencepost.ClientClosed):
        await client.get(name)
    assert not lock.valid()

    async def alone() -> bool:
        return len(asyncio.all_tasks()) == 1

    await until(alone, "no task is left")
    async with aio.Client(server.address) as other, other.lock(name) as after:
        assert after.previous_end is fencepost.LeaseEnd.RELEASED


async def test_a_lock_that_is_forgotten_is_released(async_client: aio.Client, name: str) -> None:
    with pytest.warns(ResourceWarning, match="was never released"):
        await async_client.acquire(name)
        gc.collect()
    async with async_client.lock(name, wait=PATIENCE) as lock:
        assert lock.previous_end is fencepost.LeaseEnd.RELEASED


def test_one_client_belongs_to_one_loop(server: Server) -> None:
    client = aio.Client(server.address)

    async def use() -> None:
        async with client.lock("one-loop"):
            pass

    async def close() -> None:
        await client.close()

    asyncio.run(use())
    with pytest.raises(fencepost.ClientClosed, match="another event loop"):
        asyncio.run(use())
    asyncio.run(close())


async def test_a_token_may_come_from_a_coroutine(server: Server, name: str) -> None:
    asked = 0

    async def token() -> str:
        nonlocal asked
        asked += 1
        return "secret"

    async with aio.Client(server.address, token=token) as client, client.lock(name):
        await client.get(name)
    assert asked == 2
