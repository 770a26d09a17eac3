package io.fencepost.client;

import java.io.IOException;
import java.nio.file.Path;

/** A file of the TLS settings cannot be used. */
final class TlsFileException extends IOException {
  private static final long serialVersionUID = 1L;

  TlsFileException(Path file, Throwable cause) {
    super("cannot use the TLS file " + file + ": " + cause.getMessage(), cause);
  }
}
