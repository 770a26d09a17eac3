package io.fencepost.bench;

import io.fencepost.client.FencedLock;
import io.fencepost.client.FencepostClient;
import io.fencepost.client.testing.FencepostServer;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;

/**
 * How many locks one client acquires and releases in a second, and how much heap it needs for each lock that it
 * holds. The server has the memory store and runs on this machine, so both share its processors.
 */
final class Bench {
  /** Tasks that acquire and release side by side. */
  private static final int TASKS = 64;

  /** The locks that are held at once, and their TTL. */
  private static final int HELD = 10_000;

  private static final Duration TTL = Duration.ofSeconds(60);

  private Bench() {}

  /** {@code [SECONDS]}: for how long pairs are counted (default 10), after half of that to warm up. */
  public static void main(String[] arguments) throws Exception {
    long seconds = arguments.length > 0 ? Long.parseLong(arguments[0]) : 10;
    try (FencepostServer server = FencepostServer.start();
        FencepostClient client = FencepostClient.connect(server.address())) {
      ExecutorService tasks = virtualThreads();
      String kind = tasks == null ? "threads of a pool" : "virtual threads";
      ExecutorService executor = tasks == null ? Executors.newFixedThreadPool(TASKS) : tasks;
      pairs(client, executor, Duration.ofSeconds(seconds).dividedBy(2));
      long count = pairs(client, executor, Duration.ofSeconds(seconds));
      executor.shutdownNow();
      String java = System.getProperty("java.version");
      System.out.printf("%d pairs/s with %d %s on one session, Java %s%n", count / seconds, TASKS, kind, java);
      memory(client);
    }
  }

  /** An executor of virtual threads, which Java has from version 21 on; null before. */
  private static ExecutorService virtualThreads() throws ReflectiveOperationException {
    try {
      return (ExecutorService) Executors.class.getMethod("newVirtualThreadPerTaskExecutor").invoke(null);
    } catch (NoSuchMethodException older) {
      return null;
    }
  }

  private static long pairs(FencepostClient client, ExecutorService executor, Duration time)
      throws InterruptedException, ExecutionException {
    long end = System.nanoTime() + time.toNanos();
    List<Future<Long>> counts = new ArrayList<>();
    for (int n = 0; n < TASKS; n++) {
      String name = "pairs/" + n;
      counts.add(executor.submit(() -> {
        long count = 0;
        for (; System.nanoTime() < end; count++) {
          client.acquire(name).ttl(TTL).get().release();
        }
        return count;
      }));
    }
    long sum = 0;
    for (Future<Long> count : counts) {
      sum += count.get();
    }
    return sum;
  }

  private static void memory(FencepostClient client) {
    long heapBefore = heap();
    List<CompletableFuture<FencedLock>> acquires = new ArrayList<>();
    for (int n = 0; n < HELD; n++) {
      acquires.add(client.acquire("held/" + n).ttl(TTL).getAsync());
    }
    List<FencedLock> locks = acquires.stream().map(CompletableFuture::join).toList();
    acquires.clear();
    long heap = heap() - heapBefore;
    if (!locks.stream().allMatch(FencedLock::isValid)) {
      throw new IllegalStateException("a lock was lost");
    }
    System.out.printf("%.2f KiB of heap for each of %d held locks%n", heap / 1024.0 / HELD, HELD);
  }

  /** The bytes of live objects. */
  private static long heap() {
    Runtime runtime = Runtime.getRuntime();
    for (int n = 0; n < 3; n++) {
      System.gc(); // what one collection makes unreachable, such as closed threads, goes with the next
    }
    return runtime.totalMemory() - runtime.freeMemory();
  }
}
