"""One of many processes leads: with asyncio, the work is cancelled as soon as the lead is lost."""

from __future__ import annotations

import asyncio

from fencepost.aio import Client, Lock


async def work(lock: Lock) -> str:
    """The work of the leader. It sends the token, the number of its term, with every write."""
    for number in range(3):
        print(f"leading in term {lock.token}, round {number}")
        await asyncio.sleep(0.1)
    return "the work is done"


async def main() -> None:
    async with Client() as client:
        # Waits until it is elected, and again after a loss. It resigns when the work returns.
        print(await client.lead("leader", work, ttl=5))


if __name__ == "__main__":
    asyncio.run(main())
