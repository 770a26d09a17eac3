"""The calls that read, with asyncio: each on a channel that is kept for the next one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import grpc.aio

from fencepost._channel import CHECK_TOKEN, GET, LIST, WAITERS, Method, RequestT, ResponseT, unreached
from fencepost._core import convert, requests
from fencepost._core.clock import now
from fencepost._core.failure import Failure
from fencepost._core.options import Options
from fencepost._core.retries import Retries, Servers
from fencepost._kept_channels import Kept, KeptChannels
from fencepost._probe import look
from fencepost.aio._tasks import bearer, call_failure, in_thread, open_channel
from fencepost.errors import ClientClosed, Refused
from fencepost.types import LockInfo, TokenCheck, Waiter
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

    async def waiters(self, name: str) -> AsyncIterator[Waiter]:
        request = pb.ListWaitersRequest(lock_name=convert.text(name, "name"))
        while True:
            answer = await self._call(WAITERS, request)
            for waiter in answer.waiters:
                yield convert.waiter(waiter)
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
