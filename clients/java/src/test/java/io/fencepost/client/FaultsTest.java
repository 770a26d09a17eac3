package io.fencepost.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.fencepost.client.testing.FencepostServer;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** The client with servers that die, go silent, drain or lose replies. */
@Timeout(90)
class FaultsTest {
  /** The TTL of leases that survive a fault, also on a busy machine, and how long others wait for them in vain. */
  private static final Duration TTL = Duration.ofSeconds(4);

  private static final long KEPT_MILLIS = 6_000;
  private static final String[] SHORT_TTLS = {"--ttl-min", "100ms"};

  /** Waits on a lock that is held for longer than any lease would last without renewals. */
  private static void assertKeptFor(FencepostClient other, FencedLock lock, long millis) {
    LockRequest request = other.acquire(lock.name()).waitFor(Duration.ofMillis(millis));
    assertThrows(TimedOutException.class, request::get);
    assertTrue(lock.isValid());
  }

  @Test
  void aLeaseMovesToTheNextServerWhenItsServerIsKilled() throws Exception {
    try (Redis redis = Redis.start();
        FencepostServer one = FencepostServer.start("--store", redis.url(), "--ttl-min", "100ms");
        FencepostServer two = FencepostServer.start("--store", redis.url(), "--ttl-min", "100ms");
        FencepostClient client = FencepostClient.connect(one.address(), two.address());
        FencepostClient other = FencepostClient.connect(two.address())) {
      FencedLock lock = client.acquire("killed").ttl(TTL).get();
      FencedLock busy = other.acquire("waited").ttl(TTL).get();
      CompletableFuture<FencedLock> waiter = client.acquire("waited").waitFor(Duration.ofSeconds(60)).getAsync();
      awaitWaiters(other, "waited", 1);
      one.process().destroyForcibly().waitFor();
      assertKeptFor(other, lock, KEPT_MILLIS);
      busy.release();
      FencedLock second = waiter.get();
      assertTrue(second.token() > busy.token());
      assertEquals(LeaseEnd.RELEASED, second.release());
      assertEquals(LeaseEnd.RELEASED, lock.release());
    }
  }

  @Test
  void aLostReplyOfAnAcquireIsAskedForAgain() throws Exception {
    try (FencepostServer server = FencepostServer.start(SHORT_TTLS);
        Proxy proxy = new Proxy(server.address());
        FencepostClient client = FencepostClient.connect(proxy.address());
        FencepostClient direct = FencepostClient.connect(server.address())) {
      client.acquire("warm").get().release();
      proxy.mode(Proxy.Mode.CUT_NEXT_REPLY);
      FencedLock lock = client.acquire("reply").get();
      LockInfo seen = direct.get("reply");
      assertEquals(lock.token(), seen.newestToken(), "there was one grant");
      proxy.mode(Proxy.Mode.CUT_NEXT_REPLY);
      assertEquals(LeaseEnd.RELEASED, lock.release());
      assertTrue(direct.get("reply").holders().isEmpty());
    }
  }

  @Test
  void silenceOfTheOnlyServerLosesTheLock() throws Exception {
    try (FencepostServer server = FencepostServer.start(SHORT_TTLS);
        Proxy proxy = new Proxy(server.address());
        FencepostClient client = FencepostClient.connect(proxy.address());
        FencepostClient direct = FencepostClient.connect(server.address())) {
      FencedLock lock = client.acquire("silence").ttl(Duration.ofSeconds(3)).get();
      CompletableFuture<Void> atRisk = new CompletableFuture<>();
      CompletableFuture<Loss> lost = new CompletableFuture<>();
      lock.onAtRisk(Runnable::run, () -> atRisk.complete(null));
      lock.onLost(Runnable::run, lost::complete);
      proxy.mode(Proxy.Mode.SILENT);
      atRisk.get(30, TimeUnit.SECONDS);
      assertEquals(LossReason.SILENCE, lost.get(30, TimeUnit.SECONDS).reason());
      assertFalse(lock.isValid());
      assertEquals(Duration.ZERO, lock.remaining());
      try (FencedLock next = direct.acquire("silence").waitFor(Duration.ofSeconds(30)).get()) {
        assertTrue(next.token() > lock.token());
      }
      proxy.mode(Proxy.Mode.FORWARD);
      assertThrows(LockLostException.class, lock::close);
    }
  }

  /** The servers are away when the holder learns of the loss: its work must not wait for them to end. */
  @Test
  void aLostLockIsGivenBackWithoutWaitingForAServer() throws Exception {
    try (FencepostServer server = FencepostServer.start(SHORT_TTLS);
        FencepostClient client = FencepostClient.connect(server.address());
        FencepostClient other = FencepostClient.connect(server.address())) {
      Duration ttl = Duration.ofSeconds(2);
      List<FencedLock> locks = Stream.of("released", "async", "closed")
          .map(name -> client.acquire("given/" + name).ttl(ttl).waitFor(Duration.ofSeconds(30)).get())
          .toList();
      FencedLock earlier = client.acquire("given/earlier").ttl(ttl.dividedBy(4)).waitFor(Duration.ofSeconds(30)).get();
      server.pause();
      earlier.releaseAsync();
      for (FencedLock lock : locks) {
        assertEquals(LossReason.SILENCE, lock.lost().toCompletableFuture().get(30, TimeUnit.SECONDS).reason());
      }
      // A call that began earlier waits for the server, as long as a release of a valid lock does.
      CompletableFuture<FencedLock> waits = other.acquire("given/waits").getAsync();
      assertEquals(LeaseEnd.UNSPECIFIED, earlier.release(), "its validity is over too");
      assertEquals(LeaseEnd.UNSPECIFIED, locks.get(0).release());
      assertEquals(LeaseEnd.UNSPECIFIED, locks.get(1).releaseAsync().get());
      LockLostException lost = assertThrows(LockLostException.class, locks.get(2)::close);
      assertEquals(LossReason.SILENCE, lost.reason());
      assertFalse(waits.isDone(), "the releases returned first");
      server.resume();
    }
  }

  /** There is one address. What is open falls silent, new connections work. */
  @Test
  void aSilentSessionTakesItsConnectionWithIt() throws Exception {
    try (FencepostServer server = FencepostServer.start(SHORT_TTLS);
        Proxy proxy = new Proxy(server.address());
        FencepostClient client = FencepostClient.connect(proxy.address());
        FencepostClient other = FencepostClient.connect(server.address())) {
      FencedLock lock = client.acquire("silent").ttl(Duration.ofSeconds(5)).get();
      proxy.silenceOpen();
      assertKeptFor(other, lock, 8_000);
      assertEquals(LeaseEnd.RELEASED, lock.release());
    }
  }

  /** Without a lease, nothing is sent on the session until the next acquire, which finds it silent. */
  @Test
  void aCallOnASilentConnectionIsMadeAgainOnANewOne() throws Exception {
    try (FencepostServer server = FencepostServer.start(SHORT_TTLS);
        Proxy proxy = new Proxy(server.address());
        FencepostClient client = FencepostClient.connect(proxy.address())) {
      client.acquire("silent").get().release();
      client.get("silent");
      proxy.silenceOpen();
      CompletableFuture<LockInfo> read = CompletableFuture.supplyAsync(() -> client.get("silent"));
      long before = System.nanoTime();
      FencedLock lock = client.acquire("silent").get();
      long waited = System.nanoTime() - before;
      assertTrue(waited < Timing.RETRY_FOR / 2, "waited " + waited / 1_000_000 + " ms");
      assertEquals("silent", read.get().name());
      lock.release();
    }
  }

  @Test
  void silenceOfOneServerMovesTheLeaseToTheNext() throws Exception {
    try (Redis redis = Redis.start();
        FencepostServer one = FencepostServer.start("--store", redis.url(), "--ttl-min", "100ms");
        FencepostServer two = FencepostServer.start("--store", redis.url(), "--ttl-min", "100ms");
        Proxy proxy = new Proxy(one.address());
        FencepostClient client = FencepostClient.connect(proxy.address(), two.address());
        FencepostClient other = FencepostClient.connect(two.address())) {
      FencedLock lock = client.acquire("moved").ttl(TTL).get();
      proxy.mode(Proxy.Mode.SILENT);
      assertKeptFor(other, lock, KEPT_MILLIS);
      assertEquals(LeaseEnd.RELEASED, lock.release());
    }
  }

  @Test
  void aDrainMovesTheLeases() throws Exception {
    try (Redis redis = Redis.start();
        FencepostServer one = FencepostServer.start("--store", redis.url(), "--ttl-min", "100ms");
        FencepostServer two = FencepostServer.start("--store", redis.url(), "--ttl-min", "100ms");
        FencepostClient client = FencepostClient.connect(one.address(), two.address());
        FencepostClient other = FencepostClient.connect(two.address())) {
      FencedLock lock = client.acquire("drained").ttl(TTL).get();
      one.process().destroy(); // SIGTERM
      assertTrue(one.process().waitFor(30, TimeUnit.SECONDS));
      assertKeptFor(other, lock, KEPT_MILLIS);
      assertEquals(LeaseEnd.RELEASED, lock.release());
      client.acquire("after").get().release();
    }
  }

  @Test
  void leasesForWhichTheNextSessionHasNoRoomAreRenewedOneByOne() throws Exception {
    try (Redis redis = Redis.start();
        FencepostServer one = FencepostServer.start("--store", redis.url(), "--ttl-min", "100ms");
        FencepostServer two = FencepostServer.start(
            "--store", redis.url(), "--ttl-min", "100ms", "--leases-per-stream", "1");
        FencepostClient client = FencepostClient.connect(one.address(), two.address());
        FencepostClient other = FencepostClient.connect(two.address())) {
      List<FencedLock> locks = Stream.of("a", "b", "c")
          .map(name -> client.acquire("full/" + name).ttl(TTL).get())
          .toList();
      one.process().destroyForcibly().waitFor();
      assertKeptFor(other, locks.get(0), KEPT_MILLIS);
      assertTrue(locks.stream().allMatch(FencedLock::isValid));
      for (FencedLock lock : locks) {
        assertEquals(LeaseEnd.RELEASED, lock.release());
      }
    }
  }

  @Test
  void anAcquireApartFromTheSessionLeavesAServerThatIsAway() throws Exception {
    try (Redis redis = Redis.start();
        FencepostServer one = FencepostServer.start("--store", redis.url(), "--ttl-min", "100ms");
        FencepostServer two = FencepostServer.start(
            "--store", redis.url(), "--ttl-min", "100ms", "--leases-per-stream", "1");
        FencepostClient client = FencepostClient.connect(one.address(), two.address())) {
      one.process().destroyForcibly().waitFor();
      for (String name : List.of("away/1", "away/2")) {
        assertTrue(client.acquire(name).ttl(TTL).get().isValid());
      }
    }
  }

  @Test
  void locksForWhichTheSessionHasNoRoomAreAcquiredApartFromIt() throws Exception {
    try (FencepostServer server = FencepostServer.start("--ttl-min", "100ms", "--leases-per-stream", "1");
        FencepostClient client = FencepostClient.connect(server.address());
        FencepostClient other = FencepostClient.connect(server.address())) {
      FencedLock first = client.acquire("apart/1").ttl(TTL).get();
      FencedLock second = client.acquire("apart/2").ttl(TTL).get();
      ContendedException contended = assertThrows(ContendedException.class, () -> client.acquire("apart/2").get());
      assertEquals(second.token(), contended.holders().get(0).token());
      assertKeptFor(other, second, KEPT_MILLIS);
      assertTrue(first.isValid());

      CompletableFuture<FencedLock> waiter = client.acquire("apart/2").waitFor(Duration.ofSeconds(60)).getAsync();
      awaitWaiters(other, "apart/2", 1);
      assertEquals(LeaseEnd.RELEASED, second.release());
      FencedLock third = waiter.get();
      assertTrue(third.token() > second.token());

      CompletableFuture<FencedLock> cancelled = client.acquire("apart/2").waitFor(Duration.ofSeconds(60)).getAsync();
      awaitWaiters(other, "apart/2", 1);
      cancelled.cancel(false);
      awaitWaiters(other, "apart/2", 0);

      CompletableFuture<FencedLock> closed = client.acquire("apart/2").waitFor(Duration.ofSeconds(60)).getAsync();
      awaitWaiters(other, "apart/2", 1);
      client.close();
      assertThrows(ExecutionException.class, closed::get);
      assertTrue(other.list("apart/").findAny().isEmpty(), "closing releases the locks and withdraws the request");
    }
  }

  private static void awaitWaiters(FencepostClient client, String name, int waiters) {
    Await.until(() -> client.get(name).waiters() == waiters);
  }

  /** A call may take 5 s. The clock of the clients is that of the test, which shows them little more than 2 s. */
  @Test
  void aServerThatAcceptsConnectionsAndDoesNotAnswerIsGivenUpSoon() throws Exception {
    AtomicLong time = new AtomicLong();
    BootClock clock = new BootClock(time::get, () -> -1);
    try (FencepostServer server = FencepostServer.start();
        ServerSocket hanging = new ServerSocket(0, 50, InetAddress.getLoopbackAddress())) {
      String servers = "127.0.0.1:" + hanging.getLocalPort() + "," + server.address();
      try (FencepostClient reading = FencepostClient.builder().servers(servers).build(clock);
          FencepostClient watching = FencepostClient.builder().servers(servers).build(clock);
          FencepostClient acquiring = FencepostClient.builder().servers(servers).build(clock)) {
        CompletableFuture<LockInfo> read = CompletableFuture.supplyAsync(() -> reading.get("hanging"));
        Socket one = hanging.accept();
        CompletableFuture<Void> watched = watching.watch("hanging", event -> {}).started().toCompletableFuture();
        Socket two = hanging.accept();
        CompletableFuture<FencedLock> acquired = acquiring.acquire("hanging").getAsync();
        Socket three = hanging.accept();

        time.addAndGet(Timing.CONNECT_TIMEOUT + 1);
        for (Socket given : List.of(one, two, three)) {
          try (given) {
            given.setSoTimeout(60_000);
            given.getInputStream().readAllBytes(); // until the client closes the connection
          }
        }
        time.addAndGet(TimeUnit.MILLISECONDS.toNanos(200)); // for the pause before the next session
        read.get();
        watched.get();
        assertTrue(acquired.get().isValid());
        assertTrue(time.get() < Timing.CALL_TIMEOUT / 2);
      }
    }
  }

  @Test
  void withoutAServerAnAcquireFailsAndNothingWasSent() throws Exception {
    try (FencepostServer server = FencepostServer.start()) {
      String address = server.address();
      server.close();
      try (FencepostClient client = FencepostClient.connect(address)) {
        UnavailableException none = assertThrows(UnavailableException.class, () -> client.acquire("nobody").get());
        assertEquals("no server could be reached: " + address + ": connection refused", none.getMessage());
        assertEquals("", none.reason());
      }
    }
  }

  @Test
  void aServerThatTakesTheRequestAndDiesLeavesTheOutcomeUnknown() throws Exception {
    try (FencepostServer server = FencepostServer.start(SHORT_TTLS);
        Proxy proxy = new Proxy(server.address());
        FencepostClient client = FencepostClient.connect(proxy.address())) {
      client.acquire("warm").get().release();
      proxy.mode(Proxy.Mode.SILENT);
      assertThrows(OutcomeUnknownException.class, () -> client.acquire("unknown").get());
    }
  }

  @Test
  void aLossDuringASilenceIsToldAfterIt() throws Exception {
    try (FencepostServer server = FencepostServer.start();
        Proxy proxy = new Proxy(server.address());
        FencepostClient client = FencepostClient.connect(proxy.address())) {
      FencedLock lock = client.acquire("later").get();
      proxy.mode(Proxy.Mode.SILENT);
      server.lose("later");
      assertTrue(lock.isValid(), "nobody has told");
      proxy.mode(Proxy.Mode.FORWARD);
      assertEquals(LossReason.REVOKED, lock.lost().toCompletableFuture().get(30, TimeUnit.SECONDS).reason());
    }
  }

  @Test
  void aRevokedLockIsLostWithItsReason() throws Exception {
    try (FencepostServer server = FencepostServer.start();
        FencepostClient client = FencepostClient.connect(server.address())) {
      FencedLock lock = client.acquire("revoked").get();
      server.lose("revoked");
      Loss loss = lock.lost().toCompletableFuture().get(30, TimeUnit.SECONDS);
      assertEquals(LossReason.REVOKED, loss.reason());
      assertFalse(lock.isValid());
      assertEquals(LeaseEnd.REVOKED, lock.release());
      LockLostException lost = assertThrows(LockLostException.class, lock::close);
      assertEquals(loss, lost.loss());
    }
  }
}
