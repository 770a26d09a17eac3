"""Conversions of held locks, against a real server."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from pathlib import Path

import pytest
from conftest import PATIENCE
from support.futures import in_thread
from support.processes import wait_for
from test_aio import until
from test_lead_aio import waiters
from test_shared import other

import fencepost
from fencepost import (
    Client,
    FencepostError,
    LockLost,
    LockMode,
    LossReason,
    OutcomeUnknown,
    Refused,
    StaleToken,
    Unavailable,
    aio,
    testing,
)
from fencepost.guards import sqlite as guard

__all__ = ["other"]


def test_a_downgrade_lets_readers_in_and_no_writer(client: Client, other: Client, name: str) -> None:
    with client.lock(name) as lock:
        assert lock.mode is LockMode.EXCLUSIVE
        token = lock.token
        reader = in_thread(lambda: other.acquire(name, shared=True, wait=PATIENCE))
        wait_for(lambda: client.get(name).waiters == 1, "the reader waits")
        writer = in_thread(lambda: other.acquire(name, wait=PATIENCE))
        wait_for(lambda: client.get(name).waiters == 2, "the writer waits as well")
        lock.downgrade()
        lock.downgrade()
        assert (lock.mode, lock.token, lock.valid()) == (LockMode.SHARED, token, True)
        with reader.result(PATIENCE) as second:
            assert [it.shared for it in client.get(name).holders] == [True, True]
            assert (client.get(name).waiters, second.mode) == (1, LockMode.SHARED)
    with writer.result(PATIENCE) as third:
        assert token < second.token < third.token


def test_an_upgrade_needs_that_nobody_else_shares_the_lock(client: Client, other: Client, name: str) -> None:
    with client.lock(name, shared=True) as lock:
        token = lock.token
        with other.lock(name, shared=True) as second:
            assert not lock.try_upgrade()
            assert (lock.mode, lock.token, lock.valid()) == (LockMode.SHARED, token, True)
        assert lock.try_upgrade()
        assert (lock.mode, lock.valid()) == (LockMode.EXCLUSIVE, True)
        assert lock.token > second.token > token
        assert lock.try_upgrade(), "it is exclusive already"
        (holder,) = other.get(name).holders
        assert (holder.token, holder.shared) == (lock.token, False)
        assert client.check_token(name, lock.token)
        assert not client.check_token(name, token)
    assert other.get(name).holders == ()


def test_a_guard_reads_the_token_of_now(client: Client, name: str, tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "db", isolation_level=None) as connection:
        guard.create_table(connection)
        with client.lock(name, shared=True) as lock:
            old = lock.token
            connection.execute("BEGIN")
            assert lock.try_upgrade()
            guard.raise_fence(connection, lock)
            connection.execute("COMMIT")
            late = testing.FakeLock(name, old, grant_id=lock.grant_id)
            connection.execute("BEGIN")
            with pytest.raises(StaleToken) as stale:
                guard.raise_fence(connection, late)
            connection.execute("ROLLBACK")
            assert (stale.value.token, stale.value.newest) == (old, lock.token)
            lock.downgrade()
            guard.raise_shared(connection, lock)
            connection.execute("BEGIN")
            guard.check_shared(connection, lock)
            connection.execute("COMMIT")
    connection.close()


def test_a_lock_that_is_lost_or_released_is_not_converted(failing: testing.Server, name: str) -> None:
    with Client(failing.address) as client:
        lock = client.acquire(name, shared=True, ttl=PATIENCE)
        failing.lose(name)
        with pytest.raises(LockLost) as lost:
            lock.try_upgrade()
        assert (lost.value.reason, lost.value.token) == (LossReason.REVOKED, lock.token)
        assert lock.loss is not None
        with pytest.raises(LockLost):
            lock.downgrade()
        lock.release()
        released = client.acquire(name)
        released.release()
        with pytest.raises(FencepostError, match="is released: the lock is not held"):
            released.downgrade()


def test_a_conversion_whose_reply_is_lost_is_repeated(
    failing: testing.Server, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "fencepost")
    with Client(failing.address) as client, client.lock(name, shared=True) as lock:
        token = lock.token
        failing.drop_reply()
        assert lock.try_upgrade()
        assert lock.token > token
        wait_for(lambda: f"server {failing.address} failed" in caplog.text, "the reply was lost")
        (holder,) = client.get(name).holders
        assert holder.token == lock.token


def test_a_repeat_tells_what_became_of_a_conversion_without_an_answer(failing: testing.Server, name: str) -> None:
    with Client(failing.address, retry_for=0.3) as client, client.lock(name, shared=True, ttl=PATIENCE) as lock:
        token = lock.token
        failing.pause()
        with pytest.raises(OutcomeUnknown):
            lock.try_upgrade()
        assert (lock.mode, lock.token, lock.valid()) == (LockMode.SHARED, token, True)
        failing.resume()
        # The first call reaches the server before this one, or never.
        wait_for(lambda: upgrades(lock), "the server answers again")
        assert client.get(name).newest_token == lock.token > token


def upgrades(lock: fencepost.Lock) -> bool:
    try:
        return lock.try_upgrade()
    except (OutcomeUnknown, Unavailable):
        return False


def test_what_cannot_be_converted_is_refused(client: Client, name: str) -> None:
    with client.lock(name, semaphore=2) as lock:
        assert lock.mode is LockMode.SEMAPHORE
        for convert in (lock.downgrade, lock.try_upgrade):
            with pytest.raises(Refused) as refused:
                convert()
            assert (refused.value.code, refused.value.reason) == ("FAILED_PRECONDITION", "NOT_CONVERTIBLE")
        assert (lock.mode, lock.valid()) == (LockMode.SEMAPHORE, True)


def test_another_process_has_converted_the_lease(client: Client, other: Client, name: str) -> None:
    request_id = "7d444840-9dc0-11d1-b245-5ffdce74fad2"
    first = client.acquire(name, shared=True, request_id=request_id, holder="me")
    second = other.acquire(name, shared=True, request_id=request_id, holder="me")
    assert first.try_upgrade()
    with pytest.raises(Refused) as refused:
        second.downgrade()
    assert (refused.value.code, refused.value.reason) == ("ABORTED", "TOKEN_OUTDATED")
    assert second.try_upgrade(), "it is exclusive already"
    assert second.token == first.token
    first.release()
    second.release()


async def test_conversions_with_asyncio(async_client: aio.Client, name: str) -> None:
    async with async_client.lock(name) as lock:
        token = lock.token
        reader = asyncio.create_task(async_client.acquire(name, shared=True, wait=PATIENCE))
        await waiters(async_client, name, 1)
        await lock.downgrade()
        second = await reader
        assert (lock.mode, lock.token, second.mode) == (LockMode.SHARED, token, LockMode.SHARED)
        assert not await lock.try_upgrade()
        await second.release()
        # One after another: the second one finds the lock as the first one made it.
        results = await asyncio.gather(lock.try_upgrade(), lock.downgrade(), lock.try_upgrade())
        assert tuple(results) == (True, None, True)
        assert (lock.mode, lock.valid()) == (LockMode.EXCLUSIVE, True)
        assert (await async_client.get(name)).holders[0].token == lock.token > second.token
    with pytest.raises(FencepostError, match="is released"):
        await lock.downgrade()


async def test_a_conversion_that_is_cancelled_goes_on(async_client: aio.Client, name: str) -> None:
    async with async_client.lock(name, shared=True) as lock:
        token = lock.token
        conversion = asyncio.create_task(lock.try_upgrade())
        await asyncio.sleep(0)
        conversion.cancel()

        async def is_exclusive() -> bool:
            return lock.mode is LockMode.EXCLUSIVE

        await until(is_exclusive, "the holder knows what became of its lock")
        assert conversion.cancelled()
        assert (await async_client.get(name)).newest_token == lock.token > token
