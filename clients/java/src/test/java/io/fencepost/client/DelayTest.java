package io.fencepost.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.fencepost.client.testing.FencepostServer;
import java.time.Duration;
import java.util.List;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Locks that stay unavailable after their lease, with a real server. */
@Timeout(60)
class DelayTest {
  private static final Duration LONG = Duration.ofSeconds(30);
  private static FencepostServer server;
  private final FencepostClient client = FencepostClient.builder().servers(server.address()).holder("worker-7").build();
  private final FencepostClient other = FencepostClient.connect(server.address());

  @BeforeAll
  static void start() throws Exception {
    server = FencepostServer.start("--ttl-min", "100ms");
  }

  @AfterAll
  static void stop() {
    server.close();
  }

  @AfterEach
  void close() {
    client.close();
    other.close();
  }

  private static void assertDelay(LockDelay delay, FencedLock last, Duration most) {
    assertNotNull(delay);
    assertEquals(last.holder(), delay.holder());
    assertEquals(last.token(), delay.token());
    assertTrue(delay.remaining().compareTo(Duration.ZERO) > 0, delay.toString());
    assertTrue(delay.remaining().compareTo(most) <= 0, delay.toString());
  }

  @Test
  void aLockWithMinHoldIsUnavailableAfterItsRelease() {
    FencedLock lock = client.acquire("min").minHold(LONG).get();
    ContendedException held = assertThrows(ContendedException.class, other.acquire("min")::get);
    assertNull(held.delay(), "there is a holder");
    assertEquals(LeaseEnd.RELEASED, lock.release());

    ContendedException contended = assertThrows(ContendedException.class, other.acquire("min")::get);
    assertEquals(List.of(), contended.holders());
    assertDelay(contended.delay(), lock, LONG);
    assertTrue(
        contended.getMessage().matches("min is unavailable for another \\d+ s \\(delay after worker-7\\), 0 waiting"),
        contended.getMessage());
    TimedOutException late = assertThrows(
        TimedOutException.class, () -> other.acquire("min").waitFor(Duration.ofMillis(50)).get());
    assertDelay(late.delay(), lock, LONG);
    assertTrue(late.getMessage().startsWith("timed out waiting for min: it is unavailable for another "));
    assertTrue(other.tryAcquire("min").isEmpty());
    assertDelay(other.get("min").delay(), lock, LONG);
    assertDelay(other.list("min").findAny().orElseThrow().delay(), lock, LONG);
  }

  /** The time is long enough that the acquire comes before its end also on a busy machine. */
  @Test
  void afterMinHoldTheNextOneGetsTheLock() {
    Duration time = Duration.ofSeconds(3);
    long before = System.nanoTime();
    FencedLock lock = client.acquire("next").minHold(time).get();
    lock.release();
    try (FencedLock next = other.acquire("next").waitFor(LONG).get()) {
      assertTrue(System.nanoTime() - before >= time.toNanos(), "not before the end of the time");
      assertTrue(next.token() > lock.token());
      assertNull(other.get("next").delay());
    }
  }

  @Test
  void minHoldIsForEachLockOfASet() {
    client.acquireAll(Set.of("set/a", "set/b")).minHold(LONG).get().release();
    client.tryAll(Set.of("set/c")).minHold(LONG).get().release();
    for (String name : List.of("set/a", "set/b", "set/c")) {
      LockDelay delay = assertThrows(ContendedException.class, other.acquire(name)::get).delay();
      assertEquals("worker-7", delay.holder());
    }
    NotAllAcquiredException failed = assertThrows(
        NotAllAcquiredException.class,
        () -> other.acquireAll(Set.of("set/b")).waitFor(Duration.ofMillis(50)).get());
    assertTrue(failed.getMessage().contains(" (delay after worker-7)"), failed.getMessage());
  }

  /** The holder learns of the loss by its own clock, and its release reaches the server after the lease has ended. */
  @Test
  void aLateReleaseEndsTheDelayAfterAnExpiry() throws Exception {
    Duration delay = Duration.ofSeconds(60);
    try (Proxy proxy = new Proxy(server.address());
        FencepostClient holder = FencepostClient.builder().servers(proxy.address()).holder("stuck").build()) {
      LockRequest request = holder.acquire("expired").ttl(Duration.ofSeconds(2)).waitFor(LONG);
      FencedLock lock = request.lockDelay(delay).get();
      proxy.mode(Proxy.Mode.SILENT);
      lock.lost().toCompletableFuture().get(30, TimeUnit.SECONDS);
      Await.until(() -> other.get("expired").holders().isEmpty());
      ContendedException contended = assertThrows(ContendedException.class, other.acquire("expired")::get);
      assertDelay(contended.delay(), lock, delay);
      CompletableFuture<FencedLock> waiter = other.acquire("expired").waitFor(LONG).getAsync();
      Await.until(() -> other.get("expired").waiters() == 1);
      proxy.mode(Proxy.Mode.FORWARD);
      assertEquals(LeaseEnd.UNSPECIFIED, lock.release());
      assertTrue(waiter.get(30, TimeUnit.SECONDS).token() > lock.token());
    }
  }

  /** The holder's clock stood still, as that of a machine that was suspended: the server reports the expiry. */
  @Test
  void aReleaseAfterAReportedExpiryEndsTheDelay() throws Exception {
    BootClock still = new BootClock(() -> 0, () -> -1);
    try (Proxy proxy = new Proxy(server.address());
        FencepostClient holder = FencepostClient.builder().servers(proxy.address()).build(still)) {
      FencedLock lock =
          holder.acquire("reported").ttl(Duration.ofSeconds(2)).lockDelay(Duration.ofSeconds(60)).get();
      proxy.mode(Proxy.Mode.SILENT);
      Await.until(() -> other.get("reported").delay() != null);
      CompletableFuture<FencedLock> waiter = other.acquire("reported").waitFor(LONG).getAsync();
      Await.until(() -> other.get("reported").waiters() == 1);
      proxy.mode(Proxy.Mode.FORWARD);
      assertEquals(LossReason.EXPIRED, lock.lost().toCompletableFuture().get(30, TimeUnit.SECONDS).reason());
      assertEquals(1, other.get("reported").waiters(), "the report ends no delay");
      assertEquals(LeaseEnd.EXPIRED, lock.release());
      assertTrue(waiter.get(30, TimeUnit.SECONDS).token() > lock.token());
    }
  }

  @Test
  void messagesSayHowLongADelayLasts() {
    assertEquals("unavailable for another 24 s (delay after worker-7)", state(23_100, "worker-7"));
    assertEquals("unavailable for another 1 s (delay after its last lease)", state(1_000, ""));
    assertEquals("unavailable for another 999 ms (delay after b)", state(999, "b"));
    LockDelay delay = new LockDelay(Duration.ofSeconds(24), "worker-7", 7);
    assertEquals(
        "a is unavailable for another 24 s (delay after worker-7), 2 waiting",
        new ContendedException("a", List.of(), 0, delay, null, 2).getMessage());
  }

  private static String state(long millis, String holder) {
    return new LockDelay(Duration.ofMillis(millis), holder, 7).state();
  }

  @Test
  void zeroIsNoDelay() {
    FencedLock lock = client.acquire("zero").minHold(Duration.ZERO).lockDelay(Duration.ZERO).get();
    lock.release();
    other.acquire("zero").get().release();
    Duration negative = Duration.ofSeconds(-1);
    assertThrows(IllegalArgumentException.class, () -> client.acquire("zero").minHold(negative));
    assertThrows(IllegalArgumentException.class, () -> client.acquire("zero").lockDelay(negative));
    RefusedException refused = assertThrows(
        RefusedException.class, client.acquire("zero").lockDelay(Duration.ofSeconds(61))::get);
    assertEquals("lock_delay", refused.violations().get(0).field());
  }
}
