package io.fencepost.readers;

import java.io.File;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/** A process that serves a contender on a free port of this machine. */
final class Server implements AutoCloseable {
  private static final long START_MAX_NANOS = TimeUnit.SECONDS.toNanos(60);

  /** Ticks of the processor times in /proc, in a second: the same on all machines with Linux. */
  private static final double TICKS = 100;

  private final String name;
  private final Process process;
  private final int port;
  private Path folder;

  /** A process that another class has started, and ends. */
  Server(String name, Process process, int port) {
    this.name = name;
    this.process = process;
    this.port = port;
  }

  /** Redis that writes nothing to the disk. */
  static Server redis() throws IOException, InterruptedException {
    int port = freePort();
    Path folder = Files.createTempDirectory("fencepost-readers");
    return start("Redis", port, folder, Map.of(), "redis-server", "--bind", "127.0.0.1", "--port", "" + port,
        "--save", "", "--appendonly", "no", "--dir", folder.toString());
  }

  /** ZooKeeper with its data in a temporary folder; without {@code sync}, it does not wait for its disk. */
  static Server zookeeper(boolean sync) throws IOException, InterruptedException {
    int port = freePort();
    Path folder = Files.createTempDirectory("fencepost-readers");
    Path settings = folder.resolve("zoo.cfg");
    Files.writeString(settings, String.join("\n", "tickTime=2000", "dataDir=" + folder, "clientPort=" + port,
        "clientPortAddress=127.0.0.1", "maxClientCnxns=0", "admin.enableServer=false", ""));
    Map<String, String> variables = Map.of("JMXDISABLE", "true", "ZOO_LOG_DIR", folder.toString(),
        "SERVER_JVMFLAGS", "-Dzookeeper.forceSync=" + (sync ? "yes" : "no"));
    return start("ZooKeeper", port, folder, variables,
        System.getenv("ZK_SERVER"), "start-foreground", settings.toString());
  }

  private static Server start(String name, int port, Path folder, Map<String, String> variables, String... command)
      throws IOException, InterruptedException {
    File log = folder.resolve("log").toFile();
    ProcessBuilder builder = new ProcessBuilder(command).redirectErrorStream(true).redirectOutput(log);
    builder.environment().putAll(variables);
    Server server = new Server(name, builder.start(), port);
    server.folder = folder;
    // A JVM that ends early leaves neither the process nor its data behind.
    Runtime.getRuntime().addShutdownHook(new Thread(server::close));
    long until = System.nanoTime() + START_MAX_NANOS;
    while (!isOpen(port)) {
      if (server.process.waitFor(20, TimeUnit.MILLISECONDS) || System.nanoTime() - until > 0) {
        throw new IOException(name + " did not start: " + Files.readString(log.toPath()));
      }
    }
    return server;
  }

  private static int freePort() throws IOException {
    try (ServerSocket socket = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
      return socket.getLocalPort();
    }
  }

  private static boolean isOpen(int port) {
    try (Socket socket = new Socket()) {
      socket.connect(new InetSocketAddress(InetAddress.getLoopbackAddress(), port), 1000);
      return true;
    } catch (IOException closed) {
      return false;
    }
  }

  String name() {
    return name;
  }

  int port() {
    return port;
  }

  /** The processor time so far, in seconds. */
  double cpuSeconds() throws IOException {
    String line = Files.readString(Path.of("/proc/" + process.pid() + "/stat"));
    String[] fields = line.substring(line.lastIndexOf(')') + 2).split(" ");
    return (Long.parseLong(fields[11]) + Long.parseLong(fields[12])) / TICKS;
  }

  /** The time that all processors of the machine have worked so far, in seconds. */
  static double machineSeconds() throws IOException {
    String[] fields = Files.readString(Path.of("/proc/stat")).lines().findFirst().orElseThrow().split(" +");
    long busy = 0;
    for (int n = 1; n <= 8; n++) {
      busy += n == 4 || n == 5 ? 0 : Long.parseLong(fields[n]); // but for idle and iowait
    }
    return busy / TICKS;
  }

  /** Calls of each command so far, those inside of scripts included. Of Redis only. */
  Map<String, Long> commands() throws IOException, InterruptedException {
    Process asked = new ProcessBuilder("redis-cli", "-p", "" + port, "INFO", "commandstats").start();
    try (Stream<String> lines = new String(asked.getInputStream().readAllBytes()).lines()) {
      return lines.filter(line -> line.startsWith("cmdstat_"))
          .map(line -> line.substring("cmdstat_".length()).split("[:=,]"))
          .collect(Collectors.toMap(words -> words[0], words -> Long.parseLong(words[2])));
    } finally {
      asked.waitFor();
    }
  }

  @Override
  public void close() {
    if (folder == null || !Files.exists(folder)) {
      return;
    }
    process.destroyForcibly();
    try (Stream<Path> paths = Files.walk(folder)) {
      process.waitFor(10, TimeUnit.SECONDS);
      for (Path path : paths.sorted(Comparator.reverseOrder()).toList()) {
        Files.delete(path);
      }
    } catch (IOException | InterruptedException left) {
      System.err.println(folder + " could not be deleted: " + left.getMessage());
    }
  }

  static List<Double> cpuSeconds(List<Server> servers) throws IOException {
    List<Double> seconds = new ArrayList<>();
    for (Server server : servers) {
      seconds.add(server.cpuSeconds());
    }
    return seconds;
  }
}
