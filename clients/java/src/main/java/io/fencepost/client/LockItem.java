package io.fencepost.client;

/**
 * A lock of a set, with its mode: for hierarchies, in which all parents are shared and the leaf is exclusive.
 *
 * @param name the lock's name: 1 to 512 bytes of UTF-8 without control characters
 * @param mode how it is to be held
 */
public record LockItem(String name, LockMode mode) {
  /**
   * A lock of a set.
   *
   * @param name the lock's name
   * @param mode how it is to be held
   * @throws IllegalArgumentException if the mode is that of a semaphore, or UTF-8 cannot express the name
   */
  public LockItem {
    LockRequest.encodable(name, "lock name");
    if (FencepostClient.notNull(mode, "mode") == LockMode.SEMAPHORE) {
      throw new IllegalArgumentException("mode must be EXCLUSIVE or SHARED in a set of locks, not SEMAPHORE");
    }
  }

  /**
   * A lock that nobody else holds.
   *
   * @param name its name
   * @return the item
   */
  public static LockItem exclusive(String name) {
    return new LockItem(name, LockMode.EXCLUSIVE);
  }

  /**
   * A lock that readers share; see {@link LockRequest#shared}.
   *
   * @param name its name
   * @return the item
   */
  public static LockItem shared(String name) {
    return new LockItem(name, LockMode.SHARED);
  }
}
