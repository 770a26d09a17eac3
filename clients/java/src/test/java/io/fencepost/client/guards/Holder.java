package io.fencepost.client.guards;

import io.fencepost.client.FencedLock;
import io.fencepost.client.FencepostClient;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.sql.SQLException;
import java.time.Duration;

/** The holder that is stopped: a process that takes a lock and writes when it is told to, valid or not. */
final class Holder {
  /** Short, because the test waits until it is over. */
  private static final Duration TTL = Duration.ofSeconds(1);

  /** With a wait, a lease that is over on arrival, because the machine is busy, is followed by another request. */
  private static final Duration WAIT = Duration.ofSeconds(60);

  private Holder() {}

  /**
   * {@code KIND URL SERVER}: acquires the lock that its first line of input names, and prints its token. Then it writes
   * the value of each line, {@code guarded VALUE} or {@code unguarded VALUE}, and prints {@code written} or the two
   * tokens of a refusal; for {@code valid} it prints whether the lock is held.
   */
  public static void main(String[] arguments) throws IOException, SQLException {
    try (GuardedStore store = GuardedStore.of(arguments[0], arguments[1]);
        FencepostClient client = FencepostClient.connect(arguments[2])) {
      BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
      FencedLock lock = client.acquire(input.readLine()).ttl(TTL).waitFor(WAIT).get();
      System.out.println(lock.token());
      for (String line = input.readLine(); line != null; line = input.readLine()) {
        System.out.println(answer(store, lock, line.split(" ", 2)));
      }
    }
  }

  private static String answer(GuardedStore store, FencedLock lock, String[] words) throws SQLException {
    if (words[0].equals("valid")) {
      return "" + lock.isValid();
    }
    try {
      if (words[0].equals("guarded")) {
        store.write(lock, words[1]);
      } else {
        store.writeWithoutGuard(words[1]);
      }
      return "written";
    } catch (StaleTokenException stale) {
      return "stale " + stale.token() + " " + stale.newest();
    }
  }
}
