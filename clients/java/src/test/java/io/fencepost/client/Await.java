package io.fencepost.client;

import java.util.function.BooleanSupplier;

/** Waits in tests, until the timeout of the test interrupts it. */
public final class Await {
  private static final long POLL_MILLIS = 2;

  private Await() {}

  public static void until(BooleanSupplier condition) {
    try {
      while (!condition.getAsBoolean()) {
        Thread.sleep(POLL_MILLIS);
      }
    } catch (InterruptedException timeout) {
      throw new IllegalStateException("this was awaited in vain", timeout);
    }
  }
}
