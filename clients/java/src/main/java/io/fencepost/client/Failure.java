package io.fencepost.client;

import com.google.protobuf.Any;
import com.google.protobuf.InvalidProtocolBufferException;
import com.google.rpc.BadRequest;
import com.google.rpc.ErrorInfo;
import com.google.rpc.RetryInfo;
import io.fencepost.v1.OperationError;
import io.grpc.Status;
import io.grpc.StatusException;
import io.grpc.protobuf.StatusProto;
import java.nio.channels.UnresolvedAddressException;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.regex.Pattern;
import javax.net.ssl.SSLException;
import javax.net.ssl.SSLHandshakeException;

/** A transmission that failed: what the server said, or why the server could not be reached. */
record Failure(
    Status.Code code,
    String reason,
    String message,
    List<FieldViolation> violations,
    long retryDelay,
    Throwable cause) {
  /** The reasons of UNAVAILABLE that say that nothing was done. */
  private static final Set<String> NOTHING_DONE =
      Set.of("STORE_UNAVAILABLE", "STORE_OVERLOADED", "TOO_LATE", "PLACE_LOST", "REQUEST_TOO_SLOW", "DRAINING");

  /** What gRPC adds to the description of a broken connection, which tells users nothing. */
  private static final String NETTY_PIPELINE = "\nChannel Pipeline: ";

  /** What Netty says of a connection that ended during the handshake, such as that of a server that stops. */
  private static final String NETTY_HANDSHAKE_CUT = "Connection closed while SSL/TLS handshake";

  /** The alerts with which a server refuses the certificate of a client, or the lack of one. */
  private static final Pattern ALERT =
      Pattern.compile("alert.*(certificate|unknown_ca|access_denied)", Pattern.CASE_INSENSITIVE);

  private static final Pattern ALERT_REQUIRED =
      Pattern.compile("alert.*certificate_required", Pattern.CASE_INSENSITIVE);

  /** What gRPC says of an address that {@link HostNames} could not resolve. */
  private static final String GRPC_UNRESOLVED = "unresolved address";

  static Failure of(OperationError error) {
    return of(Status.fromCodeValue(error.getCode()).getCode(), error.getMessage(), error.getDetailsList(), null);
  }

  static Failure of(Status status, io.grpc.Metadata trailers) {
    StatusException exception = status.asException(trailers);
    com.google.rpc.Status details = StatusProto.fromThrowable(exception);
    String message = status.getDescription() == null ? "" : status.getDescription();
    if (status.getCause() instanceof UnresolvedAddressException) {
      message = message.replace(GRPC_UNRESOLVED, "the host name cannot be resolved");
    }
    int pipeline = message.indexOf(NETTY_PIPELINE);
    message = pipeline < 0 ? message : message.substring(0, pipeline);
    for (Throwable cause = status.getCause(); cause != null; cause = cause.getCause()) {
      if (cause.getMessage() != null && !message.contains(cause.getMessage())) {
        message += (message.isEmpty() ? "" : ": ") + cause.getMessage();
      }
    }
    if (ALERT_REQUIRED.matcher(message).find()) {
      message += "; the server asks for a client certificate: name its files with Tls.certificateFiles";
    }
    return of(status.getCode(), message, details == null ? List.of() : details.getDetailsList(), exception);
  }

  static Failure local(Status.Code code, String message) {
    return of(code, message, List.of(), null);
  }

  private static Failure of(Status.Code code, String message, List<Any> details, Throwable cause) {
    String reason = "";
    long delay = 0;
    List<FieldViolation> violations = new ArrayList<>();
    for (Any detail : details) {
      try {
        if (detail.is(ErrorInfo.class)) {
          ErrorInfo info = detail.unpack(ErrorInfo.class);
          reason = info.getDomain().equals(Facts.ERROR_DOMAIN) ? info.getReason() : reason;
        } else if (detail.is(RetryInfo.class)) {
          delay = Wire.nanos(detail.unpack(RetryInfo.class).getRetryDelay());
        } else if (detail.is(BadRequest.class)) {
          for (BadRequest.FieldViolation field : detail.unpack(BadRequest.class).getFieldViolationsList()) {
            violations.add(new FieldViolation(field.getField(), field.getDescription()));
          }
        }
      } catch (InvalidProtocolBufferException malformed) {
        // The code decides what is done; a malformed detail only explains less.
      }
    }
    return new Failure(code, reason, message, List.copyOf(violations), delay, cause);
  }

  /** Names the server that could not be reached. What a server said itself stays as it is. */
  Failure at(ServerAddress address) {
    boolean local = code == Status.Code.UNAVAILABLE && reason.isEmpty();
    return local ? new Failure(code, reason, address + ": " + message, violations, retryDelay, cause) : this;
  }

  /** Whether the same call may succeed later, here or on another server. */
  boolean isTransient() {
    return switch (code) {
      case UNAVAILABLE, DEADLINE_EXCEEDED, CANCELLED, INTERNAL, UNKNOWN -> true;
      case RESOURCE_EXHAUSTED -> !reason.isEmpty();
      case ABORTED -> is("OVERTAKEN");
      default -> false;
    };
  }

  /** Whether the server says that the call had no effect. */
  boolean hadNoEffect() {
    return !isTransient() || code == Status.Code.RESOURCE_EXHAUSTED || NOTHING_DONE.contains(reason);
  }

  boolean is(String reason) {
    return this.reason.equals(reason);
  }

  /** Whether the call was refused by TLS, which repeating does not change until somebody changes certificates. */
  boolean isTls() {
    for (Throwable at = cause; at != null; at = at.getCause()) {
      String text = at.getMessage() == null ? "" : at.getMessage();
      if ((at instanceof SSLHandshakeException && !text.startsWith(NETTY_HANDSHAKE_CUT))
          || (at instanceof SSLException && ALERT.matcher(text).find())
          || at instanceof java.security.cert.CertificateException
          || at instanceof TlsFileException) {
        return true;
      }
    }
    return false;
  }

  RefusedException refused() {
    return new RefusedException(code.name(), reason, message, violations, cause);
  }
}
