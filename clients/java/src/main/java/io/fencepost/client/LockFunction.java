package io.fencepost.client;

/**
 * Work that is done under a lock and returns a value.
 *
 * @param <T> the type of the value
 * @param <X> the exception that it throws
 */
@FunctionalInterface
public interface LockFunction<T, X extends Exception> {
  /**
   * Does the work. Send {@link FencedLock#token()} with every write.
   *
   * @param lock the lock
   * @return the value
   * @throws X if the work fails
   */
  T call(FencedLock lock) throws X;
}
