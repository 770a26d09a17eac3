"""The engine of a client: its leases, its requests, and the sessions that carry both.

All leases and requests share the current session. If that ends, drains or goes silent, or beats arrive but renewals do
not, a session with the next server takes over: leases are attached to it, and requests without an answer are repeated.
A session that still works is kept beside it until the new one keeps all leases.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace

from fencepost._core import timing
from fencepost._core.acquire import Acquire
from fencepost._core.events import Events
from fencepost._core.failure import Failure, no_token, unsent
from fencepost._core.kept import Kept
from fencepost._core.lease import Lease
from fencepost._core.outbox import Outbox
from fencepost._core.overdue import Overdue
from fencepost._core.port import Answer, Call, Port
from fencepost._core.receive import receive
from fencepost._core.release import Release
from fencepost._core.renew import Alone
from fencepost._core.session import Flow, Operation, Session
from fencepost._core.silence import Silence
from fencepost._core.timers import Timer, Timers
from fencepost._core.unreached import Unreached
from fencepost._core.validity import Reading
from fencepost.errors import ClientClosed
from fencepost.types import Loss, LossReason
from fencepost.v1 import lock_pb2 as pb


class Engine:
    """The state of one client."""

    def __init__(self, port: Port, servers: Sequence[str], retry_for: float) -> None:
        self.port = port
        self.events = Events(port, servers)
        self.timers = Timers()
        self.retry_for = max(retry_for, timing.TRANSMISSION_MIN)
        self.answer_time = timing.answer_time(timing.CALL_TIMEOUT, self.retry_for, len(servers))
        """How long one server gets to answer a call that does not wait."""
        self.flows: set[Flow] = set()
        """The requests that are not done."""
        self.kept = Kept()
        self.random = random.random
        self.closed = False
        self.unreached = Unreached(servers)
        self.current: Session | None = None
        self.previous: Session | None = None
        """A session that still works, until the current one keeps all leases."""
        self._connect_timeout = min(timing.CONNECT_TIMEOUT, self.answer_time)
        self._names = servers
        self._servers = len(servers)
        self._server = 0
        self._tries = 0
        """Sessions opened since one worked."""
        self._has_opened = False
        self._room_at = 0.0
        """When the server may have room for a session that it has refused."""
        self._silence = Silence(self)
        self._overdue = Overdue(self)
        self._outbox = Outbox(self._silence.sent)
        self._opening: Timer | None = None
        self._lingering: Timer | None = None

    # Requests

    def send(self, flow: Flow, now: float) -> None:
        """Transmits a request as soon as a session can take it."""
        self.flows.add(flow)
        self._outbox.add(flow)
        self._ensure(now)
        for session in self.sessions():
            self.port.wake(session)

    def done(self, flow: Flow) -> None:
        """A request needs nothing more."""
        self.flows.discard(flow)
        self._outbox.remove(flow)

    def release(self, lease: Lease, now: float) -> None:
        """Releases a lease in the background."""
        self.start_release(lease, now, None)

    def forget(self, lease: Lease, now: float) -> None:
        """The lock of a lease was garbage collected."""
        self.events.forgotten(lease)
        self.release(lease, now)

    def start_release(self, lease: Lease, now: float, on_done: Callable[[], None] | None) -> Release:
        """Releases a lease. No renewal of it is sent after this."""
        lease.release()
        self._drop(lease)
        handle = 0
        for session in self.sessions():
            if session is self.current and session.connected:
                handle = session.forget(lease)
            else:
                session.detach(lease)
                self.port.wake(session)
        return Release(self, lease, handle, now, on_done)

    def give_up(self, lease: Lease, now: float) -> None:
        """Releases a lost lease in the background, unless the server has reported its end, and no delay follows it."""
        reasons = {LossReason.SILENCE, LossReason.MAX_HOLD}
        if lease.lock_delay:
            reasons.add(LossReason.EXPIRED)
        if not lease.released and lease.lost is not None and lease.lost.reason in reasons:
            self.release(lease, now)

    def unanswered(self, operation: Operation, now: float) -> None:
        """A transmission was not answered in time."""
        session = operation.session
        if session.last_received < operation.sent:
            self.ended(session, Failure("UNAVAILABLE", "the server went silent"), now)
        else:
            self.port.wake(session)
            self.suspect(session, now)

    def suspect(self, session: Session, now: float) -> None:
        """A session answers, but not well: another server may do better."""
        if session is self.current and now - session.opened > timing.MOVE_INTERVAL:
            self.move("it answers late", now)

    def called(self, call: Call, result: Answer | Failure, sent: float, now: float) -> None:
        """A call was answered, or failed."""
        self.timers.run(now)
        flow, call.flow = call.flow, None
        if isinstance(result, Failure) and result.is_draining:
            self.drains(call.session, now)
        if flow is not None:
            flow.called(call, result, sent, now)

    # Leases

    def keep(self, lease: Lease, now: float) -> None:
        """Renews a lease from now on. It is attached to a session already, or renewed alone."""
        is_faster = self.kept.add(lease)
        self._overdue.watch(lease)
        if is_faster and self.current is not None:
            # Beats come faster from now on: silence counts from now.
            self.current.last_received = max(self.current.last_received, now)
            self._silence.watch(self.current, now)

    def lose(self, lease: Lease, loss: Loss) -> bool:
        """A lease has ended without a release. Returns whether that is news."""
        if not lease.lose(loss):
            return False
        self.events.lost(lease, loss)
        self._drop(lease)
        for session in self.sessions():
            session.detach(lease)
            self.port.wake(session)
        return True

    def risk(self, lease: Lease, cause: str, now: float) -> None:
        """A renewal of a lease has failed."""
        if lease.risk():
            self.events.at_risk(lease, cause, now)

    def renewed(self, lease: Lease, reading: Reading) -> None:
        """A renewal has arrived."""
        was_at_risk, was_bounded = lease.at_risk, lease.bounded
        lease.renewed(reading)
        self.kept.set_ttl(lease)
        if was_at_risk and not lease.at_risk:
            self.events.renewed_again(lease)
        if lease.bounded and not was_bounded:
            self.events.bounded(lease, reading.read)

    def leave(self, lease: Lease, now: float) -> None:
        """Gives up a lease that another process keeps: it is renewed no more, and lasts until the end that is known."""
        lease.given_up = True
        self.kept.give_up(lease)
        self.risk(lease, "another process keeps it", now)

    def keep_alone(self, session: Session, lease: Lease, now: float) -> None:
        """A session has no room for a lease."""
        alone = Alone(self, session, lease)
        self.kept.renew_by(lease, alone)
        alone.renew(now)

    def keep_granted_alone(self, lease: Lease, now: float) -> None:
        """Renews a lease that was granted apart from a session. The next session attaches it."""
        self.keep(lease, now)
        if self.current is not None:
            alone = Alone(self, self.current, lease)
            self.kept.renew_by(lease, alone)
            alone.pause(now)

    def _drop(self, lease: Lease) -> None:
        if self.kept.remove(lease):
            self.timers.cancel(lease.timer)

    def expire(self, lease: Lease, now: float) -> bool:
        """Ends a lease whose validity is over by the clock. Returns whether it did."""
        reason = LossReason.MAX_HOLD if lease.bounded else LossReason.SILENCE
        return now >= lease.valid_until and self.lose(lease, Loss(reason))

    # Sessions

    def sessions(self) -> tuple[Session, ...]:
        return tuple(it for it in (self.previous, self.current) if it is not None)

    @property
    def carrier(self) -> Session | None:
        """The session that takes releases, renewals and changes."""
        return self.current if self.current is not None and self.current.connected else self.previous

    def name_of(self, session: Session) -> str:
        """Returns the address of its server."""
        return self._names[session.server]

    def connects(self, session: Session, now: float) -> bool:
        """The driver has the token of a session and connects from now on. Returns whether it is still wanted."""
        if not session.ended:
            self.timers.cancel(session.timer)
            due = now + self._connect_timeout
            session.timer = self.timers.at(due, lambda now: self._check_connected(session, now))
        return not session.ended

    def connected(self, session: Session, store_id: str | None, now: float) -> None:
        """The connection of a session is made. An older server does not tell the id of its store."""
        if store_id is not None:
            self.events.told_store(session.server, store_id)
        if not session.ended:
            session.connected, session.last_received = True, now
            self.timers.cancel(session.timer)
            self._silence.watch(session, now)
            self.port.wake(session)

    def next(self, session: Session, now: float) -> pb.SessionRequest | None:
        """Returns the next message to send; its effect counts from ``now``."""
        if session.ended or not session.connected:
            return None
        self.timers.run(now)
        return (
            session.next_detach()
            or session.next_cancel()
            or (self._outbox.next_urgent(session, now) if session is self.carrier else None)
            or session.next_answer(now)
            or session.next_attach(now)
            or (self._outbox.next_acquire(session, now) if session is self.current and not session.draining else None)
        )

    def received(self, session: Session, response: pb.SessionResponse, now: float) -> None:
        """A message has arrived."""
        session.received(now)
        self.unreached.works(session.server)
        self.events.works(session.server)
        # A process that was paused past the end of a lease notices that first, and does not renew it.
        self.timers.run(now)
        if session.ended:
            return
        receive(self, session, response, now)
        if session is self.current and not session.draining:
            self._tries = 0
        self._retire(now)

    def drains(self, session: Session, now: float) -> None:
        """The server drains: another one takes over. Until then this session goes on."""
        if not session.draining:
            session.draining = True
            if session is self.current:
                self._tries += 1
                self._next_server(session)
                self.events.failed(session.server, "it drains", self._server)
                self._ensure(now)

    def ended(self, session: Session, failure: Failure, now: float) -> None:
        """A session ended, or could not be opened. If it has a puzzle then, the driver looks for its cause."""
        if session.ended:
            return
        if session is self.current:
            self._tries += not session.answers
            if not failure.is_over_quota:
                self._next_server(session)
            if failure.is_no_room and session.server == self._server:
                self._room_at = now + failure.retry_delay
        if session.connected and not (failure.permanent or failure.is_final or failure.is_no_room):
            failure = replace(failure, message=f"{self._names[session.server]}: {failure.message}")
        elif failure.is_transient:
            session.puzzle = failure
        self.unreached.note(session.server, failure)
        self._end(session, failure, now)
        if session.puzzle is None:
            self._explained(session, failure, now)

    def diagnosed(self, session: Session, failure: Failure, now: float) -> None:
        """A look has shown why a session could not be connected."""
        self.timers.run(now)
        # A later session may have found the server well.
        if not any(it.connected and it.server == session.server for it in self.sessions()):
            self.unreached.diagnose(session.server, failure)
            self._explained(session, failure, now)

    def _explained(self, session: Session, failure: Failure, now: float) -> None:
        self.events.failed(session.server, failure.message, self._server)
        if self.unreached.is_hopeless:
            # The next call tries again.
            self._refuse(self.unreached.forget(), now)

    def _end(self, session: Session, failure: Failure, now: float) -> None:
        refused = not session.answers and failure.is_final
        operations = [it for it in session.close() if it.flow is not None]
        self.timers.cancel(session.timer)
        self.timers.cancel(session.sign_timer)
        self.port.close(session)
        if session is self.previous:
            self.previous = None
        if session is self.current:
            self.current = None
        if refused or (not session.answers and failure.is_no_room):
            failure = replace(failure, sent=False)
        else:
            failure = Failure("UNAVAILABLE", failure.message, sent=failure.sent)
        for operation in operations:
            if operation.flow is not None:
                operation.flow.failed(failure, now)
        if refused:
            self._refuse(failure, now)
        self._ensure(now)

    def _refuse(self, failure: Failure, now: float) -> None:
        """Nothing was done, and the next time will be the same."""
        for flow in self._outbox:
            flow.failed(failure, now)

    def _next_server(self, session: Session) -> None:
        if session.server == self._server:
            self._server = (self._server + 1) % self._servers

    def move(self, why: str, now: float) -> None:
        """Moves to the next server, if there is one, although this session works."""
        if self.current is not None and self._opening is None and self._servers > 1:
            self._next_server(self.current)
            self.events.failed(self.current.server, why, self._server)
            self._open(now)

    def _ensure(self, now: float) -> None:
        """Opens a session if one is needed."""
        usable = self.current is not None and not self.current.draining
        if usable or self._opening is not None or not (self.kept or self.flows):
            return
        if not self._has_opened and now >= self._room_at:
            self._open(now)
            return
        tries = max(self._tries - self._servers + 1, 0)
        pause = timing.reconnect_pause(tries, self.kept.pace(), random.random())
        self._opening = self.timers.at(max(now + pause, self._room_at), self._open_if_needed)

    def _open_if_needed(self, now: float) -> None:
        self._opening = None
        if self.kept or self.flows:
            self._open(now)

    def _open(self, now: float) -> None:
        session = Session(self._server, now)
        for lease in self.kept.by_urgency():
            lease.reattached = False
            session.attach(lease)
        if self.current is not None:
            if self.previous is not None:
                self._replaced(self.previous, now)
            self.previous = self.current
            self.timers.cancel(self.previous.timer)
        self.current, self._has_opened = session, True
        no_answer = no_token(f"its function did not return within {timing.TOKEN_TIMEOUT:g} s")
        session.timer = self.timers.at(now + timing.TOKEN_TIMEOUT, lambda now: self.ended(session, no_answer, now))
        self.port.open(session)

    def _check_connected(self, session: Session, now: float) -> None:
        if not session.connected:
            why = f"{self._names[session.server]}: no connection within {self._connect_timeout:.3g} s"
            self.ended(session, unsent(why), now)

    def _replaced(self, session: Session, now: float) -> None:
        self._end(session, Failure("UNAVAILABLE", "the session was replaced"), now)

    def _retire(self, now: float) -> None:
        """Closes the previous session once it is not needed."""
        current, previous = self.current, self.previous
        if previous is None or previous.operations:
            return
        if not self.kept or (current is not None and current.answers and current.keeps_all()):
            self._replaced(previous, now)

    # The end

    def rest(self, now: float) -> None:
        """Closes the session some time after the last lease and the last request. Call it after other calls."""
        if self.kept or self.flows or not self.sessions():
            self.timers.cancel(self._lingering)
            self._lingering = None
        elif self.closed:
            self.shut(now)
        elif self._lingering is None:
            self._lingering = self.timers.at(now + timing.LINGER, self.shut)

    def shut(self, now: float) -> None:
        """Ends all sessions."""
        self.timers.cancel(self._lingering)
        self._lingering = None
        for session in self.sessions():
            self._replaced(session, now)
        self._has_opened, self._tries = False, 0

    def close(self, now: float) -> None:
        """Abandons all acquires and releases all leases."""
        self.closed = True
        for flow in list(self.flows):
            if isinstance(flow, Acquire):
                flow.abandon(now, ClientClosed())
        for lease in list(self.kept):
            self.release(lease, now)
        self.rest(now)

    @property
    def is_idle(self) -> bool:
        return not (self.kept or self.flows)
