package io.fencepost.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.fencepost.client.testing.FakeServer;
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
    try (FakeServer server = FakeServer.start();
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
