package io.fencepost.client;

import io.fencepost.v1.LockServiceGrpc;
import io.fencepost.v1.WatchRequest;
import io.fencepost.v1.WatchResponse;
import java.util.concurrent.CompletionStage;
import java.util.function.Consumer;

/** A running watch of {@link FencepostClient#watch}. */
public final class Watch implements AutoCloseable {
  private final Subscription<WatchRequest, WatchResponse> subscription;
  private final Consumer<LockEvent> listener;

  Watch(Threads threads, Calls calls, String prefix, Consumer<LockEvent> listener) {
    this.listener = listener;
    WatchRequest request = WatchRequest.newBuilder().setPrefix(prefix).build();
    this.subscription = new Subscription<>(
        threads, calls, LockServiceGrpc.getWatchMethod(), request, "the watch", this::receive);
    subscription.begin();
  }

  /**
   * Completes when the server has confirmed the watch: it reports all later events.
   *
   * @return a stage that fails as {@link #ended()} does if the watch ends before
   */
  public CompletionStage<Void> started() {
    return subscription.started();
  }

  /**
   * Completes when the watch has ended: normally after {@link #close()}, with a {@link RefusedException} if a server
   * refused it, with an {@link UnavailableException} if no address is that of a server that can be called.
   *
   * @return the stage
   */
  public CompletionStage<Void> ended() {
    return subscription.ended();
  }

  /** Ends the watch. The listener may still receive an event that has arrived already. */
  @Override
  public void close() {
    subscription.close();
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
      if (!subscription.works()) {
        deliver(new LockEvent(LockEvent.Kind.MISSED, "", "", "", 0, "", 0, "", null)); // the time without a connection
      }
    } else if (kind != null) {
      deliver(new LockEvent(kind, event.getLockName(), event.getHolder(), event.getGrantId(), event.getFencingToken(),
          event.getReason(), event.getMissed(), event.getIdentity(),
          kind == LockEvent.Kind.CHANGED ? Wire.mode(event.getMode()) : null));
    }
  }

  private void deliver(LockEvent event) {
    subscription.deliver(() -> listener.accept(event));
  }
}
