"""The requests that wait for a session that can take them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from fencepost._core import timing
from fencepost._core.session import Flow, Session
from fencepost.v1 import lock_pb2 as pb


class Outbox:
    """Acquires, and what must not wait for them: releases and renewals."""

    def __init__(self, on_sent: Callable[[Session, float], None]) -> None:
        self._on_sent = on_sent
        self._acquires: dict[Flow, None] = {}
        self._urgent: dict[Flow, None] = {}

    def __iter__(self) -> Iterator[Flow]:
        return iter([*self._acquires, *self._urgent])

    def add(self, flow: Flow) -> None:
        (self._acquires if flow.is_acquire else self._urgent)[flow] = None

    def remove(self, flow: Flow) -> None:
        self._acquires.pop(flow, None)
        self._urgent.pop(flow, None)

    def next_urgent(self, session: Session, now: float) -> pb.SessionRequest | None:
        room = len(session.operations) - session.acquires < timing.RELEASES_MAX
        return self._pull(self._urgent, session, now) if room else None

    def next_acquire(self, session: Session, now: float) -> pb.SessionRequest | None:
        room = session.acquires < timing.ACQUIRES_MAX
        return self._pull(self._acquires, session, now) if room else None

    def _pull(self, queue: dict[Flow, None], session: Session, now: float) -> pb.SessionRequest | None:
        while queue:
            flow = next(iter(queue))
            del queue[flow]
            message = session.send(flow, now)
            if message is not None:
                self._on_sent(session, now)
                return message
        return None
