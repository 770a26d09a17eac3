"""Locks that stay unavailable after a lease: ``min_hold`` and ``lock_delay``, against a real server."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from datetime import timedelta

import pytest
from conftest import PATIENCE
from support.engine import LOST, World
from support.processes import Server, wait_for
from support.proxy import Proxy
from test_loss import revoke

import fencepost
from fencepost import (
    Client,
    Contended,
    Holder,
    LeaseEnd,
    LockDelay,
    NotAllAcquired,
    Semaphore,
    TimedOut,
    aio,
)
from fencepost._core.together import Asked
from fencepost.types import Loss, LossReason

# Longer than a test waits.
LONG = 2 * PATIENCE


@pytest.fixture
def other(server: Server) -> Iterator[Client]:
    with Client(server.address, holder="other") as client:
        yield client


def is_of(delay: LockDelay | None, token: int, holder: str, longest: float) -> bool:
    assert delay is not None
    return 0 < delay.remaining <= longest and (delay.holder, delay.token) == (holder, token)


def test_a_lock_that_was_released_at_once_stays_unavailable_for_its_min_hold(
    client: Client, other: Client, name: str
) -> None:
    begun = time.monotonic()
    with client.lock(name, min_hold=timedelta(seconds=2), holder="worker-7") as lock:
        pass
    assert lock.release().end is LeaseEnd.RELEASED
    with pytest.raises(Contended, match=r"is unavailable for another [012]\.\d s \(delay after worker-7\), 0 ") as no:
        other.acquire(name)
    assert is_of(no.value.delay, lock.token, "worker-7", 2)
    assert no.value.holders == ()
    assert other.try_acquire(name) is None
    assert is_of(other.get(name).delay, lock.token, "worker-7", 2)
    assert [is_of(it.delay, lock.token, "worker-7", 2) for it in other.list(name)] == [True]
    with other.lock(name, wait=PATIENCE) as following:
        assert time.monotonic() - begun >= 2
        assert following.token > lock.token
        assert other.get(name).delay is None


def test_a_wait_ends_before_the_delay_and_an_operator_ends_the_delay(
    client: Client, other: Client, server: Server, name: str
) -> None:
    lock = client.try_acquire(name, min_hold=LONG, holder="")
    assert lock is not None
    with pytest.raises(TimedOut, match="it is held, 0 waiting") as timed_out:
        other.acquire(name, wait=0.1)
    assert timed_out.value.delay is None
    lock.release()
    with pytest.raises(TimedOut, match=r"it is unavailable for another \d+\.\d s \(delay after its last lease\)") as no:
        other.acquire(name, wait=0.1)
    assert is_of(no.value.delay, lock.token, "", LONG)
    revoke(server, name, lock.token)
    other.acquire(name).release()


def test_a_late_release_of_the_old_holder_ends_the_lock_delay(
    proxy: Proxy, server: Server, other: Client, name: str
) -> None:
    with Client(proxy.address) as old:
        lock = old.acquire(name, ttl=1, lock_delay=60, holder="worker-7")
        proxy.blackhole()
        assert lock.lost.wait(PATIENCE)
        wait_for(lambda: not other.get(name).holders, "the server has noticed")
        with pytest.raises(Contended, match=r"\(delay after worker-7\)") as no:
            other.acquire(name)
        assert is_of(no.value.delay, lock.token, "worker-7", 60)
        proxy.heal()
        assert lock.release() == fencepost.Released(LeaseEnd.UNSPECIFIED)
        with other.lock(name, wait=PATIENCE) as following:
            assert following.previous_end is LeaseEnd.EXPIRED


def test_a_lock_that_is_released_has_no_lock_delay(client: Client, other: Client, name: str) -> None:
    client.acquire(name, lock_delay=60).release()
    assert other.get(name).delay is None
    other.acquire(name).release()


def test_the_locks_of_a_set(client: Client, other: Client, name: str) -> None:
    a, b, c = (f"{name}/{it}" for it in "abc")
    with client.acquire_all([a, b], min_hold=LONG, lock_delay=1) as locks:
        tokens = locks.tokens
    for it in (a, b):
        assert is_of(other.get(it).delay, tokens[it], client._options.holder, LONG)
    with pytest.raises(NotAllAcquired, match="is unavailable for another") as failed:
        other.acquire_all([a, b])
    assert isinstance(failed.value.cause, Contended)
    assert is_of(failed.value.cause.delay, tokens[a], client._options.holder, LONG)
    assert other.try_all([a, b]) is None
    tried = client.try_all([c], min_hold=LONG)
    assert tried is not None
    tried.release()
    assert is_of(other.get(c).delay, tried.tokens[c], client._options.holder, LONG)


def test_a_wait_of_a_set_that_was_over_before_the_turn_of_a_lock_tells_all_of_its_state() -> None:
    asked = Asked(["a"], None, 1, "me", None, None, None, None, None, 0.0)
    delay, semaphore = LockDelay(3.0, "worker-7", 7), Semaphore(9, 10, 0)
    holders = (Holder("worker-1", 7, "grant", None, None, None),)
    contended = Contended("a", holders, 9, 2, delay, semaphore)
    cause = asked.not_acquired(contended, [], waits=True).cause
    assert isinstance(cause, TimedOut)
    assert vars(cause) == vars(contended)


@pytest.mark.parametrize(("option", "longest"), [("min_hold", 86_400), ("lock_delay", 60)])
def test_the_server_checks_the_bounds(client: Client, name: str, option: str, longest: int) -> None:
    with pytest.raises(fencepost.Refused) as refused:
        client.acquire(name, **{option: longest + 1})  # type: ignore[arg-type]
    assert [it.field for it in refused.value.violations] == [option]
    with client.lock(f"{name}/none", **{option: 0}) as lock:  # type: ignore[arg-type]
        assert lock.valid()
    assert client.get(lock.name).delay is None


async def test_a_min_hold_with_asyncio(async_client: aio.Client, name: str) -> None:
    begun = time.monotonic()
    async with async_client.lock(name, min_hold=1, lock_delay=1, holder="worker-7") as lock:
        pass
    with pytest.raises(Contended, match=r"\(delay after worker-7\)") as no:
        await async_client.acquire(name)
    assert is_of(no.value.delay, lock.token, "worker-7", 1)
    assert is_of((await async_client.get(name)).delay, lock.token, "worker-7", 1)
    async with async_client.lock(name, wait=PATIENCE):
        assert time.monotonic() - begun >= 1
    tried = await async_client.try_acquire(f"{name}/try", min_hold=LONG)
    assert tried is not None
    await tried.release()
    a, b = (f"{name}/{it}" for it in "ab")
    async with await async_client.acquire_all([a], min_hold=LONG):
        pass
    tried_all = await async_client.try_all([b], min_hold=LONG)
    assert tried_all is not None
    await tried_all.release()
    infos = [await async_client.get(it) for it in (tried.name, a, b)]
    assert [it.delay is not None and it.delay.token == it.newest_token for it in infos] == [True] * 3


async def test_a_late_release_with_asyncio(proxy: Proxy, server: Server, name: str) -> None:
    async with aio.Client(proxy.address) as old, aio.Client(server.address) as other:
        lock = await old.acquire(name, ttl=1, lock_delay=60)
        proxy.blackhole()
        assert await asyncio.wait_for(lock.lost(), PATIENCE) == Loss(LossReason.SILENCE)
        proxy.heal()
        await lock.release()
        async with other.lock(name, wait=PATIENCE) as following:
            assert following.token > lock.token


def test_a_release_goes_on_until_the_lock_delay_is_over() -> None:
    world = World()
    lease = world.held(ttl=2.0, lock_delay=60.0)
    world.engine.lose(lease, Loss(LossReason.SILENCE))
    world.engine.give_up(lease, world.now)
    world.engine.ended(world.session, LOST, world.now)
    world.pass_time(55.0)
    world.connect()
    assert world.send_one().HasField("release")


@pytest.mark.parametrize(("lock_delay", "sent"), [(None, []), (60.0, ["release"])])
def test_a_lease_that_expired_is_released_only_to_end_its_lock_delay(lock_delay: float | None, sent: list[str]) -> None:
    world = World()
    lease = world.held(lock_delay=lock_delay)
    world.engine.lose(lease, Loss(LossReason.EXPIRED))
    world.engine.give_up(lease, world.now)
    messages = [it.WhichOneof("message") for it in world.sent()]
    assert [it for it in messages if it == "release"] == sent
