package io.fencepost.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.fencepost.client.testing.FencepostServer;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.stream.IntStream;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Those who wait: who they are, how many may wait, and how a holder learns of them, with a real server. */
@Timeout(60)
class QueueTest {
  private static final Duration LONG = Duration.ofSeconds(50);
  private static FencepostServer server;
  private final FencepostClient client = FencepostClient.connect(server.address());
  private final FencepostClient other = FencepostClient.connect(server.address());

  /** Locks that a test only holds: one that nothing refers to is forgotten, and released. */
  private final List<FencedLock> held = new ArrayList<>();

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

  private CompletableFuture<FencedLock> waiting(LockRequest request) {
    int before = client.get(request.name()).waiters();
    CompletableFuture<FencedLock> future = request.waitFor(LONG).getAsync();
    Await.until(() -> future.isDone() || client.get(request.name()).waiters() == before + 1);
    assertFalse(future.isDone(), future::toString);
    return future;
  }

  @Test
  void waitersAreListedInTheirOrder() {
    held.add(client.acquire("list").semaphore(5).permits(5).owner("batch 1").get());
    assertEquals(0, client.waiters("list").count());
    waiting(other.acquire("list").semaphore(5).permits(2).holder("first").owner("batch 2"));
    waiting(other.acquire("list").holder("second"));
    List<WaiterInfo> waiters = client.waiters("list").toList();
    WaiterInfo first = waiters.get(0);
    assertEquals("first batch 2 SEMAPHORE 2", first.holder() + " " + first.owner() + " " + first.mode() + " "
        + first.permits());
    assertEquals("second  EXCLUSIVE", waiters.get(1).holder() + " " + waiters.get(1).owner() + " "
        + waiters.get(1).mode());
    assertTrue(waiters.stream().allMatch(it -> it.identity().isEmpty() && !it.skipped()));
    assertTrue(first.waitingSince().compareTo(waiters.get(1).waitingSince()) >= 0);
    assertEquals(waiters.get(1).waiterId(), client.waiters("list").toList().get(1).waiterId());
    assertFalse(first.waiterId().equals(waiters.get(1).waiterId()));
    assertEquals("batch 1", other.get("list").holders().get(0).owner());
  }

  @Test
  void allPagesOfTheQueueAreRead() {
    held.add(client.acquire("pages").get());
    int count = 101; // one more than a page has
    List<CompletableFuture<FencedLock>> futures = new ArrayList<>();
    for (int n = 0; n < count; n++) {
      futures.add(other.acquire("pages").holder("w" + n).waitFor(LONG).getAsync());
    }
    Await.until(() -> client.get("pages").waiters() == count);
    List<String> expected = IntStream.range(0, count).mapToObj(n -> "w" + n).sorted().toList();
    assertEquals(expected, client.waiters("pages").map(WaiterInfo::holder).sorted().toList());
    futures.forEach(future -> future.cancel(false));
  }

  @Test
  void aRequestDoesNotJoinAQueueThatIsLongEnough() {
    held.add(client.acquire("bound").holder("holder").get());
    waiting(other.acquire("bound").maxWaiters(1));
    ContendedException contended = assertThrows(
        ContendedException.class, other.acquire("bound").maxWaiters(1).waitFor(LONG)::get);
    assertEquals("bound is held by holder, 1 waiting", contended.getMessage());
    assertTrue(client.acquire("bound").maxWaiters(1).waitFor(LONG).tryGet().isEmpty());
    assertThrows(IllegalArgumentException.class, () -> client.acquire("bound").maxWaiters(0));
    TimedOutException late = assertThrows(
        TimedOutException.class, other.acquire("bound").maxWaiters(2).waitFor(Duration.ofMillis(50))::get);
    assertEquals(1, late.waiters());
  }

  @Test
  void aHolderLearnsThatItIsWanted() throws Exception {
    BlockingQueue<LockMode> told = new LinkedBlockingQueue<>();
    FencedLock quiet = client.acquire("quiet").get();
    held.add(quiet);
    FencedLock first = client.acquire("wanted").tellWhenWanted().get();
    first.onWanted(Runnable::run, told::add);
    assertFalse(first.isWanted());
    waiting(other.acquire("quiet"));
    CompletableFuture<FencedLock> next = waiting(other.acquire("wanted").shared().tellWhenWanted());
    assertEquals(LockMode.SHARED, told.take());
    assertTrue(first.isWanted() && first.isValid());
    assertFalse(quiet.isWanted(), "it did not ask for it");
    BlockingQueue<LockMode> again = new LinkedBlockingQueue<>();
    first.onWanted(Runnable::run, again::add);
    assertEquals(LockMode.SHARED, again.take());
    // The next one is granted while somebody waits.
    waiting(client.acquire("wanted"));
    first.release();
    FencedLock second = next.get(30, TimeUnit.SECONDS);
    second.onWanted(Runnable::run, told::add);
    assertEquals(LockMode.EXCLUSIVE, told.take());
    second.release();
  }

  @Test
  void locksOfASetHaveOneOwner() {
    LockSet locks = client.acquireAll(List.of("set/a", "set/b")).owner("transfer 7").get();
    for (String name : List.of("set/a", "set/b")) {
      assertEquals("transfer 7", client.get(name).holders().get(0).owner());
    }
    locks.close();
  }
}
