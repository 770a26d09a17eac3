package io.fencepost.client;

import io.fencepost.v1.AttachLeases;
import io.fencepost.v1.BeatAnswer;
import io.fencepost.v1.CancelOperation;
import io.fencepost.v1.DetachLeases;
import io.fencepost.v1.Detached;
import io.fencepost.v1.LeaseAttachment;
import io.fencepost.v1.Lost;
import io.fencepost.v1.RenewedLeases;
import io.fencepost.v1.SessionRequest;
import io.fencepost.v1.SessionResponse;
import io.fencepost.v1.Wanted;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * One session with a server: what is attached, what is in flight, and what is still to be sent. Every method is called
 * under the lock of the {@link Keeper}.
 *
 * <p>A message is made when the transport can send it, so none goes stale in a queue. Detachments and releases go
 * first, so that no answer to a beat follows the release of a lease that it could renew. Acquires go last.
 */
final class Session {
  /** The maximum size of the items of one message; the server accepts 64 KiB. */
  private static final int MESSAGE_BYTES = 48 * 1024;

  /** The maximum size of an attachment without its name and lease id. */
  private static final int ATTACHMENT_BYTES = 32;

  /** The maximum number of handles in one message; each takes up to 5 bytes. */
  private static final int HANDLES = MESSAGE_BYTES / 5;

  /** The number of answers to beats that are remembered for the renewals that quote them. */
  private static final int ANSWERS = 64;

  /** The maximum numbers of operations in flight; the server allows 16,384 in all. */
  private static final int ACQUIRES = 8_000;

  private static final int URGENT = 2_000;

  /** An operation that was sent; {@code operation} is null once a later attempt replaced it. */
  private record InFlight(Operation operation, int handle, boolean acquire) {}

  final int server;

  /** When it began to connect, or before that to prepare. {@code connecting} ends when the server answers. */
  long startedAt;

  boolean connecting;
  private final Keeper keeper;
  private final SessionCall call;

  private final Map<Integer, Attachment> attached = new HashMap<>();
  private final Map<Lease, Integer> handles = new HashMap<>();
  private final Map<Long, InFlight> inFlight = new LinkedHashMap<>();
  private final ArrayDeque<Integer> toAttach = new ArrayDeque<>();
  private final ArrayDeque<Integer> toDetach = new ArrayDeque<>();
  private final ArrayDeque<Long> toCancel = new ArrayDeque<>();
  private final Map<Long, Long> answered = new LinkedHashMap<>();
  private long toAnswer;
  private int lastHandle;
  private long lastNumber;
  private int acquiresInFlight;

  /** When the last message arrived. */
  long lastReceived;

  boolean open;
  boolean draining;
  boolean ended;

  /** Whether it has done something useful, so that the next one may be opened without a long pause. */
  boolean proven;

  Session(Keeper keeper, int server, SessionCall.Factory calls, long now) {
    this.keeper = keeper;
    this.server = server;
    this.startedAt = now;
    this.lastReceived = now;
    this.call = calls.call(this);
  }

  /** Connects, outside of the lock. */
  void connect() {
    call.connect();
  }

  /** Why nothing arrived in time. */
  Failure silent(String what) {
    return call.silent(what);
  }

  // Leases

  boolean isAttached(Lease lease) {
    return handles.containsKey(lease);
  }

  boolean keepsAll() {
    return attached.values().stream().allMatch(attachment -> attachment.confirmed);
  }

  /** Attaches a lease with the next attempt number. */
  void attach(Lease lease, long now) {
    forget(lease);
    lease.attachedAt = now;
    int handle = nextHandle();
    attached.put(handle, new Attachment(lease, ++lease.attachments));
    handles.put(lease, handle);
    toAttach.add(handle);
  }

  int nextHandle() {
    do {
      lastHandle++;
    } while (attached.containsKey(lastHandle));
    return lastHandle;
  }

  /** A lease that was granted here is attached by its grant. */
  void granted(int handle, Lease lease, long sent) {
    Attachment attachment = new Attachment(lease, 1);
    attachment.sent = sent;
    attachment.confirmed = true;
    attached.put(handle, attachment);
    handles.put(lease, handle);
  }

  /** Stops renewing a lease. */
  void detach(Lease lease) {
    Integer handle = forget(lease);
    if (handle != null) {
      toDetach.add(handle);
    }
  }

  /** Removes a lease, and returns its handle if the server knows it. */
  private Integer forget(Lease lease) {
    Integer handle = handles.remove(lease);
    Attachment attachment = handle == null ? null : attached.remove(handle);
    return attachment == null || attachment.sent == 0 ? null : handle;
  }

  // Operations

  boolean isBusy() {
    return !inFlight.isEmpty();
  }

  /** Asks the server to end the wait of an acquire, which is still answered. */
  void cancel(Operation operation) {
    toCancel.add(operation.number);
    pump();
  }

  /** Repeats the operations whose answers are overdue. Returns whether nothing at all has arrived in their time. */
  boolean repeatOverdue(long now) {
    boolean silent = false;
    List<Operation> overdue = new ArrayList<>();
    for (InFlight sent : inFlight.values()) {
      if (sent.operation == null) {
        continue;
      }
      long due = sent.operation.dueAt;
      silent |= lastReceived < due && now >= due + Math.min(Timing.SILENCE, keeper.answerTime());
      if (now >= sent.operation.overdueAt) {
        overdue.add(sent.operation);
      }
    }
    if (!silent) {
      for (Operation operation : overdue) {
        inFlight.computeIfPresent(operation.number, (n, sent) -> new InFlight(null, sent.handle, sent.acquire));
        keeper.unanswered(operation);
      }
    }
    return silent;
  }

  /** Ends the session and returns the operations without an answer. */
  List<Operation> close() {
    if (ended) {
      return List.of();
    }
    ended = true;
    call.cancel();
    List<Operation> unanswered = new ArrayList<>();
    inFlight.values().stream().map(InFlight::operation).filter(it -> it != null).forEach(unanswered::add);
    inFlight.clear();
    return unanswered;
  }

  // Outgoing messages

  /** Sends what the transport has room for. */
  void pump() {
    while (open && !ended && call.isReady()) {
      SessionRequest message = next(keeper.now());
      if (message == null) {
        return;
      }
      call.send(message);
    }
  }

  private SessionRequest next(long now) {
    SessionRequest.Builder message = SessionRequest.newBuilder();
    if (!toDetach.isEmpty()) {
      DetachLeases.Builder detach = DetachLeases.newBuilder();
      while (!toDetach.isEmpty() && detach.getHandlesCount() < HANDLES) {
        detach.addHandles(toDetach.remove());
      }
      return message.setDetach(detach).build();
    }
    Operation urgent = inFlight.size() - acquiresInFlight < URGENT ? keeper.nextUrgent(this) : null;
    if (urgent != null) {
      return send(urgent, message, now);
    }
    if (!toCancel.isEmpty()) {
      return message.setCancel(CancelOperation.newBuilder().setOperation(toCancel.remove())).build();
    }
    if (toAnswer != 0) {
      return answer(message, now);
    }
    AttachLeases attach = nextAttach(now);
    if (attach != null) {
      return message.setAttach(attach).build();
    }
    Operation acquire = acquiresInFlight < ACQUIRES ? keeper.nextAcquire(this) : null;
    return acquire == null ? null : send(acquire, message, now);
  }

  private SessionRequest send(Operation operation, SessionRequest.Builder message, long now) {
    operation.session = this;
    operation.number = ++lastNumber;
    operation.sentAt = now;
    operation.dueAt = now;
    operation.overdueAt = now + operation.write(message, now);
    boolean acquire = operation instanceof AcquireOperation;
    acquiresInFlight += acquire ? 1 : 0;
    inFlight.put(operation.number, new InFlight(operation, handleOf(operation), acquire));
    return message.setOperation(operation.number).build();
  }

  /** The handle that must be detached if the operation fails, or that an answer to an old attempt attached. */
  private int handleOf(Operation operation) {
    if (operation instanceof AcquireOperation acquire) {
      return acquire.handle;
    }
    if (operation instanceof ReleaseOperation release) {
      // The release ends the attachment as well: no detachment is needed.
      Integer handle = forget(release.lease);
      return handle == null ? 0 : handle;
    }
    return 0;
  }

  private SessionRequest answer(SessionRequest.Builder message, long now) {
    answered.put(toAnswer, now);
    if (answered.size() > ANSWERS) {
      answered.remove(answered.keySet().iterator().next());
    }
    message.setAnswer(BeatAnswer.newBuilder().setBeat(toAnswer));
    toAnswer = 0;
    return message.build();
  }

  private AttachLeases nextAttach(long now) {
    AttachLeases.Builder attach = AttachLeases.newBuilder();
    int bytes = 0;
    while (!toAttach.isEmpty() && bytes < MESSAGE_BYTES) {
      int handle = toAttach.remove();
      Attachment attachment = attached.get(handle);
      if (attachment == null) {
        continue; // detached meanwhile
      }
      attachment.sent = now;
      Lease lease = attachment.lease;
      // A name has at most 512 bytes, so the message stays far below the limit.
      bytes += 3 * lease.name.length() + lease.id.length() + ATTACHMENT_BYTES;
      attach.addLeases(LeaseAttachment.newBuilder()
          .setHandle(handle).setLockName(lease.name).setLeaseId(lease.id).setAttempt(attachment.attempt));
    }
    return attach.getLeasesCount() == 0 ? null : attach.build();
  }

  // Incoming messages

  /** The server answered the opening of the session. */
  void opened(long now) {
    if (!open && !ended) {
      open = true;
      lastReceived = Math.max(lastReceived, now);
      keeper.opened(this);
    }
  }

  void receive(SessionResponse message, long now) {
    lastReceived = Math.max(lastReceived, now);
    switch (message.getMessageCase()) {
      case ACQUIRE, RELEASE, RENEW, ERROR -> answeredOperation(message, now);
      case BEAT -> toAnswer = message.getBeat().getBeat();
      case ATTACHED -> renewed(message.getAttached().getLeasesList(), 0, now);
      case RENEWED -> {
        Long sent = answered.get(message.getRenewed().getBeat());
        if (sent != null) {
          renewed(message.getRenewed().getLeasesList(), sent, now);
        }
      }
      case LOST -> lost(message.getLost());
      case AT_RISK -> message.getAtRisk().getHandlesList().forEach(this::atRisk);
      case DETACHED -> detached(message.getDetached(), now);
      case DRAINING -> keeper.drains(this);
      case WANTED -> wanted(message.getWanted());
      case WAITING, MESSAGE_NOT_SET -> {
        // The queue position is not reported; a message of a newer server is ignored.
      }
    }
  }

  private void answeredOperation(SessionResponse message, long now) {
    InFlight sent = inFlight.remove(message.getOperation());
    if (sent == null) {
      return;
    }
    acquiresInFlight -= sent.acquire ? 1 : 0;
    Operation operation = sent.operation;
    if (operation == null) {
      if (message.getAcquire().hasLease()) {
        toDetach.add(sent.handle); // a later attempt gets the lease
      }
      return;
    }
    operation.session = null;
    if (!message.hasError()) {
      keeper.proven(this);
      operation.answered(message, this, operation.sentAt, now);
      return;
    }
    if (!sent.acquire && sent.handle != 0) {
      toDetach.add(sent.handle);
    }
    Failure failure = Failure.of(message.getError());
    keeper.refused(this, failure);
    if (failure.is(Failure.EXPIRED)) {
      keeper.repeat(operation, failure); // on a session that was opened with new credentials
    } else {
      operation.refused(failure);
    }
  }

  /** Leases were renewed by the answer sent at {@code sent}, or, if it is 0, by their attachments. */
  private void renewed(List<RenewedLeases> groups, long sent, long now) {
    keeper.proven(this);
    for (RenewedLeases group : groups) {
      long left = Wire.nanos(group.getTtl());
      for (int handle : group.getHandlesList()) {
        Attachment attachment = attached.get(handle);
        if (attachment != null && attachment.sent != 0) {
          attachment.confirmed = true;
          keeper.renewed(attachment.lease, sent == 0 ? attachment.sent : sent, now, 0, left);
        }
      }
    }
  }

  private void lost(Lost lost) {
    Attachment attachment = attached.remove(lost.getHandle());
    if (attachment != null) {
      handles.remove(attachment.lease, lost.getHandle());
      keeper.lose(attachment.lease, Wire.reason(lost.getEnd()), lost.getSuccessorToken());
    }
  }

  private void wanted(Wanted wanted) {
    Attachment attachment = attached.get(wanted.getHandle());
    if (attachment != null) {
      keeper.wanted(attachment.lease, Wire.mode(wanted.getMode()));
    }
  }

  private void atRisk(int handle) {
    Attachment attachment = attached.get(handle);
    if (attachment != null && attachment.attempt == attachment.lease.attachments) {
      keeper.atRisk(attachment.lease, true);
    }
  }

  /** The server no longer keeps a lease alive here. If it was attached to the next session since, that is expected. */
  private void detached(Detached detached, long now) {
    Attachment attachment = attached.remove(detached.getHandle());
    if (attachment == null || attachment.attempt != attachment.lease.attachments) {
      return;
    }
    Lease lease = attachment.lease;
    handles.remove(lease, detached.getHandle());
    if (detached.getReason() == Detached.Reason.REASON_STREAM_FULL) {
      lease.renewals = Lease.Renewals.ALONE;
    } else if (lease.reattachedOn != this) {
      // The store may have lost the attachment, or an old session took it back. The next number wins against both.
      lease.reattachedOn = this;
      attach(lease, now);
    } else {
      // Twice on one session means that another process attaches the lease as well: this one must not compete with it.
      lease.renewals = Lease.Renewals.NONE;
      keeper.atRisk(lease, false);
    }
  }
}
