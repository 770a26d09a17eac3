package io.fencepost.client;

import static org.junit.jupiter.api.Assertions.assertEquals;

import io.fencepost.v1.LockHolder;
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
}
