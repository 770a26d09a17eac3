"""The driver of the engine with threads.

One lock guards the engine. Each session has a thread that reads, and one of gRPC that asks for messages to send. A
third one, the worker, runs the timers and what callers ask for; it ends when nothing is left to do. All are daemons:
none keeps the process alive.

The handler of a signal may raise an exception anywhere in the main thread. So callers never run the engine, which that
would leave half changed: they put jobs in a queue, and wait with locks that are one step for Python.
"""

from __future__ import annotations

import logging
import os
import queue
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TypeVar

import grpc

from fencepost._callbacks import Callbacks
from fencepost._changes import Changes
from fencepost._channel import FORKED, method_of, rpc_failure
from fencepost._core import events, failure
from fencepost._core.acquire import Acquire
from fencepost._core.clock import now
from fencepost._core.engine import Engine
from fencepost._core.lease import Lease
from fencepost._core.options import Options
from fencepost._core.port import Answer, Call
from fencepost._core.release import Release
from fencepost._core.session import Session
from fencepost._dial import bearer, call_failure
from fencepost._greenlets import check_threads
from fencepost._probe import Looks
from fencepost._streams import Stream
from fencepost._waits import Pending, Wait
from fencepost.errors import ClientClosed, FencepostError, Refused
from fencepost.v1 import lock_pb2 as pb

# The longest sleep of the worker: timers of Python do not count suspend, so this bounds the time in which
# a lease that ended meanwhile is noticed after the machine resumes.
_SLEEP_MAX = 1.0

# The subject of the log's records: they are written one after another.
_LOG = "log"

ResultT = TypeVar("ResultT")


class Driver(Changes):
    """Runs the engine of one client."""

    def __init__(self, options: Options) -> None:
        check_threads()
        self.options = options
        self._pid = os.getpid()
        self._lock = threading.RLock()
        self._engine = Engine(self, [str(it) for it in options.servers], options.retry_for)
        self._streams: dict[Session, Stream] = {}
        self._calls: dict[Call, grpc.Future[Answer]] = {}
        # Its "put" is one step for Python, and may be called by the garbage collector.
        self._jobs: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._works = False
        self._next_due = 0.0
        self._until_idle: list[Wait] = []
        self._callbacks = Callbacks()
        self.looks = Looks(options)

    # The port of the engine

    def open(self, session: Session) -> None:
        self._streams[session] = stream = Stream(self, session)
        stream.start()

    def wake(self, session: Session) -> None:
        stream = self._streams.get(session)
        if stream is not None:
            stream.wanted.notify()

    def close(self, session: Session) -> None:
        stream = self._streams.pop(session, None)
        if stream is not None:
            stream.cancel()

    def call(self, call: Call) -> None:
        threading.Thread(target=self._start_call, args=(call,), name="fencepost-call", daemon=True).start()

    def cancel(self, call: Call) -> None:
        future = self._calls.pop(call, None)
        if future is not None:
            future.cancel()

    def log(self, level: int, text: str, fields: dict[str, object]) -> None:
        self._callbacks.call(_LOG, partial(events.write, level, text, fields))

    # Requests

    @property
    def forked(self) -> bool:
        """Whether this is a child of the process that made the client. What belongs to gRPC must not be touched here:
        its locks may be held by threads that the child does not have.
        """
        return os.getpid() != self._pid

    @property
    def is_over(self) -> bool:
        """Whether the interpreter ends. It has stopped all daemons, so nobody would answer, or release a lock."""
        return sys.is_finalizing()

    def check_use(self) -> None:
        """Raises an error in a child process: its connections and leases are those of the parent. And at the end of
        the interpreter, and where calls would hang.
        """
        check_threads()
        if self.forked:
            raise ClientClosed(FORKED)
        if self.is_over:
            raise ClientClosed("the interpreter ends: close the client before that, for example in a with statement")

    def acquire(
        self, request: pb.AcquireRequest, take: Callable[[Acquire], ResultT], pending: Pending | None = None
    ) -> ResultT:
        """Waits for the result of an acquire, and returns what ``take`` makes of it. Interrupted at any point before
        its return, it withdraws the request, or releases the lease, in the background. :meth:`stop` ends the wait for
        a ``pending`` of the caller.
        """
        self.check_use()
        pending = pending or Pending()
        try:
            self._ask(partial(self._start, pending, request), pending)
            acquire = pending.result()
            if acquire.lease is not None:
                return take(acquire)
        except BaseException:
            # The jobs are done in their order: if the request was asked for, it has been made by then.
            self._ask(partial(self._withdraw, pending))
            raise
        assert acquire.error is not None
        raise acquire.error

    def _start(self, pending: Pending, request: pb.AcquireRequest) -> None:
        if self._engine.closed:
            raise ClientClosed
        if pending.stopped is not None:
            raise pending.stopped
        pending.acquire = Acquire(self._engine, request, now(), pending.end, pending.campaign)

    def _withdraw(self, pending: Pending) -> None:
        acquire = pending.acquire
        if acquire is not None and (acquire.lease is None or not acquire.lease.released):
            acquire.abandon(now())

    def stop(self, pending: Pending, error: FencepostError) -> None:
        """Ends the wait for an acquire with an error, unless it is over, and withdraws the request in the background.
        May be called by the engine.
        """
        self._ask(partial(self._stop, pending, error))

    @staticmethod
    def _stop(pending: Pending, error: FencepostError) -> None:
        pending.stopped = error
        if pending.acquire is not None and pending.acquire.lease is None:
            pending.acquire.abandon(now(), error)

    def release(self, lease: Lease) -> Release:
        """Waits for the result of a release. Interrupted, it goes on in the background."""
        return self.release_all([lease])[0]

    def release_all(self, leases: Sequence[Lease]) -> list[Release]:
        """Starts releases in this order, and waits for the results of all. Interrupted, they go on in the
        background.
        """
        self.check_use()
        waits = [Wait() for _ in leases]
        releases: list[Release] = []

        def start() -> None:
            for lease, wait in zip(leases, waits, strict=True):
                releases.append(self._engine.start_release(lease, now(), wait.end))

        try:
            if waits:
                # All of them begin in one turn of the engine, so one wait is enough for its failure.
                self._ask(start, waits[0])
            for wait in waits:
                wait.wait()
        except BaseException:
            for lease in leases:
                self.drop(lease)
            raise
        return releases

    def give_up(self, lease: Lease) -> None:
        """Releases a lost lease in the background."""
        self._ask(lambda: self._engine.give_up(lease, now()))

    def check(self, lease: Lease) -> bool:
        """Returns whether a lease is valid. Once it is not, it never will be."""
        if self.forked:
            return False
        if lease.is_valid(now()):
            return True
        if not lease.is_over and not self.is_over:
            self._do(lambda: self._engine.expire(lease, now()))
        return False

    def watch(
        self,
        lease: Lease,
        on_end: Callable[[], None],
        on_at_risk: Callable[[], None] | None,
        on_wanted: Callable[[], None] | None = None,
    ) -> None:
        """Calls back when the lease ends or is wanted, at once if that was before, and in a thread for callbacks if it
        is at risk.
        """
        with self._lock:
            lease.on_wanted = on_wanted
            if lease.wanted is not None and on_wanted is not None:
                on_wanted()
            if on_at_risk is not None:
                lease.on_at_risk = partial(self.callback, lease, on_at_risk)
            if lease.is_over:
                on_end()
            else:
                lease.on_end = on_end

    def callback(self, lease: Lease, call: Callable[[], object]) -> None:
        """Runs code of the user about a lease, which may block, in a thread for callbacks."""
        self._callbacks.call(lease, call)

    def drop(self, lease: Lease) -> None:
        """Releases a lease whose lock was garbage collected. Takes no lock: the collector runs anywhere. The worker
        runs as long as there is a lease.
        """
        self._jobs.put(lambda: None if lease.released else self._engine.release(lease, now()))

    def forget(self, lease: Lease) -> None:
        """The same, and says so."""
        self._jobs.put(lambda: None if lease.released else self._engine.forget(lease, now()))

    def drop_client(self) -> None:
        """Closes the sessions of a client that was garbage collected. Takes no lock either."""
        self._jobs.put(partial(setattr, self._engine, "closed", True))

    def shut(self, timeout: float) -> None:
        """Abandons all acquires, releases all leases, and waits at most ``timeout`` for that."""
        idle = Wait()

        def close() -> None:
            self._until_idle.append(idle)
            self._engine.close(now())

        self._ask(close, idle)
        try:
            idle.wait(timeout)
        finally:
            self._do(lambda: self._engine.shut(now()))

    # The streams

    def connects(self, session: Session) -> bool:
        with self._lock:
            wanted = self._engine.connects(session, now())
            self._changed()
            return wanted

    def connected(self, session: Session, store_id: str | None) -> None:
        with self._lock:
            self._engine.connected(session, store_id, now())
            self._changed()

    def started(self, stream: Stream, session: Session, call: grpc.Call) -> bool:
        """The call of a session was started. Returns whether it is still wanted."""
        with self._lock:
            stream.call = call
            if session.ended:
                call.cancel()
            return not session.ended

    def received(self, session: Session, response: pb.SessionResponse) -> None:
        with self._lock:
            self._engine.received(session, response, now())
            self._changed()

    def ended(self, session: Session, why: failure.Failure) -> None:
        with self._lock:
            self._engine.ended(session, why, now())
            self._changed()

    def diagnosed(self, session: Session, found: failure.Failure) -> None:
        with self._lock:
            self._engine.diagnosed(session, found, now())
            self._changed()

    def messages(self, session: Session, wanted: threading.Condition) -> Iterator[pb.SessionRequest]:
        """The messages of a session, each made when the transport can send it."""
        while True:
            with self._lock:
                message = self._engine.next(session, now())
                while message is None and not session.ended:
                    wanted.wait()
                    message = self._engine.next(session, now())
                self._changed()
            if message is None:
                return
            yield message

    def new_condition(self) -> threading.Condition:
        return threading.Condition(self._lock)

    # Calls apart from the sessions

    def _start_call(self, call: Call) -> None:
        """Starts a call, in a thread of its own because the function for the token may block."""
        try:
            metadata = bearer(self.options)
        except Refused as error:
            self._called(call, call_failure(error), now())
            return
        with self._lock:
            if call.flow is None:
                return
            sent = now()
            try:
                future = self._streams[call.session].unary(
                    method_of(call.request), call.request, call.timeout, metadata
                )
            except (KeyError, ValueError):
                self._called(call, failure.unsent("the session has ended"), sent)
                return
            self._calls[call] = future
        future.add_done_callback(lambda done: self._ended_call(call, done, sent))

    def _ended_call(self, call: Call, done: grpc.Future[Answer], sent: float) -> None:
        assert isinstance(done, grpc.Call)
        code = done.code()
        is_answer = code is grpc.StatusCode.OK
        result = done.result() if is_answer else rpc_failure(code, done.details(), done.trailing_metadata())
        self._called(call, result, sent)

    def _called(self, call: Call, result: Answer | failure.Failure, sent: float) -> None:
        with self._lock:
            self._calls.pop(call, None)
            self._engine.called(call, result, sent, now())
            self._changed()

    # The worker

    def _do(self, step: Callable[[], object]) -> None:
        """Has the worker run a step of the engine, and waits for that."""
        wait = Wait()

        def job() -> None:
            step()
            wait.end()

        self._ask(job, wait)
        wait.wait()

    def _ask(self, step: Callable[[], None], wait: Wait | None = None) -> None:
        """Has the worker run a step of the engine. Its error ends ``wait``."""

        def job() -> None:
            try:
                step()
            except Exception as error:
                if wait is None:
                    raise
                wait.fail(error)

        self._jobs.put(job)
        with self._lock:
            self._ensure_worker()

    def _ensure_worker(self) -> None:
        # The worker itself says that it runs: the start may be interrupted before there is a thread. Of two that were
        # started, the second one ends at once.
        if not self._works:
            threading.Thread(target=self._work, name="fencepost-worker", daemon=True).start()

    def _changed(self) -> None:
        """After each call of the engine, under the lock."""
        self._rest()
        due = self._engine.timers.next()
        if due is None:
            return
        if not self._works:
            self._ensure_worker()
        elif due < self._next_due:
            self._next_due = due
            self._jobs.put(None)

    def _rest(self) -> None:
        self._engine.rest(now())
        if self._engine.is_idle:
            waits, self._until_idle = self._until_idle, []
            for wait in waits:
                wait.end()

    def _work(self) -> None:
        with self._lock:
            if self._works:
                return
            self._works = True
        while (pause := self._pause()) is not None:
            try:
                job = self._jobs.get(timeout=pause)
            except queue.Empty:
                job = None
            with self._lock:
                if job is not None:
                    self._run(job)
                self._engine.timers.run(now())
                self._rest()
            # A job holds the request or the lock of a caller.
            del job

    def _pause(self) -> float | None:
        """Until when the worker waits for a job; None if it ends."""
        with self._lock:
            due = self._engine.timers.next()
            if due is None:
                self._works = not self._jobs.empty()
                return 0.0 if self._works else None
            due = min(due, now() + _SLEEP_MAX)
            self._next_due = due
            return max(due - now(), 0.0)

    @staticmethod
    def _run(job: Callable[[], None]) -> None:
        try:
            job()
        except Exception:  # noqa: BLE001 - reported, and the worker goes on
            events.write(logging.ERROR, "the client failed", trace=True)
