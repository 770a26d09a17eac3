"""Descriptions of held locks, and those who observe them, against a real server."""

from __future__ import annotations

import asyncio
import logging

import pytest
from conftest import PATIENCE
from support.engine import World
from support.futures import in_thread
from support.processes import Server, wait_for
from support.proxy import Proxy
from test_engine_change import answer, call
from test_shared import other

import fencepost
from fencepost import Client, FencepostError, LockLost, Refused, aio, testing
from fencepost._core.description import Description
from fencepost._core.failure import Failure
from fencepost.v1 import lock_pb2 as pb

__all__ = ["other"]


def said(info: fencepost.LockInfo) -> list[tuple[str, dict[str, str], int]]:
    return [(it.holder, dict(it.metadata), it.description) for it in info.holders]


def test_a_description_replaces_what_others_see(client: Client, other: Client, name: str) -> None:
    with client.lock(name, holder="me", metadata={"job": "7"}) as lock, other.watch(name) as events:
        assert lock.describe({"done": "10 %"}) == 1
        assert said(other.get(name)) == [("me", {"done": "10 %"}, 1)]
        assert lock.describe({}, holder="me, done") == 2
        assert said(other.get(name)) == [("me, done", {}, 2)]
        assert lock.holder == "me, done"
        seen = [next(events), next(events)]
        assert [(it.kind, it.holder, it.mode) for it in seen] == [
            (fencepost.EventKind.CHANGED, "me", fencepost.LockMode.EXCLUSIVE),
            (fencepost.EventKind.CHANGED, "me, done", fencepost.LockMode.EXCLUSIVE),
        ]
        for metadata, holder in (({"a": "b" * 5000}, None), ({}, "h" * 300)):
            with pytest.raises(Refused) as refused:
                lock.describe(metadata, holder)
            assert refused.value.code == "INVALID_ARGUMENT"
        with pytest.raises(TypeError, match="metadata must be a mapping"):
            lock.describe("done")  # type: ignore[arg-type]
        assert said(other.get(name)) == [("me, done", {}, 2)]
    with pytest.raises(FencepostError, match="is released"):
        lock.describe({})


def test_a_description_whose_reply_is_lost_is_repeated(
    failing: testing.Server, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "fencepost")
    with Client(failing.address) as client:
        lock = client.acquire(name, ttl=PATIENCE)
        failing.drop_reply()
        assert lock.describe({"done": "10 %"}) == 1
        wait_for(lambda: f"server {failing.address} failed" in caplog.text, "the reply was lost")
        assert said(client.get(name))[0][1:] == ({"done": "10 %"}, 1)
        failing.lose(name)
        with pytest.raises(LockLost):
            lock.describe({})
        lock.release()


def test_another_process_has_described_the_lease(client: Client, other: Client, name: str) -> None:
    request_id = "5bd5e4c6-5a3c-4b4e-9d5e-8a0b3a7e9f10"
    first = client.acquire(name, request_id=request_id, holder="me")
    assert [first.describe({"by": "first"}) for _ in range(2)] == [1, 2]
    second = other.acquire(name, request_id=request_id, holder="me")
    assert [second.describe({"by": "second"}) for _ in range(2)] == [3, 4], "it goes on where the first one was"
    with pytest.raises(FencepostError, match=r"described meanwhile by another process .* \(description 4\)"):
        first.describe({"by": "first"})
    assert said(client.get(name)) == [("me", {"by": "second"}, 4)]
    assert first.describe({"by": "first"}) == 5
    first.release()
    second.release()


def test_an_observer_sees_each_state(client: Client, other: Client, name: str) -> None:
    with other.observe(name) as states:
        assert next(states).holders == ()
        with client.lock(name, holder="me", shared=True) as lock:
            assert said(next(states)) == [("me", {}, 0)]
            lock.describe({"address": "a:1"})
            assert said(next(states)) == [("me", {"address": "a:1"}, 1)]
            assert lock.try_upgrade()
            (holder,) = next(states).holders
            assert (holder.token, holder.shared) == (lock.token, False)
        free = next(states)
        assert (free.name, free.holders, free.newest_token) == (name, (), lock.token)
        ended = in_thread(lambda: list(states))
    assert ended.result(PATIENCE) == []


def test_an_observer_goes_on_after_a_broken_connection(server: Server, proxy: Proxy, client: Client, name: str) -> None:
    with Client([proxy.address, server.address]) as other, other.observe(name) as states:
        assert next(states).holders == ()
        proxy.cut()
        with client.lock(name, holder="me") as lock:
            # The state of then, and the ones after it.
            while not (state := next(states)).holders:
                pass
            assert state.holders[0].token == lock.token
            assert other._calls.servers.preferred == 1
        assert next(states).holders == ()


async def test_descriptions_and_observers_with_asyncio(async_client: aio.Client, name: str) -> None:
    async with async_client.observe(name) as states:
        assert (await anext(states)).holders == ()
        async with async_client.lock(name, holder="me") as lock:
            assert said(await anext(states)) == [("me", {}, 0)]
            numbers = await asyncio.gather(lock.describe({"n": "1"}), lock.describe({"n": "2"}, "you"))
            assert tuple(numbers) == (1, 2)
            assert said(await async_client.get(name)) == [("you", {"n": "2"}, 2)]
            while said(await anext(states)) != [("you", {"n": "2"}, 2)]:
                pass
            assert lock.holder == "you"
        assert (await anext(states)).holders == ()
        states.close()
        assert [it async for it in states] == []


def test_a_repeat_has_the_same_number_and_the_next_one_another() -> None:
    world = World()
    lease = world.held()

    def describe() -> Description:
        description = Description(world.engine, lease, {"a": "b"}, None, lambda: None)
        description.begin(world.now)
        return description

    def number(result: pb.DescribeResponse | Failure) -> int:
        sent = call(world)
        assert isinstance(sent.request, pb.DescribeRequest)
        assert not sent.request.HasField("holder")
        world.engine.called(sent, result, world.now, world.now)
        return sent.request.number

    described = pb.DescribeResponse(outcome=pb.DescribeResponse.OUTCOME_DESCRIBED, number=1)
    describe()
    assert number(Failure("UNAVAILABLE", "reset")) == 1
    world.pass_time(1.0)
    assert number(Failure("PERMISSION_DENIED", "no", "NOT_PERMITTED")) == 1
    # The first one may still arrive, so its number is not used for another description.
    second = describe()
    described.number = 2
    assert number(described) == 2
    assert second.number == 2


def test_the_lease_that_is_described_is_lost() -> None:
    world = World()
    lease = world.held()
    description = Description(world.engine, lease, {}, "me", lambda: None)
    description.begin(world.now)
    lost = pb.DescribeResponse(outcome=pb.DescribeResponse.OUTCOME_LOST, end=pb.LEASE_END_EXPIRED)
    answer(world, call(world), lost)
    assert isinstance(description.error, LockLost)
    assert lease.lost is not None
