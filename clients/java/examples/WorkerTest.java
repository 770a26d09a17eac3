import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.fencepost.client.FencedLock;
import io.fencepost.client.FencepostClient;
import io.fencepost.client.LockLostException;
import io.fencepost.client.LossReason;
import io.fencepost.client.testing.FencepostServer;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.FutureTask;
import org.junit.jupiter.api.Test;

/** How to test code that takes a lock: with a real server, which loses the lock on demand. */
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
    try (FencepostServer server = FencepostServer.start();
        FencepostClient client = FencepostClient.connect(server.address())) {
      CountDownLatch started = new CountDownLatch(1);
      FutureTask<Void> worker = new FutureTask<>(() -> work(client, started::countDown), null);
      new Thread(worker).start();
      started.await();
      server.lose("orders/42");
      ExecutionException failed = assertThrows(ExecutionException.class, worker::get);
      LockLostException lost = (LockLostException) failed.getCause();
      assertEquals(LossReason.REVOKED, lost.reason());
    }
  }

  @Test
  void theWorkerSurvivesTheLossOfAnAnswer() throws Exception {
    try (FencepostServer server = FencepostServer.start();
        FencepostClient client = FencepostClient.connect(server.address())) {
      server.dropReply();
      try (FencedLock lock = client.acquire("orders/42").get()) {
        assertTrue(lock.isValid());
      }
    }
  }
}
