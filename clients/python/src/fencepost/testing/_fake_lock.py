"""Locks without a server, for unit tests of code that takes a lock."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

from fencepost import aio
from fencepost._core.lease import Lease
from fencepost._core.validity import Reading
from fencepost._facts import DEFAULT_TTL_MS
from fencepost._lock import Lock
from fencepost.types import LeaseEnd, LockMode, Loss, LossReason, Released
from fencepost.v1 import lock_pb2 as pb

_TTL = DEFAULT_TTL_MS / 1000


class _Lease(Lease):
    """A lease that no clock ends. As long as it is held, it remains valid for its whole TTL."""

    __slots__ = ()

    def __init__(self, name: str, token: int, grant_id: str | None, ttl: float) -> None:
        lease = pb.Lease(lock_name=name, fencing_token=token, grant_id=grant_id or str(uuid.uuid4()))
        super().__init__(lease, Reading(0.0, 0.0, 0.0, ttl), ttl)

    def remaining(self, now: float) -> float:
        return 0.0 if self.is_over else self.ttl


class _Driver:
    """Does what a lock asks of the driver of a client, at once."""

    def check_use(self) -> None: ...

    def check(self, lease: Lease) -> bool:
        return not lease.is_over

    def watch(
        self, lease: Lease, on_end: Callable[[], None], _on_at_risk: object, on_wanted: Callable[[], None] | None
    ) -> None:
        lease.on_end, lease.on_wanted = on_end, on_wanted

    def give_up(self, lease: Lease) -> None: ...

    def convert(self, lease: Lease, mode: LockMode) -> Any:
        """Nobody else shares the lock, so an upgrade always succeeds."""
        lease.token += lease.mode is not mode and mode is LockMode.EXCLUSIVE
        lease.mode = mode
        return SimpleNamespace(error=None, converted=True)

    def describe(self, lease: Lease, _metadata: Mapping[str, str], _holder: str | None) -> Any:
        """Nobody else sees it."""
        lease.description = (lease.description or 0) + 1
        return SimpleNamespace(error=None, number=lease.description)

    def release(self, lease: Lease) -> Any:
        lease.release()
        return SimpleNamespace(error=None, result=Released(LeaseEnd.RELEASED))


class _AsyncDriver(_Driver):
    async def convert(self, lease: Lease, mode: LockMode) -> Any:
        return super().convert(lease, mode)

    async def describe(self, lease: Lease, metadata: Mapping[str, str], holder: str | None) -> Any:
        return super().describe(lease, metadata, holder)

    async def release(self, lease: Lease) -> Any:
        return super().release(lease)


class _Fake:
    """What a test does with a lock that it made."""

    _lease: Lease

    @property
    def released(self) -> bool:
        """Whether the lock was released: by ``release()``, or at the end of its ``with`` statement."""
        return self._lease.result is not None

    def lose(self, reason: LossReason = LossReason.REVOKED, successor_token: int | None = None) -> None:
        """Ends the lease, as a server does. Nothing happens if the lock is lost or released already."""
        self._lease.lose(Loss(reason, successor_token))

    def want(self, mode: LockMode = LockMode.EXCLUSIVE) -> None:
        """Tells the lock that somebody waits for it, as a server does of one with ``tell_when_wanted``."""
        self._lease.want(mode)

    def __del__(self) -> None:
        """A test need not release its lock, so nothing warns of that."""


class FakeLock(_Fake, Lock):
    """A :class:`fencepost.Lock` that a test makes, loses with :meth:`lose`, and finds :attr:`released`.

    It is held until then: ``remaining()`` is always the whole ``ttl``. It is one exclusive lock, without a server that
    would grant it to somebody else, so it has no ``max_hold``, ``min_hold``, ``lock_delay``, ``shared`` and
    ``semaphore``: test these with :class:`Server`. ``downgrade()`` makes it shared, and ``try_upgrade()`` exclusive
    again, with the next token.
    """

    def __init__(
        self,
        name: str,
        token: int = 1,
        *,
        ttl: float = _TTL,
        holder: str = "fake",
        grant_id: str | None = None,
        previous_end: LeaseEnd = LeaseEnd.UNSPECIFIED,
    ) -> None:
        driver: Any = _Driver()
        super().__init__(
            None, driver, _Lease(name, token, grant_id, ttl), holder, previous_end, None, None, tells_wanted=True
        )


class AsyncFakeLock(_Fake, aio.Lock):
    """The same for asyncio: a :class:`fencepost.aio.Lock`. Make it, and lose it, in the event loop of the test."""

    def __init__(
        self,
        name: str,
        token: int = 1,
        *,
        ttl: float = _TTL,
        holder: str = "fake",
        grant_id: str | None = None,
        previous_end: LeaseEnd = LeaseEnd.UNSPECIFIED,
    ) -> None:
        driver: Any = _AsyncDriver()
        super().__init__(
            None, driver, _Lease(name, token, grant_id, ttl), holder, previous_end, None, None, tells_wanted=True
        )
