"""Real servers, Redis and proxies for the tests."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import pytest_asyncio
from support.processes import Redis, Server, binary
from support.proxy import Proxy

import fencepost
from fencepost import aio, testing

# Far more than anything here takes, on a busy machine.
PATIENCE = 30.0


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that the tests share: each uses names of its own."""
    with Server(tmp_path_factory.mktemp("server")) as server:
        yield server


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> Iterator[testing.Server]:
    """A server of this test alone, which fails when the test says so."""
    monkeypatch.setenv("FENCEPOST_BIN", binary())
    with testing.Server("--ttl-min", "200ms") as server:
        yield server


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """A lock name of this test."""
    return f"{request.node.nodeid}"


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[Redis]:
    with Redis(tmp_path / "redis") as redis:
        yield redis


@pytest.fixture
def proxy(server: Server) -> Iterator[Proxy]:
    with Proxy(server.port) as proxy:
        yield proxy


@pytest.fixture
def client(server: Server) -> Iterator[fencepost.Client]:
    with fencepost.Client(server.address) as client:
        yield client


@pytest_asyncio.fixture
async def async_client(server: Server) -> AsyncIterator[aio.Client]:
    async with aio.Client(server.address) as client:
        yield client
