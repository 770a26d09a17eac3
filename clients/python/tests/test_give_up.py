"""The release of a lock that was lost: nobody waits for it."""

from __future__ import annotations

import asyncio
from types import ModuleType

import pytest
from conftest import PATIENCE
from support.processes import Server
from support.proxy import Proxy

import fencepost
from fencepost import Client, LeaseEnd, LockLost, LossReason, _threads, aio
from fencepost.aio import _tasks

TTL = 60.0


def suspend(monkeypatch: pytest.MonkeyPatch, driver: ModuleType) -> None:
    """The machine was suspended for as long as the TTL, while that of the server ran on for a moment."""
    clock = driver.now
    monkeypatch.setattr(driver, "now", lambda: clock() + TTL)


def is_released(server: Server, name: str) -> bool:
    """Whether the server has received the release, long before the TTL is over."""
    with Client(server.address) as other, other.lock(name) as lock:
        return lock.previous_end is LeaseEnd.RELEASED


def test_with_threads(
    proxy: Proxy, server: Server, name: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    client = Client(proxy.address)
    with pytest.raises(LockLost) as lost, client.lock(name, ttl=TTL) as lock:
        proxy.blackhole()
        suspend(monkeypatch, _threads)
        assert lock.lost.wait(PATIENCE)
    assert lost.value.reason is LossReason.SILENCE
    assert lock.release() == fencepost.Released(LeaseEnd.UNSPECIFIED)
    # Only now the server is back.
    proxy.heal()
    client.close(PATIENCE)
    assert is_released(server, name)
    assert caplog.messages == [str(lost.value)]


async def test_with_asyncio(
    proxy: Proxy, server: Server, name: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    client = aio.Client(proxy.address)
    with pytest.raises(LockLost) as lost:
        async with client.lock(name, ttl=TTL) as lock:
            proxy.blackhole()
            suspend(monkeypatch, _tasks)
            await asyncio.sleep(PATIENCE)
    assert lost.value.reason is LossReason.SILENCE
    assert await lock.release() == fencepost.Released(LeaseEnd.UNSPECIFIED)
    proxy.heal()
    await client.close(PATIENCE)
    assert await asyncio.to_thread(is_released, server, name)
    assert caplog.messages == [str(lost.value)]


def test_the_clock_alone_decides(proxy: Proxy, server: Server, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    client = Client(proxy.address)
    lock = client.acquire(name, ttl=TTL)
    proxy.blackhole()
    suspend(monkeypatch, _threads)
    # Nothing has run since.
    assert lock.release() == fencepost.Released(LeaseEnd.UNSPECIFIED)
    proxy.heal()
    client.close(PATIENCE)
    assert is_released(server, name)


async def test_before_the_body_begins(proxy: Proxy, server: Server, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    client = aio.Client(proxy.address)
    lock = await client.acquire(name, ttl=TTL)
    suspend(monkeypatch, _tasks)
    with pytest.raises(LockLost):
        async with lock:
            raise AssertionError("its body runs")
    await client.close(PATIENCE)
    assert await asyncio.to_thread(is_released, server, name)
