package io.fencepost.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.fencepost.client.testing.FencepostServer;
import io.grpc.InsecureServerCredentials;
import io.grpc.Metadata;
import io.grpc.ServerCall;
import io.grpc.ServerCallHandler;
import io.grpc.ServerCredentials;
import io.grpc.ServerInterceptor;
import io.grpc.Status;
import io.grpc.TlsServerCredentials;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Supplier;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.function.Executable;
import org.junit.jupiter.api.io.TempDir;

/** The tokens that reach a server, and where they are not sent. */
@Timeout(60)
class BearerTokenTest {
  private static final Metadata.Key<String> AUTHORIZATION =
      Metadata.Key.of("authorization", Metadata.ASCII_STRING_MARSHALLER);

  /** The calls and their tokens, as {@code Session Bearer token-1}. */
  private final List<String> received = new CopyOnWriteArrayList<>();

  private final AtomicInteger asked = new AtomicInteger();

  private String next() {
    return "token-" + asked.incrementAndGet();
  }

  /** Stands before the server, which looks at no tokens. */
  private Relay recorder(FencepostServer server, ServerCredentials credentials) throws Exception {
    return new Relay(server.address(), credentials, new ServerInterceptor() {
      @Override
      public <Q, A> ServerCall.Listener<Q> interceptCall(
          ServerCall<Q, A> call, Metadata headers, ServerCallHandler<Q, A> handler) {
        received.add(call.getMethodDescriptor().getBareMethodName() + " " + headers.get(AUTHORIZATION));
        return handler.startCall(call, headers);
      }
    });
  }

  private void asksAnew(ClientBuilder builder) {
    try (FencepostClient client = builder.bearerToken(this::next).build()) {
      FencedLock lock = client.acquire("a").get();
      client.acquire("b").get().release(); // on the session of the first
      client.get("a");
      client.get("a");
      try (Watch watch = client.watch("a", event -> {})) {
        watch.started().toCompletableFuture().join();
      }
      lock.release();
    }
    List<String> expected = List.of(
        "Session Bearer token-1", "Get Bearer token-2", "Get Bearer token-3", "Watch Bearer token-4");
    assertEquals(expected, List.copyOf(received));
  }

  @Test
  void theProviderIsAskedBeforeEachCallAndStream() throws Exception {
    try (FencepostServer server = FencepostServer.start();
        Relay relay = recorder(server, InsecureServerCredentials.create())) {
      asksAnew(FencepostClient.builder().servers(relay.address()));
    }
  }

  @Test
  void tokensAreSentOverTls(@TempDir Path folder) throws Exception {
    Certificates authority = new Certificates(folder);
    Certificates.Issued issued = authority.issue("server", "IP:127.0.0.1");
    ServerCredentials credentials =
        TlsServerCredentials.create(issued.certificate().toFile(), issued.key().toFile());
    try (FencepostServer server = FencepostServer.start();
        Relay relay = recorder(server, credentials)) {
      Tls tls = Tls.defaults().caFile(authority.ca());
      asksAnew(FencepostClient.builder().servers("https://" + relay.address()).tls(tls));
    }
  }

  @Test
  void aNewSessionGetsANewToken() throws Exception {
    try (FencepostServer server = FencepostServer.start();
        Relay relay = recorder(server, InsecureServerCredentials.create());
        FencepostClient client =
            FencepostClient.builder().servers(relay.address()).bearerToken(this::next).build()) {
      server.dropReply();
      try (FencedLock lock = client.acquire("a").get()) {
        assertTrue(lock.isValid());
        assertEquals(List.of("Session Bearer token-1", "Session Bearer token-2"), List.copyOf(received));
      }
    }
  }

  @Test
  void aProviderThatFailsEndsTheCallThatAskedIt() throws Exception {
    try (FencepostServer server = FencepostServer.start();
        Relay relay = recorder(server, InsecureServerCredentials.create())) {
      ClientBuilder builder = FencepostClient.builder().servers(relay.address());
      Supplier<String> broken = () -> {
        asked.incrementAndGet();
        throw new IllegalStateException("no vault");
      };
      try (FencepostClient failing = builder.bearerToken(broken).build();
          FencepostClient without = builder.bearerToken(() -> null).build()) {
        noToken("no vault", () -> failing.get("a"));
        noToken("no vault", () -> failing.acquire("a").waitFor(Duration.ofMinutes(1)).get());
        assertEquals(2, asked.get(), "once for each call");
        noToken("it returned null", () -> without.get("a"));
        assertEquals(List.of(), received);
      }
    }
  }

  private static void noToken(String why, Executable call) {
    RefusedException refused = assertThrows(RefusedException.class, call);
    assertEquals(Status.Code.UNAUTHENTICATED.name(), refused.code());
    assertTrue(refused.getMessage().contains("no bearer token: " + why), refused.getMessage());
  }

  @Test
  void aProviderThatFailsForAMomentCostsNoLock() throws Exception {
    AtomicBoolean down = new AtomicBoolean();
    Supplier<String> vault = () -> {
      String token = next();
      if (down.get()) {
        throw new IllegalStateException("no vault");
      }
      return token;
    };
    try (FencepostServer server = FencepostServer.start();
        Relay relay = recorder(server, InsecureServerCredentials.create());
        FencepostClient client =
            FencepostClient.builder().servers(relay.address()).bearerToken(vault).build();
        FencedLock lock = client.acquire("a").ttl(Duration.ofSeconds(3)).get()) {
      down.set(true);
      server.dropReply();
      // The lost reply was a grant, so what became of it is not known.
      OutcomeUnknownException unknown = assertThrows(OutcomeUnknownException.class, () -> client.tryAcquire("b"));
      String why = unknown.getCause().getMessage();
      assertTrue(why.contains("no bearer token: no vault"), why);
      noToken("no vault", () -> client.get("a"));
      int tries = asked.get();
      Await.until(() -> asked.get() > tries); // the session, for the lock
      down.set(false);
      assertThrows(
          TimeoutException.class, () -> lock.lost().toCompletableFuture().get(3500, TimeUnit.MILLISECONDS));
      assertTrue(lock.isValid());
    }
  }

  /** A file that was read whole ends in a line end. */
  @Test
  void aTokenThatCannotBeSentIsRefusedAndNotShown() throws Exception {
    try (FencepostServer server = FencepostServer.start();
        Relay relay = recorder(server, InsecureServerCredentials.create());
        Logs logs = new Logs()) {
      ClientBuilder builder = FencepostClient.builder().servers(relay.address());
      for (String unsendable : List.of("secret\n", "secret\r\nx: y", " secret", "secr\u00e9t", "secret\0", "")) {
        try (FencepostClient client = builder.bearerToken(() -> unsendable).build()) {
          RefusedException acquire = assertThrows(RefusedException.class, () -> client.acquire("a").get());
          RefusedException get = assertThrows(RefusedException.class, () -> client.get("a"));
          for (RefusedException refused : List.of(acquire, get)) {
            assertEquals(Status.Code.UNAUTHENTICATED.name(), refused.code());
            assertTrue(refused.getMessage().contains("the bearer token "), refused.getMessage());
            assertFalse(refused.getMessage().contains("secr"), refused.getMessage());
          }
        }
      }
      try (FencepostClient client = builder.bearerToken(() -> "secret\n").build()) {
        RefusedException refused = assertThrows(RefusedException.class, () -> client.get("a"));
        assertTrue(refused.getMessage().contains("a line end"), refused.getMessage());
      }
      assertEquals(List.of(), received);
      assertEquals(List.of(), logs.warnings());
    }
  }

  @Test
  void noTokenIsSentInPlainText() {
    for (String open : List.of("locks.internal", "10.0.0.1:7420", "127.example.com", "[fd00::1]", "127.0.0.1,a")) {
      ClientBuilder builder = FencepostClient.builder().servers(open).bearerToken(this::next);
      String message = assertThrows(IllegalArgumentException.class, builder::build).getMessage();
      assertTrue(message.contains("plain text"), message);
    }
    String local = "localhost,127.0.0.1,127.1.2.3:1,[::1],unix:/a,https://locks.internal";
    FencepostClient.builder().servers(local).bearerToken(this::next).build().close();
    assertEquals(0, asked.get());
  }
}
