package io.fencepost.client;

import java.util.List;

/** The server refused the call, which did nothing: correct the request or the configuration. */
public final class RefusedException extends FencepostException {
  private static final long serialVersionUID = 1L;

  /** The name of the gRPC code. */
  private final String code;

  /** The server's reason. */
  private final String reason;

  private final transient List<FieldViolation> violations;

  RefusedException(String code, String reason, String message, List<FieldViolation> violations, Throwable cause) {
    super(message, cause);
    this.code = code;
    this.reason = reason;
    this.violations = violations;
  }

  /**
   * The gRPC code.
   *
   * @return the name of the code, such as {@code INVALID_ARGUMENT}
   */
  public String code() {
    return code;
  }

  /**
   * The server's reason, as the manual of the API lists them.
   *
   * @return the reason, such as {@code QUEUE_FULL}; empty if the server gave none
   */
  public String reason() {
    return reason;
  }

  /**
   * The fields of the request that break a rule.
   *
   * @return the fields and the rules; empty unless the code is {@code INVALID_ARGUMENT}
   */
  public List<FieldViolation> violations() {
    return violations == null ? List.of() : violations;
  }
}
