package io.fencepost.client.testing;

import java.io.IOException;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.NoSuchElementException;
import java.util.concurrent.TimeUnit;

/**
 * A real Fencepost server for tests: a child process on a free port of the loopback interface, with the memory store
 * unless options say otherwise. It fails when it is told to.
 *
 * <pre>{@code
 * try (FencepostServer server = FencepostServer.start();
 *     FencepostClient client = FencepostClient.connect(server.address())) {
 *   FencedLock lock = client.acquire("orders/42").get();
 *   server.lose("orders/42");
 *   lock.lost().toCompletableFuture().get();
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
  private final Thread hook;
  private String address;

  /** Null if options named a store: a server with a store that lasts takes no orders to fail. */
  private Faults faults;

  private FencepostServer(Process process, Path folder) {
    this.process = process;
    this.folder = folder;
    // A JVM that ends without closing the server does not leave it behind.
    this.hook = new Thread(process::destroyForcibly);
    Runtime.getRuntime().addShutdownHook(hook);
  }

  /**
   * Starts a server and waits until it serves.
   *
   * @param options further options of {@code fencepost serve}, such as {@code --ttl-min} and {@code 50ms}; {@code
   *     --listen} and an address replaces the free port, {@code --admin-listen} the lack of an admin port, {@code
   *     --store} the memory store
   * @return the server; close it
   * @throws IOException if it cannot be started; the message has what it wrote to its standard error
   * @throws InterruptedException if the thread is interrupted
   */
  public static FencepostServer start(String... options) throws IOException, InterruptedException {
    Path folder = Files.createTempDirectory("fencepost-server");
    Path portFile = folder.resolve("port");
    Path log = folder.resolve("log");
    List<String> command = new ArrayList<>(List.of(program(), "serve"));
    if (!List.of(options).contains("--listen")) {
      command.addAll(List.of("--listen", "127.0.0.1:0"));
    }
    if (!List.of(options).contains("--admin-listen")) {
      command.addAll(List.of("--admin-listen", "none"));
    }
    boolean inMemory = !List.of(options).contains("--store");
    if (inMemory) {
      command.addAll(List.of("--store", "memory:", "--test-faults", "127.0.0.1:0"));
    }
    command.addAll(List.of("--admin-service", "everywhere"));
    command.addAll(List.of("--port-file", portFile.toString()));
    command.addAll(List.of(options));
    Process process;
    try {
      process = new ProcessBuilder(command)
          .redirectOutput(ProcessBuilder.Redirect.DISCARD)
          .redirectError(log.toFile())
          .start();
    } catch (IOException missing) {
      delete(folder);
      throw missing;
    }
    FencepostServer server = new FencepostServer(process, folder);
    try {
      server.awaitStart(portFile, log);
      List<String> addresses = Files.readAllLines(portFile);
      server.address = addresses.get(0);
      server.faults = inMemory ? new Faults(addresses.get(addresses.size() - 1)) : null;
      return server;
    } catch (IOException | InterruptedException failed) {
      server.close();
      throw failed;
    }
  }

  private void awaitStart(Path portFile, Path log) throws IOException, InterruptedException {
    long until = System.nanoTime() + START_TIMEOUT.toNanos();
    while (!Files.exists(portFile)) {
      boolean ended = process.waitFor(POLL_MILLIS, TimeUnit.MILLISECONDS);
      if (ended || System.nanoTime() - until > 0) {
        throw new IOException("the server did not start: " + Files.readString(log));
      }
    }
  }

  private static String program() {
    String named = System.getenv(PROGRAM_VARIABLE);
    return named == null || named.isEmpty() ? "fencepost" : named;
  }

  /**
   * The server's address.
   *
   * @return host and port, or {@code unix:} and a path, for {@link io.fencepost.client.FencepostClient#connect}; a
   *     server with a certificate needs {@code https://} in front
   */
  public String address() {
    return address;
  }

  /**
   * Stops the process ({@code SIGSTOP}): connections stay open, and nobody answers from then on.
   *
   * @throws IOException if the system has no command {@code kill}
   * @throws InterruptedException if the thread is interrupted
   */
  public void pause() throws IOException, InterruptedException {
    signal("-STOP");
    // On a busy machine, threads run on for a moment after the signal.
    Path threads = Path.of("/proc", Long.toString(process.pid()), "task");
    while (process.isAlive() && Files.isDirectory(threads) && !areStopped(threads)) {
      process.waitFor(1, TimeUnit.MILLISECONDS);
    }
  }

  private static boolean areStopped(Path threads) throws IOException {
    try (DirectoryStream<Path> all = Files.newDirectoryStream(threads)) {
      for (Path thread : all) {
        String stat = Files.readString(thread.resolve("stat"));
        if (!stat.substring(stat.lastIndexOf(')') + 1).startsWith(" T")) {
          return false;
        }
      }
    }
    return true;
  }

  /**
   * Ends a pause.
   *
   * @throws IOException if the system has no command {@code kill}
   * @throws InterruptedException if the thread is interrupted
   */
  public void resume() throws IOException, InterruptedException {
    signal("-CONT");
  }

  /**
   * Revokes the lease of a lock, as an operator does.
   *
   * @param name the lock's name
   * @throws NoSuchElementException if nobody holds the lock
   * @throws IllegalArgumentException if no lock can have the name
   * @throws IllegalStateException if the server was started with {@code --store}
   * @throws IOException if the server does not answer; it is paused, perhaps
   * @throws InterruptedException if the thread is interrupted
   */
  public void lose(String name) throws IOException, InterruptedException {
    faults().order("/lose", name);
  }

  /**
   * The next acquire, release or renewal of a single lease that succeeds takes effect, but its answer is lost, and all
   * connections with it: clients have to ask again. Each call loses one answer.
   *
   * @throws IllegalStateException if the server was started with {@code --store}
   * @throws IOException if the server does not answer; it is paused, perhaps
   * @throws InterruptedException if the thread is interrupted
   */
  public void dropReply() throws IOException, InterruptedException {
    faults().order("/drop-reply", "");
  }

  private Faults faults() {
    if (faults == null) {
      throw new IllegalStateException("a server that was started with --store does not fail when it is told to");
    }
    return faults;
  }

  private void signal(String signal) throws IOException, InterruptedException {
    int status = new ProcessBuilder("kill", signal, Long.toString(process.pid())).inheritIO().start().waitFor();
    if (status != 0) {
      throw new IOException("kill " + signal + " failed with status " + status);
    }
  }

  /**
   * The process, to kill it or to read its id.
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
      Runtime.getRuntime().removeShutdownHook(hook);
    } catch (IllegalStateException shutdown) {
      // The hook runs already.
    }
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
