"""The calls that read, with asyncio: each on a channel that is kept for the next one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from types import TracebackType

import grpc.aio

from fencepost._channel import CHECK_TOKEN, GET, LIST, WATCH, Metadata, Method, RequestT, ResponseT, unreached
from fencepost._core import convert, requests
from fencepost._core.clock import now
from fencepost._core.failure import Failure, unsent
from fencepost._core.options import Options
from fencepost._core.retries import Retries, Servers
from fencepost._kept_channels import Kept, KeptChannels
from fencepost._probe import look
from fencepost.aio._tasks import bearer, call_failure, in_thread, open_channel
from fencepost.errors import ClientClosed, Refused
from fencepost.types import Event, EventKind, LockInfo, TokenCheck
from fencepost.v1 import lock_pb2 as pb


class Calls:
    """Unary calls and watches of one client."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.servers = Servers([str(it) for it in options.servers])
        self._channels = KeptChannels(lambda server: open_channel(options, options.servers[server]))
        self._closing: set[asyncio.Task[None]] = set()
        self._closed = False

    async def get(self, name: str) -> LockInfo:
        answer = await self._call(GET, pb.GetRequest(lock_name=convert.text(name, "name")))
        return convert.lock_info(answer.lock)

    async def list(self, prefix: str) -> AsyncIterator[LockInfo]:
        request = pb.ListRequest(prefix=convert.text(prefix, "prefix"))
        while True:
            answer = await self._call(LIST, request)
            for lock in answer.locks:
                yield convert.lock_info(lock)
            request.page_token = answer.next_page_token
            if not request.page_token:
                return

    async def check_token(self, name: str, token: int) -> TokenCheck:
        return convert.token_check(await self._call(CHECK_TOKEN, requests.check_token(name, token)))

    async def close(self) -> None:
        self._closed = True
        for channel in self._channels.close():
            await channel.close()

    def take(self, server: int) -> Kept[grpc.aio.Channel]:
        """Returns the channel to a server, to be given back. Raises Refused if a file of TLS cannot be read."""
        return self._channels.take(server)

    def give_back(self, server: int, kept: Kept[grpc.aio.Channel], failure: Failure | None) -> None:
        """Ends the use of a channel. It is not used again unless the server has answered on it."""
        channel = self._channels.give_back(server, kept, failure is None or not failure.is_broken)
        if channel is not None:
            closing = asyncio.get_running_loop().create_task(channel.close())
            self._closing.add(closing)
            closing.add_done_callback(self._closing.discard)

    async def explained(self, server: int, failure: Failure) -> Failure:
        """Returns the failure of a call, and looks at the server if it did not answer."""
        address = self.options.servers[server]
        found: asyncio.Future[Failure | None] = asyncio.get_running_loop().create_future()
        if failure.is_broken:
            in_thread(lambda: look(self.options, address), lambda it: None if found.done() else found.set_result(it))
        else:
            found.set_result(None)
        return await found or unreached(address, failure)

    async def _call(self, method: Method[RequestT, ResponseT], request: RequestT) -> ResponseT:
        """Calls one server after another until one answers."""
        retries = Retries(self.servers, now(), self.options.retry_for)
        while True:
            server = self.servers.preferred
            try:
                return await self._transmit(server, method, request, retries)
            except (grpc.aio.AioRpcError, Refused) as error:
                if self._closed:
                    raise ClientClosed from None
                failure = await self.explained(server, call_failure(error))
                await asyncio.sleep(retries.failed(server, failure, now()))

    async def _transmit(
        self, server: int, method: Method[RequestT, ResponseT], request: RequestT, retries: Retries
    ) -> ResponseT:
        metadata = await bearer(self.options, retries.token_limit(now()))
        kept = self.take(server)
        failure = None
        try:
            call = kept.channel.unary_unary(method.path, method.serialize, method.deserialize)
            return await call(request, timeout=retries.limit(now()), metadata=metadata)
        except grpc.aio.AioRpcError as error:
            failure = call_failure(error)
            raise
        finally:
            self.give_back(server, kept, failure)


class Watch:
    """Events of locks, in an ``async for`` loop, inside an ``async with`` statement.

    If the stream ends, it continues on the next server, with an event of kind ``MISSED``.
    """

    def __init__(self, calls: Calls, prefix: str) -> None:
        self._calls = calls
        self._request = pb.WatchRequest(prefix=convert.text(prefix, "prefix"))
        self._closed = False
        self._server = 0
        self._kept: Kept[grpc.aio.Channel] | None = None
        self._stream: grpc.aio.UnaryStreamCall[pb.WatchRequest, pb.WatchResponse] | None = None

    async def __aenter__(self) -> Watch:
        await self._open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __aiter__(self) -> Watch:
        return self

    async def __anext__(self) -> Event:
        while not self._closed:
            if self._stream is None:
                raise RuntimeError("enter the watch first: async with client.watch(...) as events")
            try:
                message = await self._stream.read()
            except grpc.aio.AioRpcError as error:
                return await self._reopen(call_failure(error))
            if not isinstance(message, pb.WatchResponse):
                return await self._reopen(Failure("UNAVAILABLE", "the server ended the watch"))
            event = convert.event(message)
            if event is not None:
                return event
        raise StopAsyncIteration

    def close(self) -> None:
        """Ends the watch: the loop ends."""
        self._closed = True
        if self._stream is not None:
            self._stream.cancel()
        self._give_back(None)

    def _give_back(self, failure: Failure | None) -> None:
        kept, self._kept = self._kept, None
        if kept is not None:
            self._calls.give_back(self._server, kept, failure)

    async def _reopen(self, failure: Failure) -> Event:
        if self._closed:
            raise StopAsyncIteration
        self._give_back(failure)
        self._calls.servers.failed(self._server)
        if not failure.is_transient:
            raise failure.error()
        await self._open()
        return Event(EventKind.MISSED)

    async def _open(self) -> None:
        """Opens the stream, and waits for its first message: all later events are reported."""
        calls = self._calls
        retries = Retries(calls.servers, now(), calls.options.retry_for)
        while not self._closed:
            server = self._server = calls.servers.preferred
            try:
                metadata = await bearer(calls.options, retries.token_limit(now()))
                self._kept = calls.take(server)
                failure = await self._start(self._kept.channel, metadata)
            except (grpc.aio.AioRpcError, Refused) as error:
                failure = call_failure(error)
            if failure is None:
                return
            self._give_back(failure)
            await asyncio.sleep(retries.failed(server, await calls.explained(server, failure), now()))

    async def _start(self, channel: grpc.aio.Channel, metadata: Metadata) -> Failure | None:
        """Starts the stream. Returns why it did not start, or None."""
        method = channel.unary_stream(WATCH.path, WATCH.serialize, WATCH.deserialize)
        stream = self._stream = method(self._request, metadata=metadata)
        try:
            message = await stream.read()
        except BaseException:
            stream.cancel()
            raise
        if isinstance(message, pb.WatchResponse) and message.kind == pb.WatchResponse.KIND_STARTED:
            return None
        stream.cancel()
        return unsent("the server did not start the watch")
