package io.fencepost.client;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.fencepost.client.testing.FencepostServer;
import io.fencepost.v1.LockServiceGrpc;
import io.grpc.Metadata;
import io.grpc.Server;
import io.grpc.ServerCall;
import io.grpc.ServerCallHandler;
import io.grpc.ServerInterceptor;
import io.grpc.netty.shaded.io.grpc.netty.NettyServerBuilder;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import java.util.function.LongUnaryOperator;
import java.util.stream.LongStream;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/**
 * Servers that hang, as a stopped process does: it accepts connections and says nothing, or has an open one and answers
 * no call on it. Each of them must leave time for the next server.
 */
@Timeout(60)
class HungServersTest {
  private static FencepostServer server;

  private static final List<Consumer<FencepostClient>> CALLS = List.of(
      client -> client.get("hung"),
      client -> client.checkToken("hung", 1),
      client -> client.list("none/").forEach(lock -> {}),
      client -> client.watch("none/", event -> {}).started().toCompletableFuture().join(),
      HungServersTest::observe,
      HungServersTest::keep,
      client -> client.acquire("hung/wait").waitFor(Duration.ofSeconds(1)).get().release());

  @BeforeAll
  static void start() throws Exception {
    server = FencepostServer.start();
  }

  @AfterAll
  static void stop() {
    server.close();
  }

  private static void observe(FencepostClient client) {
    CompletableFuture<LockInfo> first = new CompletableFuture<>();
    client.observe("hung", first::complete);
    first.join();
  }

  private static void keep(FencepostClient client) {
    try (FencedLock lock = client.acquire("hung/keep").ttl(Duration.ofSeconds(1)).get()) {
      long granted = System.nanoTime();
      Await.until(() -> System.nanoTime() - granted > TimeUnit.MILLISECONDS.toNanos(1500));
      assertTrue(lock.isValid());
    }
  }

  /** Makes all calls at a time, each with a client of its own. */
  private static void assertServed(int first, int second) {
    String addresses = "127.0.0.1:" + first + ",127.0.0.1:" + second + "," + server.address();
    ExecutorService threads = Executors.newCachedThreadPool();
    try {
      List<CompletableFuture<Void>> running = CALLS.stream()
          .map(call -> CompletableFuture.runAsync(() -> call(call, addresses), threads))
          .toList();
      running.forEach(CompletableFuture::join);
    } finally {
      threads.shutdown();
    }
  }

  private static void call(Consumer<FencepostClient> call, String addresses) {
    try (FencepostClient client = FencepostClient.connect(addresses)) {
      call.accept(client);
    }
  }

  /** The kernel accepts for it. */
  private static ServerSocket silent() throws Exception {
    return new ServerSocket(0, 50, InetAddress.getLoopbackAddress());
  }

  /** A server that greets and answers no call. */
  private static Server mute() throws Exception {
    InetSocketAddress free = new InetSocketAddress(InetAddress.getLoopbackAddress(), 0);
    ServerInterceptor ignoring = new ServerInterceptor() {
      @Override
      public <Q, A> ServerCall.Listener<Q> interceptCall(
          ServerCall<Q, A> call, Metadata headers, ServerCallHandler<Q, A> handler) {
        return new ServerCall.Listener<>() {};
      }
    };
    LockServiceGrpc.LockServiceImplBase service = new LockServiceGrpc.LockServiceImplBase() {};
    return NettyServerBuilder.forAddress(free).addService(service).intercept(ignoring).build().start();
  }

  @Test
  void thoseThatSayNothingLeaveTimeForTheNextOne() throws Exception {
    try (ServerSocket first = silent(); ServerSocket second = silent()) {
      assertServed(first.getLocalPort(), second.getLocalPort());
    }
  }

  @Test
  void thoseThatGreetAndAnswerNoCallLeaveTimeForTheNextOne() throws Exception {
    Server first = mute();
    Server second = mute();
    try {
      assertServed(first.getPort(), second.getPort());
    } finally {
      first.shutdownNow();
      second.shutdownNow();
    }
  }

  @Test
  void eachOfSeveralServersHasAPartOfTheTime() {
    LongUnaryOperator of = servers -> Timing.answerTime(5_000_000_000L, 9_000_000_000L, (int) servers);
    long[] times = LongStream.of(1, 2, 3, 100).map(of).toArray();
    assertArrayEquals(new long[] {5_000_000_000L, 4_500_000_000L, 3_000_000_000L, Timing.ANSWER_TIME_MIN}, times);
    assertEquals(20, Timing.answerTime(20, 9_000_000_000L, 2));
  }
}
