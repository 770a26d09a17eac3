package io.fencepost.client.testing;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.fencepost.client.FencedLock;
import io.fencepost.client.FencepostClient;
import io.fencepost.client.LeaseEnd;
import io.fencepost.client.LossReason;
import java.io.IOException;
import java.time.Duration;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** The real server as a helper of tests. */
@Timeout(60)
class FencepostServerTest {
  @Test
  void aPausedServerLosesTheLock() throws Exception {
    try (FencepostServer server = FencepostServer.start("--ttl-min", "100ms");
        FencepostClient client = FencepostClient.connect(server.address())) {
      FencedLock lock = client.acquire("a").ttl(Duration.ofSeconds(1)).waitFor(Duration.ofSeconds(30)).get();
      server.pause();
      assertEquals(LossReason.SILENCE, lock.lost().toCompletableFuture().get(30, TimeUnit.SECONDS).reason());
      server.resume();
      FencedLock next = client.acquire("a").waitFor(Duration.ofSeconds(30)).get();
      assertEquals(LeaseEnd.EXPIRED, next.previousEnd());
      server.close(); // twice does no harm
    }
  }

  @Test
  void aServerThatDoesNotStartSaysWhy() {
    IOException failed = assertThrows(IOException.class, () -> FencepostServer.start("--no-such-option"));
    assertTrue(failed.getMessage().contains("--no-such-option"), failed.getMessage());
  }
}
