"""The calls that read, with asyncio: each on a channel that is kept for the next one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from types import TracebackType

import grpc.aio

from fencepost._channel import CHECK_TOKEN, GET, LIST, WATCH, Metadata, Method, RequestT, ResponseT
from fencepost._core import convert, requests
from fencepost._core.clock import now
from fencepost._core.failure import Failure, unsent
from fencepost._core.options import Options
from fencepost._core.retries import Retries, Servers
from fencepost.aio._tasks import bearer, call_failure, open_channel
from fencepost.errors import ClientClosed, Refused
from fencepost.types import Event, EventKind, LockInfo, TokenCheck
from fencepost.v1 import lock_pb2 as pb


class Calls:
    """Unary calls and watches of one client."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.servers = Servers(len(options.servers))
        self._channels: dict[int, grpc.aio.Channel] = {}
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
        channels, self._channels = self._channels, {}
        for channel in channels.values():
            await channel.close()

    def channel(self, server: int) -> grpc.aio.Channel:
        """Returns the channel to a server. Raises Refused if a file of TLS cannot be read."""
        if self._closed:
            raise ClientClosed
        if server not in self._channels:
            self._channels[server] = open_channel(self.options, self.options.servers[server])
        return self._channels[server]

    async def _call(self, method: Method[RequestT, ResponseT], request: RequestT) -> ResponseT:
        """Calls one server after another until one answers."""
        retries = Retries(self.servers, now(), self.options.retry_for)
        while True:
            server = self.servers.preferred
            try:
                metadata = await bearer(self.options, retries.limit(now()))
                call = self.channel(server).unary_unary(method.path, method.serialize, method.deserialize)
                return await call(request, timeout=retries.limit(now()), metadata=metadata)
            except (grpc.aio.AioRpcError, Refused) as error:
                if self._closed:
                    raise ClientClosed from None
                await asyncio.sleep(retries.failed(server, call_failure(error), now()))


class Watch:
    """Events of locks, in an ``async for`` loop, inside an ``async with`` statement.

    If the stream ends, it continues on the next server, with an event of kind ``MISSED``.
    """

    def __init__(self, calls: Calls, prefix: str) -> None:
        self._calls = calls
        self._request = pb.WatchRequest(prefix=convert.text(prefix, "prefix"))
        self._closed = False
        self._server = 0
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

    async def _reopen(self, failure: Failure) -> Event:
        if self._closed:
            raise StopAsyncIteration
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
                metadata = await bearer(calls.options, retries.limit(now()))
                failure = await self._start(calls.channel(server), metadata)
            except (grpc.aio.AioRpcError, Refused) as error:
                failure = call_failure(error)
            if failure is None:
                return
            await asyncio.sleep(retries.failed(server, failure, now()))

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
