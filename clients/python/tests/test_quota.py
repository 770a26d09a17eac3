"""Above the quotas of a real server."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import PATIENCE
from support.processes import Server

import fencepost
from fencepost import Client, Lock, aio


def server_with(folder: Path, quota: str) -> Server:
    folder.mkdir(parents=True, exist_ok=True)
    access = folder / "access"
    access.write_text(f'mode = "open"\n[[quota]]\neach_address = true\n{quota}\n')
    return Server(folder, "--access", str(access))


@pytest.fixture
def rated(tmp_path: Path) -> Iterator[Server]:
    with server_with(tmp_path / "rated", "acquires_per_second = 2\nburst = 2") as server:
        yield server


@pytest.fixture
def narrow(tmp_path: Path) -> Iterator[Server]:
    with server_with(tmp_path / "narrow", "streams = 1") as server:
        yield server


@pytest.fixture
def other() -> Iterator[socket.socket]:
    """Counts as another server, to which nobody may connect."""
    with socket.create_server(("127.0.0.1", 0)) as it:
        it.setblocking(False)
        yield it
        with pytest.raises(BlockingIOError):
            it.accept()


def addresses(server: Server, other: socket.socket) -> list[str]:
    return [server.address, f"127.0.0.1:{other.getsockname()[1]}"]


def is_over_quota(error: fencepost.Refused) -> bool:
    return error.reason == "QUOTA_EXCEEDED" and error.retry_after is not None and 0 < error.retry_after <= 0.5


def test_an_acquire_that_waits_gets_its_lock_with_threads(rated: Server, other: socket.socket) -> None:
    with Client(addresses(rated, other)) as client:
        locks = [client.acquire("a/1"), client.acquire("a/2")]
        with pytest.raises(fencepost.Refused) as refused:
            client.acquire("a/3")
        assert is_over_quota(refused.value)
        began = time.monotonic()
        locks.append(client.acquire("a/3", wait=PATIENCE))
        assert time.monotonic() - began > 0.05, "it was above the quota"
        for lock in locks:
            assert lock.release().end is fencepost.LeaseEnd.RELEASED, "a release is never above it"


async def test_an_acquire_that_waits_gets_its_lock_with_asyncio(rated: Server, other: socket.socket) -> None:
    async with aio.Client(addresses(rated, other)) as client:
        locks = [await client.acquire("a/1"), await client.acquire("a/2")]
        with pytest.raises(fencepost.Refused) as refused:
            await client.acquire("a/3")
        assert is_over_quota(refused.value)
        locks.append(await client.acquire("a/3", wait=PATIENCE))
        for lock in locks:
            assert (await lock.release()).end is fencepost.LeaseEnd.RELEASED


def test_a_session_works_once_another_stream_is_closed_with_threads(narrow: Server, other: socket.socket) -> None:
    first, got = Client(narrow.address), list[Lock]()
    held = first.acquire("a/1")
    with Client(addresses(narrow, other)) as second:
        waiting = threading.Thread(target=lambda: got.append(second.acquire("a/2", wait=PATIENCE)))
        waiting.start()
        waiting.join(0.3)
        assert waiting.is_alive()
        held.release()
        first.close()
        waiting.join(PATIENCE)
        assert [it.name for it in got] == ["a/2"]
        got[0].release()


async def test_a_session_works_once_another_stream_is_closed_with_asyncio(narrow: Server, other: socket.socket) -> None:
    first = aio.Client(narrow.address)
    held = await first.acquire("a/1")
    async with aio.Client(addresses(narrow, other)) as second:
        waiting = asyncio.create_task(second.acquire("a/2", wait=PATIENCE))
        done, _ = await asyncio.wait({waiting}, timeout=0.3)
        assert not done
        await held.release()
        await first.close()
        lock = await asyncio.wait_for(waiting, PATIENCE)
        # The session has the only stream.
        with pytest.raises(fencepost.Refused) as refused:
            async with second.observe("a/2"):
                pass
        assert is_over_quota(refused.value)
        await lock.release()
