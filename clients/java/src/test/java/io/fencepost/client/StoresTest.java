package io.fencepost.client;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.OptionalInt;
import org.junit.jupiter.api.Test;

class StoresTest {
  @Test
  void aDifferentStoreIsNewsOnce() {
    Stores stores = new Stores(3);
    assertEquals(OptionalInt.empty(), stores.told(2, "x"));
    assertEquals(OptionalInt.empty(), stores.told(0, "x"));
    assertEquals(OptionalInt.of(0), stores.told(1, "y"), "the first in the list");
    assertEquals(OptionalInt.empty(), stores.told(1, "y"));
    assertEquals(OptionalInt.of(2), stores.told(0, "y"));
    assertEquals(OptionalInt.empty(), stores.told(2, "y"), "all have it now");
  }
}
