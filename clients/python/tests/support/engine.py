"""An engine with messages and a clock of the test."""

from __future__ import annotations

from typing import Any

from google.rpc import error_details_pb2 as details_pb2

from fencepost._core import requests, timing
from fencepost._core.acquire import Acquire
from fencepost._core.convert import duration
from fencepost._core.engine import Engine
from fencepost._core.failure import Failure
from fencepost._core.lease import Lease
from fencepost._core.port import Call
from fencepost._core.session import Session
from fencepost.errors import (
    FencepostError,
)
from fencepost.v1 import lock_pb2 as pb

LOST = Failure("UNAVAILABLE", "connection reset")


class World:
    """An engine, its port, and the time."""

    def __init__(self, servers: int = 1, retry_for: float = timing.RETRY_FOR) -> None:
        self.now = 1000.0
        self.opened: list[Session] = []
        self.closed: list[Session] = []
        self.calls: list[Call] = []
        self.cancelled: list[Call] = []
        self.records: list[tuple[int, str, dict[str, object]]] = []
        self.has_token = True
        self._connects: set[Session] = set()
        self.engine = Engine(self, [f"server-{it}" for it in range(servers)], retry_for)

    def open(self, session: Session) -> None:
        self.opened.append(session)

    def wake(self, session: Session) -> None:
        pass

    def close(self, session: Session) -> None:
        self.closed.append(session)

    def call(self, call: Call) -> None:
        self.calls.append(call)

    def log(self, level: int, text: str, fields: dict[str, object]) -> None:
        self.records.append((level, text, fields))

    def cancel(self, call: Call) -> None:
        self.cancelled.append(call)

    @property
    def session(self) -> Session:
        return self.opened[-1]

    def connect(self, store_id: str | None = None) -> Session:
        """Connects the last session, after the pause before it."""
        for _ in range(100):
            if not self.session.ended and not self.session.connected:
                break
            self.pass_time(0.05)
        self._connect_all()
        self.engine.connected(self.session, store_id, self.now)
        return self.session

    def _connect_all(self) -> None:
        """Has the token of each session at once, unless the function for it is slow."""
        for session in self.opened:
            if self.has_token and session not in self._connects:
                self._connects.add(session)
                self.engine.connects(session, self.now)

    def pass_time(self, seconds: float) -> None:
        end = self.now + seconds
        while True:
            self._connect_all()
            due = self.engine.timers.next()
            if due is None or due > end:
                break
            self.now = max(due, self.now)
            self.engine.timers.run(self.now)
            self.engine.rest(self.now)
        self.now = end

    def acquire(
        self,
        wait: float = 0.0,
        ttl: float | None = 10.0,
        name: str = "a",
        request_id: str | None = None,
        lock_delay: float | None = None,
        shared: bool = False,
        semaphore: int | None = None,
        permits: int | None = None,
        max_waiters: int | None = None,
    ) -> Acquire:
        modes: dict[str, Any] = {
            "shared": shared,
            "semaphore": semaphore,
            "permits": permits,
            "max_waiters": max_waiters,
        }
        request = requests.acquire(name, ttl, wait, "me", None, request_id, 0, lock_delay=lock_delay, **modes)
        return Acquire(self.engine, request, self.now, lambda: None)

    def sent(self, session: Session | None = None) -> list[pb.SessionRequest]:
        """What is sent now."""
        messages: list[pb.SessionRequest] = []
        while (message := self.engine.next(session or self.session, self.now)) is not None:
            messages.append(message)
        return messages

    def send_one(self, session: Session | None = None) -> pb.SessionRequest:
        (message,) = self.sent(session)
        return message

    def answer(self, response: pb.SessionResponse, session: Session | None = None) -> None:
        self.engine.received(session or self.session, response, self.now)

    def grant(
        self,
        request: pb.SessionRequest,
        ttl: float = 10.0,
        token: int = 1,
        lease_id: str = "lease",
        slot: int = 0,
        mode: pb.LockMode = pb.LOCK_MODE_UNSPECIFIED,
    ) -> None:
        answer = acquired(ttl, token, lease_id)
        answer.lease.slot = slot
        answer.lease.mode = mode
        self.answer(pb.SessionResponse(operation=request.operation, acquire=answer))

    def renew(self, request: pb.SessionRequest, ttl: float) -> None:
        renewed = pb.RenewResponse(outcome=pb.RenewResponse.OUTCOME_RENEWED, ttl=duration(ttl))
        self.answer(pb.SessionResponse(operation=request.operation, renew=renewed))

    def fail(self, request: pb.SessionRequest, code: int, reason: str = "", delay: float = 0.0) -> None:
        error = pb.OperationError(code=code, message="no")
        if reason:
            error.details.add().Pack(details_pb2.ErrorInfo(domain="fencepost", reason=reason))
        if delay:
            error.details.add().Pack(details_pb2.RetryInfo(retry_delay=duration(delay)))
        self.answer(pb.SessionResponse(operation=request.operation, error=error))

    def held(self, ttl: float = 10.0, lock_delay: float | None = None) -> Lease:
        acquire = self.acquire(ttl=ttl, lock_delay=lock_delay)
        self.connect()
        request = self.sent()[-1]
        self.grant(request, ttl)
        assert acquire.lease is not None
        return acquire.lease


def acquired(ttl: float = 10.0, token: int = 1, lease_id: str = "lease") -> pb.AcquireResponse:
    lease = pb.Lease(lock_name="a", lease_id=lease_id, grant_id="grant", fencing_token=token, ttl=duration(ttl))
    return pb.AcquireResponse(outcome=pb.AcquireResponse.OUTCOME_ACQUIRED, lease=lease)


def end(of: Acquire) -> FencepostError:
    assert of.error is not None
    return of.error
