package io.fencepost.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.fencepost.client.testing.FencepostServer;
import io.fencepost.v1.DescribeRequest;
import io.grpc.InsecureServerCredentials;
import io.grpc.Status;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** What holders say of themselves, and those who observe it, with a real server. */
@Timeout(60)
class DescriptionTest {
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

  private static String shown(LockInfo lock) {
    return lock.holders().isEmpty() ? "free" : shown(lock.holders().get(0));
  }

  private static String shown(HolderInfo holder) {
    return holder.holder() + " " + holder.metadata() + " " + holder.description();
  }

  @Test
  void othersSeeADescriptionAtOnce() throws Exception {
    BlockingQueue<LockEvent> events = new LinkedBlockingQueue<>();
    try (FencedLock lock = client.acquire("seen").holder("me").metadata("done", "0").get();
        Watch watch = other.watch("seen", events::add)) {
      watch.started().toCompletableFuture().get();
      assertEquals(1, lock.describe(Map.of("done", "50", "of", "100"), "still me"));
      HolderInfo holder = other.get("seen").holders().get(0);
      assertEquals("still me", holder.holder());
      assertEquals(Map.of("done", "50", "of", "100"), holder.metadata());
      assertEquals(1, holder.description());
      assertEquals("still me", lock.holder());
      LockEvent event = events.take();
      assertEquals("CHANGED still me " + lock.token(), event.kind() + " " + event.holder() + " " + event.token());
      assertEquals(LockMode.EXCLUSIVE, event.mode());
      assertEquals(2, lock.describe(Map.of()));
      assertEquals("still me {} 2", shown(other.get("seen")));
      String large = "x".repeat(Facts.METADATA_BYTES_MAX);
      RefusedException refused = assertThrows(RefusedException.class, () -> lock.describe(Map.of("key", large)));
      assertEquals("INVALID_ARGUMENT", refused.code());
      assertThrows(IllegalArgumentException.class, () -> lock.describe(Map.of("key", "\ud800")));
      lock.describe(Map.of("done", "100"));
      assertTrue(shown(other.get("seen")).startsWith("still me {done=100} "));
    }
  }

  @Test
  void aRepeatOfADescriptionHasItsNumber() throws Exception {
    LeaseCallTap tap = new LeaseCallTap();
    try (Relay relay = new Relay(server.address(), InsecureServerCredentials.create(), tap);
        FencepostClient tapped = FencepostClient.connect(relay.address())) {
      FencedLock lock = tapped.acquire("repeat").holder("me").get();
      tap.errors.add(Status.UNAVAILABLE.withDescription("the answer is lost"));
      lock.describe(Map.of("a", "b"));
      assertEquals("me {a=b} 1", shown(client.get("repeat")));
      assertEquals(List.of(1L, 1L), tap.received.stream().map(it -> ((DescribeRequest) it).getNumber()).toList());
      server.lose("repeat");
      assertTrue(lock.isValid(), "nobody has told the client");
      assertEquals(
          LossReason.REVOKED, assertThrows(LockLostException.class, () -> lock.describe(Map.of())).reason());
      assertEquals(LossReason.REVOKED, lock.lost().toCompletableFuture().get(30, TimeUnit.SECONDS).reason());
    }
  }

  @Test
  void twoProcessesThatDescribeOneLeaseLearnOfEachOther() {
    UUID id = UUID.randomUUID();
    FencedLock mine = client.acquire("two").requestId(id).holder("me").get();
    mine.describe(Map.of("n", "1"));
    FencedLock same = other.acquire("two").requestId(id).holder("me").get();
    same.describe(Map.of("n", "2"));
    assertEquals("me {n=2} 2", shown(client.get("two")), "it goes on with the number that the server has");
    same.describe(Map.of("n", "3"));
    RefusedException outdated = assertThrows(RefusedException.class, () -> mine.describe(Map.of("n", "late")));
    assertEquals("OUTDATED", outdated.reason());
    assertEquals("another process has described two since, under number 3", outdated.getMessage());
    mine.describe(Map.of("n", "4"));
    assertEquals("me {n=4} 4", shown(client.get("two")));
    same.release(); // not earlier: a lock that nothing refers to is forgotten, and released
  }

  @Test
  void followersObserveWhatALeaderSaysOfItself() throws Exception {
    BlockingQueue<LockInfo> states = new LinkedBlockingQueue<>();
    try (Observation observation = other.observe("leader", states::add)) {
      assertEquals("free", shown(states.take()));
      client.lead("leader").holder("me").run(lock -> {
        assertEquals("me {} 0", shown(states.take()));
        lock.describe(Map.of("address", "10.0.0.1"));
        assertEquals("me {address=10.0.0.1} 1", shown(states.take()));
      });
      assertEquals("free", shown(states.take()));
      observation.close();
      observation.ended().toCompletableFuture().get();
    }
  }

  @Test
  void anObservationGoesOnWithTheNextServer() throws Exception {
    BlockingQueue<LockInfo> states = new LinkedBlockingQueue<>();
    FencedLock lock = other.acquire("move").holder("me").get();
    try (Relay relay = new Relay(server.address(), InsecureServerCredentials.create());
        FencepostClient moving = FencepostClient.connect(relay.address(), server.address());
        Observation observation = moving.observe("move", states::add)) {
      assertEquals("me {} 0", shown(states.take()));
      relay.close();
      assertEquals("me {} 0", shown(states.take()), "it begins again with the state");
      lock.release();
      assertEquals("free", shown(states.take()));
      CompletableFuture<Void> refused = moving.observe("", states::add).ended().toCompletableFuture();
      assertInstanceOf(RefusedException.class, assertThrows(ExecutionException.class, refused::get).getCause());
    }
  }
}
