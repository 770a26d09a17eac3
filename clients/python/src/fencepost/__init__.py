"""Client of Fencepost, the lock server with fencing tokens.

    from fencepost import Client

    with Client("127.0.0.1:7420") as client:
        with client.lock("orders/42", ttl=10, wait=30) as lock:
            print(lock.token)  # send it with every write

``fencepost.aio`` has the same for asyncio, ``fencepost.testing`` a server and locks for tests, ``fencepost.guards`` the
check of tokens in the stores.
"""

from importlib.metadata import version

from fencepost._client import Client
from fencepost._core.options import Tls, Token
from fencepost._lock import Lock, LostEvent
from fencepost._lock_set import LockSet
from fencepost._wanted import WantedEvent
from fencepost._watch import Observation, Watch
from fencepost.errors import (
    ClientClosed,
    Contended,
    FencepostError,
    FieldViolation,
    LockLost,
    NotAllAcquired,
    NotAllReleased,
    OutcomeUnknown,
    Refused,
    StaleToken,
    TimedOut,
    Unavailable,
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

__version__ = version("fencepost")

__all__ = [
    "Client",
    "ClientClosed",
    "Contended",
    "Event",
    "EventKind",
    "FencepostError",
    "FieldViolation",
    "Holder",
    "LeaseEnd",
    "Lock",
    "LockDelay",
    "LockInfo",
    "LockLost",
    "LockMode",
    "LockSet",
    "Loss",
    "LossReason",
    "LostEvent",
    "NotAllAcquired",
    "NotAllReleased",
    "Observation",
    "OutcomeUnknown",
    "Refused",
    "Released",
    "Semaphore",
    "StaleToken",
    "TimedOut",
    "Tls",
    "Token",
    "TokenCheck",
    "TokenStatus",
    "Unavailable",
    "Waiter",
    "WantedEvent",
    "Watch",
    "__version__",
]
