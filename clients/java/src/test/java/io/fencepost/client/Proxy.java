package io.fencepost.client;

import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.io.UncheckedIOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.util.ArrayList;
import java.util.List;

/** A TCP proxy in front of a server, which can go silent or close its connections when a reply comes. */
public final class Proxy implements AutoCloseable {
  public enum Mode {
    FORWARD,
    /** Nothing passes in either direction, and nothing is closed. */
    SILENT,
    /** The next bytes from the server are dropped, and all connections are closed. Then it forwards again. */
    CUT_NEXT_REPLY
  }

  private final ServerSocket listener = new ServerSocket(0, 50, InetAddress.getLoopbackAddress());
  private final String host;
  private final int port;
  private final List<Socket> sockets = new ArrayList<>();
  private Mode mode = Mode.FORWARD;

  /** Connections up to this one are silent for good: new ones work. */
  private int silentUpTo;
  private int accepted;

  public Proxy(String address) throws IOException {
    host = address.substring(0, address.lastIndexOf(':'));
    port = Integer.parseInt(address.substring(address.lastIndexOf(':') + 1));
    start(this::accept);
  }

  public String address() {
    return "127.0.0.1:" + listener.getLocalPort();
  }

  public synchronized void mode(Mode next) {
    mode = next;
    notifyAll();
  }

  /** What is open falls silent and is not closed, as in a network that has forgotten it. New connections work. */
  public synchronized void silenceOpen() {
    silentUpTo = accepted;
  }

  private void accept() throws IOException {
    while (true) {
      Socket client = listener.accept();
      Socket server = new Socket(host, port);
      client.setTcpNoDelay(true);
      server.setTcpNoDelay(true);
      int number;
      synchronized (this) {
        sockets.add(client);
        sockets.add(server);
        number = ++accepted;
      }
      start(() -> pump(number, client, server, false));
      start(() -> pump(number, server, client, true));
    }
  }

  private void pump(int number, Socket from, Socket to, boolean reply) throws IOException {
    try (from; to) {
      InputStream in = from.getInputStream();
      OutputStream out = to.getOutputStream();
      byte[] bytes = new byte[8192];
      for (int n = in.read(bytes); n >= 0; n = in.read(bytes)) {
        if (!passes(number, reply)) {
          return;
        }
        out.write(bytes, 0, n);
      }
    }
  }

  /** Blocks while the proxy is silent. */
  private synchronized boolean passes(int number, boolean reply) throws IOException {
    while (mode == Mode.SILENT || number <= silentUpTo) {
      try {
        wait();
      } catch (InterruptedException interrupted) {
        return false;
      }
    }
    if (reply && mode == Mode.CUT_NEXT_REPLY) {
      mode = Mode.FORWARD;
      for (Socket socket : sockets) {
        socket.close();
      }
      sockets.clear();
      return false;
    }
    return true;
  }

  private interface Work {
    void run() throws IOException;
  }

  private static void start(Work work) {
    Thread thread = new Thread(() -> {
      try {
        work.run();
      } catch (IOException closed) {
        // The end of a connection, or of the proxy.
      }
    });
    thread.setDaemon(true);
    thread.start();
  }

  @Override
  public synchronized void close() {
    try {
      listener.close();
      for (Socket socket : sockets) {
        socket.close();
      }
    } catch (IOException failed) {
      throw new UncheckedIOException(failed);
    }
  }
}
