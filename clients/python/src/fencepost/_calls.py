"""The calls that read, with threads: each on a channel that is kept for the next one."""

from __future__ import annotations

import time
from collections.abc import Iterator
from types import TracebackType
from typing import Protocol

import grpc

from fencepost._channel import CHECK_TOKEN, GET, LIST, WATCH, Method, RequestT, ResponseT, unreached
from fencepost._core import convert, requests
from fencepost._core.clock import now
from fencepost._core.failure import Failure, unsent
from fencepost._core.options import Options
from fencepost._core.retries import Retries, Servers
from fencepost._dial import bearer, call_failure, open_channel
from fencepost._kept_channels import Kept, KeptChannels
from fencepost._probe import look
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
        self.servers = Servers([str(it) for it in options.servers])
        self._channels = KeptChannels(lambda server: open_channel(options, options.servers[server]))
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
        self._closed = True
        for channel in self._channels.close():
            channel.close()

    def take(self, server: int) -> Kept[grpc.Channel]:
        """Returns the channel to a server, to be given back. Raises Refused if a file of TLS cannot be read."""
        return self._channels.take(server)

    def give_back(self, server: int, kept: Kept[grpc.Channel], failure: Failure | None) -> None:
        """Ends the use of a channel. It is not used again unless the server has answered on it."""
        channel = self._channels.give_back(server, kept, failure is None or not failure.is_broken)
        if channel is not None:
            channel.close()

    def explained(self, server: int, failure: Failure) -> Failure:
        """Returns the failure of a call, and looks at the server if it did not answer."""
        address = self.options.servers[server]
        return (failure.is_broken and look(self.options, address)) or unreached(address, failure)

    def _call(self, method: Method[RequestT, ResponseT], request: RequestT) -> ResponseT:
        """Calls one server after another until one answers."""
        retries = Retries(self.servers, now(), self.options.retry_for)
        while True:
            server = self.servers.preferred
            try:
                return self._transmit(server, method, request, retries)
            except (grpc.RpcError, Refused) as error:
                if self._closed:
                    raise ClientClosed from None
                time.sleep(retries.failed(server, self.explained(server, call_failure(error)), now()))

    def _transmit(
        self, server: int, method: Method[RequestT, ResponseT], request: RequestT, retries: Retries
    ) -> ResponseT:
        metadata = bearer(self.options)
        kept = self.take(server)
        failure = None
        try:
            call = kept.channel.unary_unary(method.path, method.serialize, method.deserialize)
            return call(request, timeout=retries.limit(now()), metadata=metadata)
        except grpc.RpcError as error:
            failure = call_failure(error)
            raise
        finally:
            self.give_back(server, kept, failure)


class Watch:
    """Events of locks, in a ``for`` loop. Close it, or use it in a ``with`` statement.

    If the stream ends, it continues on the next server, with an event of kind ``MISSED``.
    """

    def __init__(self, calls: Calls, prefix: str) -> None:
        self._calls = calls
        self._request = pb.WatchRequest(prefix=convert.text(prefix, "prefix"))
        self._closed = False
        self._server = 0
        self._kept: Kept[grpc.Channel] | None = None
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
        self._give_back(None)

    def __enter__(self) -> Watch:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _reopen(self, failure: Failure) -> Event:
        if self._closed:
            raise StopIteration
        self._give_back(failure)
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
                self._kept = calls.take(server)
                method = self._kept.channel.unary_stream(WATCH.path, WATCH.serialize, WATCH.deserialize)
                stream = method(self._request, metadata=metadata)
                if next(stream).kind == pb.WatchResponse.KIND_STARTED:
                    return stream
                stream.cancel()
                failure = unsent("the server does not start the watch")
            except StopIteration:
                failure = unsent("the server ended the watch")
            except (grpc.RpcError, Refused) as error:
                failure = call_failure(error)
            self._give_back(failure)
            if self._closed:
                raise StopIteration
            time.sleep(retries.failed(server, calls.explained(server, failure), now()))

    def _give_back(self, failure: Failure | None) -> None:
        kept, self._kept = self._kept, None
        if kept is not None:
            self._calls.give_back(self._server, kept, failure)
