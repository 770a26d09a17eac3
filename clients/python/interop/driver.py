"""The driver of the interop suite for the client with threads: each request has a thread of its own.

Only a signal ends a wait of this client, as Ctrl-C does, and Python handles signals in the main thread. So the main
thread runs one acquire at a time if it is free, which is the one that can be cancelled; others have their threads.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

import protocol
from protocol import Answer, Request

import fencepost


class Driver:
    """The operations of the protocol. Each method is one."""

    def __init__(self) -> None:
        self.client: fencepost.Client | None = None
        self.locks: dict[str, fencepost.Lock] = {}
        self.sets: dict[str, fencepost.LockSet] = {}
        self.main_is_free = True
        self.in_main: int | None = None
        """The acquire that the main thread runs, which a signal may end."""
        self.cancelled: int | None = None

    def opened(self) -> fencepost.Client:
        if self.client is None:
            raise ValueError("open a client first")
        return self.client

    def open(self, request: Request) -> Answer:
        self.client = fencepost.Client(**protocol.client_options(request))
        return {}

    def held(self, request: Request) -> fencepost.Lock | fencepost.LockSet:
        label = request["lock"]
        return self.locks.get(label) or self.sets[label]

    def acquire(self, request: Request) -> Answer:
        with self.cancellable(request):
            lock = self.opened().acquire(request["name"], **protocol.acquire_options(request))
        self.locks[request["lock"]] = lock
        return protocol.granted(lock)

    def acquire_all(self, request: Request) -> Answer:
        with self.cancellable(request):
            locks = self.opened().acquire_all(protocol.names(request), **protocol.acquire_all_options(request))
        self.sets[request["lock"]] = locks
        return {"tokens": locks.tokens}

    @contextmanager
    def cancellable(self, request: Request) -> Iterator[None]:
        is_main = threading.current_thread() is threading.main_thread()
        try:
            if is_main:
                self.in_main = request["id"]
            yield
        finally:
            if is_main:
                self.in_main = None

    def cancel(self, request: Request) -> Answer:
        self.interrupt(request["of"])
        return {}

    def interrupt(self, acquire: int | None) -> None:
        self.cancelled = acquire
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    def valid(self, request: Request) -> Answer:
        return protocol.valid(self.held(request))

    def write(self, request: Request) -> Answer:
        return protocol.append(self.locks[request["lock"]], request["file"])

    def increment(self, request: Request) -> Answer:
        return protocol.increment(self.held(request), request["file"])

    def release(self, request: Request) -> Answer:
        return {"end": self.held(request).release().end.value}

    def convert(self, request: Request) -> Answer:
        lock, converted = self.locks[request["lock"]], True
        if request["mode"] == "shared":
            lock.downgrade()
        else:
            converted = lock.try_upgrade()
        return protocol.converted(lock, converted)

    def describe(self, request: Request) -> Answer:
        lock = self.locks[request["lock"]]
        return {"number": lock.describe(request.get("metadata", {}), request.get("holder"))}

    def observe(self, request: Request) -> Answer:
        client = self.opened()

        def follow() -> None:
            for it in client.observe(request["name"]):
                protocol.observed(it)

        threading.Thread(target=follow, daemon=True).start()
        return {}

    def waiters(self, request: Request) -> Answer:
        return {"waiters": [protocol.waiter(it) for it in self.opened().waiters(request["name"])]}

    def get(self, request: Request) -> Answer:
        return protocol.info(self.opened().get(request["name"]))

    def list(self, request: Request) -> Answer:
        return {"names": [lock.name for lock in self.opened().list(request.get("prefix", ""))]}

    def watch(self, request: Request) -> Answer:
        watch = self.opened().watch(request.get("prefix", ""))

        def follow() -> None:
            for it in watch:
                protocol.event(it)

        threading.Thread(target=follow, daemon=True).start()
        return {}

    def check_token(self, request: Request) -> Answer:
        return {"status": self.opened().check_token(request["name"], request["token"]).status.value}

    def close(self, _request: Request) -> Answer:
        self.opened().close()
        return {}


def answer(driver: Driver, request: Request) -> None:
    try:
        result = {"id": request["id"], "ok": True} | getattr(driver, request["op"])(request)
    except (Exception, KeyboardInterrupt) as failure:
        result = protocol.error(request, failure)
    protocol.write(result)


def requests() -> Iterator[Request]:
    """Reads without a buffer: a thread that reads into one when the process ends would crash it."""
    rest = b""
    while data := os.read(0, 65_536):
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            request = json.loads(line)
            if request["op"] == "exit":
                return
            yield request


def main() -> None:
    driver = Driver()
    for_main: queue.SimpleQueue[Request | None] = queue.SimpleQueue()

    def interrupt(_signal: int, _frame: FrameType | None) -> None:
        if driver.in_main is not None and driver.in_main == driver.cancelled:
            driver.cancelled = None
            raise KeyboardInterrupt

    def read() -> None:
        for request in requests():
            if request["op"] in ("acquire", "acquire_all") and driver.main_is_free:
                driver.main_is_free = False
                for_main.put(request)
            else:
                threading.Thread(target=answer, args=(driver, request), daemon=True).start()
        for_main.put(None)
        driver.interrupt(driver.in_main)

    signal.signal(signal.SIGINT, interrupt)
    threading.Thread(target=read, daemon=True).start()
    while (request := for_main.get()) is not None:
        answer(driver, request)
        driver.main_is_free = True


if __name__ == "__main__":
    main()
