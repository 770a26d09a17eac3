"""Locks for unit tests, in code that takes a lock. They do what locks of a server do."""

from __future__ import annotations

import asyncio
import gc
import threading
import uuid

import pytest
from conftest import PATIENCE

from fencepost import FencepostError, LeaseEnd, Lock, LockLost, LockMode, Loss, LossReason, Released, aio
from fencepost.testing import AsyncFakeLock, FakeLock


def work(lock: Lock) -> tuple[str, int]:
    """Code that takes a lock."""
    lock.check()
    return lock.name, lock.token


async def async_work(lock: aio.Lock) -> tuple[str, int]:
    """Code that takes a lock, with asyncio."""
    lock.check()
    return lock.name, lock.token


def test_a_lock_that_is_held() -> None:
    lock = FakeLock("orders/42", 7, ttl=10, holder="me", previous_end=LeaseEnd.EXPIRED)
    assert work(lock) == ("orders/42", 7)
    assert (lock.holder, lock.previous_end, lock.permits, lock.slot) == ("me", LeaseEnd.EXPIRED, 0, None)
    assert uuid.UUID(lock.grant_id)
    assert FakeLock("a", grant_id="g").grant_id == "g"
    assert (lock.valid(), lock.remaining(), lock.loss, lock.released) == (True, 10, None, False)
    assert not lock.lost.wait(0)
    assert repr(lock) == "<fencepost.Lock 'orders/42' token=7 held>"


def test_a_lock_that_is_released() -> None:
    lock = FakeLock("a")
    with lock:
        assert not lock.released
    assert lock.released
    assert lock.release() == Released(LeaseEnd.RELEASED)
    assert (lock.valid(), lock.remaining(), lock.loss) == (False, 0, None)
    assert not lock.lost.wait(PATIENCE), "the release ends the wait"
    with pytest.raises(FencepostError, match="a is released"):
        work(lock)
    lock.lose()
    assert lock.loss is None, "it is too late"


def test_a_lock_that_is_lost() -> None:
    lock = FakeLock("a", 7)
    with pytest.raises(LockLost) as lost, lock:
        thread = threading.Thread(target=lock.lose, args=(LossReason.EXPIRED, 8))
        thread.start()
        assert lock.lost.wait(PATIENCE)
        thread.join()
        lock.lose()
    assert (lost.value.name, lost.value.token, lost.value.successor_token) == ("a", 7, 8)
    assert (lock.valid(), lock.remaining(), lock.loss) == (False, 0, Loss(LossReason.EXPIRED, 8))
    assert lock.release() == Released(LeaseEnd.EXPIRED, 8)
    with pytest.raises(LockLost):
        work(lock)


def test_a_lock_that_is_lost_but_not_released() -> None:
    lock = FakeLock("a")
    lock.lose()
    assert (lock.loss, lock.released) == (Loss(LossReason.REVOKED), False)


def test_the_error_of_the_body_is_the_cause() -> None:
    lock, failure = FakeLock("a"), ValueError("the work failed")
    with pytest.raises(ValueError, match="the work failed"), lock:
        raise failure
    assert lock.released
    lock = FakeLock("a")
    with pytest.raises(LockLost) as lost, lock:
        lock.lose()
        raise failure
    assert lost.value.__cause__ is failure


def test_a_lock_that_is_converted() -> None:
    lock = FakeLock("a", 7)
    lock.downgrade()
    assert (lock.mode, lock.token) == (LockMode.SHARED, 7)
    assert lock.try_upgrade()
    assert lock.try_upgrade()
    assert (lock.mode, lock.token) == (LockMode.EXCLUSIVE, 8)
    lock.lose()
    with pytest.raises(LockLost):
        lock.downgrade()


async def test_a_lock_that_is_converted_with_asyncio() -> None:
    lock = AsyncFakeLock("a", 7)
    await lock.downgrade()
    assert await lock.try_upgrade()
    assert (lock.mode, lock.token) == (LockMode.EXCLUSIVE, 8)


async def test_a_lock_that_is_held_with_asyncio() -> None:
    lock = AsyncFakeLock("orders/42", 7, ttl=10, holder="me", grant_id="g", previous_end=LeaseEnd.EXPIRED)
    assert await async_work(lock) == ("orders/42", 7)
    assert (lock.holder, lock.previous_end, lock.grant_id) == ("me", LeaseEnd.EXPIRED, "g")
    assert (lock.valid(), lock.remaining(), lock.loss, lock.released) == (True, 10, None, False)


async def test_a_lock_that_is_released_with_asyncio() -> None:
    lock = AsyncFakeLock("a")
    async with lock:
        assert not lock.released
    assert lock.released
    assert await lock.release() == Released(LeaseEnd.RELEASED)
    assert (lock.valid(), lock.remaining(), await lock.lost()) == (False, 0, None)
    with pytest.raises(FencepostError, match="a is released"):
        await async_work(lock)


async def test_a_lost_lock_cancels_its_body() -> None:
    lock, cancelled = AsyncFakeLock("a", 7), False
    asyncio.get_running_loop().call_soon(lock.lose, LossReason.EXPIRED, 8)
    with pytest.raises(LockLost) as lost:
        async with lock:
            try:
                await asyncio.sleep(PATIENCE)
            except asyncio.CancelledError:
                cancelled = True
                raise
    assert cancelled
    assert (lost.value.token, lost.value.successor_token) == (7, 8)
    assert await lock.lost() == Loss(LossReason.EXPIRED, 8)
    assert await lock.release() == Released(LeaseEnd.EXPIRED, 8)
    assert (lock.valid(), lock.remaining(), lock.released) == (False, 0, True)


async def test_a_test_need_not_release_its_lock() -> None:
    # A warning would be an error here.
    FakeLock("a")
    AsyncFakeLock("a")
    gc.collect()
