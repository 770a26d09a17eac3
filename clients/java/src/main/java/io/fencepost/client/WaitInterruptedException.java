package io.fencepost.client;

/**
 * The thread was interrupted while it waited for a server. Its interrupt status is set. An interrupted acquire has been
 * abandoned: the client withdraws it in the background, and releases what it was granted.
 */
public final class WaitInterruptedException extends FencepostException {
  private static final long serialVersionUID = 1L;

  WaitInterruptedException(String message, InterruptedException cause) {
    super(message, cause);
  }
}
