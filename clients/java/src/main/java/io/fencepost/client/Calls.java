package io.fencepost.client;

import io.grpc.CallOptions;
import io.grpc.ClientStreamTracer;
import io.grpc.ConnectivityState;
import io.grpc.ManagedChannel;
import io.grpc.Metadata;
import io.grpc.MethodDescriptor;
import io.grpc.StatusRuntimeException;
import io.grpc.stub.ClientCalls;
import java.io.IOException;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;

/** Calls apart from the session, on connections of their own. Those that a thread waits for are repeated here. */
final class Calls {
  /** How long an unused connection stays open. */
  private static final long IDLE_SECONDS = 30;

  /** The longest time between two looks at the clock while a connection is made. */
  private static final long LOOK_MILLIS = 100;

  private final BootClock clock;
  private final Connector connector;
  private final Servers servers;
  private final Map<Integer, Connection> connections = new HashMap<>();
  private final AtomicInteger preferred = new AtomicInteger();
  private boolean closed;

  Calls(BootClock clock, Connector connector, Servers servers) {
    this.clock = clock;
    this.connector = connector;
    this.servers = servers;
  }

  /** A call that only reads. */
  <Q, A> A call(MethodDescriptor<Q, A> method, Q request) {
    return repeat(method, request, () -> {}, false);
  }

  /**
   * A call that changes something, and of which a repeat has no further effect. {@code check} is called before each
   * transmission, and ends the call with what it throws.
   */
  <Q, A> A change(MethodDescriptor<Q, A> method, Q request, Runnable check) {
    return repeat(method, request, check, true);
  }

  /** Repeats a call on the servers in turn, until it is answered or refused, or its time is over. */
  private <Q, A> A repeat(MethodDescriptor<Q, A> method, Q request, Runnable check, boolean changes) {
    long until = clock.now() + Timing.RETRY_FOR;
    Troubles troubles = new Troubles();
    Failure lastAnswer = null;
    boolean maybeApplied = false;
    for (int failures = 0; ; failures++) {
      check.run();
      int server = preferred();
      Failure failure;
      try {
        Connection connection = connected(server);
        Sending sending = new Sending();
        CallOptions options = options(server)
            .withDeadlineAfter(servers.answerTime(), TimeUnit.NANOSECONDS)
            .withStreamTracerFactory(sending);
        try {
          A answer = ClientCalls.blockingUnaryCall(connection.channel(), method, options, request);
          servers.works(server);
          return answer;
        } catch (StatusRuntimeException failed) {
          connection.greeting().examine();
          failure = failed(server, connection, failed);
          maybeApplied |= changes && sending.begun && !failure.hadNoEffect();
        }
      } catch (NotConnectedException failed) {
        failure = failed.failure();
      }
      if (Thread.interrupted()) {
        throw interrupted(new InterruptedException());
      }
      troubles.add(server, failure);
      lastAnswer = failure.isAnswer() ? failure : lastAnswer;
      long pause = Math.max(Timing.retryPause(failures), failure.retryDelay());
      boolean hopeless = !failure.movesOn() || troubles.isHopeless(servers.count());
      if (hopeless || clock.now() + pause - until > 0) {
        Failure last = troubles.with(failure).after(lastAnswer);
        throw maybeApplied ? new OutcomeUnknownException(last.message(), last.cause()) : last.exception();
      }
      try {
        TimeUnit.NANOSECONDS.sleep(pause);
      } catch (InterruptedException interrupted) {
        throw interrupted(interrupted);
      }
    }
  }

  /** Learns whether a transmission was begun: without a connection, nothing is sent. */
  private static final class Sending extends ClientStreamTracer.Factory {
    private volatile boolean begun;

    @Override
    public ClientStreamTracer newClientStreamTracer(ClientStreamTracer.StreamInfo info, Metadata headers) {
      return new ClientStreamTracer() {
        @Override
        public void outboundHeaders() {
          begun = true;
        }
      };
    }
  }

  private static WaitInterruptedException interrupted(InterruptedException cause) {
    Thread.currentThread().interrupt();
    return new WaitInterruptedException("interrupted while waiting for the answer of a server", cause);
  }

  CallOptions options(int server) {
    return connector.callOptions(servers.address(server));
  }

  int servers() {
    return servers.count();
  }

  long answerTime() {
    return servers.answerTime();
  }

  int preferred() {
    return preferred.get();
  }

  /** Explains the failure of a call on a connection, and moves on from the server. */
  Failure failed(int server, Connection connection, StatusRuntimeException failed) {
    Metadata trailers = failed.getTrailers() == null ? new Metadata() : failed.getTrailers();
    Failure failure = Failure.of(failed.getStatus(), trailers, connection);
    failed(server, connection, failure);
    return failure;
  }

  /**
   * Moves on from a server that failed, unless another call has done so already. A connection without an answer is
   * replaced: it may be one that the network has dropped, or the files of TLS may have changed. Calls on it go on. What
   * is above a quota is repeated on the same server.
   */
  void failed(int server, Connection connection, Failure failure) {
    if (failure.movesOn() && !failure.isOverQuota()) {
      preferred.compareAndSet(server, servers.after(server));
      servers.failed(server, failure);
    }
    if (failure.isLocal()) {
      remove(server, connection);
      connection.channel().shutdown();
    }
  }

  /**
   * The connection to a server, once the server answers there. If it does not in time, the connection is given up: gRPC
   * would wait for it as long as the call may take.
   */
  Connection connected(int server) throws NotConnectedException {
    Connection connection = connection(server);
    ManagedChannel channel = connection.channel();
    long until = clock.now() + Math.min(Timing.CONNECT_TIMEOUT, servers.answerTime());
    try {
      for (ConnectivityState state = channel.getState(true);
          state == ConnectivityState.IDLE || state == ConnectivityState.CONNECTING;
          state = channel.getState(true)) {
        CountDownLatch changed = new CountDownLatch(1);
        channel.notifyWhenStateChanged(state, changed::countDown);
        if (!changed.await(LOOK_MILLIS, TimeUnit.MILLISECONDS) && clock.now() - until >= 0) {
          Failure silent = Failure.silent(connection, "no answer in time");
          failed(server, connection, silent);
          channel.shutdownNow();
          throw new NotConnectedException(silent);
        }
      }
    } catch (InterruptedException interrupted) {
      throw interrupted(interrupted);
    }
    return connection;
  }

  private synchronized void remove(int server, Connection connection) {
    connections.remove(server, connection);
  }

  /** The connection to a server. After a failure it connects again without a pause: callers pause themselves. */
  private synchronized Connection connection(int server) throws NotConnectedException {
    if (closed) {
      throw new ClientClosedException();
    }
    Connection connection = connections.get(server);
    if (connection == null) {
      connection = connect(server);
      connections.put(server, connection);
    }
    connection.channel().resetConnectBackoff();
    return connection;
  }

  private Connection connect(int server) throws NotConnectedException {
    try {
      return connector.connection(servers.address(server), IDLE_SECONDS);
    } catch (IOException | RuntimeException unusable) {
      Failure failure = Failure.unusable(servers.address(server), unusable);
      preferred.compareAndSet(server, servers.after(server));
      servers.failed(server, failure);
      throw new NotConnectedException(failure);
    }
  }

  synchronized void close() {
    closed = true;
    connections.values().forEach(connection -> connection.channel().shutdownNow());
    connections.clear();
  }
}
