"""Leader election on a lock, with threads: a campaign is an acquire, a term is a lease."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from fencepost._core.campaign import Campaign
from fencepost._core.clock import now
from fencepost._lock import Lock
from fencepost.errors import FencepostError

ResultT = TypeVar("ResultT")


def lead(acquire: Callable[[], Lock], campaign: Campaign, body: Callable[[Lock], ResultT]) -> ResultT:
    """Campaigns until a term ends with the end of the body. An exception of a signal handler ends it at any point: the
    ``with`` statement releases the lock after the body, and an acquire withdraws its request.
    """
    while True:
        lock: Lock | None = None
        try:
            with acquire() as lock:
                campaign.elected(now())
                lock.check()
                return body(lock)
        except FencepostError as error:
            pause = campaign.failed(error) if lock is None else campaign.lost(error, lock.token, now())
        time.sleep(pause)
