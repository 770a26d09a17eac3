"""The changes of leases that are held, with asyncio: conversions and descriptions."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TypeVar

from fencepost._core.change import Change
from fencepost._core.clock import now
from fencepost._core.conversion import Conversion
from fencepost._core.description import Description
from fencepost._core.engine import Engine
from fencepost._core.lease import Lease
from fencepost.types import LockMode

ChangeT = TypeVar("ChangeT", bound=Change)


class Changes:
    """The part of a driver that changes leases."""

    _engine: Engine

    def check_use(self) -> None:
        raise NotImplementedError

    def _changed(self) -> None:
        raise NotImplementedError

    async def convert(self, lease: Lease, mode: LockMode) -> Conversion:
        """Waits for the result of a conversion."""
        done = asyncio.Event()
        return await self._change(Conversion(self._engine, lease, mode, done.set), done)

    async def describe(self, lease: Lease, metadata: Mapping[str, str], holder: str | None) -> Description:
        """Waits for the result of a description."""
        done = asyncio.Event()
        return await self._change(Description(self._engine, lease, metadata, holder, done.set), done)

    async def _change(self, change: ChangeT, done: asyncio.Event) -> ChangeT:
        """Waits for the result of a change of a lease. Cancelled, it goes on in the background."""
        self.check_use()
        change.begin(now())
        self._changed()
        await done.wait()
        return change
