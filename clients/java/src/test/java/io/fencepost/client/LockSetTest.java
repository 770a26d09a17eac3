package io.fencepost.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.fencepost.client.testing.FencepostServer;
import io.fencepost.v1.SessionRequest;
import io.grpc.ForwardingServerCallListener.SimpleForwardingServerCallListener;
import io.grpc.InsecureServerCredentials;
import io.grpc.Metadata;
import io.grpc.ServerCall;
import io.grpc.ServerCallHandler;
import io.grpc.ServerInterceptor;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Several locks at once, with a real server. */
@Timeout(60)
class LockSetTest {
  private static final Duration LONG = Duration.ofSeconds(50);
  private static final List<String> ABC = List.of("a", "b", "c");
  private FencepostServer server;
  private FencepostClient client;
  private FencepostClient other;

  @BeforeEach
  void start() throws Exception {
    server = FencepostServer.start("--ttl-min", "100ms");
    client = FencepostClient.connect(server.address());
    other = FencepostClient.builder().servers(server.address()).holder("other").build();
  }

  @AfterEach
  void close() {
    client.close();
    other.close();
    server.close();
  }

  /** Whether the lock was given back: long before its TTL, and by a release. */
  private boolean isFree(String name) {
    LockInfo info = other.get(name);
    return info.holders().isEmpty() && info.previousEnd() == LeaseEnd.RELEASED;
  }

  private void waitsFor(String name, int count) {
    Await.until(() -> other.get(name).waiters() == count);
  }

  @Test
  void namesAreSortedByTheBytesOfUtf8() {
    List<String> names = List.of("\ud800\udc00", "b", "\uff5e", "a", "b");
    List<String> ordered =
        LockSetRequest.ordered(LockSetRequest.exclusive(names)).stream().map(LockItem::name).toList();
    assertEquals(List.of("a", "b", "\uff5e", "\ud800\udc00"), ordered);
    List<String> ofJava = names.stream().distinct().sorted().toList();
    assertNotEquals(ofJava, ordered, "Java has another order");
    assertThrows(IllegalArgumentException.class, () -> client.acquireAll(List.of()));
    assertThrows(IllegalArgumentException.class, () -> client.tryAll(List.of("a", "\ud800")));
    List<String> many = IntStream.range(0, 65).mapToObj(String::valueOf).toList();
    IllegalArgumentException refused =
        assertThrows(IllegalArgumentException.class, () -> client.acquireAll(many));
    assertEquals("names must be 1 to 64 different names, not 65", refused.getMessage());
  }

  @Test
  void leavesOfAHierarchyAreHeldUnderASharedParent() {
    LockItem parent = LockItem.shared("db");
    LockSet first = client.acquireAll(LockItem.exclusive("db/1"), parent, parent).get();
    LockSet second = other.tryAll(parent, LockItem.exclusive("db/2")).get();
    assertEquals(List.of("db", "db/1"), first.names());
    assertEquals(List.of(LockMode.SHARED, LockMode.EXCLUSIVE),
        List.of(first.get("db").mode(), first.get("db/1").mode()));
    assertEquals(2, other.get("db").holderCount());
    assertTrue(other.tryAll(parent, LockItem.exclusive("db/1")).tryGet().isEmpty());
    assertTrue(other.tryAll(LockItem.exclusive("db")).tryGet().isEmpty());
    first.close();
    second.close();
  }

  @Test
  void aNameHasOneModeInASet() {
    assertThrows(IllegalArgumentException.class, () -> new LockItem("a", LockMode.SEMAPHORE));
    assertThrows(IllegalArgumentException.class, client::acquireAll);
  }

  @Test
  void aNameWithTwoModesSendsNothing() throws Exception {
    SessionTap tap = new SessionTap(response -> List.of());
    try (Relay relay = new Relay(server.address(), InsecureServerCredentials.create(), tap);
        FencepostClient tapped = FencepostClient.connect(relay.address())) {
      LockItem[] twice = {LockItem.exclusive("a"), LockItem.shared("b"), LockItem.exclusive("b")};
      assertThrows(IllegalArgumentException.class, () -> tapped.acquireAll(twice).get());
      assertThrows(IllegalArgumentException.class, () -> tapped.tryAll(twice).get());
      tapped.acquire("c").get().release();
    }
    Stream<SessionRequest> acquires = tap.received.stream().filter(SessionRequest::hasAcquire);
    assertEquals(List.of("c"), acquires.map(it -> it.getAcquire().getRequest().getLockName()).toList());
  }

  @Test
  void allLocksAreHeldUntilTheirOneRelease() throws Exception {
    BlockingQueue<String> events = new LinkedBlockingQueue<>();
    try (Watch watch = other.watch("", event -> events.add(event.kind() + " " + event.name()))) {
      watch.started().toCompletableFuture().get();
      LockSet locks = client
          .acquireAll(List.of("c", "a", "b", "a"))
          .ttl(Duration.ofSeconds(1))
          .holder("me")
          .metadata("job", "7")
          .get();
      assertEquals(ABC, locks.names());
      for (FencedLock lock : locks) {
        assertEquals(lock.token(), other.get(lock.name()).newestToken());
        assertEquals(lock.token(), locks.tokens().get(lock.name()));
        assertEquals("me", lock.holder());
        assertSame(lock, locks.get(lock.name()));
      }
      assertThrows(IllegalArgumentException.class, () -> locks.get("d"));
      assertThrows(TimedOutException.class, () -> other.acquire("a").waitFor(Duration.ofMillis(1_500)).get());
      assertTrue(locks.isValid(), "all are renewed");
      assertTrue(locks.remaining().compareTo(Duration.ofSeconds(1)) < 0);
      locks.check();
      assertEquals(LeaseEnd.RELEASED, locks.release());
      assertEquals(LeaseEnd.RELEASED, locks.release(), "a release is idempotent");
      assertFalse(locks.isValid());
      assertEquals(Duration.ZERO, locks.remaining());
      locks.close();
      assertFalse(locks.lost().toCompletableFuture().isDone());
      List<String> released = new ArrayList<>(ABC);
      Collections.reverse(released);
      List<String> expected = Stream.concat(
              ABC.stream().map(name -> "GRANTED " + name), released.stream().map(name -> "RELEASED " + name))
          .toList();
      List<String> seen = new ArrayList<>();
      // Before the watch is closed, which may be sooner than the last event comes.
      while (seen.size() < expected.size()) {
        seen.add(events.take());
      }
      assertEquals(expected, seen);
    }
  }

  @Test
  void oneThatIsHeldGivesBackTheOthers() {
    try (FencedLock held = other.acquire("c").get()) {
      NotAllAcquiredException failed =
          assertThrows(NotAllAcquiredException.class, () -> client.acquireAll(ABC).get());
      assertInstanceOf(ContendedException.class, failed.getCause());
      assertEquals("c", failed.name());
      assertEquals(List.of("b", "a"), failed.givenBack());
      String message =
          "the 3 locks were not acquired, because of c: c is held by other, 0 waiting; given back: b, a";
      assertEquals(message, failed.getMessage());
      assertTrue(isFree("a") && isFree("b"));
      assertTrue(client.acquireAll(ABC).tryGet().isEmpty());
      assertTrue(held.isValid());
    }
    NotAllAcquiredException refused =
        assertThrows(NotAllAcquiredException.class, () -> client.acquireAll(List.of("\n")).get());
    assertInstanceOf(RefusedException.class, refused.getCause());
    assertTrue(refused.getMessage().endsWith("; none was held"));
  }

  @Test
  void allLocksShareOneWait() throws Exception {
    FencedLock first = other.acquire("a").get();
    try (FencedLock last = other.acquire("c").get()) {
      long begun = System.nanoTime();
      CompletableFuture<LockSet> waiting = client.acquireAll(ABC).waitFor(Duration.ofSeconds(1)).getAsync();
      waitsFor("a", 1);
      Thread.sleep(500);
      first.release();
      ExecutionException failed = assertThrows(ExecutionException.class, waiting::get);
      assertInstanceOf(TimedOutException.class, failed.getCause().getCause());
      assertTrue(System.nanoTime() - begun >= TimeUnit.MILLISECONDS.toNanos(999));
      assertTrue(isFree("a") && isFree("b") && last.isValid());
    }
  }

  @Test
  void aCancelledOrInterruptedCallLeavesNothing() throws Exception {
    try (FencedLock last = other.acquire("c").get()) {
      for (int pause = 0; pause < 10; pause++) {
        CompletableFuture<LockSet> early = client.acquireAll(ABC).waitFor(LONG).getAsync();
        Thread.sleep(pause);
        assertTrue(early.cancel(false));
      }
      CompletableFuture<LockSet> waiting = client.acquireAll(ABC).waitFor(LONG).getAsync();
      waitsFor("c", 1);
      assertTrue(waiting.cancel(false));
      Await.until(() -> isFree("a") && isFree("b"));
      waitsFor("c", 0);
      CompletableFuture<Throwable> thrown = new CompletableFuture<>();
      Thread thread = new Thread(() -> {
        try {
          client.acquireAll(ABC).waitFor(LONG).get();
        } catch (FencepostException interrupted) {
          thrown.complete(interrupted);
        }
      });
      thread.start();
      waitsFor("c", 1);
      thread.interrupt();
      assertInstanceOf(WaitInterruptedException.class, thrown.get());
      Await.until(() -> isFree("a") && isFree("b"));
      waitsFor("c", 0);
      assertTrue(last.isValid());
    }
  }

  @Test
  void aCallThatItsCallerCompletesLeavesNothing() throws Exception {
    try (FencedLock last = other.acquire("c").get()) {
      // Longer than the test may take: the end of the wait gives everything back, too.
      Duration wait = Duration.ofMinutes(10);
      CompletableFuture<LockSet> waiting = client.acquireAll(ABC).waitFor(wait).getAsync();
      waitsFor("c", 1);
      assertTrue(waiting.complete(null));
      Await.until(() -> isFree("a") && isFree("b"));
      waitsFor("c", 0);
      assertTrue(last.isValid());
    }
  }

  @Test
  void optionsThatAreSetLaterDoNotReachACallInFlight() throws Exception {
    FencedLock first = other.acquire("a").get();
    LockSetRequest request = client.acquireAll(ABC).holder("one").waitFor(LONG);
    CompletableFuture<LockSet> waiting = request.getAsync();
    waitsFor("a", 1);
    request.holder("two");
    first.release();
    try (LockSet locks = waiting.get()) {
      locks.forEach(lock -> assertEquals("one", lock.holder()));
    }
    request.run(locks -> locks.forEach(lock -> assertEquals("two", lock.holder())));
  }

  @Test
  void aLossWhileLaterLocksAreWaitedForEndsTheCall() throws Exception {
    try (FencedLock last = other.acquire("c").get()) {
      CompletableFuture<LockSet> waiting = client.acquireAll(ABC).waitFor(LONG).getAsync();
      waitsFor("c", 1);
      server.lose("a");
      ExecutionException thrown = assertThrows(ExecutionException.class, waiting::get);
      NotAllAcquiredException failed = assertInstanceOf(NotAllAcquiredException.class, thrown.getCause());
      LockLostException lost = assertInstanceOf(LockLostException.class, failed.getCause());
      assertEquals(LossReason.REVOKED, lost.reason());
      assertEquals("a", failed.name());
      assertEquals(List.of("b"), failed.givenBack());
      assertTrue(isFree("b") && last.isValid());
      waitsFor("c", 0);
    }
  }

  @Test
  void aSetIsLostWithOneLock() throws Exception {
    LockLostException lost = assertThrows(LockLostException.class, () -> client.acquireAll(ABC).run(locks -> {
      lose("b");
      assertEquals("b", locks.lost().toCompletableFuture().join().name());
      assertFalse(locks.isValid());
      assertThrows(LockLostException.class, locks::check);
      assertTrue(locks.get("a").isValid(), "until the work has stopped");
    }));
    assertEquals("b", lost.loss().name());
    assertTrue(isFree("a") && isFree("c"));
    LockSet locks = client.acquireAll(ABC).get();
    server.lose("c");
    locks.lost().toCompletableFuture().get();
    assertEquals(LeaseEnd.REVOKED, locks.release());
  }

  /** The server refuses the release of a, and finds that b is lost. */
  @Test
  void aLossIsToldAlsoIfAnotherReleaseIsNotConfirmed() throws Exception {
    SpoiledReleases spoiled = new SpoiledReleases();
    try (Relay relay = new Relay(server.address(), InsecureServerCredentials.create(), spoiled);
        FencepostClient relayed = FencepostClient.connect(relay.address())) {
      LockSet locks = relayed.acquireAll(ABC).get();
      LockLostException lost = assertThrows(LockLostException.class, locks::close);
      assertEquals("b", lost.loss().name());
      assertEquals(LossReason.SUPERSEDED, lost.reason());
      NotAllReleasedException failed = assertThrows(NotAllReleasedException.class, locks::release);
      assertEquals(List.of("a"), failed.names());
      assertTrue(isFree("c"));
    }
  }

  /** In a {@link Relay}: the release of a comes with a name that is refused, that of b with an unknown lease. */
  private static final class SpoiledReleases implements ServerInterceptor {
    @Override
    public <Q, A> ServerCall.Listener<Q> interceptCall(
        ServerCall<Q, A> call, Metadata headers, ServerCallHandler<Q, A> handler) {
      return new SimpleForwardingServerCallListener<>(handler.startCall(call, headers)) {
        @Override
        @SuppressWarnings("unchecked") // only a session sends messages of this class
        public void onMessage(Q message) {
          super.onMessage(message instanceof SessionRequest request ? (Q) spoiled(request) : message);
        }
      };
    }

    private static SessionRequest spoiled(SessionRequest request) {
      SessionRequest.Builder changed = request.toBuilder();
      switch (request.getRelease().getLockName()) {
        case "a" -> changed.getReleaseBuilder().setLockName("\n");
        case "b" -> changed.getReleaseBuilder().setLeaseId(UUID.randomUUID().toString());
        default -> { }
      }
      return changed.build();
    }
  }

  private void lose(String name) {
    try {
      server.lose(name);
    } catch (Exception failed) {
      throw new AssertionError(failed);
    }
  }

  @Test
  void triesHoldNothingWhileTheyWait() throws Exception {
    FencedLock last = other.acquire("c").get();
    assertTrue(client.tryAll(ABC).tryGet().isEmpty());
    assertTrue(client.tryAll(ABC).waitFor(Duration.ofMillis(300)).tryGet().isEmpty());
    assertTrue(isFree("a"));
    CompletableFuture<LockSet> trying = client.tryAll(ABC).waitFor(LONG).getAsync();
    for (int n = 0; n < 3; n++) {
      other.acquire("a").waitFor(LONG).run(lock -> assertTrue(lock.isValid()));
    }
    waitsFor("c", 0);
    last.release();
    LockSet locks = trying.get();
    assertTrue(locks.isValid());
    locks.close();
    CompletableFuture<LockSet> abandoned = client.tryAll(ABC).waitFor(LONG).getAsync();
    assertTrue(abandoned.cancel(false) || abandoned.isDone());
  }

  @Test
  void aSetThatIsForgottenIsReleased() {
    assertTrue(client.acquireAll(ABC).get().isValid());
    Await.until(() -> {
      System.gc();
      return ABC.stream().allMatch(this::isFree);
    });
  }

  @Test
  void aClosedClientEndsTheCall() {
    try (FencedLock last = other.acquire("c").get()) {
      CompletableFuture<LockSet> waiting = client.acquireAll(ABC).waitFor(LONG).getAsync();
      waitsFor("c", 1);
      client.close();
      ExecutionException closed = assertThrows(ExecutionException.class, waiting::get);
      assertInstanceOf(ClientClosedException.class, closed.getCause());
      assertTrue(isFree("a") && isFree("b") && last.isValid());
    }
  }
}
