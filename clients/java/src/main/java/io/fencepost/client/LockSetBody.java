package io.fencepost.client;

/**
 * Work that is done under several locks and returns nothing.
 *
 * @param <X> the exception that it throws
 */
@FunctionalInterface
public interface LockSetBody<X extends Exception> {
  /**
   * Does the work. Send the token of each lock with every write to the store that it protects.
   *
   * @param locks the locks
   * @throws X if the work fails
   */
  void run(LockSet locks) throws X;
}
