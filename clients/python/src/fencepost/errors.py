"""The errors of a client. All are subclasses of :class:`FencepostError`."""

from __future__ import annotations

from dataclasses import dataclass

from fencepost._facts import (
    LOST_EXPIRED,
    LOST_MAX_HOLD,
    LOST_RELEASED,
    LOST_REVOKED,
    LOST_SILENCE,
    LOST_SUPERSEDED,
    LOST_UNKNOWN,
)
from fencepost.types import Holder, LockDelay, LossReason, Semaphore


class FencepostError(Exception):
    """The base of all errors of this package."""


class _NotAcquired(FencepostError):
    def __init__(
        self,
        name: str,
        holders: tuple[Holder, ...],
        holder_count: int,
        waiters: int,
        delay: LockDelay | None = None,
        semaphore: Semaphore | None = None,
    ) -> None:
        super().__init__(name, holders, holder_count, waiters, delay, semaphore)
        self.name = name
        self.holders = holders
        """One, or the oldest of those that hold the lock together: at most 8. Empty while the lock is offered to the
        next waiter, and if a ``delay`` alone keeps it."""
        self.holder_count = holder_count
        """How many holders the lock has in all."""
        self.waiters = waiters
        """The number of requests that wait for the lock."""
        self.delay = delay
        """Why nobody gets the lock although nobody holds it, or why a place of it is not free beside the holders; None
        if there is no such delay."""
        self.semaphore = semaphore
        """Its permits, if it is held as a semaphore."""

    def _is_taken(self) -> str:
        states = [self._is_held()] if self.holders else []
        if self.delay is not None:
            left, after = f"{self.delay.remaining:.1f} s", self.delay.holder or "its last lease"
            states.append(f"is unavailable for another {left} (delay after {after})")
        state = ", and a place of it ".join(states) or "is being offered to the next waiter"
        return f"{state}, {self.waiters} waiting"

    def _is_held(self) -> str:
        """Names the holders that have a label, and counts all others: those without one, and those not shown."""
        labels = [it.holder for it in self.holders if it.holder]
        more = self.holder_count - len(labels)
        if not labels:
            return f"is held by {more} holders" if more > 1 else "is held"
        return f"is held by {' and '.join([*labels, f'{more} more'] if more > 0 else labels)}"


class Contended(_NotAcquired):
    """The lock is not free, and no wait was requested, or ``max_waiters`` wait already. Nothing was changed."""

    def __str__(self) -> str:
        return f"{self.name} {self._is_taken()}"


class TimedOut(_NotAcquired, TimeoutError):
    """The wait ended without a grant. The request has left the queue."""

    def __str__(self) -> str:
        return f"timed out waiting for {self.name}: it {self._is_taken()}"


_LOSSES = {
    LossReason.EXPIRED: LOST_EXPIRED,
    LossReason.REVOKED: LOST_REVOKED,
    LossReason.SUPERSEDED: LOST_SUPERSEDED,
    LossReason.RELEASED: LOST_RELEASED,
    LossReason.UNKNOWN: LOST_UNKNOWN,
    LossReason.MAX_HOLD: LOST_MAX_HOLD,
    LossReason.SILENCE: LOST_SILENCE,
}


class LockLost(FencepostError):
    """The lock was lost before it was released. Others may hold it, and only the token protects your writes."""

    def __init__(self, name: str, token: int, reason: LossReason, successor_token: int | None = None) -> None:
        super().__init__(name, token, reason, successor_token)
        self.name = name
        self.token = token
        """The fencing token of the lost lease."""
        self.reason = reason
        self.successor_token = successor_token
        """The token of the lease that holds the lock now, if the server said so."""

    def __str__(self) -> str:
        successor = f"; token {self.successor_token} holds it now" if self.successor_token else ""
        return f"{self.name} (token {self.token}) is lost: {_LOSSES[self.reason]}{successor}"


class NotAllAcquired(FencepostError):
    """Several locks were asked for together, and one of them was not acquired, or was lost before the last one was. All
    others were given back.
    """

    def __init__(self, count: int, name: str, cause: FencepostError, given_back: tuple[str, ...]) -> None:
        super().__init__(count, name, cause, given_back)
        self.count = count
        """The number of locks that were asked for."""
        self.name = name
        """The lock that was not acquired, or that was lost."""
        self.cause = cause
        """Why: :class:`Contended`, :class:`TimedOut`, :class:`LockLost`, or another error of an acquire."""
        self.given_back = given_back
        """The locks that were acquired and given back, in this order. If no server has confirmed that, the client goes
        on to release them in the background."""
        self.__cause__ = cause

    def __str__(self) -> str:
        back = f"given back: {', '.join(self.given_back)}" if self.given_back else "none was held"
        return f"the {self.count} locks were not acquired, because of {self.name}: {self.cause}; {back}"


class NotAllReleased(FencepostError):
    """Several locks were released together, and the release of some is not confirmed. The others are released."""

    def __init__(self, names: tuple[str, ...], cause: FencepostError) -> None:
        super().__init__(names, cause)
        self.names = names
        """The locks whose release is not confirmed. They are free after their TTL at the latest."""
        self.cause = cause
        """Why the first of them is not: :class:`OutcomeUnknown` or :class:`Refused`."""
        self.__cause__ = cause

    def __str__(self) -> str:
        return f"the release of {', '.join(self.names)} is not confirmed: {self.cause}"


class OutcomeUnknown(FencepostError):
    """The server may or may not have applied the call, and the time for retries is over.

    After an acquire, the client goes on to withdraw the request in the background. After a release, it goes on to
    release until the lease is over. After a conversion or a description, call it again: a repeat does no harm.
    """

    def __init__(self, cause: FencepostError) -> None:
        super().__init__(cause)
        self.cause = cause
        """The error of the last transmission."""
        self.__cause__ = cause

    def __str__(self) -> str:
        return f"outcome unknown: {self.cause}"


@dataclass(frozen=True)
class FieldViolation:
    """A field of a request that breaks a rule."""

    field: str
    """The path of the field, as in ``lock.proto``."""
    description: str
    """The rule."""


class Refused(FencepostError):
    """The call was refused, by the server or by this client. Nothing was done: correct the request or the
    configuration. With the code ``"RESOURCE_EXHAUSTED"``, repeat it later.
    """

    def __init__(
        self,
        code: str,
        reason: str,
        message: str,
        violations: tuple[FieldViolation, ...] = (),
        retry_after: float | None = None,
    ) -> None:
        super().__init__(code, reason, message, violations, retry_after)
        self.code = code
        """The name of the gRPC code, such as ``"INVALID_ARGUMENT"``."""
        self.reason = reason
        """The reason as listed in ``lock.proto``, such as ``"INVALID_FIELD"``; empty if there is none."""
        self.message = message
        self.violations = violations
        """The fields that break a rule."""
        self.retry_after = retry_after
        """How long to wait before a repeat, in seconds, if the server said so: a queue or the server is full
        (``"QUEUE_FULL"``, ``"SERVER_FULL"``), or your quota on it is used up (``"QUOTA_EXCEEDED"``)."""

    def __str__(self) -> str:
        message = self.message or f"the server refused the call with {self.code} and without a message"
        return f"{message} ({self.reason})" if self.reason else message


class Unavailable(FencepostError):
    """Nothing was done, and a later call may succeed: no server could be reached, or each one that answered said that
    it did nothing.
    """

    def __init__(self, message: str, reason: str = "", permanent: bool = False) -> None:
        super().__init__(message, reason, permanent)
        self.message = message
        self.reason = reason
        """The reason that a server gave, such as ``"DRAINING"``; empty if none was reached."""
        self.permanent = permanent
        """Whether only a change of an address or of a certificate helps."""

    def __str__(self) -> str:
        return self.message


class ClientClosed(FencepostError):
    """The client is closed, this process was forked after the client was made, or the interpreter ends."""

    def __init__(self, message: str = "the client is closed") -> None:
        super().__init__(message)


class StaleToken(FencepostError):
    """A guard refused a write: the store has seen a newer token of the lock."""

    def __init__(self, name: str, token: int, newest: int) -> None:
        super().__init__(name, token, newest)
        self.name = name
        self.token = token
        """The token of the refused write."""
        self.newest = newest
        """The highest token that the store has seen."""

    def __str__(self) -> str:
        return f"token {self.token} of {self.name} is stale: the store has seen {self.newest}"
