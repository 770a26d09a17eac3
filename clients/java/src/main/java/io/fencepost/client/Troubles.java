package io.fencepost.client;

import io.grpc.Status;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.Collectors;

/** The last failure of each server that was tried, until one works. */
final class Troubles {
  private final Map<Integer, Failure> last = new TreeMap<>();

  void add(int server, Failure failure) {
    last.put(server, failure);
  }

  void clear() {
    last.clear();
  }

  /** Whether trying again changes nothing: each of so many servers has failed for good. */
  boolean isHopeless(int servers) {
    return last.size() == servers && last.values().stream().allMatch(Failure::permanent);
  }

  /** All of them as one, of {@code latest} if it is an answer of a server. */
  Failure with(Failure latest) {
    List<Failure> unreachable = last.values().stream().filter(Failure::isLocal).toList();
    if (!latest.isLocal() || unreachable.isEmpty()) {
      return latest;
    }
    String message = unreachable.stream().map(Failure::message).collect(Collectors.joining("; "));
    boolean foreign = unreachable.stream().allMatch(failure -> failure.code() == Status.Code.UNIMPLEMENTED);
    Status.Code code = foreign ? Status.Code.UNIMPLEMENTED : Status.Code.UNAVAILABLE;
    boolean permanent = unreachable.stream().allMatch(Failure::permanent);
    return new Failure(code, "", message, List.of(), latest.retryDelay(), latest.cause(), true, permanent);
  }

  /** All of them as one. */
  Failure all() {
    Failure none = Failure.local(Status.Code.UNAVAILABLE, "none has answered in time");
    return with(last.values().stream().reduce((first, second) -> second).orElse(none));
  }
}
