package io.fencepost.client;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;

/** A holder in a process of its own. */
final class Child {
  /** With a wait, a lease that is over on arrival, because the machine is busy, is followed by another request. */
  private static final Duration WAIT = Duration.ofSeconds(60);

  private Child() {}

  /**
   * {@code hold ADDRESS}: holds a lock, and prints whether it is valid for each line read. {@code exit ADDRESS}: ends
   * while it holds. {@code wait ADDRESS}: waits for a lock. {@code environment}: acquires on the servers that the
   * environment names. {@code names ADDRESS}: as hold, with a longer TTL. {@code hook ADDRESS}: holds a lock until it
   * is asked to end, and then releases it.
   */
  public static void main(String[] arguments) throws IOException {
    boolean named = arguments.length > 1;
    FencepostClient client = named ? FencepostClient.connect(arguments[1]) : FencepostClient.create();
    if (arguments[0].equals("wait")) {
      System.out.println("waiting");
      client.acquire("child").waitFor(WAIT).get();
      return;
    }
    Duration ttl = Duration.ofSeconds(arguments[0].equals("names") ? 10 : 1);
    FencedLock lock = client.acquire("child").ttl(ttl).waitFor(WAIT).get();
    if (arguments[0].equals("hook")) {
      Runtime.getRuntime().addShutdownHook(new Thread(client::close));
    }
    System.out.println(lock.token());
    if (arguments[0].equals("exit") || arguments[0].equals("environment")) {
      return; // without closing anything
    }
    BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    while (input.readLine() != null) {
      System.out.println(lock.isValid());
    }
  }
}
