package io.fencepost.client.testing;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import io.fencepost.client.Await;
import io.fencepost.client.FencedLock;
import io.fencepost.client.FencepostClient;
import io.fencepost.client.LockLostException;
import io.fencepost.client.LossReason;
import io.grpc.InsecureServerCredentials;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** The messages that a client sends on its session. */
@Timeout(60)
class SessionMessagesTest {
  private static final Duration LONG = Duration.ofSeconds(30);

  @Test
  void theReleaseOfALostLockGoesOnInTheBackground() throws Exception {
    SessionTap tap = new SessionTap(response -> List.of());
    try (FakeServer server = FakeServer.start(InsecureServerCredentials.create(), tap);
        FencepostClient client = FencepostClient.connect(server.address())) {
      FencedLock lock = client.acquire("a").ttl(Duration.ofMillis(800)).waitFor(LONG).get();
      server.pause();
      assertEquals(LossReason.SILENCE, lock.lost().toCompletableFuture().get(30, TimeUnit.SECONDS).reason());
      assertThrows(LockLostException.class, lock::close);
      server.resume();
      Await.until(() -> tap.received.stream().anyMatch(it -> it.getRelease().getLockName().equals("a")));
    }
  }
}
