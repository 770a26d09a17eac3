package io.fencepost.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.fencepost.client.testing.FencepostServer;
import java.io.IOException;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.Consumer;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Elections on a real server that works. */
@Timeout(60)
class LeadTest {
  private static FencepostServer server;
  private final FencepostClient client = FencepostClient.connect(server.address());
  private final FencepostClient other = FencepostClient.connect(server.address());

  /** What bodies and watches report, in order. */
  private final BlockingQueue<String> events = new LinkedBlockingQueue<>();

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

  private String event() throws InterruptedException {
    return events.poll(30, TimeUnit.SECONDS);
  }

  /** Waits until the thread is interrupted. */
  private static void untilInterrupted() throws InterruptedException {
    new CountDownLatch(1).await();
  }

  /** Waits for a latch whatever interrupts the thread, as a body does that is slow to end. */
  private static void awaitStubbornly(CountDownLatch latch) {
    while (true) {
      try {
        latch.await();
        return;
      } catch (InterruptedException ignored) {
        // It ends when it is ready.
      }
    }
  }

  @Test
  void oneLeadsAtATimeAndTheNextOneFollows() throws Exception {
    AtomicInteger leading = new AtomicInteger();
    CountDownLatch enough = new CountDownLatch(1);
    LockFunction<Long, InterruptedException> body = lock -> {
      assertEquals(1, leading.incrementAndGet());
      events.add("elected");
      enough.await();
      leading.decrementAndGet();
      return lock.token();
    };
    Candidate<Long> one = new Candidate<>(() -> client.lead("one").call(body));
    Candidate<Long> two = new Candidate<>(() -> other.lead("one").holder("two").call(body));
    assertEquals("elected", event());
    Await.until(() -> client.get("one").waiters() == 1);
    assertEquals(List.of(), List.copyOf(events), "the other one waits");
    assertFalse(one.isDone() || two.isDone());
    enough.countDown();
    assertNotEquals(one.result(), two.result());
    assertEquals("elected", event());
    assertTrue(client.get("one").holders().isEmpty(), "both have resigned");
  }

  @Test
  void optionsAreThoseOfALock() {
    client.lead("options").ttl(Duration.ofSeconds(7)).maxHold(Duration.ofSeconds(60)).holder("me").metadata("a", "b")
        .owner("worker").tellWhenWanted()
        .minHold(Duration.ofSeconds(40)).lockDelay(Duration.ofSeconds(20)).run(lock -> {
          HolderInfo holder = other.get("options").holders().get(0);
          assertEquals(Duration.ofSeconds(7), holder.ttl());
          assertEquals("me", holder.holder());
          assertEquals("b", holder.metadata().get("a"));
          assertEquals("worker", holder.owner());
          var waiting = other.acquire("options").waitFor(Duration.ofSeconds(60)).getAsync();
          Await.until(lock::isWanted);
          waiting.cancel(false);
        });
    LockDelay delay = assertThrows(ContendedException.class, other.acquire("options")::get).delay();
    assertEquals("me", delay.holder(), "minHold outlasts the release");
  }

  @Test
  void theSameCandidateIsElectedAgainAfterALoss() throws Exception {
    try (Logs logs = new Logs()) {
      AtomicInteger terms = new AtomicInteger();
      BlockingQueue<Long> tokens = new LinkedBlockingQueue<>();
      Candidate<String> candidate = new Candidate<>(() -> client.lead("lost").<String, Exception>call(lock -> {
        tokens.add(lock.token());
        switch (terms.incrementAndGet()) {
          case 1 -> {
            untilInterrupted();
            return "unreachable";
          }
          case 2 -> {
            assertThrows(InterruptedException.class, LeadTest::untilInterrupted);
            throw new IOException("the disk is full");
          }
          case 3 -> {
            assertThrows(InterruptedException.class, LeadTest::untilInterrupted);
            return "dropped";
          }
          default -> {
            return "resigned";
          }
        }
      }));
      long token = 0;
      for (int term = 1; term <= 3; term++) {
        long next = tokens.poll(30, TimeUnit.SECONDS);
        assertTrue(next > token, "tokens rise");
        token = next;
        server.lose("lost");
      }
      assertEquals("resigned", candidate.result());
      assertTrue(tokens.take() > token);
      assertFalse(candidate.interruptStatus(), "a loss interrupts the body only");
      String failed = "io.fencepost.client: the leader of lost failed after it had lost token ";
      Await.until(() -> logs.warnings().stream().anyMatch(line -> line.startsWith(failed)));
      assertEquals(1, logs.warnings().stream().filter(line -> line.startsWith(failed)).count(), "only the failure");
    }
  }

  /** By the clock of the client, all terms are short. */
  @Test
  void shortTermsAreFollowedByPauses() throws Exception {
    BootClock still = new BootClock(() -> 0, () -> -1);
    try (FencepostClient patient = FencepostClient.builder().servers(server.address()).build(still)) {
      int losses = 5;
      AtomicInteger terms = new AtomicInteger();
      AtomicLong between = new AtomicLong();
      Candidate<Long> candidate = new Candidate<>(() -> patient.lead("short").<Long, Exception>call(lock -> {
        if (terms.incrementAndGet() > 1) {
          between.addAndGet(System.nanoTime());
        }
        if (terms.get() <= losses) {
          events.add("elected");
          assertThrows(InterruptedException.class, LeadTest::untilInterrupted);
          between.addAndGet(-System.nanoTime());
        }
        return between.get();
      }));
      for (int n = 0; n < losses; n++) {
        assertEquals("elected", event());
        server.lose("short");
      }
      // At least half of each pause: 25, 50, 100, 200 and 400 ms.
      assertTrue(candidate.result() >= TimeUnit.MILLISECONDS.toNanos(775));
    }
  }

  @Test
  void whatTheBodyThrowsIsThrownAfterTheRelease() throws Exception {
    IOException failure = assertThrows(IOException.class, () -> client.lead("throws", lock -> {
      throw new IOException("body");
    }));
    assertEquals("body", failure.getMessage());
    assertThrows(StackOverflowError.class, () -> client.lead("throws", lock -> {
      throw new StackOverflowError();
    }));
    assertTrue(client.get("throws").holders().isEmpty());
  }

  @Test
  void anInterruptWhileLeadingAwaitsTheBodyBeforeTheRelease() throws Exception {
    Consumer<LockEvent> released = event -> {
      if (event.kind() == LockEvent.Kind.RELEASED) {
        events.add("released");
      }
    };
    try (Watch watch = other.watch("interrupted", released)) {
      watch.started().toCompletableFuture().get();
      CountDownLatch finish = new CountDownLatch(1);
      Candidate<String> candidate = new Candidate<>(() -> client.lead("interrupted").call(lock -> {
        events.add("elected");
        assertThrows(InterruptedException.class, LeadTest::untilInterrupted);
        events.add("told");
        awaitStubbornly(finish);
        events.add(lock.isValid() ? "ended under the lock" : "ended without the lock");
        return "value";
      }));
      assertEquals("elected", event());
      candidate.interrupt();
      assertEquals("told", event());
      assertThrows(TimedOutException.class, () -> other.acquire("interrupted").waitFor(Duration.ofMillis(300)).get());
      assertFalse(candidate.isDone());
      finish.countDown();
      assertEquals("value", candidate.result());
      assertTrue(candidate.interruptStatus());
      assertEquals("ended under the lock", event());
      assertEquals("released", event());
    }
  }

  @Test
  void anInterruptedBodyMayThrow() throws Exception {
    Candidate<Void> candidate = new Candidate<>(() -> client.lead("thrown").call(lock -> {
      events.add("elected");
      untilInterrupted();
      return null;
    }));
    assertEquals("elected", event());
    candidate.interrupt();
    assertInstanceOf(InterruptedException.class, candidate.failure());
    assertFalse(candidate.interruptStatus(), "the exception says it");
    assertTrue(other.get("thrown").holders().isEmpty(), "the release was awaited");
  }

  @Test
  void anInterruptThatMeetsALossEndsTheCall() throws Exception {
    CountDownLatch finish = new CountDownLatch(1);
    Candidate<String> candidate = new Candidate<>(() -> client.lead("both").call(lock -> {
      events.add("elected");
      assertThrows(InterruptedException.class, LeadTest::untilInterrupted);
      events.add("told");
      lock.onLost(Runnable::run, loss -> events.add("lost"));
      awaitStubbornly(finish);
      return "dropped";
    }));
    assertEquals("elected", event());
    candidate.interrupt();
    assertEquals("told", event());
    server.lose("both");
    assertEquals("lost", event());
    assertFalse(candidate.isDone());
    finish.countDown();
    assertInstanceOf(WaitInterruptedException.class, candidate.failure());
    assertTrue(candidate.interruptStatus());
    assertTrue(other.list("both").findAny().isEmpty(), "it campaigns no more");
  }

  @Test
  void anInterruptedCampaignLeavesTheQueue() throws Exception {
    try (FencedLock lock = other.acquire("campaign").get()) {
      Candidate<Void> candidate = new Candidate<>(() -> client.lead("campaign").call(leading -> null));
      Await.until(() -> other.get("campaign").waiters() == 1);
      candidate.interrupt();
      assertInstanceOf(WaitInterruptedException.class, candidate.failure());
      assertTrue(candidate.interruptStatus());
      Await.until(() -> other.get("campaign").waiters() == 0);
      assertTrue(lock.isValid());
    }
  }

  @Test
  void closingTheClientEndsACampaign() throws Exception {
    try (FencedLock lock = other.acquire("closed").get()) {
      Candidate<Void> candidate = new Candidate<>(() -> client.lead("closed").call(leading -> null));
      Await.until(() -> other.get("closed").waiters() == 1);
      client.close();
      assertInstanceOf(ClientClosedException.class, candidate.failure());
      assertTrue(lock.isValid());
    }
  }

  @Test
  void anInvalidNameIsRefused() {
    RefusedException refused =
        assertThrows(RefusedException.class, () -> client.lead("", lock -> events.add("elected")));
    assertEquals("INVALID_ARGUMENT", refused.code());
    assertEquals(List.of(), List.copyOf(events));
  }
}
