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
          case EXPIRED -> "the lease expired";
          case REVOKED -> "the lease was revoked";
          case SUPERSEDED -> "another lease was granted since";
          case UNKNOWN -> "the server does not know the lease";
          case SILENCE -> "its validity ended before a renewal arrived";
          case RELEASED -> "it was released";
        };
    String successor = successorToken == 0 ? "" : "; the lock is held with token " + successorToken;
    return "lock \"" + name + "\" (token " + token + ") lost: " + why + successor;
  }
}
