package io.fencepost.client.testing;

import io.grpc.ForwardingServerCall;
import io.grpc.Metadata;
import io.grpc.ServerCall;
import io.grpc.ServerCallHandler;
import io.grpc.ServerInterceptor;

/** Answers the opening of a call at once, as the real server does; gRPC sends the headers with the first message. */
record EarlyHeaders(FakeLoop loop) implements ServerInterceptor {
  @Override
  public <Q, A> ServerCall.Listener<Q> interceptCall(
      ServerCall<Q, A> call, Metadata headers, ServerCallHandler<Q, A> handler) {
    loop.run(() -> {
      if (!call.isCancelled()) {
        call.sendHeaders(new Metadata());
      }
    });
    return handler.startCall(
        new ForwardingServerCall.SimpleForwardingServerCall<Q, A>(call) {
          @Override
          public void sendHeaders(Metadata late) {
            // They were sent before.
          }
        },
        headers);
  }
}
