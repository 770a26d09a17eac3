"""Bearer tokens: functions that fail, invalid ones, and those that a server refuses."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest
from support.processes import Server

import fencepost
from fencepost import Client, aio
from fencepost._channel import session_failure
from fencepost._core.address import Address
from fencepost._core.failure import Failure
from fencepost._core.session import Session

Call = Callable[[Client], object]
AsyncCall = Callable[[aio.Client], Awaitable[object]]

CALLS: list[Call] = [lambda it: it.try_acquire("a"), lambda it: it.get("a"), lambda it: it.watch()]
ASYNC_CALLS: list[AsyncCall] = [
    lambda it: it.try_acquire("a"),
    lambda it: it.get("a"),
    lambda it: it.watch().__aenter__(),
]
KINDS = ["acquire", "get", "watch"]


class Counted:
    """A function that returns a token, and counts its calls."""

    def __init__(self, result: object) -> None:
        self.calls = 0
        self._result = result

    def __call__(self) -> str:
        self.calls += 1
        return self._result  # type: ignore[return-value]  # pyright: ignore[reportReturnType]


def broken() -> str:
    raise OSError("vault is down")


@pytest.mark.parametrize("call", CALLS, ids=KINDS)
def test_a_function_that_fails_with_threads(call: Call, server: Server, caplog: pytest.LogCaptureFixture) -> None:
    with Client(server.address, token=broken, retry_for=1) as client:
        with pytest.raises(fencepost.Unavailable, match=r"token failed: OSError\('vault is down'\)") as failed:
            call(client)
    assert isinstance(failed.value.__cause__, OSError)
    assert caplog.messages == []


@pytest.mark.parametrize("call", ASYNC_CALLS, ids=KINDS)
async def test_a_function_that_fails_with_asyncio(
    call: AsyncCall, server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    async with aio.Client(server.address, token=broken, retry_for=1) as client:
        with pytest.raises(fencepost.Unavailable, match=r"token failed: OSError\('vault is down'\)") as failed:
            await call(client)
    assert isinstance(failed.value.__cause__, OSError)
    assert caplog.messages == []


def test_a_function_that_fails_for_a_moment(server: Server, name: str) -> None:
    calls = itertools.count()

    def token() -> str:
        if next(calls) < 3:
            raise OSError("vault is down")
        return "secret"

    with Client(server.address, token=token) as client, client.lock(name):
        pass


@pytest.mark.parametrize("call", ASYNC_CALLS[1:], ids=KINDS[1:])
async def test_a_coroutine_that_never_ends(call: AsyncCall, server: Server) -> None:
    async def token() -> str:
        await asyncio.Event().wait()
        return "never"

    async with aio.Client(server.address, token=token, retry_for=1) as client:
        with pytest.raises(fencepost.Unavailable, match="TimeoutError"):
            await call(client)


INVALID: list[tuple[object, str]] = [
    ("se\ncret", "line end"),
    ("secret\r\n", "line end"),
    ("", "empty"),
    (" secret", "printable"),
    ("s\u00e9cret", "printable"),
    (7, "must be a str, not int"),
    (None, "must be a str, not NoneType"),
]


@pytest.mark.parametrize(("token", "message"), INVALID)
@pytest.mark.parametrize("call", CALLS, ids=KINDS)
def test_an_invalid_token_of_a_function(call: Call, token: object, message: str, server: Server) -> None:
    source = Counted(token)
    with Client(server.address, token=source) as client:
        with pytest.raises(fencepost.Refused, match=message) as refused:
            call(client)
    assert refused.value.code == "UNAUTHENTICATED"
    assert "cret" not in str(refused.value)
    assert source.calls == 1, "another try would be no better"


@pytest.mark.parametrize("call", ASYNC_CALLS, ids=KINDS)
async def test_an_invalid_token_with_asyncio(call: AsyncCall, server: Server) -> None:
    source = Counted("secret\n")
    async with aio.Client(server.address, token=source) as client:
        with pytest.raises(fencepost.Refused, match="line end"):
            await call(client)
    assert source.calls == 1


@pytest.mark.parametrize(("token", "message"), INVALID[:-1])
def test_an_invalid_token_of_a_client(token: str, message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message) as invalid:
        Client(token=token)
    assert "cret" not in str(invalid.value)


class Refusing(grpc.GenericRpcHandler):
    """A server that knows no token."""

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler[bytes, bytes]:
        def refuse(_requests: Iterator[bytes], context: grpc.ServicerContext) -> Iterator[bytes]:
            context.abort(grpc.StatusCode.UNAUTHENTICATED, "no such token")

        return grpc.stream_stream_rpc_method_handler(refuse)


@pytest.fixture
def refusing() -> Iterator[str]:
    server = grpc.server(ThreadPoolExecutor(4), handlers=[Refusing()])
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield f"127.0.0.1:{port}"
    server.stop(None).wait()


# Far longer than anything here takes: a refusal is final.
PATIENT = 86_400


@pytest.mark.parametrize("call", CALLS, ids=KINDS)
def test_a_refusal_is_told_at_once_with_threads(call: Call, refusing: str) -> None:
    with Client(refusing, token="secret", retry_for=PATIENT) as client:
        with pytest.raises(fencepost.Refused, match="no such token") as refused:
            call(client)
    assert refused.value.code == "UNAUTHENTICATED"


@pytest.mark.parametrize("call", ASYNC_CALLS, ids=KINDS)
async def test_a_refusal_is_told_at_once_with_asyncio(call: AsyncCall, refusing: str) -> None:
    async with aio.Client(refusing, token="secret", retry_for=PATIENT) as client:
        with pytest.raises(fencepost.Refused, match="no such token") as refused:
            await call(client)
    assert refused.value.code == "UNAUTHENTICATED"


def test_a_refusal_may_come_before_the_session_counts_as_connected() -> None:
    session, address = Session(0, 0.0), Address("a.internal")
    refused = Failure("UNAUTHENTICATED", "no such token")
    assert session_failure(session, address, refused) is refused
    away = session_failure(session, address, Failure("UNAVAILABLE", "connection refused"))
    assert str(away.error()) == "no server could be reached: a.internal:7420: connection refused"
