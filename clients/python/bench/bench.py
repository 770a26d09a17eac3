"""Measures the client with a real server: pairs of acquire and release a second, and the memory of held locks.

bench.py [SECONDS]      for each client, 10 by default. FENCEPOST_BIN names the server; build it with --release
"""

from __future__ import annotations

import asyncio
import gc
import resource
import sys
import threading
import time
from pathlib import Path

from fencepost import Client, aio
from fencepost.testing import Server

TASKS = 64
HELD = 10_000


def with_threads(address: str, seconds: float) -> float:
    counts = [0] * TASKS
    with Client(address) as client:
        client.acquire("warm").release()
        end = time.monotonic() + seconds

        def work(number: int) -> None:
            while time.monotonic() < end:
                client.acquire(f"bench/{number}").release()
                counts[number] += 1

        threads = [threading.Thread(target=work, args=(number,)) for number in range(TASKS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    return sum(counts) / seconds


async def with_asyncio(address: str, seconds: float) -> float:
    counts = [0] * TASKS
    async with aio.Client(address) as client:
        await (await client.acquire("warm")).release()
        end = time.monotonic() + seconds

        async def work(number: int) -> None:
            while time.monotonic() < end:
                await (await client.acquire(f"bench/{number}")).release()
                counts[number] += 1

        await asyncio.gather(*(work(number) for number in range(TASKS)))
    return sum(counts) / seconds


def resident() -> int:
    """The bytes of memory of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


async def memory(address: str) -> float:
    """Returns the bytes that each held lock takes in the client."""
    async with aio.Client(address) as client:
        warm = await client.acquire("warm")
        gc.collect()
        before = resident()
        locks = [await client.acquire(f"held/{number}", ttl=60) for number in range(HELD)]
        gc.collect()
        used = resident() - before
        assert all(it.valid() for it in locks)
        await asyncio.gather(*(it.release() for it in (warm, *locks)))
    return used / HELD


def main() -> None:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 10.0
    with Server() as server:
        print(f"threads: {with_threads(server.address, seconds):.0f} pairs/s with {TASKS} threads")
        print(f"asyncio: {asyncio.run(with_asyncio(server.address, seconds)):.0f} pairs/s with {TASKS} tasks")
        print(f"memory: {asyncio.run(memory(server.address)) / 1024:.1f} KiB for each of {HELD} held locks")


if __name__ == "__main__":
    main()
