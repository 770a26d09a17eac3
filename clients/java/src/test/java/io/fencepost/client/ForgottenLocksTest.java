package io.fencepost.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.fencepost.client.testing.FencepostServer;
import java.time.Duration;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Waits that are given up, and locks that nobody refers to any more. */
@Timeout(60)
class ForgottenLocksTest {
  private static final Duration LONG = Duration.ofSeconds(50);
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

  /** Waits until the lock is free, with a garbage collection at each look. */
  private void awaitFree(String name) {
    Await.until(() -> {
      System.gc();
      LockInfo lock = other.get(name);
      return lock.holders().isEmpty() && lock.waiters() == 0;
    });
  }

  private void awaitWaiter(String name) {
    Await.until(() -> other.get(name).waiters() == 1);
  }

  @Test
  void aForgottenLockIsReleasedWithAWarning() {
    try (Logs logs = new Logs()) {
      long token = client.acquire("forgotten").get().token();
      awaitFree("forgotten");
      assertEquals(LeaseEnd.RELEASED, other.acquire("forgotten").get().previousEnd());
      String warning = "forgotten (token " + token + ") was forgotten without a release, and is released";
      Await.until(() -> logs.warnings().contains("io.fencepost.client: " + warning));
    }
  }

  @Test
  void aGetThatIsGivenUpIsGrantedLaterAndReleased() throws Exception {
    FencedLock lock = other.acquire("get").get();
    assertThrows(
        TimeoutException.class, () -> client.acquire("get").waitFor(LONG).getAsync().get(1, TimeUnit.MILLISECONDS));
    awaitWaiter("get");
    lock.release();
    awaitFree("get");
    assertTrue(other.get("get").newestToken() > lock.token(), "it was granted");
  }

  @Test
  void aCancelledDependentStageIsGrantedLaterAndReleased() throws Exception {
    FencedLock lock = other.acquire("dependent").get();
    CompletableFuture<Long> dependent = client.acquire("dependent").waitFor(LONG).getAsync()
        .thenApply(FencedLock::token);
    awaitWaiter("dependent");
    assertTrue(dependent.cancel(false));
    lock.release();
    awaitFree("dependent");
    assertTrue(other.get("dependent").newestToken() > lock.token(), "it was granted");
  }

  @Test
  void aWaitThatIsGivenUpWellLeavesTheQueue() throws Exception {
    FencedLock lock = other.acquire("well").get();
    CompletableFuture<FencedLock> future =
        client.acquire("well").waitFor(LONG).getAsync().orTimeout(100, TimeUnit.MILLISECONDS);
    assertThrows(java.util.concurrent.CompletionException.class, future::join);
    Await.until(() -> other.get("well").waiters() == 0);
    assertTrue(lock.isValid());
    lock.release();
  }

  /** Listeners hold no lock, also if they refer to it. */
  @Test
  void aListenerDoesNotKeepALock() {
    listenTo(client.acquire("listener").get());
    awaitFree("listener");
  }

  private static void listenTo(FencedLock lock) {
    lock.onLost(Runnable::run, loss -> lock.check());
    lock.onAtRisk(Runnable::run, lock::check);
  }

  @Test
  void aLockThatIsUsedIsKept() throws Exception {
    FencedLock lock = client.acquire("kept/used").get();
    CompletableFuture<Loss> lost = client.acquire("kept/lost").get().lost().toCompletableFuture();
    CompletionStage<Long> made = client.acquire("kept/made").get().lost().thenApply(Loss::token);
    // A later lock is forgotten and found, so the ones before would have been.
    client.acquire("kept/forgotten").get();
    awaitFree("kept/forgotten");
    assertEquals(3, other.list("kept/").filter(held -> !held.holders().isEmpty()).count());
    assertFalse(lost.isDone() || made.toCompletableFuture().isDone());
    assertTrue(lock.isValid());
    client.<RuntimeException>runLocked("kept/body", held -> {
      client.acquire("kept/inside").get();
      awaitFree("kept/inside");
      assertEquals(1, other.get("kept/body").holders().size());
    });
    lock.release();
  }
}
