package io.fencepost.client;

/** The base of all exceptions of this package. Unchecked. */
public class FencepostException extends RuntimeException {
  private static final long serialVersionUID = 1L;

  /**
   * Creates an exception.
   *
   * @param message what happened, why, and what to do
   * @param cause the cause, or null
   */
  public FencepostException(String message, Throwable cause) {
    super(message, cause);
  }
}
