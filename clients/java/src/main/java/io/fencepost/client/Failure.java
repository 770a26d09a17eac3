package io.fencepost.client;

import com.google.protobuf.Any;
import com.google.protobuf.InvalidProtocolBufferException;
import com.google.rpc.BadRequest;
import com.google.rpc.ErrorInfo;
import com.google.rpc.RetryInfo;
import io.fencepost.v1.OperationError;
import io.grpc.Metadata;
import io.grpc.Status;
import io.grpc.StatusException;
import io.grpc.protobuf.StatusProto;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;

/**
 * A transmission that failed: what the server said, or why the server could not be called.
 *
 * @param isLocal whether no Fencepost server has answered: the message names the server that was tried
 * @param permanent whether calling the same server again changes nothing
 */
record Failure(
    Status.Code code,
    String reason,
    String message,
    List<FieldViolation> violations,
    long retryDelay,
    Throwable cause,
    boolean isLocal,
    boolean permanent) {
  /** The reasons of UNAVAILABLE that say that nothing was done. */
  private static final Set<String> NOTHING_DONE =
      Set.of("STORE_UNAVAILABLE", "STORE_OVERLOADED", "TOO_LATE", "PLACE_LOST", "REQUEST_TOO_SLOW", "DRAINING");

  /** The reason with which a server refuses credentials that have expired. */
  static final String EXPIRED = "CREDENTIALS_EXPIRED";

  static Failure of(OperationError error) {
    return answered(
        Status.fromCodeValue(error.getCode()).getCode(), error.getMessage(), error.getDetailsList(), null);
  }

  /** The end of a call on a connection. */
  static Failure of(Status status, Metadata trailers, Connection connection) {
    StatusException exception = status.asException(trailers);
    com.google.rpc.Status details = StatusProto.fromThrowable(exception);
    Failure said = answered(
        status.getCode(),
        status.getDescription() == null ? "" : status.getDescription(),
        details == null ? List.of() : details.getDetailsList(),
        exception);
    boolean silent = switch (said.code) {
      case UNAVAILABLE, UNIMPLEMENTED, DEADLINE_EXCEEDED, CANCELLED, INTERNAL, UNKNOWN -> said.reason.isEmpty();
      default -> false;
    };
    if (!silent) {
      return said;
    }
    Diagnosis diagnosis = Diagnosis.of(connection, status);
    return new Failure(
        said.code, "", diagnosis.text(), List.of(), said.retryDelay, exception, true, diagnosis.permanent());
  }

  /** Nothing arrived on a connection in time. */
  static Failure silent(Connection connection, String what) {
    return of(Status.UNAVAILABLE.withDescription(what), new Metadata(), connection);
  }

  /** A failure of this process. */
  static Failure local(Status.Code code, String message) {
    return new Failure(code, "", message, List.of(), 0, null, true, false);
  }

  /** A server for which no connection could be prepared. */
  static Failure unusable(ServerAddress address, Throwable cause) {
    TlsFailure failure = TlsFailure.of(cause, false);
    String why = failure != null ? failure.text() : cause.getMessage() == null ? cause.toString() : cause.getMessage();
    return new Failure(
        Status.Code.UNAVAILABLE, "", address + ": " + why, List.of(), 0, cause, true, failure != null);
  }

  private static Failure answered(Status.Code code, String message, List<Any> details, Throwable cause) {
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
    String shown = message.isEmpty() ? "the server gave no reason (" + code + ")" : message;
    return new Failure(code, reason, shown, List.copyOf(violations), delay, cause, false, false);
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

  /** Whether the call may be made on another server, if not on this one. */
  boolean movesOn() {
    return isTransient() || permanent;
  }

  /** Whether the quota of the caller is used up. Each server has as much: another one is no help. */
  boolean isOverQuota() {
    return code == Status.Code.RESOURCE_EXHAUSTED && is("QUOTA_EXCEEDED");
  }

  /** Whether the server says that the call had no effect. */
  boolean hadNoEffect() {
    return !isTransient() || code == Status.Code.RESOURCE_EXHAUSTED || NOTHING_DONE.contains(reason);
  }

  boolean is(String reason) {
    return this.reason.equals(reason);
  }

  /** Whether a server answered, and another try may succeed. A server gives a reason. */
  boolean isAnswer() {
    return !isLocal && isTransient() && !reason.isEmpty();
  }

  /** The same failure, unless it is an answer, with what a server answered to an earlier transmission, or null. */
  Failure after(Failure answer) {
    if (answer == null || !isLocal) {
      return this;
    }
    String said = answer.code + " (" + answer.reason + "): " + answer.message;
    String told = message + "; " + Facts.LAST_ANSWER.replace("{}", said);
    FencepostException earlier =
        answer.hadNoEffect() ? answer.exception() : new OutcomeUnknownException(answer.message, answer.cause);
    if (cause != null) {
      earlier.addSuppressed(cause);
    }
    return new Failure(code, reason, told, violations, retryDelay, earlier, true, permanent);
  }

  /** The exception of a call that did nothing. */
  FencepostException exception() {
    boolean unreachable = isLocal && isTransient();
    if (unreachable) {
      return new UnavailableException("", "no server could be reached: " + message, permanent, cause);
    }
    if (code == Status.Code.UNAVAILABLE) {
      return new UnavailableException(reason, message, permanent, cause);
    }
    String why = reason.isEmpty() ? "" : " (" + reason + ")";
    return new RefusedException(code.name(), reason, message + why, violations, cause);
  }
}
