package io.fencepost.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.fencepost.client.testing.FencepostServer;
import io.fencepost.v1.OperationError;
import io.fencepost.v1.SessionRequest;
import io.fencepost.v1.SessionResponse;
import io.grpc.ForwardingServerCall.SimpleForwardingServerCall;
import io.grpc.ForwardingServerCallListener.SimpleForwardingServerCallListener;
import io.grpc.InsecureServerCredentials;
import io.grpc.Metadata;
import io.grpc.ServerCall;
import io.grpc.ServerCallHandler;
import io.grpc.ServerInterceptor;
import io.grpc.Status;
import java.net.ServerSocket;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** Elections on servers that are away or strict, or that are no Fencepost servers. */
@Timeout(90)
class LeadFaultsTest {
  private static final Duration TTL = Duration.ofSeconds(4);

  @Test
  void aServerThatStartsLaterElects(@TempDir Path folder) throws Exception {
    String address = "unix:" + folder.resolve("socket"); // nobody else listens there by chance
    try (Logs logs = new Logs();
        FencepostClient client = FencepostClient.connect(address)) {
      Candidate<Long> candidate = new Candidate<>(() -> client.lead("later").call(FencedLock::token));
      Await.until(() -> logs.lines().stream().anyMatch(line -> line.contains("server " + address + " failed (")));
      assertFalse(candidate.isDone());
      try (FencepostServer server = FencepostServer.start("--listen", address)) {
        assertEquals(address, server.address());
        assertTrue(candidate.result() > 0);
      }
    }
  }

  /** The leader is cut off past its TTL, and its body ends by the clock of its client. */
  @Test
  void aLeaderThatIsCutOffCampaignsAgain() throws Exception {
    try (FencepostServer server = FencepostServer.start("--ttl-min", "100ms");
        Proxy proxy = new Proxy(server.address());
        FencepostClient client = FencepostClient.connect(proxy.address());
        FencepostClient other = FencepostClient.connect(server.address())) {
      BlockingQueue<Long> terms = new LinkedBlockingQueue<>();
      BlockingQueue<String> ends = new LinkedBlockingQueue<>();
      Candidate<String> candidate = new Candidate<>(() -> client.lead("cut").ttl(TTL).call(lock -> {
        terms.add(lock.token());
        try {
          new CountDownLatch(1).await();
        } finally {
          ends.add("ended");
        }
        return "unreachable";
      }));
      long first = terms.poll(30, TimeUnit.SECONDS);
      proxy.mode(Proxy.Mode.SILENT);
      long between;
      try (FencedLock lock = other.acquire("cut").waitFor(Duration.ofSeconds(30)).get()) {
        assertEquals("ended", ends.poll(30, TimeUnit.SECONDS));
        between = lock.token();
        assertTrue(between > first);
        proxy.mode(Proxy.Mode.FORWARD);
        Await.until(() -> other.get("cut").waiters() == 1);
      }
      assertTrue(terms.poll(30, TimeUnit.SECONDS) > between);
      candidate.interrupt();
      assertInstanceOf(InterruptedException.class, candidate.failure());
    }
  }

  @Test
  void aServerThatAllowsShortWaitsElects() throws Exception {
    try (FencepostServer server = FencepostServer.start("--wait-max", "2s");
        FencepostClient client = FencepostClient.connect(server.address());
        FencepostClient other = FencepostClient.connect(server.address())) {
      FencedLock lock = other.acquire("strict").get();
      Candidate<Long> candidate = new Candidate<>(() -> client.lead("strict").call(FencedLock::token));
      Await.until(() -> other.get("strict").waiters() == 1);
      // For longer than the server lets the candidate wait: then it waits again.
      assertThrows(TimedOutException.class, () -> other.acquire("strict").waitFor(Duration.ofSeconds(2)).get());
      lock.release();
      assertTrue(candidate.result() > lock.token());
    }
  }

  @Test
  void somethingElseAtTheAddressIsAnError() throws Exception {
    byte[] greeting = "220 mail.example\r\n".getBytes(StandardCharsets.US_ASCII);
    try (ServerSocket mail = DiagnosisTest.listen(greeting, false);
        FencepostClient client = FencepostClient.connect("127.0.0.1:" + mail.getLocalPort())) {
      UnavailableException refused = assertThrows(UnavailableException.class, () -> client.lead("mail", lock -> {}));
      assertTrue(refused.getMessage().contains("does not speak gRPC (it sent "), refused.getMessage());
    }
  }

  @Test
  void failuresThatPassAreToldOnceAndSurvived() throws Exception {
    RefusedAcquires refusing = new RefusedAcquires(3);
    try (Logs logs = new Logs();
        FencepostServer server = FencepostServer.start();
        Relay relay = new Relay(server.address(), InsecureServerCredentials.create(), refusing);
        FencepostClient client = FencepostClient.connect(relay.address())) {
      assertTrue(client.lead("refused").call(FencedLock::token) > 0);
      assertEquals(0, refusing.left.get());
      String told = "io.fencepost.client: campaigns for refused fail, and go on: not now";
      Await.until(() -> logs.warnings().contains(told));
      assertEquals(1, logs.warnings().stream().filter(told::equals).count());
    }
  }

  /** In a {@link Relay}: a number of acquires are refused in a way that passes, and do not reach the server. */
  private static final class RefusedAcquires implements ServerInterceptor {
    private final AtomicInteger left;

    private RefusedAcquires(int count) {
      left = new AtomicInteger(count);
    }

    @Override
    public <Q, A> ServerCall.Listener<Q> interceptCall(
        ServerCall<Q, A> call, Metadata headers, ServerCallHandler<Q, A> handler) {
      // A call is not made for several threads, and the server's messages come on another one than the client's.
      ServerCall<Q, A> shared = new SimpleForwardingServerCall<>(call) {
        @Override
        public synchronized void sendHeaders(Metadata headers) {
          super.sendHeaders(headers);
        }

        @Override
        public synchronized void sendMessage(A message) {
          super.sendMessage(message);
        }

        @Override
        public synchronized void close(Status status, Metadata trailers) {
          super.close(status, trailers);
        }
      };
      return new SimpleForwardingServerCallListener<>(handler.startCall(shared, headers)) {
        @Override
        @SuppressWarnings("unchecked") // only a session sends messages of this class
        public void onMessage(Q message) {
          boolean acquires = message instanceof SessionRequest request && request.hasAcquire();
          if (acquires && left.getAndUpdate(count -> Math.max(0, count - 1)) > 0) {
            shared.sendMessage((A) refusal(((SessionRequest) message).getOperation()));
          } else {
            super.onMessage(message);
          }
        }
      };
    }

    private static SessionResponse refusal(long operation) {
      int code = Status.Code.RESOURCE_EXHAUSTED.value();
      OperationError error = OperationError.newBuilder().setCode(code).setMessage("not now").build();
      return SessionResponse.newBuilder().setOperation(operation).setError(error).build();
    }
  }
}
