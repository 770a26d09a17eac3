package io.fencepost.client.guards;

import io.fencepost.client.FencepostException;

/** The store has seen a newer token: another holder has written since. Nothing may be written; roll back. */
public final class StaleTokenException extends FencepostException {
  private static final long serialVersionUID = 1L;

  /** The lock's name. */
  private final String name;

  /** The refused token. */
  private final long token;

  /** The store's token. */
  private final long newest;

  StaleTokenException(String name, long token, long newest) {
    super("token " + token + " of " + name + " is stale: the store has seen " + newest, null);
    this.name = name;
    this.token = token;
    this.newest = newest;
  }

  /**
   * The lock's name.
   *
   * @return the name
   */
  public String name() {
    return name;
  }

  /**
   * The refused token.
   *
   * @return the token of the caller's lock
   */
  public long token() {
    return token;
  }

  /**
   * The newest token that the store has seen. If the caller does hold the lock, because the server's store lost data,
   * acquire it again with {@link io.fencepost.client.LockRequest#minToken minToken(newest + 1)}.
   *
   * @return the token
   */
  public long newest() {
    return newest;
  }
}
