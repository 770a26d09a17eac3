"""Streams of a server that are followed from one server to the next, with threads."""

from __future__ import annotations

import os
import threading
import time
import weakref
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

import grpc
from google.protobuf.message import Message

from fencepost._channel import Metadata, Method
from fencepost._core.clock import now
from fencepost._core.failure import Failure, unsent
from fencepost._core.retries import Retries
from fencepost._dial import bearer, call_failure
from fencepost._kept_channels import Kept
from fencepost.errors import Refused

if TYPE_CHECKING:
    from fencepost._calls import Calls

RequestT = TypeVar("RequestT", bound=Message)
ResponseT = TypeVar("ResponseT", bound=Message)
MessageT_co = TypeVar("MessageT_co", bound=Message, covariant=True)
ItemT = TypeVar("ItemT")


class Stream(Protocol[MessageT_co]):
    """A stream, as gRPC has it."""

    def __next__(self) -> MessageT_co: ...

    def cancel(self) -> bool: ...


class Held(Generic[ResponseT]):
    """The stream that is open. The end of the interpreter must not find it, see :func:`call_failure`: it is let go
    before that, and with its owner.
    """

    def __init__(self, owner: object) -> None:
        self.stream: Stream[ResponseT] | None = None
        self._pid = os.getpid()
        weakref.finalize(owner, self._end)

    def let_go(self) -> Stream[ResponseT] | None:
        """Returns the stream. It ends once nobody uses it."""
        stream, self.stream = self.stream, None
        return stream

    def _end(self) -> None:
        # In a child after a fork, what belongs to gRPC must not be touched: its locks may be held by threads that the
        # child does not have.
        if os.getpid() == self._pid:
            self.let_go()


class Follow(Generic[RequestT, ResponseT, ItemT]):
    """Iterates over what a stream tells. If it ends, the next server goes on."""

    def __init__(self, calls: Calls, method: Method[RequestT, ResponseT], request: RequestT) -> None:
        self._calls = calls
        self._method = method
        self._request = request
        self._closed = False
        self._server = 0
        self._kept: Kept[grpc.Channel] | None = None
        self._first: ResponseT | None = None
        """The first message of the stream, until it is told."""
        self._held: Held[ResponseT] = Held(self)
        self._held.stream = self._open()

    def _item(self, message: ResponseT) -> ItemT | None:
        """Returns what a message tells; None if that is nothing."""
        raise NotImplementedError

    def _opened_again(self) -> ItemT | None:
        """Returns what is told when another stream goes on; None for nothing."""
        return None

    def __iter__(self: SelfT) -> SelfT:
        return self

    def __next__(self) -> ItemT:
        while not self._closed:
            message = self._next()
            item = self._reopen(message) if isinstance(message, Failure) else self._item(message)
            if item is not None:
                return item
        raise StopIteration

    def close(self) -> None:
        """Ends the stream. May be called by another thread: the loop ends."""
        self._closed = True
        stream = self._held.let_go()
        if stream is not None:
            stream.cancel()
        self._give_back(None)

    def __enter__(self: SelfT) -> SelfT:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _next(self) -> ResponseT | Failure:
        """Returns the next message, or why the stream ended: what is raised for that must not have the stream's error
        as its context, see :func:`call_failure`.
        """
        first, self._first = self._first, None
        if first is not None:
            return first
        stream = self._held.stream
        if stream is None:
            raise StopIteration
        try:
            return next(stream)
        except StopIteration:
            return Failure("UNAVAILABLE", "the server ended the stream")
        except grpc.RpcError as error:
            return call_failure(error)

    def _reopen(self, failure: Failure) -> ItemT | None:
        if self._closed:
            raise StopIteration
        self._give_back(failure)
        self._calls.servers.failed(self._server)
        if not (failure.is_transient or failure.is_expired):
            raise failure.error()
        self._held.stream = self._open(again=True)
        return self._opened_again()

    def _open(self, again: bool = False) -> Stream[ResponseT]:
        """Opens the stream, and waits for its first message: nothing is missed from then on."""
        calls = self._calls
        retries = Retries(calls.servers, now(), calls.options.retry_for, again)
        while True:
            server = self._server = calls.servers.preferred
            try:
                metadata = bearer(calls.options)
                self._kept = calls.take(server)
                return self._start(self._kept.channel, metadata, retries.limit(now()))
            except StopIteration:
                failure = unsent("the server ended the stream")
            except (grpc.RpcError, Refused) as error:
                failure = call_failure(error)
                if failure.code == "CANCELLED":
                    failure = Failure("DEADLINE_EXCEEDED", "the server did not answer in time")
            self._give_back(failure)
            if self._closed:
                raise StopIteration
            time.sleep(retries.failed(server, calls.explained(server, failure), now()))

    def _start(self, channel: grpc.Channel, metadata: Metadata, limit: float) -> Stream[ResponseT]:
        """Starts the stream. Only its begin has a time, after which it is cancelled: a deadline would end it later."""
        method = self._method
        start = channel.unary_stream(method.path, method.serialize, method.deserialize)
        stream = start(self._request, metadata=metadata)
        late = threading.Timer(limit, stream.cancel)
        late.daemon = True
        late.start()
        try:
            self._first = next(stream)
        finally:
            late.cancel()
        return stream

    def _give_back(self, failure: Failure | None) -> None:
        kept, self._kept = self._kept, None
        if kept is not None:
            self._calls.give_back(self._server, kept, failure)


SelfT = TypeVar("SelfT", bound=Follow[Any, Any, Any])
