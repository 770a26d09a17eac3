package io.fencepost.client;

import static org.junit.jupiter.api.Assertions.assertEquals;

import io.fencepost.v1.LockHolder;
import java.time.Duration;
import java.util.List;
import org.junit.jupiter.api.Test;

/** What messages say of holders, as users read it. */
class WireTest {
  @Test
  void aHolderSaysWhoItIs() {
    LockHolder message = LockHolder.newBuilder()
        .setHolder("label").setOwner("job 7").setIdentity("spiffe://a/b").setDescription(3).build();
    HolderInfo holder = Wire.holders(List.of(message)).get(0);
    assertEquals("label job 7 spiffe://a/b 3",
        holder.holder() + " " + holder.owner() + " " + holder.identity() + " " + holder.description());
  }

  @Test
  void aRefusalNamesHoldersAndCountsTheOthers() {
    assertState("being offered to the next waiter", List.of(), 0, null);
    assertState("held", List.of(""), 1, null);
    assertState("held by 9 holders", List.of(""), 9, null);
    assertState("held by a", List.of("a"), 1, null);
    assertState("held by a and b", List.of("a", "b"), 2, null);
    assertState("held by a and b and 9998 more", List.of("a", "b"), 10_000, null);
    assertState("held by a and b and 1 more", List.of("a", "", "b"), 3, null);
    LockDelay delay = new LockDelay(Duration.ofSeconds(24), "c", 7);
    assertState("unavailable for another 24 s (delay after c)", List.of(), 0, delay);
    assertState(
        "held by a and b and 1 more, and a place of it is unavailable for another 24 s (delay after c)",
        List.of("a", "b"), 3, delay);
  }

  private static void assertState(String state, List<String> labels, int count, LockDelay delay) {
    List<HolderInfo> holders =
        Wire.holders(labels.stream().map(label -> LockHolder.newBuilder().setHolder(label).build()).toList());
    ContendedException contended = new ContendedException("x", holders, count, delay, null, 2);
    assertEquals("x is " + state + ", 2 waiting", contended.getMessage());
    TimedOutException late = new TimedOutException("x", holders, count, delay, null, 2);
    assertEquals("timed out waiting for x: it is " + state + ", 2 waiting", late.getMessage());
    assertEquals(List.of(count, count), List.of(contended.holderCount(), late.holderCount()));
  }
}
