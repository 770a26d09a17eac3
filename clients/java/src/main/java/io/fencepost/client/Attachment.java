package io.fencepost.client;

/** A lease on a session. {@code sent} is 0 until the attachment is sent. */
final class Attachment {
  final Lease lease;
  final int attempt;
  long sent;
  boolean confirmed;

  Attachment(Lease lease, int attempt) {
    this.lease = lease;
    this.attempt = attempt;
  }
}
