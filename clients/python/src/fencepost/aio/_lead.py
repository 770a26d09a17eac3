"""Leader election on a lock, with asyncio: a campaign is an acquire, a term is a lease."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from fencepost._core.campaign import Campaign
from fencepost._core.clock import now
from fencepost.aio._body import cancelling
from fencepost.aio._lock import Lock
from fencepost.errors import FencepostError

ResultT = TypeVar("ResultT")


async def lead(
    acquire: Callable[[], Awaitable[Lock]], campaign: Campaign, body: Callable[[Lock], Awaitable[ResultT]]
) -> ResultT:
    """Campaigns until a term ends with the end of the body. Cancelled, it ends at any point: the ``async with``
    statement releases the lock after the body, and an acquire withdraws its request.
    """
    task = asyncio.current_task()
    cancels_before = cancelling(task)
    while True:
        lock: Lock | None = None
        try:
            async with await acquire() as lock:
                campaign.elected(now())
                return await body(lock)
        except FencepostError as error:
            pause = campaign.failed(error) if lock is None else campaign.lost(error, lock.token, now())
            if cancelling(task) > cancels_before:
                # The body has made something else of the caller's cancellation, and the lock was lost as well.
                raise asyncio.CancelledError from error
        await asyncio.sleep(pause)
