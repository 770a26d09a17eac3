package io.fencepost.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.fencepost.client.testing.FencepostServer;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CancellationException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestInfo;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.function.Executable;

/** The client with a real server that works. */
@Timeout(60)
class LocksTest {
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

  @Test
  void aLockIsExclusiveAndItsTokensRise() {
    long first;
    try (FencedLock lock = client.acquire("exclusive").get()) {
      first = lock.token();
      assertTrue(lock.isValid());
      assertEquals("exclusive", lock.name());
      ContendedException refused =
          assertThrows(ContendedException.class, () -> other.acquire("exclusive").get());
      assertEquals(lock.holder(), refused.holders().get(0).holder());
      assertEquals(first, refused.holders().get(0).token());
      assertTrue(other.tryAcquire("exclusive").isEmpty());
    }
    try (FencedLock lock = other.acquire("exclusive").get()) {
      assertTrue(lock.token() > first);
      assertEquals(LeaseEnd.RELEASED, lock.previousEnd());
      assertEquals("other", lock.holder());
      assertEquals(TokenStatus.State.STALE, client.checkToken("exclusive", first).state());
    }
    long seen = first + TimeUnit.HOURS.toMicros(1);
    try (FencedLock lock = client.acquire("exclusive").minToken(seen).get()) {
      assertEquals(seen, lock.token(), "a store has seen the one before");
    }
  }

  @Test
  void aLeaseIsKeptPastItsTtl() throws Exception {
    try (FencedLock lock = client.acquire("kept").ttl(Duration.ofMillis(1_500)).waitFor(LONG).get()) {
      assertThrows(TimedOutException.class, () -> other.acquire("kept").waitFor(Duration.ofMillis(3_500)).get());
      assertTrue(lock.isValid());
      assertTrue(lock.remaining().compareTo(Duration.ofMillis(1_500)) < 0);
    }
  }

  @Test
  void aWaiterGetsTheLockWhenItIsReleased() throws Exception {
    FencedLock lock = client.acquire("queue").get();
    CompletableFuture<FencedLock> waiter = other.acquire("queue").waitFor(LONG).getAsync();
    Await.until(() -> client.get("queue").waiters() == 1);
    assertEquals(LeaseEnd.RELEASED, lock.release());
    assertFalse(lock.isValid());
    assertEquals(LeaseEnd.RELEASED, lock.release(), "a release is idempotent");
    try (FencedLock next = waiter.get()) {
      assertTrue(next.token() > lock.token());
    }
  }

  @Test
  void waitersOfOneClientAreServedInOrder() {
    List<CompletableFuture<FencedLock>> waiters = new ArrayList<>();
    FencedLock lock = client.acquire("order").get();
    for (int n = 1; n <= 8; n++) {
      int waiting = n;
      waiters.add(client.acquire("order").waitFor(LONG).getAsync());
      Await.until(() -> client.get("order").waiters() == waiting);
    }
    waiters.remove(3).cancel(false);
    Await.until(() -> client.get("order").waiters() == 7);
    long token = lock.token();
    lock.release();
    for (CompletableFuture<FencedLock> waiter : waiters) {
      FencedLock next = waiter.join();
      assertEquals(++token, next.token(), "the order of the queue");
      next.release();
    }
  }

  @Test
  void aCancelledWaitLeavesTheQueue() throws Exception {
    try (FencedLock lock = client.acquire("cancel").get()) {
      CompletableFuture<FencedLock> waiter = other.acquire("cancel").waitFor(LONG).getAsync();
      Await.until(() -> client.get("cancel").waiters() == 1);
      assertTrue(waiter.cancel(false));
      assertThrows(CancellationException.class, waiter::join);
      Await.until(() -> client.get("cancel").waiters() == 0);
      assertTrue(lock.isValid());
    }
  }

  @Test
  void anInterruptedWaitLeavesTheQueue() throws Exception {
    try (FencedLock lock = client.acquire("interrupt").get()) {
      CompletableFuture<Boolean> interrupted = new CompletableFuture<>();
      Thread waiter = new Thread(() -> {
        assertThrows(WaitInterruptedException.class, () -> other.acquire("interrupt").waitFor(LONG).get());
        interrupted.complete(Thread.currentThread().isInterrupted());
      });
      waiter.start();
      Await.until(() -> client.get("interrupt").waiters() == 1);
      waiter.interrupt();
      assertTrue(interrupted.get(), "the interrupt status is set");
      Await.until(() -> client.get("interrupt").waiters() == 0);
      assertTrue(lock.isValid());
    }
  }

  /** Cancels right at the grant, so that some cancellations cross it. */
  @Test
  void aGrantThatCrossesItsCancellationIsReleased() throws Exception {
    for (int n = 0; n < 50; n++) {
      FencedLock lock = client.acquire("cross").waitFor(LONG).get();
      CompletableFuture<FencedLock> waiter = other.acquire("cross").waitFor(LONG).getAsync();
      Await.until(() -> client.get("cross").waiters() == 1);
      lock.releaseAsync();
      if (!waiter.cancel(false)) {
        waiter.join().release();
      }
    }
    Await.until(() -> client.get("cross").holders().isEmpty());
  }

  @Test
  void closingTheClientEndsWaitsAndReleasesLocks() throws Exception {
    FencedLock lock = other.acquire("close").get();
    FencedLock held = client.acquire("close-held").get();
    CompletableFuture<Loss> lost = held.lost().toCompletableFuture();
    CompletableFuture<FencedLock> waiter = client.acquire("close").waitFor(LONG).getAsync();
    Await.until(() -> other.get("close").waiters() == 1);
    client.close();
    assertFalse(held.isValid());
    assertTrue(other.get("close-held").holders().isEmpty());
    ExecutionException failure = assertThrows(ExecutionException.class, waiter::get);
    assertEquals(ClientClosedException.class, failure.getCause().getClass());
    assertThrows(ClientClosedException.class, () -> client.acquire("close").get());
    Await.until(() -> other.get("close").waiters() == 0);
    lock.release();
    assertFalse(lost.isDone(), "a release is no loss");
    LockLostException over = assertThrows(LockLostException.class, held::check);
    assertEquals(LossReason.RELEASED, over.reason());
    assertThrows(LockLostException.class, held::close, "its block went on without the lock");
  }

  @Test
  void anInvalidRequestNamesTheField() {
    RefusedException refused = assertThrows(RefusedException.class, () -> client.acquire("").get());
    assertEquals("INVALID_ARGUMENT", refused.code());
    assertEquals("INVALID_FIELD", refused.reason());
    assertEquals("lock_name", refused.violations().get(0).field());
    assertThrows(IllegalArgumentException.class, () -> client.acquire("a\ud800b"));
    RefusedException large = assertThrows(
        RefusedException.class, () -> client.acquire("large").metadata("k", "v".repeat(70_000)).get());
    assertEquals("INVALID_ARGUMENT", large.code());
    assertThrows(IllegalArgumentException.class, () -> client.acquire("a").minToken(-1));
    assertThrows(IllegalArgumentException.class, () -> client.checkToken("a", -1));
    NullPointerException none = assertThrows(
        NullPointerException.class, () -> FencepostClient.connect((String) null));
    assertEquals("server address must not be null", none.getMessage());
    assertEquals("lock name must not be null", nullMessage(() -> client.acquire(null)));
    assertEquals("wait must not be null", nullMessage(() -> client.acquire("a").waitFor(null)));
    assertEquals("ttl must not be null", nullMessage(() -> client.acquire("a").ttl(null)));
    Duration negative = Duration.ofSeconds(-1);
    assertEquals("wait must be 0 or more, not PT-1S", illegal(() -> client.acquire("a").waitFor(negative)));
    assertEquals("ttl must be above 0, not PT0S", illegal(() -> client.acquire("a").ttl(Duration.ZERO)));
    assertEquals("token must be 0 or more, not -1", illegal(() -> client.checkToken("a", -1)));
  }

  private static String nullMessage(Executable call) {
    return assertThrows(NullPointerException.class, call).getMessage();
  }

  private static String illegal(Executable call) {
    return assertThrows(IllegalArgumentException.class, call).getMessage();
  }

  @Test
  void messagesSayWhatHappened() throws Exception {
    FencedLock lock = other.acquire("told").get();
    ContendedException contended = assertThrows(ContendedException.class, () -> client.acquire("told").get());
    assertEquals("told is held by other, 0 waiting", contended.getMessage());
    TimedOutException late = assertThrows(
        TimedOutException.class, () -> client.acquire("told").waitFor(Duration.ofMillis(50)).get());
    assertEquals("timed out waiting for told: it is held by other, 0 waiting", late.getMessage());
    String anonymous = "other".repeat(100);
    RefusedException refused = assertThrows(
        RefusedException.class, () -> client.acquire("refused").holder(anonymous).get());
    assertTrue(refused.getMessage().endsWith(" (INVALID_FIELD)"), refused.getMessage());
    lock.release();
    LockLostException over = assertThrows(LockLostException.class, lock::check);
    assertEquals(
        "told (token " + lock.token() + ") is not held any more: this process has released it", over.getMessage());
    assertEquals("FencedLock[told, token " + lock.token() + ", not held]", lock.toString());
    assertEquals("FencepostClient[" + server.address() + "]", client.toString());
    assertEquals(
        "a is being offered to the next waiter, 3 waiting",
        new ContendedException("a", List.of(), 0, null, null, 3).getMessage());
    assertEquals("a (token 7) is lost: the lease was revoked; token 9 holds it now",
        new Loss("a", 7, LossReason.REVOKED, 9).toString());
  }

  @Test
  void withoutATtlTheServerChoosesOne() throws Exception {
    try (FencepostServer strict = FencepostServer.start("--ttl-max", "10s", "--wait-max", "10s");
        FencepostClient plain = FencepostClient.connect(strict.address());
        FencedLock lock = plain.acquire("default").get()) {
      assertEquals(Duration.ofSeconds(10), plain.get("default").holders().get(0).ttl());
      assertTrue(lock.remaining().compareTo(Duration.ofSeconds(10)) < 0, "as the answer says");
    }
    try (FencedLock lock = client.acquire("default").get()) {
      assertEquals(Duration.ofMillis(Facts.DEFAULT_TTL_MS), client.get("default").holders().get(0).ttl());
      assertTrue(lock.remaining().compareTo(Duration.ofSeconds(20)) > 0);
    }
  }

  @Test
  void runLockedReleasesAndPassesExceptionsOn() throws Exception {
    assertEquals(42, client.<Integer, RuntimeException>callLocked("run", lock -> 42));
    java.io.IOException failure = assertThrows(java.io.IOException.class, () -> client.runLocked("run", lock -> {
      assertTrue(lock.isValid());
      throw new java.io.IOException("body");
    }));
    assertEquals("body", failure.getMessage());
    assertTrue(client.get("run").holders().isEmpty());
  }

  @Test
  void readsListsAndChecksTokens() {
    Set<String> names = new TreeSet<>();
    List<FencedLock> locks = new ArrayList<>();
    for (int n = 0; n < 30; n++) {
      names.add("list/" + n);
      locks.add(client.acquire("list/" + n).metadata("n", "" + n).get());
    }
    assertEquals(names, client.list("list/").map(LockInfo::name).collect(Collectors.toCollection(TreeSet::new)));
    FencedLock lock = locks.get(3);
    HolderInfo holder = client.get(lock.name()).holders().get(0);
    assertEquals("3", holder.metadata().get("n"));
    assertEquals(lock.grantId(), holder.grantId());
    assertTrue(client.checkToken(lock.name(), lock.token()).isCurrent());
    lock.release();
    assertEquals(TokenStatus.State.ENDED, client.checkToken(lock.name(), lock.token()).state());
    locks.forEach(FencedLock::release);
  }

  @Test
  void aWatchReportsEvents() throws Exception {
    BlockingQueue<LockEvent> events = new LinkedBlockingQueue<>();
    try (Watch watch = client.watch("watch/", events::add)) {
      watch.started().toCompletableFuture().get();
      FencedLock lock = other.acquire("watch/a").get();
      LockEvent granted = events.poll(30, TimeUnit.SECONDS);
      assertEquals(LockEvent.Kind.GRANTED, granted.kind());
      assertEquals(lock.token(), granted.token());
      assertEquals("other", granted.holder());
      lock.release();
      assertEquals(LockEvent.Kind.RELEASED, events.poll(30, TimeUnit.SECONDS).kind());
      watch.close();
      watch.ended().toCompletableFuture().get();
    }
  }

  @Test
  void aThousandLocksOnOneClient(TestInfo info) {
    List<CompletableFuture<FencedLock>> acquires = new ArrayList<>();
    for (int n = 0; n < 1_000; n++) {
      acquires.add(client.acquire("thousand/" + n).ttl(Duration.ofSeconds(4)).waitFor(LONG).getAsync());
    }
    List<FencedLock> locks = acquires.stream().map(CompletableFuture::join).toList();
    assertTrue(locks.stream().allMatch(FencedLock::isValid), info.getDisplayName());
    // A wait longer than the TTL: all are renewed meanwhile.
    assertThrows(
        TimedOutException.class, () -> other.acquire("thousand/0").waitFor(Duration.ofSeconds(5)).get());
    assertTrue(locks.stream().allMatch(FencedLock::isValid));
    locks.stream().map(FencedLock::releaseAsync).toList().forEach(CompletableFuture::join);
    assertEquals(0, client.list("thousand/").count());
  }
}
