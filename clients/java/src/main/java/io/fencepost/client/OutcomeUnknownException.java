package io.fencepost.client;

/**
 * The call may or may not have taken effect: no answer arrived in time. The client goes on in the background: it
 * withdraws an acquire and releases what the acquire was granted, and it repeats a release until the lease is over. A
 * conversion of a lock ({@link FencedLock#tryUpgrade}) is not repeated: call it again to learn what became of it. Nor is
 * a description: describe the lock again.
 */
public final class OutcomeUnknownException extends FencepostException {
  private static final long serialVersionUID = 1L;

  OutcomeUnknownException(String why, Throwable cause) {
    super("outcome unknown: " + why, cause);
  }
}
