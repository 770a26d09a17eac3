"""Queues, and holders that are told when somebody waits, against a real server."""

from __future__ import annotations

import asyncio
import queue
import threading

import pytest
from conftest import PATIENCE
from support.engine import World, end
from support.futures import in_thread
from support.processes import wait_for
from test_lead_aio import waiters
from test_shared import other

import fencepost
from fencepost import Client, Contended, LockMode, TimedOut, aio
from fencepost.testing import AsyncFakeLock, FakeLock
from fencepost.v1 import lock_pb2 as pb

__all__ = ["other"]


def test_a_queue_that_is_full_is_no_timeout(client: Client, other: Client, name: str) -> None:
    with client.lock(name):
        waiting = in_thread(lambda: other.acquire(name, wait=PATIENCE, max_waiters=1))
        wait_for(lambda: client.get(name).waiters == 1, "the first one waits")
        with pytest.raises(Contended) as full:
            client.acquire(name, wait=PATIENCE, max_waiters=1)
        assert (type(full.value), full.value.waiters) == (Contended, 1)
        with pytest.raises(TimedOut):
            client.acquire(name, wait=0.05, max_waiters=2)
    waiting.result(PATIENCE).release()


def test_those_who_wait_are_listed_in_order(client: Client, other: Client, name: str) -> None:
    assert list(client.waiters(name)) == []
    with client.lock(name, owner="holder-7") as lock:
        waiting = [in_thread(lambda: other.acquire(name, wait=PATIENCE, holder="writer", owner="job-7"))]
        wait_for(lambda: client.get(name).waiters == 1, "the writer waits")
        waiting.append(in_thread(lambda: other.acquire(name, wait=PATIENCE, holder="reader", shared=True)))
        wait_for(lambda: client.get(name).waiters == 2, "the reader waits as well")
        both = list(client.waiters(name))
        assert [(it.holder, it.owner, it.mode, it.permits, it.skipped, it.identity) for it in both] == [
            ("writer", "job-7", LockMode.EXCLUSIVE, 0, False, ""),
            ("reader", "", LockMode.SHARED, 0, False, ""),
        ]
        assert PATIENCE > both[0].waiting_since >= both[1].waiting_since >= 0
        assert [it.waiter_id for it in client.waiters(name)] == [it.waiter_id for it in both]
        assert len({it.waiter_id for it in both}) == 2
        assert [(it.owner, it.token) for it in client.get(name).holders] == [("holder-7", lock.token)]
    for it in waiting:
        it.result(PATIENCE).release()


def test_all_pages_of_the_queue_are_listed(client: Client, name: str) -> None:
    def wait(number: int) -> None:
        client.acquire(name, wait=PATIENCE, semaphore=200, permits=1, holder=str(number)).release()

    with client.lock(name):
        waiting = [in_thread(lambda number=number: wait(number)) for number in range(101)]  # type: ignore[misc]
        wait_for(lambda: client.get(name).waiters == len(waiting), "all wait")
        listed = list(client.waiters(name))
        assert {int(it.holder) for it in listed} == set(range(len(waiting)))
        assert {(it.mode, it.permits) for it in listed} == {(LockMode.SEMAPHORE, 1)}
    for it in waiting:
        it.result(PATIENCE)


def test_a_holder_is_told_that_somebody_waits(client: Client, other: Client, name: str) -> None:
    told: queue.Queue[LockMode] = queue.Queue()
    lock = client.acquire(name, tell_when_wanted=True, on_wanted=told.put)
    assert (lock.wanted.is_set(), lock.wanted.wait(0), lock.wanted_mode) == (False, False, None)
    waiting = in_thread(lambda: other.acquire(name, shared=True, wait=PATIENCE))
    assert lock.wanted.wait(PATIENCE)
    assert (lock.wanted.is_set(), lock.wanted_mode) == (True, LockMode.SHARED)
    assert told.get(timeout=PATIENCE) is LockMode.SHARED
    assert lock.valid()
    lock.release()
    waiting.result(PATIENCE).release()
    assert told.empty()


def test_a_holder_whose_lock_is_wanted_before_it_is_granted(client: Client, other: Client, name: str) -> None:
    told: queue.Queue[LockMode] = queue.Queue()
    first = other.acquire(name)
    second = in_thread(lambda: client.acquire(name, wait=PATIENCE, tell_when_wanted=True, on_wanted=told.put))
    wait_for(lambda: client.get(name).waiters == 1, "the second one waits")
    third = in_thread(lambda: other.acquire(name, wait=PATIENCE))
    wait_for(lambda: client.get(name).waiters == 2, "the third one waits")
    first.release()
    with second.result(PATIENCE) as lock:
        assert lock.wanted.wait(PATIENCE)
        assert told.get(timeout=PATIENCE) is LockMode.EXCLUSIVE
    third.result(PATIENCE).release()


def test_nobody_waits_until_the_release(client: Client, name: str) -> None:
    lock = client.acquire(name, tell_when_wanted=True)
    waits = in_thread(lock.wanted.wait)
    lock.release()
    assert waits.result(PATIENCE) is False


def test_a_leader_is_told_and_describes_its_term(client: Client, other: Client, name: str) -> None:
    terms: list[int] = []

    def body(lock: fencepost.Lock) -> str:
        terms.append(lock.describe({"address": "a:1"}))
        assert lock.wanted.wait(PATIENCE)
        return "resigned"

    leads = in_thread(lambda: client.lead(name, body, tell_when_wanted=True, owner="elector"))
    wait_for(lambda: bool(terms), "it leads")
    (leader,) = other.get(name).holders
    assert (dict(leader.metadata), leader.owner) == ({"address": "a:1"}, "elector")
    with other.lock(name, wait=PATIENCE):
        assert leads.result(PATIENCE) == "resigned"


async def test_wanted_and_queues_with_asyncio(async_client: aio.Client, name: str) -> None:
    told: list[LockMode] = []
    lock = await async_client.acquire(name, tell_when_wanted=True, on_wanted=told.append)
    assert lock.wanted_mode is None
    waiting = asyncio.create_task(async_client.acquire(name, wait=PATIENCE, owner="job-7", holder="next"))
    assert await asyncio.wait_for(lock.wanted(), PATIENCE) is LockMode.EXCLUSIVE
    await waiters(async_client, name, 1)
    assert [(it.holder, it.owner) async for it in async_client.waiters(name)] == [("next", "job-7")]
    with pytest.raises(Contended):
        await async_client.acquire(name, wait=PATIENCE, max_waiters=1)
    await lock.release()
    assert told == [LockMode.EXCLUSIVE]
    await (await waiting).release()


async def test_nobody_waits_until_the_release_with_asyncio(async_client: aio.Client, name: str) -> None:
    lock = await async_client.acquire(name, tell_when_wanted=True)
    waits = asyncio.create_task(lock.wanted())
    await asyncio.sleep(0)
    await lock.release()
    assert await asyncio.wait_for(waits, PATIENCE) is None


def test_a_fake_lock_is_wanted() -> None:
    lock = FakeLock("a")
    thread = threading.Thread(target=lock.want, args=(LockMode.SHARED,))
    thread.start()
    assert lock.wanted.wait(PATIENCE)
    thread.join()
    assert (lock.wanted_mode, lock.describe({}), lock.describe({}, "you"), lock.holder) == (
        LockMode.SHARED,
        1,
        2,
        "you",
    )


async def test_a_fake_lock_is_wanted_with_asyncio() -> None:
    lock = AsyncFakeLock("a")
    asyncio.get_running_loop().call_soon(lock.want)
    assert await asyncio.wait_for(lock.wanted(), PATIENCE) is LockMode.EXCLUSIVE
    assert (await lock.describe({}, "you"), lock.holder) == (1, "you")


@pytest.mark.parametrize(("over", "kind"), [(False, Contended), (True, TimedOut)])
def test_the_same_answer_after_the_wait_is_a_timeout(over: bool, kind: type[Contended | TimedOut]) -> None:
    world = World()
    acquire = world.acquire(wait=30.0, max_waiters=1)
    world.connect()
    sent = world.send_one()
    if over:
        world.answer(pb.SessionResponse(operation=sent.operation, waiting=pb.Waiting(ahead=1)))
        world.pass_time(29.9)
        world.fail(sent, 14)
        world.pass_time(0.5)
        sent = world.send_one()
    contended = pb.AcquireResponse(outcome=pb.AcquireResponse.OUTCOME_CONTENDED, waiters=1)
    world.answer(pb.SessionResponse(operation=sent.operation, acquire=contended))
    assert type(end(acquire)) is kind


def test_what_is_wrong_is_told_before_anything_is_sent(client: Client, name: str) -> None:
    with pytest.raises(ValueError, match="on_wanted is called only with tell_when_wanted=True"):
        client.acquire(name, on_wanted=print)
    with pytest.raises(TypeError, match="on_wanted must be a function"):
        client.acquire(name, tell_when_wanted=True, on_wanted="f")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="max_waiters must be from 1"):
        client.acquire(name, max_waiters=0)
    with pytest.raises(TypeError, match="tell_when_wanted must be a bool"):
        client.acquire(name, tell_when_wanted="no")  # type: ignore[arg-type]
