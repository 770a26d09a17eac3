package io.fencepost.client.testing;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;

/**
 * A real Fencepost server for tests: a child process on a free port of the loopback interface, with the memory store
 * unless options say otherwise.
 *
 * <pre>{@code
 * try (FencepostServer server = FencepostServer.start();
 *     FencepostClient client = FencepostClient.connect(server.address())) {
 *   ...
 * }
 * }</pre>
 *
 * <p>The program is the one that the environment variable {@code FENCEPOST_BIN} names, else {@code fencepost} on the
 * {@code PATH}.
 */
public final class FencepostServer implements AutoCloseable {
  private static final String PROGRAM_VARIABLE = "FENCEPOST_BIN";

  /** How long a start may take on a busy machine. */
  private static final Duration START_TIMEOUT = Duration.ofSeconds(30);

  /** How often the port file is read during the start. */
  private static final long POLL_MILLIS = 5;

  private final Process process;
  private final Path folder;
  private final String address;

  private FencepostServer(Process process, Path folder, String address) {
    this.process = process;
    this.folder = folder;
    this.address = address;
  }

  /**
   * Starts a server and waits until it serves.
   *
   * @param options further options of {@code fencepost serve}, such as {@code --ttl-min} and {@code 50ms}
   * @return the server; close it
   * @throws IOException if it cannot be started; the message has what it wrote to its standard error
   * @throws InterruptedException if the thread is interrupted
   */
  public static FencepostServer start(String... options) throws IOException, InterruptedException {
    Path folder = Files.createTempDirectory("fencepost-server");
    Path portFile = folder.resolve("port");
    Path log = folder.resolve("log");
    List<String> command = new ArrayList<>(List.of(
        program(), "serve", "--listen", "127.0.0.1:0", "--admin-listen", "none", "--port-file", portFile.toString()));
    command.addAll(List.of(options));
    Process process = new ProcessBuilder(command)
        .redirectOutput(ProcessBuilder.Redirect.DISCARD)
        .redirectError(log.toFile())
        .start();
    // A JVM that ends without closing the server does not leave it behind.
    Thread stop = new Thread(process::destroyForcibly);
    Runtime.getRuntime().addShutdownHook(stop);
    long until = System.nanoTime() + START_TIMEOUT.toNanos();
    while (!Files.exists(portFile)) {
      boolean ended = process.waitFor(POLL_MILLIS, TimeUnit.MILLISECONDS);
      if (ended || System.nanoTime() - until > 0) {
        process.destroyForcibly().waitFor();
        String output = Files.readString(log);
        delete(folder);
        throw new IOException("the server did not start: " + output);
      }
    }
    return new FencepostServer(process, folder, "127.0.0.1:" + port(portFile));
  }

  private static String program() {
    String named = System.getenv(PROGRAM_VARIABLE);
    return named == null || named.isEmpty() ? "fencepost" : named;
  }

  /** The file holds the port, or host and port. */
  private static String port(Path file) throws IOException {
    String text = Files.readString(file).strip();
    return text.substring(text.lastIndexOf(':') + 1);
  }

  /**
   * The server's address.
   *
   * @return host and port, for {@link io.fencepost.client.FencepostClient#connect}
   */
  public String address() {
    return address;
  }

  /**
   * The process, to pause it, to kill it or to read its id.
   *
   * @return the process
   */
  public Process process() {
    return process;
  }

  /** Kills the server and waits for its end. Locks in the memory store are gone. */
  @Override
  public void close() {
    process.destroyForcibly();
    try {
      process.waitFor();
      delete(folder);
    } catch (InterruptedException interrupted) {
      Thread.currentThread().interrupt();
    } catch (IOException left) {
      System.getLogger("io.fencepost.client").log(System.Logger.Level.WARNING, "files of the server are left", left);
    }
  }

  private static void delete(Path folder) throws IOException {
    Files.deleteIfExists(folder.resolve("port"));
    Files.deleteIfExists(folder.resolve("log"));
    Files.deleteIfExists(folder);
  }
}
