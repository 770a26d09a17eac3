package io.fencepost.client;

/** There is no connection to a server. */
final class NotConnectedException extends Exception {
  private static final long serialVersionUID = 1L;

  private final transient Failure failure;

  NotConnectedException(Failure failure) {
    super(failure.message(), failure.cause());
    this.failure = failure;
  }

  Failure failure() {
    return failure;
  }
}
