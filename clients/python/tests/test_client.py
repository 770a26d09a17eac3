"""The client with threads, against a real server."""

from __future__ import annotations

import gc
import threading
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from conftest import PATIENCE
from grpc import _channel as grpc_channel
from support.processes import Server, free_port, wait_for
from support.proxy import Proxy

import fencepost
from fencepost import Client


def test_a_lock_is_kept_past_its_ttl(client: Client, name: str) -> None:
    with client.lock(name, ttl=timedelta(seconds=1)) as lock:
        assert lock.valid()
        assert 0 < lock.remaining() < 1
        assert not lock.lost.wait(2.5)
        assert lock.valid()
        assert client.check_token(name, lock.token)
    assert not lock.valid()
    assert lock.remaining() == 0
    assert not lock.lost.is_set(), "a release is no loss"
    assert not lock.lost.wait(PATIENCE), "and it wakes who waits for one"


def test_tokens_rise_and_the_previous_end_is_told(client: Client, name: str) -> None:
    tokens = []
    for _ in range(3):
        with client.lock(name) as lock:
            tokens.append(lock.token)
        assert lock.release().end is fencepost.LeaseEnd.RELEASED, "a repeated release says the same"
    assert tokens == sorted(set(tokens))
    with client.acquire(name) as lock:
        assert lock.previous_end is fencepost.LeaseEnd.RELEASED
        assert lock.name == name
        assert uuid.UUID(lock.grant_id)


def test_contended_and_timed_out_say_who_holds_it(client: Client, name: str) -> None:
    with client.lock(name, holder="worker-1", metadata={"job": "7"}) as lock:
        with pytest.raises(fencepost.Contended, match="is held by worker-1") as contended:
            client.acquire(name)
        (holder,) = contended.value.holders
        assert (holder.holder, holder.token, dict(holder.metadata)) == ("worker-1", lock.token, {"job": "7"})
        assert holder.ttl == 30
        assert client.try_acquire(name) is None
        with pytest.raises(TimeoutError, match="timed out waiting") as timed_out:
            client.acquire(name, wait=0.1)
        assert isinstance(timed_out.value, fencepost.TimedOut)


def test_the_wait_ends_with_the_release(client: Client, name: str) -> None:
    lock = client.acquire(name)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(client.acquire, name, wait=PATIENCE)
        wait_for(lambda: client.get(name).waiters == 1, "the acquire waits")
        assert lock.release().end is fencepost.LeaseEnd.RELEASED
        second = waiting.result(PATIENCE)
    assert second.token > lock.token
    second.release()


def test_get_list_watch_and_check_token(client: Client, name: str) -> None:
    with client.watch(name) as events:
        names = {f"{name}/{number}" for number in range(3)}
        locks = [client.acquire(it, holder="me") for it in sorted(names)]
        assert {it.name for it in client.list(name)} == names
        info = client.get(locks[0].name)
        assert info.holders[0].token == info.newest_token == locks[0].token
        locks[0].release()
        assert client.check_token(locks[0].name, locks[0].token).status is fencepost.TokenStatus.ENDED
        assert client.check_token(locks[1].name, locks[1].token - 1).status is not fencepost.TokenStatus.CURRENT
        for lock in locks[1:]:
            lock.release()
        seen = [next(events) for _ in range(6)]
        assert {(it.kind, it.name) for it in seen} == {
            (kind, it) for kind in (fencepost.EventKind.GRANTED, fencepost.EventKind.RELEASED) for it in names
        }
        assert {it.token for it in seen} == {it.token for it in locks}
        with ThreadPoolExecutor(1) as pool:
            rest = pool.submit(list, events)
            events.close()
            assert rest.result(PATIENCE) == []
    assert client.get(f"{name}/none").holders == ()


def test_a_watch_that_was_cut_goes_on_and_says_so(proxy: Proxy, name: str) -> None:
    with Client(proxy.address) as client, client.watch(name) as events:
        proxy.cut()
        assert next(events).kind is fencepost.EventKind.MISSED
        with client.lock(name) as lock:
            event = next(events)
        assert (event.kind, event.token) == (fencepost.EventKind.GRANTED, lock.token)


def test_all_pages_are_listed(client: Client, name: str) -> None:
    with ExitStack() as held:
        for number in range(230):
            held.enter_context(client.lock(f"{name}/{number}"))
        assert len({it.name for it in client.list(name)}) == 230


def test_a_thousand_locks_on_one_client(client: Client, name: str) -> None:
    with ThreadPoolExecutor(32) as pool:
        locks = list(pool.map(lambda it: client.acquire(f"{name}/{it}", ttl=2), range(1000)))
        assert len({it.token for it in locks}) > 1
        assert not locks[0].lost.wait(3.0)
        assert all(it.valid() for it in locks)
        ends = set(pool.map(lambda it: it.release().end, locks))
    assert ends == {fencepost.LeaseEnd.RELEASED}


def test_many_threads_one_counter(client: Client, name: str) -> None:
    value, tokens = 0, []

    def work() -> None:
        nonlocal value
        for _ in range(20):
            with client.lock(name, wait=PATIENCE) as lock:
                before = value
                tokens.append(lock.token)
                value = before + 1

    with ThreadPoolExecutor(8) as pool:
        for job in [pool.submit(work) for _ in range(8)]:
            job.result(PATIENCE)
    assert value == 160
    assert tokens == sorted(set(tokens))


def test_bad_requests(client: Client, name: str) -> None:
    with pytest.raises(fencepost.Refused) as refused:
        client.acquire(name, ttl=0.001)
    assert (refused.value.code, refused.value.reason) == ("INVALID_ARGUMENT", "INVALID_FIELD")
    assert refused.value.violations[0].field == "ttl"
    with pytest.raises(fencepost.Refused, match="INVALID_FIELD"):
        client.acquire("a\nb")
    with pytest.raises(fencepost.Refused, match="shorten its fields"):
        client.acquire(name, metadata={"a": "b" * 70_000})
    with pytest.raises(ValueError, match="ttl must be"):
        client.acquire(name, ttl=-1)
    with pytest.raises(ValueError, match="wait must be"):
        client.acquire(name, wait=float("nan"))
    with pytest.raises(ValueError, match="UUID"):
        client.acquire(name, request_id="no uuid")
    with pytest.raises(fencepost.Refused, match="lock_name"):
        client.acquire("")
    with client.lock(name):
        pass  # the session has survived all that


SURROGATE = "a\udc00"


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda it: it.acquire(SURROGATE), "name has a character that UTF-8 cannot encode, at 1"),
        (lambda it: it.acquire("a", holder=SURROGATE), "holder has a character"),
        (lambda it: it.acquire("a", metadata={SURROGATE: "b"}), "a key of metadata has a character"),
        (lambda it: it.acquire("a", metadata={"job": 7}), r"metadata\['job'\] must be a str, not int"),
        (lambda it: it.acquire(7), "name must be a str, not int"),
        (lambda it: it.acquire("a", min_token=-1), "min_token must be from 0 to"),
        (lambda it: it.acquire("a", min_token="1"), "min_token must be an int, not str"),
        (lambda it: it.get(SURROGATE), "name has a character"),
        (lambda it: next(it.list(SURROGATE)), "prefix has a character"),
        (lambda it: it.watch(SURROGATE), "prefix has a character"),
        (lambda it: it.check_token(SURROGATE, 1), "name has a character"),
        (lambda it: it.check_token("a", -1), "token must be from 0 to"),
    ],
)
def test_an_error_names_the_argument(client: Client, call: Callable[[Client], object], error: str) -> None:
    with pytest.raises((TypeError, ValueError), match=error):
        call(client)


def test_request_ids_and_lowest_tokens(client: Client, name: str) -> None:
    request_id = uuid.uuid4()
    with client.lock(name, request_id=request_id) as lock:
        again = client.get(name).newest_token
        assert again == lock.token
    with client.lock(name, min_token=lock.token + 1000) as second:
        assert second.token >= lock.token + 1000


def test_no_server_at_all() -> None:
    with Client(f"127.0.0.1:{free_port()}", retry_for=0.5) as client:
        with pytest.raises(fencepost.Unavailable, match="no server could be reached: 127.0.0.1:"):
            client.acquire("a")
        with pytest.raises(fencepost.Unavailable):
            client.get("a")
        with pytest.raises(fencepost.Unavailable):
            client.watch()


def test_the_first_server_of_the_list_is_away(server: Server, name: str) -> None:
    with Client([f"127.0.0.1:{free_port()}", server.address]) as client:
        with client.lock(name) as lock:
            assert lock.valid()
        assert client.get(name).newest_token == lock.token
        with client.watch(name):
            pass


def test_both_forms_of_an_address_and_unix_sockets(tmp_path: Path, server: Server, name: str) -> None:
    for address in (f"http://{server.address}", f"localhost:{server.port}"):
        with Client(address) as client, client.lock(name):
            pass
    with Server(tmp_path / "unix", listen=f"unix:{tmp_path}/socket"):
        for address in (f"unix:{tmp_path}/socket", f"unix://{tmp_path}/socket"):
            with Client(address, token="secret") as client, client.lock(name):
                pass


def test_a_closed_client(server: Server, name: str) -> None:
    client = Client(server.address)
    lock = client.acquire(name, holder="first")
    other = Client(server.address)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(client.acquire, name, wait=PATIENCE)
        wait_for(lambda: other.get(name).waiters == 1, "the acquire waits")
        client.close()
        with pytest.raises(fencepost.ClientClosed):
            waiting.result(PATIENCE)
    assert not lock.valid()
    for call in (lambda: client.acquire(name), lambda: client.get(name), client.watch):
        with pytest.raises(fencepost.ClientClosed):
            call()
    client.close()
    with other.lock(name) as after:
        assert after.previous_end is fencepost.LeaseEnd.RELEASED
    other.close()


def test_a_lock_that_is_forgotten_is_released(client: Client, name: str) -> None:
    with pytest.warns(ResourceWarning, match="was never released"):
        client.acquire(name)
        gc.collect()
    with client.lock(name, wait=PATIENCE) as lock:
        assert lock.previous_end is fencepost.LeaseEnd.RELEASED


def test_threads_end_with_the_client(server: Server, name: str) -> None:
    def ours() -> set[threading.Thread]:
        return {it for it in threading.enumerate() if it.name.startswith("fencepost")}

    before = ours()
    client = Client(server.address)
    with client.lock(name):
        assert ours() - before
    client.close()
    wait_for(lambda: ours() <= before, "the threads end")
    forgotten = Client(server.address)
    with forgotten.lock(name):
        pass
    del forgotten
    gc.collect()
    wait_for(lambda: ours() <= before, "the threads of a forgotten client end")


def test_no_thread_of_grpc_outlives_its_channel(server: Server, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # grpc's poll of connectivity fails if its thread starts after the close of the channel: that of the first server,
    # which is away, does so here.
    closed = threading.Event()
    polls: list[threading.Thread] = []
    poll = grpc_channel._poll_connectivity

    def late(*arguments: Any) -> None:
        polls.append(threading.current_thread())
        if len(polls) == 1:
            closed.wait(PATIENCE)
        poll(*arguments)

    monkeypatch.setattr(grpc_channel, "_poll_connectivity", late)
    with Client([f"127.0.0.1:{free_port()}", server.address]) as client:
        client.acquire(name).release()
    wait_for(lambda: not client._driver._streams, "the channels are closed")
    closed.set()
    for thread in polls:
        thread.join()  # pytest reports an exception that ends a thread


def test_the_decorator(client: Client, name: str) -> None:
    @client.lock(name)
    def work() -> int:
        return len(client.get(name).holders)

    assert (work(), work()) == (1, 1)
    assert client.get(name).holders == ()
