package io.fencepost.client;

/** The client was closed. */
public final class ClientClosedException extends FencepostException {
  private static final long serialVersionUID = 1L;

  ClientClosedException() {
    super("the client is closed", null);
  }
}
