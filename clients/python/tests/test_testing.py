"""The helpers for tests of others, with real clients."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import PATIENCE
from support.processes import binary, wait_for

import fencepost
from fencepost import Client, Contended, EventKind, LeaseEnd, LockLost, LossReason, TimedOut, TokenStatus, aio
from fencepost.testing import FakeServer, Server


@pytest.fixture
def fake() -> Iterator[FakeServer]:
    with FakeServer() as server:
        yield server


@pytest.fixture
def client(fake: FakeServer) -> Iterator[Client]:
    with Client(fake.address) as client:
        yield client


def test_the_real_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FENCEPOST_BIN", binary())
    with Server("--ttl-min", "200ms") as server, Client(server.address) as client:
        lock = client.acquire("a", ttl=1)
        server.pause()
        assert lock.lost.wait(PATIENCE)
        server.resume()
        with client.lock("a", wait=PATIENCE) as lock:
            assert lock.previous_end is LeaseEnd.EXPIRED
    server.stop()


def test_a_server_that_does_not_start(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("FENCEPOST_BIN", binary())
    with pytest.raises(RuntimeError, match="no-such-option"):
        Server("--no-such-option")
    monkeypatch.delenv("FENCEPOST_BIN")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(FileNotFoundError, match="fencepost"):
        Server()


def test_fake_locks(fake: FakeServer, client: Client) -> None:
    with client.lock("a", holder="first", metadata={"k": "v"}) as first:
        with pytest.raises(Contended, match="held by first"):
            client.acquire("a")
        with pytest.raises(TimedOut):
            client.acquire("a", wait=0.05)
        (holder,) = client.get("a").holders
        assert (holder.holder, holder.token, holder.metadata) == ("first", first.token, {"k": "v"})
        assert [it.name for it in client.list("")] == ["a"]
        assert client.check_token("a", first.token).status is TokenStatus.CURRENT
    assert client.check_token("a", first.token).status is TokenStatus.ENDED
    with client.lock("a") as second:
        assert second.token > first.token
        assert second.previous_end is LeaseEnd.RELEASED


def test_fake_queue_is_in_order(fake: FakeServer, client: Client) -> None:
    served: list[int] = []

    def wait(number: int) -> None:
        with client.lock("a", wait=PATIENCE):
            served.append(number)

    threads = [threading.Thread(target=wait, args=(number,)) for number in range(8)]
    with client.lock("a"):
        for number, thread in enumerate(threads):
            thread.start()
            wait_for(lambda number=number: client.get("a").waiters == number + 1, "it waits")  # type: ignore[misc]
    for thread in threads:
        thread.join()
    assert served == list(range(8))


def test_fake_leases_are_kept(fake: FakeServer, client: Client) -> None:
    # Three times as long as it would last without renewals.
    with client.lock("a", ttl=0.5) as lock:
        assert not lock.lost.wait(1.5)
        assert lock.valid()


def test_fake_loses(fake: FakeServer, client: Client) -> None:
    with client.watch() as watch:
        with pytest.raises(LockLost) as lost, client.lock("a") as lock:
            fake.lose("a")
            assert lock.lost.wait(PATIENCE)
        assert lost.value.reason is LossReason.REVOKED
        kinds = [(event.kind, event.token) for _, event in zip(range(2), watch, strict=False)]
        assert kinds == [(EventKind.GRANTED, lock.token), (EventKind.REVOKED, lock.token)]
    with pytest.raises(KeyError):
        fake.lose("a")


def test_fake_pauses(fake: FakeServer, client: Client) -> None:
    lock = client.acquire("a", ttl=0.5)
    fake.pause()
    assert lock.lost.wait(PATIENCE)
    assert lock.loss == fencepost.Loss(LossReason.SILENCE)
    fake.resume()
    with client.lock("a", wait=PATIENCE) as second:
        assert second.previous_end is LeaseEnd.EXPIRED


def test_fake_drops_replies(fake: FakeServer, client: Client) -> None:
    with client.lock("other") as other:
        fake.drop_reply()
        with client.lock("a") as lock:
            assert lock.token == other.token + 1, "one grant"
            fake.drop_reply()
            assert lock.release().end is LeaseEnd.RELEASED
        assert other.valid()
        assert client.get("a").holders == ()


async def test_fake_with_asyncio(fake: FakeServer) -> None:
    async with aio.Client(fake.address) as client:
        with pytest.raises(LockLost):
            async with client.lock("a") as lock:
                fake.lose("a")
                await lock.lost()
