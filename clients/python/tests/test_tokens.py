"""Bearer tokens: functions that fail, invalid ones, and those that a server refuses."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest
from support.engine import World, end
from support.processes import Server, wait_for

import fencepost
from fencepost import Client, aio, testing
from fencepost._channel import session_failure
from fencepost._core import timing
from fencepost._core.address import Address
from fencepost._core.failure import Failure
from fencepost._core.session import Session

Call = Callable[[Client], object]
AsyncCall = Callable[[aio.Client], Awaitable[object]]


def acquire_sync(client: Client) -> None:
    lock = client.try_acquire("a")
    assert lock is not None
    lock.release()


async def acquire(client: aio.Client) -> None:
    lock = await client.try_acquire("a")
    assert lock is not None
    await lock.release()


async def watch(client: aio.Client) -> None:
    async with client.watch():
        pass


CALLS: list[Call] = [
    acquire_sync,
    lambda it: it.get("a"),
    lambda it: it.watch().close(),
]
ASYNC_CALLS: list[AsyncCall] = [acquire, lambda it: it.get("a"), watch]
KINDS = ["acquire", "get", "watch"]


class Counted:
    """A function that returns a token, and counts its calls."""

    def __init__(self, result: object) -> None:
        self.calls = 0
        self._result = result

    def __call__(self) -> str:
        self.calls += 1
        return self._result  # type: ignore[return-value]  # pyright: ignore[reportReturnType]


DOWN = r"no bearer token: OSError\('vault is down'\)"


class Vault:
    """A function for the token that fails while it is told to, and counts its calls."""

    def __init__(self) -> None:
        self.calls = 0
        self.is_down = False

    def __call__(self) -> str:
        self.calls += 1
        if self.is_down:
            raise OSError("vault is down")
        return "secret"


def assert_fails(refused: fencepost.Refused, source: Vault, caplog: pytest.LogCaptureFixture) -> None:
    assert refused.code == "UNAUTHENTICATED"
    assert isinstance(refused.__cause__, OSError)
    assert source.calls == 1, "another try of the same call is no better"
    assert caplog.messages == []


@pytest.mark.parametrize("call", CALLS, ids=KINDS)
def test_a_function_that_fails_with_threads(call: Call, server: Server, caplog: pytest.LogCaptureFixture) -> None:
    source = Vault()
    with Client(server.address, token=source) as client:
        source.is_down = True
        with pytest.raises(fencepost.Refused, match=DOWN) as failed:
            call(client)
        assert_fails(failed.value, source, caplog)
        source.is_down = False
        call(client)


@pytest.mark.parametrize("call", ASYNC_CALLS, ids=KINDS)
async def test_a_function_that_fails_with_asyncio(
    call: AsyncCall, server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    source = Vault()
    async with aio.Client(server.address, token=source) as client:
        source.is_down = True
        with pytest.raises(fencepost.Refused, match=DOWN) as failed:
            await call(client)
        assert_fails(failed.value, source, caplog)
        source.is_down = False
        await call(client)


def test_a_function_that_fails_for_a_moment_ends_the_call_that_needs_it_and_costs_no_lock(
    failing: testing.Server,
) -> None:
    source = Vault()
    with Client(failing.address, token=source) as client, client.lock("a", ttl=3) as lock:
        source.is_down = True
        # Whichever reply is lost, that to the acquire or that to a renewal: the acquire needs a new connection.
        failing.drop_reply()
        with pytest.raises(fencepost.Refused, match=DOWN):
            client.try_acquire("b")
        tries = source.calls
        wait_for(lambda: source.calls > tries, "the session asks again, for the lock")
        source.is_down = False
        assert not lock.lost.wait(3.5)
        client.acquire("c").release()


SLOW = timing.CONNECT_TIMEOUT + 0.5


@pytest.mark.parametrize("call", CALLS, ids=KINDS)
def test_a_slow_function_with_threads(call: Call, server: Server) -> None:
    def token() -> str:
        time.sleep(SLOW)
        return "secret"

    with Client(server.address, token=token) as client:
        call(client)


@pytest.mark.parametrize("call", ASYNC_CALLS, ids=KINDS)
async def test_a_slow_function_with_asyncio(call: AsyncCall, server: Server) -> None:
    async def token() -> str:
        await asyncio.sleep(SLOW)
        return "secret"

    async with aio.Client(server.address, token=token) as client:
        await call(client)


LATE = rf"no bearer token: .*its function did not return within {timing.TOKEN_TIMEOUT:g} s"


@pytest.mark.parametrize("call", ASYNC_CALLS, ids=KINDS)
async def test_a_coroutine_that_never_ends(call: AsyncCall, server: Server) -> None:
    async def token() -> str:
        await asyncio.Event().wait()
        return "never"

    async with aio.Client(server.address, token=token) as client:
        with pytest.raises(fencepost.Refused, match=LATE) as refused:
            await call(client)
    assert refused.value.code == "UNAUTHENTICATED"


def test_a_function_that_never_returns(server: Server) -> None:
    never = threading.Event()

    def token() -> str:
        never.wait()
        return "never"

    try:
        with Client(server.address, token=token) as client:
            with pytest.raises(fencepost.Refused, match=LATE) as refused:
                client.try_acquire("a")
    finally:
        never.set()
    assert refused.value.code == "UNAUTHENTICATED"


def test_the_time_of_the_function_is_not_that_of_the_server() -> None:
    world = World()
    world.has_token = False
    acquire = world.acquire()
    session = world.session
    world.pass_time(timing.TOKEN_TIMEOUT - 0.1)
    world.has_token = True
    world.pass_time(timing.CONNECT_TIMEOUT - 0.1)
    assert not session.ended
    world.pass_time(0.2)
    assert session.ended
    assert acquire.error is None, "the next session is tried"


def test_a_function_that_is_too_slow_ends_the_acquire() -> None:
    world = World()
    world.has_token = False
    acquire = world.acquire()
    world.pass_time(timing.TOKEN_TIMEOUT + 0.1)
    error = end(acquire)
    assert isinstance(error, fencepost.Refused)
    assert error.code == "UNAUTHENTICATED"


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
    assert str(away.error()) == "no server could be reached: a.internal:7420: the connection failed: connection refused"
