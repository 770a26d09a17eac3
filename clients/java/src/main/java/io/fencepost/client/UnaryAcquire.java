package io.fencepost.client;

import io.fencepost.v1.AcquireRequest;
import io.fencepost.v1.AcquireResponse;
import io.fencepost.v1.LockServiceGrpc;
import io.grpc.ClientCall;
import io.grpc.Metadata;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import io.grpc.stub.ClientCalls;
import io.grpc.stub.StreamObserver;

/**
 * One transmission of an acquire apart from the session: the session keeps as many leases alive as the server allows.
 * Its lease is renewed by operations of the session, of which there is no such bound.
 */
final class UnaryAcquire implements StreamObserver<AcquireResponse> {
  private final Keeper keeper;
  private final AcquireOperation operation;
  private final AcquireRequest request;
  private final long timeout;
  private final long sentAt;

  /** Lets the next transmission go to another server. Set before the call is made. */
  private Runnable serverFailed;

  private ClientCall<AcquireRequest, AcquireResponse> call;
  private boolean over;

  UnaryAcquire(Keeper keeper, AcquireOperation operation, AcquireRequest request, long timeout, long now) {
    this.keeper = keeper;
    this.operation = operation;
    this.request = request;
    this.timeout = timeout;
    this.sentAt = now;
  }

  /** Sends the request. Called without the lock, because it may read the files of TLS. */
  void start(Calls calls) {
    int server = calls.preferred();
    serverFailed = () -> calls.failed(server);
    ClientCall<AcquireRequest, AcquireResponse> made;
    try {
      made = calls.newCall(server, LockServiceGrpc.getAcquireMethod(), timeout);
    } catch (StatusRuntimeException unusable) {
      onError(unusable);
      return;
    } catch (ClientClosedException closed) {
      onError(Status.CANCELLED.withDescription("the client is closed").asRuntimeException());
      return;
    }
    keeper.apply(now -> {
      if (!over) {
        call = made;
        ClientCalls.asyncUnaryCall(made, request, this);
      }
    });
  }

  /** Withdraws the request, under the lock. A grant that crosses this is found by the next attempt. */
  void cancel() {
    over = true;
    if (call != null) {
      keeper.inBackground(() -> call.cancel("the request was abandoned", null));
    }
  }

  @Override
  public void onNext(AcquireResponse answer) {
    keeper.apply(now -> {
      if (!over) {
        over = true;
        operation.answeredAlone(answer, sentAt, now);
      }
    });
  }

  @Override
  public void onError(Throwable failed) {
    Metadata trailers = Status.trailersFromThrowable(failed);
    Failure failure = Failure.of(Status.fromThrowable(failed), trailers == null ? new Metadata() : trailers);
    keeper.apply(now -> {
      if (!over) {
        over = true;
        if (failure.isTransient()) {
          serverFailed.run();
        }
        operation.refusedAlone(failure);
      }
    });
  }

  @Override
  public void onCompleted() {
    // A call without an answer ends with an error.
  }
}
