package io.fencepost.client;

/**
 * Work that is done under a lock and returns nothing.
 *
 * @param <X> the exception that it throws
 */
@FunctionalInterface
public interface LockBody<X extends Exception> {
  /**
   * Does the work. Send {@link FencedLock#token()} with every write.
   *
   * @param lock the lock
   * @throws X if the work fails
   */
  void run(FencedLock lock) throws X;
}
