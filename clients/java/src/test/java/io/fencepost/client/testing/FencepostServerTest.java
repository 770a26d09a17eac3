package io.fencepost.client.testing;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.fencepost.client.Await;
import io.fencepost.client.FencedLock;
import io.fencepost.client.FencepostClient;
import io.fencepost.client.LeaseEnd;
import io.fencepost.client.LockEvent;
import io.fencepost.client.LockLostException;
import io.fencepost.client.Loss;
import io.fencepost.client.LossReason;
import io.fencepost.client.Redis;
import io.fencepost.client.TimedOutException;
import io.fencepost.client.Watch;
import java.io.IOException;
import java.time.Duration;
import java.util.List;
import java.util.NoSuchElementException;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** The real server as a helper of tests. */
@Timeout(60)
class FencepostServerTest {
  private static final Duration LONG = Duration.ofSeconds(30);
  private FencepostServer server;
  private FencepostClient client;

  @BeforeEach
  void start() throws Exception {
    server = FencepostServer.start("--ttl-min", "100ms");
    client = FencepostClient.connect(server.address());
  }

  @AfterEach
  void stop() {
    client.close();
    server.close();
    server.close(); // twice does no harm
  }

  private static Loss loss(FencedLock lock) throws Exception {
    return lock.lost().toCompletableFuture().get(30, TimeUnit.SECONDS);
  }

  @Test
  void aPausedServerLosesTheLock() throws Exception {
    FencedLock lock = client.acquire("a").ttl(Duration.ofSeconds(1)).waitFor(LONG).get();
    server.pause();
    assertEquals(LossReason.SILENCE, loss(lock).reason());
    server.resume();
    FencedLock next = client.acquire("a").waitFor(LONG).get();
    assertEquals(LeaseEnd.EXPIRED, next.previousEnd());
  }

  @Test
  void loseTellsTheHolderAndServesTheNext() throws Exception {
    BlockingQueue<LockEvent> events = new LinkedBlockingQueue<>();
    try (Watch watch = client.watch("a", events::add)) {
      watch.started().toCompletableFuture().get();
      FencedLock lock = client.acquire("a").get();
      CompletableFuture<FencedLock> waiter = client.acquire("a").waitFor(LONG).getAsync();
      Await.until(() -> client.get("a").waiters() == 1);
      server.lose("a");
      FencedLock next = waiter.get();
      Loss loss = loss(lock);
      assertEquals(LossReason.REVOKED, loss.reason());
      assertTrue(loss.successorToken() == 0 || loss.successorToken() == next.token(), loss.toString());
      assertFalse(lock.isValid());
      assertEquals(LeaseEnd.REVOKED, next.previousEnd());
      assertThrows(LockLostException.class, lock::close);
      for (LockEvent.Kind kind :
          List.of(LockEvent.Kind.GRANTED, LockEvent.Kind.REVOKED, LockEvent.Kind.GRANTED)) {
        assertEquals(kind, events.poll(30, TimeUnit.SECONDS).kind());
      }
    }
  }

  @Test
  void aLockThatNobodyHoldsCannotBeLost() {
    NoSuchElementException free = assertThrows(NoSuchElementException.class, () -> server.lose("käse"));
    assertEquals("nobody holds lock \"käse\"", free.getMessage());
    assertThrows(IllegalArgumentException.class, () -> server.lose("a\nb"));
  }

  @Test
  void aDroppedReplyIsAskedForAgain() throws Exception {
    FencedLock kept = client.acquire("kept").ttl(Duration.ofSeconds(4)).get();
    FencedLock busy = client.acquire("busy").get();
    CompletableFuture<FencedLock> waiter = client.acquire("busy").waitFor(LONG).getAsync();
    Await.until(() -> client.get("busy").waiters() == 1);
    FencedLock earlier = client.acquire("a").get();
    earlier.release();
    server.dropReply();
    FencedLock lock = client.acquire("a").get();
    assertEquals(earlier.token() + 1, lock.token(), "the second transmission found the grant of the first");
    server.dropReply();
    assertEquals(LeaseEnd.RELEASED, lock.release());
    assertTrue(client.get("a").holders().isEmpty());
    busy.release();
    waiter.join().release();
    assertThrows(TimedOutException.class, () -> client.acquire("kept").waitFor(Duration.ofSeconds(5)).get());
    assertTrue(kept.isValid(), "other locks move to the next session");
  }

  @Test
  void aServerWithAnotherStoreTakesNoOrders() throws Exception {
    try (Redis redis = Redis.start();
        FencepostServer real = FencepostServer.start("--store", redis.url())) {
      assertThrows(IllegalStateException.class, () -> real.lose("a"));
      assertThrows(IllegalStateException.class, real::dropReply);
    }
  }

  @Test
  void aServerThatDoesNotStartSaysWhy() {
    IOException failed = assertThrows(IOException.class, () -> FencepostServer.start("--no-such-option"));
    assertTrue(failed.getMessage().contains("--no-such-option"), failed.getMessage());
  }
}
