package io.fencepost.client;

/**
 * Nothing was done, and the same call may work later: no server could be reached, or each one that answered said that
 * it did nothing, because it stops or its store does not work.
 */
public final class UnavailableException extends FencepostException {
  private static final long serialVersionUID = 1L;

  /** The server's reason. */
  private final String reason;

  /** Whether no server can be used until somebody changes an address, a server or a certificate. */
  private final boolean permanent;

  UnavailableException(String reason, String message, boolean permanent, Throwable cause) {
    super(message, cause);
    this.reason = reason;
    this.permanent = permanent;
  }

  boolean isPermanent() {
    return permanent;
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
