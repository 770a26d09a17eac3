package io.fencepost.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.sun.net.httpserver.HttpServer;
import io.fencepost.client.testing.FencepostServer;
import io.grpc.Server;
import io.grpc.netty.shaded.io.grpc.netty.NettyServerBuilder;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.regex.Pattern;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** Addresses at which something else listens, each with a real socket. TLS is in {@link TlsTest}. */
@Timeout(90)
class DiagnosisTest {
  /** A call that could wait for longer is ended at once if waiting changes nothing. */
  private static final Duration WAIT = Duration.ofSeconds(60);

  private static FencepostException acquireFailure(String address) {
    try (FencepostClient client = FencepostClient.connect(address)) {
      return assertThrows(FencepostException.class, () -> client.acquire("wrong").waitFor(WAIT).get());
    }
  }

  private static FencepostException readFailure(String address) {
    try (FencepostClient client = FencepostClient.connect(address)) {
      return assertThrows(FencepostException.class, () -> client.get("wrong"));
    }
  }

  private static void assertPermanent(String address, String why) {
    assertPermanentLike(address, Pattern.quote(why));
  }

  private static void assertPermanentLike(String address, String pattern) {
    String expected = Pattern.quote("no server could be reached: " + address + " ") + pattern;
    long before = System.nanoTime();
    for (FencepostException failure : new FencepostException[] {acquireFailure(address), readFailure(address)}) {
      assertEquals(UnavailableException.class, failure.getClass());
      assertTrue(failure.getMessage().matches(expected), failure.getMessage());
    }
    assertTrue(System.nanoTime() - before < Timing.RETRY_FOR, "nothing was repeated until the time was over");
  }

  /** The pattern of a text with this pattern in place of its braces. */
  private static String like(String text, String pattern) {
    return Pattern.quote(text).replace("{}", "\\E" + pattern + "\\Q");
  }

  /** The calls are repeated, side by side. */
  private static void assertTransient(String address, String why) throws Exception {
    CompletableFuture<FencepostException> read = CompletableFuture.supplyAsync(() -> readFailure(address));
    try (FencepostClient client = FencepostClient.connect(address)) {
      FencepostException acquire = assertThrows(FencepostException.class, () -> client.acquire("wrong").get());
      assertEquals("no server could be reached: " + address + why, acquire.getMessage());
      assertEquals(UnavailableException.class, acquire.getClass());
    }
    assertEquals("no server could be reached: " + address + why, read.get().getMessage());
  }

  private static String freeAddress() throws IOException {
    try (ServerSocket free = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
      return "127.0.0.1:" + free.getLocalPort();
    }
  }

  @Test
  void nothing() throws Exception {
    assertTransient(freeAddress(), ": connection refused");
  }

  @Test
  void aSocketFileThatIsNotThere(@TempDir Path folder) throws Exception {
    assertTransient("unix:" + folder.resolve("none.sock"), ": no such file or directory");
  }

  @Test
  void theAdminPort() throws Exception {
    String admin = freeAddress();
    try (FencepostServer server = FencepostServer.start("--admin-listen", admin)) {
      for (FencepostException failure : new FencepostException[] {acquireFailure(admin), readFailure(admin)}) {
        assertEquals(RefusedException.class, failure.getClass());
        assertEquals(admin + " " + Facts.NOT_FENCEPOST, failure.getMessage());
        assertEquals("UNIMPLEMENTED", ((RefusedException) failure).code());
      }
      // Another server of the client is tried before.
      try (FencepostClient client = FencepostClient.connect(admin, server.address())) {
        client.acquire("right").get().release();
        assertEquals("right", client.get("right").name());
        client.watch("right", event -> {}).started().toCompletableFuture().join();
      }
    }
  }

  @Test
  void anotherGrpcServer() throws Exception {
    InetSocketAddress free = new InetSocketAddress(InetAddress.getLoopbackAddress(), 0);
    Server other = NettyServerBuilder.forAddress(free).build().start();
    try {
      String address = "127.0.0.1:" + other.getPort();
      assertEquals(address + " " + Facts.NOT_FENCEPOST, acquireFailure(address).getMessage());
      assertEquals(address + " " + Facts.NOT_FENCEPOST, readFailure(address).getMessage());
    } finally {
      other.shutdownNow();
    }
  }

  @Test
  void aWebServer() throws Exception {
    HttpServer web = HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), 0);
    web.start();
    try {
      // 400 if the beginning of HTTP/2 arrives in pieces.
      assertPermanentLike("127.0.0.1:" + web.getAddress().getPort(),
          like(Facts.NOT_GRPC_OTHER, "\"HTTP/1\\.1 (404 Not Found|400 Bad Request)\""));
    } finally {
      web.stop(0);
    }
  }

  @Test
  void redis() throws Exception {
    try (Redis redis = Redis.start()) {
      String address = redis.url().substring("redis://".length());
      String message = acquireFailure(address).getMessage();
      String start = "no server could be reached: " + address + " does not speak gRPC (it sent \"-ERR unknown command";
      assertTrue(message.startsWith(start), message);
      assertEquals(message, readFailure(address).getMessage());
    }
  }

  private static void close(Socket socket) {
    try {
      socket.close();
    } catch (IOException gone) {
      // The client has closed it.
    }
  }

  /** Accepts connections and sends bytes, or nothing, until it is closed. */
  static ServerSocket listen(byte[] bytes, boolean closes) throws IOException {
    ServerSocket listener = new ServerSocket(0, 50, InetAddress.getLoopbackAddress());
    Thread thread = new Thread(() -> {
      // A socket that nothing refers to is closed by the garbage collector, and what the client has not read is lost.
      List<Socket> open = new ArrayList<>();
      try {
        while (true) {
          Socket socket = listener.accept();
          open.add(socket);
          if (closes) {
            socket.getInputStream().read(new byte[24]);
            socket.close();
          } else {
            socket.getOutputStream().write(bytes);
          }
        }
      } catch (IOException closed) {
        // The end of the test.
      }
      open.forEach(DiagnosisTest::close);
    });
    thread.setDaemon(true);
    thread.start();
    return listener;
  }

  @Test
  void bytesThatAreNotText() throws Exception {
    try (ServerSocket binary = listen(new byte[] {(byte) 0xff, 1, 2, 3, 4, 5, 6, 7, 8, 9}, false)) {
      assertPermanent("127.0.0.1:" + binary.getLocalPort(),
          Facts.NOT_GRPC_OTHER.replace("{}", Facts.NOT_GRPC_BYTES));
    }
  }

  @Test
  void aTlsAlert() throws Exception {
    try (ServerSocket tls = listen(new byte[] {0x15, 3, 3, 0, 2, 2, 70}, false)) {
      assertPermanent("127.0.0.1:" + tls.getLocalPort(), Facts.NOT_GRPC_TLS_ALERT);
    }
  }

  @Test
  void aPortThatSaysNothing() throws Exception {
    try (ServerSocket silent = listen(new byte[] {}, false)) {
      assertTransient("127.0.0.1:" + silent.getLocalPort(), " " + Facts.NOT_GRPC_SILENT);
    }
  }

  @Test
  void aPortThatClosesConnections() throws Exception {
    try (ServerSocket closing = listen(new byte[] {}, true)) {
      assertTransient("127.0.0.1:" + closing.getLocalPort(), " " + Facts.NOT_GRPC_CLOSED_PLAIN);
    }
  }

  @Test
  void eachServerThatWasTriedIsNamed() throws Exception {
    byte[] greeting = "220 mail.example\r\n".getBytes(StandardCharsets.US_ASCII);
    try (ServerSocket binary = listen(greeting, false);
        Redis redis = Redis.start()) {
      String mail = "127.0.0.1:" + binary.getLocalPort();
      String store = redis.url().substring("redis://".length());
      String message = acquireFailure(mail + "," + store).getMessage();
      String start = "no server could be reached: " + mail + " does not speak gRPC (it sent \"220 mail.example\"); "
          + store + " does not speak gRPC (it sent \"-ERR";
      assertTrue(message.startsWith(start), message);
      assertEquals(message, readFailure(mail + "," + store).getMessage());
    }
  }
}
