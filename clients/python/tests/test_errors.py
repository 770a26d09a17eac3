"""The errors of all clients have the same names and texts."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.engine import LOST, World, end
from support.processes import Redis, Server

import fencepost
from fencepost import Client, Contended, Holder, LockDelay, LockLost, LossReason, TimedOut, _facts, aio
from fencepost._core.failure import Failure, unsent
from fencepost._core.retries import Retries, Servers

HELD = (Holder("worker-1", 7, "grant", None, None, None),)
TWO = (*HELD, Holder("worker-2", 8, "grant", None, None, None))
UNNAMED = (Holder("", 7, "grant", None, None, None),)
DELAY = LockDelay(24.04, "worker-7", 7)
DELAYED = "is unavailable for another 24.0 s (delay after worker-7)"


@pytest.mark.parametrize(
    ("holders", "count", "delay", "text"),
    [
        (HELD, 1, None, "is held by worker-1"),
        (TWO, 2, None, "is held by worker-1 and worker-2"),
        (TWO, 10_000, None, "is held by worker-1 and worker-2 and 9998 more"),
        (UNNAMED, 1, None, "is held"),
        (UNNAMED, 9, None, "is held by 9 holders"),
        ((*UNNAMED, *TWO), 3, None, "is held by worker-1 and worker-2 and 1 more"),
        ((), 0, None, "is being offered to the next waiter"),
        ((), 0, DELAY, DELAYED),
        ((), 0, LockDelay(0.31, "", 7), "is unavailable for another 0.3 s (delay after its last lease)"),
        (TWO, 3, DELAY, f"is held by worker-1 and worker-2 and 1 more, and a place of it {DELAYED}"),
    ],
)
def test_who_holds_it(holders: tuple[Holder, ...], count: int, delay: LockDelay | None, text: str) -> None:
    contended = Contended("orders/42", holders, count, 2, delay)
    timed_out = TimedOut("orders/42", holders, count, 2, delay)
    assert str(contended) == f"orders/42 {text}, 2 waiting"
    assert str(timed_out) == f"timed out waiting for orders/42: it {text}, 2 waiting"
    for error in (contended, timed_out):
        assert error.holder_count == count
        assert vars(pickle.loads(pickle.dumps(error))) == vars(error)


@pytest.mark.parametrize("reason", LossReason)
def test_how_it_was_lost(reason: LossReason) -> None:
    why = getattr(_facts, f"LOST_{reason.name}")
    assert str(LockLost("a", 7, reason)) == f"a (token 7) is lost: {why}"
    assert str(LockLost("a", 7, reason, 9)) == f"a (token 7) is lost: {why}; token 9 holds it now"


@pytest.mark.parametrize(
    ("failure", "kind", "text"),
    [
        (
            Failure("UNAVAILABLE", "a:1: gone", sent=False),
            fencepost.Unavailable,
            "no server could be reached: a:1: gone",
        ),
        (Failure("UNAVAILABLE", "it drains", "DRAINING"), fencepost.Unavailable, "it drains"),
        (Failure("UNAVAILABLE", "no store", "STORE_UNAVAILABLE"), fencepost.Unavailable, "no store"),
        (
            Failure("UNAVAILABLE", "perhaps", "OUTCOME_UNKNOWN"),
            fencepost.OutcomeUnknown,
            "outcome unknown: perhaps (OUTCOME_UNKNOWN)",
        ),
        (Failure("UNAVAILABLE", "cut"), fencepost.OutcomeUnknown, "outcome unknown: cut"),
        (Failure("INVALID_ARGUMENT", "too long", "INVALID_FIELD"), fencepost.Refused, "too long (INVALID_FIELD)"),
        (Failure("PERMISSION_DENIED", "not you"), fencepost.Refused, "not you"),
        (
            Failure("INTERNAL", ""),
            fencepost.Refused,
            "the server refused the call with INTERNAL and without a message",
        ),
    ],
)
def test_what_a_failure_is(failure: Failure, kind: type[Exception], text: str) -> None:
    error = failure.error()
    assert type(error) is kind
    assert str(error) == text
    assert str(pickle.loads(pickle.dumps(error))) == text
    if isinstance(error, fencepost.Unavailable):
        assert not isinstance(error, fencepost.Refused)
        assert error.reason == failure.reason


def test_a_server_that_did_nothing_leaves_nothing_unknown() -> None:
    world = World(retry_for=0.2)
    acquire = world.acquire()
    world.connect()
    for _ in range(10):
        for request in world.sent():
            world.fail(request, 14, "STORE_UNAVAILABLE")
        world.pass_time(0.1)
    error = end(acquire)
    assert isinstance(error, fencepost.Unavailable)
    assert error.reason == "STORE_UNAVAILABLE"
    assert not world.engine.flows, "there is nothing to withdraw"


TOLD = "; the last answer was UNAVAILABLE (STORE_UNAVAILABLE): no"


def assert_told(error: BaseException | None, kind: type[Exception]) -> None:
    """The error of the last try has the answer to an earlier one as its cause."""
    assert error is not None
    assert type(error) is kind
    assert str(error).endswith(TOLD)
    answer = error.__cause__
    assert isinstance(answer, fencepost.Unavailable)
    assert (answer.reason, str(answer)) == ("STORE_UNAVAILABLE", "no")


def test_an_acquire_without_an_answer_tells_the_answer_to_an_earlier_try() -> None:
    world = World(retry_for=1)
    acquire = world.acquire()
    world.connect()
    world.fail(world.send_one(), 14, "STORE_UNAVAILABLE")
    world.pass_time(0.2)
    world.send_one()
    world.pass_time(10)
    error = end(acquire)
    assert isinstance(error, fencepost.OutcomeUnknown)
    assert str(error) == f"outcome unknown: the server did not answer in time{TOLD}"
    assert_told(error.cause, fencepost.Refused)


def test_a_release_without_an_answer_tells_the_answer_to_an_earlier_try() -> None:
    world = World(retry_for=1)
    release = world.engine.start_release(world.held(ttl=60), world.now, lambda: None)
    world.fail(world.send_one(), 14, "STORE_UNAVAILABLE")
    world.pass_time(0.2)
    assert any(it.HasField("release") for it in world.sent())
    world.pass_time(0.2)
    world.engine.ended(world.session, LOST, world.now)
    world.pass_time(1)
    assert isinstance(release.error, fencepost.OutcomeUnknown)
    assert_told(release.error.cause, fencepost.Refused)


def test_a_call_without_an_answer_tells_the_answer_to_an_earlier_try() -> None:
    retries = Retries(Servers(["a:1"]), 0, 1)
    answer = Failure("UNAVAILABLE", "no", "STORE_UNAVAILABLE")
    retries.failed(0, answer, 0)
    with pytest.raises(fencepost.Unavailable) as failed:
        retries.failed(0, unsent("a:1: no answer in time"), 1)
    assert failed.value.reason == "", "it is not the outcome"
    assert str(failed.value) == f"no server could be reached: a:1: no answer in time{TOLD}"
    assert_told(failed.value, fencepost.Unavailable)


def test_an_answer_of_another_server_is_told_once() -> None:
    retries = Retries(Servers(["a:1", "b:1"]), 0, 1)
    retries.failed(0, Failure("UNAVAILABLE", "Redis is away", "STORE_UNAVAILABLE"), 0)
    with pytest.raises(fencepost.Unavailable, match=r"^no server could be reached: Redis is away; b:1: gone$"):
        retries.failed(1, unsent("b:1: gone"), 1)


async def test_a_store_that_is_away(tmp_path: Path, redis: Redis, name: str) -> None:
    with Server(tmp_path / "a", "--store", redis.url) as server:
        with Client(server.address) as client:
            client.acquire(name).release()
        redis.pause()
        # Longer than the server takes to say so.
        with Client(server.address, retry_for=4) as client:
            for call in (client.get, client.acquire):
                with pytest.raises(fencepost.Unavailable, match="the store") as failed:
                    call(name)
                assert _facts.REASONS[failed.value.reason] == "UNAVAILABLE"
        async with aio.Client(server.address, retry_for=4) as async_client:
            for async_call in (async_client.get, async_client.acquire):
                with pytest.raises(fencepost.Unavailable, match="the store") as failed:
                    await async_call(name)
                assert _facts.REASONS[failed.value.reason] == "UNAVAILABLE"
        redis.resume()


NO_SEMAPHORE = "permits and permit_limit_version are those of a semaphore: name its limit with semaphore="

ARGUMENTS: list[tuple[dict[str, Any], str]] = [
    ({"wait": None}, "wait must be from 0 to 3600 seconds, not None"),
    ({"wait": "5"}, "wait must be from 0 to 3600 seconds, not '5'"),
    ({"wait": -1}, "wait must be from 0 to 3600 seconds, not -1"),
    ({"ttl": True}, "ttl must be from 1 to 86400 seconds, not True"),
    ({"ttl": -1}, "ttl must be from 1 to 86400 seconds, not -1"),
    ({"ttl": float("nan")}, "ttl must be from 1 to 86400 seconds, not nan"),
    ({"max_hold": 0}, "max_hold must be from the TTL to 604800 seconds, not 0"),
    ({"min_hold": -1}, "min_hold must be from 0 to 86400 seconds, not -1"),
    ({"min_hold": "5"}, "min_hold must be from 0 to 86400 seconds, not '5'"),
    ({"lock_delay": False}, "lock_delay must be from 0 to 60 seconds, not False"),
    ({"shared": "no"}, "shared must be a bool, not 'no'"),
    ({"shared": None}, "shared must be a bool, not None"),
    ({"semaphore": 0}, "semaphore must be from 1 to 1000000, not 0"),
    ({"semaphore": "5"}, "semaphore must be an int, not str"),
    ({"semaphore": 2, "permits": 3}, "permits must be from 1 to 2, not 3"),
    ({"semaphore": 2, "permits": 0}, "permits must be from 1 to 2, not 0"),
    ({"semaphore": 2, "permit_limit_version": -1}, f"permit_limit_version must be from 0 to {2**64 - 1}, not -1"),
    ({"semaphore": 2, "shared": True}, "a lock is either shared or a semaphore, not both"),
    ({"permits": 1}, NO_SEMAPHORE),
    ({"permit_limit_version": 1}, NO_SEMAPHORE),
    ({"metadata": ["a"]}, "metadata must be a mapping of str to str, not list"),
    ({"on_lost": 5}, "on_lost must be a function or None, not int"),
    ({"on_at_risk": "f"}, "on_at_risk must be a function or None, not str"),
    ({"request_id": "no uuid"}, "request_id must be a UUID, not 'no uuid'"),
    ({"holder": 5}, "holder must be a str, not int"),
]


@pytest.mark.parametrize(("arguments", "text"), ARGUMENTS)
async def test_an_argument_of_an_acquire(arguments: dict[str, Any], text: str) -> None:
    with Client("127.0.0.1:1") as client, pytest.raises((TypeError, ValueError)) as failed:
        client.acquire("a", **arguments)
    assert str(failed.value) == text
    async with aio.Client("127.0.0.1:1") as async_client:
        with pytest.raises((TypeError, ValueError)) as failed:
            await async_client.acquire("a", **arguments)
    assert str(failed.value) == text


@pytest.mark.parametrize("make", [Client, aio.Client])
@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"servers": 5}, "servers must be an address or a list of addresses, not int"),
        ({"servers": b"a:1"}, "servers must be an address or a list of addresses, not bytes"),
        ({"servers": ["a:1", None]}, "a server must be a str, not NoneType"),
        ({"retry_for": None}, "retry_for must be from 0 to 86400 seconds, not None"),
        ({"retry_for": 100_000}, "retry_for must be from 0 to 86400 seconds, not 100000"),
        ({"tls": "ca.pem"}, "tls must be a Tls, not str"),
        ({"token": 5}, "the token must be a str, not int"),
        ({"holder": 5}, "holder must be a str, not int"),
    ],
)
def test_an_argument_of_a_client(make: Callable[..., object], arguments: dict[str, Any], text: str) -> None:
    with pytest.raises((TypeError, ValueError)) as failed:
        make(**arguments)
    assert str(failed.value) == text


async def test_the_timeout_of_a_close() -> None:
    with pytest.raises(TypeError, match="timeout must be a number of seconds, not None"):
        Client("127.0.0.1:1").close(None)  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]
    with pytest.raises(TypeError, match="timeout must be a number of seconds, not '1'"):
        await aio.Client("127.0.0.1:1").close("1")  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]


async def test_nothing_shows_a_lease_id(server: Server, name: str) -> None:
    async with aio.Client(server.address) as async_client:
        with Client(server.address, token="secret") as client:
            lock = client.acquire(name)
            async_lock = await async_client.acquire(f"{name}/aio")
            shown = [repr(lock), str(lock), repr(async_lock), repr(client), repr(async_client), f"{vars(client)}"]
            assert shown[0] == f"<fencepost.Lock {name!r} token={lock.token} held>"
            assert shown[2] == f"<fencepost.aio.Lock {name + '/aio'!r} token={async_lock.token} held>"
            assert shown[3] == f"<fencepost.Client {server.address}>"
            assert shown[4] == f"<fencepost.aio.Client {server.address}>"
            for text in shown:
                assert lock._lease.lease_id not in text
                assert async_lock._lease.lease_id not in text
                assert "secret" not in text
            lock.release()
            await async_lock.release()
            assert repr(lock).endswith("released>")


def test_the_version() -> None:
    from importlib.metadata import version

    assert fencepost.__version__ == version("fencepost")


async def test_no_ttl_is_sent_unless_one_is_named(tmp_path: Path, name: str) -> None:
    with Server(tmp_path, "--ttl-max", "4s") as server, Client(server.address) as client:
        with client.lock(name) as lock:
            assert lock.remaining() <= 4
            assert client.get(name).holders[0].ttl == 4
            assert not lock.lost.wait(5)
        async with aio.Client(server.address) as async_client, async_client.lock(name) as async_lock:
            assert async_lock.remaining() <= 4
            assert async_lock.valid()
        with pytest.raises(fencepost.Refused, match="INVALID_FIELD"):
            client.acquire(name, ttl=5)


def test_a_repeated_answer_does_not_tell_the_ttl() -> None:
    world = World()
    acquire = world.acquire(ttl=None)
    world.connect()
    first = world.send_one()
    assert not first.acquire.request.HasField("ttl")
    world.engine.ended(world.session, Failure("UNAVAILABLE", "cut"), world.now)
    world.connect()
    again = world.send_one()
    world.grant(again, ttl=3.0)
    assert acquire.lease is None
    renewal = world.send_one()
    world.renew(renewal, 30.0)
    assert acquire.lease is not None
    assert acquire.lease.ttl == world.engine.kept.pace() == 30.0
