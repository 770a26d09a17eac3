package io.fencepost.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.fencepost.client.testing.FencepostServer;
import java.time.Duration;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Whole processes that are paused, or end. */
@Timeout(60)
class ProcessTest {
  private static final long POLL_MILLIS = 5;
  private static FencepostServer server;

  @BeforeAll
  static void start() throws Exception {
    server = FencepostServer.start("--ttl-min", "100ms");
  }

  @AfterAll
  static void stop() {
    server.close();
  }

  @Test
  void aPausedProcessFindsItsLockLostBeforeItCanWrite() throws Exception {
    try (JavaProcess child = JavaProcess.start(Child.class, "hold", server.address());
        FencepostClient client = FencepostClient.connect(server.address())) {
      long token = Long.parseLong(child.line());
      child.pause();
      // The question is in the pipe before the process goes on, so it is answered before any timer or message.
      child.send("valid?");
      try (FencedLock next = client.acquire("child").waitFor(Duration.ofSeconds(30)).get()) {
        assertTrue(next.token() > token);
        assertEquals(LeaseEnd.EXPIRED, next.previousEnd());
        child.resume();
        assertEquals("false", child.line());
      }
    }
  }

  @Test
  void aProcessEndsWithoutClosingItsClient() throws Exception {
    try (JavaProcess child = JavaProcess.start(Child.class, "exit", server.address());
        FencepostClient client = FencepostClient.connect(server.address())) {
      child.line();
      assertTrue(child.ends(), "no thread of the client keeps the process running");
      client.acquire("child").waitFor(Duration.ofSeconds(30)).get().close();
    }
  }

  @Test
  void aShutdownHookReleasesTheLocks() throws Exception {
    try (JavaProcess child = JavaProcess.start(Child.class, "hook", server.address());
        FencepostClient client = FencepostClient.connect(server.address())) {
      child.line();
      child.terminate();
      try (FencedLock next = client.acquire("child").waitFor(Duration.ofSeconds(30)).get()) {
        assertEquals(LeaseEnd.RELEASED, next.previousEnd());
      }
    }
  }

  @Test
  void aProcessIsEndedWhileItWaits() throws Exception {
    try (FencepostClient client = FencepostClient.connect(server.address());
        FencedLock lock = client.acquire("child").waitFor(Duration.ofSeconds(30)).get();
        JavaProcess child = JavaProcess.start(Child.class, "wait", server.address())) {
      assertEquals("waiting", child.line());
      while (client.get("child").waiters() == 0) {
        Thread.sleep(POLL_MILLIS);
      }
      child.terminate();
      assertTrue(child.ends());
      // The server notices the end of the connection, and the next waiter is not behind a dead one.
      while (client.get("child").waiters() > 0) {
        Thread.sleep(POLL_MILLIS);
      }
      assertTrue(lock.isValid());
    }
  }

  @Test
  void noThreadIsLeftAfterClose() throws Exception {
    // Threads belong to the group of the thread that starts them.
    ThreadGroup group = new ThreadGroup("user");
    Thread user = new Thread(group, () -> {
      try (FencepostClient client = FencepostClient.connect(server.address())) {
        client.acquire("threads").get().close();
        assertTrue(group.activeCount() > 1, "the client has threads");
      }
    });
    user.start();
    user.join();
    while (group.activeCount() > 0) {
      Thread.sleep(POLL_MILLIS);
    }
  }
}
