package io.fencepost.client;

import io.fencepost.v1.SessionRequest;
import io.fencepost.v1.SessionResponse;
import io.grpc.ForwardingServerCall.SimpleForwardingServerCall;
import io.grpc.ForwardingServerCallListener.SimpleForwardingServerCallListener;
import io.grpc.Metadata;
import io.grpc.ServerCall;
import io.grpc.ServerCallHandler;
import io.grpc.ServerInterceptor;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.function.Function;

/**
 * In a {@link Relay}: records what clients send on sessions, also while the server is paused, and adds messages to
 * those that the server sends.
 */
final class SessionTap implements ServerInterceptor {
  /** The messages of all sessions. */
  final List<SessionRequest> received = new CopyOnWriteArrayList<>();

  private final Function<SessionResponse, List<SessionResponse>> following;

  /** {@code following} returns the messages to send after a message of the server. */
  SessionTap(Function<SessionResponse, List<SessionResponse>> following) {
    this.following = following;
  }

  @Override
  public <Q, A> ServerCall.Listener<Q> interceptCall(
      ServerCall<Q, A> call, Metadata headers, ServerCallHandler<Q, A> handler) {
    ServerCall<Q, A> adding = new SimpleForwardingServerCall<>(call) {
      @Override
      @SuppressWarnings("unchecked") // only a session sends messages of this class
      public void sendMessage(A message) {
        super.sendMessage(message);
        if (message instanceof SessionResponse response) {
          following.apply(response).forEach(added -> super.sendMessage((A) added));
        }
      }
    };
    return new SimpleForwardingServerCallListener<>(handler.startCall(adding, headers)) {
      @Override
      public void onMessage(Q message) {
        if (message instanceof SessionRequest request) {
          received.add(request);
        }
        super.onMessage(message);
      }
    };
  }
}
