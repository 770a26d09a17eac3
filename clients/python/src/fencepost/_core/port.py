"""What the engine asks of its driver."""

from __future__ import annotations

from typing import Protocol

from fencepost._core.events import Log
from fencepost._core.failure import Failure
from fencepost._core.session import Session
from fencepost.v1 import lock_pb2 as pb

Request = pb.AcquireRequest | pb.ConvertRequest | pb.DescribeRequest
"""What is sent apart from a session."""

Answer = pb.AcquireResponse | pb.ConvertResponse | pb.DescribeResponse
"""The answer to it."""


class Caller(Protocol):
    """A request that is sent apart from its session."""

    def called(self, call: Call, result: Answer | Failure, sent: float, now: float) -> None: ...


class Call:
    """One transmission of a request apart from a session, on its connection: of an acquire for whose lease it has no
    room, or of what sessions have no message for.
    """

    __slots__ = ("flow", "request", "session", "timeout")

    def __init__(self, session: Session, flow: Caller, request: Request, timeout: float) -> None:
        self.session = session
        self.flow: Caller | None = flow
        """None once it was answered, or the flow has given up on it."""
        self.request = request
        self.timeout = timeout


class Port(Log, Protocol):
    """These calls must neither block nor call the engine."""

    def open(self, session: Session) -> None:
        """Get the token and report :meth:`Engine.connects`; then connect, and report :meth:`Engine.connected`, received
        messages, and :meth:`Engine.ended`. If the session has a ``puzzle`` then, find out why, and
        report :meth:`Engine.diagnosed`.
        """
        ...

    def wake(self, session: Session) -> None:
        """There may be something to send: ask :meth:`Engine.next`."""
        ...

    def close(self, session: Session) -> None:
        """End the stream. Its end need not be reported."""
        ...

    def call(self, call: Call) -> None:
        """Send a request, and report :meth:`Engine.called`."""
        ...

    def cancel(self, call: Call) -> None:
        """End a call. Its end need not be reported."""
        ...
