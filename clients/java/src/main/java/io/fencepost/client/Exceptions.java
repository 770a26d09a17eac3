package io.fencepost.client;

import java.util.concurrent.ExecutionException;

/** Passes exceptions on from futures to callers. */
final class Exceptions {
  private Exceptions() {}

  /** The cause, with the stack trace of the caller rather than that of the thread that read the answer. */
  static FencepostException rethrown(ExecutionException failed) {
    if (failed.getCause() instanceof FencepostException exception) {
      exception.setStackTrace(callerOf(new Throwable().getStackTrace()));
      return exception;
    }
    return new FencepostException("the client failed: " + failed.getCause(), failed.getCause());
  }

  private static StackTraceElement[] callerOf(StackTraceElement[] trace) {
    return java.util.Arrays.copyOfRange(trace, 1, trace.length);
  }
}
