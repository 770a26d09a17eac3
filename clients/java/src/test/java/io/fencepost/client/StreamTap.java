package io.fencepost.client;

import io.grpc.ForwardingServerCall.SimpleForwardingServerCall;
import io.grpc.Metadata;
import io.grpc.ServerCall;
import io.grpc.ServerCallHandler;
import io.grpc.ServerInterceptor;
import io.grpc.StatusRuntimeException;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.CopyOnWriteArrayList;

/** In a {@link Relay}: refuses the next calls of a method, and records how calls end. */
final class StreamTap implements ServerInterceptor {
  /** What the next calls of a method are refused with. */
  final Map<String, Queue<StatusRuntimeException>> refusals = new ConcurrentHashMap<>();

  /** Method and code of each call that has ended. */
  final List<String> ended = new CopyOnWriteArrayList<>();

  @Override
  public <Q, A> ServerCall.Listener<Q> interceptCall(
      ServerCall<Q, A> call, Metadata headers, ServerCallHandler<Q, A> handler) {
    String method = call.getMethodDescriptor().getBareMethodName();
    ServerCall<Q, A> recorded = new SimpleForwardingServerCall<>(call) {
      @Override
      public void close(io.grpc.Status status, Metadata trailers) {
        ended.add(method + " " + status.getCode());
        super.close(status, trailers);
      }
    };
    StatusRuntimeException refusal = refusals.getOrDefault(method, new ConcurrentLinkedQueue<>()).poll();
    if (refusal == null) {
      return handler.startCall(recorded, headers);
    }
    recorded.close(refusal.getStatus(), refusal.getTrailers());
    return new ServerCall.Listener<>() {};
  }
}
