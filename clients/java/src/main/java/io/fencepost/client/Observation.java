package io.fencepost.client;

import io.fencepost.v1.LockServiceGrpc;
import io.fencepost.v1.ObserveRequest;
import io.fencepost.v1.ObserveResponse;
import java.util.concurrent.CompletionStage;
import java.util.function.Consumer;

/** A running observation of {@link FencepostClient#observe}. */
public final class Observation implements AutoCloseable {
  private final Subscription<ObserveRequest, ObserveResponse> subscription;
  private final Consumer<LockInfo> listener;

  Observation(Threads threads, Calls calls, String name, Consumer<LockInfo> listener) {
    this.listener = listener;
    ObserveRequest request = ObserveRequest.newBuilder().setLockName(name).build();
    this.subscription = new Subscription<>(
        threads, calls, LockServiceGrpc.getObserveMethod(), request, "the observation", this::receive);
    subscription.begin();
  }

  /**
   * Completes when the observation has ended: normally after {@link #close()}, with a {@link RefusedException} if a
   * server refused it, with an {@link UnavailableException} if no address is that of a server that can be called.
   *
   * @return the stage
   */
  public CompletionStage<Void> ended() {
    return subscription.ended();
  }

  /** Ends the observation. The listener may still receive a state that has arrived already. */
  @Override
  public void close() {
    subscription.close();
  }

  private void receive(ObserveResponse state) {
    subscription.works();
    LockInfo lock = Wire.lock(state.getLock());
    subscription.deliver(() -> listener.accept(lock));
  }
}
