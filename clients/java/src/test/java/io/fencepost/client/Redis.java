package io.fencepost.client;

import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.TimeUnit;

/** A real Redis on a free port, without files. */
public final class Redis implements AutoCloseable {
  /** Another process may take a free port before Redis listens there. Then the next one is tried. */
  private static final int PORTS_MAX = 5;

  private final Process process;
  private final int port;

  private Redis(Process process, int port) {
    this.process = process;
    this.port = port;
  }

  public static Redis start() throws IOException, InterruptedException {
    for (int n = 0; n < PORTS_MAX; n++) {
      Redis redis = startOn(freePort());
      if (redis != null) {
        return redis;
      }
    }
    throw new IOException("redis-server does not start");
  }

  private static int freePort() throws IOException {
    try (ServerSocket free = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
      return free.getLocalPort();
    }
  }

  /** Returns null if the process ended, because another one took the port. */
  private static Redis startOn(int port) throws IOException, InterruptedException {
    String program = System.getenv().getOrDefault("FENCEPOST_REDIS_SERVER", "redis-server");
    Process process = new ProcessBuilder(
            program, "--port", "" + port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no")
        .redirectOutput(ProcessBuilder.Redirect.DISCARD)
        .redirectError(ProcessBuilder.Redirect.DISCARD)
        .start();
    Runtime.getRuntime().addShutdownHook(new Thread(process::destroyForcibly));
    while (!isProcess(port, process.pid())) {
      if (process.waitFor(5, TimeUnit.MILLISECONDS)) {
        return null;
      }
    }
    return new Redis(process, port);
  }

  /** Whether the Redis at this port is this process. */
  private static boolean isProcess(int port, long pid) {
    try (Socket socket = new Socket(InetAddress.getLoopbackAddress(), port)) {
      socket.getOutputStream().write("INFO server\r\nQUIT\r\n".getBytes(StandardCharsets.US_ASCII));
      String info = new String(socket.getInputStream().readAllBytes(), StandardCharsets.US_ASCII);
      return info.contains("process_id:" + pid + "\r\n");
    } catch (IOException notYet) {
      return false;
    }
  }

  public String url() {
    return "redis://127.0.0.1:" + port;
  }

  @Override
  public void close() {
    process.destroyForcibly();
  }
}
