package io.fencepost.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.fencepost.client.testing.FencepostServer;
import io.fencepost.v1.AcquireRequest;
import io.fencepost.v1.LockMode;
import io.fencepost.v1.SessionRequest;
import io.grpc.InsecureServerCredentials;
import java.time.Duration;
import java.util.List;
import java.util.OptionalInt;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Semaphores, with a real server. */
@Timeout(60)
class SemaphoreTest {
  private static final Duration LONG = Duration.ofSeconds(30);
  private static FencepostServer server;
  private final FencepostClient client = FencepostClient.connect(server.address());
  private final FencepostClient other = FencepostClient.connect(server.address());

  @BeforeAll
  static void start() throws Exception {
    server = FencepostServer.start();
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

  /** {@code slot} 0 is none. */
  private static void assertHas(int permits, int slot, FencedLock lock) {
    assertEquals(permits, lock.permits());
    assertEquals(slot == 0 ? OptionalInt.empty() : OptionalInt.of(slot), lock.slot());
  }

  private static void assertHolders(List<HolderInfo> holders, FencedLock... locks) {
    assertEquals(Stream.of(locks).map(FencedLock::token).toList(), holders.stream().map(HolderInfo::token).toList());
    assertEquals(Stream.of(locks).map(FencedLock::slot).toList(), holders.stream().map(HolderInfo::slot).toList());
    assertTrue(holders.stream().allMatch(holder -> holder.permits() == 1 && !holder.shared()), holders.toString());
  }

  @Test
  void holdersHaveSlotsAndTheNextOneGetsTheFreeSlot() throws Exception {
    FencedLock first = client.acquire("slots").semaphore(2).holder("first").get();
    FencedLock second = other.acquire("slots").semaphore(2).holder("second").get();
    assertHas(1, 1, first);
    assertHas(1, 2, second);
    assertTrue(client.acquire("slots").semaphore(2).tryGet().isEmpty());
    LockRequest late = client.acquire("slots").semaphore(2).waitFor(Duration.ofMillis(50));
    TimedOutException timedOut = assertThrows(TimedOutException.class, late::get);
    String held = ": it is held by first and second, 0 waiting";
    assertTrue(timedOut.getMessage().endsWith(held), timedOut.getMessage());
    assertHolders(timedOut.holders(), first, second);
    assertHolders(other.get("slots").holders(), first, second);
    assertEquals(2, other.get("slots").holderCount());
    CompletableFuture<FencedLock> waiting = client.acquire("slots").semaphore(2).waitFor(LONG).getAsync();
    Await.until(() -> other.get("slots").waiters() == 1);
    first.release();
    FencedLock third = waiting.get(30, TimeUnit.SECONDS);
    assertHas(1, 1, third);
    second.release();
    third.release();
    assertHas(0, 0, other.acquire("slots").get());
  }

  @Test
  void severalPermitsAreOneLockWithoutASlot() {
    FencedLock two = client.acquire("permits").semaphore(3).permits(2).get();
    assertHas(2, 0, two);
    LockInfo info = client.get("permits");
    assertEquals(new SemaphoreInfo(2, 3, 0), info.semaphore());
    HolderInfo holder = info.holders().get(0);
    assertEquals(2, holder.permits());
    assertEquals(OptionalInt.empty(), holder.slot());
    LockRequest late = other.acquire("permits").semaphore(3).permits(2);
    ContendedException contended = assertThrows(ContendedException.class, late::get);
    assertEquals(info.semaphore(), contended.semaphore());
    TimedOutException timedOut = assertThrows(TimedOutException.class, late.waitFor(Duration.ofMillis(50))::get);
    assertEquals(info.semaphore(), timedOut.semaphore());
    assertHas(1, 1, other.acquire("permits").semaphore(3).get());
    two.release();
  }

  private static void assertRefused(String reason, String text, LockRequest request) {
    RefusedException refused = assertThrows(RefusedException.class, request.waitFor(LONG)::get);
    assertEquals("FAILED_PRECONDITION", refused.code());
    assertEquals(reason, refused.reason());
    assertTrue(refused.getMessage().contains(text), refused.getMessage());
  }

  @Test
  void aChangedLimitNeedsAHigherVersion() throws Exception {
    FencedLock first = client.acquire("limit").semaphore(1).get();
    String inForce = "limit 1 of version 0 is in force";
    assertRefused("PERMIT_LIMIT_MISMATCH", inForce, other.acquire("limit").semaphore(2));
    CompletableFuture<FencedLock> waiting = other.acquire("limit").semaphore(1).waitFor(LONG).getAsync();
    Await.until(() -> client.get("limit").waiters() == 1);
    // The new limit has room for the waiter and for the request that names it.
    FencedLock third = client.acquire("limit").semaphore(3).permitLimitVersion(1).waitFor(LONG).get();
    FencedLock second = waiting.get(30, TimeUnit.SECONDS);
    assertEquals(new SemaphoreInfo(3, 3, 1), client.list("limit").findAny().orElseThrow().semaphore());
    assertHas(1, 1, first);
    assertEquals(Set.of(2, 3), Set.of(second.slot().orElseThrow(), third.slot().orElseThrow()));
  }

  @Test
  void aLockIsEitherSharedOrASemaphore() {
    client.acquire("shared").shared().get();
    assertNull(other.get("shared").semaphore());
    assertRefused("MODE_MISMATCH", "", other.acquire("shared").semaphore(2));
    client.acquire("semaphore").semaphore(2).get();
    assertRefused("MODE_MISMATCH", "", other.acquire("semaphore").shared());
  }

  @Test
  void morePermitsThanThereAreAreInvalid() {
    assertInvalid("permits", client.acquire("permits").semaphore(2).permits(3));
  }

  @Test
  void permitsStayUsedForTheMinHold() {
    FencedLock gone = client.acquire("delay").semaphore(1).minHold(Duration.ofMinutes(1)).get();
    gone.release();
    assertThrows(ContendedException.class, client.acquire("delay").semaphore(1)::get);
    assertEquals(gone.token(), client.get("delay").delay().token());
  }

  private static void assertInvalid(String field, LockRequest request) {
    RefusedException refused = assertThrows(RefusedException.class, request::get);
    assertEquals("INVALID_ARGUMENT", refused.code());
    assertEquals(List.of(field), refused.violations().stream().map(FieldViolation::field).toList());
  }

  @Test
  void mistakesInOptionsAreErrorsAtOnce() {
    LockRequest request = client.acquire("mistake");
    assertThrows(IllegalArgumentException.class, () -> request.semaphore(0));
    assertThrows(IllegalArgumentException.class, () -> request.semaphore(1_000_001));
    assertThrows(IllegalArgumentException.class, () -> request.permits(0));
    assertThrows(IllegalArgumentException.class, () -> request.permitLimitVersion(-1));
    assertThrows(IllegalStateException.class, () -> client.acquire("mistake").shared().semaphore(2));
    assertThrows(IllegalStateException.class, () -> client.acquire("mistake").semaphore(2).shared());
    assertThrows(IllegalStateException.class, client.acquire("mistake").permits(1)::get);
    assertThrows(IllegalStateException.class, client.acquire("mistake").permitLimitVersion(1)::get);
  }

  @Test
  void whatIsSentOfASemaphore() throws Exception {
    SessionTap tap = new SessionTap(response -> List.of());
    try (Relay relay = new Relay(server.address(), InsecureServerCredentials.create(), tap);
        FencepostClient tapped = FencepostClient.connect(relay.address())) {
      tapped.acquire("sent").semaphore(5).permits(2).permitLimitVersion(7).get().release();
    }
    AcquireRequest sent = tap.received.stream()
        .filter(SessionRequest::hasAcquire)
        .map(it -> it.getAcquire().getRequest())
        .findFirst()
        .orElseThrow();
    assertEquals(LockMode.LOCK_MODE_SEMAPHORE, sent.getMode());
    assertEquals(List.of(5L, 2L, 7L),
        List.of((long) sent.getPermitLimit(), (long) sent.getPermits(), sent.getPermitLimitVersion()));
  }
}
