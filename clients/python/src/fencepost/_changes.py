"""The changes of leases that are held, with threads: conversions and descriptions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from fencepost._core.change import Change
from fencepost._core.clock import now
from fencepost._core.conversion import Conversion
from fencepost._core.description import Description
from fencepost._core.engine import Engine
from fencepost._core.lease import Lease
from fencepost._waits import Wait
from fencepost.types import LockMode

ChangeT = TypeVar("ChangeT", bound=Change)


class Changes:
    """The part of a driver that changes leases."""

    _engine: Engine

    def check_use(self) -> None:
        raise NotImplementedError

    def _ask(self, step: Callable[[], None], wait: Wait | None = None) -> None:
        raise NotImplementedError

    def convert(self, lease: Lease, mode: LockMode) -> Conversion:
        """Waits for the result of a conversion."""
        wait = Wait()
        return self._change(Conversion(self._engine, lease, mode, wait.end), wait)

    def describe(self, lease: Lease, metadata: Mapping[str, str], holder: str | None) -> Description:
        """Waits for the result of a description."""
        wait = Wait()
        return self._change(Description(self._engine, lease, metadata, holder, wait.end), wait)

    def _change(self, change: ChangeT, wait: Wait) -> ChangeT:
        """Waits for the result of a change of a lease. Interrupted, it goes on in the background."""
        self.check_use()
        self._ask(lambda: change.begin(now()), wait)
        wait.wait()
        return change
