"""Leader election with threads, against a real server: terms, and how they end."""

from __future__ import annotations

import logging
import signal
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial

import pytest
from conftest import PATIENCE
from support.futures import in_thread
from support.processes import Server, wait_for
from support.proxy import Proxy

import fencepost
from fencepost import Client, LeaseEnd, Lock, testing
from fencepost._core import campaign


@pytest.fixture
def other(server: Server) -> Iterator[Client]:
    with Client(server.address, holder="other") as client:
        yield client


def no_body(_lock: Lock) -> None:
    raise AssertionError("nobody is elected here")


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


def test_terms_that_end_at_once_are_paced(failing: testing.Server, monkeypatch: pytest.MonkeyPatch) -> None:
    # All of them are short, however slow this machine is.
    monkeypatch.setattr(campaign, "_TERM_MIN", PATIENCE)
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
