package io.fencepost.client.testing;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.fencepost.client.Await;
import io.fencepost.client.ContendedException;
import io.fencepost.client.FencedLock;
import io.fencepost.client.FencepostClient;
import io.fencepost.client.HolderInfo;
import io.fencepost.client.LeaseEnd;
import io.fencepost.client.LockEvent;
import io.fencepost.client.LockInfo;
import io.fencepost.client.LockLostException;
import io.fencepost.client.Loss;
import io.fencepost.client.LossReason;
import io.fencepost.client.TimedOutException;
import io.fencepost.client.TokenStatus;
import io.fencepost.client.Watch;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.NoSuchElementException;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** The server inside the process, with real clients. */
@Timeout(60)
class FakeServerTest {
  private static final Duration LONG = Duration.ofSeconds(30);
  private FakeServer server;
  private FencepostClient client;

  @BeforeEach
  void start() throws Exception {
    server = FakeServer.start();
    client = FencepostClient.builder().servers(server.address()).holder("first").build();
  }

  @AfterEach
  void stop() {
    client.close();
    server.close();
  }

  private static Loss loss(FencedLock lock) throws Exception {
    return lock.lost().toCompletableFuture().get(30, TimeUnit.SECONDS);
  }

  @Test
  void itGrantsAndRefuses() {
    FencedLock first = client.acquire("a").metadata("job", "7").get();
    ContendedException contended = assertThrows(ContendedException.class, () -> client.acquire("a").get());
    HolderInfo holder = contended.holders().get(0);
    assertEquals("first", holder.holder());
    assertEquals(Map.of("job", "7"), holder.metadata());
    assertEquals(first.grantId(), holder.grantId());
    assertThrows(TimedOutException.class, () -> client.acquire("a").waitFor(Duration.ofMillis(50)).get());
    assertEquals(List.of("a"), client.list("").map(LockInfo::name).toList());
    assertEquals(TokenStatus.State.CURRENT, client.checkToken("a", first.token()).state());
    assertEquals(LeaseEnd.RELEASED, first.release());
    assertEquals(TokenStatus.State.ENDED, client.checkToken("a", first.token()).state());
    FencedLock second = client.acquire("a").minToken(100).get();
    assertEquals(100, second.token());
    assertEquals(LeaseEnd.RELEASED, second.previousEnd());
    assertEquals(TokenStatus.State.STALE, client.checkToken("a", first.token()).state());
  }

  @Test
  void itServesWaitersInOrder() {
    List<CompletableFuture<FencedLock>> waiters = new ArrayList<>();
    FencedLock lock = client.acquire("a").get();
    for (int n = 1; n <= 8; n++) {
      int waiting = n;
      waiters.add(client.acquire("a").waitFor(LONG).getAsync());
      Await.until(() -> client.get("a").waiters() == waiting);
    }
    waiters.remove(3).cancel(false);
    Await.until(() -> client.get("a").waiters() == 7);
    long token = lock.token();
    lock.release();
    for (CompletableFuture<FencedLock> waiter : waiters) {
      FencedLock next = waiter.join();
      assertEquals(++token, next.token(), "the order of the queue");
      next.release();
    }
  }

  @Test
  void itKeepsLeasesPastTheirTtl() {
    try (FencedLock lock = client.acquire("a").ttl(Duration.ofMillis(1_500)).waitFor(LONG).get()) {
      assertThrows(TimedOutException.class, () -> client.acquire("a").waitFor(Duration.ofMillis(3_500)).get());
      assertTrue(lock.isValid());
    }
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
      assertEquals(new Loss("a", lock.token(), LossReason.REVOKED, next.token()), loss(lock));
      assertFalse(lock.isValid());
      assertEquals(LeaseEnd.REVOKED, next.previousEnd());
      assertThrows(LockLostException.class, lock::close);
      for (LockEvent.Kind kind :
          List.of(LockEvent.Kind.GRANTED, LockEvent.Kind.REVOKED, LockEvent.Kind.GRANTED)) {
        assertEquals(kind, events.poll(30, TimeUnit.SECONDS).kind());
      }
    }
    assertThrows(NoSuchElementException.class, () -> server.lose("nobody"));
  }

  @Test
  void aPauseLosesLeasesInTime() throws Exception {
    FencedLock lock = client.acquire("a").ttl(Duration.ofMillis(800)).waitFor(LONG).get();
    server.pause();
    assertEquals(LossReason.SILENCE, loss(lock).reason());
    server.resume();
    FencedLock next = client.acquire("a").waitFor(LONG).get();
    assertTrue(next.token() > lock.token());
    assertEquals(LeaseEnd.EXPIRED, next.previousEnd());
  }

  @Test
  void aLossDuringAPauseIsToldAfterIt() throws Exception {
    FencedLock lock = client.acquire("a").get();
    server.pause();
    server.lose("a");
    assertTrue(lock.isValid());
    server.resume();
    assertEquals(LossReason.REVOKED, loss(lock).reason());
  }

  @Test
  void aDroppedReplyIsAskedForAgain() {
    FencedLock kept = client.acquire("kept").ttl(Duration.ofSeconds(4)).get();
    FencedLock busy = client.acquire("busy").get();
    CompletableFuture<FencedLock> waiter = client.acquire("busy").waitFor(LONG).getAsync();
    Await.until(() -> client.get("busy").waiters() == 1);
    server.dropReply();
    FencedLock lock = client.acquire("a").get();
    assertEquals(busy.token() + 1, lock.token(), "the second transmission found the grant of the first");
    assertEquals(1, client.get("busy").waiters(), "the waiter goes on in its place");
    server.dropReply();
    assertEquals(LeaseEnd.RELEASED, lock.release());
    assertTrue(client.get("a").holders().isEmpty());
    busy.release();
    waiter.join().release();
    assertThrows(TimedOutException.class, () -> client.acquire("kept").waitFor(Duration.ofSeconds(5)).get());
    assertTrue(kept.isValid(), "other locks move to the next session");
  }
}
