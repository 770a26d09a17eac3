package io.fencepost.client.guards;

import io.fencepost.client.Facts;
import io.fencepost.client.FencedLock;
import java.nio.charset.StandardCharsets;

/**
 * The fence of a lock, under which a store keeps the newest token. The holders of a semaphore work side by side, so
 * only the tokens of one slot are in an order: each slot has a fence of its own, and several permits have none.
 */
public final class Fence {
  private Fence() {}

  /**
   * The name of the fence that {@link JdbcGuard} raises for a lock. Pass it on, in place of the lock's name, to a
   * process that raises the fence for the holder.
   *
   * @param lock the lock
   * @return the lock's name, or {@code NAME#SLOT} for one permit of a semaphore
   * @throws IllegalArgumentException if the lock has several permits, or the name does not fit into the table
   */
  public static String name(FencedLock lock) {
    String name = key(lock, lock.name());
    if (lock.slot().isPresent() && name.getBytes(StandardCharsets.UTF_8).length > Facts.NAME_BYTES_MAX) {
      throw new IllegalArgumentException(
          "the fence " + name + " is longer than " + Facts.NAME_BYTES_MAX + " bytes: give the lock a shorter name");
    }
    return name;
  }

  /**
   * The key of the fence in Redis that {@link RedisGuard} uses for a lock.
   *
   * @param lock the lock
   * @param key the key of the lock's fence
   * @return the key, or {@code KEY#SLOT} for one permit of a semaphore
   * @throws IllegalArgumentException if the lock has several permits
   */
  public static String key(FencedLock lock, String key) {
    if (lock.slot().isPresent()) {
      return key + "#" + lock.slot().getAsInt();
    }
    if (lock.permits() > 0) {
      throw new IllegalArgumentException(
          lock.name() + " is held with several permits of a semaphore, so it has no slot, and a store cannot order its "
              + "token: take one permit each, or check the token with checkToken right before the write");
    }
    return key;
  }

  /** Refuses a lock of a semaphore, in which there are no readers. */
  static void checkReader(FencedLock lock) {
    key(lock, lock.name());
    if (lock.slot().isPresent()) {
      throw new IllegalArgumentException(
          lock.name() + " is held as a semaphore, not as a shared lock: raise its fence in the transaction of the "
              + "write");
    }
  }
}
