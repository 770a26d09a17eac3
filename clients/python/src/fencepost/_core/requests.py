"""The requests of the API, from the arguments of a caller."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from datetime import timedelta

from google.protobuf.duration_pb2 import Duration

from fencepost._core import convert
from fencepost._core.convert import duration, text, token
from fencepost._facts import REQUEST_BYTES_MAX
from fencepost.errors import Refused
from fencepost.v1 import lock_pb2 as pb

# The envelope of an operation takes at most 25 bytes. A larger message would end the session, with all other operations
# on it.
_BYTES_MAX = REQUEST_BYTES_MAX - 32


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
    )
    size = request.ByteSize()
    if size > _BYTES_MAX:
        message = f"the request has {size} bytes, the maximum is {_BYTES_MAX}: shorten its fields"
        raise Refused("INVALID_ARGUMENT", "INVALID_FIELD", message)
    return request


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
