"""A server in this process, with the API of the real one."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Any

import grpc

from fencepost._channel import CHECK_TOKEN, GET, LIST, SESSION, WATCH
from fencepost._core.convert import duration, from_duration
from fencepost.testing._locks import Locks, Waiter
from fencepost.v1 import lock_pb2 as pb

# The sessions, watches and calls at a time: each takes a thread.
_CALLS_MAX = 64

# Clients ping idle connections. By default a server of gRPC ends a connection for that.
_OPTIONS = (("grpc.http2.max_ping_strikes", 0),)

# Seconds between two looks at what is over.
_TICK = 0.01

# The beats in the time of the shortest lease.
_BEATS = 4

_CANCELLED = 1


class FakeServer:
    """A lock server inside of this process, for tests: real clients connect to it, and it fails when it is told to.

    It grants locks in order, and knows sessions, ``get``, ``list``, ``watch`` and ``check_token``. It does not check
    the limits of requests, and it has neither TLS nor drains. At most 64 sessions, watches and calls are open at a
    time.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._locks = Locks(self._report)
        self._streams: set[_Stream] = set()
        self._watches: set[_Watch] = set()
        self._drops = 0
        self._runs = threading.Event()
        self._runs.set()
        self._stopped = threading.Event()
        self._server = grpc.server(ThreadPoolExecutor(_CALLS_MAX, "fencepost-fake"), options=_OPTIONS)
        handlers: dict[str, grpc.RpcMethodHandler[Any, Any]] = {}
        for method, answer, kind in (
            (SESSION, self._session, grpc.stream_stream_rpc_method_handler),
            (WATCH, self._watch, grpc.unary_stream_rpc_method_handler),
            (GET, self._get, grpc.unary_unary_rpc_method_handler),
            (LIST, self._list, grpc.unary_unary_rpc_method_handler),
            (CHECK_TOKEN, self._check_token, grpc.unary_unary_rpc_method_handler),
        ):
            make: Callable[..., grpc.RpcMethodHandler[Any, Any]] = kind
            handlers[method.name] = make(
                answer, request_deserializer=method.request.FromString, response_serializer=_serialize
            )
        service = SESSION.path.split("/")[1]
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, handlers),))
        self.address = f"127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"
        """Where it listens, as :class:`fencepost.Client` takes it."""
        self._server.start()
        threading.Thread(target=self._tick, name="fencepost-fake-ticks", daemon=True).start()

    def pause(self) -> None:
        """From now on nothing is answered, and connections stay open: leases that are not renewed are lost."""
        self._runs.clear()

    def resume(self) -> None:
        """Ends a pause. Leases that ran out meanwhile have expired."""
        self._runs.set()

    def lose(self, name: str) -> None:
        """Revokes the lease of a lock, as an operator does.

        Raises:
            KeyError: nobody holds the lock.
        """
        with self._lock:
            self._locks.end(self._locks.leases[name], pb.LEASE_END_REVOKED)

    def drop_reply(self) -> None:
        """The next acquire or release takes effect, but in place of its answer the connection ends."""
        with self._lock:
            self._drops += 1

    def stop(self) -> None:
        """Ends the server. Twice does no harm."""
        self._stopped.set()
        self._runs.set()
        with self._lock:
            for stream in self._streams:
                stream.fail()
            for watch in self._watches:
                watch.events.put(None)
        self._server.stop(None).wait()

    def __enter__(self) -> FakeServer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def take_drop(self) -> bool:
        """Whether this reply is to be dropped. The caller holds the lock."""
        dropped = self._drops > 0
        self._drops -= dropped
        return dropped

    def _tick(self) -> None:
        while not self._stopped.wait(_TICK):
            self._runs.wait()
            with self._lock:
                self._locks.tick()
                for stream in self._streams:
                    ttls = [it.ttl for it in self._locks.leases.values() if it.stream is stream]
                    if ttls:
                        stream.beat(min(ttls) / _BEATS)

    # The calls

    def _session(self, requests: Iterator[pb.SessionRequest], context: grpc.ServicerContext) -> Iterator[Any]:
        # Clients wait for the headers before they send anything.
        self._runs.wait()
        context.send_initial_metadata(())
        stream = _Stream(self)
        with self._lock:
            self._streams.add(stream)

        def read() -> None:
            try:
                for request in requests:
                    self._runs.wait()
                    with self._lock:
                        self._received(stream, request)
            except grpc.RpcError:
                pass  # the client is gone
            finally:
                stream.outbox.put(None)

        threading.Thread(target=read, name="fencepost-fake-reads", daemon=True).start()
        try:
            while (message := stream.outbox.get()) is not None:
                self._runs.wait()
                yield message
        finally:
            with self._lock:
                self._streams.discard(stream)
                self._locks.leave(lambda it: it.stream is stream)
                for lease in self._locks.leases.values():
                    if lease.stream is stream:
                        lease.stream = None
        if stream.failed:
            context.abort(grpc.StatusCode.UNAVAILABLE, "the connection was ended by the test")

    def _received(self, stream: _Stream, message: pb.SessionRequest) -> None:
        handlers: dict[str, Callable[[_Stream, pb.SessionRequest], None]] = {
            "acquire": self._acquire,
            "release": self._release,
            "renew": self._renew_now,
            "cancel": self._cancel,
            "attach": self._attach,
            "detach": self._detach,
            "answer": self._answer,
        }
        handlers[message.WhichOneof("message") or ""](stream, message)

    def _acquire(self, stream: _Stream, message: pb.SessionRequest) -> None:
        request = message.acquire.request
        deadline = time.monotonic() + from_duration(request.wait_timeout)
        self._locks.acquire(Waiter(stream, message.operation, request, message.acquire.handle, deadline))

    def _release(self, stream: _Stream, message: pb.SessionRequest) -> None:
        name, lease_id = message.release.lock_name, message.release.lease_id
        lease = self._locks.find(name, lease_id)
        if lease is not None:
            self._locks.end(lease, pb.LEASE_END_RELEASED)
        end = pb.ReleaseResponse(end=self._locks.end_of(lease_id), successor_token=self._locks.successor(name))
        stream.send(pb.SessionResponse(operation=message.operation, release=end))

    def _renew_now(self, stream: _Stream, message: pb.SessionRequest) -> None:
        stream.send(pb.SessionResponse(operation=message.operation, renew=self._renew(message.renew)))

    def _cancel(self, stream: _Stream, message: pb.SessionRequest) -> None:
        wanted = message.cancel.operation
        for _ in self._locks.leave(lambda it: it.stream is stream and it.operation == wanted):
            error = pb.OperationError(code=_CANCELLED, message="the operation was cancelled")
            stream.send(pb.SessionResponse(operation=wanted, error=error))

    def _detach(self, stream: _Stream, message: pb.SessionRequest) -> None:
        for lease in self._locks.leases.values():
            if lease.stream is stream and lease.handle in message.detach.handles:
                lease.stream = None

    def _answer(self, stream: _Stream, message: pb.SessionRequest) -> None:
        renewed = pb.Renewed(beat=message.answer.beat)
        for lease in self._locks.leases.values():
            if lease.stream is stream:
                lease.renew()
                renewed.leases.add(ttl=duration(lease.ttl), handles=[lease.handle])
        stream.send(pb.SessionResponse(renewed=renewed))

    def _renew(self, request: pb.RenewRequest) -> pb.RenewResponse:
        lease = self._locks.find(request.lock_name, request.lease_id)
        if lease is None:
            return pb.RenewResponse(
                outcome=pb.RenewResponse.OUTCOME_LOST,
                end=self._locks.end_of(request.lease_id),
                successor_token=self._locks.successor(request.lock_name),
            )
        if request.HasField("ttl"):
            lease.ttl = from_duration(request.ttl)
        lease.renew()
        return pb.RenewResponse(
            outcome=pb.RenewResponse.OUTCOME_RENEWED, ttl=duration(lease.ttl), fencing_token=lease.token
        )

    def _attach(self, stream: _Stream, message: pb.SessionRequest) -> None:
        for it in message.attach.leases:
            lease = self._locks.find(it.lock_name, it.lease_id)
            if lease is None:
                end, successor = self._locks.end_of(it.lease_id), self._locks.successor(it.lock_name)
                stream.send(pb.SessionResponse(lost=pb.Lost(handle=it.handle, end=end, successor_token=successor)))
                continue
            lease.stream, lease.handle = stream, it.handle
            lease.renew()
            group = pb.RenewedLeases(ttl=duration(lease.ttl), handles=[it.handle])
            stream.send(pb.SessionResponse(attached=pb.Attached(leases=[group])))

    def _watch(self, request: pb.WatchRequest, context: grpc.ServicerContext) -> Iterator[pb.WatchResponse]:
        watch = _Watch(request.prefix)
        context.add_callback(lambda: watch.events.put(None))
        with self._lock:
            self._watches.add(watch)
        yield pb.WatchResponse(kind=pb.WatchResponse.KIND_STARTED)
        while (event := watch.events.get()) is not None:
            self._runs.wait()
            yield event
        with self._lock:
            self._watches.discard(watch)

    def _report(self, event: pb.WatchResponse) -> None:
        for watch in self._watches:
            if event.lock_name.startswith(watch.prefix):
                watch.events.put(event)

    def _get(self, request: pb.GetRequest, _context: object) -> pb.GetResponse:
        self._runs.wait()
        with self._lock:
            return pb.GetResponse(lock=self._locks.info(request.lock_name))

    def _list(self, request: pb.ListRequest, _context: object) -> pb.ListResponse:
        self._runs.wait()
        with self._lock:
            names = sorted(it for it in self._locks.leases if it.startswith(request.prefix))
            return pb.ListResponse(locks=map(self._locks.info, names))

    def _check_token(self, request: pb.CheckTokenRequest, _context: object) -> pb.CheckTokenResponse:
        self._runs.wait()
        with self._lock:
            newest = self._locks.newest.get(request.lock_name, 0)
            status = pb.CheckTokenResponse.STATUS_STALE
            if newest == 0 or request.fencing_token > newest:
                status = pb.CheckTokenResponse.STATUS_UNKNOWN
            elif request.fencing_token == newest:
                is_held = self._locks.successor(request.lock_name) == newest
                status = pb.CheckTokenResponse.STATUS_CURRENT if is_held else pb.CheckTokenResponse.STATUS_ENDED
            return pb.CheckTokenResponse(status=status, newest_token=newest)


class _Stream:
    """The messages to one client."""

    def __init__(self, server: FakeServer) -> None:
        self.outbox: queue.SimpleQueue[pb.SessionResponse | None] = queue.SimpleQueue()
        self.failed = False
        self._server = server
        self._beat = 0
        self._next_beat = 0.0

    def send(self, message: pb.SessionResponse) -> None:
        if message.WhichOneof("message") in ("acquire", "release") and self._server.take_drop():
            self.fail()
        elif not self.failed:
            self.outbox.put(message)

    def fail(self) -> None:
        self.failed = True
        self.outbox.put(None)

    def beat(self, interval: float) -> None:
        """Sends a beat if it is due."""
        now = time.monotonic()
        if now >= self._next_beat:
            self._beat += 1
            self._next_beat = now + interval
            self.send(pb.SessionResponse(beat=pb.Beat(beat=self._beat, next_in=duration(interval))))


class _Watch:
    def __init__(self, prefix: str) -> None:
        self.prefix = prefix
        self.events: queue.SimpleQueue[pb.WatchResponse | None] = queue.SimpleQueue()


def _serialize(message: Any) -> bytes:
    return bytes(message.SerializeToString())
