"""The client for asyncio.

    from fencepost.aio import Client

    async with Client("127.0.0.1:7420") as client:
        async with client.lock("orders/42", ttl=10, wait=30) as lock:
            print(lock.token)  # send it with every write

If the lock is lost, the body of ``async with client.lock(...)`` is cancelled, and the statement raises
:class:`fencepost.LockLost`, as ``asyncio.timeout`` raises ``TimeoutError``. Errors and results are those of
:mod:`fencepost`.
"""

from fencepost.aio._client import Client
from fencepost.aio._lock import Lock
from fencepost.aio._lock_set import LockSet
from fencepost.aio._watch import Observation, Watch

__all__ = ["Client", "Lock", "LockSet", "Observation", "Watch"]
