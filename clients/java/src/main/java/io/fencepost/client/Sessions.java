package io.fencepost.client;

import io.grpc.Status;
import java.util.List;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;

/**
 * The sessions of a client: the current one, and during a move the previous one, which is kept until the current one
 * keeps every lease. Every method is called under the lock of the {@link Keeper}.
 */
final class Sessions {
  /** A second move within a short time pauses as if so many sessions had failed: about 400 ms. */
  private static final int TRIES_AGAIN = 4;

  private final Keeper keeper;
  private final Leases leases;
  private final Connector connector;
  private final Servers servers;
  private final Troubles troubles = new Troubles();
  private Session current;
  private Session previous;
  private int preferred;

  /** Sessions opened in a row without one that did something useful. */
  private int tries;

  /** When the next session may be opened, and when operations last left a session that works. */
  private long due = Long.MIN_VALUE;

  private long movedAt = Long.MIN_VALUE;
  private boolean shutDown;

  Sessions(Keeper keeper, Leases leases, Connector connector, Servers servers) {
    this.keeper = keeper;
    this.leases = leases;
    this.connector = connector;
    this.servers = servers;
  }

  boolean hasOther() {
    return servers.count() > 1;
  }

  boolean isOpen() {
    return current != null || previous != null;
  }

  boolean isBusy() {
    return (current != null && current.isBusy()) || (previous != null && previous.isBusy());
  }

  boolean carriesAcquires(Session session) {
    return session == current;
  }

  /** Releases need not wait for a session that is still being opened. */
  boolean carriesUrgent(Session session) {
    return session == current || current == null || !current.open;
  }

  /** Why the current session does not renew a lease. */
  String whyNotRenewed() {
    boolean works = current != null && current.open;
    return works ? "no renewal has arrived in time" : troubles.all().message();
  }

  /** Why no session could be opened. */
  Failure troubles() {
    return troubles.all();
  }

  /** Opens a session unless there is one, or it is too early for the next one. */
  void open(long now) {
    if (current == null && !shutDown && (due == Long.MIN_VALUE || now >= due)) {
      openNext(now);
    }
  }

  private void openNext(long now) {
    Session session =
        new Session(keeper, preferred, opened -> new SessionCall(keeper, opened, connector, servers), now);
    current = session;
    tries++;
    leases.onStream().forEach(lease -> session.attach(lease, now));
    keeper.inBackground(session::connect);
  }

  void opened(Session session) {
    troubles.clear();
    servers.works(session.server);
  }

  /** A session that works, but drains, does not make the next one due at once. */
  void proven(Session session) {
    session.proven = true;
    if (session == current && !session.draining) {
      tries = 0;
    }
  }

  /** A shorter TTL makes beats more frequent: silence counts from now. */
  void paceChanged(long now) {
    if (current != null) {
      current.lastReceived = Math.max(current.lastReceived, now);
    }
  }

  void attach(Lease lease, Session granted) {
    if (lease.isOnSession() && current != null && current != granted) {
      current.attach(lease, keeper.now());
    }
  }

  /** The release itself ends the attachment to the session that carries it. */
  void stopRenewing(Lease lease) {
    if (previous != null) {
      previous.detach(lease);
    }
  }

  void detach(Lease lease) {
    if (current != null) {
      current.detach(lease);
    }
    if (previous != null) {
      previous.detach(lease);
    }
  }

  void pump() {
    if (previous != null) {
      previous.pump();
    }
    if (current != null) {
      current.pump();
    }
  }

  /** With no other server, the session stays until the server ends it. */
  void drains(Session session, long now) {
    session.draining = true;
    if (session == current && hasOther()) {
      move(Failure.local(Status.Code.UNAVAILABLE, servers.address(session.server) + ": it is draining"), now);
    }
  }

  /** An operation failed: if the server or its store cannot do it, another server may. */
  void refused(Session session, Failure failure, long now) {
    if (failure.is("DRAINING")) {
      drains(session, now);
    } else if (failure.is(Failure.EXPIRED)) {
      ended(session, failure, now); // the server would end it soon, and refuse all until then
    } else if (failure.code() == Status.Code.UNAVAILABLE && session == current && hasOther()) {
      if (movedAt == Long.MIN_VALUE || now - movedAt >= Timing.MOVE_INTERVAL_MIN) {
        move(failure, now);
      }
    }
  }

  /** Opens a session on the next server, and keeps the current one meanwhile. */
  private void move(Failure why, long now) {
    servers.failed(current.server, why);
    if (previous != null) {
      end(previous, Failure.local(Status.Code.UNAVAILABLE, "the session was replaced"), now);
    }
    previous = current;
    current = null;
    // If the next server cannot be used either, the way back and forth takes a pause each time.
    boolean again = movedAt != Long.MIN_VALUE && now - movedAt < Timing.MOVE_INTERVAL_MIN;
    due = now + (again ? Timing.reopenPause(leases.shortest(), Math.max(tries, TRIES_AGAIN)) : 0);
    movedAt = now;
    preferred = servers.after(preferred);
    open(now);
  }

  /** The stream of a session ended, or could not be opened. */
  void ended(Session session, Failure failure, long now) {
    if (!session.ended) {
      failed(session, failure, now);
    }
  }

  private void failed(Session session, Failure failure, long now) {
    if (!failure.isOverQuota()) {
      servers.failed(session.server, failure);
    }
    end(session, failure, now);
  }

  private void end(Session session, Failure failure, long now) {
    List<Operation> unanswered = session.close();
    if (session == previous) {
      previous = null;
    } else if (session == current) {
      current = null;
      troubles.add(session.server, failure);
      planNext(session.server, failure, now);
    }
    for (Operation operation : unanswered) {
      operation.session = null;
      operation.maybeApplied = true;
      keeper.submit(operation);
    }
    if (!session.open) {
      notOpened(failure);
    }
  }

  /** The current session is over. Decides where and when the next one is opened. */
  private void planNext(int server, Failure failure, long now) {
    boolean stays = failure.isOverQuota();
    preferred = stays ? server : servers.after(preferred);
    boolean full = failure.code() == Status.Code.RESOURCE_EXHAUSTED && (stays || !hasOther());
    due = now + Math.max(pause(), full ? failure.retryDelay() : 0);
    if (stays && previous != null && previous.server == server) {
      goBack(now);
    }
  }

  /** The quota may count the previous session: that goes on, or makes room. */
  private void goBack(long now) {
    Session session = previous;
    if (session.draining || isSilent(session, now, false)) {
      end(session, Failure.local(Status.Code.UNAVAILABLE, "the session was replaced"), now);
      return;
    }
    previous = null;
    current = session;
    // Again, since the refused session has higher attempt numbers.
    leases.onStream().forEach(lease -> session.attach(lease, now));
  }

  /** A refusal that will be repeated by every attempt ends the operations that wait. */
  private void notOpened(Failure failure) {
    if (!failure.movesOn() || troubles.isHopeless(servers.count())) {
      keeper.giveUp(troubles.with(failure));
    }
  }

  private long pause() {
    if (tries > 0) {
      return Timing.reopenPause(leases.shortest(), tries);
    }
    // The clients of a server that stopped do not all connect to the next one at once.
    long most = Math.min(leases.shortest() / 20, TimeUnit.MILLISECONDS.toNanos(500));
    return ThreadLocalRandom.current().nextLong(most + 1);
  }

  /** Replaces a session that is silent, cannot be opened or does not renew; retires the previous one. */
  void check(long now, boolean stuck, boolean late) {
    if (previous != null && (previous.ended || isSilent(previous, now, late) || isReplaced())) {
      end(previous, Failure.local(Status.Code.UNAVAILABLE, "the session was replaced"), now);
    }
    if (current == null) {
      return;
    }
    if (!current.open && now - current.startedAt > openTimeout(current, leases.shortest())) {
      failed(current, current.silent("no answer in time"), now);
    } else if (isSilent(current, now, late) || current.repeatOverdue(now)) {
      failed(current, current.silent("the session is silent"), now);
    } else if (stuck && current.open) {
      failed(current, current.silent("the session does not renew"), now);
    }
  }

  /** The beats of the server are as frequent as the shortest lease on its session needs. */
  private boolean isSilent(Session session, long now, boolean late) {
    long shortest = leases.shortestOnStream();
    return session.open && shortest > 0 && !late && now - session.lastReceived > shortest / Facts.SILENCE_DIVISOR;
  }

  private boolean isReplaced() {
    return current != null && current.open && current.keepsAll() && !previous.isBusy();
  }

  /** A proven client connects quickly enough for its leases; a cold one has none yet. */
  private long openTimeout(Session session, long shortest) {
    long timeout = Math.min(session.connecting ? Timing.CONNECT_TIMEOUT : Timing.OPEN_TIMEOUT, servers.answerTime());
    return shortest == 0 ? timeout : Math.min(timeout, Timing.answerTimeout(shortest));
  }

  /** The time until the next check that an operation needs. */
  long nextCheck(long now) {
    if (current == null) {
      return due == Long.MIN_VALUE ? 0 : Math.max(0, due - now);
    }
    return TimeUnit.MILLISECONDS.toNanos(current.open ? 500 : 50);
  }

  /** Ends the sessions for good. */
  void shutDown() {
    shutDown = true;
    close();
  }

  void close() {
    Failure failure = Failure.local(Status.Code.UNAVAILABLE, "the session was closed");
    long now = keeper.now();
    if (previous != null) {
      end(previous, failure, now);
    }
    if (current != null) {
      end(current, failure, now);
    }
    tries = 0;
    due = Long.MIN_VALUE;
  }
}
