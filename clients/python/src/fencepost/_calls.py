"""The calls that read, with threads: each on a channel that is kept for the next one."""

from __future__ import annotations

import time
from collections.abc import Iterator
from threading import Lock
from types import TracebackType
from typing import Protocol

import grpc

from fencepost._channel import CHECK_TOKEN, GET, LIST, WATCH, Method, RequestT, ResponseT
from fencepost._core import convert, requests
from fencepost._core.clock import now
from fencepost._core.failure import Failure, unsent
from fencepost._core.options import Options
from fencepost._core.retries import Retries, Servers
from fencepost._dial import bearer, call_failure, open_channel
from fencepost.errors import ClientClosed, Refused
from fencepost.types import Event, EventKind, LockInfo, TokenCheck
from fencepost.v1 import lock_pb2 as pb


class Stream(Protocol):
    """The stream of a watch, as gRPC has it."""

    def __next__(self) -> pb.WatchResponse: ...

    def cancel(self) -> bool: ...


class Calls:
    """Unary calls and watches of one client."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.servers = Servers(len(options.servers))
        self._lock = Lock()
        self._channels: dict[int, grpc.Channel] = {}
        self._closed = False

    def get(self, name: str) -> LockInfo:
        answer = self._call(GET, pb.GetRequest(lock_name=convert.text(name, "name")))
        return convert.lock_info(answer.lock)

    def list(self, prefix: str) -> Iterator[LockInfo]:
        request = pb.ListRequest(prefix=convert.text(prefix, "prefix"))
        while True:
            answer = self._call(LIST, request)
            yield from map(convert.lock_info, answer.locks)
            request.page_token = answer.next_page_token
            if not request.page_token:
                return

    def check_token(self, name: str, token: int) -> TokenCheck:
        return convert.token_check(self._call(CHECK_TOKEN, requests.check_token(name, token)))

    def watch(self, prefix: str) -> Watch:
        return Watch(self, prefix)

    def close(self) -> None:
        with self._lock:
            self._closed = True
            channels, self._channels = self._channels, {}
        for channel in channels.values():
            channel.close()

    def channel(self, server: int) -> grpc.Channel:
        """Returns the channel to a server. Raises Refused if a file of TLS cannot be read."""
        with self._lock:
            if self._closed:
                raise ClientClosed
            if server not in self._channels:
                self._channels[server] = open_channel(self.options, self.options.servers[server])
            return self._channels[server]

    def _call(self, method: Method[RequestT, ResponseT], request: RequestT) -> ResponseT:
        """Calls one server after another until one answers."""
        retries = Retries(self.servers, now(), self.options.retry_for)
        while True:
            server = self.servers.preferred
            try:
                metadata = bearer(self.options)
                call = self.channel(server).unary_unary(method.path, method.serialize, method.deserialize)
                return call(request, timeout=retries.limit(now()), metadata=metadata)
            except (grpc.RpcError, Refused) as error:
                if self._closed:
                    raise ClientClosed from None
                time.sleep(retries.failed(server, call_failure(error), now()))


class Watch:
    """Events of locks, in a ``for`` loop. Close it, or use it in a ``with`` statement.

    If the stream ends, it continues on the next server, with an event of kind ``MISSED``.
    """

    def __init__(self, calls: Calls, prefix: str) -> None:
        self._calls = calls
        self._request = pb.WatchRequest(prefix=convert.text(prefix, "prefix"))
        self._closed = False
        self._server = 0
        self._stream = self._open()

    def __iter__(self) -> Watch:
        return self

    def __next__(self) -> Event:
        while not self._closed:
            try:
                event = convert.event(next(self._stream))
            except StopIteration:
                return self._reopen(Failure("UNAVAILABLE", "the server ended the watch"))
            except grpc.RpcError as error:
                return self._reopen(call_failure(error))
            if event is not None:
                return event
        raise StopIteration

    def close(self) -> None:
        """Ends the watch. May be called by another thread: the loop ends."""
        self._closed = True
        self._stream.cancel()

    def __enter__(self) -> Watch:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _reopen(self, failure: Failure) -> Event:
        if self._closed:
            raise StopIteration
        self._calls.servers.failed(self._server)
        if not failure.is_transient:
            raise failure.error()
        self._stream = self._open()
        return Event(EventKind.MISSED)

    def _open(self) -> Stream:
        """Opens the stream, and waits for its first message: all later events are reported."""
        calls = self._calls
        retries = Retries(calls.servers, now(), calls.options.retry_for)
        while True:
            server = self._server = calls.servers.preferred
            try:
                metadata = bearer(calls.options)
                method = calls.channel(server).unary_stream(WATCH.path, WATCH.serialize, WATCH.deserialize)
                stream = method(self._request, metadata=metadata)
                if next(stream).kind == pb.WatchResponse.KIND_STARTED:
                    return stream
                stream.cancel()
                failure = unsent("the server does not start the watch")
            except StopIteration:
                failure = unsent("the server ended the watch")
            except (grpc.RpcError, Refused) as error:
                failure = call_failure(error)
            if self._closed:
                raise StopIteration
            time.sleep(retries.failed(server, failure, now()))
