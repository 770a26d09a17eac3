package io.fencepost.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.fencepost.client.testing.FencepostServer;
import java.time.Duration;
import java.util.List;
import java.util.logging.Handler;
import java.util.logging.Level;
import java.util.logging.LogRecord;
import java.util.logging.Logger;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** What the client logs. */
@Timeout(60)
class LogTest {
  private static final String LOGGER = "io.fencepost.client: ";
  private static final Duration TTL = Duration.ofSeconds(2);

  private static void await(Logs logs, String start) {
    Await.until(() -> logs.lines().stream().anyMatch(line -> line.startsWith(LOGGER + start)));
  }

  private static long count(Logs logs, String start) {
    return logs.lines().stream().filter(line -> line.startsWith(LOGGER + start)).count();
  }

  private static List<String> storeWarnings(Logs logs) {
    return logs.warnings().stream().filter(line -> line.contains(" does not have the store ")).toList();
  }

  /** Revokes a lock as an operator does. */
  private static void revoke(FencepostServer server, FencedLock lock) {
    io.grpc.ManagedChannel channel =
        io.grpc.Grpc.newChannelBuilder(server.address(), io.grpc.InsecureChannelCredentials.create()).build();
    io.fencepost.v1.AdminServiceGrpc.newBlockingStub(channel).forceRelease(
        io.fencepost.v1.ForceReleaseRequest.newBuilder()
            .setLockName(lock.name()).setExpectedToken(lock.token()).setReason("test").build());
    channel.shutdownNow();
  }

  @Test
  void renewalsThatFailAreToldAndThatTheyWorkAgain() throws Exception {
    try (Logs logs = new Logs();
        FencepostServer server = FencepostServer.start("--ttl-min", "100ms");
        FencepostClient client = FencepostClient.connect(server.address())) {
      FencedLock lock = client.acquire("again").ttl(Duration.ofSeconds(8)).get();
      assertEquals(List.of(), logs.lines(), "what works is not logged");
      server.pause();
      await(logs, "renewals of again fail, it is valid for another ");
      server.resume();
      await(logs, "again is renewed again");
      assertTrue(lock.isValid());
      await(logs, "server " + server.address() + " failed (");
      lock.release();
    }
  }

  @Test
  void aLossAndAReleaseThatGaveUpAreTold() throws Exception {
    try (Logs logs = new Logs();
        FencepostServer server = FencepostServer.start("--ttl-min", "100ms");
        FencepostClient client = FencepostClient.connect(server.address())) {
      FencedLock lock = client.acquire("lost").ttl(TTL).waitFor(Duration.ofSeconds(30)).get();
      server.close();
      lock.lost().toCompletableFuture().join();
      await(logs, "lost (token " + lock.token() + ") is lost: its validity ended before a renewal arrived");
      String address = server.address();
      String failed = "server " + address + " failed (" + address + ": ";
      assertEquals(1, count(logs, failed), "once, and not at each attempt: " + logs.lines());
      lock.release();
      await(logs, "lost could not be released in the background: " + address + ": connection refused; it is free");
    }
  }

  @Test
  void aServerWithAnotherStoreIsToldOnce() throws Exception {
    try (Logs logs = new Logs();
        FencepostServer one = FencepostServer.start();
        FencepostServer two = FencepostServer.start();
        FencepostClient client = FencepostClient.connect(one.address(), two.address())) {
      FencedLock lock = client.acquire("apart").get();
      one.close();
      // The second server does not know the lease, and says so after it has told its store.
      await(logs, "apart (token " + lock.token() + ") is lost: ");
      String warning = two.address() + " does not have the store that " + one.address() + " had: unless that store was"
          + " made anew, start both servers with the same --store, because a lock of one excludes nobody on the other";
      assertEquals(List.of(LOGGER + warning), storeWarnings(logs));
    }
  }

  @Test
  void serversThatShareAStoreAreNotToldApart() throws Exception {
    try (Logs logs = new Logs();
        Redis redis = Redis.start();
        FencepostServer one = FencepostServer.start("--store", redis.url());
        FencepostServer two = FencepostServer.start("--store", redis.url());
        FencepostClient client = FencepostClient.connect(one.address(), two.address())) {
      for (FencepostServer server : List.of(one, two)) {
        try (FencepostClient first = FencepostClient.connect(server.address())) {
          first.acquire("ready").get().release(); // a new Redis has a store after a moment
        }
      }
      FencedLock lock = client.acquire("shared").get();
      one.process().destroy(); // SIGTERM
      one.process().waitFor();
      await(logs, "server " + one.address() + " failed (");
      assertThrows(ContendedException.class, client.acquire("shared")::get, "the second server has the lease");
      revoke(two, lock);
      // The session with the second server says so after that server has told its store.
      await(logs, "shared (token " + lock.token() + ") is lost: the lease was revoked");
      assertEquals(List.of(), storeWarnings(logs));
    }
  }

  @Test
  void aLoggerThatThrowsCostsNoLock() throws Exception {
    Handler broken = new Handler() {
      @Override
      public void publish(LogRecord message) {
        throw new IllegalStateException("the disk is full");
      }

      @Override
      public void flush() {}

      @Override
      public void close() {}
    };
    broken.setLevel(Level.ALL);
    Logger logger = Logger.getLogger("io.fencepost.client");
    logger.addHandler(broken);
    try (FencepostServer server = FencepostServer.start();
        FencepostClient client = FencepostClient.connect("127.0.0.1:1", server.address())) {
      FencedLock lock = client.acquire("kept").ttl(Duration.ofSeconds(4)).get();
      FencedLock lost = client.acquire("lost").get();
      server.lose("lost");
      lost.lost().toCompletableFuture().join();
      assertFalse(lost.isValid());
      assertTrue(lock.isValid());
      assertEquals(LeaseEnd.RELEASED, lock.release());
    } finally {
      logger.removeHandler(broken);
    }
  }
}
