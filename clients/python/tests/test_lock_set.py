"""Several locks at once, with threads, against a real server."""

from __future__ import annotations

import gc
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from conftest import PATIENCE
from support.processes import Server, wait_for

import fencepost
from fencepost import Client, LeaseEnd, LockLost, LockMode, LossReason, NotAllAcquired, testing
from fencepost._core.together import ordered


@pytest.fixture
def other(server: Server) -> Iterator[Client]:
    with Client(server.address, holder="other") as client:
        yield client


def names(name: str) -> list[str]:
    return [f"{name}/{it}" for it in "abc"]


def is_free(client: Client, name: str) -> bool:
    """Whether the lock was given back: long before its TTL, and by a release."""
    info = client.get(name)
    return not info.holders and info.previous_end is LeaseEnd.RELEASED


def test_names_are_sorted_by_the_bytes_of_utf_8() -> None:
    assert list(ordered(["\U00010000", "b", "\uff5e", "a", "b"])) == ["a", "b", "\uff5e", "\U00010000"]
    with pytest.raises(TypeError, match="not one name"):
        ordered("orders")
    with pytest.raises(ValueError, match="1 to 64 different names, not 0"):
        ordered([])
    with pytest.raises(ValueError, match="not 65"):
        ordered(map(str, range(65)))
    with pytest.raises(ValueError, match="a name has a character that UTF-8 cannot encode"):
        ordered(["a", "\udc00"])


def test_a_name_has_one_mode() -> None:
    shared, exclusive = LockMode.SHARED, LockMode.EXCLUSIVE
    modes = {"a": shared, "a/b": exclusive, "a/c": exclusive}
    assert ordered(["a/c", ("a", shared), ("a/b", exclusive), "a/b", ("a", shared)]) == modes
    for other in ("a", ("a", exclusive)):
        with pytest.raises(ValueError, match="a is asked for both as exclusive and as shared"):
            ordered([("a", shared), other])
    for mode in (LockMode.SEMAPHORE, "shared"):
        with pytest.raises(ValueError, match=r"the mode must be LockMode.EXCLUSIVE or LockMode.SHARED, not "):
            ordered([("a", mode)])  # type: ignore[list-item]
    with pytest.raises(TypeError, match="must be a tuple of both"):
        ordered([("a",)])  # type: ignore[list-item]


def test_a_name_with_two_modes_sends_nothing(client: Client, other: Client, name: str) -> None:
    a, b, c = names(name)
    twice: list[str | tuple[str, LockMode]] = [a, b, (b, LockMode.SHARED)]
    with other.watch(name) as events:
        for acquire in (client.acquire_all, client.try_all):
            with pytest.raises(ValueError, match="b is asked for both as exclusive and as shared"):
                acquire(twice)
        client.acquire(c).release()
        assert next(events).name == c, "it is the first lock that the server has heard of"


def test_parents_are_shared_and_leaves_are_not(client: Client, other: Client, name: str) -> None:
    parent, shared = name, LockMode.SHARED
    with client.acquire_all([f"{name}/a", (parent, shared)], owner="job-7") as first:
        assert [it.owner for it in client.get(parent).holders] == ["job-7"]
        assert {it: lock.mode for it, lock in first.items()} == {parent: shared, f"{name}/a": LockMode.EXCLUSIVE}
        with other.acquire_all([(parent, shared), f"{name}/b"]) as second:
            assert [it.shared for it in client.get(parent).holders] == [True, True]
            assert client.try_acquire(parent) is None
            assert other.try_all([(parent, shared), f"{name}/a"]) is None
            assert first.tokens[parent] < second.tokens[parent]


def test_all_locks_are_held_until_their_one_release(client: Client, other: Client, name: str) -> None:
    a, b, c = names(name)
    with other.watch(name) as events:
        with client.acquire_all([c, a, b, a], ttl=2, holder="me", metadata={"job": "7"}) as locks:
            assert list(locks) == [a, b, c]
            assert locks.valid()
            assert 0 < locks.remaining() < 2
            locks.check()
            assert {it: other.get(it).newest_token for it in locks} == locks.tokens
            (holder,) = other.get(b).holders
            assert (holder.holder, dict(holder.metadata), holder.token) == ("me", {"job": "7"}, locks[b].token)
            assert not locks.lost.wait(2.5), "all are renewed"
        assert not locks.valid()
        assert locks.remaining() == 0
        assert locks.loss is None
        assert not locks.lost.is_set()
        assert locks.release().end is LeaseEnd.RELEASED, "a repeated release says the same"
        seen = [next(events) for _ in range(6)]
    kinds = [fencepost.EventKind.GRANTED] * 3 + [fencepost.EventKind.RELEASED] * 3
    assert [(it.kind, it.name) for it in seen] == list(zip(kinds, [a, b, c, c, b, a], strict=True))


def test_one_that_is_held_gives_back_the_others(client: Client, other: Client, name: str) -> None:
    a, b, c = names(name)
    with other.lock(c), pytest.raises(NotAllAcquired) as failed:
        client.acquire_all([a, b, c])
    error = failed.value
    assert isinstance(error.cause, fencepost.Contended)
    assert (error.name, error.given_back, error.count) == (c, (b, a), 3)
    assert str(error).startswith(f"the 3 locks were not acquired, because of {c}: {c} is held by other, 0 waiting")
    assert str(error).endswith(f"; given back: {b}, {a}")
    assert is_free(other, a)
    assert is_free(other, b)


def test_all_share_one_wait(client: Client, other: Client, name: str) -> None:
    a, b, c = names(name)
    first = other.acquire(a)
    with other.lock(c), ThreadPoolExecutor(1) as pool:
        begun = time.monotonic()
        waiting = pool.submit(client.acquire_all, [a, b, c], wait=1.0)
        wait_for(lambda: other.get(a).waiters == 1, "it waits for the first one")
        time.sleep(0.5)
        first.release()
        with pytest.raises(NotAllAcquired, match="timed out waiting for") as failed:
            waiting.result(PATIENCE)
        assert time.monotonic() - begun >= 1.0
    assert isinstance(failed.value.cause, fencepost.TimedOut)
    assert is_free(other, a)
    assert is_free(other, b)


def test_ctrl_c_while_it_waits_leaves_nothing(client: Client, other: Client, name: str) -> None:
    a, b, c = names(name)
    with other.lock(c):

        def interrupt() -> None:
            wait_for(lambda: other.get(c).waiters == 1, "it waits for the last one")
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

        thread = threading.Thread(target=interrupt)
        thread.start()
        with pytest.raises(KeyboardInterrupt):
            client.acquire_all([a, b, c], wait=PATIENCE)
        thread.join()
        wait_for(lambda: is_free(other, a) and is_free(other, b), "the others are free")
        wait_for(lambda: other.get(c).waiters == 0, "it has left the queue")


def test_a_loss_while_later_ones_are_waited_for_ends_the_call(failing: testing.Server) -> None:
    with Client(failing.address) as client, Client(failing.address) as other, other.lock("c"):
        lost: list[LockLost] = []
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(client.acquire_all, ["a", "b", "c"], wait=PATIENCE, on_lost=lost.append)
            wait_for(lambda: other.get("c").waiters == 1, "it waits for the last one")
            failing.lose("a")
            with pytest.raises(NotAllAcquired) as failed:
                waiting.result(PATIENCE / 2)
        cause = failed.value.cause
        assert isinstance(cause, LockLost)
        assert (cause.name, cause.reason) == ("a", LossReason.REVOKED)
        assert failed.value.given_back == ("b",)
        assert is_free(other, "b")
        wait_for(lambda: other.get("c").waiters == 0, "it has left the queue")
        assert not lost, "the error has told it"


def test_a_set_is_lost_with_one_lock_and_the_statement_gives_back_the_others(failing: testing.Server) -> None:
    lost: list[LockLost] = []
    with Client(failing.address) as client:
        with pytest.raises(LockLost) as told:
            with client.acquire_all(["a", "b", "c"], on_lost=lost.append) as locks:
                failing.lose("b")
                assert locks.lost.wait(PATIENCE)
                assert not locks.valid()
                assert locks.remaining() == 0
                assert locks["a"].valid(), "until the work has stopped"
                wait_for(lambda: bool(lost), "the callback is called")
        assert told.value.name == "b"
        assert [it.name for it in lost] == ["b"]
        assert locks.loss is not None
        assert locks.release().end is LeaseEnd.REVOKED
        assert is_free(client, "a")
        assert is_free(client, "c")


def test_tries_hold_nothing_while_they_wait(client: Client, other: Client, name: str) -> None:
    a, b, c = names(name)
    held = other.acquire(c)
    assert client.try_all([a, b, c]) is None
    assert client.try_all([a, b, c], wait=0.3) is None
    assert is_free(other, a)
    with ThreadPoolExecutor(1) as pool:
        trying = pool.submit(client.try_all, [a, b, c], wait=PATIENCE)
        # It is tried in the meantime, and its holder is not held up: the set has it for moments only.
        for _ in range(3):
            other.acquire(a, wait=PATIENCE).release()
        assert other.get(c).waiters == 0, "it does not wait"
        held.release()
        locks = trying.result(PATIENCE)
    assert locks is not None
    assert locks.valid()
    locks.release()


def test_other_errors_name_the_lock(client: Client, name: str) -> None:
    with pytest.raises(NotAllAcquired, match=r"because of a\\nb: .*INVALID_FIELD".replace("\\\\n", "\n")) as failed:
        client.acquire_all(["a\nb", f"{name}/z"])
    assert isinstance(failed.value.cause, fencepost.Refused)
    with pytest.raises(fencepost.Refused, match="shorten its fields"):
        client.acquire_all([name], metadata={"a": "b" * 70_000})


def test_a_set_that_is_forgotten_is_released(client: Client, name: str) -> None:
    with pytest.warns(ResourceWarning, match="was never released"):
        client.acquire_all(names(name))
        gc.collect()
    wait_for(lambda: all(is_free(client, it) for it in names(name)), "they are released")


def test_a_closed_client_ends_the_call(server: Server, other: Client, name: str) -> None:
    a, b, c = names(name)
    client = Client(server.address)
    with other.lock(c), ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(client.acquire_all, [a, b, c], wait=PATIENCE)
        wait_for(lambda: other.get(c).waiters == 1, "it waits")
        client.close()
        with pytest.raises(fencepost.ClientClosed):
            waiting.result(PATIENCE)
        assert is_free(other, a)
        assert is_free(other, b)
