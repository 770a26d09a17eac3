package io.fencepost.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.fencepost.client.testing.FencepostServer;
import io.fencepost.v1.LockMode;
import io.fencepost.v1.SessionRequest;
import io.grpc.InsecureServerCredentials;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Locks that readers share, with a real server. */
@Timeout(60)
class SharedTest {
  private static final Duration LONG = Duration.ofSeconds(30);
  private static FencepostServer server;
  private final FencepostClient client = FencepostClient.connect(server.address());
  private final FencepostClient other = FencepostClient.builder().servers(server.address()).holder("other").build();

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

  private static void assertReaders(List<HolderInfo> holders, FencedLock... readers) {
    assertEquals(Stream.of(readers).map(FencedLock::token).toList(), holders.stream().map(HolderInfo::token).toList());
    assertTrue(holders.stream().allMatch(HolderInfo::shared), holders.toString());
  }

  @Test
  void readersHoldALockTogether() {
    FencedLock first = client.acquire("read").shared().holder("reader-1").get();
    FencedLock second = other.acquire("read").shared().holder("reader-2").tryGet().orElseThrow();
    assertTrue(first.isValid() && second.isValid() && second.token() > first.token());
    TimedOutException writer = assertThrows(
        TimedOutException.class, () -> other.acquire("read").waitFor(Duration.ofMillis(50)).get());
    assertReaders(writer.holders(), first, second);
    assertTrue(writer.getMessage().endsWith(": it is held by reader-1 and reader-2, 0 waiting"), writer.getMessage());
    for (LockInfo info : List.of(other.get("read"), other.list("read").findAny().orElseThrow())) {
      assertReaders(info.holders(), first, second);
      assertEquals(2, info.holderCount());
    }
    first.release();
    second.release();
    try (FencedLock alone = other.acquire("read").get()) {
      LockInfo info = client.get("read");
      assertEquals(alone.token(), info.holders().get(0).token());
      assertEquals(List.of(false), info.holders().stream().map(HolderInfo::shared).toList());
      assertEquals(1, info.holderCount());
      assertTrue(alone.token() > second.token());
    }
  }

  /** Eight are shown. */
  @Test
  void aRefusalCountsAllReaders() {
    for (int n = 0; n < 10; n++) {
      client.acquire("many").shared().holder("reader-" + n).get();
    }
    String named = "reader-6 and reader-7 and 2 more, 0 waiting";
    ContendedException contended = assertThrows(ContendedException.class, other.acquire("many")::get);
    assertEquals(List.of(8, 10), List.of(contended.holders().size(), contended.holderCount()));
    assertTrue(contended.getMessage().endsWith(named), contended.getMessage());
    Duration soon = Duration.ofMillis(50);
    TimedOutException late = assertThrows(TimedOutException.class, other.acquire("many").waitFor(soon)::get);
    assertEquals(10, late.holderCount());
    assertTrue(late.getMessage().endsWith(named), late.getMessage());
    // The wait of the second one is over before the turn of the lock.
    for (Duration wait : List.of(soon, Duration.ofNanos(1))) {
      NotAllAcquiredException failed = assertThrows(
          NotAllAcquiredException.class, other.acquireAll(List.of("many", "more")).waitFor(wait)::get);
      assertEquals(10, assertInstanceOf(TimedOutException.class, failed.getCause()).holderCount());
      assertTrue(failed.getMessage().endsWith(named + "; none was held"), failed.getMessage());
    }
  }

  @Test
  void aReaderWaitsBehindAWriterThatWaits() throws Exception {
    FencedLock held = client.acquire("queue").shared().get();
    CompletableFuture<FencedLock> writing = other.acquire("queue").waitFor(LONG).getAsync();
    Await.until(() -> client.get("queue").waiters() == 1);
    assertThrows(ContendedException.class, client.acquire("queue").shared()::get);
    CompletableFuture<FencedLock> reading = client.acquire("queue").shared().waitFor(LONG).getAsync();
    Await.until(() -> client.get("queue").waiters() == 2);
    held.release();
    FencedLock writer = writing.get(30, TimeUnit.SECONDS);
    assertEquals(1, client.get("queue").waiters());
    writer.release();
    FencedLock reader = reading.get(30, TimeUnit.SECONDS);
    assertTrue(reader.token() > writer.token() && writer.token() > held.token());
  }

  @Test
  void aReaderThatIsGoneKeepsWritersOutForItsMinHold() {
    client.acquire("delay").shared().minHold(Duration.ofMinutes(1)).get().release();
    client.acquire("delay").shared().get();
    assertThrows(ContendedException.class, client.acquire("delay")::get);
  }

  @Test
  void aModeThatIsNotAskedForIsNotSent() throws Exception {
    SessionTap tap = new SessionTap(response -> List.of());
    try (Relay relay = new Relay(server.address(), InsecureServerCredentials.create(), tap);
        FencepostClient tapped = FencepostClient.connect(relay.address())) {
      tapped.acquire("mode").get().release();
      tapped.acquire("mode").shared().get().release();
    }
    Stream<SessionRequest> acquires = tap.received.stream().filter(SessionRequest::hasAcquire);
    assertEquals(
        List.of(LockMode.LOCK_MODE_UNSPECIFIED, LockMode.LOCK_MODE_SHARED),
        acquires.map(it -> it.getAcquire().getRequest().getMode()).toList());
  }
}
