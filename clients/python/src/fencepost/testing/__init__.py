"""Helpers for the tests of programs that take locks.

``Server`` runs the real server, which fails when the test says so. Clients connect to its ``address``.

    from fencepost import Client
    from fencepost.testing import Server

    with Server() as server, Client(server.address) as client:
        lock = client.acquire("orders/42")
        server.lose("orders/42")
        assert lock.lost.wait(5)
"""

from __future__ import annotations

from fencepost.testing._server import Server

__all__ = ["Server"]
