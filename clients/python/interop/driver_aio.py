"""The driver of the interop suite for the client with asyncio."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

import protocol
from protocol import Answer, Request

from fencepost import aio


class Driver:
    """The operations of the protocol. Each method is one."""

    def __init__(self) -> None:
        self.client: aio.Client | None = None
        self.locks: dict[str, aio.Lock] = {}
        self.sets: dict[str, aio.LockSet] = {}
        self.acquires: dict[int, asyncio.Task[Any]] = {}
        self.followed: set[asyncio.Task[None]] = set()
        """The watches and observations."""

    def opened(self) -> aio.Client:
        if self.client is None:
            raise ValueError("open a client first")
        return self.client

    async def open(self, request: Request) -> Answer:
        self.client = aio.Client(**protocol.client_options(request))
        return {}

    def held(self, request: Request) -> aio.Lock | aio.LockSet:
        label = request["lock"]
        return self.locks.get(label) or self.sets[label]

    async def acquire(self, request: Request) -> Answer:
        with self.cancellable(request):
            lock = await self.opened().acquire(request["name"], **protocol.acquire_options(request))
        self.locks[request["lock"]] = lock
        return protocol.granted(lock)

    async def acquire_all(self, request: Request) -> Answer:
        with self.cancellable(request):
            locks = await self.opened().acquire_all(protocol.names(request), **protocol.acquire_all_options(request))
        self.sets[request["lock"]] = locks
        return {"tokens": locks.tokens}

    @contextmanager
    def cancellable(self, request: Request) -> Iterator[None]:
        task = asyncio.current_task()
        assert task is not None
        self.acquires[request["id"]] = task
        try:
            yield
        finally:
            del self.acquires[request["id"]]

    async def cancel(self, request: Request) -> Answer:
        task = self.acquires.get(request["of"])
        if task is not None:
            task.cancel()
        return {}

    async def valid(self, request: Request) -> Answer:
        return protocol.valid(self.held(request))

    async def write(self, request: Request) -> Answer:
        return protocol.append(self.locks[request["lock"]], request["file"])

    async def increment(self, request: Request) -> Answer:
        return protocol.increment(self.held(request), request["file"])

    async def release(self, request: Request) -> Answer:
        released = await self.held(request).release()
        return {"end": released.end.value}

    async def convert(self, request: Request) -> Answer:
        lock, converted = self.locks[request["lock"]], True
        if request["mode"] == "shared":
            await lock.downgrade()
        else:
            converted = await lock.try_upgrade()
        return protocol.converted(lock, converted)

    async def describe(self, request: Request) -> Answer:
        lock = self.locks[request["lock"]]
        return {"number": await lock.describe(request.get("metadata", {}), request.get("holder"))}

    async def observe(self, request: Request) -> Answer:
        client = self.opened()

        async def follow() -> None:
            async with client.observe(request["name"]) as states:
                async for it in states:
                    protocol.observed(it)

        self.follow(follow())
        return {}

    async def waiters(self, request: Request) -> Answer:
        return {"waiters": [protocol.waiter(it) async for it in self.opened().waiters(request["name"])]}

    async def get(self, request: Request) -> Answer:
        return protocol.info(await self.opened().get(request["name"]))

    async def list(self, request: Request) -> Answer:
        return {"names": [lock.name async for lock in self.opened().list(request.get("prefix", ""))]}

    async def watch(self, request: Request) -> Answer:
        watch = await self.opened().watch(request.get("prefix", "")).__aenter__()

        async def follow() -> None:
            async for it in watch:
                protocol.event(it)

        self.follow(follow())
        return {}

    def follow(self, events: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(events)
        self.followed.add(task)
        task.add_done_callback(self.followed.discard)

    async def check_token(self, request: Request) -> Answer:
        checked = await self.opened().check_token(request["name"], request["token"])
        return {"status": checked.status.value}

    async def close(self, _request: Request) -> Answer:
        await self.opened().close()
        return {}


async def answer(driver: Driver, request: Request) -> None:
    try:
        protocol.write({"id": request["id"], "ok": True} | await getattr(driver, request["op"])(request))
    except (Exception, asyncio.CancelledError) as failure:
        protocol.write(protocol.error(request, failure))


async def main() -> None:
    driver = Driver()
    running: set[asyncio.Task[None]] = set()
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        request = json.loads(line)
        if request["op"] == "exit":
            return
        task = loop.create_task(answer(driver, request))
        running.add(task)
        task.add_done_callback(running.discard)


if __name__ == "__main__":
    asyncio.run(main())
