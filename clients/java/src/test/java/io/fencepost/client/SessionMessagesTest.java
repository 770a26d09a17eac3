package io.fencepost.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.fencepost.client.testing.FencepostServer;
import io.fencepost.v1.Detached;
import io.fencepost.v1.LeaseAttachment;
import io.fencepost.v1.SessionRequest;
import io.fencepost.v1.SessionResponse;
import io.grpc.InsecureServerCredentials;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** The messages that a client sends on its session. */
@Timeout(60)
class SessionMessagesTest {
  private static final Duration LONG = Duration.ofSeconds(30);

  @Test
  void theReleaseOfALostLockGoesOnInTheBackground() throws Exception {
    SessionTap tap = new SessionTap(response -> List.of());
    try (FencepostServer server = FencepostServer.start("--ttl-min", "100ms");
        Relay relay = new Relay(server.address(), InsecureServerCredentials.create(), tap);
        FencepostClient client = FencepostClient.connect(relay.address())) {
      FencedLock lock = client.acquire("a").ttl(Duration.ofMillis(800)).waitFor(LONG).get();
      server.pause();
      assertEquals(LossReason.SILENCE, lock.lost().toCompletableFuture().get(30, TimeUnit.SECONDS).reason());
      assertThrows(LockLostException.class, lock::close);
      server.resume();
      Await.until(() -> tap.received.stream().anyMatch(it -> it.getRelease().getLockName().equals("a")));
    }
  }

  private static List<Integer> attempts(SessionTap tap) {
    return tap.received.stream()
        .flatMap(message -> message.getAttach().getLeasesList().stream())
        .map(LeaseAttachment::getAttempt)
        .toList();
  }

  /** Once on each session: twice on the same one means that another process attaches the lease as well. */
  @Test
  void aLeaseThatTheServerDetachesIsAttachedAgainOnceOnEachSession() throws Exception {
    AtomicInteger detachments = new AtomicInteger();
    AtomicInteger attached = new AtomicInteger();
    SessionTap tap = new SessionTap(sent -> {
      boolean detach = sent.hasAttached() && detachments.getAndUpdate(n -> Math.max(0, n - 1)) > 0;
      attached.addAndGet(sent.hasAttached() ? 1 : 0);
      return detach ? List.of(detached(sent.getAttached().getLeases(0).getHandles(0))) : List.of();
    });
    try (FencepostServer server = FencepostServer.start("--ttl-min", "100ms");
        Relay relay = new Relay(server.address(), InsecureServerCredentials.create(), tap);
        FencepostClient client = FencepostClient.connect(relay.address())) {
      FencedLock lock = client.acquire("a").ttl(Duration.ofSeconds(4)).get();
      CompletableFuture<Void> atRisk = new CompletableFuture<>();
      detachments.set(1);
      loseStream(server, client);
      Await.until(() -> attached.get() == 2); // or a detachment for the next session could follow this attachment
      lock.onAtRisk(Runnable::run, () -> atRisk.complete(null));
      detachments.set(2);
      loseStream(server, client);
      Await.until(() -> attempts(tap).size() == 4);
      atRisk.get(30, TimeUnit.SECONDS);
      assertEquals(LossReason.SILENCE, lock.lost().toCompletableFuture().get(30, TimeUnit.SECONDS).reason());
      assertEquals(List.of(2, 3, 4, 5), attempts(tap));
      assertTrue(tap.received.stream().noneMatch(SessionRequest::hasRenew), "it is not renewed apart either");
    }
  }

  private static SessionResponse detached(int handle) {
    Detached detached =
        Detached.newBuilder().setHandle(handle).setReason(Detached.Reason.REASON_ATTACHED_ELSEWHERE).build();
    return SessionResponse.newBuilder().setDetached(detached).build();
  }

  /** The stream ends with the answer to this acquire, which is repeated on the next one. */
  private static void loseStream(FencepostServer server, FencepostClient client) throws Exception {
    server.dropReply();
    assertTrue(client.tryAcquire("a").isEmpty());
  }
}
