package io.fencepost.client;

import java.util.List;

/**
 * Several locks were asked for together, and one of them was not acquired, or was lost before the last one was. All
 * others were given back. The cause says why: it is a {@link ContendedException}, a {@link TimedOutException}, a {@link
 * LockLostException} or another exception of {@link LockRequest#get()}.
 */
public final class NotAllAcquiredException extends FencepostException {
  private static final long serialVersionUID = 1L;

  /** The lock that was not acquired, or that was lost. */
  private final String name;

  /** The locks that were given back. */
  private final transient List<String> givenBack;

  NotAllAcquiredException(int count, String name, FencepostException cause, List<String> givenBack) {
    super(message(count, name, cause, givenBack), cause);
    this.name = name;
    this.givenBack = List.copyOf(givenBack);
  }

  private static String message(int count, String name, FencepostException cause, List<String> givenBack) {
    String back = givenBack.isEmpty() ? "none was held" : "given back: " + String.join(", ", givenBack);
    return "the " + count + " locks were not acquired, because of " + name + ": " + cause.getMessage() + "; " + back;
  }

  /**
   * The lock that was not acquired, or that was lost.
   *
   * @return its name
   */
  public String name() {
    return name;
  }

  /**
   * The locks that were acquired and given back, in this order. If no server has confirmed that, the client goes on to
   * release them in the background.
   *
   * @return their names
   */
  public List<String> givenBack() {
    return givenBack == null ? List.of() : givenBack;
  }
}
