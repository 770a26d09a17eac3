package io.fencepost.client.testing;

import com.google.protobuf.Any;
import com.google.rpc.ErrorInfo;
import io.fencepost.client.Facts;
import io.fencepost.v1.AcquireResponse;
import io.fencepost.v1.Attached;
import io.fencepost.v1.Beat;
import io.fencepost.v1.Detached;
import io.fencepost.v1.LeaseAttachment;
import io.fencepost.v1.LeaseEnd;
import io.fencepost.v1.Lost;
import io.fencepost.v1.OperationError;
import io.fencepost.v1.ReleaseResponse;
import io.fencepost.v1.RenewResponse;
import io.fencepost.v1.Renewed;
import io.fencepost.v1.RenewedLeases;
import io.fencepost.v1.SessionRequest;
import io.fencepost.v1.SessionResponse;
import io.fencepost.v1.Waiting;
import io.grpc.Status;
import io.grpc.stub.StreamObserver;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;

/** One session of a fake server. Everything happens on the thread of its loop. */
final class FakeSession {
  /** The beats in the time of the shortest lease, and the longest time between two. */
  private static final int BEATS = 9;

  private static final long BEAT_MAX = TimeUnit.SECONDS.toNanos(10);

  private final FakeLoop loop;
  private final FakeLocks locks;
  private final BooleanSupplier dropsReply;
  private final StreamObserver<SessionResponse> client;
  private final Map<Integer, FakeLease> leases = new HashMap<>();
  private boolean ended;
  private long beat;

  /** When the next beat is due; a beat that was scheduled for another time is left out. */
  private long beatAt;

  FakeSession(FakeLoop loop, FakeLocks locks, BooleanSupplier dropsReply, StreamObserver<SessionResponse> client) {
    this.loop = loop;
    this.locks = locks;
    this.dropsReply = dropsReply;
    this.client = client;
  }

  void receive(SessionRequest message) {
    if (ended) {
      return;
    }
    long operation = message.getOperation();
    switch (message.getMessageCase()) {
      case ACQUIRE -> locks.acquire(new FakeWaiter(
          this, operation, message.getAcquire().getRequest(), message.getAcquire().getHandle()));
      case RELEASE -> release(operation, message.getRelease().getLeaseId());
      case RENEW -> renew(operation, message.getRenew().getLeaseId());
      case CANCEL -> locks.cancel(this, message.getCancel().getOperation());
      case ATTACH -> message.getAttach().getLeasesList().forEach(this::attachAgain);
      case DETACH -> message.getDetach().getHandlesList().forEach(this::detachAsAsked);
      case ANSWER -> renewAll(message.getAnswer().getBeat());
      case MESSAGE_NOT_SET -> {}
    }
  }

  /** The stream is over. Leases last for their TTL, unless another session keeps them alive. */
  void end() {
    if (!ended) {
      ended = true;
      leases.values().forEach(lease -> lease.session = null);
      leases.clear();
      locks.leave(this);
    }
  }

  // Answers to acquires

  void waits(FakeWaiter waiter, int ahead) {
    send(answer(waiter.operation).setWaiting(Waiting.newBuilder().setAhead(ahead)));
  }

  void granted(FakeWaiter waiter, FakeLease lease) {
    if (lease.end != null) {
      fail(waiter.operation, Status.Code.ABORTED, "REQUEST_ENDED", "the lease of this request has ended");
    } else {
      attach(lease, waiter.handle);
      reply(answer(waiter.operation).setAcquire(lease.granted(waiter.arrivedAt)));
    }
  }

  void refused(FakeWaiter waiter, AcquireResponse response) {
    reply(answer(waiter.operation).setAcquire(response));
  }

  void overtaken(FakeWaiter waiter) {
    fail(waiter.operation, Status.Code.ABORTED, "OVERTAKEN", "a newer attempt of this request is answered");
  }

  // Leases

  private void release(long operation, String leaseId) {
    FakeLease lease = locks.find(leaseId);
    if (lease != null && lease.end == null) {
      detach(lease);
      locks.end(lease, LeaseEnd.LEASE_END_RELEASED);
    }
    LeaseEnd end = endOf(lease);
    ReleaseResponse.Builder response = ReleaseResponse.newBuilder().setEnd(end);
    if (lease != null && end != LeaseEnd.LEASE_END_RELEASED) {
      response.setSuccessorToken(locks.successor(lease.name()));
    }
    reply(answer(operation).setRelease(response));
  }

  private void renew(long operation, String leaseId) {
    FakeLease lease = locks.find(leaseId);
    RenewResponse.Builder response = RenewResponse.newBuilder();
    if (lease != null && lease.end == null) {
      lease.renew();
      response.setOutcome(RenewResponse.Outcome.OUTCOME_RENEWED)
          .setTtl(FakeLease.duration(lease.ttl)).setFencingToken(lease.token);
    } else {
      response.setOutcome(RenewResponse.Outcome.OUTCOME_LOST).setEnd(endOf(lease));
    }
    send(answer(operation).setRenew(response));
  }

  private static LeaseEnd endOf(FakeLease lease) {
    return lease == null ? LeaseEnd.LEASE_END_UNKNOWN : lease.end;
  }

  private void attachAgain(LeaseAttachment attachment) {
    FakeLease lease = locks.find(attachment.getLeaseId());
    int handle = attachment.getHandle();
    if (lease == null || lease.end != null) {
      long successor = lease == null ? 0 : locks.successor(lease.name());
      sendLost(handle, endOf(lease), successor);
    } else if (attachment.getAttempt() < lease.attempt) {
      sendDetached(handle, Detached.Reason.REASON_ATTACHED_ELSEWHERE);
    } else {
      lease.attempt = attachment.getAttempt();
      lease.renew();
      attach(lease, handle);
      send(SessionResponse.newBuilder().setAttached(Attached.newBuilder().addLeases(renewed(handle, lease))));
    }
  }

  private void attach(FakeLease lease, int handle) {
    FakeSession before = lease.session;
    if (before != null) {
      int old = lease.handle;
      before.detach(lease);
      if (before != this) {
        before.sendDetached(old, Detached.Reason.REASON_ATTACHED_ELSEWHERE);
      }
    }
    lease.session = this;
    lease.handle = handle;
    leases.put(handle, lease);
    beatIn(pace());
  }

  private void detach(FakeLease lease) {
    if (lease.session != null) {
      lease.session.leases.remove(lease.handle, lease);
      lease.session = null;
    }
  }

  private void detachAsAsked(int handle) {
    FakeLease lease = leases.get(handle);
    if (lease != null) {
      detach(lease);
    }
    sendDetached(handle, Detached.Reason.REASON_REQUESTED);
  }

  void lost(FakeLease lease, long successor) {
    detach(lease);
    sendLost(lease.handle, lease.end, successor);
  }

  // Beats

  private long pace() {
    return leases.values().stream().mapToLong(lease -> lease.ttl / BEATS).reduce(BEAT_MAX, Math::min);
  }

  private void beatIn(long nanos) {
    long at = FakeLoop.now() + nanos;
    if (beatAt == 0 || at < beatAt) {
      beatAt = at;
      loop.runIn(() -> beat(at), nanos);
    }
  }

  private void beat(long at) {
    if (at != beatAt || ended) {
      return;
    }
    beatAt = 0;
    if (!leases.isEmpty()) {
      beat++;
      send(SessionResponse.newBuilder()
          .setBeat(Beat.newBuilder().setBeat(beat).setNextIn(FakeLease.duration(pace()))));
      beatIn(pace());
    }
  }

  /** Renews the leases that have used up a third of their TTL. */
  private void renewAll(long answered) {
    long now = FakeLoop.now();
    Renewed.Builder renewed = Renewed.newBuilder().setBeat(answered);
    leases.forEach((handle, lease) -> {
      if (lease.until - now <= lease.ttl / 3 * 2) {
        lease.renew();
        renewed.addLeases(renewed(handle, lease));
      }
    });
    if (renewed.getLeasesCount() > 0) {
      send(SessionResponse.newBuilder().setRenewed(renewed));
    }
  }

  private static RenewedLeases renewed(int handle, FakeLease lease) {
    return RenewedLeases.newBuilder().setTtl(FakeLease.duration(lease.ttl)).addAllHandles(List.of(handle)).build();
  }

  // Messages

  private static SessionResponse.Builder answer(long operation) {
    return SessionResponse.newBuilder().setOperation(operation);
  }

  private void fail(long operation, Status.Code code, String reason, String message) {
    ErrorInfo info = ErrorInfo.newBuilder().setDomain(Facts.ERROR_DOMAIN).setReason(reason).build();
    send(answer(operation).setError(OperationError.newBuilder()
        .setCode(code.value()).setMessage(message).addDetails(Any.pack(info))));
  }

  private void sendLost(int handle, LeaseEnd end, long successor) {
    send(SessionResponse.newBuilder()
        .setLost(Lost.newBuilder().setHandle(handle).setEnd(end).setSuccessorToken(successor)));
  }

  private void sendDetached(int handle, Detached.Reason reason) {
    send(SessionResponse.newBuilder().setDetached(Detached.newBuilder().setHandle(handle).setReason(reason)));
  }

  /** Sends the answer to an acquire or a release, or loses it together with the stream. */
  private void reply(SessionResponse.Builder message) {
    if (ended || !dropsReply.getAsBoolean()) {
      send(message);
      return;
    }
    end();
    Status status = Status.UNAVAILABLE.withDescription("the answer was dropped by the test");
    loop.unlessPaused(() -> client.onError(status.asRuntimeException()));
  }

  private void send(SessionResponse.Builder message) {
    SessionResponse made = message.build();
    loop.unlessPaused(() -> {
      if (!ended) {
        client.onNext(made);
      }
    });
  }
}
