"""The driver of the interop suite: reads a JSON object a line, and answers each with one.

It uses the client for asyncio, whose waits can be cancelled. Both clients have the same engine.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import fencepost
from fencepost import aio

Request = Mapping[str, Any]
Answer = dict[str, Any]


def write(line: Answer) -> None:
    print(json.dumps(line), flush=True)


def client_options(request: Request) -> dict[str, Any]:
    tls = None
    if request.get("ca") or request.get("cert"):
        tls = fencepost.Tls(request.get("ca"), request.get("cert"), request.get("key"))
    return {
        "servers": request["servers"],
        "holder": request.get("holder"),
        "tls": tls,
        "token": request.get("token"),
    }


def acquire_options(request: Request) -> dict[str, Any]:
    label = request["lock"]

    def lost(loss: fencepost.Loss) -> None:
        write({"event": "lost", "lock": label, "reason": loss.reason.value, "successor_token": loss.successor_token})

    options: dict[str, Any] = {
        "wait": request.get("wait_ms", 0) / 1000,
        "metadata": request.get("metadata"),
        "on_lost": lost,
        "on_at_risk": lambda: write({"event": "at_risk", "lock": label}),
    }
    if "ttl_ms" in request:
        options["ttl"] = request["ttl_ms"] / 1000
    return options


def granted(lock: aio.Lock) -> Answer:
    return {"token": lock.token, "grant_id": lock.grant_id, "previous_end": lock.previous_end.value}


def info(lock: fencepost.LockInfo) -> Answer:
    holder = lock.holders[0] if lock.holders else None
    return {
        "holder": holder.holder if holder else None,
        "token": holder.token if holder else 0,
        "waiters": lock.waiters,
    }


def event(it: fencepost.Event) -> None:
    write({"event": "watch", "kind": it.kind.value, "name": it.name, "token": it.token, "holder": it.holder})


def if_valid(lock: aio.Lock, act: Callable[[], Answer]) -> Answer:
    if lock.valid():
        return act()
    loss = lock.loss
    return {
        "ok": False,
        "error": "lost",
        "message": f"{lock.name} is not held",
        "reason": loss.reason.value if loss else "released",
        "successor_token": loss.successor_token if loss else None,
    }


def append(lock: aio.Lock, path: str) -> Answer:
    with Path(path).open("a") as file:
        file.write(f"{lock.token}\n")
    return {}


def increment(path: Path) -> Answer:
    value = int(path.read_text() if path.exists() else 0) + 1
    path.write_text(str(value))
    return {"value": value}


def error(request: Request, failure: BaseException) -> Answer:
    answer: Answer = {"id": request.get("id"), "ok": False, "message": str(failure)}
    match failure:
        case fencepost.Contended() | fencepost.TimedOut():
            kind = "contended" if isinstance(failure, fencepost.Contended) else "timed_out"
            holder = failure.holders[0].holder if failure.holders else None
            return answer | {"error": kind, "holder": holder, "waiters": failure.waiters}
        case fencepost.LockLost():
            more = {"reason": failure.reason.value, "successor_token": failure.successor_token}
            return answer | {"error": "lost"} | more
        case fencepost.OutcomeUnknown():
            return answer | {"error": "outcome_unknown"}
        case fencepost.Refused():
            return answer | {"error": "refused", "code": failure.code, "reason": failure.reason}
        case fencepost.ClientClosed():
            return answer | {"error": "closed"}
        case asyncio.CancelledError():
            return answer | {"error": "cancelled"}
        case _:
            return answer | {"error": "bad_request", "message": repr(failure)}


class Driver:
    """The operations of the protocol. Each method is one."""

    def __init__(self) -> None:
        self.client: aio.Client | None = None
        self.locks: dict[str, aio.Lock] = {}
        self.acquires: dict[int, asyncio.Task[Any]] = {}
        self.watches: set[asyncio.Task[None]] = set()

    def opened(self) -> aio.Client:
        if self.client is None:
            raise ValueError("open a client first")
        return self.client

    async def open(self, request: Request) -> Answer:
        self.client = aio.Client(**client_options(request))
        return {}

    async def acquire(self, request: Request) -> Answer:
        task = asyncio.current_task()
        assert task is not None
        self.acquires[request["id"]] = task
        try:
            lock = await self.opened().acquire(request["name"], **acquire_options(request))
        finally:
            del self.acquires[request["id"]]
        self.locks[request["lock"]] = lock
        return granted(lock)

    async def cancel(self, request: Request) -> Answer:
        task = self.acquires.get(request["of"])
        if task is not None:
            task.cancel()
        return {}

    async def valid(self, request: Request) -> Answer:
        lock = self.locks[request["lock"]]
        return {"valid": lock.valid(), "remaining_ms": round(lock.remaining() * 1000)}

    async def write(self, request: Request) -> Answer:
        lock = self.locks[request["lock"]]
        return if_valid(lock, partial(append, lock, request["file"]))

    async def increment(self, request: Request) -> Answer:
        return if_valid(self.locks[request["lock"]], partial(increment, Path(request["file"])))

    async def release(self, request: Request) -> Answer:
        released = await self.locks[request["lock"]].release()
        return {"end": released.end.value}

    async def get(self, request: Request) -> Answer:
        return info(await self.opened().get(request["name"]))

    async def list(self, request: Request) -> Answer:
        return {"names": [lock.name async for lock in self.opened().list(request.get("prefix", ""))]}

    async def watch(self, request: Request) -> Answer:
        watch = await self.opened().watch(request.get("prefix", "")).__aenter__()

        async def follow() -> None:
            async for it in watch:
                event(it)

        task = asyncio.create_task(follow())
        self.watches.add(task)
        task.add_done_callback(self.watches.discard)
        return {}

    async def check_token(self, request: Request) -> Answer:
        checked = await self.opened().check_token(request["name"], request["token"])
        return {"status": checked.status.value}

    async def close(self, _request: Request) -> Answer:
        await self.opened().close()
        return {}


async def answer(driver: Driver, request: Request) -> None:
    try:
        write({"id": request["id"], "ok": True} | await getattr(driver, request["op"])(request))
    except (Exception, asyncio.CancelledError) as failure:
        write(error(request, failure))


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
