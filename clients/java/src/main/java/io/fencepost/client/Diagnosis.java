package io.fencepost.client;

import io.grpc.Status;
import io.grpc.netty.shaded.io.netty.channel.ConnectTimeoutException;
import java.io.FileNotFoundException;
import java.nio.channels.UnresolvedAddressException;
import java.util.List;
import java.util.Locale;

/**
 * Why a server could not be called, in the words of all clients.
 *
 * @param text names the server's address
 * @param permanent whether it stays so until somebody changes an address, a server or a certificate
 */
record Diagnosis(String text, boolean permanent) {
  /** What systems say of a connection, wherever it stands in the message of a library. */
  private static final List<String> SYSTEM_ERRORS = List.of(
      "connection refused", "connection reset", "no route to host", "network is unreachable", "host is unreachable",
      "host is down", "no such file or directory", "permission denied", "broken pipe", "timed out");

  /** What gRPC says of a connection that was closed without an error. */
  private static final String GRPC_CLOSED = "Network closed for unknown reason";

  /** The diagnosis of a call that ended with {@code status} without an answer of a Fencepost server. */
  static Diagnosis of(Connection connection, Status status) {
    String address = connection.address().toString();
    if (status.getCode() == Status.Code.UNIMPLEMENTED) {
      return new Diagnosis(address + " " + Facts.NOT_FENCEPOST, true);
    }
    if (connection.address().tls()) {
      TlsFailure failure = TlsFailure.of(status.getCause(), connection.showsCertificate());
      if (failure != null) {
        return new Diagnosis(address + ": " + failure.text(), failure.permanent());
      }
    }
    return switch (connection.greeting().seen()) {
      case OTHER -> new Diagnosis(address + " " + foreign(connection.greeting()), true);
      case NOTHING -> new Diagnosis(address + " " + Facts.NOT_GRPC_SILENT, false);
      case PLAIN_ONLY -> new Diagnosis(address + ": " + Facts.TLS_NOT_TLS, true);
      case TLS_ONLY -> new Diagnosis(address + " " + Facts.NOT_GRPC_CLOSED_PLAIN, true);
      case CLOSED -> new Diagnosis(address + " " + closed(connection.address()), false);
      case NO_CONNECTION, SPOKE -> new Diagnosis(address + ": " + broken(status), false);
    };
  }

  private static String foreign(Greeting greeting) {
    if (greeting.isTlsAlert()) {
      return Facts.NOT_GRPC_TLS_ALERT;
    }
    String line = greeting.line();
    return Facts.NOT_GRPC_OTHER.replace("{}", line == null ? Facts.NOT_GRPC_BYTES : line);
  }

  private static String closed(ServerAddress address) {
    return address.tls() || address.isUnix() ? Facts.NOT_GRPC_CLOSED : Facts.NOT_GRPC_CLOSED_PLAIN;
  }

  /** Why there is no connection, or why one to a gRPC server ended. Never empty. */
  private static String broken(Status status) {
    for (Throwable cause = status.getCause(); cause != null; cause = cause.getCause()) {
      if (cause instanceof UnresolvedAddressException) {
        return "the host name cannot be resolved";
      }
      if (cause instanceof FileNotFoundException) {
        return "no such file or directory"; // the socket
      }
      if (cause instanceof ConnectTimeoutException) {
        return "no connection within " + Facts.CONNECT_TIMEOUT_MS / 1000 + " s";
      }
      String message = String.valueOf(cause.getMessage()).toLowerCase(Locale.ROOT);
      for (String error : SYSTEM_ERRORS) {
        if (message.contains(error)) {
          return error;
        }
      }
    }
    String said = status.getDescription();
    if (said == null || said.startsWith(GRPC_CLOSED)) {
      return "the connection was closed" + (status.getCause() == null ? "" : " (" + status.getCause() + ")");
    }
    Throwable cause = status.getCause();
    String detail = cause == null || cause.getMessage() == null ? "" : " (" + firstLine(cause.getMessage()) + ")";
    return firstLine(said) + detail;
  }

  private static String firstLine(String text) {
    return text.lines().findFirst().orElse("");
  }
}
