package io.fencepost.client;

/**
 * Nothing was done, and the same call may work later: no server could be reached, or each one that answered said that
 * it did nothing, because it stops or its store does not work.
 */
public final class UnavailableException extends FencepostException {
  private static final long serialVersionUID = 1L;

  /** The server's reason. */
  private final String reason;

  UnavailableException(String reason, String message, Throwable cause) {
    super(message, cause);
    this.reason = reason;
  }

  /**
   * The reason of the server that answered last, as the manual of the API lists them.
   *
   * @return the reason, such as {@code STORE_UNAVAILABLE}; empty if no server could be reached
   */
  public String reason() {
    return reason;
  }
}
