"""The server for tests of others, with real clients."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import PATIENCE
from support.processes import binary
from support.proxy import Proxy

from fencepost import Client, EventKind, LeaseEnd, LockLost, Loss, LossReason, aio
from fencepost.testing import Server, _faults
from fencepost.testing._server import _store


@pytest.fixture
def client(failing: Server) -> Iterator[Client]:
    with Client(failing.address) as client:
        yield client


@pytest.fixture
def proxy(failing: Server) -> Iterator[Proxy]:
    with Proxy(int(failing.address.rpartition(":")[2])) as proxy:
        yield proxy


def test_a_server_that_does_not_start(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("FENCEPOST_BIN", binary())
    with pytest.raises(RuntimeError, match="no-such-option"):
        Server("--no-such-option")
    monkeypatch.delenv("FENCEPOST_BIN")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(FileNotFoundError, match="fencepost"):
        Server()


@pytest.mark.parametrize(
    ("options", "store"),
    [
        (("--ttl-min", "1s"), None),
        (("--store-ca", "a.pem", "--store-key=b.pem"), None),
        (("--ttl-min", "1s", "--store", "memory:"), "memory:"),
        (("--store=redis://a", "--plaintext"), "redis://a"),
    ],
)
def test_the_store_is_found_among_the_options(options: tuple[str, ...], store: str | None) -> None:
    assert _store(options) == store


def test_it_fails_on_demand_with_the_memory_store_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FENCEPOST_BIN", str(binary()))
    with Server("--store", "redis://127.0.0.1:1") as server, pytest.raises(RuntimeError, match="--store memory:"):
        server.drop_reply()
    with Server("--store=memory:") as server:
        server.drop_reply()


def test_it_may_be_stopped_twice(failing: Server) -> None:
    failing.stop()
    failing.stop()
    with pytest.raises(ConnectionError):
        failing.drop_reply()


def test_it_pauses(failing: Server, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    lock = client.acquire("a", ttl=0.5)
    failing.pause()
    assert lock.lost.wait(PATIENCE)
    assert lock.loss == Loss(LossReason.SILENCE)
    with monkeypatch.context() as patch, pytest.raises(TimeoutError):
        patch.setattr(_faults, "_TIMEOUT", 0.1)
        failing.lose("a")
    failing.resume()
    with client.lock("a", wait=PATIENCE) as lock:
        assert lock.previous_end is LeaseEnd.EXPIRED


def test_it_loses_locks(failing: Server, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:1")
    name = "Aufträge/42"
    with client.watch() as watch:
        with pytest.raises(LockLost) as lost, client.lock(name) as lock:
            failing.lose(name)
            assert lock.lost.wait(PATIENCE)
        assert lost.value.reason is LossReason.REVOKED
        kinds = [(event.kind, event.token) for _, event in zip(range(2), watch, strict=False)]
        assert kinds == [(EventKind.GRANTED, lock.token), (EventKind.REVOKED, lock.token)]


def test_it_loses_no_lock_that_nobody_holds(failing: Server) -> None:
    with pytest.raises(KeyError, match="nobody holds lock .*orders/42"):
        failing.lose("orders/42")
    with pytest.raises(ValueError, match="control characters"):
        failing.lose("a\nb")


def test_it_drops_replies(failing: Server, proxy: Proxy) -> None:
    with Client(proxy.address) as client, client.lock("a") as first:
        connections = proxy.connections
        failing.drop_reply()
        assert first.release().end is LeaseEnd.RELEASED
        assert proxy.connections > connections, "the client asked again"
        connections = proxy.connections
        failing.drop_reply()
        with client.lock("a") as second:
            assert second.token == first.token + 1, "one grant"
            assert proxy.connections > connections, "the client asked again"
        assert client.get("a").holders == ()


async def test_it_drops_replies_with_asyncio(failing: Server, proxy: Proxy) -> None:
    async with aio.Client(proxy.address) as client:
        first = await client.acquire("a")
        connections = proxy.connections
        failing.drop_reply()
        assert (await first.release()).end is LeaseEnd.RELEASED
        assert proxy.connections > connections, "the client asked again"
        connections = proxy.connections
        failing.drop_reply()
        async with client.lock("a") as second:
            assert second.token == first.token + 1, "one grant"
            assert proxy.connections > connections, "the client asked again"


async def test_it_loses_locks_with_asyncio(failing: Server) -> None:
    async with aio.Client(failing.address) as client:
        with pytest.raises(LockLost):
            async with client.lock("a") as lock:
                failing.lose("a")
                await lock.lost()
