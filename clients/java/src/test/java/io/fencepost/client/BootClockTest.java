package io.fencepost.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import org.junit.jupiter.api.Test;

class BootClockTest {
  private final AtomicLong nanoTime = new AtomicLong(7_000_000_000L);
  private final AtomicLong uptime = new AtomicLong(90_000_000_000L);
  private final BootClock clock = new BootClock(nanoTime::get, uptime::get);

  private void run(long millis) {
    nanoTime.addAndGet(TimeUnit.MILLISECONDS.toNanos(millis));
    uptime.addAndGet(TimeUnit.MILLISECONDS.toNanos(millis));
  }

  @Test
  void suspendCounts() {
    long before = clock.now();
    run(50);
    uptime.addAndGet(TimeUnit.SECONDS.toNanos(30)); // only the uptime goes on
    run(2);
    assertEquals(TimeUnit.MILLISECONDS.toNanos(30_052), clock.now() - before);
  }

  @Test
  void theResolutionOfTheUptimeDoesNotCount() {
    long before = clock.now();
    run(50);
    uptime.addAndGet(TimeUnit.MILLISECONDS.toNanos(10));
    assertEquals(TimeUnit.MILLISECONDS.toNanos(50), clock.now() - before);
  }

  @Test
  void withoutUptimeItIsNanoTime() {
    BootClock plain = new BootClock(nanoTime::get, () -> -1);
    long before = plain.now();
    run(5_000);
    assertEquals(TimeUnit.MILLISECONDS.toNanos(5_000), plain.now() - before);
  }

  @Test
  void theSystemClockAdvancesWithNanoTime() {
    long clockBefore = BootClock.system().now();
    long nanosBefore = System.nanoTime();
    while (System.nanoTime() - nanosBefore < 50_000_000) {
      Thread.onSpinWait();
    }
    long advanced = BootClock.system().now() - clockBefore;
    assertTrue(advanced >= 50_000_000 && advanced < 30_000_000_000L, "advanced by " + advanced);
  }
}
