package io.fencepost.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import org.junit.jupiter.api.Test;

class ValidityTest {
  private static final long SENT = 1_000_000_000_000L;

  private static long ms(long millis) {
    return millis * 1_000_000;
  }

  private static long leftAfter(long heldForMs, long ttlMs, long tookMs) {
    return Validity.until(SENT, SENT + ms(tookMs), ms(heldForMs), ms(ttlMs)) - SENT;
  }

  @Test
  void countsFromSendingLessDriftAndMargin() {
    assertEquals(ms(30_000 - 300 - 1_500), leftAfter(0, 30_000, 5));
  }

  @Test
  void aShortLeaseKeepsTheLeastMargin() {
    assertEquals(ms(100 - 1 - 20), leftAfter(0, 100, 5));
  }

  @Test
  void timeInTheQueueIsAdded() {
    assertEquals(ms(60_000 + 28_200), leftAfter(60_000, 30_000, 60_010));
  }

  @Test
  void theServerCannotHaveHeldARequestLongerThanItTook() {
    assertEquals(ms(20 + 28_200), leftAfter(3_600_000, 30_000, 20));
  }

  @Test
  void aLeaseOfWhichLessThanHalfIsLeftIsLate() {
    assertTrue(Validity.isLate(SENT + ms(499), SENT, ms(1_000)));
    assertFalse(Validity.isLate(SENT + ms(500), SENT, ms(1_000)));
  }

  @Test
  void aLeaseIsOverdueAfterMoreThanHalf() {
    assertFalse(Validity.isOverdue(SENT + ms(500), SENT, ms(1_000)));
    assertTrue(Validity.isOverdue(SENT + ms(340), SENT, ms(1_000)));
  }
}
