package io.fencepost.client;

import io.grpc.CallOptions;
import io.grpc.ClientCall;
import io.grpc.ConnectivityState;
import io.grpc.ManagedChannel;
import io.grpc.Metadata;
import io.grpc.MethodDescriptor;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import io.grpc.stub.ClientCalls;
import java.io.IOException;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;

/** Calls apart from the session, on connections of their own. Those that only read are repeated here. */
final class Calls {
  /** How long an unused connection stays open. */
  private static final long IDLE_SECONDS = 30;

  /** The longest time between two looks at the clock while a connection is made. */
  private static final long LOOK_MILLIS = 100;

  private final BootClock clock;
  private final Connector connector;
  private final List<ServerAddress> servers;
  private final Map<Integer, ManagedChannel> channels = new HashMap<>();
  private final AtomicInteger preferred = new AtomicInteger();
  private boolean closed;

  Calls(BootClock clock, Connector connector, List<ServerAddress> servers) {
    this.clock = clock;
    this.connector = connector;
    this.servers = servers;
  }

  /** A call on a connection, which may fail. */
  interface Transmission<T> {
    T send(ManagedChannel channel, CallOptions options);
  }

  <Q, A> A call(MethodDescriptor<Q, A> method, Q request) {
    return call((channel, options) -> ClientCalls.blockingUnaryCall(
        channel, method, options.withDeadlineAfter(Timing.CALL_TIMEOUT, TimeUnit.NANOSECONDS), request));
  }

  /** Repeats a call on the servers in turn, until it is answered or refused, or its time is over. */
  private <T> T call(Transmission<T> transmission) {
    long until = clock.now() + Timing.RETRY_FOR;
    int refusedByTls = 0;
    for (int failures = 0; ; failures++) {
      int server = preferred();
      ManagedChannel channel = null;
      Failure failure;
      try {
        channel = connected(server);
        return transmission.send(channel, options(server));
      } catch (StatusRuntimeException failed) {
        Metadata trailers = failed.getTrailers() == null ? new Metadata() : failed.getTrailers();
        failure = Failure.of(failed.getStatus(), trailers).at(servers.get(server));
        if (Thread.interrupted()) {
          throw interrupted(new InterruptedException());
        }
      }
      failed(server);
      if (failure.isTls()) {
        refusedByTls++;
        giveUp(server, channel); // the next connection reads the files again
      }
      long pause = Math.max(Timing.retryPause(failures), failure.retryDelay());
      boolean hopeless = !failure.isTransient() || refusedByTls > servers.size();
      if (hopeless || clock.now() + pause - until > 0) {
        throw failure.refused();
      }
      try {
        TimeUnit.NANOSECONDS.sleep(pause);
      } catch (InterruptedException interrupted) {
        throw interrupted(interrupted);
      }
    }
  }

  /** A call on a server, to be started. Its callbacks run on the thread that reads the socket. */
  <Q, A> ClientCall<Q, A> newCall(int server, MethodDescriptor<Q, A> method, long timeout) {
    return connected(server).newCall(method, options(server).withDeadlineAfter(timeout, TimeUnit.NANOSECONDS));
  }

  private static WaitInterruptedException interrupted(InterruptedException cause) {
    Thread.currentThread().interrupt();
    return new WaitInterruptedException("interrupted while waiting for the answer of a server", cause);
  }

  CallOptions options(int server) {
    return connector.callOptions(servers.get(server));
  }

  int preferred() {
    return preferred.get();
  }

  /** Moves on from a server that failed, unless another call has done so already. */
  void failed(int server) {
    preferred.compareAndSet(server, (server + 1) % servers.size());
  }

  /**
   * The connection to a server, once the server answers there. If it does not in time, the connection is given up: gRPC
   * would wait for it as long as the call may take.
   */
  ManagedChannel connected(int server) {
    ManagedChannel channel = channel(server);
    long until = clock.now() + Timing.CONNECT_TIMEOUT;
    try {
      for (ConnectivityState state = channel.getState(true);
          state == ConnectivityState.IDLE || state == ConnectivityState.CONNECTING;
          state = channel.getState(true)) {
        CountDownLatch changed = new CountDownLatch(1);
        channel.notifyWhenStateChanged(state, changed::countDown);
        if (!changed.await(LOOK_MILLIS, TimeUnit.MILLISECONDS) && clock.now() - until >= 0) {
          giveUp(server, channel);
          throw Status.UNAVAILABLE.withDescription("no answer in time").asRuntimeException();
        }
      }
    } catch (InterruptedException interrupted) {
      throw interrupted(interrupted);
    }
    return channel;
  }

  /** Closes a connection, so that the next call makes another one. {@code channel} is null if there is none. */
  private synchronized void giveUp(int server, ManagedChannel channel) {
    if (channel != null) {
      channels.remove(server, channel);
      channel.shutdownNow();
    }
  }

  /** The connection to a server. After a failure it connects again without a pause: callers pause themselves. */
  private synchronized ManagedChannel channel(int server) {
    if (closed) {
      throw new ClientClosedException();
    }
    ManagedChannel channel = channels.computeIfAbsent(server, this::connect);
    channel.resetConnectBackoff();
    return channel;
  }

  private ManagedChannel connect(int server) {
    try {
      return connector.channel(servers.get(server), IDLE_SECONDS);
    } catch (IOException unusable) {
      throw Status.UNAVAILABLE.withCause(unusable).asRuntimeException();
    }
  }

  synchronized void close() {
    closed = true;
    channels.values().forEach(ManagedChannel::shutdownNow);
    channels.clear();
  }
}
