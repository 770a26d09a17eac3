package io.fencepost.client;

import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.charset.StandardCharsets;

/** A real Redis on a free port, without files. */
final class Redis implements AutoCloseable {
  private final Process process;
  private final int port;

  private Redis(Process process, int port) {
    this.process = process;
    this.port = port;
  }

  static Redis start() throws IOException, InterruptedException {
    int port;
    try (ServerSocket free = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
      port = free.getLocalPort();
    }
    Process process = new ProcessBuilder(
            "redis-server", "--port", "" + port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no")
        .redirectOutput(ProcessBuilder.Redirect.DISCARD)
        .redirectError(ProcessBuilder.Redirect.DISCARD)
        .start();
    Runtime.getRuntime().addShutdownHook(new Thread(process::destroyForcibly));
    while (!answers(port)) {
      if (!process.isAlive()) {
        throw new IOException("redis-server did not start");
      }
      Thread.onSpinWait();
    }
    return new Redis(process, port);
  }

  private static boolean answers(int port) {
    try (Socket socket = new Socket(InetAddress.getLoopbackAddress(), port)) {
      socket.getOutputStream().write("PING\r\n".getBytes(StandardCharsets.US_ASCII));
      return socket.getInputStream().read() == '+';
    } catch (IOException notYet) {
      return false;
    }
  }

  String url() {
    return "redis://127.0.0.1:" + port;
  }

  int port() {
    return port;
  }

  @Override
  public void close() {
    process.destroyForcibly();
  }
}
