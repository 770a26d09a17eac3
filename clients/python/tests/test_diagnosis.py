"""What is said about a server that cannot be called, by all kinds of calls, and when."""

from __future__ import annotations

import re
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import PATIENCE
from support import ports
from support.processes import Redis, Server, free_port
from support.proxy import Proxy
from support.tls import Authority

import fencepost
from fencepost import Client, Tls, _facts, aio

# Much less than the time for retries, much more than one try.
AT_ONCE = 5.0

# A time for retries that is enough for a look at the server.
FOR_A_WHILE = 1.0

Failing = Callable[..., Awaitable[tuple[fencepost.FencepostError, float]]]


async def _by_aio(call: str, client: aio.Client) -> None:
    if call == "watch":
        async with client.watch():
            pass
    else:
        await getattr(client, call)("a")


@pytest.fixture(params=["acquire", "get", "watch", "aio-acquire", "aio-get", "aio-watch"])
async def failing(request: pytest.FixtureRequest) -> Failing:
    """Makes a call that fails. Returns its error and how long it took."""

    async def fail(servers: Any, **options: Any) -> tuple[fencepost.FencepostError, float]:
        start = time.monotonic()
        with pytest.raises(fencepost.FencepostError) as failed:
            if request.param.startswith("aio-"):
                async with aio.Client(servers, **options) as async_client:
                    await _by_aio(request.param.removeprefix("aio-"), async_client)
            else:
                with Client(servers, **options) as client:
                    getattr(client, request.param)("a")
        return failed.value, time.monotonic() - start

    return fail


async def unreachable(failing: Failing, address: str, diagnosis: str, permanent: bool, tls: Tls | None = None) -> None:
    retry_for = PATIENCE if permanent else FOR_A_WHILE
    error, took = await failing(address, retry_for=retry_for, tls=tls)
    assert isinstance(error, fencepost.Unavailable), repr(error)
    assert not isinstance(error, fencepost.Refused)
    assert str(error) == f"no server could be reached: {address}{diagnosis}"
    assert error.reason == ""
    if permanent:
        assert took < AT_ONCE, "nobody can help by waiting"
    else:
        # The call ends when its next try would be too late.
        assert took > retry_for / 4, "a server that starts may be back"


async def test_nothing_listens(failing: Failing) -> None:
    await unreachable(failing, f"127.0.0.1:{free_port()}", ": connection refused", permanent=False)


async def test_no_such_socket(failing: Failing, tmp_path: Path) -> None:
    await unreachable(failing, f"unix:{tmp_path}/none", ": no such file or directory", permanent=False)


@pytest.mark.parametrize("host", ["no-such-host.invalid", "no..such.host"])
async def test_a_name_without_address(failing: Failing, host: str) -> None:
    error, _ = await failing(host, retry_for=FOR_A_WHILE)
    assert isinstance(error, fencepost.Unavailable)
    assert f"{host}:7420: its name cannot be resolved: " in str(error)


async def test_a_web_server(failing: Failing) -> None:
    with ports.web_server() as address:
        quoted = '"<!DOCTYPE HTML>"'  # Python's answers HTTP/2 as it does HTTP/0.9
        await unreachable(failing, address, f" {_facts.NOT_GRPC_OTHER.replace('{}', quoted)}", permanent=True)
        await unreachable(failing, f"https://{address}", f": {_facts.TLS_NOT_TLS}", permanent=True)


async def test_a_redis(failing: Failing, redis: Redis) -> None:
    error, took = await failing(f"127.0.0.1:{redis.port}", retry_for=PATIENCE)
    assert isinstance(error, fencepost.Unavailable)
    assert re.search(r'127\.0\.0\.1:\d+ does not speak gRPC \(it sent "-ERR .*"\)', str(error))
    assert took < AT_ONCE


async def test_bytes_that_are_no_text(failing: Failing) -> None:
    with ports.accepting(lambda it: it.sendall(b"\x00\xff\x00\xff" * 20)) as address:
        shown = _facts.NOT_GRPC_OTHER.replace("{}", _facts.NOT_GRPC_BYTES)
        await unreachable(failing, address, f" {shown}", permanent=True)


async def test_a_line_that_does_not_end(failing: Failing) -> None:
    shown = _facts.NOT_GRPC_OTHER.replace("{}", '"login: "')
    with ports.accepting(lambda it: it.sendall(b"login: ")) as address:
        await unreachable(failing, address, f" {shown}", permanent=True)


async def test_a_port_that_says_nothing(failing: Failing) -> None:
    with ports.accepting(lambda _: None) as address:
        # Longer than a connection may take, and a look at it.
        error, _ = await failing(address, retry_for=3.5)
        assert isinstance(error, fencepost.Unavailable)
        assert str(error) == f"no server could be reached: {address} {_facts.NOT_GRPC_SILENT}"


async def test_a_port_that_closes(failing: Failing) -> None:
    with ports.accepting(lambda it: it.close()) as address:
        await unreachable(failing, address, f" {_facts.NOT_GRPC_CLOSED_PLAIN}", permanent=False)
        await unreachable(failing, f"https://{address}", f" {_facts.NOT_GRPC_CLOSED}", permanent=False)


async def test_another_service(failing: Failing) -> None:
    with ports.foreign_grpc() as address:
        error, took = await failing(address, retry_for=PATIENCE)
    assert isinstance(error, fencepost.Refused)
    assert (error.code, str(error)) == ("UNIMPLEMENTED", f"{address} {_facts.NOT_FENCEPOST}")
    assert took < AT_ONCE


async def test_another_service_refuses_each_of_many_acquires_over_asyncio() -> None:
    with ports.foreign_grpc() as address:
        for _ in range(100):
            async with aio.Client(address) as client:
                # Never OutcomeUnknown: nothing is sent before the server has accepted the session.
                with pytest.raises(fencepost.Refused):
                    await client.acquire("a")


async def test_the_admin_port(failing: Failing, tmp_path: Path) -> None:
    address = f"127.0.0.1:{free_port()}"
    with Server(tmp_path, admin=address):
        error, took = await failing(address, retry_for=PATIENCE)
        assert isinstance(error, fencepost.Refused)
        assert (error.code, str(error)) == ("UNIMPLEMENTED", f"{address} {_facts.NOT_FENCEPOST}")
        assert took < AT_ONCE
        await unreachable(failing, f"https://{address}", f": {_facts.TLS_NOT_TLS}", permanent=True)


async def test_tls_to_a_plain_port(failing: Failing, server: Server) -> None:
    await unreachable(failing, f"https://{server.address}", f": {_facts.TLS_NOT_TLS}", permanent=True)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("tls") / "authority")


def tls_server(authority: Authority, folder: Path, names: str, *options: str) -> Server:
    cert, key = authority.issue(folder.name, names)
    return Server(folder, "--tls-cert", str(cert), "--tls-key", str(key), *options)


@pytest.fixture(scope="module")
def with_tls(authority: Authority, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with tls_server(authority, tmp_path_factory.mktemp("with-tls"), "IP:127.0.0.1") as server:
        yield server


@pytest.fixture(scope="module")
def with_client_certificates(authority: Authority, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("with-client-certificates")
    with tls_server(authority, folder, "IP:127.0.0.1", "--tls-client-ca", str(authority.ca)) as server:
        yield server


async def test_plain_text_to_a_tls_port(failing: Failing, with_tls: Server) -> None:
    # It closes the connection; that it speaks TLS makes that certain.
    await unreachable(failing, with_tls.address, f" {_facts.NOT_GRPC_CLOSED_PLAIN}", permanent=True)


async def test_plain_text_to_a_port_that_sends_an_alert(failing: Failing) -> None:
    with ports.accepting(lambda it: it.sendall(b"\x15\x03\x01\x00\x02\x02\x46")) as address:
        await unreachable(failing, address, f" {_facts.NOT_GRPC_TLS_ALERT}", permanent=True)


async def test_an_authority_that_is_not_trusted(failing: Failing, with_tls: Server, tmp_path: Path) -> None:
    tls = Tls(Authority(tmp_path / "stranger").ca)
    await unreachable(failing, f"https://{with_tls.address}", f": {_facts.TLS_UNTRUSTED}", True, tls)


async def test_a_certificate_of_another_name(failing: Failing, authority: Authority, tmp_path: Path) -> None:
    with tls_server(authority, tmp_path / "other", "DNS:other.example") as server:
        address = f"https://{server.address}"
        await unreachable(failing, address, f": {_facts.TLS_WRONG_NAME}", True, Tls(authority.ca))


async def test_no_client_certificate(failing: Failing, authority: Authority, with_client_certificates: Server) -> None:
    address = f"https://{with_client_certificates.address}"
    await unreachable(failing, address, f": {_facts.TLS_CLIENT_CERTIFICATE_MISSING}", True, Tls(authority.ca))


async def test_a_client_certificate_that_is_refused(
    failing: Failing, authority: Authority, with_client_certificates: Server, tmp_path: Path
) -> None:
    tls = Tls(authority.ca, *Authority(tmp_path / "stranger").issue("client"))
    error, took = await failing(f"https://{with_client_certificates.address}", retry_for=PATIENCE, tls=tls)
    assert isinstance(error, fencepost.Unavailable)
    assert f": {_facts.TLS_CLIENT_CERTIFICATE_REFUSED} (TLS alert " in str(error)
    assert took < AT_ONCE


async def test_each_server_is_named(failing: Failing) -> None:
    away = f"127.0.0.1:{free_port()}"
    with ports.web_server() as web, ports.foreign_grpc() as foreign:
        error, took = await failing([web, away], retry_for=2)
        quoted = '"<!DOCTYPE HTML>"'
        first = f"{web} {_facts.NOT_GRPC_OTHER.replace('{}', quoted)}"
        assert str(error) == f"no server could be reached: {first}; {away}: connection refused"
        assert took > 1, "the other one may be back"
        error, took = await failing([foreign, web], retry_for=PATIENCE)
        assert str(error) == f"no server could be reached: {foreign} {_facts.NOT_FENCEPOST}; {first}"
        assert took < AT_ONCE


def test_a_wrong_port_beside_a_server_is_passed_over(server: Server, name: str) -> None:
    with ports.web_server() as web, Client([web, server.address]) as client:
        with client.lock(name) as lock:
            assert client.get(name).newest_token == lock.token


def test_a_call_after_a_wrong_port_was_put_right(server: Server, name: str) -> None:
    with ports.accepting(lambda it: it.sendall(b"220 mail.example\r\n")) as address:
        port = int(address.rpartition(":")[2])
        client = Client(address)
        for call in (client.acquire, client.get):
            with pytest.raises(fencepost.Unavailable, match="220 mail.example"):
                call(name)
    with Proxy(server.port, ("127.0.0.1", port)), client:
        with client.lock(name) as lock:
            assert client.get(name).newest_token == lock.token
