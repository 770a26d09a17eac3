"""Leader election with threads, against a real server."""

from __future__ import annotations

import logging
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import TypeVar

import pytest
from conftest import PATIENCE
from support.ports import foreign_grpc, web_server
from support.processes import Redis, Server, free_port, wait_for
from support.proxy import Proxy

import fencepost
from fencepost import Client, LeaseEnd, Lock, testing
from fencepost._core import campaign
from fencepost._core.campaign import Campaign

ResultT = TypeVar("ResultT")


@pytest.fixture
def other(server: Server) -> Iterator[Client]:
    with Client(server.address, holder="other") as client:
        yield client


@pytest.fixture
def failures(monkeypatch: pytest.MonkeyPatch) -> list[Exception]:
    """The acquires of electors that failed."""
    seen: list[Exception] = []
    failed = Campaign.failed

    def note(self: Campaign, error: fencepost.FencepostError) -> float:
        seen.append(error)
        return failed(self, error)

    monkeypatch.setattr(Campaign, "failed", note)
    return seen


def no_body(_lock: Lock) -> None:
    raise AssertionError("nobody is elected here")


def in_thread(call: Callable[[], ResultT]) -> Future[ResultT]:
    """Runs a call that may take for ever if a test fails: the close of its client ends it."""
    future: Future[ResultT] = Future()

    def run() -> None:
        try:
            future.set_result(call())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return future


def interrupt_when(condition: Callable[[], bool]) -> threading.Thread:
    """Has the main thread raise KeyboardInterrupt, as Ctrl-C does, as soon as something is so."""

    def interrupt() -> None:
        wait_for(condition, "the moment of the interrupt")
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    return thread


def test_one_body_at_a_time(client: Client, other: Client, name: str) -> None:
    leading, most, tokens = 0, 0, []

    def body(lock: Lock) -> int:
        nonlocal leading, most
        leading += 1
        most = max(most, leading)
        tokens.append(lock.token)
        client.get(name)
        most = max(most, leading)
        leading -= 1
        return lock.token

    terms = [in_thread(partial(it.lead, name, body)) for it in (client, other) * 10]
    results = [it.result(PATIENCE) for it in terms]
    assert most == 1
    assert tokens == sorted(set(results))
    assert len(tokens) == 20


def test_the_next_one_is_elected_when_the_body_returns(client: Client, other: Client, name: str) -> None:
    ends = threading.Event()
    elected: list[str] = []

    def first(_lock: Lock) -> str:
        elected.append("first")
        assert ends.wait(PATIENCE)
        return "its work"

    def second(lock: Lock) -> LeaseEnd:
        elected.append("second")
        return lock.previous_end

    leader = in_thread(lambda: client.lead(name, first, holder="me", metadata={"job": "7"}, ttl=5))
    wait_for(lambda: bool(elected), "it is elected")
    (holder,) = other.get(name).holders
    assert (holder.holder, dict(holder.metadata), holder.ttl) == ("me", {"job": "7"}, 5)
    waiting = in_thread(lambda: other.lead(name, second))
    wait_for(lambda: client.get(name).waiters == 1, "the second one campaigns")
    assert elected == ["first"]
    ends.set()
    assert leader.result(PATIENCE) == "its work"
    assert waiting.result(PATIENCE) is LeaseEnd.RELEASED
    assert other.get(name).holders == ()


def test_the_same_elector_is_elected_again_after_a_loss(
    failing: testing.Server, caplog: pytest.LogCaptureFixture
) -> None:
    tokens: list[int] = []

    def body(lock: Lock) -> str:
        tokens.append(lock.token)
        if len(tokens) == 4:
            return "led"
        failing.lose("a")
        assert lock.lost.wait(PATIENCE)
        if len(tokens) == 1:
            lock.check()
        if len(tokens) == 2:
            raise ValueError("the cleanup failed")
        return "dropped"

    with Client(failing.address) as client:
        assert client.lead("a", body) == "led"
        assert tokens == sorted(set(tokens))
        assert len(tokens) == 4
        assert client.get("a").previous_end is LeaseEnd.RELEASED
    (record,) = [it for it in caplog.records if it.levelno == logging.ERROR]
    assert record.getMessage() == "the leader's work failed after the loss of a: ValueError('the cleanup failed')"
    assert vars(record)["token"] == tokens[1]
    assert record.exc_info is not None


def test_a_leader_that_hears_nothing_is_told_by_its_clock(proxy: Proxy, other: Client, name: str) -> None:
    tokens: list[int] = []

    def body(lock: Lock) -> None:
        tokens.append(lock.token)
        if len(tokens) == 1:
            proxy.blackhole()
            assert lock.lost.wait(PATIENCE)
            proxy.heal()

    with Client(proxy.address) as client:
        client.lead(name, body, ttl=1)
    assert len(tokens) == 2
    assert tokens[1] > tokens[0]


def test_the_longest_term(client: Client, name: str) -> None:
    tokens: list[int] = []

    def body(lock: Lock) -> fencepost.Loss | None:
        tokens.append(lock.token)
        if len(tokens) == 1:
            assert lock.lost.wait(PATIENCE)
            assert lock.loss is not None
            assert lock.loss.reason is fencepost.LossReason.MAX_HOLD
        return lock.loss

    assert client.lead(name, body, ttl=1, max_hold=1, min_hold=2, lock_delay=1) is None
    assert tokens[1] > tokens[0]
    delay = client.get(name).delay
    assert delay is not None, "of the min_hold"
    assert delay.token == tokens[1]


def test_an_error_of_the_leader_is_raised(client: Client, name: str) -> None:
    def body(_lock: Lock) -> None:
        raise ValueError("the work failed")

    with pytest.raises(ValueError, match="the work failed"):
        client.lead(name, body)
    info = client.get(name)
    assert (info.holders, info.previous_end) == ((), LeaseEnd.RELEASED)

    def nested(lock: Lock) -> None:
        raise fencepost.LockLost(f"{name}/inner", lock.token, fencepost.LossReason.SILENCE)

    with pytest.raises(fencepost.LockLost, match="/inner"):
        client.lead(name, nested)


def test_ctrl_c_while_it_leads_releases_after_the_body(client: Client, other: Client, name: str) -> None:
    elected = threading.Event()
    held: list[bool] = []

    def body(_lock: Lock) -> None:
        elected.set()
        try:
            threading.Event().wait(PATIENCE)
        finally:
            held.extend(bool(other.get(name).holders) for _ in range(3))

    thread = interrupt_when(elected.is_set)
    with pytest.raises(KeyboardInterrupt):
        client.lead(name, body)
    thread.join()
    assert held == [True] * 3
    info = other.get(name)
    assert (info.holders, info.previous_end) == ((), LeaseEnd.RELEASED)


def test_ctrl_c_while_it_campaigns_leaves_no_waiter(client: Client, other: Client, name: str) -> None:
    with other.lock(name):
        thread = interrupt_when(lambda: other.get(name).waiters == 1)
        with pytest.raises(KeyboardInterrupt):
            client.lead(name, no_body)
        thread.join()
        wait_for(lambda: other.get(name).waiters == 0, "it has left the queue")
    assert other.get(name).holders == ()


def test_a_closed_client_ends_a_campaign(server: Server, other: Client, name: str) -> None:
    client = Client(server.address)
    with other.lock(name):
        waiting = in_thread(lambda: client.lead(name, no_body))
        wait_for(lambda: other.get(name).waiters == 1, "it campaigns")
        client.close()
        with pytest.raises(fencepost.ClientClosed):
            waiting.result(PATIENCE)
        wait_for(lambda: other.get(name).waiters == 0, "it has left the queue")


def test_a_server_that_starts_later(tmp_path: Path, name: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "fencepost")
    address = f"127.0.0.1:{free_port()}"
    with Client(address) as client:
        leader = in_thread(lambda: client.lead(name, Lock.valid))
        wait_for(lambda: f"server {address} failed" in caplog.text, "it has tried")
        assert not leader.done()
        with Server(tmp_path / "late", listen=address):
            assert leader.result(PATIENCE)


def test_an_outage_that_is_longer_than_a_wait_is_told_once(
    tmp_path: Path,
    name: str,
    failures: list[Exception],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(campaign, "WAIT_MAX_MS", 100)
    address = f"127.0.0.1:{free_port()}"
    # Longer than the longest pause between two connections.
    with Client(address, retry_for=2.5) as client:
        leader = in_thread(lambda: client.lead(name, Lock.valid))
        wait_for(lambda: len(failures) >= 2, "it has tried again and again")
        with Server(tmp_path / "late", listen=address):
            assert leader.result(PATIENCE)
    assert {type(it) for it in failures} <= {fencepost.Unavailable, fencepost.OutcomeUnknown}
    text = f"the campaign for {name} fails, and goes on: "
    assert len([it for it in caplog.messages if it.startswith(text)]) == 1


def test_a_store_that_is_away_is_told_while_it_waits(
    tmp_path: Path, redis: Redis, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    with Server(tmp_path / "a", "--store", redis.url) as server, Client(server.address) as client:
        client.acquire(name).release()
        redis.pause()
        leader = in_thread(lambda: client.lead(name, Lock.valid))
        text = f"the campaign for {name} fails, and goes on: "
        wait_for(lambda: text in caplog.text, "it is told")
        assert not leader.done()
        redis.resume()
        assert leader.result(PATIENCE)
        assert len([it for it in caplog.messages if it.startswith(text)]) == 1


@pytest.mark.parametrize(("longest", "told"), [("1s", fencepost.TimedOut), ("0s", fencepost.Contended)])
def test_a_server_with_shorter_waits(
    tmp_path: Path, name: str, failures: list[Exception], longest: str, told: type[Exception]
) -> None:
    with Server(tmp_path / "a", "--wait-max", longest) as server, Client(server.address) as client:
        with client.lock(name):
            leader = in_thread(lambda: client.lead(name, Lock.valid))
            wait_for(lambda: any(isinstance(it, told) for it in failures), "a wait is over")
            assert not leader.done()
        assert leader.result(PATIENCE)


def test_what_cannot_be_tried_again(client: Client, name: str) -> None:
    with pytest.raises(fencepost.Refused, match="lock_name") as refused:
        client.lead("a\nb", no_body)
    assert refused.value.reason == "INVALID_FIELD"
    with pytest.raises(ValueError, match="max_hold must be"):
        client.lead(name, no_body, max_hold=0)
    with pytest.raises(TypeError, match="body must be a function, not str"):
        client.lead(name, "work")  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]
    with foreign_grpc() as address, Client(address) as foreign:
        with pytest.raises(fencepost.Refused, match="not a Fencepost server"):
            foreign.lead(name, no_body)
    with web_server() as address, Client(address) as web:
        with pytest.raises(fencepost.Unavailable, match="does not speak gRPC") as unavailable:
            web.lead(name, no_body)
        assert unavailable.value.permanent


def test_terms_that_end_at_once_are_paced(failing: testing.Server) -> None:
    begun: list[float] = []

    def body(lock: Lock) -> None:
        begun.append(time.monotonic())
        if len(begun) < 6:
            failing.lose("a")
            assert lock.lost.wait(PATIENCE)

    with Client(failing.address) as client:
        client.lead("a", body)
    # At least the halves of 100, 200, 400 and 800 ms.
    assert begun[5] - begun[0] >= 0.75
