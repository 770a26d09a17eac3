"""The messages of a session: what each does to leases and requests. Nothing here blocks, so a beat is answered as soon
as it is read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from fencepost._core import failure
from fencepost._core.convert import from_duration, loss, mode
from fencepost._core.session import Session
from fencepost._core.validity import Reading
from fencepost.v1 import lock_pb2 as pb

if TYPE_CHECKING:
    from fencepost._core.engine import Engine


def receive(engine: Engine, session: Session, response: pb.SessionResponse, now: float) -> None:
    """Applies a message."""
    handler = _HANDLERS.get(response.WhichOneof("message") or "")
    if handler is not None:
        handler(engine, session, response, now)


def _answered(engine: Engine, session: Session, response: pb.SessionResponse, now: float) -> None:
    operation = session.answered(response.operation)
    if operation is None:
        return
    if response.HasField("error") and failure.from_operation(response.error).is_draining:
        engine.drains(session, now)
    if operation.flow is not None:
        operation.flow.answered(session, operation, response, now)
    elif response.acquire.outcome == pb.AcquireResponse.OUTCOME_ACQUIRED:
        # A later transmission of the request gets the same lease. This session must not renew it.
        session.detach_handle(operation.handle)
    engine.port.wake(session)


def _waiting(engine: Engine, session: Session, response: pb.SessionResponse, now: float) -> None:
    operation = session.operations.get(response.operation)
    if operation is not None:
        session.waits(operation)
        if operation.flow is not None:
            operation.flow.waiting(response.waiting.ahead)


def _beat(engine: Engine, session: Session, response: pb.SessionResponse, now: float) -> None:
    session.answer(response.beat.beat)
    engine.port.wake(session)


def _attached(engine: Engine, session: Session, response: pb.SessionResponse, now: float) -> None:
    _renew(engine, session, response.attached.leases, None, now)


def _renewed(engine: Engine, session: Session, response: pb.SessionResponse, now: float) -> None:
    sent = session.answer_sent(response.renewed.beat)
    # A renewal that quotes a forgotten answer is too old to be useful.
    if sent is not None:
        _renew(engine, session, response.renewed.leases, sent, now)


def _renew(
    engine: Engine, session: Session, groups: Iterable[pb.RenewedLeases], answered: float | None, now: float
) -> None:
    for group in groups:
        ttl = from_duration(group.ttl)
        for handle in group.handles:
            confirmed = session.confirm(handle)
            if confirmed is not None:
                lease, attached = confirmed
                sent = attached if answered is None else answered
                engine.renewed(lease, Reading(sent, now, 0.0, ttl))


def _lost(engine: Engine, session: Session, response: pb.SessionResponse, now: float) -> None:
    message = response.lost
    lease = session.lease(message.handle)
    session.take(message.handle)
    if lease is not None:
        engine.lose(lease, loss(message.end, message.successor_token))


def _at_risk(engine: Engine, session: Session, response: pb.SessionResponse, now: float) -> None:
    for handle in response.at_risk.handles:
        lease = session.lease(handle)
        if lease is not None:
            engine.risk(lease, "the server cannot reach its store", now)


def _detached(engine: Engine, session: Session, response: pb.SessionResponse, now: float) -> None:
    # If this client has attached the lease to its next session since, this is expected.
    lease = session.take(response.detached.handle)
    if lease is None or lease.is_over:
        return
    if response.detached.reason == pb.Detached.REASON_STREAM_FULL:
        engine.keep_alone(session, lease, now)
    elif not lease.reattached:
        # Once on each session may be a late message of an old one, and is corrected.
        lease.reattached = True
        session.attach(lease)
        engine.port.wake(session)
    else:
        # Twice means that another process keeps the lease. It stays valid until the end that is known.
        engine.leave(lease, now)


def _wanted(engine: Engine, session: Session, response: pb.SessionResponse, now: float) -> None:
    lease = session.lease(response.wanted.handle)
    if lease is not None:
        lease.want(mode(response.wanted.mode))


def _draining(engine: Engine, session: Session, response: pb.SessionResponse, now: float) -> None:
    engine.drains(session, now)


_HANDLERS: dict[str, Callable[[Engine, Session, pb.SessionResponse, float], None]] = {
    "acquire": _answered,
    "release": _answered,
    "renew": _answered,
    "error": _answered,
    "waiting": _waiting,
    "beat": _beat,
    "attached": _attached,
    "renewed": _renewed,
    "lost": _lost,
    "at_risk": _at_risk,
    "detached": _detached,
    "draining": _draining,
    "wanted": _wanted,
}
