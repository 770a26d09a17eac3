package io.fencepost.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.protobuf.Any;
import com.google.protobuf.Duration;
import com.google.rpc.Code;
import com.google.rpc.ErrorInfo;
import com.google.rpc.RetryInfo;
import io.fencepost.client.testing.FencepostServer;
import io.grpc.InsecureServerCredentials;
import io.grpc.StatusRuntimeException;
import io.grpc.protobuf.StatusProto;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentLinkedQueue;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** What a client does when its quota on a server is used up, or the server has no room for a stream. */
@Timeout(60)
class QuotasTest {
  private static final java.time.Duration LONG = java.time.Duration.ofSeconds(30);

  @TempDir
  private Path folder;

  /** A server that allows each address so much. */
  private FencepostServer limited(String limits) throws Exception {
    String access = "mode = \"open\"\n[[quota]]\neach_address = true\n" + limits + "\n";
    return FencepostServer.start("--access", Files.writeString(folder.resolve("access.toml"), access).toString());
  }

  private static void exceeded(RefusedException refused) {
    assertEquals(List.of("RESOURCE_EXHAUSTED", "QUOTA_EXCEEDED"), List.of(refused.code(), refused.reason()));
  }

  private static StatusRuntimeException noRoom(String reason) {
    Duration delay = Duration.newBuilder().setNanos(10_000_000).build();
    return StatusProto.toStatusRuntimeException(com.google.rpc.Status.newBuilder()
        .setCode(Code.RESOURCE_EXHAUSTED_VALUE)
        .setMessage("no room")
        .addDetails(Any.pack(ErrorInfo.newBuilder().setDomain(Facts.ERROR_DOMAIN).setReason(reason).build()))
        .addDetails(Any.pack(RetryInfo.newBuilder().setRetryDelay(delay).build()))
        .build());
  }

  @Test
  void anAcquireAboveTheRateIsRepeatedOnTheSameServerWhileItWaits() throws Exception {
    String rate = "acquires_per_second = 4\nburst = 2";
    try (Logs logs = new Logs();
        FencepostServer first = limited(rate);
        FencepostServer second = limited(rate);
        FencepostClient client = FencepostClient.connect(first.address(), second.address());
        FencepostClient other = FencepostClient.connect(second.address())) {
      List<FencedLock> held = new java.util.ArrayList<>();
      exceeded(assertThrows(RefusedException.class, () -> {
        while (true) {
          held.add(client.acquire("a/" + held.size()).get());
        }
      }));
      held.add(client.acquire("a/waits").waitFor(LONG).get());
      assertEquals("b", client.lead("b").call(FencedLock::name));
      // They share no store, so each server tells what has reached it.
      assertEquals(held.size(), client.list("a/").count());
      assertEquals(0, other.list("").count());
      assertTrue(held.stream().allMatch(FencedLock::isValid));
      assertEquals(List.of(), logs.lines());
    }
  }

  @Test
  void anAcquireThatIsGivenUpWhileItWaitsForItsRepeatIsNotSentAgain() throws Exception {
    SessionTap tap = new SessionTap(message -> List.of());
    try (FencepostServer server = limited("acquires_per_second = 2\nburst = 1");
        Relay relay = new Relay(server.address(), InsecureServerCredentials.create(), tap);
        FencepostClient client = FencepostClient.connect(relay.address());
        FencepostClient other = FencepostClient.connect(server.address())) {
      CompletableFuture<?> held = client.acquire("a").waitFor(LONG).getAsync();
      held.join();
      CompletableFuture<FencedLock> waiting = client.acquire("b").waitFor(LONG).getAsync();
      Await.until(() -> tap.received.stream().filter(request -> request.hasAcquire()).count() >= 2);
      assertFalse(waiting.isDone());
      waiting.cancel(false);
      // By then the repeat would have been sent.
      try (FencedLock later = other.acquire("c").waitFor(LONG).get();
          FencedLock latest = other.acquire("d").waitFor(LONG).get()) {
        assertTrue(later.isValid() && latest.isValid());
      }
      assertEquals(2, tap.received.stream().filter(request -> request.hasAcquire()).count());
    }
  }

  @Test
  void aSessionAboveTheQuotaIsOpenedOnTheSameServerOnceAnotherStreamIsClosed() throws Exception {
    StreamTap tap = new StreamTap();
    try (FencepostServer server = limited("streams = 1");
        FencepostServer other = FencepostServer.start();
        Relay relay = new Relay(server.address(), InsecureServerCredentials.create(), tap);
        FencepostClient first = FencepostClient.connect(server.address());
        FencepostClient client = FencepostClient.connect(relay.address(), other.address());
        FencepostClient reader = FencepostClient.connect(other.address())) {
      first.acquire("a/1").get();
      CompletableFuture<FencedLock> waiting = client.acquire("a/2").getAsync();
      Watch watch = client.watch("a/", event -> {});
      Await.until(() -> tap.ended.containsAll(List.of("Session RESOURCE_EXHAUSTED", "Watch RESOURCE_EXHAUSTED")));
      watch.close();
      first.close();
      assertTrue(waiting.get().isValid());
      assertEquals(0, reader.list("").count());
    }
  }

  @Test
  void aServerWithoutRoomForAStreamIsAskedAgain() throws Exception {
    StreamTap tap = new StreamTap();
    tap.refusals.put("Session", new ConcurrentLinkedQueue<>(List.of(noRoom("SERVER_FULL"), noRoom("QUOTA_EXCEEDED"))));
    tap.refusals.put("Watch", new ConcurrentLinkedQueue<>(List.of(noRoom("WATCHERS_FULL"), noRoom("SERVER_FULL"))));
    tap.refusals.put("Observe", new ConcurrentLinkedQueue<>(List.of(noRoom("QUOTA_EXCEEDED"))));
    CompletableFuture<LockInfo> state = new CompletableFuture<>();
    try (FencepostServer server = FencepostServer.start();
        Relay relay = new Relay(server.address(), InsecureServerCredentials.create(), tap);
        FencepostClient client = FencepostClient.connect(relay.address());
        FencedLock lock = client.acquire("a").get();
        Watch watch = client.watch("", event -> {});
        Observation observation = client.observe("a", state::complete)) {
      watch.started().toCompletableFuture().get();
      assertEquals(lock.token(), state.get().newestToken());
      assertFalse(observation.ended().toCompletableFuture().isDone());
      assertEquals(5, tap.ended.stream().filter(call -> call.endsWith(" RESOURCE_EXHAUSTED")).count());
    }
  }
}
