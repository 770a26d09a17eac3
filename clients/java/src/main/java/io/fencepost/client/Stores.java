package io.fencepost.client;

import java.util.OptionalInt;
import java.util.stream.IntStream;

/**
 * Which store each server has, by the ids that the servers last told. The servers of one client must share a store: a
 * lock of one would exclude nobody on another, and a lease that moves there would be lost.
 */
final class Stores {
  private final String[] ids;

  Stores(int servers) {
    this.ids = new String[servers];
  }

  /** A server told the id of its store. Returns another server that had a different one, if this is news. */
  synchronized OptionalInt told(int server, String id) {
    if (id.equals(ids[server])) {
      return OptionalInt.empty();
    }
    ids[server] = id;
    return IntStream.range(0, ids.length)
        .filter(other -> ids[other] != null && !ids[other].equals(id))
        .findFirst();
  }
}
