"""Acquires a lock, works while a stream keeps it alive, and releases it.

The stubs are generated from proto/, as docs/api.md shows. This is an example to start from, not a client library: when
the stream ends, a library would attach its leases again, on any replica; this one lets them expire.
"""

import argparse
import queue
import sys
import threading
import time
import uuid

import grpc
from google.protobuf.duration_pb2 import Duration

from fencepost.v1 import lock_pb2 as pb
from fencepost.v1.lock_pb2_grpc import LockServiceStub

# A call that failed with one of these codes may have been applied. Retry it with the same ids: it has a single effect.
OUTCOME_UNKNOWN = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.CANCELLED)


def now():
    """A monotonic clock that counts suspend, where there is one. Never the wall clock."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


def seconds(duration):
    return duration.seconds + duration.nanos / 1e9


def valid_until(sent, ttl, held_for=0.0):
    """The end of a lease by its holder's clock: see AcquireResponse.lease in lock.proto."""
    return sent + held_for + ttl - 0.01 * ttl - max(ttl / 20, 0.02)


class Lock:
    """A lease that is kept alive until it is released."""

    def __init__(self, stub, lease, until):
        self.stub, self.lease, self.until = stub, lease, until
        self.over = threading.Event()
        self.outbox = queue.SimpleQueue()
        self.sent = {0: now()}  # when each beat was answered; 0 is the attachment
        attachment = pb.LeaseAttachment(handle=1, lock_name=lease.lock_name, lease_id=lease.lease_id, attempt=1)
        self.outbox.put(pb.KeepAliveRequest(attach=pb.AttachLeases(leases=[attachment])))
        # Only the thread has the stream, so that it does not outlast the thread.
        stream = stub.KeepAlive(iter(self.outbox.get, None))
        threading.Thread(target=self.keep, args=(stream,), daemon=True).start()

    def is_valid(self):
        """Checks the clock: a process that was paused notices the end before it acts. Once false, always false."""
        if now() >= self.until:
            self.over.set()
        return not self.over.is_set()

    def keep(self, stream):
        """Reads the stream and answers each beat; only an answer renews a lease, so this needs no timer."""
        try:
            for message in stream:
                kind = message.WhichOneof("message")
                if kind == "beat":
                    self.sent[message.beat.beat] = now()
                    self.outbox.put(pb.KeepAliveRequest(answer=pb.BeatAnswer(beat=message.beat.beat)))
                elif kind == "attached":
                    self.renewed(0, message.attached.leases)
                elif kind == "renewed":
                    self.renewed(message.renewed.beat, message.renewed.leases)
                elif kind == "lost" and not self.over.is_set():
                    print("lost:", pb.LeaseEnd.Name(message.lost.end), file=sys.stderr)
                    self.over.set()
        except grpc.RpcError as error:
            # The stream raised itself: with its traceback it is a cycle, which would be collected when the interpreter
            # ends. Its __del__ takes a lock, and would wait forever if the interpreter had stopped a thread of gRPC
            # that had it.
            error.__traceback__ = None
            # The lease itself is not lost: it stays valid until its end.
            if not self.over.is_set():
                print("no longer kept alive:", error.details(), file=sys.stderr)

    def renewed(self, beat, leases):
        """Applies a renewal. It counts from when the beat was answered, and only moves the end forward."""
        for lease in leases:
            self.until = max(self.until, valid_until(self.sent[beat], seconds(lease.ttl)))
        self.sent = {sent: when for sent, when in self.sent.items() if sent >= beat}

    def release(self):
        """Releases the lock. Stop the work first: the lock may pass to another holder once this is sent."""
        self.over.set()
        self.outbox.put(None)
        request = pb.ReleaseRequest(lock_name=self.lease.lock_name, lease_id=self.lease.lease_id)
        return retried(lambda _attempt: self.stub.Release(request, timeout=5)).end


def retried(call, attempts=5):
    """Retries a call while its outcome is unknown. The call gets the number of the attempt."""
    for attempt in range(1, attempts + 1):
        try:
            return call(attempt)
        except grpc.RpcError as error:
            if error.code() not in OUTCOME_UNKNOWN or attempt == attempts:
                raise
            time.sleep(0.1 * attempt)


def acquire(stub, name, ttl, wait, holder):
    """Returns the lock, or None if another holder had it for the whole wait."""
    request = pb.AcquireRequest(
        lock_name=name,
        holder=holder,
        ttl=Duration(seconds=ttl),
        wait_timeout=Duration(seconds=wait),
        request_id=str(uuid.uuid4()),  # one for each acquire, the same for its attempts
    )

    def attempt(number):
        request.attempt = number
        sent = now()
        return sent, stub.Acquire(request, timeout=wait + 5)

    sent, reply = retried(attempt)
    if reply.outcome != pb.AcquireResponse.OUTCOME_ACQUIRED:
        holders = " and ".join(it.holder or "another" for it in reply.holders) or "another"
        print(f"{name} is held by {holders}, {reply.waiters} waiting", file=sys.stderr)
        return None
    # The server cannot have held the request for longer than the whole exchange took.
    held_for = min(seconds(reply.held_for), now() - sent)
    return Lock(stub, reply.lease, valid_until(sent, seconds(reply.lease.ttl), held_for))


def connect(target):
    """Connects to a server, or to the first that answers of several: ipv4:10.0.0.1:7420,10.0.0.2:7420."""
    # By default gRPC sends the whole list, or the path of a Unix socket, as the name of the server: that is not a name,
    # so the server resets each call.
    return grpc.insecure_channel(target, options=[("grpc.default_authority", "localhost")])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("name")
    parser.add_argument("--server", default="127.0.0.1:7420")
    parser.add_argument("--ttl", type=int, default=10, help="in seconds")
    parser.add_argument("--wait", type=int, default=0, help="in seconds")
    parser.add_argument("--work", type=float, default=15, help="how long the work takes, in seconds")
    options = parser.parse_args()
    with connect(options.server) as channel:
        lock = acquire(LockServiceStub(channel), options.name, options.ttl, options.wait, "lock.py")
        if lock is None:
            return 75
        print(f"acquired {options.name} token {lock.lease.fencing_token}", flush=True)
        end = now() + options.work
        while now() < end and lock.is_valid():
            # A step of the work: it sends lock.lease.fencing_token with every write.
            lock.over.wait(0.1)
        if not lock.is_valid():
            print("lock lost: the work is not done", file=sys.stderr)
            return 70
        print(f"still valid after {options.work:g} s of work", flush=True)
        print(f"release: {pb.LeaseEnd.Name(lock.release())}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
