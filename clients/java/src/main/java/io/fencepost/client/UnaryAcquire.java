package io.fencepost.client;

import io.fencepost.v1.AcquireRequest;
import io.fencepost.v1.AcquireResponse;
import io.fencepost.v1.LockServiceGrpc;
import io.grpc.ClientCall;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import io.grpc.stub.ClientCalls;
import io.grpc.stub.StreamObserver;
import java.util.concurrent.TimeUnit;
import java.util.function.Function;

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

  /** Explains a failure, and lets the next transmission go to another server. Set before the call is made. */
  private Function<StatusRuntimeException, Failure> explain;

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
    ClientCall<AcquireRequest, AcquireResponse> made;
    try {
      Connection connection = calls.connected(server);
      explain = failed -> calls.failed(server, connection, failed);
      made = connection.channel().newCall(
          LockServiceGrpc.getAcquireMethod(),
          calls.options(server).withDeadlineAfter(timeout, TimeUnit.NANOSECONDS));
    } catch (NotConnectedException unusable) {
      failed(unusable.failure());
      return;
    } catch (ClientClosedException closed) {
      failed(Failure.local(Status.Code.CANCELLED, closed.getMessage()));
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
    if (keeper.underLock(() -> over)) {
      return; // cancelled
    }
    failed(explain.apply(Status.fromThrowable(failed).asRuntimeException(Status.trailersFromThrowable(failed))));
  }

  private void failed(Failure failure) {
    keeper.apply(now -> {
      if (!over) {
        over = true;
        operation.refusedAlone(failure);
      }
    });
  }

  @Override
  public void onCompleted() {
    // A call without an answer ends with an error.
  }
}
