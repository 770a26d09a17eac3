"""Between the messages of the API and the values of this package."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from datetime import timedelta

from google.protobuf.duration_pb2 import Duration

from fencepost._facts import (
    LOCK_DELAY_MAX_MS,
    MAX_HOLD_MAX_MS,
    MIN_HOLD_MAX_MS,
    TOKEN_MAX,
    TTL_MAX_MS,
    TTL_MIN_MS,
    WAIT_MAX_MS,
)
from fencepost.types import (
    Event,
    EventKind,
    Holder,
    LeaseEnd,
    LockDelay,
    LockInfo,
    LockMode,
    Loss,
    LossReason,
    Released,
    Semaphore,
    TokenCheck,
    TokenStatus,
    Waiter,
)
from fencepost.v1 import lock_pb2 as pb

_NANOS = 1_000_000_000

# Far above what any server allows, and within the range of the message.
_SECONDS_MAX = 1e9

_TTL_RULE = f"from {TTL_MIN_MS // 1000} to {TTL_MAX_MS // 1000} seconds"
_MAX_HOLD_RULE = f"from the TTL to {MAX_HOLD_MAX_MS // 1000} seconds"
_MIN_HOLD_RULE = f"from 0 to {MIN_HOLD_MAX_MS // 1000} seconds"
_LOCK_DELAY_RULE = f"from 0 to {LOCK_DELAY_MAX_MS // 1000} seconds"
_WAIT_RULE = f"from 0 to {WAIT_MAX_MS // 1000} seconds"

_ENDS = {
    pb.LEASE_END_RELEASED: LeaseEnd.RELEASED,
    pb.LEASE_END_EXPIRED: LeaseEnd.EXPIRED,
    pb.LEASE_END_REVOKED: LeaseEnd.REVOKED,
    pb.LEASE_END_SUPERSEDED: LeaseEnd.SUPERSEDED,
    pb.LEASE_END_UNKNOWN: LeaseEnd.UNKNOWN,
}

_MODES = {pb.LOCK_MODE_SHARED: LockMode.SHARED, pb.LOCK_MODE_SEMAPHORE: LockMode.SEMAPHORE}

_LOSSES = {
    LeaseEnd.EXPIRED: LossReason.EXPIRED,
    LeaseEnd.REVOKED: LossReason.REVOKED,
    LeaseEnd.SUPERSEDED: LossReason.SUPERSEDED,
    LeaseEnd.RELEASED: LossReason.RELEASED,
}

_EVENTS = {
    pb.WatchResponse.KIND_GRANTED: EventKind.GRANTED,
    pb.WatchResponse.KIND_RELEASED: EventKind.RELEASED,
    pb.WatchResponse.KIND_EXPIRED: EventKind.EXPIRED,
    pb.WatchResponse.KIND_REVOKED: EventKind.REVOKED,
    pb.WatchResponse.KIND_MISSED: EventKind.MISSED,
    pb.WatchResponse.KIND_CHANGED: EventKind.CHANGED,
}

_STATUSES = {
    pb.CheckTokenResponse.STATUS_CURRENT: TokenStatus.CURRENT,
    pb.CheckTokenResponse.STATUS_ENDED: TokenStatus.ENDED,
    pb.CheckTokenResponse.STATUS_STALE: TokenStatus.STALE,
}


def text(value: object, what: str) -> str:
    """Returns a text that a caller passed, if UTF-8 can encode it."""
    if not isinstance(value, str):
        raise TypeError(f"{what} must be a str, not {type(value).__name__}")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"{what} has a character that UTF-8 cannot encode, at {error.start}: {value!r}") from None
    return value


def token(value: int, what: str) -> int:
    """Returns a fencing token that a caller passed."""
    return integer(value, what, 0, TOKEN_MAX)


def integer(value: int, what: str, lowest: int, highest: int) -> int:
    """Returns a whole number that a caller passed."""
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{what} must be an int, not {type(value).__name__}") from None
    if not lowest <= number <= highest:
        raise ValueError(f"{what} must be from {lowest} to {highest}, not {value}")
    return number


def ttl(value: float | timedelta) -> float:
    """Returns a TTL that a caller passed, in seconds. A server may be configured for others than those of the rule."""
    return seconds(value, "ttl", _TTL_RULE)


def max_hold(value: float | timedelta) -> float:
    """Returns the longest time to hold a lock that a caller passed, in seconds. 0 would mean no bound at all."""
    span = seconds(value, "max_hold", _MAX_HOLD_RULE)
    if span <= 0:
        raise ValueError(f"max_hold must be {_MAX_HOLD_RULE}, not {value!r}")
    return span


def min_hold(value: float | timedelta) -> float:
    """Returns the time after a grant in which nobody else gets the lock that a caller passed, in seconds. 0 is none."""
    return seconds(value, "min_hold", _MIN_HOLD_RULE)


def lock_delay(value: float | timedelta) -> float:
    """Returns the delay after a lease that is not released that a caller passed, in seconds. 0 is none."""
    return seconds(value, "lock_delay", _LOCK_DELAY_RULE)


def wait(value: float | timedelta) -> float:
    """Returns a wait that a caller passed, in seconds."""
    return seconds(value, "wait", _WAIT_RULE)


def seconds(value: float | timedelta, what: str, rule: str, longest: float = _SECONDS_MAX) -> float:
    """Returns a duration that a caller passed, in seconds."""
    try:
        # A text and a bool are mistakes, although Python can make a float of them.
        number = value.total_seconds() if isinstance(value, timedelta) else float(value)
        is_number = not isinstance(value, (str, bytes, bytearray, bool))
    except (TypeError, ValueError):
        number, is_number = 0.0, False
    if not is_number:
        raise TypeError(f"{what} must be {rule}, not {value!r}")
    if not 0 <= number <= longest:
        raise ValueError(f"{what} must be {rule}, not {value!r}")
    return number


def timeout(value: float) -> float:
    """Returns a timeout that a caller passed, in seconds. One that is over already is 0."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):  # pyright: ignore[reportUnnecessaryIsInstance]
        return max(value, 0.0)
    raise TypeError(f"timeout must be a number of seconds, not {value!r}")


def flag(value: object, what: str) -> bool:
    """Returns a bool that a caller passed. A text such as "no" is a mistake."""
    if not isinstance(value, bool):
        raise TypeError(f"{what} must be a bool, not {value!r}")
    return value


def metadata(value: Mapping[str, str] | None) -> dict[str, str]:
    """Returns the metadata that a caller passed."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f"metadata must be a mapping of str to str, not {type(value).__name__}")
    return {text(key, "a key of metadata"): text(it, f"metadata[{key!r}]") for key, it in value.items()}


def on_wanted(value: object, asked: bool) -> None:
    """Checks the callback of a lock that somebody waits for. No server tells of that unasked."""
    callback(value, "on_wanted")
    if value is not None and not asked:
        raise ValueError("on_wanted is called only with tell_when_wanted=True")


def body(value: object) -> None:
    """Checks a function that a caller passed."""
    if not callable(value):
        raise TypeError(f"body must be a function, not {type(value).__name__}")


def callback(value: object, what: str) -> None:
    """Checks a callback that a caller passed."""
    if value is not None and not callable(value):
        raise TypeError(f"{what} must be a function or None, not {type(value).__name__}")


def duration(value: float) -> Duration:
    """Returns the message of a number of seconds."""
    whole, nanos = divmod(round(value * _NANOS), _NANOS)
    return Duration(seconds=whole, nanos=nanos)


def from_duration(value: Duration) -> float:
    return value.seconds + value.nanos / _NANOS


def lease_end(end: pb.LeaseEnd) -> LeaseEnd:
    return _ENDS.get(end, LeaseEnd.UNSPECIFIED)


def mode(value: pb.LockMode) -> LockMode:
    return _MODES.get(value, LockMode.EXCLUSIVE)


def loss(end: pb.LeaseEnd, successor_token: int) -> Loss:
    return Loss(loss_reason(lease_end(end)), successor_token or None)


def loss_reason(end: LeaseEnd) -> LossReason:
    return _LOSSES.get(end, LossReason.UNKNOWN)


def released(answer: pb.ReleaseResponse) -> Released:
    return Released(lease_end(answer.end), answer.successor_token or None)


def holder(message: pb.LockHolder) -> Holder:
    return Holder(
        holder=message.holder,
        token=message.fencing_token,
        grant_id=message.grant_id,
        ttl=from_duration(message.ttl) if message.HasField("ttl") else None,
        expires_in=from_duration(message.expires_in) if message.HasField("expires_in") else None,
        held_since=from_duration(message.held_since) if message.HasField("held_since") else None,
        metadata=dict(message.metadata),
        shared=message.mode == pb.LOCK_MODE_SHARED,
        permits=message.permits,
        slot=message.slot or None,
        owner=message.owner,
        identity=message.identity,
        description=message.description,
    )


def semaphore(message: pb.AcquireResponse | pb.LockInfo) -> Semaphore | None:
    """Returns the permits of a lock; None if it is not held as a semaphore."""
    if not message.HasField("semaphore"):
        return None
    it = message.semaphore
    return Semaphore(it.permits_used, it.permit_limit, it.permit_limit_version)


def delay(message: pb.AcquireResponse | pb.LockInfo) -> LockDelay | None:
    """Returns the delay of a lock; None if there is none."""
    if not message.HasField("delay"):
        return None
    it = message.delay
    return LockDelay(from_duration(it.remaining), it.holder, it.fencing_token)


def lock_info(message: pb.LockInfo) -> LockInfo:
    return LockInfo(
        name=message.lock_name,
        holders=tuple(holder(it) for it in message.holders),
        waiters=message.waiters,
        previous_end=lease_end(message.previous_end),
        newest_token=message.newest_token,
        delay=delay(message),
        holder_count=message.holder_count,
        semaphore=semaphore(message),
    )


def waiter(message: pb.LockWaiter) -> Waiter:
    return Waiter(
        holder=message.holder,
        owner=message.owner,
        identity=message.identity,
        waiter_id=message.waiter_id,
        mode=mode(message.mode),
        permits=message.permits,
        waiting_since=from_duration(message.waiting_since),
        skipped=message.skipped,
    )


def event(message: pb.WatchResponse) -> Event | None:
    """Returns the event; None for one that says nothing about a lock."""
    kind = _EVENTS.get(message.kind)
    if kind is None:
        return None
    return Event(
        kind,
        name=message.lock_name,
        token=message.fencing_token,
        holder=message.holder,
        grant_id=message.grant_id,
        reason=message.reason,
        missed=message.missed,
        identity=message.identity,
        mode=mode(message.mode) if kind is EventKind.CHANGED else None,
    )


def token_check(message: pb.CheckTokenResponse) -> TokenCheck:
    return TokenCheck(_STATUSES.get(message.status, TokenStatus.UNKNOWN), message.newest_token)
