"""What a client answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum


class LeaseEnd(str, Enum):
    """How a lease ended."""

    UNSPECIFIED = "unspecified"
    """No end is known. Servers remember ends for 10 s."""
    RELEASED = "released"
    EXPIRED = "expired"
    """Its TTL passed without a renewal. The work that it protected may be unfinished."""
    REVOKED = "revoked"
    """An operator revoked it."""
    SUPERSEDED = "superseded"
    """It ended longer ago than the server remembers, and another lease was granted since."""
    UNKNOWN = "unknown"
    """The server does not know the lease."""


class LockMode(str, Enum):
    """Which other holders a lock excludes."""

    EXCLUSIVE = "exclusive"
    """All others."""
    SHARED = "shared"
    """Those that do not share it."""
    SEMAPHORE = "semaphore"
    """Those that are not of the semaphore, and those for which it has no permits left."""


class LossReason(str, Enum):
    """Why a lock was lost."""

    MAX_HOLD = "max_hold"
    """The lock was held for as long as ``max_hold`` allows."""
    EXPIRED = "expired"
    """The server reports that the lease expired."""
    REVOKED = "revoked"
    """An operator revoked the lease."""
    SUPERSEDED = "superseded"
    """The server reports that another lease was granted since."""
    RELEASED = "released"
    """Somebody else who knows the lease id released it."""
    UNKNOWN = "unknown"
    """The server does not know the lease."""
    SILENCE = "silence"
    """The validity ended by the local clock before a renewal arrived: no server was reachable, or this process was
    paused for too long."""


@dataclass(frozen=True)
class Loss:
    """How a lock was lost."""

    reason: LossReason
    successor_token: int | None = None
    """The token of the lease that holds the lock now, if the server said so."""


@dataclass(frozen=True)
class Released:
    """The result of a release."""

    end: LeaseEnd
    """``RELEASED``: by this release. Anything else: the lease had ended before, and only the token protected the work
    done since then. ``UNSPECIFIED`` if the lock was lost by ``SILENCE`` or ``MAX_HOLD``: no server has reported an
    end."""
    successor_token: int | None = None
    """If it had ended before: the token of the lease that holds the lock now, if there is one."""


@dataclass(frozen=True)
class Holder:
    """A holder of a lock, as others see it. Times are in seconds."""

    holder: str
    """The label that the holder gave itself."""
    token: int
    """The fencing token; 0 for a classic Redis client, which has none."""
    grant_id: str
    """The public id of the grant; empty for a classic Redis client."""
    ttl: float | None
    """The TTL of the lease, which each renewal restores."""
    expires_in: float | None
    """The time until the lease ends unless it is renewed."""
    held_since: float | None
    """The time since the grant."""
    metadata: Mapping[str, str] = field(default_factory=dict[str, str])
    shared: bool = False
    """Whether it shares the lock with others (``shared=True``)."""
    permits: int = 0
    """Its permits of a semaphore; 0 if the lock is held as none."""
    slot: int | None = None
    """Its slot, if it has one permit of a semaphore."""
    owner: str = ""
    """The owner that its request named; empty if it named none."""
    identity: str = ""
    """Who it is, as a server with access rules verified it; empty if it did not. The label proves nothing."""
    description: int = 0
    """The number of its last description; 0 if it never described itself anew."""


@dataclass(frozen=True)
class Semaphore:
    """The permits of a semaphore that is held."""

    used: int
    """How many its holders use. More than the limit only after that was lowered."""
    limit: int
    """The limit in force."""
    version: int
    """The version of the limit."""


@dataclass(frozen=True)
class LockDelay:
    """Why nobody gets a lock that nobody holds: its last lease asked for ``min_hold`` or ``lock_delay``."""

    remaining: float
    """For how many seconds the lock stays unavailable."""
    holder: str
    """The label of the holder of that lease."""
    token: int
    """The fencing token of that lease. An operator who force-releases it makes the lock available."""


@dataclass(frozen=True)
class LockInfo:
    """The public state of a lock. It may be out of date when it arrives."""

    name: str
    holders: tuple[Holder, ...]
    """Empty if nobody holds the lock; see ``delay``. One, or the oldest of those that hold it together: at
    most 8."""
    waiters: int
    """The number of requests that wait."""
    previous_end: LeaseEnd
    """How the lease before the current one ended; before the newest one, if the lock is shared."""
    newest_token: int
    """The highest token granted; 0 if none is remembered."""
    delay: LockDelay | None = None
    """Why nobody gets the lock, if nobody holds it; None if nothing delays it."""
    holder_count: int = 0
    """How many holders the lock has in all."""
    semaphore: Semaphore | None = None
    """Its permits, if it is held as a semaphore."""


@dataclass(frozen=True)
class Waiter:
    """A request in the queue of a lock."""

    holder: str
    """The label that the waiter gave itself."""
    owner: str
    """The owner that it named; empty if it named none."""
    identity: str
    """Who it is, as a server with access rules verified it; empty if it did not."""
    waiter_id: str
    """Distinguishes it from others, and stays the same while it waits."""
    mode: LockMode
    """The mode that it waits for."""
    permits: int
    """The permits of a semaphore that it waits for; 0 if it waits for none."""
    waiting_since: float
    """For how many seconds it has been in this queue. It counts anew when another server takes the lock over."""
    skipped: bool
    """Whether the queue passes over it now, and keeps its place for a few seconds: nobody answers for it."""


class EventKind(str, Enum):
    """What happened to a lock."""

    GRANTED = "granted"
    RELEASED = "released"
    EXPIRED = "expired"
    """Reported when the server notices, which may be late if nobody wants the lock."""
    REVOKED = "revoked"
    MISSED = "missed"
    """Events were lost: list again to get the current state."""
    CHANGED = "changed"
    """Its holder converted or described it: token, mode and label are those that it has now."""


@dataclass(frozen=True)
class Event:
    """An event of a watch."""

    kind: EventKind
    name: str = ""
    token: int = 0
    holder: str = ""
    grant_id: str = ""
    reason: str = ""
    """With ``REVOKED``: the reason that the operator gave. With ``EXPIRED``: that the lease ended by its max_hold."""
    missed: int = 0
    """With ``MISSED``: the lowest possible number of events lost; 0 if it is not known."""
    identity: str = ""
    """The verified identity of the holder, as in :class:`Holder`."""
    mode: LockMode | None = None
    """With ``CHANGED``: the mode of the lock from now on."""


class TokenStatus(str, Enum):
    """Whether a token is that of a current lease."""

    CURRENT = "current"
    """Accept the write."""
    ENDED = "ended"
    """The newest token, but its lease has ended. Refuse the write."""
    STALE = "stale"
    """A newer token has been granted. Refuse the write."""
    UNKNOWN = "unknown"
    """The server does not remember the token. Refuse the write."""


@dataclass(frozen=True)
class TokenCheck:
    """The result of a check of a token."""

    status: TokenStatus
    newest_token: int
    """The highest token granted for the lock; 0 if none is remembered."""

    def __bool__(self) -> bool:
        """Whether to accept the write."""
        return self.status is TokenStatus.CURRENT
