"""How a holder learns that it lost its lock, with threads."""

from __future__ import annotations

import subprocess
import threading
from contextlib import ExitStack
from pathlib import Path

import pytest
from conftest import PATIENCE
from support.processes import Redis, Server, binary, wait_for
from support.proxy import Proxy

import fencepost
from fencepost import Client, LockLost, Loss, LossReason


def revoke(server: Server, name: str, token: int) -> None:
    command = [binary(), "force-release", name, "--server", server.address, "--token", str(token)]
    command += ["--reason", "test"]
    subprocess.run(command, check=True, capture_output=True)


def test_a_revoked_lock(client: Client, server: Server, name: str) -> None:
    losses: list[Loss] = []
    with (
        pytest.raises(LockLost, match="the lease was revoked") as lost,
        client.lock(name, on_lost=losses.append) as lock,
    ):
        revoke(server, name, lock.token)
        assert lock.lost.wait(PATIENCE)
        assert not lock.valid()
        with pytest.raises(LockLost):
            lock.check()
    assert (lost.value.name, lost.value.token, lost.value.reason) == (name, lock.token, LossReason.REVOKED)
    assert lost.value.__cause__ is None
    wait_for(lambda: losses == [Loss(LossReason.REVOKED)], "the callback has run, once")
    assert lock.release().end is fencepost.LeaseEnd.REVOKED


def test_the_error_of_the_body_is_the_cause(client: Client, server: Server, name: str) -> None:
    with pytest.raises(LockLost) as lost, client.lock(name) as lock:
        revoke(server, name, lock.token)
        assert lock.lost.wait(PATIENCE)
        raise RuntimeError("the work failed")
    assert isinstance(lost.value.__cause__, RuntimeError)
    with pytest.raises(KeyboardInterrupt), client.lock(name) as lock:
        revoke(server, name, lock.token)
        assert lock.lost.wait(PATIENCE)
        raise KeyboardInterrupt
    with pytest.raises(ValueError, match="only this"), client.lock(name):
        raise ValueError("only this")


def test_a_callback_that_blocks_holds_nothing_back(client: Client, server: Server, name: str) -> None:
    blocked, go_on = threading.Event(), threading.Event()

    def block(_loss: Loss) -> None:
        blocked.set()
        go_on.wait(PATIENCE)

    first, second = client.acquire(f"{name}/1", on_lost=block), client.acquire(f"{name}/2", ttl=1)
    revoke(server, first.name, first.token)
    assert blocked.wait(PATIENCE)
    assert not second.lost.wait(2.0), "beats are answered"
    second.release()
    go_on.set()


def test_a_callback_that_blocks_holds_back_no_other(client: Client, server: Server, name: str) -> None:
    blocked, told = threading.Event(), threading.Event()
    told_meanwhile: list[bool] = []

    def block(_loss: Loss) -> None:
        blocked.set()
        told_meanwhile.append(told.wait(PATIENCE))

    first = client.acquire(f"{name}/1", on_lost=block)
    second = client.acquire(f"{name}/2", on_lost=lambda _: told.set())
    revoke(server, first.name, first.token)
    assert blocked.wait(PATIENCE)
    revoke(server, second.name, second.token)
    wait_for(lambda: told_meanwhile == [True], "the second is told while the first is blocked")


def test_silence_is_loss(proxy: Proxy, server: Server, name: str) -> None:
    risks = threading.Event()
    with Client(proxy.address, retry_for=0.5) as client, Client(server.address) as other:
        with pytest.raises(LockLost) as lost, client.lock(name, ttl=2, on_at_risk=risks.set) as lock:
            proxy.blackhole()
            assert lock.lost.wait(PATIENCE)
            assert risks.is_set()
        assert lost.value.reason is LossReason.SILENCE
        with other.lock(name, wait=PATIENCE) as next_lock:
            assert next_lock.token > lock.token


def test_a_silent_connection_is_replaced_within_the_ttl(proxy: Proxy, server: Server, name: str) -> None:
    with Client([proxy.address, server.address]) as client, client.lock(name, ttl=3) as lock:
        proxy.blackhole()
        assert not lock.lost.wait(5.0)
        assert lock.valid()


def test_a_cut_connection_changes_nothing(proxy: Proxy, name: str) -> None:
    with Client(proxy.address) as client, client.lock(name, ttl=2) as lock:
        for _ in range(3):
            before = proxy.connections
            proxy.cut()
            wait_for(lambda before=before: proxy.connections > before, "it connects again")  # type: ignore[misc]
            assert not lock.lost.wait(1.0)
        assert lock.valid()


def test_lost_replies_have_no_effect(proxy: Proxy, server: Server, name: str) -> None:
    with Client(proxy.address) as client, Client(server.address) as other:
        with client.lock(f"{name}/first"):
            # The request arrives, the answer does not.
            proxy.drop_replies()
            done = threading.Event()
            tokens: list[int] = []

            def acquire() -> None:
                with client.lock(name, wait=PATIENCE) as lock:
                    tokens.append(lock.token)
                done.set()

            threading.Thread(target=acquire, daemon=True).start()
            wait_for(lambda: len(other.get(name).holders) == 1, "the server has granted the lock")
            granted = other.get(name).newest_token
            proxy.heal()
            assert done.wait(PATIENCE)
            assert tokens == [granted], "the repeated request got the same grant"
            wait_for(lambda: not other.get(name).holders, "the lock is released")
        with client.lock(name, wait=PATIENCE) as lock:
            proxy.drop_replies()
            releasing = threading.Thread(target=lock.release, daemon=True)
            releasing.start()
            wait_for(lambda: not other.get(name).holders, "the server has released the lock")
            proxy.heal()
            releasing.join(PATIENCE)
            assert lock.release().end is fencepost.LeaseEnd.RELEASED


def test_the_server_is_killed_with_another_on_the_same_redis(tmp_path: Path, redis: Redis, name: str) -> None:
    with (
        Server(tmp_path / "a", "--store", redis.url) as first,
        Server(tmp_path / "b", "--store", redis.url) as second,
        Client([first.address, second.address]) as client,
    ):
        with client.lock(name, ttl=3) as lock:
            first.kill()
            assert not lock.lost.wait(5.0)
            assert client.get(name).newest_token == lock.token
        with client.lock(name) as again:
            assert again.token > lock.token


def test_the_server_of_a_watch_is_killed(tmp_path: Path, redis: Redis, name: str) -> None:
    with (
        Server(tmp_path / "a", "--store", redis.url) as first,
        Server(tmp_path / "b", "--store", redis.url) as second,
        Client([first.address, second.address]) as client,
        client.watch(name) as events,
    ):
        # A server that has just started may have refused the watch: then it is on the second one.
        (first, second)[events._server].kill()
        assert next(events).kind is fencepost.EventKind.MISSED
        granted = False
        # Each change of the leader is a gap. What happens before the watch goes on may be missed, the grant too.
        while not granted:
            with client.lock(name) as lock:
                event = next(events)
                while event.kind is not fencepost.EventKind.MISSED and event.token != lock.token:
                    event = next(events)
            granted = event.kind is fencepost.EventKind.GRANTED


def test_the_next_server_has_no_room_on_a_session(tmp_path: Path, redis: Redis, name: str) -> None:
    with (
        Server(tmp_path / "a", "--store", redis.url) as first,
        Server(tmp_path / "b", "--store", redis.url, "--leases-per-stream", "1") as second,
        Client([first.address, second.address]) as client,
    ):
        with ExitStack() as stack:
            locks = [stack.enter_context(client.lock(f"{name}/{it}", ttl=3)) for it in range(3)]
            first.kill()
            assert not locks[0].lost.wait(6.0)
            assert all(it.valid() for it in locks)
        assert all(it.release().end is fencepost.LeaseEnd.RELEASED for it in locks)


def test_redis_pauses(tmp_path: Path, redis: Redis, name: str) -> None:
    risk = threading.Event()
    with (
        Server(tmp_path / "a", "--store", redis.url) as server,
        Client(server.address) as client,
    ):
        with client.lock(name, ttl=4, on_at_risk=risk.set) as lock:
            redis.pause()
            assert risk.wait(PATIENCE)
            assert lock.valid()
            redis.resume()
            assert not lock.lost.wait(4.0), "a renewal arrived in time"
        lock = client.acquire(name, ttl=1)
        redis.pause()
        assert lock.lost.wait(PATIENCE)
        redis.resume()
        assert lock.loss is not None
        lock.release()


def test_a_drain_moves_everything(tmp_path: Path, redis: Redis, name: str) -> None:
    with (
        Server(tmp_path / "a", "--store", redis.url) as first,
        Server(tmp_path / "b", "--store", redis.url) as second,
        Client([first.address, second.address]) as client,
        Client(second.address) as other,
    ):
        with client.lock(name, ttl=2) as lock:
            got = threading.Event()

            def wait_for_it() -> None:
                with client.lock(name, wait=PATIENCE):
                    got.set()

            waiter = threading.Thread(target=wait_for_it, daemon=True)
            waiter.start()
            wait_for(lambda: other.get(name).waiters == 1, "the acquire waits")
            first.terminate()
            first.child.wait(PATIENCE)
            assert not lock.lost.wait(2.5)
        assert got.wait(PATIENCE)
        waiter.join(PATIENCE)
