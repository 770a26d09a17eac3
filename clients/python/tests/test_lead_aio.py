"""Leader election with asyncio, against a real server."""

from __future__ import annotations

import asyncio
import logging
import sys
from pathlib import Path

import pytest
from conftest import PATIENCE
from support.ports import foreign_grpc
from support.processes import Server, free_port
from support.proxy import Proxy
from test_aio import until

import fencepost
from fencepost import LeaseEnd, aio, testing
from fencepost.aio import Lock


async def no_body(_lock: Lock) -> None:
    raise AssertionError("nobody is elected here")


async def waiters(client: aio.Client, name: str, count: int) -> None:
    async def are() -> bool:
        return (await client.get(name)).waiters == count

    await until(are, f"{count} wait")


async def test_one_body_at_a_time(server: Server, async_client: aio.Client, name: str) -> None:
    leading, most, tokens = 0, 0, []

    async def body(lock: Lock) -> int:
        nonlocal leading, most
        leading += 1
        most = max(most, leading)
        tokens.append(lock.token)
        await async_client.get(name)
        most = max(most, leading)
        leading -= 1
        return lock.token

    async with aio.Client(server.address) as other:
        results = await asyncio.gather(*(it.lead(name, body) for it in (async_client, other) * 10))
    assert most == 1
    assert tokens == sorted(set(results))
    assert len(tokens) == 20


async def test_the_next_one_is_elected_when_the_body_returns(async_client: aio.Client, name: str) -> None:
    elected, ends = asyncio.Event(), asyncio.Event()

    async def first(_lock: Lock) -> str:
        elected.set()
        await ends.wait()
        return "its work"

    async def second(lock: Lock) -> LeaseEnd:
        assert ends.is_set()
        return lock.previous_end

    leader = asyncio.create_task(async_client.lead(name, first, holder="me", metadata={"job": "7"}, ttl=5))
    await elected.wait()
    (holder,) = (await async_client.get(name)).holders
    assert (holder.holder, dict(holder.metadata), holder.ttl) == ("me", {"job": "7"}, 5)
    waiting = asyncio.create_task(async_client.lead(name, second))
    await waiters(async_client, name, 1)
    ends.set()
    assert await leader == "its work"
    assert await waiting is LeaseEnd.RELEASED
    assert (await async_client.get(name)).holders == ()


async def test_the_same_elector_is_elected_again_after_a_loss(
    failing: testing.Server, caplog: pytest.LogCaptureFixture
) -> None:
    tokens: list[int] = []
    cancelled = 0

    async def body(lock: Lock) -> str:
        nonlocal cancelled
        tokens.append(lock.token)
        if len(tokens) == 4:
            return "led"
        try:
            await asyncio.to_thread(failing.lose, "a")
            await asyncio.sleep(PATIENCE)
        except asyncio.CancelledError:
            cancelled += 1
            if len(tokens) == 1:
                raise
            if len(tokens) == 2:
                raise ValueError("the cleanup failed") from None
        return "dropped"

    async with aio.Client(failing.address) as client:
        assert await client.lead("a", body) == "led"
        assert (await client.get("a")).previous_end is LeaseEnd.RELEASED
    assert cancelled == 3
    assert tokens == sorted(set(tokens))
    (record,) = [it for it in caplog.records if it.levelno == logging.ERROR]
    assert record.getMessage() == "the leader's work failed after the loss of a: ValueError('the cleanup failed')"
    task = asyncio.current_task()
    assert task is not None
    if sys.version_info >= (3, 11):
        assert task.cancelling() == 0


async def test_a_body_that_ends_late_is_awaited_before_the_next_campaign(proxy: Proxy, name: str) -> None:
    tokens: list[int] = []
    running = 0

    async def body(lock: Lock) -> None:
        nonlocal running
        assert not running
        running += 1
        tokens.append(lock.token)
        try:
            if len(tokens) == 1:
                proxy.blackhole()
                await asyncio.sleep(PATIENCE)
        finally:
            assert lock.valid() == (len(tokens) > 1)
            proxy.heal()
            await asyncio.sleep(0.2)
            running -= 1

    async with aio.Client(proxy.address) as client:
        await client.lead(name, body, ttl=1)
    assert len(tokens) == 2
    assert tokens[1] > tokens[0]


async def test_an_error_of_the_leader_is_raised(async_client: aio.Client, name: str) -> None:
    async def body(_lock: Lock) -> None:
        raise ValueError("the work failed")

    with pytest.raises(ValueError, match="the work failed"):
        await async_client.lead(name, body)
    info = await async_client.get(name)
    assert (info.holders, info.previous_end) == ((), LeaseEnd.RELEASED)


async def test_cancelled_while_it_leads_it_releases_after_the_body(
    server: Server, async_client: aio.Client, name: str
) -> None:
    elected = asyncio.Event()
    held: list[bool] = []

    async with aio.Client(server.address) as other:

        async def body(_lock: Lock) -> None:
            elected.set()
            try:
                await asyncio.sleep(PATIENCE)
            finally:
                held.extend([bool((await other.get(name)).holders) for _ in range(3)])

        leader = asyncio.create_task(async_client.lead(name, body))
        await elected.wait()
        leader.cancel()
        with pytest.raises(asyncio.CancelledError):
            await leader
        assert held == [True] * 3
        info = await other.get(name)
    assert (info.holders, info.previous_end) == ((), LeaseEnd.RELEASED)


async def test_cancelled_while_it_campaigns_it_leaves_no_waiter(async_client: aio.Client, name: str) -> None:
    async with async_client.lock(name):
        leader = asyncio.create_task(async_client.lead(name, no_body))
        await waiters(async_client, name, 1)
        leader.cancel()
        with pytest.raises(asyncio.CancelledError):
            await leader
        await waiters(async_client, name, 0)
    assert (await async_client.get(name)).holders == ()


@pytest.mark.skipif(sys.version_info < (3, 11), reason="Python 3.10 does not count cancellations")
async def test_a_cancellation_that_the_body_of_a_lost_lock_swallows_still_ends_it(failing: testing.Server) -> None:
    cleaning = asyncio.Event()
    terms = 0

    async def body(_lock: Lock) -> str:
        nonlocal terms
        terms += 1
        try:
            await asyncio.to_thread(failing.lose, "a")
            await asyncio.sleep(PATIENCE)
        except asyncio.CancelledError:
            cleaning.set()
        try:
            await asyncio.sleep(PATIENCE)
        except asyncio.CancelledError:
            pass
        return "swallowed"

    async with aio.Client(failing.address) as client:
        leader = asyncio.create_task(client.lead("a", body))
        await cleaning.wait()
        leader.cancel()
        await asyncio.wait({leader}, timeout=PATIENCE)
        assert leader.cancelled()
    assert terms == 1


async def test_a_server_that_starts_later(tmp_path: Path, name: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "fencepost")
    address = f"127.0.0.1:{free_port()}"

    async def body(lock: Lock) -> bool:
        return lock.valid()

    async def has_tried() -> bool:
        return f"server {address} failed" in caplog.text

    async with aio.Client(address) as client:
        leader = asyncio.create_task(client.lead(name, body))
        await until(has_tried, "it has tried")
        assert not leader.done()
        with Server(tmp_path / "late", listen=address):
            assert await asyncio.wait_for(leader, PATIENCE)


async def test_what_cannot_be_tried_again(async_client: aio.Client, name: str) -> None:
    with pytest.raises(fencepost.Refused, match="lock_name") as refused:
        await async_client.lead("a\nb", no_body)
    assert refused.value.reason == "INVALID_FIELD"
    with pytest.raises(TypeError, match="body must be a function, not int"):
        await async_client.lead(name, 5)  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]
    with foreign_grpc() as address:
        async with aio.Client(address) as foreign:
            with pytest.raises(fencepost.Refused, match="not a Fencepost server"):
                await foreign.lead(name, no_body)
