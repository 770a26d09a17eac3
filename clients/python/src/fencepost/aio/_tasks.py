"""The driver of the engine with asyncio: two tasks for each session, one timer, and no threads of its own."""

from __future__ import annotations

import asyncio
import inspect
import logging
import os
import threading
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from functools import partial
from typing import TypeVar

import grpc
import grpc.aio

from fencepost._channel import (
    FORKED,
    SESSION,
    Metadata,
    channel_options,
    credentials,
    method_of,
    rpc_failure,
    session_failure,
    store_id,
)
from fencepost._core import events, failure, timing
from fencepost._core.acquire import Acquire
from fencepost._core.address import Address
from fencepost._core.campaign import Campaign
from fencepost._core.clock import now
from fencepost._core.engine import Engine
from fencepost._core.lease import Lease
from fencepost._core.options import Options
from fencepost._core.port import Answer, Call
from fencepost._core.release import Release
from fencepost._core.session import Session
from fencepost._greenlets import check_asyncio
from fencepost._probe import Looks
from fencepost.aio._changes import Changes
from fencepost.errors import ClientClosed, FencepostError, Refused
from fencepost.v1 import lock_pb2 as pb

# Timers of asyncio do not count suspend: this bounds the time in which a lease that ended meanwhile is noticed.
_SLEEP_MAX = 1.0

ResultT = TypeVar("ResultT")


class Driver(Changes):
    """Runs the engine of one client, in the event loop that first uses it."""

    def __init__(self, options: Options) -> None:
        check_asyncio()
        self.options = options
        self._pid = os.getpid()
        self._engine = Engine(self, [str(it) for it in options.servers], options.retry_for)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._streams: dict[Session, _Stream] = {}
        self._calls: dict[Call, asyncio.Task[None]] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._idle = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self.looks = Looks(options)

    # The port of the engine

    def open(self, session: Session) -> None:
        stream = self._streams[session] = _Stream(self, session)
        stream.task = self._spawn(stream.run())

    def wake(self, session: Session) -> None:
        stream = self._streams.get(session)
        if stream is not None:
            stream.wanted.set()

    def close(self, session: Session) -> None:
        stream = self._streams.pop(session, None)
        if stream is not None and stream.task is not None:
            stream.task.cancel()

    def call(self, call: Call) -> None:
        self._calls[call] = self._spawn(self._call(call))

    def cancel(self, call: Call) -> None:
        task = self._calls.pop(call, None)
        if task is not None:
            task.cancel()

    def log(self, level: int, text: str, fields: dict[str, object]) -> None:
        if self._loop is not None:
            self._loop.call_soon(events.write, level, text, fields)

    # Requests

    @property
    def forked(self) -> bool:
        """Whether this is a child of the process that made the client. What belongs to gRPC must not be touched here:
        its locks may be held by threads that the child does not have.
        """
        return os.getpid() != self._pid

    def check_use(self) -> None:
        """Raises an error in a child process or in another event loop: the connections belong to the first one. And
        where calls would hang.
        """
        check_asyncio()
        if self.forked:
            raise ClientClosed(FORKED)
        loop = asyncio.get_running_loop()
        if self._loop is None:
            self._loop = loop
        elif self._loop is not loop:
            raise ClientClosed("this client was used in another event loop: make a client in each loop")

    async def acquire(
        self,
        request: pb.AcquireRequest,
        started: Callable[[Acquire], None] = lambda _: None,
        campaign: Campaign | None = None,
    ) -> Acquire:
        """Waits for the result of an acquire. Cancelled, it withdraws the request in the background. :meth:`stop` ends
        the wait of the acquire that ``started`` is told.
        """
        self.check_use()
        if self._engine.closed:
            raise ClientClosed
        done = asyncio.Event()
        acquire = Acquire(self._engine, request, now(), done.set, campaign)
        started(acquire)
        self._changed()
        try:
            await done.wait()
        except BaseException:
            acquire.abandon(now())
            self._changed()
            raise
        return acquire

    async def release(self, lease: Lease) -> Release:
        """Waits for the result of a release. Cancelled, it goes on in the background."""
        return (await self.release_all([lease]))[0]

    async def release_all(self, leases: Sequence[Lease]) -> list[Release]:
        """Starts releases in this order, before it first waits, and waits for the results of all. Cancelled, they go
        on in the background.
        """
        self.check_use()
        waits = [asyncio.Event() for _ in leases]
        releases = [
            self._engine.start_release(lease, now(), wait.set) for lease, wait in zip(leases, waits, strict=True)
        ]
        self._changed()
        for wait in waits:
            await wait.wait()
        return releases

    def drop(self, lease: Lease) -> None:
        """Releases a lease in the background, unless it is released."""
        if not lease.released:
            self._engine.release(lease, now())
            self._changed()

    def stop(self, acquire: Acquire, error: FencepostError) -> None:
        """Ends the wait for an acquire with an error, unless it is over. The request is withdrawn in the background."""
        if acquire.lease is None:
            acquire.abandon(now(), error)
            self._changed()

    def give_up(self, lease: Lease) -> None:
        """Releases a lost lease in the background."""
        self._engine.give_up(lease, now())
        self._changed()

    def check(self, lease: Lease) -> bool:
        """Returns whether a lease is valid. Once it is not, it never will be."""
        if self.forked:
            return False
        if lease.is_valid(now()):
            return True
        if self._engine.expire(lease, now()):
            self._changed()
        return False

    def forget(self, lease: Lease) -> None:
        """Releases a lease whose lock was garbage collected, in whatever thread."""
        loop = self._loop
        if loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(self._forget, lease)

    def drop_client(self) -> None:
        """Closes the session of a client that was garbage collected."""
        loop = self._loop
        if loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(self._close)

    async def shut(self, timeout: float) -> None:
        """Abandons all acquires, releases all leases, and waits at most ``timeout`` for that."""
        self._close()
        try:
            await asyncio.wait_for(self._idle.wait(), timeout)
        except asyncio.TimeoutError:
            pass
        finally:
            self._engine.shut(now())
            self._changed()
        if self._tasks:
            await asyncio.wait(self._tasks)

    def _forget(self, lease: Lease) -> None:
        if not lease.released:
            self._engine.forget(lease, now())
            self._changed()

    def _close(self) -> None:
        self._engine.close(now())
        self._changed()

    # The streams

    def connects(self, session: Session) -> bool:
        wanted = self._engine.connects(session, now())
        self._changed()
        return wanted

    def connected(self, session: Session, store_id: str | None) -> None:
        self._engine.connected(session, store_id, now())
        self._changed()

    def received(self, session: Session, response: pb.SessionResponse) -> None:
        self._engine.received(session, response, now())
        self._changed()

    def ended(self, session: Session, why: failure.Failure) -> None:
        self._engine.ended(session, why, now())
        self._changed()

    def look(self, session: Session, why: failure.Failure) -> None:
        """Looks why a session could not be connected. It has ended, and the next one may be open already."""
        in_thread(partial(self.looks.look, session.server, why), partial(self._diagnosed, session))

    def _diagnosed(self, session: Session, found: failure.Failure | None) -> None:
        if found is not None:
            self._engine.diagnosed(session, found, now())
            self._changed()

    def next(self, session: Session) -> pb.SessionRequest | None:
        message = self._engine.next(session, now())
        self._changed()
        return message

    async def _call(self, call: Call) -> None:
        """Makes a call apart from the sessions."""
        sent = now()
        try:
            metadata = await bearer(self.options, timing.TOKEN_TIMEOUT)
            stream = self._streams.get(call.session)
            if stream is None or stream.channel is None:
                result: Answer | failure.Failure = failure.unsent("the session has ended")
            else:
                method = method_of(call.request)
                start = stream.channel.unary_unary(method.path, method.serialize, method.deserialize)
                sent = now()
                result = await start(call.request, timeout=call.timeout, metadata=metadata)
        except (grpc.aio.AioRpcError, Refused) as error:
            result = call_failure(error)
        except asyncio.CancelledError:
            # Of the engine, which wants no answer; or because the session has ended.
            result = failure.Failure("CANCELLED", "the session has ended")
        self._calls.pop(call, None)
        self._engine.called(call, result, sent, now())
        self._changed()

    def _spawn(self, run: Coroutine[object, object, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(run)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    # The timers

    def _changed(self) -> None:
        """After each call of the engine."""
        self._engine.rest(now())
        if self._engine.is_idle:
            self._idle.set()
        else:
            self._idle.clear()
        if self._timer is None and self._loop is not None:
            due = self._engine.timers.next()
            if due is not None:
                self._timer = self._loop.call_later(min(max(due - now(), 0.0), _SLEEP_MAX), self._run_timers)
        elif self._timer is not None and self._loop is not None:
            due = self._engine.timers.next()
            if due is not None and due - now() < self._timer.when() - self._loop.time():
                self._timer.cancel()
                self._timer = self._loop.call_later(max(due - now(), 0.0), self._run_timers)

    def _run_timers(self) -> None:
        self._timer = None
        self._engine.timers.run(now())
        self._changed()


class _Stream:
    """The connection and the tasks of one session."""

    def __init__(self, driver: Driver, session: Session) -> None:
        self.wanted = asyncio.Event()
        """Set when there may be something to send."""
        self.task: asyncio.Task[None] | None = None
        self.channel: grpc.aio.Channel | None = None
        """The connection, while it is open."""
        self._driver = driver
        self._session = session

    async def run(self) -> None:
        why = failure.unsent("the connection could not be made")
        try:
            why = await self._read()
        except Refused as error:
            why = failure.of_preparation(error)
        except asyncio.CancelledError:
            why = failure.Failure("UNAVAILABLE", "the session was closed")
        except Exception as error:  # noqa: BLE001 - reported, and the next session may do better
            events.write(logging.ERROR, "the session failed", trace=True)
            why = failure.Failure("UNAVAILABLE", repr(error))
        finally:
            self._driver.ended(self._session, why)
            if self._session.puzzle is not None:
                self._driver.look(self._session, self._session.puzzle)

    async def _read(self) -> failure.Failure:
        """Reads the session. Returns why it ended."""
        session, driver = self._session, self._driver
        address = driver.options.servers[session.server]
        # Asked first: the time that its function takes is not that of the server.
        metadata = await bearer(driver.options, timing.TOKEN_TIMEOUT)
        if not driver.connects(session):
            return failure.unsent("the session was closed")
        async with open_channel(driver.options, address) as channel:
            self.channel = channel
            start = channel.stream_stream(SESSION.path, SESSION.serialize, SESSION.deserialize)
            call = start(metadata=metadata)
            writer: asyncio.Task[None] | None = None
            try:
                # Nothing is written before the server has accepted the call. A write that meets the end of a call
                # replaces the status of the server by INTERNAL (`_StreamRequestMixin._write` in grpc.aio 1.76): it
                # would be lost why the session was refused, and that nothing was done.
                headers = await call.initial_metadata()
                if not call.done():
                    driver.connected(session, store_id(headers))
                    writer = asyncio.get_running_loop().create_task(self._write(call))
                async for response in call:
                    driver.received(session, response)
            except grpc.aio.AioRpcError as error:
                return session_failure(session, address, call_failure(error))
            finally:
                self.channel = None
                if writer is not None:
                    writer.cancel()
                call.cancel()
        return failure.Failure("UNAVAILABLE", "the server ended the session")

    async def _write(self, call: grpc.aio.StreamStreamCall[pb.SessionRequest, pb.SessionResponse]) -> None:
        """Sends messages, each made when the transport can take it."""
        try:
            while True:
                self.wanted.clear()
                message = self._driver.next(self._session)
                if message is None:
                    await self.wanted.wait()
                else:
                    await call.write(message)
        except (grpc.aio.AioRpcError, asyncio.InvalidStateError):
            pass  # the reader gets the status


def in_thread(run: Callable[[], ResultT], then: Callable[[ResultT], object]) -> None:
    """Runs what blocks in a daemon thread, which holds up no end of a process, and the rest in the event loop."""
    loop = asyncio.get_running_loop()

    def work() -> None:
        result = run()
        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(then, result)

    threading.Thread(target=work, name="fencepost-probe", daemon=True).start()


def open_channel(options: Options, address: Address) -> grpc.aio.Channel:
    """Opens a connection to a server. Raises Refused if a file of TLS cannot be read."""
    secret = credentials(options, address)
    if secret is None:
        return grpc.aio.insecure_channel(address.target, channel_options(address))
    return grpc.aio.secure_channel(address.target, secret, channel_options(address))


async def bearer(options: Options, timeout: float) -> Metadata:
    """Returns the metadata of one call. Raises Refused if there is no token, or none in time."""
    token = options.token
    if token is None:
        return ()
    try:
        value = token() if callable(token) else token
        if inspect.isawaitable(value):
            value = await asyncio.wait_for(value, timeout)
    except asyncio.TimeoutError as error:
        raise options.no_token(TimeoutError(f"its function did not return within {timeout:g} s")) from error
    except Exception as error:
        raise options.no_token(error) from error
    return options.authorization(value)


def call_failure(error: grpc.aio.AioRpcError | Refused) -> failure.Failure:
    """Reads the error of a call, or of its preparation."""
    if isinstance(error, Refused):
        return failure.of_preparation(error)
    return rpc_failure(error.code(), error.details(), error.trailing_metadata())
