"""Locks that readers share: ``shared``, against a real server."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from conftest import PATIENCE
from support.engine import World
from support.futures import in_thread
from support.processes import Server, wait_for
from test_lead_aio import waiters

import fencepost
from fencepost import Client, TimedOut, aio
from fencepost.v1 import lock_pb2 as pb


@pytest.fixture
def other(server: Server) -> Iterator[Client]:
    with Client(server.address, holder="other") as client:
        yield client


def seen(holders: tuple[fencepost.Holder, ...]) -> list[tuple[str, int, bool]]:
    return [(it.holder, it.token, it.shared) for it in holders]


def test_readers_hold_a_lock_together_and_a_writer_times_out(client: Client, other: Client, name: str) -> None:
    with (
        client.lock(name, shared=True, holder="reader-1") as first,
        other.lock(name, shared=True, holder="reader-2") as second,
    ):
        assert (first.valid(), second.valid()) == (True, True)
        both = [("reader-1", first.token, True), ("reader-2", second.token, True)]
        with pytest.raises(TimedOut, match="it is held by reader-1 and reader-2, 0 waiting") as no:
            other.acquire(name, wait=0.1)
        assert seen(no.value.holders) == both
        for info in (other.get(name), *other.list(name)):
            assert (seen(info.holders), info.holder_count) == (both, 2)
    with other.lock(name, shared=False) as writer:
        info = client.get(name)
        assert (seen(info.holders), info.holder_count) == ([("other", writer.token, False)], 1)
    assert first.token < second.token < writer.token


def test_a_reader_waits_behind_a_writer_that_waits(client: Client, other: Client, name: str) -> None:
    held = client.acquire(name, shared=True)
    writer = in_thread(lambda: other.acquire(name, wait=PATIENCE))
    wait_for(lambda: client.get(name).waiters == 1, "the writer waits")
    assert client.try_acquire(name, shared=True) is None
    with pytest.raises(TimedOut):
        client.acquire(name, wait=0.1, shared=True)
    reader = in_thread(lambda: client.acquire(name, wait=PATIENCE, shared=True))
    wait_for(lambda: client.get(name).waiters == 2, "the reader waits as well")
    held.release()
    written = writer.result(PATIENCE)
    assert client.get(name).waiters == 1
    written.release()
    with reader.result(PATIENCE) as following:
        assert held.token < written.token < following.token


def test_a_reader_with_a_min_hold_that_is_gone_keeps_writers_out_and_no_readers(client: Client, name: str) -> None:
    client.acquire(name, shared=True, min_hold=60).release()
    with client.lock(name, shared=True):
        assert client.try_acquire(name) is None


async def test_readers_and_a_writer_with_asyncio(async_client: aio.Client, name: str) -> None:
    async with async_client.lock(name, shared=True, holder="reader-1") as first:
        second = await async_client.try_acquire(name, shared=True, holder="reader-2")
        assert second is not None
        with pytest.raises(TimedOut) as no:
            await async_client.acquire(name, wait=0.1)
        info = await async_client.get(name)
        both = [("reader-1", first.token, True), ("reader-2", second.token, True)]
        assert (seen(no.value.holders), seen(info.holders), info.holder_count) == (both, both, 2)
        await second.release()
        writer = asyncio.create_task(async_client.acquire(name, wait=PATIENCE))
        await waiters(async_client, name, 1)
        assert await async_client.try_acquire(name, shared=True) is None
    await (await writer).release()


@pytest.mark.parametrize(("shared", "mode"), [(True, pb.LOCK_MODE_SHARED), (False, pb.LOCK_MODE_UNSPECIFIED)])
def test_a_mode_that_is_not_asked_for_is_not_sent(shared: bool, mode: pb.LockMode) -> None:
    world = World()
    world.acquire(shared=shared)
    world.connect()
    assert world.send_one().acquire.request.mode == mode
