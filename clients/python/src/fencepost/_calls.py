"""The calls that read, with threads: each on a channel that is kept for the next one."""

from __future__ import annotations

import time
from collections.abc import Iterator

import grpc

from fencepost._channel import CHECK_TOKEN, GET, LIST, WAITERS, Method, RequestT, ResponseT, unreached
from fencepost._core import convert, requests
from fencepost._core.clock import now
from fencepost._core.failure import Failure
from fencepost._core.options import Options
from fencepost._core.retries import Retries, Servers
from fencepost._dial import bearer, call_failure, open_channel
from fencepost._kept_channels import Kept, KeptChannels
from fencepost._probe import look
from fencepost.errors import ClientClosed, Refused
from fencepost.types import LockInfo, TokenCheck, Waiter
from fencepost.v1 import lock_pb2 as pb


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

    def waiters(self, name: str) -> Iterator[Waiter]:
        request = pb.ListWaitersRequest(lock_name=convert.text(name, "name"))
        while True:
            answer = self._call(WAITERS, request)
            yield from map(convert.waiter, answer.waiters)
            request.page_token = answer.next_page_token
            if not request.page_token:
                return

    def check_token(self, name: str, token: int) -> TokenCheck:
        return convert.token_check(self._call(CHECK_TOKEN, requests.check_token(name, token)))

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
