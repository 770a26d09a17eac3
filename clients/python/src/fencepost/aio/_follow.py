"""Streams of a server that are followed from one server to the next, with asyncio."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import grpc.aio
from google.protobuf.message import Message

from fencepost._channel import Metadata, Method
from fencepost._core.clock import now
from fencepost._core.failure import Failure, unsent
from fencepost._core.retries import Retries
from fencepost._kept_channels import Kept
from fencepost.aio._tasks import bearer, call_failure
from fencepost.errors import Refused

if TYPE_CHECKING:
    from fencepost.aio._calls import Calls

RequestT = TypeVar("RequestT", bound=Message)
ResponseT = TypeVar("ResponseT", bound=Message)
ItemT = TypeVar("ItemT")


class Follow(Generic[RequestT, ResponseT, ItemT]):
    """Iterates over what a stream tells. If it ends, the next server goes on."""

    def __init__(self, calls: Calls, method: Method[RequestT, ResponseT], request: RequestT) -> None:
        self._calls = calls
        self._method = method
        self._request = request
        self._closed = False
        self._server = 0
        self._kept: Kept[grpc.aio.Channel] | None = None
        self._first: ResponseT | None = None
        """The first message of the stream, until it is told."""
        self._stream: grpc.aio.UnaryStreamCall[RequestT, ResponseT] | None = None

    def _item(self, message: ResponseT) -> ItemT | None:
        """Returns what a message tells; None if that is nothing."""
        raise NotImplementedError

    def _opened_again(self) -> ItemT | None:
        """Returns what is told when another stream goes on; None for nothing."""
        return None

    async def __aenter__(self: SelfT) -> SelfT:
        await self._open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __aiter__(self: SelfT) -> SelfT:
        return self

    async def __anext__(self) -> ItemT:
        while not self._closed:
            if self._stream is None:
                raise RuntimeError("enter it first: async with client.watch(...) as events")
            try:
                message = await self._next(self._stream)
            except grpc.aio.AioRpcError as error:
                item = await self._reopen(call_failure(error))
            else:
                ended = Failure("UNAVAILABLE", "the server ended the stream")
                item = await self._reopen(ended) if message is None else self._item(message)
            if item is not None:
                return item
        raise StopAsyncIteration

    def close(self) -> None:
        """Ends the stream: the loop ends."""
        self._closed = True
        if self._stream is not None:
            self._stream.cancel()
        self._give_back(None)

    async def _next(self, stream: grpc.aio.UnaryStreamCall[RequestT, ResponseT]) -> ResponseT | None:
        """Returns the next message; None at the end of the stream."""
        first, self._first = self._first, None
        if first is not None:
            return first
        message = await stream.read()
        return message if isinstance(message, self._method.response) else None

    def _give_back(self, failure: Failure | None) -> None:
        kept, self._kept = self._kept, None
        if kept is not None:
            self._calls.give_back(self._server, kept, failure)

    async def _reopen(self, failure: Failure) -> ItemT | None:
        if self._closed:
            raise StopAsyncIteration
        self._give_back(failure)
        self._calls.servers.failed(self._server)
        if not (failure.is_transient or failure.is_expired):
            raise failure.error()
        await self._open(again=True)
        return self._opened_again()

    async def _open(self, again: bool = False) -> None:
        """Opens the stream, and waits for its first message: nothing is missed from then on."""
        calls = self._calls
        retries = Retries(calls.servers, now(), calls.options.retry_for, again)
        while not self._closed:
            server = self._server = calls.servers.preferred
            try:
                metadata = await bearer(calls.options, retries.token_limit(now()))
                self._kept = calls.take(server)
                failure = await self._start(self._kept.channel, metadata, retries.limit(now()))
            except (grpc.aio.AioRpcError, Refused) as error:
                failure = call_failure(error)
            if failure is None:
                return
            self._give_back(failure)
            await asyncio.sleep(retries.failed(server, await calls.explained(server, failure), now()))

    async def _start(self, channel: grpc.aio.Channel, metadata: Metadata, limit: float) -> Failure | None:
        """Starts the stream, within this time. Returns why it did not start, or None."""
        method = channel.unary_stream(self._method.path, self._method.serialize, self._method.deserialize)
        stream = self._stream = method(self._request, metadata=metadata)
        try:
            self._first = await asyncio.wait_for(self._next(stream), limit)
        except asyncio.TimeoutError:
            stream.cancel()
            return Failure("DEADLINE_EXCEEDED", "the server did not answer in time")
        except BaseException:
            stream.cancel()
            raise
        if self._first is not None:
            return None
        stream.cancel()
        return unsent("the server did not start the stream")


SelfT = TypeVar("SelfT", bound=Follow[Any, Any, Any])
