"""Helpers for the tests of programs that take locks.

``Server`` runs the real server, which fails when the test says so. Clients connect to its ``address``.

    from fencepost import Client
    from fencepost.testing import Server

    with Server() as server, Client(server.address) as client:
        lock = client.acquire("orders/42")
        server.lose("orders/42")
        assert lock.lost.wait(5)

``FakeLock`` is a :class:`fencepost.Lock` without a server, ``AsyncFakeLock`` a :class:`fencepost.aio.Lock`: for unit
tests of code that takes a lock.
"""

from __future__ import annotations

from fencepost.testing._fake_lock import AsyncFakeLock, FakeLock
from fencepost.testing._server import Server

__all__ = ["AsyncFakeLock", "FakeLock", "Server"]
