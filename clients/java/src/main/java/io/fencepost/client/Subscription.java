package io.fencepost.client;

import io.grpc.ClientCall;
import io.grpc.Metadata;
import io.grpc.MethodDescriptor;
import io.grpc.Status;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.function.Consumer;

/**
 * A stream of messages of a server. If it breaks, it is opened again, on the next server, until its user or a refusal
 * ends it.
 */
final class Subscription<Q, A> {
  private static final System.Logger LOGGER = System.getLogger("io.fencepost.client");

  private final Threads threads;
  private final Calls calls;
  private final MethodDescriptor<Q, A> method;
  private final Q request;
  private final String what;
  private final Consumer<A> receiver;
  private final CompletableFuture<Void> started = new CompletableFuture<>();
  private final CompletableFuture<Void> ended = new CompletableFuture<>();
  private ClientCall<Q, A> call;
  private final Troubles troubles = new Troubles();
  private int failures;

  /** {@code receiver} is called with one message at a time, on a thread of the pool. */
  Subscription(
      Threads threads, Calls calls, MethodDescriptor<Q, A> method, Q request, String what, Consumer<A> receiver) {
    this.threads = threads;
    this.calls = calls;
    this.method = method;
    this.request = request;
    this.what = what;
    this.receiver = receiver;
  }

  void begin() {
    threads.inBackground(this::open);
  }

  CompletionStage<Void> started() {
    return started.minimalCompletionStage();
  }

  CompletionStage<Void> ended() {
    return ended.minimalCompletionStage();
  }

  /** The server has confirmed the stream. Returns whether none has before. */
  boolean works() {
    failures = 0;
    troubles.clear();
    return started.complete(null);
  }

  /** Passes something on to the code of a user, unless the user has ended the stream. */
  void deliver(Runnable listener) {
    if (ended.isDone()) {
      return;
    }
    try {
      listener.run();
    } catch (RuntimeException failed) {
      LOGGER.log(System.Logger.Level.ERROR, "the listener of " + what + " failed", failed);
    }
  }

  void close() {
    end(null);
    synchronized (this) {
      if (call != null) {
        call.cancel(what + " was closed", null);
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
    call = connection.channel().newCall(method, calls.options(server));
    Incoming incoming = new Incoming(server, connection, call);
    call.start(incoming, new Metadata());
    call.sendMessage(request);
    call.halfClose();
    call.request(1);
    // Only its begin has a time: a server answers at once, and may say nothing more for long.
    threads.later(incoming::endUnanswered, calls.answerTime());
  }

  private void failed(int server, Failure failure) {
    troubles.add(server, failure);
    // A server that is full or drains is only a reason to try again, and so are old credentials after the start.
    boolean expired = started.isDone() && failure.is(Failure.EXPIRED);
    boolean goesOn = expired || (failure.movesOn() && !troubles.isHopeless(calls.servers()));
    if (goesOn) {
      threads.later(this::open, Math.max(Timing.retryPause(failures++), failure.retryDelay()));
    } else {
      end(troubles.with(failure).exception());
    }
  }

  private final class Incoming extends ClientCall.Listener<A> {
    private final int server;
    private final Connection connection;
    private final ClientCall<Q, A> call;
    private volatile boolean answered;

    Incoming(int server, Connection connection, ClientCall<Q, A> call) {
      this.server = server;
      this.connection = connection;
      this.call = call;
    }

    void endUnanswered() {
      if (!answered) {
        call.cancel("no answer in time", null);
      }
    }

    @Override
    public void onMessage(A message) {
      answered = true;
      // The next message is requested when this one is done, so there is one at a time.
      threads.inBackground(() -> {
        receiver.accept(message);
        call.request(1);
      });
    }

    @Override
    public void onClose(Status status, Metadata trailers) {
      if (!ended.isDone()) {
        Status shown = status.isOk() ? Status.UNAVAILABLE.withDescription("the server ended " + what) : status;
        threads.inBackground(() -> {
          connection.greeting().examine();
          failed(server, calls.failed(server, connection, shown.asRuntimeException(trailers)));
        });
      }
    }
  }
}
