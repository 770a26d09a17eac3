"""The locks of the fake server: leases, queues and ends. The caller holds its lock."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from fencepost._core.convert import duration, from_duration
from fencepost._facts import DEFAULT_TTL_MS
from fencepost.v1 import lock_pb2 as pb

_TTL = DEFAULT_TTL_MS / 1000


class Stream(Protocol):
    """Where the messages of a session go."""

    def send(self, message: pb.SessionResponse) -> None: ...


@dataclass(eq=False)
class Lease:
    """A lease, and the session that it is attached to."""

    request: pb.AcquireRequest
    token: int
    ttl: float
    since: float
    expires: float
    stream: Stream | None
    handle: int
    attempt: int = 1
    lease_id: str = field(default_factory=lambda: str(uuid.uuid4()))
    grant_id: str = field(default_factory=lambda: str(uuid.uuid4()))

    @property
    def name(self) -> str:
        return self.request.lock_name

    def renew(self) -> None:
        self.expires = time.monotonic() + self.ttl

    def holder(self) -> pb.LockHolder:
        now = time.monotonic()
        return pb.LockHolder(
            holder=self.request.holder,
            grant_id=self.grant_id,
            fencing_token=self.token,
            ttl=duration(self.ttl),
            expires_in=duration(max(self.expires - now, 0.0)),
            held_since=duration(now - self.since),
            metadata=self.request.metadata,
        )

    def answer(self, previous: pb.LeaseEnd) -> pb.AcquireResponse:
        return pb.AcquireResponse(
            outcome=pb.AcquireResponse.OUTCOME_ACQUIRED,
            lease=pb.Lease(
                lock_name=self.name,
                lease_id=self.lease_id,
                grant_id=self.grant_id,
                fencing_token=self.token,
                ttl=duration(self.ttl),
            ),
            held_for=duration(time.monotonic() - self.since),
            previous_end=previous,
        )


@dataclass(eq=False)
class Waiter:
    """A request that waits for its answer."""

    stream: Stream
    operation: int
    request: pb.AcquireRequest
    handle: int
    deadline: float

    def answer(self, response: pb.AcquireResponse) -> None:
        self.stream.send(pb.SessionResponse(operation=self.operation, acquire=response))


class Locks:
    """All locks."""

    def __init__(self, report: Callable[[pb.WatchResponse], None]) -> None:
        self.leases: dict[str, Lease] = {}
        self.newest: dict[str, int] = {}
        self._report = report
        self._queues: dict[str, list[Waiter]] = {}
        self._ends: dict[str, pb.LeaseEnd] = {}
        self._previous: dict[str, pb.LeaseEnd] = {}
        self._token = 0

    def acquire(self, waiter: Waiter) -> None:
        name = waiter.request.lock_name
        held = self.leases.get(name)
        if held is not None and held.request.request_id == waiter.request.request_id:
            # A repeated request gets the lease that it has, on its new session.
            held.stream, held.handle = waiter.stream, waiter.handle
            waiter.answer(held.answer(pb.LEASE_END_UNSPECIFIED))
        elif held is None:
            self._grant(waiter)
        elif waiter.deadline <= time.monotonic():
            waiter.answer(self._refusal(name, pb.AcquireResponse.OUTCOME_CONTENDED))
        else:
            queue = self._queues.setdefault(name, [])
            waiter.stream.send(pb.SessionResponse(operation=waiter.operation, waiting=pb.Waiting(ahead=len(queue) + 1)))
            queue.append(waiter)

    def leave(self, wanted: Callable[[Waiter], bool]) -> list[Waiter]:
        """Removes waiters from their queues, and returns them."""
        gone = [it for queue in self._queues.values() for it in queue if wanted(it)]
        for it in gone:
            self._queues[it.request.lock_name].remove(it)
        return gone

    def find(self, name: str, lease_id: str) -> Lease | None:
        lease = self.leases.get(name)
        return lease if lease is not None and lease.lease_id == lease_id else None

    def end_of(self, lease_id: str) -> pb.LeaseEnd:
        return self._ends.get(lease_id, pb.LEASE_END_UNKNOWN)

    def successor(self, name: str) -> int:
        return self.leases[name].token if name in self.leases else 0

    def end(self, lease: Lease, end: pb.LeaseEnd) -> None:
        """Ends a lease, tells its session unless it was released, and grants the lock to the next waiter."""
        del self.leases[lease.name]
        self._ends[lease.lease_id] = self._previous[lease.name] = end
        kind = _KINDS[end]
        self._report(self._event(kind, lease))
        queue = self._queues.get(lease.name)
        if queue:
            self._grant(queue.pop(0))
        if lease.stream is not None and end != pb.LEASE_END_RELEASED:
            lost = pb.Lost(handle=lease.handle, end=end, successor_token=self.successor(lease.name))
            lease.stream.send(pb.SessionResponse(lost=lost))

    def tick(self) -> None:
        """Ends what is over."""
        now = time.monotonic()
        for waiter in self.leave(lambda it: it.deadline <= now):
            waiter.answer(self._refusal(waiter.request.lock_name, pb.AcquireResponse.OUTCOME_TIMED_OUT))
        for lease in [it for it in self.leases.values() if it.expires <= now]:
            self.end(lease, pb.LEASE_END_EXPIRED)

    def info(self, name: str) -> pb.LockInfo:
        lease = self.leases.get(name)
        return pb.LockInfo(
            lock_name=name,
            holders=[lease.holder()] if lease else [],
            waiters=len(self._queues.get(name, ())),
            previous_end=self._previous.get(name, pb.LEASE_END_UNSPECIFIED),
            newest_token=self.newest.get(name, 0),
        )

    def _grant(self, waiter: Waiter) -> None:
        request = waiter.request
        name, now, ttl = request.lock_name, time.monotonic(), from_duration(request.ttl) or _TTL
        self._token = self.newest[name] = max(self._token + 1, request.min_token)
        lease = Lease(request, self._token, ttl, now, now + ttl, waiter.stream, waiter.handle)
        self.leases[name] = lease
        waiter.answer(lease.answer(self._previous.get(name, pb.LEASE_END_UNSPECIFIED)))
        self._report(self._event(pb.WatchResponse.KIND_GRANTED, lease))

    def _refusal(self, name: str, outcome: pb.AcquireResponse.Outcome) -> pb.AcquireResponse:
        info = self.info(name)
        return pb.AcquireResponse(outcome=outcome, holders=info.holders, waiters=info.waiters)

    @staticmethod
    def _event(kind: pb.WatchResponse.Kind, lease: Lease) -> pb.WatchResponse:
        return pb.WatchResponse(
            kind=kind,
            lock_name=lease.name,
            holder=lease.request.holder,
            grant_id=lease.grant_id,
            fencing_token=lease.token,
        )


_KINDS = {
    pb.LEASE_END_RELEASED: pb.WatchResponse.KIND_RELEASED,
    pb.LEASE_END_EXPIRED: pb.WatchResponse.KIND_EXPIRED,
    pb.LEASE_END_REVOKED: pb.WatchResponse.KIND_REVOKED,
}
