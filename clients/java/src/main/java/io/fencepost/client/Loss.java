package io.fencepost.client;

/**
 * The loss of a lock. Stop the work that the lock protects: another holder may have the lock.
 *
 * @param name the lock's name
 * @param token the fencing token of the lost lease
 * @param reason why it was lost
 * @param successorToken the token of the lease that holds the lock now; 0 if there is none, or if it is not known
 */
public record Loss(String name, long token, LossReason reason, long successorToken) {
  /** Describes the loss in one sentence. */
  @Override
  public String toString() {
    String why =
        switch (reason) {
          case EXPIRED -> Facts.LOST_EXPIRED;
          case REVOKED -> Facts.LOST_REVOKED;
          case SUPERSEDED -> Facts.LOST_SUPERSEDED;
          case UNKNOWN -> Facts.LOST_UNKNOWN;
          case SILENCE -> Facts.LOST_SILENCE;
          case MAX_HOLD -> Facts.LOST_MAX_HOLD;
          case RELEASED -> Facts.LOST_RELEASED;
        };
    String successor = successorToken == 0 ? "" : "; token " + successorToken + " holds it now";
    return name + " (token " + token + ") is lost: " + why + successor;
  }
}
