"""What both drivers need of gRPC: channels, credentials, methods and errors."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import grpc
from google.protobuf.message import Message
from google.rpc.status_pb2 import Status

from fencepost._core import failure
from fencepost._core.address import Address
from fencepost._core.failure import Failure
from fencepost._core.options import Options
from fencepost._core.port import Answer, Request
from fencepost._core.session import Session
from fencepost._facts import CONNECT_TIMEOUT_MS, RETRY_FIRST_MS, RETRY_MAX_MS, STORE_ID_METADATA
from fencepost.errors import Refused
from fencepost.v1 import lock_pb2 as pb

RequestT = TypeVar("RequestT", bound=Message)
ResponseT = TypeVar("ResponseT", bound=Message)

Metadata = tuple[tuple[str, str], ...]
"""What is sent with a call."""

# The interval of pings on an idle connection, and the time for their answer: how a dead connection is noticed.
_PING_INTERVAL_MS = 10_000
_PING_TIMEOUT_MS = 5_000

# The message of the error in a forked child. gRPC does not work there, so a new client would not help.
FORKED = (
    "this client was made before a fork: start the process with the method 'spawn' of multiprocessing, or before the "
    "first client is made"
)

_OPTIONS: tuple[tuple[str, int | str], ...] = (
    ("grpc.keepalive_time_ms", _PING_INTERVAL_MS),
    ("grpc.keepalive_timeout_ms", _PING_TIMEOUT_MS),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    # The smallest allowed time for connecting is also the default.
    ("grpc.min_reconnect_backoff_ms", CONNECT_TIMEOUT_MS),
    ("grpc.initial_reconnect_backoff_ms", RETRY_FIRST_MS),
    ("grpc.max_reconnect_backoff_ms", RETRY_MAX_MS),
    # A connection that failed does not make another channel to the same server wait.
    ("grpc.use_local_subchannel_pool", 1),
    # A lock server is not on the other side of a web proxy.
    ("grpc.enable_http_proxy", 0),
    ("grpc.enable_retries", 0),
)


def channel_options(address: Address) -> list[tuple[str, int | str]]:
    """Returns the options of a channel."""
    # gRPC would send the path of a Unix socket as the name of the server, and HTTP/2 servers refuse that.
    return [*_OPTIONS, ("grpc.default_authority", "localhost")] if address.path else [*_OPTIONS]


_NO_MESSAGE = "the call ended with {}"


@dataclass(frozen=True)
class Method(Generic[RequestT, ResponseT]):
    """A method of the service."""

    name: str
    request: type[RequestT]
    response: type[ResponseT]

    @property
    def path(self) -> str:
        return f"/fencepost.v1.LockService/{self.name}"

    @property
    def serialize(self) -> Callable[[RequestT], bytes]:
        return self.request.SerializeToString

    @property
    def deserialize(self) -> Callable[[bytes], ResponseT]:
        return self.response.FromString


SESSION = Method("Session", pb.SessionRequest, pb.SessionResponse)
ACQUIRE = Method("Acquire", pb.AcquireRequest, pb.AcquireResponse)
CONVERT = Method("Convert", pb.ConvertRequest, pb.ConvertResponse)
DESCRIBE = Method("Describe", pb.DescribeRequest, pb.DescribeResponse)
GET = Method("Get", pb.GetRequest, pb.GetResponse)
LIST = Method("List", pb.ListRequest, pb.ListResponse)
WATCH = Method("Watch", pb.WatchRequest, pb.WatchResponse)
OBSERVE = Method("Observe", pb.ObserveRequest, pb.ObserveResponse)
WAITERS = Method("ListWaiters", pb.ListWaitersRequest, pb.ListWaitersResponse)
CHECK_TOKEN = Method("CheckToken", pb.CheckTokenRequest, pb.CheckTokenResponse)


_OF_REQUESTS: dict[type[Request], Method[Any, Any]] = {it.request: it for it in (ACQUIRE, CONVERT, DESCRIBE)}


def method_of(request: Request) -> Method[Request, Answer]:
    """Returns the method of a call apart from a session."""
    return _OF_REQUESTS[type(request)]


def credentials(options: Options, address: Address) -> grpc.ChannelCredentials | None:
    """Reads the files of TLS; None for a server without it. Raises Refused if a file cannot be read."""
    if not address.tls:
        return None
    try:
        files = options.read_tls()
    except OSError as error:
        raise Refused("FAILED_PRECONDITION", "", f"cannot read the files of TLS: {error}") from error
    return grpc.ssl_channel_credentials(files.ca, files.key, files.cert)


def store_id(headers: Iterable[Any] | None) -> str | None:
    """Reads the id of a server's store from the headers of a stream; None from an older server."""
    return next((value for key, value in headers or () if key == STORE_ID_METADATA), None)


def rpc_failure(code: grpc.StatusCode, message: str | None, metadata: Iterable[Any] | None) -> Failure:
    """Reads the status of a call."""
    status = Status()
    for key, value in metadata or ():
        if key == "grpc-status-details-bin" and isinstance(value, bytes):
            status.MergeFromString(value)
    return failure.from_status(code.name, message or _NO_MESSAGE.format(code.name), status.details)


def session_failure(session: Session, address: Address, why: Failure) -> Failure:
    """Returns why the call of a session ended. Before it was connected nothing was sent, and a refusal is final."""
    if is_foreign(why):
        return failure.not_fencepost(address)
    return why if session.connected or why.is_final else unreached(address, why)


def unreached(address: Address, why: Failure) -> Failure:
    """Returns the failure of a call that reads, or of a session without a connection. A server did nothing for it."""
    if is_foreign(why):
        return failure.not_fencepost(address)
    # A server that answers gives a reason.
    if why.reason or not why.is_transient:
        return why
    text = "no answer in time" if why.code == "DEADLINE_EXCEEDED" else f"the connection failed: {why.message}"
    return failure.unsent(f"{address}: {text}")


def is_foreign(why: Failure) -> bool:
    """Whether a server of another service answered."""
    return why.code == "UNIMPLEMENTED" and not why.reason
