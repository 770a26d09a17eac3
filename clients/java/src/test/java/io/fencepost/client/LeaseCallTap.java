package io.fencepost.client;

import com.google.protobuf.MessageOrBuilder;
import io.fencepost.v1.SessionResponse;
import io.grpc.ForwardingServerCall.SimpleForwardingServerCall;
import io.grpc.ForwardingServerCallListener.SimpleForwardingServerCallListener;
import io.grpc.Metadata;
import io.grpc.ServerCall;
import io.grpc.ServerCallHandler;
import io.grpc.ServerInterceptor;
import io.grpc.Status;
import java.util.List;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.CopyOnWriteArrayList;

/**
 * Records the unary calls of a client that change a lease, can replace their answers, and keeps the news of losses from
 * the client.
 */
final class LeaseCallTap implements ServerInterceptor {
  private static final List<String> METHODS = List.of("Convert", "Describe");

  final List<MessageOrBuilder> received = new CopyOnWriteArrayList<>();

  /** What the client hears, in place of the answers, of the next calls that have taken effect. */
  final Queue<Status> errors = new ConcurrentLinkedQueue<>();

  @Override
  public <Q, A> ServerCall.Listener<Q> interceptCall(
      ServerCall<Q, A> call, Metadata headers, ServerCallHandler<Q, A> handler) {
    if (!METHODS.contains(call.getMethodDescriptor().getBareMethodName())) {
      return handler.startCall(withoutLosses(call), headers);
    }
    Status error = errors.poll();
    ServerCall<Q, A> answered = error == null ? call : failing(call, error);
    return new SimpleForwardingServerCallListener<>(handler.startCall(answered, headers)) {
      @Override
      public void onMessage(Q message) {
        received.add((MessageOrBuilder) message);
        super.onMessage(message);
      }
    };
  }

  private static <Q, A> ServerCall<Q, A> withoutLosses(ServerCall<Q, A> call) {
    return new SimpleForwardingServerCall<>(call) {
      @Override
      public void sendMessage(A message) {
        if (!(message instanceof SessionResponse response && response.hasLost())) {
          super.sendMessage(message);
        }
      }
    };
  }

  private static <Q, A> ServerCall<Q, A> failing(ServerCall<Q, A> call, Status error) {
    return new SimpleForwardingServerCall<>(call) {
      @Override
      public void sendMessage(A message) {}

      @Override
      public void close(Status status, Metadata trailers) {
        super.close(error, new Metadata());
      }
    };
  }
}
