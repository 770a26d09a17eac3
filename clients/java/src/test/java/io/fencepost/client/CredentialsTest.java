package io.fencepost.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.protobuf.Any;
import com.google.rpc.ErrorInfo;
import io.fencepost.client.testing.FencepostServer;
import io.fencepost.v1.OperationError;
import io.fencepost.v1.SessionRequest;
import io.fencepost.v1.SessionResponse;
import io.grpc.ForwardingServerCallListener.SimpleForwardingServerCallListener;
import io.grpc.InsecureServerCredentials;
import io.grpc.Metadata;
import io.grpc.ServerCall;
import io.grpc.ServerCallHandler;
import io.grpc.ServerInterceptor;
import io.grpc.Status;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.time.Duration;
import java.time.Instant;
import java.time.temporal.ChronoUnit;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.atomic.AtomicBoolean;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** The file with the bearer token, and a server that looks at it. */
@Timeout(60)
class CredentialsTest {
  @TempDir
  private Path folder;

  private static String entry(String token, String more) throws Exception {
    byte[] hash = MessageDigest.getInstance("SHA-256").digest(token.getBytes(StandardCharsets.US_ASCII));
    return "[[token]]\nname = \"job\"\nsha256 = \"" + HexFormat.of().formatHex(hash) + "\"\n" + more;
  }

  /** A server that knows these tokens. */
  private FencepostServer serverWith(String entries) throws Exception {
    String rule = "[[rule]]\nwho = [\"job\"]\nmay = [\"acquire\", \"read\"]\nlocks = [\"\"]\n";
    Path access = Files.writeString(folder.resolve("access.toml"), "mode = \"enforce\"\n" + entries + rule);
    return FencepostServer.start("--access", access.toString());
  }

  private Path credentials(String text) throws Exception {
    return Files.writeString(folder.resolve("token"), text);
  }

  /** How long this machine takes now to start a server and to open a session. */
  private Duration connecting() throws Exception {
    credentials("secret");
    Instant began = Instant.now();
    try (FencepostServer server = serverWith(entry("secret", ""));
        FencepostClient client =
            FencepostClient.builder().servers(server.address()).credentialsFile(folder.resolve("token")).build()) {
      client.acquire("a").get().release();
    }
    return Duration.between(began, Instant.now());
  }

  @Test
  void aTokenThatReplacesAnExpiredOneCostsNoLock() throws Exception {
    Instant expiry = Instant.now().plus(connecting().multipliedBy(4)).truncatedTo(ChronoUnit.SECONDS).plusSeconds(3);
    String entries = entry("old", "expires = " + expiry + "\n") + entry("new", "");
    Path file = credentials("old\n");
    BlockingQueue<LockEvent> events = new LinkedBlockingQueue<>();
    try (FencepostServer server = serverWith(entries);
        FencepostClient client =
            FencepostClient.builder().servers(server.address()).credentialsFile(file).build();
        Watch watch = client.watch("", events::add)) {
      watch.started().toCompletableFuture().get();
      FencedLock lock = client.acquire("kept").ttl(Duration.ofSeconds(3)).get();
      credentials("new\n"); // the two streams go on with the old one until it expires
      CompletableFuture<FencedLock> waiting = client.acquire("kept").waitFor(Duration.ofSeconds(30)).getAsync();
      Await.until(() -> client.get("kept").waiters() == 1);
      assertEquals("job", events.take().identity());
      assertEquals("job", client.get("kept").holders().get(0).identity());
      assertEquals(List.of("job"), client.waiters("kept").map(WaiterInfo::identity).toList());
      Await.until(() -> Instant.now().isAfter(expiry));
      client.acquire("other").get().release();
      // The time in which the watch had no valid credentials: the server ends it within 3 s.
      Await.until(() -> events.stream().anyMatch(event -> event.kind() == LockEvent.Kind.MISSED));
      assertTrue(lock.isValid());
      assertFalse(waiting.isDone(), waiting::toString);
      assertEquals(LeaseEnd.RELEASED, lock.release());
      waiting.get().release();
      assertFalse(lock.lost().toCompletableFuture().isDone());
    }
  }

  /** Refuses the first acquire of a lock as a server does before it ends the stream of old credentials. */
  private static final class Expiry implements ServerInterceptor {
    static final String NAME = "refused";
    private final AtomicBoolean refused = new AtomicBoolean();

    /** The client has ended the session that refused. */
    final AtomicBoolean ended = new AtomicBoolean();

    @Override
    public <Q, A> ServerCall.Listener<Q> interceptCall(
        ServerCall<Q, A> call, Metadata headers, ServerCallHandler<Q, A> handler) {
      AtomicBoolean old = new AtomicBoolean();
      return new SimpleForwardingServerCallListener<>(handler.startCall(call, headers)) {
        @Override
        @SuppressWarnings("unchecked") // the client opens nothing but sessions
        public void onMessage(Q message) {
          SessionRequest request = (SessionRequest) message;
          if (request.getAcquire().getRequest().getLockName().equals(NAME) && !refused.getAndSet(true)) {
            old.set(true);
            call.sendMessage((A) expired(request.getOperation()));
            call.request(1);
          } else {
            super.onMessage(message);
          }
        }

        @Override
        public void onCancel() {
          ended.compareAndSet(false, old.get());
          super.onCancel();
        }
      };
    }

    private static SessionResponse expired(long operation) {
      ErrorInfo reason = ErrorInfo.newBuilder().setDomain(Facts.ERROR_DOMAIN).setReason(Failure.EXPIRED).build();
      OperationError error = OperationError.newBuilder()
          .setCode(Status.Code.UNAUTHENTICATED.value())
          .addDetails(Any.pack(reason))
          .build();
      return SessionResponse.newBuilder().setOperation(operation).setError(error).build();
    }
  }

  @Test
  void aRequestThatOldCredentialsAreRefusedIsRepeatedWithNewOnes() throws Exception {
    Expiry expiry = new Expiry();
    try (FencepostServer server = FencepostServer.start();
        Relay relay = new Relay(server.address(), InsecureServerCredentials.create(), expiry);
        FencepostClient client = FencepostClient.connect(relay.address());
        FencedLock lock = client.acquire("kept").get();
        FencedLock refused = client.acquire(Expiry.NAME).get()) {
      Await.until(expiry.ended::get);
      assertTrue(lock.isValid() && refused.isValid());
    }
  }

  @Test
  void theEnvironmentNamesTheFile() throws Exception {
    Path file = credentials(" secret\r\n");
    try (FencepostServer server = serverWith(entry("secret", ""))) {
      Map<String, String> environment =
          Map.of(Facts.ENVIRONMENT_SERVER, server.address(), Facts.ENVIRONMENT_CREDENTIALS, file.toString());
      try (JavaProcess child = JavaProcess.start(environment, Child.class.getName(), "environment")) {
        assertTrue(Long.parseLong(child.line()) > 0);
      }
      try (FencepostClient without = FencepostClient.connect(server.address())) {
        RefusedException refused = assertThrows(RefusedException.class, () -> without.acquire("a").get());
        assertEquals("UNAUTHENTICATED CREDENTIALS_MISSING", refused.code() + " " + refused.reason());
      }
    }
  }

  private static String fault(CredentialsFile file) {
    return assertThrows(IllegalStateException.class, file::get).getMessage();
  }

  @Test
  void aFileWithoutATokenEndsTheCall() throws Exception {
    CredentialsFile file = new CredentialsFile(folder.resolve("token"), "it");
    assertEquals("it: no such file", fault(file));
    credentials(" \n");
    assertEquals("it: it is empty", fault(file));
    credentials("x".repeat(65_537));
    assertEquals("it: it has more than 65536 bytes", fault(file));
    credentials("two\nlines\n");
    try (FencepostServer server = FencepostServer.start();
        FencepostClient client = FencepostClient.builder()
            .servers(server.address()).credentialsFile(folder.resolve("token")).build()) {
      RefusedException refused = assertThrows(RefusedException.class, () -> client.get("a"));
      assertTrue(refused.getMessage().contains("a line end at index 3 of 9"), refused.getMessage());
      Files.delete(folder.resolve("token"));
      RefusedException missing = assertThrows(RefusedException.class, () -> client.get("a"));
      assertTrue(missing.getMessage().contains("token: no such file"), missing.getMessage());
      credentials("token");
      assertEquals("a", client.get("a").name());
    }
  }

  @Test
  void theTokenOfAFileIsNotSentInPlainText() {
    ClientBuilder open = FencepostClient.builder().servers("10.0.0.1:7420").credentialsFile(folder.resolve("token"));
    assertTrue(assertThrows(IllegalArgumentException.class, open::build).getMessage().contains("plain text"));
  }
}
