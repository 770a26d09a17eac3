"""One session with a server: which leases are attached to it, what is in flight on it, and what to send next.

The transport pulls each message when it can send it, so none goes stale in a buffer, and "sent" is the moment of the
pull. Detachments go first, so that no answer to a beat renews a lease that is over.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Protocol

from fencepost._core.failure import Failure
from fencepost._core.lease import Lease
from fencepost._core.timers import Timer
from fencepost.v1 import lock_pb2 as pb

# The bound of a message is 64 KiB; attachments of one message have at most this many bytes, and each takes this many in
# addition to its name.
_ATTACH_BYTES = 48 * 1024
_ATTACHMENT_BYTES = 80

# The most handles in one message; each takes up to 5 bytes.
_HANDLES_MAX = 8_000

# The number of answers to beats that are remembered for the renewals that quote them.
_ANSWERS_MAX = 64


class Flow(Protocol):
    """A request over all of its transmissions."""

    is_acquire: bool

    def message(self, number: int, handle: int, now: float) -> pb.SessionRequest | None:
        """Returns the next transmission; None if there is nothing to send any more."""
        ...

    def sent(self, operation: Operation) -> None: ...

    def answered(self, session: Session, operation: Operation, response: pb.SessionResponse, now: float) -> None: ...

    def waiting(self, ahead: int) -> None:
        """The request is in the queue, with at most ``ahead`` requests before it."""
        ...

    def failed(self, failure: Failure, now: float) -> None:
        """The session ended, or could not be opened."""
        ...


class Operation:
    """A transmission without an answer."""

    __slots__ = ("flow", "handle", "is_waiting", "number", "sent", "session")

    def __init__(self, session: Session, flow: Flow, number: int, handle: int, sent: float) -> None:
        self.session = session
        self.flow: Flow | None = flow
        """None once the flow has given up on this transmission."""
        self.number = number
        self.handle = handle
        self.is_waiting = False
        self.sent = sent


class _Attachment:
    __slots__ = ("attempt", "confirmed", "lease", "sent")

    def __init__(self, lease: Lease, sent: float | None, confirmed: bool) -> None:
        self.lease = lease
        self.attempt = lease.attempt
        self.sent = sent
        self.confirmed = confirmed


class Session:
    """The state of one Session stream."""

    def __init__(self, server: int, now: float) -> None:
        self.server = server
        self.opened = now
        self.last_received = now
        """When the last message arrived; before the first one, when the connection was made."""
        self.connected = False
        self.answers = False
        """Whether any message has arrived."""
        self.draining = False
        self.ended = False
        self.timer: Timer | None = None
        """The engine's next look at it: whether it is connected, then whether it is silent."""
        self.puzzle: Failure | None = None
        """Its failure to connect, if a probe may tell more."""
        self.unanswered_since: float | None = None
        """Since when nothing has arrived although a request needs an answer."""
        self.sign_timer: Timer | None = None
        """The next look at that."""
        self._waiting = 0
        """The requests in flight of which the server has said that they wait."""
        self.operations: dict[int, Operation] = {}
        self.acquires = 0
        self._attached: dict[int, _Attachment] = {}
        self._handles: dict[Lease, int] = {}
        self._last_handle = 0
        self._last_number = 0
        self._to_attach: deque[int] = deque()
        self._to_detach: list[int] = []
        self._to_cancel: list[int] = []
        self._to_answer: int | None = None
        self._answers: deque[tuple[int, float]] = deque(maxlen=_ANSWERS_MAX)

    # Leases

    def attach(self, lease: Lease) -> None:
        """Attaches a lease under a new handle."""
        self._forget(lease)
        lease.attempt += 1
        handle = self._next_handle()
        self._insert(handle, _Attachment(lease, sent=None, confirmed=False))
        self._to_attach.append(handle)

    def granted(self, handle: int, lease: Lease, sent: float) -> None:
        """Adds a lease that was granted here, which attaches it."""
        self._insert(handle, _Attachment(lease, sent, confirmed=True))

    def detach(self, lease: Lease) -> None:
        """Stops the server from renewing the lease on this session."""
        handle = self._forget(lease)
        if handle:
            self._to_detach.append(handle)

    def detach_handle(self, handle: int) -> None:
        """The same for a lease that is known by its handle only."""
        if handle and not self.ended:
            self._to_detach.append(handle)

    def forget(self, lease: Lease) -> int:
        """Removes a lease that is about to be released here. Returns its handle, or 0 if the server has none."""
        return self._forget(lease)

    def take(self, handle: int) -> Lease | None:
        """Removes a lease that the server no longer keeps on this session, and returns it if it is not attached
        elsewhere since.
        """
        attachment = self._attached.pop(handle, None)
        if attachment is None:
            return None
        lease = attachment.lease
        if self._handles.get(lease) == handle:
            del self._handles[lease]
        return lease if attachment.attempt == lease.attempt else None

    def confirm(self, handle: int) -> tuple[Lease, float] | None:
        """The server renews a lease. Returns it, and when its attachment was sent."""
        attachment = self._attached.get(handle)
        if attachment is None or attachment.sent is None:
            return None
        attachment.confirmed = True
        return attachment.lease, attachment.sent

    def lease(self, handle: int) -> Lease | None:
        attachment = self._attached.get(handle)
        return attachment.lease if attachment is not None else None

    def keeps_all(self) -> bool:
        """Whether the server has confirmed every attachment."""
        return all(attachment.confirmed for attachment in self._attached.values())

    def _next_handle(self) -> int:
        self._last_handle += 1
        return self._last_handle

    def _insert(self, handle: int, attachment: _Attachment) -> None:
        self._attached[handle] = attachment
        self._handles[attachment.lease] = handle

    def _forget(self, lease: Lease) -> int:
        handle = self._handles.pop(lease, 0)
        attachment = self._attached.pop(handle, None)
        return handle if attachment is not None and attachment.sent is not None else 0

    # Operations

    def send(self, flow: Flow, now: float) -> pb.SessionRequest | None:
        """Starts a transmission of a request."""
        handle = self._next_handle() if flow.is_acquire else 0
        number = self._last_number + 1
        message = flow.message(number, handle, now)
        if message is None:
            return None
        self._last_number = number
        self.acquires += flow.is_acquire
        self.operations[number] = operation = Operation(self, flow, number, handle, now)
        flow.sent(operation)
        return message

    def received(self, now: float) -> None:
        """A message has arrived."""
        self.last_received, self.answers = now, True
        if self.unanswered_since is not None:
            self.unanswered_since = now if len(self.operations) > self._waiting else None

    def waits(self, operation: Operation) -> None:
        """The server has said that a request waits."""
        self._waiting += not operation.is_waiting
        operation.is_waiting = True
        if len(self.operations) == self._waiting:
            self.unanswered_since = None

    def answered(self, number: int) -> Operation | None:
        operation = self.operations.pop(number, None)
        if operation is not None:
            self._waiting -= operation.is_waiting
        if len(self.operations) == self._waiting:
            self.unanswered_since = None
        if operation is not None and operation.flow is not None:
            self.acquires -= operation.flow.is_acquire
        return operation

    def cancel(self, operation: Operation) -> None:
        """Ends the wait of an acquire. It is still answered."""
        if operation.number in self.operations:
            self._to_cancel.append(operation.number)

    def abandon(self, operation: Operation) -> None:
        """Nobody waits for this answer any more."""
        if operation.flow is not None and operation.number in self.operations:
            self.acquires -= operation.flow.is_acquire
            operation.flow = None

    def close(self) -> Iterable[Operation]:
        """Ends the session. Returns what has no answer."""
        self.ended = True
        operations, self.operations = self.operations, {}
        self._attached.clear()
        self._handles.clear()
        return operations.values()

    # Messages

    def answer(self, beat: int) -> None:
        """Only the newest beat is answered."""
        self._to_answer = beat

    def answer_sent(self, beat: int) -> float | None:
        """Returns when a beat was answered; None if that is forgotten."""
        return next((sent for answered, sent in self._answers if answered == beat), None)

    def next_detach(self) -> pb.SessionRequest | None:
        if not self._to_detach:
            return None
        handles, self._to_detach = self._to_detach[:_HANDLES_MAX], self._to_detach[_HANDLES_MAX:]
        return pb.SessionRequest(detach=pb.DetachLeases(handles=handles))

    def next_cancel(self) -> pb.SessionRequest | None:
        while self._to_cancel:
            number = self._to_cancel.pop(0)
            if number in self.operations:
                return pb.SessionRequest(cancel=pb.CancelOperation(operation=number))
        return None

    def next_answer(self, now: float) -> pb.SessionRequest | None:
        beat, self._to_answer = self._to_answer, None
        if beat is None:
            return None
        self._answers.append((beat, now))
        return pb.SessionRequest(answer=pb.BeatAnswer(beat=beat))

    def next_attach(self, now: float) -> pb.SessionRequest | None:
        message, size = pb.AttachLeases(), 0
        while self._to_attach and size < _ATTACH_BYTES:
            handle = self._to_attach.popleft()
            attachment = self._attached.get(handle)
            if attachment is None:
                continue  # detached meanwhile
            attachment.sent = now
            lease = attachment.lease
            message.leases.add(handle=handle, lock_name=lease.name, lease_id=lease.lease_id, attempt=attachment.attempt)
            size += len(lease.name.encode()) + _ATTACHMENT_BYTES
        return pb.SessionRequest(attach=message) if message.leases else None
