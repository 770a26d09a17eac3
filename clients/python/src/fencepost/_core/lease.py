"""The state of one lease: until when it is valid, and how it ended.

The end is final. Every read and every renewal checks the clock first, so a process that was paused past the end finds
its lease lost whatever its timers say, and a late renewal never revives it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from fencepost._core import convert
from fencepost._core.timers import Timer
from fencepost._core.validity import Reading, overdue_at
from fencepost.types import LockMode, Loss, Released
from fencepost.v1 import lock_pb2 as pb

# A server rounds a TTL that was asked for to microseconds.
_ROUNDING = 0.001


class Change(Protocol):
    """A change of a lease that is held."""

    def start(self, now: float) -> None:
        """The changes before it are made."""
        ...

    def ended(self) -> None:
        """The lease has ended."""
        ...


class Lease:
    """One lease of this process."""

    __slots__ = (
        "_max_hold",
        "at_risk",
        "attempt",
        "bounded",
        "changes",
        "description",
        "given_up",
        "grant_id",
        "lease_id",
        "lock_delay",
        "lost",
        "mode",
        "name",
        "on_at_risk",
        "on_end",
        "on_wanted",
        "permits",
        "reattached",
        "released",
        "result",
        "slot",
        "timer",
        "token",
        "ttl",
        "valid_until",
        "wanted",
    )

    def __init__(
        self,
        lease: pb.Lease,
        reading: Reading,
        ttl: float,
        *,
        max_hold: bool = False,
        lock_delay: float = 0.0,
        permits: int = 0,
        mode: pb.LockMode = pb.LOCK_MODE_UNSPECIFIED,
    ) -> None:
        self.name = lease.lock_name
        self.lease_id = lease.lease_id
        """A secret: never logged."""
        self.grant_id = lease.grant_id
        self.token = lease.fencing_token
        """That of the grant, or of the last conversion."""
        self.mode: LockMode = convert.mode(mode)
        """Which others it excludes now."""
        self.permits = permits
        """Its permits of a semaphore; 0 if it is none."""
        self.slot = lease.slot or None
        """Its slot, if it has one permit of a semaphore."""
        self.ttl = max(ttl, reading.ttl)
        self.valid_until = reading.valid_until()
        self.lost: Loss | None = None
        self.released = False
        """Whether a release was started."""
        self.result: Released | None = None
        """The result of its release, once that is known."""
        self.at_risk = False
        """Whether a renewal has failed since the last one that succeeded."""
        self._max_hold = max_hold
        """Whether one was asked for. Without it, a renewal that answers less than the TTL only shows that somebody else
        renewed the lease with a shorter one."""
        self.lock_delay = lock_delay
        """How long the lock stays unavailable after it if nobody releases it. A late release ends that."""
        self.bounded = False
        """Whether the last renewal answered less than the TTL: the lease ends by its ``max_hold``, and misses no
        renewal."""
        self.attempt = 1
        """The number of the latest attachment; the grant is the first."""
        self.reattached = False
        """Whether it was attached again on the current session, after another attachment had replaced it."""
        self.given_up = False
        """Whether another process keeps it: no session of this client attaches it any more."""
        self.description: int | None = 0
        """The number of its last description; None if another process may have made some."""
        self.wanted: LockMode | None = None
        """The mode that somebody waits for whom it excludes, as far as a server has told."""
        self.changes: list[Change] = []
        """Those that are asked for, and not made yet. The first one is being made."""
        self.timer: Timer | None = None
        """The engine's next check of it."""
        self.on_end: Callable[[], None] | None = None
        self.on_at_risk: Callable[[], None] | None = None
        self.on_wanted: Callable[[], None] | None = None

    @property
    def is_over(self) -> bool:
        """Whether its end is known. The clock may know better."""
        return self.released or self.lost is not None

    def is_valid(self, now: float) -> bool:
        return not self.is_over and now < self.valid_until

    def remaining(self, now: float) -> float:
        """Returns how long it is valid without a renewal; 0 if it is over."""
        return 0.0 if self.is_over else max(self.valid_until - now, 0.0)

    def overdue_at(self) -> float:
        """Returns when a renewal must have failed. Of a lease that no renewal extends, that is its end."""
        return self.valid_until if self.bounded else overdue_at(self.valid_until, self.ttl)

    def renewed(self, reading: Reading) -> None:
        """Applies a renewal. The end of the validity only moves forward."""
        if self.is_over or reading.read >= self.valid_until:
            return
        self.bounded = self._max_hold and reading.ttl < self.ttl - _ROUNDING
        self.ttl = max(self.ttl, reading.ttl)
        until = reading.valid_until()
        if until > self.valid_until:
            self.valid_until = until
            self.at_risk = False

    def risk(self) -> bool:
        """A renewal failed. Returns whether that is news."""
        if self.is_over or self.at_risk:
            return False
        self.at_risk = True
        if self.on_at_risk is not None:
            self.on_at_risk()
        return True

    def want(self, mode: LockMode) -> None:
        """Somebody waits for the lock."""
        if not self.is_over:
            self.wanted = mode
            if self.on_wanted is not None:
                self.on_wanted()

    def lose(self, loss: Loss) -> bool:
        """Ends the lease. Returns whether that is news."""
        if self.is_over:
            return False
        self.lost = loss
        self._end()
        return True

    def release(self) -> None:
        """The holder gives it back, lost or not."""
        if not self.is_over:
            self.released = True
            self._end()
        self.released = True

    def _end(self) -> None:
        on_end, self.on_end, self.on_at_risk, self.on_wanted = self.on_end, None, None, None
        if on_end is not None:
            on_end()
        changes, self.changes = self.changes, []
        for change in changes:
            change.ended()
