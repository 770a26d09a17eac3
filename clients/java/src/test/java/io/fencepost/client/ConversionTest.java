package io.fencepost.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.fencepost.client.guards.JdbcGuard;
import io.fencepost.client.guards.StaleTokenException;
import io.fencepost.client.testing.FencepostServer;
import io.fencepost.v1.ConvertRequest;
import io.fencepost.v1.LockServiceGrpc;
import io.grpc.InsecureServerCredentials;
import io.grpc.Status;
import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.sql.Connection;
import java.sql.DriverManager;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** A writer becomes a reader, and the only reader a writer, with a real server. */
@Timeout(60)
class ConversionTest {
  private static final Duration LONG = Duration.ofSeconds(30);
  private static final Status LOST = Status.UNAVAILABLE.withDescription("the answer is lost");
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

  private void waitFor(String name, int count) {
    Await.until(() -> client.get(name).waiters() == count);
  }

  @Test
  void aDowngradeLetsTheNextReaderInAndNoWriter() throws Exception {
    FencedLock lock = client.acquire("down").get();
    long token = lock.token();
    assertEquals(LockMode.EXCLUSIVE, lock.mode());
    CompletableFuture<FencedLock> reading = other.acquire("down").shared().waitFor(LONG).getAsync();
    waitFor("down", 1);
    CompletableFuture<FencedLock> writing = other.acquire("down").waitFor(LONG).getAsync();
    waitFor("down", 2);
    lock.downgrade();
    assertEquals(LockMode.SHARED, lock.mode());
    assertEquals(token, lock.token());
    FencedLock reader = reading.get(30, TimeUnit.SECONDS);
    assertEquals(LockMode.SHARED, reader.mode());
    assertTrue(lock.isValid() && reader.token() > token);
    assertEquals(List.of(true, true), client.get("down").holders().stream().map(HolderInfo::shared).toList());
    assertFalse(writing.isDone());
    lock.downgrade(); // it stays so
    lock.release();
    reader.release();
    assertTrue(writing.get(30, TimeUnit.SECONDS).token() > reader.token());
  }

  @Test
  void onlyTheLastReaderBecomesAWriter() {
    FencedLock lock = client.acquire("up").shared().get();
    FencedLock reader = other.acquire("up").shared().get();
    long token = lock.token();
    assertFalse(lock.tryUpgrade());
    assertEquals(LockMode.SHARED, lock.mode());
    assertEquals(token, lock.token());
    assertTrue(lock.isValid());
    reader.release();
    assertTrue(lock.tryUpgrade());
    assertEquals(LockMode.EXCLUSIVE, lock.mode());
    assertTrue(lock.token() > reader.token());
    assertEquals(TokenStatus.State.CURRENT, client.checkToken("up", lock.token()).state());
    assertTrue(lock.toString().contains("token " + lock.token()), lock.toString());
    long upgraded = lock.token();
    assertTrue(lock.tryUpgrade(), "it stays so");
    assertTrue(lock.token() > upgraded, "a late downgrade finds another token");
    assertTrue(other.acquire("up").shared().tryGet().isEmpty());
    assertEquals(LeaseEnd.RELEASED, lock.release());
  }

  @Test
  void threadsThatConvertOneLockTakeTurns() {
    try (FencedLock lock = client.acquire("turns").get()) {
      // Two at once would send a token that the other one has outdated.
      CompletableFuture<Void> one = CompletableFuture.runAsync(() -> convertOften(lock));
      CompletableFuture<Void> two = CompletableFuture.runAsync(() -> convertOften(lock));
      CompletableFuture.allOf(one, two).join();
      assertTrue(lock.tryUpgrade());
      assertEquals(client.get("turns").newestToken(), lock.token());
    }
  }

  private static void convertOften(FencedLock lock) {
    for (int n = 0; n < 50; n++) {
      lock.downgrade();
      assertTrue(lock.tryUpgrade());
    }
  }

  @Test
  void aGuardRaisesTheNewTokenInATransactionThatBeganBefore() throws Exception {
    JdbcGuard guard = JdbcGuard.sqlite();
    try (FencedLock lock = client.acquire("guard").shared().get();
        FencedLock reader = other.acquire("guard").shared().get();
        Connection connection = DriverManager.getConnection("jdbc:sqlite::memory:")) {
      guard.createTable(connection);
      guard.raiseShared(connection, lock);
      guard.raiseShared(connection, reader);
      connection.setAutoCommit(false);
      guard.checkShared(connection, lock);
      assertThrows(StaleTokenException.class, () -> guard.raise(connection, lock), "a later reader came");
      reader.release();
      assertTrue(lock.tryUpgrade());
      guard.raise(connection, lock);
      connection.commit();
    }
  }

  @Test
  void aRepeatTellsWhatALostAnswerSaid() throws Exception {
    LeaseCallTap tap = new LeaseCallTap();
    try (Relay relay = new Relay(server.address(), InsecureServerCredentials.create(), tap);
        FencepostClient tapped = FencepostClient.connect(relay.address());
        FencedLock lock = tapped.acquire("repeat").shared().get()) {
      long token = lock.token();
      tap.errors.add(LOST);
      assertTrue(lock.tryUpgrade());
      assertTrue(lock.token() > token);
      assertEquals(client.get("repeat").newestToken(), lock.token());
      List<Long> sent = tap.received.stream().map(it -> ((ConvertRequest) it).getFencingToken()).toList();
      assertEquals(List.of(token, token), sent);
    }
  }

  @Test
  void aLossIsToldAndALockThatIsNotHeldIsNotConverted() throws Exception {
    LeaseCallTap tap = new LeaseCallTap();
    try (Relay relay = new Relay(server.address(), InsecureServerCredentials.create(), tap);
        FencepostClient tapped = FencepostClient.connect(relay.address())) {
      FencedLock lock = tapped.acquire("lost").get();
      server.lose("lost");
      assertTrue(lock.isValid(), "nobody has told the client");
      assertEquals(LossReason.REVOKED, assertThrows(LockLostException.class, lock::downgrade).reason());
      assertEquals(LossReason.REVOKED, lock.lost().toCompletableFuture().get(30, TimeUnit.SECONDS).reason());
      assertEquals(LossReason.REVOKED, assertThrows(LockLostException.class, lock::tryUpgrade).reason());
      FencedLock released = tapped.acquire("released").get();
      released.release();
      assertEquals(LossReason.RELEASED, assertThrows(LockLostException.class, released::downgrade).reason());
      assertEquals(1, tap.received.size());
    }
  }

  @Test
  void whatCannotBeConvertedIsRefused() {
    try (FencedLock semaphore = client.acquire("semaphore").semaphore(2).get()) {
      assertEquals(LockMode.SEMAPHORE, semaphore.mode());
      RefusedException refused = assertThrows(RefusedException.class, semaphore::downgrade);
      assertEquals("FAILED_PRECONDITION NOT_CONVERTIBLE", refused.code() + " " + refused.reason());
      assertTrue(semaphore.isValid());
      assertEquals(LockMode.SEMAPHORE, semaphore.mode());
    }
  }

  @Test
  void anUnknownOutcomeIsToldAndTheNextCallLearnsIt() throws Exception {
    LeaseCallTap tap = new LeaseCallTap();
    try (Relay relay = new Relay(server.address(), InsecureServerCredentials.create(), tap);
        FencepostClient tapped = FencepostClient.connect(relay.address());
        FencedLock lock = tapped.acquire("unknown").shared().get()) {
      long token = lock.token();
      tap.errors.addAll(List.of(LOST, Status.PERMISSION_DENIED.withDescription("not any more")));
      OutcomeUnknownException unknown = assertThrows(OutcomeUnknownException.class, lock::tryUpgrade);
      assertEquals("outcome unknown: not any more", unknown.getMessage());
      assertEquals(token, lock.token());
      assertTrue(lock.tryUpgrade());
      assertTrue(lock.token() > token);
    }
  }

  @Test
  void aCallThatCouldNotBeSentHasDoneNothing() throws Exception {
    Threads threads = new Threads();
    Connector connector = new Connector(Tls.defaults(), null, threads.pool());
    try (ServerSocket web = new ServerSocket(0, 50, InetAddress.getLoopbackAddress())) {
      new Thread(() -> answerAsAWebServer(web)).start();
      List<ServerAddress> addresses = ServerAddress.list("127.0.0.1:" + web.getLocalPort());
      Calls calls = new Calls(BootClock.system(), connector, new Servers(addresses, new Log(threads)));
      ConvertRequest request = ConvertRequest.getDefaultInstance();
      assertThrows(
          UnavailableException.class, () -> calls.change(LockServiceGrpc.getConvertMethod(), request, () -> {}));
      calls.close();
    } finally {
      connector.close();
      threads.close();
    }
  }

  private static void answerAsAWebServer(ServerSocket web) {
    try {
      while (true) {
        try (Socket socket = web.accept()) {
          socket.getInputStream().read(new byte[1024]);
          socket.getOutputStream().write("HTTP/1.1 400 Bad Request\r\n\r\n".getBytes(StandardCharsets.US_ASCII));
        }
      }
    } catch (IOException closed) {
      // The end of the test.
    }
  }
}
