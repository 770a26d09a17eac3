package io.fencepost.client;

/**
 * The call may or may not have taken effect: no answer arrived in time. The client goes on in the background: it
 * withdraws an acquire and releases what the acquire was granted, and it repeats a release until the lease is over.
 */
public final class OutcomeUnknownException extends FencepostException {
  private static final long serialVersionUID = 1L;

  OutcomeUnknownException(String why, Throwable cause) {
    super("outcome unknown: " + why, cause);
  }
}
