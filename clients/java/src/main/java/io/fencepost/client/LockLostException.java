package io.fencepost.client;

/**
 * The lock is no longer held, so another holder may have it. Work that was done since the loss is protected by its
 * fencing token only.
 */
public final class LockLostException extends FencepostException {
  private static final long serialVersionUID = 1L;

  /** The lock's name. */
  private final String name;

  /** The token of the lost lease. */
  private final long token;

  /** Why it was lost. */
  private final LossReason reason;

  /** The token of the next lease, or 0. */
  private final long successorToken;

  /**
   * Of a lock that was lost.
   *
   * @param loss the loss
   */
  public LockLostException(Loss loss) {
    this(loss, loss.toString());
  }

  /**
   * Of a lock that is used after this process released it.
   *
   * @param name the lock's name
   * @param token the token of its lease
   * @return the exception, with the reason {@link LossReason#RELEASED}
   */
  public static LockLostException released(String name, long token) {
    String message = name + " (token " + token + ") is not held any more: this process has released it";
    return new LockLostException(new Loss(name, token, LossReason.RELEASED, 0), message);
  }

  private LockLostException(Loss loss, String message) {
    super(message, null);
    this.name = loss.name();
    this.token = loss.token();
    this.reason = loss.reason();
    this.successorToken = loss.successorToken();
  }

  /**
   * The loss.
   *
   * @return the loss
   */
  public Loss loss() {
    return new Loss(name, token, reason, successorToken);
  }

  /**
   * Why the lock was lost.
   *
   * @return the reason
   */
  public LossReason reason() {
    return reason;
  }

  /**
   * The fencing token of the lease that holds the lock now.
   *
   * @return the token; 0 if there is none, or if it is not known
   */
  public long successorToken() {
    return successorToken;
  }
}
