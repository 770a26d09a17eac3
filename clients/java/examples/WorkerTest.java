import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.fencepost.client.FencedLock;
import io.fencepost.client.FencepostClient;
import io.fencepost.client.LockLostException;
import io.fencepost.client.LossReason;
import io.fencepost.client.testing.FakeServer;
import org.junit.jupiter.api.Assertions;
import org.junit.jupiter.api.Test;

/** How to test code that holds a lock: with a server inside the process, which loses the lock on demand. */
class WorkerTest {
  /** The code to test: it works until its lock is lost. */
  private static void work(FencepostClient client, Runnable started) {
    client.runLocked("orders/42", lock -> {
      started.run();
      lock.lost().toCompletableFuture().join();
    });
  }

  @Test
  void theWorkerStopsWhenItLosesItsLock() throws Exception {
    try (FakeServer server = FakeServer.start();
        FencepostClient client = FencepostClient.connect(server.address())) {
      LockLostException lost =
          Assertions.assertThrows(LockLostException.class, () -> work(client, () -> server.lose("orders/42")));
      assertEquals(LossReason.REVOKED, lost.reason());
    }
  }

  @Test
  void theWorkerSurvivesTheLossOfAnAnswer() throws Exception {
    try (FakeServer server = FakeServer.start();
        FencepostClient client = FencepostClient.connect(server.address())) {
      server.dropReply();
      try (FencedLock lock = client.acquire("orders/42").get()) {
        assertTrue(lock.isValid());
      }
    }
  }
}
