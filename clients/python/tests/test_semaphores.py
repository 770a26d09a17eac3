"""Semaphores, against a real server."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from conftest import PATIENCE
from support.engine import World
from support.futures import in_thread
from support.processes import wait_for
from test_lead_aio import waiters
from test_shared import other

import fencepost
from fencepost import Client, Refused, Semaphore, TimedOut, aio
from fencepost.v1 import lock_pb2 as pb

__all__ = ["other"]


def seen(holders: tuple[fencepost.Holder, ...]) -> list[tuple[str, int, int, int | None]]:
    return [(it.holder, it.token, it.permits, it.slot) for it in holders]


def test_holders_have_slots_and_the_next_one_gets_the_free_slot(client: Client, other: Client, name: str) -> None:
    first = client.acquire(name, semaphore=2, holder="first")
    second = other.acquire(name, semaphore=2, holder="second")
    assert [(it.permits, it.slot) for it in (first, second)] == [(1, 1), (1, 2)]
    assert client.try_acquire(name, semaphore=2) is None
    with pytest.raises(TimedOut, match="it is held by first and second, 0 waiting") as no:
        client.acquire(name, semaphore=2, wait=0.1)
    both = [("first", first.token, 1, 1), ("second", second.token, 1, 2)]
    assert seen(no.value.holders) == both
    assert no.value.semaphore == Semaphore(used=2, limit=2, version=0)
    for info in (client.get(name), *client.list(name)):
        assert (seen(info.holders), info.holder_count) == (both, 2)
        assert [it.shared for it in info.holders] == [False, False]
        assert info.semaphore == Semaphore(used=2, limit=2, version=0)
    third = in_thread(lambda: client.acquire(name, semaphore=2, wait=PATIENCE))
    wait_for(lambda: other.get(name).waiters == 1, "the third one waits")
    first.release()
    with third.result(PATIENCE) as lock, second:
        assert (lock.slot, second.slot) == (1, 2)
        assert first.token < second.token < lock.token
    with client.lock(name) as exclusive:
        assert (exclusive.permits, exclusive.slot) == (0, None)
        assert seen(client.get(name).holders)[0][2:] == (0, None)
        assert client.get(name).semaphore is None


def test_several_permits_are_one_lock_without_a_slot(client: Client, other: Client, name: str) -> None:
    with client.lock(name, semaphore=3, permits=2) as two:
        assert (two.permits, two.slot) == (2, None)
        assert seen(client.get(name).holders) == [(client._options.holder, two.token, 2, None)]
        assert other.try_acquire(name, semaphore=3, permits=2) is None
        with other.lock(name, semaphore=3) as one:
            assert (one.permits, one.slot) == (1, 1)
    with client.lock(name, semaphore=3, permits=3) as all_of_them:
        assert all_of_them.permits == 3


def test_a_changed_limit_needs_a_higher_version(client: Client, other: Client, name: str) -> None:
    with client.lock(name, semaphore=1):
        with pytest.raises(Refused, match="limit 1 of version 0 is in force") as refused:
            other.acquire(name, semaphore=2, wait=PATIENCE)
        assert (refused.value.code, refused.value.reason) == ("FAILED_PRECONDITION", "PERMIT_LIMIT_MISMATCH")
        waiting = in_thread(lambda: other.acquire(name, semaphore=1, wait=PATIENCE))
        wait_for(lambda: client.get(name).waiters == 1, "the second one waits")
        # The new limit has room for the waiter and for the request that names it.
        with client.lock(name, semaphore=3, permit_limit_version=1, wait=PATIENCE) as third:
            with waiting.result(PATIENCE) as second:
                assert client.get(name).semaphore == Semaphore(used=3, limit=3, version=1)
                assert {second.slot, third.slot} == {2, 3}
        with pytest.raises(Refused, match="limit 3 of version 1 is in force"):
            other.acquire(name, semaphore=4, permits=4, permit_limit_version=0)


@pytest.mark.parametrize(
    ("held", "asked"), [({"semaphore": 2}, {"shared": True}), ({"shared": True}, {"semaphore": 2})]
)
def test_a_lock_is_either_shared_or_a_semaphore(
    client: Client, other: Client, name: str, held: dict[str, Any], asked: dict[str, Any]
) -> None:
    with client.lock(name, **held), pytest.raises(Refused) as refused:
        other.acquire(name, wait=PATIENCE, **asked)
    assert (refused.value.code, refused.value.reason) == ("FAILED_PRECONDITION", "MODE_MISMATCH")


def test_the_permits_of_a_released_semaphore_stay_used_for_its_min_hold(client: Client, name: str) -> None:
    gone = client.acquire(name, semaphore=1, min_hold=60)
    gone.release()
    assert client.try_acquire(name, semaphore=1) is None
    info = client.get(name)
    assert (info.holder_count, info.delay and info.delay.token) == (0, gone.token)


async def test_semaphores_with_asyncio(async_client: aio.Client, name: str) -> None:
    async with async_client.lock(name, semaphore=2, holder="first") as first:
        second = await async_client.try_acquire(name, semaphore=2, holder="second")
        assert second is not None
        assert (first.permits, first.slot, second.permits, second.slot) == (1, 1, 1, 2)
        with pytest.raises(Refused) as refused:
            await async_client.acquire(name, semaphore=3)
        assert refused.value.reason == "PERMIT_LIMIT_MISMATCH"
        third = asyncio.create_task(async_client.acquire(name, semaphore=2, wait=PATIENCE))
        await waiters(async_client, name, 1)
        await second.release()
        lock = await third
        assert lock.slot == 2
        await lock.release()
        async with await async_client.acquire(name, semaphore=3, permits=2, permit_limit_version=1) as two:
            assert (two.permits, two.slot) == (2, None)


def test_what_is_sent_and_what_a_lease_has() -> None:
    for permits, slot in ((None, 7), (2, None)):
        world = World()
        acquire = world.acquire(semaphore=9, permits=permits)
        world.connect()
        sent = world.send_one()
        request = sent.acquire.request
        count = permits or 1
        assert (request.mode, request.permit_limit, request.permits) == (pb.LOCK_MODE_SEMAPHORE, 9, count)
        world.grant(sent, slot=slot or 0)
        assert acquire.lease is not None
        assert (acquire.lease.permits, acquire.lease.slot) == (count, slot)
