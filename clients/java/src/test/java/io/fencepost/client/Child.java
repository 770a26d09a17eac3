package io.fencepost.client;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.concurrent.TimeUnit;

/** A JVM of its own, to be paused or ended by tests. */
final class Child {
  private Child() {}

  /** A running child. */
  record Running(Process process, BufferedReader output) implements AutoCloseable {
    static Running start(String... arguments) throws IOException {
      java.util.List<String> command = new java.util.ArrayList<>(java.util.List.of(
          System.getProperty("java.home") + "/bin/java", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
          "-cp", System.getProperty("java.class.path"), Child.class.getName()));
      command.addAll(java.util.List.of(arguments));
      Process process = new ProcessBuilder(command).redirectError(ProcessBuilder.Redirect.INHERIT).start();
      Runtime.getRuntime().addShutdownHook(new Thread(process::destroyForcibly));
      return new Running(process, new BufferedReader(
          new InputStreamReader(process.getInputStream(), StandardCharsets.UTF_8)));
    }

    String line() throws IOException {
      return output.readLine();
    }

    void signal(String signal) throws IOException, InterruptedException {
      new ProcessBuilder("kill", "-" + signal, "" + process.pid()).start().waitFor();
    }

    boolean ends() throws InterruptedException {
      return process.waitFor(5, TimeUnit.SECONDS);
    }

    @Override
    public void close() {
      process.destroyForcibly();
    }
  }

  /** {@code hold}: holds a lock, and prints whether it is valid for each line read. {@code exit}: ends while holding. */
  public static void main(String[] arguments) throws IOException {
    FencepostClient client = FencepostClient.connect(arguments[1]);
    if (arguments[0].equals("wait")) {
      System.out.println("waiting");
      client.acquire("child").waitFor(Duration.ofSeconds(60)).get();
      return;
    }
    FencedLock lock = client.acquire("child").ttl(Duration.ofSeconds(1)).get();
    System.out.println(lock.token());
    if (arguments[0].equals("exit")) {
      return; // without closing anything
    }
    BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    while (input.readLine() != null) {
      System.out.println(lock.isValid());
    }
  }
}
