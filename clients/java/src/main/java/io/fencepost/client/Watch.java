package io.fencepost.client;

import io.fencepost.v1.LockServiceGrpc;
import io.fencepost.v1.WatchRequest;
import io.fencepost.v1.WatchResponse;
import io.grpc.ClientCall;
import io.grpc.Metadata;
import io.grpc.Status;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.function.Consumer;

/** A running watch of {@link FencepostClient#watch}. */
public final class Watch implements AutoCloseable {
  private static final System.Logger LOGGER = System.getLogger("io.fencepost.client");

  private final Threads threads;
  private final Calls calls;
  private final String prefix;
  private final Consumer<LockEvent> listener;
  private final CompletableFuture<Void> started = new CompletableFuture<>();
  private final CompletableFuture<Void> ended = new CompletableFuture<>();
  private ClientCall<WatchRequest, WatchResponse> call;
  private final Troubles troubles = new Troubles();
  private int failures;

  Watch(Threads threads, Calls calls, String prefix, Consumer<LockEvent> listener) {
    this.threads = threads;
    this.calls = calls;
    this.prefix = prefix;
    this.listener = listener;
    threads.inBackground(this::open);
  }

  /**
   * Completes when the server has confirmed the watch: it reports all later events.
   *
   * @return a stage that fails as {@link #ended()} does if the watch ends before
   */
  public CompletionStage<Void> started() {
    return started.minimalCompletionStage();
  }

  /**
   * Completes when the watch has ended: normally after {@link #close()}, with a {@link RefusedException} if a server
   * refused it, with an {@link UnavailableException} if no address is that of a server that can be called.
   *
   * @return the stage
   */
  public CompletionStage<Void> ended() {
    return ended.minimalCompletionStage();
  }

  /** Ends the watch. The listener may still receive an event that has arrived already. */
  @Override
  public void close() {
    end(null);
    synchronized (this) {
      if (call != null) {
        call.cancel("the watch was closed", null);
      }
    }
  }

  private void end(FencepostException failure) {
    if (failure == null) {
      ended.complete(null);
    } else {
      ended.completeExceptionally(failure);
    }
    started.completeExceptionally(failure == null ? new ClientClosedException() : failure);
  }

  private void open() {
    if (ended.isDone()) {
      return;
    }
    int server = calls.preferred();
    try {
      start(server, calls.connected(server));
    } catch (ClientClosedException closed) {
      end(closed);
    } catch (NotConnectedException unusable) {
      failed(server, unusable.failure());
    }
  }

  private synchronized void start(int server, Connection connection) {
    if (ended.isDone()) {
      return; // closed meanwhile
    }
    call = connection.channel().newCall(LockServiceGrpc.getWatchMethod(), calls.options(server));
    call.start(new Incoming(server, connection, call), new Metadata());
    call.sendMessage(WatchRequest.newBuilder().setPrefix(prefix).build());
    call.halfClose();
    call.request(1);
  }

  private void failed(int server, Failure failure) {
    troubles.add(server, failure);
    // After the start, a server that is full or drains is only a reason to try again.
    boolean goesOn = failure.movesOn() && !troubles.isHopeless(calls.servers());
    if (goesOn && (started.isDone() || !failure.is("WATCHERS_FULL"))) {
      threads.later(this::open, Math.max(Timing.retryPause(failures++), failure.retryDelay()));
    } else {
      end(troubles.with(failure).exception());
    }
  }

  private void receive(WatchResponse event) {
    LockEvent.Kind kind =
        switch (event.getKind()) {
          case KIND_GRANTED -> LockEvent.Kind.GRANTED;
          case KIND_RELEASED -> LockEvent.Kind.RELEASED;
          case KIND_EXPIRED -> LockEvent.Kind.EXPIRED;
          case KIND_REVOKED -> LockEvent.Kind.REVOKED;
          case KIND_MISSED -> LockEvent.Kind.MISSED;
          case KIND_CHANGED -> LockEvent.Kind.CHANGED;
          case KIND_STARTED, KIND_UNSPECIFIED, UNRECOGNIZED -> null;
        };
    if (event.getKind() == WatchResponse.Kind.KIND_STARTED) {
      failures = 0;
      troubles.clear();
      if (!started.complete(null)) {
        deliver(new LockEvent(LockEvent.Kind.MISSED, "", "", "", 0, "", 0)); // the time without a connection
      }
    } else if (kind != null) {
      deliver(new LockEvent(kind, event.getLockName(), event.getHolder(), event.getGrantId(), event.getFencingToken(),
          event.getReason(), event.getMissed()));
    }
  }

  private void deliver(LockEvent event) {
    if (ended.isDone()) {
      return;
    }
    try {
      listener.accept(event);
    } catch (RuntimeException failed) {
      LOGGER.log(System.Logger.Level.ERROR, "the listener of a watch failed", failed);
    }
  }

  private final class Incoming extends ClientCall.Listener<WatchResponse> {
    private final int server;
    private final Connection connection;
    private final ClientCall<WatchRequest, WatchResponse> call;

    Incoming(int server, Connection connection, ClientCall<WatchRequest, WatchResponse> call) {
      this.server = server;
      this.connection = connection;
      this.call = call;
    }

    @Override
    public void onMessage(WatchResponse event) {
      // The next event is requested when this one is done, so there is one at a time.
      threads.inBackground(() -> {
        receive(event);
        call.request(1);
      });
    }

    @Override
    public void onClose(Status status, Metadata trailers) {
      if (!ended.isDone()) {
        Status shown = status.isOk() ? Status.UNAVAILABLE.withDescription("the server ended the watch") : status;
        threads.inBackground(() -> {
          connection.greeting().examine();
          failed(server, calls.failed(server, connection, shown.asRuntimeException(trailers)));
        });
      }
    }
  }
}
