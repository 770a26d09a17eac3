"""The requests of the API, from the arguments of a caller."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from datetime import timedelta

from google.protobuf.duration_pb2 import Duration

from fencepost._core import convert
from fencepost._core.convert import duration, text, token
from fencepost._facts import PERMITS_MAX, REQUEST_BYTES_MAX
from fencepost.errors import Refused
from fencepost.v1 import lock_pb2 as pb

# The envelope of an operation takes at most 25 bytes. A larger message would end the session, with all other operations
# on it.
_BYTES_MAX = REQUEST_BYTES_MAX - 32

_UINT32 = 2**32 - 1
_UINT64 = 2**64 - 1


def acquire(
    name: str,
    ttl: float | timedelta | None,
    wait: float | timedelta,
    holder: str,
    metadata: Mapping[str, str] | None,
    request_id: str | uuid.UUID | None,
    min_token: int,
    max_hold: float | timedelta | None = None,
    min_hold: float | timedelta | None = None,
    lock_delay: float | timedelta | None = None,
    shared: bool = False,
    semaphore: int | None = None,
    permits: int | None = None,
    permit_limit_version: int | None = None,
    owner: str | None = None,
    max_waiters: int | None = None,
    tell_when_wanted: bool = False,
) -> pb.AcquireRequest:
    """Builds the request of an acquire. Sets no request id if the caller gave none."""
    request = pb.AcquireRequest(
        lock_name=text(name, "name"),
        holder=text(holder, "holder"),
        ttl=None if ttl is None else duration(convert.ttl(ttl)),
        wait_timeout=duration(convert.wait(wait)),
        request_id="" if request_id is None else _uuid(request_id),
        metadata=convert.metadata(metadata),
        min_token=token(min_token, "min_token"),
        max_hold=None if max_hold is None else duration(convert.max_hold(max_hold)),
        min_hold=_unless_0(0.0 if min_hold is None else convert.min_hold(min_hold)),
        lock_delay=_unless_0(0.0 if lock_delay is None else convert.lock_delay(lock_delay)),
        mode=pb.LOCK_MODE_SHARED if convert.flag(shared, "shared") else None,
        owner=None if owner is None else text(owner, "owner"),
        max_waiters=None if max_waiters is None else convert.integer(max_waiters, "max_waiters", 1, _UINT32),
        tell_when_wanted=convert.flag(tell_when_wanted, "tell_when_wanted"),
    )
    if semaphore is not None:
        _set_semaphore(request, semaphore, permits, permit_limit_version)
    elif permits is not None or permit_limit_version is not None:
        raise ValueError("permits and permit_limit_version are those of a semaphore: name its limit with semaphore=")
    size = request.ByteSize()
    if size > _BYTES_MAX:
        message = f"the request has {size} bytes, the maximum is {_BYTES_MAX}: shorten its fields"
        raise Refused("INVALID_ARGUMENT", "INVALID_FIELD", message)
    return request


def _set_semaphore(request: pb.AcquireRequest, limit: int, permits: int | None, version: int | None) -> None:
    if request.mode == pb.LOCK_MODE_SHARED:
        raise ValueError("a lock is either shared or a semaphore, not both")
    request.mode = pb.LOCK_MODE_SEMAPHORE
    request.permit_limit = convert.integer(limit, "semaphore", 1, PERMITS_MAX)
    request.permits = 1 if permits is None else convert.integer(permits, "permits", 1, limit)
    request.permit_limit_version = (
        0 if version is None else convert.integer(version, "permit_limit_version", 0, _UINT64)
    )


def permits(request: pb.AcquireRequest) -> int:
    """Returns the permits of a semaphore that a request asks for; 0 if it asks for none."""
    return max(request.permits, 1) if request.mode == pb.LOCK_MODE_SEMAPHORE else 0


def _unless_0(span: float) -> Duration | None:
    """Returns a duration; None for 0, which means the same and needs no server that knows the field."""
    return duration(span) if span else None


def _uuid(value: str | uuid.UUID) -> str:
    try:
        return str(uuid.UUID(str(value)))
    except ValueError:
        raise ValueError(f"request_id must be a UUID, not {value!r}") from None


def check_token(name: str, fencing_token: int) -> pb.CheckTokenRequest:
    """Builds the request of a check."""
    return pb.CheckTokenRequest(lock_name=text(name, "name"), fencing_token=token(fencing_token, "token"))
