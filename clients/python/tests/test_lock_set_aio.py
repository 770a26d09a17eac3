"""Several locks at once, with asyncio, against a real server."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from conftest import PATIENCE
from support.processes import Server

import fencepost
from fencepost import LeaseEnd, LockLost, LockMode, LossReason, NotAllAcquired, aio, testing


def names(name: str) -> list[str]:
    return [f"{name}/{it}" for it in "abc"]


async def is_free(client: aio.Client, name: str) -> bool:
    """Whether the lock was given back: long before its TTL, and by a release."""
    info = await client.get(name)
    return not info.holders and info.previous_end is LeaseEnd.RELEASED


async def eventually(holds: Callable[[], Awaitable[bool]]) -> None:
    for _ in range(int(PATIENCE / 0.01)):
        if await holds():
            return
        await asyncio.sleep(0.01)
    pytest.fail("not in time")


async def free_soon(client: aio.Client, *names: str) -> None:
    async def all_free() -> bool:
        return all([await is_free(client, it) for it in names])

    await eventually(all_free)


async def waits(client: aio.Client, name: str, count: int = 1) -> None:
    async def as_many() -> bool:
        return (await client.get(name)).waiters == count

    await eventually(as_many)


async def test_all_locks_are_held_until_their_one_release(async_client: aio.Client, name: str) -> None:
    a, b, c = names(name)
    async with await async_client.acquire_all([c, a, b], ttl=2) as locks:
        assert list(locks) == [a, b, c]
        assert {it: (await async_client.get(it)).newest_token for it in locks} == locks.tokens
        await asyncio.sleep(2.5)
        assert locks.valid(), "all are renewed"
    assert not locks.valid()
    assert await locks.lost() is None
    assert (await locks.release()).end is LeaseEnd.RELEASED


async def test_parents_are_shared_and_leaves_are_not(async_client: aio.Client, name: str) -> None:
    names: list[str | tuple[str, LockMode]] = [f"{name}/a", (name, LockMode.SHARED)]
    async with await async_client.acquire_all(names) as locks:
        assert {it: lock.mode for it, lock in locks.items()} == {
            name: LockMode.SHARED,
            f"{name}/a": LockMode.EXCLUSIVE,
        }
        assert [it.shared for it in (await async_client.get(name)).holders] == [True]
    with pytest.raises(ValueError, match="is asked for both"):
        await async_client.acquire_all([*names, name])


async def test_a_name_with_two_modes_sends_nothing(async_client: aio.Client, name: str) -> None:
    a, b, c = names(name)
    twice: list[str | tuple[str, LockMode]] = [a, b, (b, LockMode.SHARED)]
    async with async_client.watch(name) as events:
        for acquire in (async_client.acquire_all, async_client.try_all):
            with pytest.raises(ValueError, match="b is asked for both as exclusive and as shared"):
                await acquire(twice)
        await (await async_client.acquire(c)).release()
        assert (await anext(events)).name == c, "it is the first lock that the server has heard of"


async def test_one_that_is_held_gives_back_the_others(async_client: aio.Client, name: str) -> None:
    a, b, c = names(name)
    async with async_client.lock(c):
        with pytest.raises(NotAllAcquired) as failed:
            await async_client.acquire_all([a, b, c])
    assert isinstance(failed.value.cause, fencepost.Contended)
    assert (failed.value.name, failed.value.given_back) == (c, (b, a))
    assert await is_free(async_client, a)
    assert await is_free(async_client, b)


async def test_cancelled_at_any_await_it_leaves_nothing(server: Server, name: str) -> None:
    a, b, c = names(name)
    async with aio.Client(server.address) as client, aio.Client(server.address) as other, other.lock(c):
        # Each turn of the loop is a place at which the task may be cancelled.
        for turns in range(40):
            task = asyncio.create_task(client.acquire_all([a, b, c], wait=PATIENCE))
            for _ in range(turns):
                await asyncio.sleep(0)
            if turns == 39:
                await waits(other, c)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        await free_soon(other, a, b)
        await waits(other, c, 0)


async def test_a_loss_while_later_ones_are_waited_for_ends_the_call(failing: testing.Server) -> None:
    lost: list[LockLost] = []
    async with aio.Client(failing.address) as client, aio.Client(failing.address) as other, other.lock("c"):
        task = asyncio.create_task(client.acquire_all(["a", "b", "c"], wait=PATIENCE, on_lost=lost.append))
        await waits(other, "c")
        await asyncio.to_thread(failing.lose, "a")
        with pytest.raises(NotAllAcquired) as failed:
            await asyncio.wait_for(task, PATIENCE / 2)
        cause = failed.value.cause
        assert isinstance(cause, LockLost)
        assert (cause.name, cause.reason, failed.value.given_back) == ("a", LossReason.REVOKED, ("b",))
        assert await is_free(other, "b")
        await waits(other, "c", 0)
        assert not lost


async def test_a_lost_lock_cancels_the_body(failing: testing.Server) -> None:
    lost: list[LockLost] = []
    async with aio.Client(failing.address) as client:
        with pytest.raises(LockLost) as told:
            async with await client.acquire_all(["a", "b", "c"], on_lost=lost.append) as locks:
                await asyncio.to_thread(failing.lose, "b")
                await asyncio.sleep(PATIENCE)
        assert told.value.name == "b"
        assert [it.name for it in lost] == ["b"]
        assert (await locks.release()).end is LeaseEnd.REVOKED
        assert await is_free(client, "a")
        assert await is_free(client, "c")


async def test_tries_hold_nothing_while_they_wait(server: Server, async_client: aio.Client, name: str) -> None:
    a, b, c = names(name)
    async with aio.Client(server.address) as other:
        held = await other.acquire(c)
        assert await async_client.try_all([a, b, c], wait=0.3) is None
        assert await is_free(other, a)
        task = asyncio.create_task(async_client.try_all([a, b, c], wait=PATIENCE))
        for _ in range(3):
            await (await other.acquire(a, wait=PATIENCE)).release()
        await held.release()
        locks = await asyncio.wait_for(task, PATIENCE)
        assert locks is not None
        await locks.release()
