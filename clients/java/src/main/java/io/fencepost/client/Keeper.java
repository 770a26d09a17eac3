package io.fencepost.client;

import io.grpc.MethodDescriptor;
import io.grpc.Status;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.BooleanSupplier;
import java.util.function.LongConsumer;

/**
 * Keeps the leases of a client and carries its operations, on one session for all of them.
 *
 * <p>The server paces renewals; no timer renews here. A timer checks the leases ({@link Leases}), the operations that
 * wait ({@link OperationQueue}) and the session: one that is silent, ends or drains is replaced ({@link Sessions}). The
 * first operation opens a session. It is closed soon after the last lease.
 *
 * <p>One lock guards everything: it is held for a few instructions, never while waiting, and no code of a user runs
 * under it.
 */
final class Keeper {
  private final ReentrantLock lock = new ReentrantLock();
  private final Condition settled = lock.newCondition();
  private final BootClock clock;
  private final Threads threads;
  final LeaseNews news;
  final ForgottenLocks forgotten;
  private final Sessions sessions;
  private final Calls calls;
  private final Leases leases = new Leases();
  private final OperationQueue queue = new OperationQueue();

  /**
   * The acquires that callers wait for. Not guarded by the lock: the thread that waits for a future may be the one that
   * runs what follows it.
   */
  private final Set<AcquireOperation> acquiring = ConcurrentHashMap.newKeySet();

  /** The number of acquires in flight apart from the session. */
  private int alone;

  private long lastCheck;
  private long idleSince = -1;
  private boolean closed;

  Keeper(BootClock clock, Threads threads, Log log, Connector connector, Calls calls, Servers servers) {
    this.clock = clock;
    this.threads = threads;
    this.news = new LeaseNews(threads, log);
    this.forgotten = new ForgottenLocks(this);
    this.calls = calls;
    this.sessions = new Sessions(this, leases, connector, servers);
    this.lastCheck = clock.now();
  }

  /** How long one server gets to answer what does not wait. */
  long answerTime() {
    return calls.answerTime();
  }

  long now() {
    return clock.now();
  }

  void inBackground(Runnable task) {
    threads.inBackground(task);
  }

  boolean underLock(BooleanSupplier action) {
    lock.lock();
    try {
      return action.getAsBoolean();
    } finally {
      lock.unlock();
    }
  }

  // Called by locks and requests

  /** Starts an acquire. */
  void start(AcquireOperation operation) {
    lock.lock();
    try {
      if (closed) {
        throw new ClientClosedException();
      }
      acquiring.add(operation);
      operation.result.whenComplete((granted, failure) -> acquiring.remove(operation));
      submit(operation);
    } finally {
      lock.unlock();
    }
  }

  void abandon(AcquireOperation operation, FencepostException cause) {
    lock.lock();
    try {
      operation.abandon(cause);
      proceed(now());
    } finally {
      lock.unlock();
    }
  }

  /** Whether a lease is valid. Once false, it stays false. */
  boolean isValid(Lease lease) {
    if (lease.isOver()) {
      return false;
    }
    if (now() < lease.validUntil) {
      return true;
    }
    lock.lock();
    try {
      // A renewal may have arrived meanwhile.
      if (now() >= lease.validUntil) {
        lose(lease, lease.reasonByClock(), 0);
      }
      return !lease.isOver();
    } finally {
      lock.unlock();
    }
  }

  /**
   * Stops renewing a lease and sends its release. No renewal is sent after this. If the lease is lost, the answer does
   * not wait for the server: the release goes on in the background, so that the next holder need not wait for the TTL
   * or the lock_delay.
   */
  CompletableFuture<LeaseEnd> release(Lease lease) {
    lock.lock();
    try {
      if (lease.release == null) {
        lease.release = startRelease(lease);
      } else if (!lease.release.isDone() && now() >= lease.validUntil) {
        return CompletableFuture.completedFuture(LeaseEnd.UNSPECIFIED); // over meanwhile
      }
      return lease.release;
    } finally {
      lock.unlock();
    }
  }

  private CompletableFuture<LeaseEnd> startRelease(Lease lease) {
    long now = now();
    if (now >= lease.validUntil) {
      lose(lease, lease.reasonByClock(), 0);
    }
    Loss loss = lease.loss;
    lease.released = true;
    leases.remove(lease);
    forgotten.remove(lease);
    boolean reported = loss != null && loss.reason() != LossReason.SILENCE && loss.reason() != LossReason.MAX_HOLD;
    LeaseEnd end = reported ? LeaseEnd.valueOf(loss.reason().name()) : LeaseEnd.UNSPECIFIED;
    if (reported && lease.lockDelay == 0) {
      return CompletableFuture.completedFuture(end);
    }
    sessions.stopRenewing(lease);
    ReleaseOperation operation = new ReleaseOperation(this, lease, now);
    submit(operation);
    return loss == null ? operation.result : CompletableFuture.completedFuture(end);
  }

  /** Ends the waiting acquires, releases the locks, and waits a bounded time for the answers. */
  void close(long timeout) {
    lock.lock();
    try {
      closed = true;
      new ArrayList<>(acquiring).forEach(operation -> operation.abandon(new ClientClosedException()));
      for (Lease lease : leases.all()) {
        release(lease);
        lease.clientClosed();
      }
      proceed(now());
      for (long left = timeout; left > 0 && isBusy(); ) {
        left = settled.awaitNanos(left);
      }
    } catch (InterruptedException interrupted) {
      Thread.currentThread().interrupt(); // what is not released ends by its TTL
    } finally {
      sessions.shutDown();
      lock.unlock();
    }
  }

  /** A call of a lock, apart from the session. It waits, so it is made without the lock. */
  <Q, A> A change(MethodDescriptor<Q, A> method, Q request, Runnable check) {
    return calls.change(method, request, check);
  }

  // Called by operations and sessions, under the lock

  /** Renews a lease from now on. {@code granted} is the session that it is attached to, or null. */
  void add(Lease lease, Session granted) {
    if (leases.add(lease)) {
      sessions.paceChanged(now());
    }
    sessions.attach(lease, granted);
    threads.wakeIn(Timing.tick(leases.shortest()));
  }

  void releaseInBackground(Lease lease) {
    release(lease);
  }

  /** Queues an operation. */
  void submit(Operation operation) {
    queue.add(operation);
    proceed(now());
  }

  /** Queues a failed operation again, after a pause, unless its time is over. */
  void repeat(Operation operation, Failure failure) {
    repeat(operation, failure, operation.until);
  }

  /** The same, if the pause ends before {@code until}. */
  void repeat(Operation operation, Failure failure, long until) {
    if (failure.isAnswer()) {
      operation.answer = failure;
    }
    long now = now();
    boolean elsewhere = failure.is("DRAINING") && sessions.hasOther();
    long pause = Math.max(Timing.retryPause(operation.failures++), elsewhere ? 0 : failure.retryDelay());
    if (now + pause >= until) {
      operation.gaveUp(failure.after(operation.answer));
      return;
    }
    operation.notBefore = now + pause;
    queue.pause(operation);
    threads.wakeIn(pause);
  }

  /** An operation in flight was not answered in time. */
  void unanswered(Operation operation) {
    operation.session = null;
    operation.maybeApplied = true;
    repeat(operation, Failure.local(Status.Code.DEADLINE_EXCEEDED, "no answer in time"));
  }

  /** Sends an acquire apart from the session, which has no room for its lease. */
  void sendAlone(UnaryAcquire acquire) {
    alone++;
    inBackground(() -> acquire.start(calls));
  }

  /** The acquire was answered, refused or abandoned. */
  void endedAlone() {
    alone--;
  }

  /** Removes an operation that waits to be sent. */
  void withdraw(Operation operation) {
    queue.remove(operation);
  }

  Operation nextUrgent(Session asking) {
    return sessions.carriesUrgent(asking) ? queue.pollUrgent() : null;
  }

  Operation nextAcquire(Session asking) {
    return sessions.carriesAcquires(asking) ? queue.pollAcquire() : null;
  }

  void lose(Lease lease, LossReason reason, long successorToken) {
    if (leases.remove(lease)) {
      sessions.detach(lease);
    }
    Loss loss = new Loss(lease.name, lease.token, reason, successorToken);
    if (lease.lose(loss)) {
      news.lost(lease, loss);
    }
  }

  /** Somebody waits whom the lease excludes. Told once, also if a later session repeats it. */
  void wanted(Lease lease, LockMode mode) {
    if (lease.wanted == null && !lease.isOver()) {
      lease.wanted = mode;
      news.wanted(lease);
    }
  }

  void atRisk(Lease lease, boolean storeUnreachable) {
    lease.storeUnreachable |= storeUnreachable;
    if (lease.atRisk()) {
      String cause = storeUnreachable ? "the server cannot reach its store" : sessions.whyNotRenewed();
      news.atRisk(lease, lease.validUntil - now(), cause);
    }
  }

  void renewed(Lease lease, long sent, long read, long held, long left) {
    boolean wasBounded = lease.bounded;
    if (lease.renewed(sent, read, held, left)) {
      news.renewedAgain(lease);
    }
    if (lease.bounded && !wasBounded) {
      news.bounded(lease, lease.validUntil - now());
    }
  }

  void opened(Session session) {
    sessions.opened(session);
  }

  void proven(Session session) {
    sessions.proven(session);
  }

  void drains(Session session) {
    sessions.drains(session, now());
  }

  void refused(Session session, Failure failure) {
    sessions.refused(session, failure, now());
  }

  // Called by the transport and the timer, without the lock

  /** Applies a message of a session. */
  void onSession(Session session, LongConsumer action) {
    lock.lock();
    try {
      if (!session.ended) {
        long now = now();
        action.accept(now);
        session.pump();
        settled();
      }
    } finally {
      lock.unlock();
    }
  }

  /** Applies the answer to a call apart from the session. */
  void apply(LongConsumer action) {
    lock.lock();
    try {
      action.accept(now());
      proceed(now());
    } finally {
      lock.unlock();
    }
  }

  void ended(Session session, Failure failure) {
    lock.lock();
    try {
      sessions.ended(session, failure, now());
      proceed(now());
    } finally {
      lock.unlock();
    }
  }

  /** The check of the timer. Returns the time until the next one. */
  long check() {
    lock.lock();
    try {
      long now = now();
      // A process that was paused finds the messages that came meanwhile unread: that is not the server's silence.
      boolean late = !leases.isEmpty() && now - lastCheck > leases.shortest() / 4;
      lastCheck = now;
      forgotten.release();
      boolean stuck = leases.check(now, this, sessions.hasOther());
      queue.resume(now);
      giveUp(queue.ready().stream().filter(operation -> now >= operation.until).toList(), sessions.troubles());
      sessions.check(now, stuck, late);
      proceed(now);
      return nextCheck(now);
    } finally {
      lock.unlock();
    }
  }

  /** Ends operations that wait to be sent. */
  private void giveUp(List<Operation> operations, Failure failure) {
    operations.forEach(this::withdraw);
    operations.forEach(operation -> operation.gaveUp(failure.after(operation.answer)));
  }

  /** Ends all operations that wait to be sent. */
  void giveUp(Failure failure) {
    giveUp(queue.ready(), failure);
  }

  private boolean hasWork() {
    return !leases.isEmpty() || queue.isReady();
  }

  private boolean isBusy() {
    return !queue.isEmpty() || alone > 0 || sessions.isBusy();
  }

  /** Opens a session if one is needed, and sends what can be sent. */
  private void proceed(long now) {
    if (hasWork()) {
      idleSince = -1;
      sessions.open(now);
    }
    sessions.pump();
    settled();
    threads.wakeIn(leases.isEmpty() ? nextCheck(now) : Timing.tick(leases.shortest()));
  }

  private void settled() {
    if (closed && !isBusy()) {
      settled.signalAll();
    }
  }

  private long nextCheck(long now) {
    long next = TimeUnit.HOURS.toNanos(1);
    if (!leases.isEmpty()) {
      next = leases.nextCheck(now);
    } else if (sessions.isOpen() && !isBusy()) {
      idleSince = idleSince < 0 ? now : idleSince;
      next = Timing.LINGER - (now - idleSince);
      if (next <= 0) {
        sessions.close();
        return TimeUnit.HOURS.toNanos(1);
      }
    }
    next = Math.min(next, queue.nextResume(now));
    if (isBusy()) {
      next = Math.min(next, sessions.nextCheck(now));
    }
    return Math.max(next, TimeUnit.MILLISECONDS.toNanos(1));
  }
}
