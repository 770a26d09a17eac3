package io.fencepost.client;

import java.util.List;

/**
 * Several locks were released together, and the release of some is not confirmed; the cause says why for the first one.
 * They are free after their TTL at the latest, and the others have ended.
 */
public final class NotAllReleasedException extends FencepostException {
  private static final long serialVersionUID = 1L;

  /** The locks whose release is not confirmed. */
  private final transient List<String> names;

  NotAllReleasedException(List<String> names, FencepostException cause) {
    super("the release of " + String.join(", ", names) + " is not confirmed: " + cause.getMessage(), cause);
    this.names = List.copyOf(names);
  }

  /**
   * The locks whose release is not confirmed.
   *
   * @return their names
   */
  public List<String> names() {
    return names == null ? List.of() : names;
  }
}
