"""Several locks that one call acquires: their order, their one wait, and what became of all of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import cast

from fencepost._core import convert, outcome, requests
from fencepost._core.convert import duration
from fencepost._core.lease import Lease
from fencepost._core.outcome import lost_error
from fencepost._core.release import Release
from fencepost._facts import SET_NAMES_MAX
from fencepost.errors import Contended, FencepostError, LockLost, NotAllAcquired, NotAllReleased, TimedOut
from fencepost.types import LeaseEnd, LockMode, Released
from fencepost.v1 import lock_pb2 as pb

Name = str | tuple[str, LockMode]
"""The name of a lock, alone or with its mode. Alone, it is exclusive."""


class Asked:
    """The locks that a caller asks for together, each once, in the order in which all clients acquire them.

    That order is the one of the bytes of UTF-8, whatever the language of a client: so no two clients wait for each
    other in a circle.
    """

    def __init__(
        self,
        names: Iterable[Name],
        ttl: float | timedelta | None,
        wait: float | timedelta,
        holder: str,
        metadata: Mapping[str, str] | None,
        max_hold: float | timedelta | None,
        min_hold: float | timedelta | None,
        lock_delay: float | timedelta | None,
        owner: str | None,
        now: float,
    ) -> None:
        modes = ordered(names)
        self.names = list(modes)
        bounds = (max_hold, min_hold, lock_delay)
        self._requests = [
            requests.acquire(name, ttl, wait, holder, metadata, None, 0, *bounds, mode is LockMode.SHARED, owner=owner)
            for name, mode in modes.items()
        ]
        self._waits = bool(convert.wait(wait))
        self.deadline = now + convert.wait(wait)

    def request(self, number: int, now: float, *, waits: bool) -> pb.AcquireRequest:
        """Returns the request for a lock. If it waits, it waits for what is left of the one wait of all."""
        request = pb.AcquireRequest()
        request.CopyFrom(self._requests[number])
        request.wait_timeout.CopyFrom(duration(max(self.deadline - now, 0.0) if waits else 0.0))
        return request

    def not_acquired(self, error: FencepostError, leases: Sequence[Lease], *, waits: bool) -> NotAllAcquired:
        """Returns the error of the call, because of one of the locks. Those before it are given back already."""
        name = self.names[min(len(leases), len(self.names) - 1)]
        if isinstance(error, Contended) and waits and self._waits:
            # The wait was over before its turn.
            error = TimedOut(error.name, error.holders, error.holder_count, error.waiters, error.delay, error.semaphore)
        if isinstance(error, LockLost):
            name = error.name
        names = tuple(it.name for it in reversed(leases) if it.lost is None)
        return NotAllAcquired(len(self.names), name, error, names)


def ordered(names: Iterable[Name]) -> dict[str, LockMode]:
    """Checks the names, and returns each once with its mode, sorted by its bytes."""
    if isinstance(names, (str, bytes)):
        raise TypeError("names must be a list of names, not one name")
    modes: dict[bytes, LockMode] = {}
    for name, mode in map(_with_mode, names):
        if modes.setdefault(name.encode(), mode) is not mode:
            raise ValueError(f"{name} is asked for both as exclusive and as shared")
    if not 0 < len(modes) <= SET_NAMES_MAX:
        raise ValueError(f"names must have 1 to {SET_NAMES_MAX} different names, not {len(modes)}")
    return {it.decode(): modes[it] for it in sorted(modes)}


def _with_mode(item: object) -> tuple[str, LockMode]:
    """Reads one item of the names."""
    mode: object = LockMode.EXCLUSIVE
    if isinstance(item, tuple):
        try:
            item, mode = cast("tuple[object, object]", item)
        except ValueError:
            raise TypeError(f"a name with a mode must be a tuple of both, not {item!r}") from None
    if mode is LockMode.EXCLUSIVE or mode is LockMode.SHARED:
        return convert.text(item, "a name"), mode
    raise ValueError(f"the mode must be LockMode.EXCLUSIVE or LockMode.SHARED, not {mode!r}")


def worst(leases: Sequence[Lease], done: Mapping[Lease, Release]) -> Released:
    """Returns the result of the release of all: of the first one that was not held until then, if there is one.

    Raises NotAllReleased if the release of one is not confirmed.
    """
    unconfirmed = [(it.name, error) for it in leases if it in done and (error := done[it].error) is not None]
    if unconfirmed:
        raise NotAllReleased(tuple(name for name, _ in unconfirmed), unconfirmed[0][1])
    results = [it.result for it in leases if it.result is not None]
    return next((it for it in results if it.end is not LeaseEnd.RELEASED), results[0])


def first_loss(leases: Sequence[Lease]) -> LockLost | None:
    """Returns how one of them was lost, as far as that is known."""
    lost = ((it, it.lost) for it in leases)
    return next((lost_error(lease, loss) for lease, loss in lost if loss is not None), None)


def lost_at_exit(leases: Sequence[Lease], before: LockLost | None) -> LockLost | None:
    """Returns how one of them was lost before the end of the body; None if all were held until their release."""
    for lease in leases:
        if before is None and (loss := outcome.lost_at_exit(None, lease.result)) is not None:
            return lost_error(lease, loss)
    return before
