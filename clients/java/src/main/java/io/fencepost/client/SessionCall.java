package io.fencepost.client;

import io.fencepost.v1.LockServiceGrpc;
import io.fencepost.v1.SessionRequest;
import io.fencepost.v1.SessionResponse;
import io.grpc.CallOptions;
import io.grpc.ClientCall;
import io.grpc.ConnectivityState;
import io.grpc.ManagedChannel;
import io.grpc.Metadata;
import io.grpc.Status;
import java.io.IOException;

/**
 * The stream of a session, on a connection of its own: a session that is replaced leaves nothing behind, and the next
 * one does not inherit a dead connection.
 *
 * <p>Its callbacks run on the thread that reads the socket. They only take the lock of the keeper for a moment, so
 * beats are answered at once; the callbacks of users run elsewhere.
 */
final class SessionCall {
  /** The number of messages that may be on their way to this process. */
  private static final int MESSAGES_AHEAD = 64;

  /** The header in which a server tells the id of its store. */
  private static final Metadata.Key<String> STORE_ID =
      Metadata.Key.of(Facts.STORE_ID_METADATA, Metadata.ASCII_STRING_MARSHALLER);

  /** Makes the call of a session. */
  interface Factory {
    SessionCall call(Session session);
  }

  private final Keeper keeper;
  private final Session session;
  private final Connector connector;
  private final Servers servers;
  private final ServerAddress address;
  private Connection connection;
  private ClientCall<SessionRequest, SessionResponse> call;

  SessionCall(Keeper keeper, Session session, Connector connector, Servers servers) {
    this.keeper = keeper;
    this.session = session;
    this.connector = connector;
    this.servers = servers;
    this.address = servers.address(session.server);
  }

  /** Connects. Called without the lock, because it loads classes and reads the files of TLS. */
  void connect() {
    Warmup.run();
    Connection made;
    try {
      made = connector.connection(address);
    } catch (IOException | RuntimeException unusable) {
      keeper.ended(session, Failure.unusable(address, unusable));
      return;
    }
    ManagedChannel connecting = made.channel();
    CallOptions options = connector.callOptions(address);
    long startedAt = keeper.now(); // before the next line, because gRPC connects with it
    ClientCall<SessionRequest, SessionResponse> started =
        connecting.newCall(LockServiceGrpc.getSessionMethod(), options);
    boolean wanted = keeper.underLock(() -> {
      connection = made;
      call = started;
      session.connecting = true;
      session.startedAt = startedAt;
      return !session.ended;
    });
    if (!wanted) {
      connecting.shutdownNow();
      return;
    }
    started.start(new Incoming(started, made), new Metadata());
    started.request(MESSAGES_AHEAD);
    awaitConnection(connecting);
  }

  /** Tells the session when the server has answered on the connection. */
  private void awaitConnection(ManagedChannel connecting) {
    ConnectivityState state = connecting.getState(false);
    if (state == ConnectivityState.READY) {
      keeper.onSession(session, now -> session.connecting = false);
    } else if (state != ConnectivityState.SHUTDOWN) {
      connecting.notifyWhenStateChanged(state, () -> awaitConnection(connecting));
    }
  }

  boolean isReady() {
    return call.isReady();
  }

  void send(SessionRequest message) {
    call.sendMessage(message);
  }

  /** Resets the stream and closes the connection, in the background. */
  void cancel() {
    Connection closing = connection;
    if (closing != null) {
      keeper.inBackground(closing.channel()::shutdownNow);
    }
  }

  /** Why nothing arrived in time. */
  Failure silent(String what) {
    return connection == null
        ? Failure.local(Status.Code.UNAVAILABLE, address + ": " + what)
        : Failure.silent(connection, what);
  }

  private final class Incoming extends ClientCall.Listener<SessionResponse> {
    private final ClientCall<SessionRequest, SessionResponse> call;
    private final Connection carrier;

    Incoming(ClientCall<SessionRequest, SessionResponse> call, Connection carrier) {
      this.call = call;
      this.carrier = carrier;
    }

    @Override
    public void onHeaders(Metadata headers) {
      String store = headers.get(STORE_ID);
      if (store != null) {
        servers.toldStore(session.server, store);
      }
      keeper.onSession(session, now -> session.opened(now));
    }

    @Override
    public void onReady() {
      keeper.onSession(session, now -> {});
    }

    @Override
    public void onMessage(SessionResponse message) {
      keeper.onSession(session, now -> {
        session.opened(now);
        session.receive(message, now);
      });
      call.request(1);
    }

    @Override
    public void onClose(Status status, Metadata trailers) {
      Status shown = status.isOk() ? Status.UNAVAILABLE.withDescription("the server ended the session") : status;
      keeper.inBackground(() -> {
        carrier.greeting().examine();
        keeper.ended(session, Failure.of(shown, trailers, carrier));
      });
    }
  }
}
