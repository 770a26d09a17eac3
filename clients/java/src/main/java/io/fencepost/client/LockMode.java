package io.fencepost.client;

/** How a lock is held: which other holders it excludes. */
public enum LockMode {
  /** By one holder. */
  EXCLUSIVE,
  /** By any number of readers together; see {@link LockRequest#shared}. */
  SHARED,
  /** By holders that share its permits; see {@link LockRequest#semaphore}. */
  SEMAPHORE
}
