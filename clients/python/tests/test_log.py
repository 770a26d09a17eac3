"""What the log says: each trouble once, and no secret."""

from __future__ import annotations

import asyncio
import gc
import logging
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import PATIENCE
from support.engine import LOST, World
from support.processes import Redis, Server, binary, free_port, wait_for
from support.proxy import Proxy

from fencepost import Client, LockLost, LossReason, aio
from fencepost._core.stores import Stores
from fencepost.types import Loss


@pytest.fixture(autouse=True)
def all_levels(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "fencepost")


def records(caplog: pytest.LogCaptureFixture, part: str) -> list[logging.LogRecord]:
    return [it for it in caplog.records if it.name == "fencepost" and part in it.getMessage()]


def test_renewals_that_fail_and_work_again(
    tmp_path: Path, redis: Redis, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    with Server(tmp_path / "a", "--store", redis.url) as server, Client(server.address) as client:
        with client.lock(name, ttl=6) as lock:
            redis.pause()
            wait_for(lambda: bool(records(caplog, f"renewals of {name} fail")), "it is told", PATIENCE)
            redis.resume()
            wait_for(lambda: bool(records(caplog, f"{name} is renewed again")), "the end is told", PATIENCE)
            lease_id = lock._lease.lease_id
        (failing,) = records(caplog, "fail, it is valid for another ")
        assert failing.levelno == logging.WARNING
        assert failing.getMessage().endswith(" s: the server cannot reach its store")
        assert vars(failing)["lock"] == name
        assert vars(failing)["token"] == lock.token
        (again,) = records(caplog, "renewed again")
        assert again.levelno == logging.INFO
    assert lease_id not in caplog.text


async def test_silence_and_the_loss(proxy: Proxy, name: str, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(LockLost) as lost, Client(proxy.address, retry_for=0.5) as client:
        with client.lock(name, ttl=2) as lock:
            proxy.blackhole()
            assert lock.lost.wait(PATIENCE)
    proxy.heal()
    expected(caplog, name, lost.value)
    caplog.clear()
    with pytest.raises(LockLost) as lost:
        async with aio.Client(proxy.address, retry_for=0.5) as async_client:
            async with async_client.lock(f"{name}/aio", ttl=2):
                proxy.blackhole()
                await asyncio.sleep(PATIENCE)
    await asyncio.sleep(0)
    expected(caplog, f"{name}/aio", lost.value)


def expected(caplog: pytest.LogCaptureFixture, name: str, lost: LockLost) -> None:
    wait_for(lambda: bool(records(caplog, str(lost))), "the loss is told")
    (failing,) = records(caplog, f"renewals of {name} fail, it is valid for another ")
    assert failing.levelno == logging.WARNING
    (loss,) = records(caplog, str(lost))
    assert loss.levelno == logging.WARNING
    assert vars(loss)["cause"] == "silence"
    (moved,) = records(caplog, "server 127.0.0.1:")
    assert moved.levelno == logging.INFO
    assert "failed (the server was silent for 1 s), trying 127.0.0.1:" in moved.getMessage()


def test_a_revocation(client: Client, server: Server, name: str, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(LockLost), client.lock(name) as lock:
        command = [binary(), "force-release", name, "--server", server.address, "--token", str(lock.token)]
        subprocess.run([*command, "--reason", "test"], check=True, capture_output=True)
        assert lock.lost.wait(PATIENCE)
    text = f"{name} (token {lock.token}) is lost: the lease was revoked"
    wait_for(lambda: [it.getMessage() for it in records(caplog, name)] == [text], "it is told")


def test_a_server_that_fails_is_told_once(server: Server, name: str, caplog: pytest.LogCaptureFixture) -> None:
    away = f"127.0.0.1:{free_port()}"
    with Client([away, server.address]) as client, client.lock(name):
        text = f"server {away} failed (connection refused), trying {server.address}"
        wait_for(lambda: [it.getMessage() for it in records(caplog, "server 127.0.0.1:")] == [text], "it is told")
    with Client(away, retry_for=2) as alone:
        caplog.clear()
        with pytest.raises(Exception, match="connection refused"):
            alone.acquire(name)
        wait_for(lambda: bool(records(caplog, "server 127.0.0.1:")), "it is told")
        assert len(records(caplog, "server 127.0.0.1:")) == 1, "not for each retry"


def test_a_different_store_is_news_once() -> None:
    stores = Stores(3)
    assert stores.told(2, "x") is None
    assert stores.told(0, "x") is None
    assert stores.told(1, "y") == 0
    assert stores.told(1, "y") is None
    assert stores.told(0, "y") == 2
    assert stores.told(2, "y") is None, "all have it now"


def test_another_store_is_told_once() -> None:
    world = World(servers=2)
    world.held(ttl=600.0)
    # An older server tells nothing. The last two are no news.
    for store_id in ("x", None, "x", "y", "x", "y"):
        world.engine.ended(world.session, LOST, world.now)
        world.connect(store_id)
    assert [it.server for it in world.opened] == [0, 1, 0, 1, 0, 1, 0]
    warnings = [text for level, text, _ in world.records if level == logging.WARNING and " had: " in text]
    assert [it.partition(":")[0] for it in warnings] == ["server-0 does not have the store that server-1 had"]


def other_store(caplog: pytest.LogCaptureFixture, server: Server, other: Server) -> None:
    text = (
        f"{server.address} does not have the store that {other.address} had: unless that store was made anew, start "
        "both servers with the same --store, because a lock of one excludes nobody on the other"
    )
    wait_for(lambda: bool(records(caplog, "does not have the store")), "it is told")
    (warning,) = records(caplog, "does not have the store")
    assert (warning.levelno, warning.getMessage()) == (logging.WARNING, text)
    assert vars(warning)["server"] == server.address


def test_servers_with_different_stores(tmp_path: Path, name: str, caplog: pytest.LogCaptureFixture) -> None:
    with Server(tmp_path / "a") as first, Server(tmp_path / "b") as second:
        with Client([first.address, second.address]) as client:
            with pytest.raises(LockLost), client.lock(name) as lock:
                first.terminate()
                assert lock.lost.wait(PATIENCE), "the second server does not know it"
            other_store(caplog, second, first)


async def test_servers_with_different_stores_over_asyncio(
    tmp_path: Path, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    with Server(tmp_path / "a") as first, Server(tmp_path / "b") as second:
        async with aio.Client([first.address, second.address]) as client:
            with pytest.raises(LockLost):
                async with client.lock(name):
                    first.terminate()
                    await asyncio.sleep(PATIENCE)
            other_store(caplog, second, first)


def test_servers_that_share_a_store(tmp_path: Path, redis: Redis, name: str, caplog: pytest.LogCaptureFixture) -> None:
    options = ("--store", redis.url)
    with Server(tmp_path / "a", *options) as first, Server(tmp_path / "b", *options) as second:
        for server in (first, second):
            with Client(server.address) as before:
                before.acquire(name).release()  # the server knows the id of its store now
        with Client([first.address, second.address]) as client, client.lock(name):
            first.terminate()
            first.child.wait(PATIENCE)
            client.acquire(f"{name}/second").release()
            # The records come in their order, so a warning would come before this one.
            second.terminate()
            wait_for(lambda: bool(records(caplog, f"server {second.address} failed")), "it is told")
            assert not records(caplog, "does not have the store")


async def test_a_forgotten_lock(server: Server, name: str, caplog: pytest.LogCaptureFixture) -> None:
    with Client(server.address) as client:
        with pytest.warns(ResourceWarning, match="was never released"):
            token = client.acquire(name).token
            gc.collect()
        text = f"{name} (token {token}) was forgotten without a release, and is released"
        wait_for(lambda: bool(records(caplog, text)), "it is told")
        assert records(caplog, text)[0].levelno == logging.WARNING
        with client.lock(name, wait=PATIENCE):
            pass
        async with aio.Client(server.address) as async_client:
            with pytest.warns(ResourceWarning, match="was never released"):
                token = (await async_client.acquire(name)).token
                gc.collect()
            await (await async_client.acquire(name, wait=PATIENCE)).release()
        assert records(caplog, f"{name} (token {token}) was forgotten")


def test_a_release_that_gives_up() -> None:
    world = World()
    lease = world.held(ttl=2.0)
    world.engine.lose(lease, Loss(LossReason.SILENCE))
    world.engine.give_up(lease, world.now)
    world.engine.ended(world.session, LOST, world.now)
    world.pass_time(30.0)
    (text,) = [text for _, text, _ in world.records if "background" in text]
    why = "outcome unknown: no server could be reached: server-0: no connection within 2 s"
    assert text == f"a could not be released in the background: {why}; it is free after its TTL"


def test_an_acquire_whose_withdrawal_gives_up() -> None:
    world = World(retry_for=0.5)
    acquire = world.acquire()
    world.connect()
    world.sent()
    acquire.abandon(world.now)
    world.engine.ended(world.session, LOST, world.now)
    world.pass_time(60.0)
    (text,) = [text for _, text, _ in world.records if "background" in text]
    assert text.startswith("a could not be released in the background: outcome unknown: ")
    assert not world.engine.flows


class Throwing(logging.Handler):
    """A handler that fails, as one of a full disk does."""

    def handle(self, record: logging.LogRecord) -> bool:
        raise OSError("no space left")


@pytest.fixture
def throwing() -> Iterator[None]:
    logger, handler = logging.getLogger("fencepost"), Throwing()
    logger.addHandler(handler)
    yield
    logger.removeHandler(handler)


def fail() -> None:
    raise ValueError("a callback that fails")


@pytest.mark.usefixtures("throwing")
async def test_a_handler_that_fails_costs_no_lock(proxy: Proxy, name: str) -> None:
    with Client(proxy.address) as client, client.lock(name, ttl=3, on_at_risk=fail) as lock:
        for _ in range(3):
            proxy.cut()
            assert not lock.lost.wait(1.0)
        assert lock.valid()
        client.acquire(f"{name}/other").release()
    async with aio.Client(proxy.address) as async_client, async_client.lock(name, ttl=3) as async_lock:
        proxy.cut()
        await asyncio.sleep(4)
        assert async_lock.valid()
