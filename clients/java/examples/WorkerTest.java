import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.fencepost.client.FencedLock;
import io.fencepost.client.FencepostClient;
import io.fencepost.client.LockLostException;
import io.fencepost.client.LossReason;
import io.fencepost.client.testing.FakeLock;
import io.fencepost.client.testing.FencepostServer;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;

/** How to test code that holds a lock: with a fake lock, or with a real server that loses locks on demand. */
class WorkerTest {
  private interface Step {
    void run(long token) throws Exception;
  }

  /** The code to test: it works until its lock is lost. */
  private static void work(FencedLock lock, Step step) throws Exception {
    for (int n = 0; n < 3; n++) {
      lock.check(); // throws LockLostException
      step.run(lock.token());
    }
  }

  @Test
  void noStepFollowsALoss() {
    FakeLock lock = new FakeLock("orders/42", 7);
    List<Long> tokens = new ArrayList<>();
    Step losing = token -> {
      tokens.add(token);
      lock.lose();
    };
    assertThrows(LockLostException.class, () -> work(lock, losing));
    assertEquals(List.of(7L), tokens);
  }

  @Test
  void theWorkerStopsWhenAnOperatorRevokesItsLock() throws Exception {
    try (FencepostServer server = FencepostServer.start();
        FencepostClient client = FencepostClient.connect(server.address())) {
      LockLostException lost = assertThrows(
          LockLostException.class, () -> client.runLocked("orders/42", lock -> work(lock, token -> {
            server.lose("orders/42");
            lock.lost().toCompletableFuture().join();
          })));
      assertEquals(LossReason.REVOKED, lost.reason());
    }
  }

  @Test
  void theWorkerSurvivesTheLossOfAnAnswer() throws Exception {
    try (FencepostServer server = FencepostServer.start();
        FencepostClient client = FencepostClient.connect(server.address())) {
      server.dropReply();
      try (FencedLock lock = client.acquire("orders/42").get()) {
        work(lock, token -> assertTrue(lock.isValid()));
      }
    }
  }
}
