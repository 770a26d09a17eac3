"""One of many processes leads: with asyncio, the work is cancelled as soon as the lead is lost."""

from __future__ import annotations

import asyncio

from fencepost import LockLost, TimedOut
from fencepost.aio import Client


async def lead(token: int) -> None:
    """The work of the leader. It sends the token with every write."""
    for number in range(3):
        print(f"leading with token {token}, round {number}")
        await asyncio.sleep(0.1)


async def main() -> None:
    async with Client() as client:
        try:
            async with client.lock("leader", ttl=5, wait=60) as lock:
                await lead(lock.token)
        except TimedOut as error:
            print(f"somebody else leads: {error}")
        except LockLost as error:
            print(f"not the leader any more: {error}")


if __name__ == "__main__":
    asyncio.run(main())
