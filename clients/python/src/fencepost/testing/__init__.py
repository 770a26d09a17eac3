"""Servers for the tests of programs that take locks.

``Server`` runs the real server, and needs its program. ``FakeServer`` runs in this process, needs nothing else, and can
be told to fail. Clients connect to the ``address`` of either.

    from fencepost import Client
    from fencepost.testing import FakeServer

    with FakeServer() as server, Client(server.address) as client:
        lock = client.acquire("orders/42")
        server.lose("orders/42")
        assert lock.lost.wait(5)
"""

from __future__ import annotations

from fencepost.testing._fake import FakeServer
from fencepost.testing._server import Server

__all__ = ["FakeServer", "Server"]
