package io.fencepost.client.testing;

import io.fencepost.v1.CheckTokenRequest;
import io.fencepost.v1.CheckTokenResponse;
import io.fencepost.v1.GetRequest;
import io.fencepost.v1.GetResponse;
import io.fencepost.v1.ListRequest;
import io.fencepost.v1.ListResponse;
import io.fencepost.v1.LockInfo;
import io.fencepost.v1.LockServiceGrpc;
import io.fencepost.v1.SessionRequest;
import io.fencepost.v1.SessionResponse;
import io.fencepost.v1.WatchRequest;
import io.fencepost.v1.WatchResponse;
import io.grpc.stub.ServerCallStreamObserver;
import io.grpc.stub.StreamObserver;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Supplier;

/** The calls of a fake server. */
final class FakeService extends LockServiceGrpc.LockServiceImplBase {
  private record Watcher(String prefix, StreamObserver<WatchResponse> client) {}

  private final FakeLoop loop;
  private final FakeLocks locks;
  private final List<Watcher> watchers = new ArrayList<>();
  private int drops;

  FakeService(FakeLoop loop) {
    this.loop = loop;
    this.locks = new FakeLocks(loop, this::report);
  }

  FakeLocks locks() {
    return locks;
  }

  void dropReply() {
    drops++;
  }

  private boolean takeDrop() {
    boolean drop = drops > 0;
    drops -= drop ? 1 : 0;
    return drop;
  }

  @Override
  public StreamObserver<SessionRequest> session(StreamObserver<SessionResponse> client) {
    FakeSession session = new FakeSession(loop, locks, this::takeDrop, client);
    onCancel(client, session::end);
    return new StreamObserver<>() {
      @Override
      public void onNext(SessionRequest message) {
        loop.run(() -> session.receive(message));
      }

      @Override
      public void onError(Throwable cancelled) {
        loop.run(session::end);
      }

      @Override
      public void onCompleted() {
        loop.run(() -> {
          session.end();
          client.onCompleted();
        });
      }
    };
  }

  @Override
  public void watch(WatchRequest request, StreamObserver<WatchResponse> client) {
    Watcher watcher = new Watcher(request.getPrefix(), client);
    onCancel(client, () -> watchers.remove(watcher));
    loop.run(() -> {
      watchers.add(watcher);
      client.onNext(WatchResponse.newBuilder().setKind(WatchResponse.Kind.KIND_STARTED).build());
    });
  }

  private void report(WatchResponse event) {
    for (Watcher watcher : watchers) {
      if (event.getLockName().startsWith(watcher.prefix)) {
        loop.unlessPaused(() -> watcher.client.onNext(event));
      }
    }
  }

  @Override
  public void get(GetRequest request, StreamObserver<GetResponse> client) {
    answer(client, () -> GetResponse.newBuilder().setLock(locks.info(request.getLockName())).build());
  }

  @Override
  public void list(ListRequest request, StreamObserver<ListResponse> client) {
    answer(client, () -> {
      List<LockInfo> all = locks.names(request.getPrefix()).stream().map(locks::info).toList();
      return ListResponse.newBuilder().addAllLocks(all).build();
    });
  }

  @Override
  public void checkToken(CheckTokenRequest request, StreamObserver<CheckTokenResponse> client) {
    answer(client, () -> {
      long newest = locks.info(request.getLockName()).getNewestToken();
      long token = request.getFencingToken();
      CheckTokenResponse.Status status = CheckTokenResponse.Status.STATUS_STALE;
      if (newest == 0 || token > newest) {
        status = CheckTokenResponse.Status.STATUS_UNKNOWN;
      } else if (token == newest) {
        boolean held = locks.successor(request.getLockName()) == newest;
        status = held ? CheckTokenResponse.Status.STATUS_CURRENT : CheckTokenResponse.Status.STATUS_ENDED;
      }
      return CheckTokenResponse.newBuilder().setStatus(status).setNewestToken(newest).build();
    });
  }

  private <T> void answer(StreamObserver<T> client, Supplier<T> answer) {
    onCancel(client, () -> {});
    loop.run(() -> {
      client.onNext(answer.get());
      client.onCompleted();
    });
  }

  /** With a handler, messages to a client that is gone are dropped; without one they are errors. */
  private void onCancel(StreamObserver<?> client, Runnable then) {
    ((ServerCallStreamObserver<?>) client).setOnCancelHandler(() -> loop.run(then));
  }
}
