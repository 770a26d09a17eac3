package io.fencepost.client.testing;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.fencepost.client.FencedLock;
import io.fencepost.client.FencepostClient;
import io.fencepost.client.LeaseEnd;
import io.fencepost.client.LockLostException;
import io.fencepost.client.LockMode;
import io.fencepost.client.Loss;
import io.fencepost.client.LossReason;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** The lock without a server: what code sees of it is what it sees of a real lock. */
@Timeout(60)
class FakeLockTest {
  @Test
  void itIsHeldUntilItIsReleased() {
    FakeLock lock = new FakeLock("a", 7);
    assertEquals("a", lock.name());
    assertEquals(7, lock.token());
    assertEquals(0, lock.permits());
    assertTrue(lock.slot().isEmpty());
    assertTrue(lock.isValid());
    assertTrue(lock.remaining().compareTo(Duration.ZERO) > 0);
    lock.check();
    assertFalse(lock.isReleased());
    try (lock) {
      assertEquals("FakeLock[a, token 7, held]", lock.toString());
    }
    assertTrue(lock.isReleased());
    CompletableFuture<Loss> lost = lock.lost().toCompletableFuture();
    lock.lose();
    assertFalse(lost.isDone(), "a release is no loss");
    assertReleased(lock);
  }

  @Test
  void itIsConverted() {
    FakeLock lock = new FakeLock("a", 7);
    assertEquals(LockMode.EXCLUSIVE, lock.mode());
    assertTrue(lock.tryUpgrade());
    assertEquals(7, lock.token());
    lock.downgrade();
    assertEquals("SHARED 7", lock.mode() + " " + lock.token());
    assertTrue(lock.tryUpgrade());
    assertEquals("EXCLUSIVE 8", lock.mode() + " " + lock.token());
    lock.lose();
    assertThrows(LockLostException.class, lock::downgrade);
  }

  @Test
  void itIsDescribedAndWanted() {
    FakeLock lock = new FakeLock("a", 7);
    List<LockMode> told = new ArrayList<>();
    lock.onWanted(Runnable::run, told::add);
    lock.describe(Map.of("done", "50 %"));
    assertEquals("fake-holder {done=50 %}", lock.holder() + " " + lock.metadata());
    lock.describe(Map.of(), "worker");
    assertEquals("worker {}", lock.holder() + " " + lock.metadata());
    assertFalse(lock.isWanted());
    lock.want();
    lock.want();
    assertTrue(lock.isWanted());
    assertEquals(List.of(LockMode.EXCLUSIVE), told);
    lock.release();
    assertThrows(LockLostException.class, () -> lock.describe(Map.of()));
  }

  @Test
  void aLossIsToldAtOnce() {
    FakeLock lock = new FakeLock("a", 7);
    List<Loss> told = new ArrayList<>();
    lock.onLost(Runnable::run, told::add);
    lock.lost().thenAccept(told::add);
    lock.lose();
    lock.lose();
    Loss loss = new Loss("a", 7, LossReason.REVOKED, 0);
    assertEquals(List.of(loss, loss), told);
    assertFalse(lock.isReleased());
    assertLost(lock);
    assertTrue(lock.isReleased());
  }

  /** The same assertions hold for the lock of a server. */
  @Test
  void aRealLockDoesTheSame() throws Exception {
    try (FencepostServer server = FencepostServer.start();
        FencepostClient client = FencepostClient.connect(server.address())) {
      FencedLock released = client.acquire("released").get();
      released.close();
      assertReleased(released);
      FencedLock lost = client.acquire("lost").get();
      server.lose("lost");
      lost.lost().toCompletableFuture().get(30, TimeUnit.SECONDS);
      assertLost(lost);
    }
  }

  private static void assertReleased(FencedLock lock) {
    assertFalse(lock.isValid());
    assertEquals(Duration.ZERO, lock.remaining());
    LockLostException over = assertThrows(LockLostException.class, lock::check);
    assertEquals(LossReason.RELEASED, over.reason());
    assertTrue(over.getMessage().contains("this process has released it"), over.getMessage());
    assertEquals(LeaseEnd.RELEASED, lock.release());
    assertEquals(LeaseEnd.RELEASED, lock.releaseAsync().join());
    lock.close();
  }

  private static void assertLost(FencedLock lock) {
    assertFalse(lock.isValid());
    assertEquals(Duration.ZERO, lock.remaining());
    assertEquals(LossReason.REVOKED, assertThrows(LockLostException.class, lock::check).reason());
    assertEquals(LeaseEnd.REVOKED, lock.release());
    assertEquals(LeaseEnd.REVOKED, lock.releaseAsync().join());
    assertEquals(LossReason.REVOKED, assertThrows(LockLostException.class, lock::close).reason());
    assertEquals(LossReason.REVOKED, lock.lost().toCompletableFuture().join().reason());
  }
}
