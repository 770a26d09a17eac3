package io.fencepost.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.fencepost.client.testing.FencepostServer;
import io.grpc.Server;
import io.grpc.netty.shaded.io.grpc.netty.NettyServerBuilder;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.time.Duration;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** TLS with certificates made on the spot: with a server that asks for a client certificate, and one that does not. */
@Timeout(90)
class TlsTest {
  @TempDir
  private static Path folder;

  private static Certificates authority;
  private static Certificates stranger;
  private static FencepostServer server;
  private static FencepostServer mutual;

  @BeforeAll
  static void start() throws Exception {
    authority = new Certificates(folder.resolve("authority"));
    stranger = new Certificates(folder.resolve("stranger"));
    Certificates.Issued issued = authority.issue("server", "DNS:localhost");
    String certificate = issued.certificate().toString();
    String key = issued.key().toString();
    String ca = authority.ca().toString();
    server = FencepostServer.start("--tls-cert", certificate, "--tls-key", key);
    mutual = FencepostServer.start("--tls-cert", certificate, "--tls-key", key, "--tls-client-ca", ca);
  }

  @AfterAll
  static void stop() {
    server.close();
    mutual.close();
  }

  /** The certificate of the servers is for this name. */
  private static String url(FencepostServer server) {
    return "https://localhost" + server.address().substring(server.address().lastIndexOf(':'));
  }

  private static FencepostClient client(FencepostServer server, Tls tls) {
    return FencepostClient.builder().servers(url(server)).tls(tls).build();
  }

  private static Tls trusting(Certificates authority) {
    return Tls.defaults().caFile(authority.ca());
  }

  private static void works(FencepostClient client) {
    try (client;
        FencedLock lock = client.acquire("tls").waitFor(Duration.ofSeconds(30)).get();
        Watch watch = client.watch("tls", event -> {})) {
      watch.started().toCompletableFuture().join();
      assertEquals(lock.token(), client.get("tls").newestToken());
    }
  }

  /** Why no server could be reached. It is known at once. */
  private static String refusal(FencepostClient client) {
    try (client) {
      long before = System.nanoTime();
      LockRequest request = client.acquire("tls").waitFor(Duration.ofSeconds(60));
      UnavailableException unavailable = assertThrows(UnavailableException.class, request::get);
      assertTrue(System.nanoTime() - before < Timing.RETRY_FOR, "it is not repeated until the time is over");
      assertEquals("", unavailable.reason());
      UnavailableException read = assertThrows(UnavailableException.class, () -> client.get("tls"));
      assertEquals(unavailable.getMessage(), read.getMessage());
      return unavailable.getMessage();
    }
  }

  private static String unreachable(String address, String why) {
    return "no server could be reached: " + address + why;
  }

  @Test
  void theServerShowsACertificate() {
    works(client(server, trusting(authority)));
  }

  @Test
  void bothSidesShowCertificates() throws Exception {
    Certificates.Issued mine = authority.issue("client", "DNS:client");
    works(client(mutual, trusting(authority).certificateFiles(mine.certificate(), mine.key())));
  }

  @Test
  void anAddressForWhichTheCertificateIsNotValidNeedsItsName() {
    String address = "https://" + server.address();
    Tls tls = trusting(authority);
    String message = refusal(FencepostClient.builder().servers(address).tls(tls).build());
    assertEquals(unreachable(address, ": " + Facts.TLS_WRONG_NAME), message);
    works(FencepostClient.builder().servers(address).tls(tls.serverName("localhost")).build());
  }

  @Test
  void aServerOfAnotherAuthorityIsNotTrusted() {
    String message = refusal(client(server, trusting(stranger)));
    assertEquals(unreachable(url(server), ": " + Facts.TLS_UNTRUSTED), message);
  }

  @Test
  void anExpiredCertificateIsNamedSo() throws Exception {
    Certificates.Issued expired = authority.issueExpired("expired", "DNS:localhost");
    // Fencepost does not start with such a certificate.
    Server old = NettyServerBuilder.forPort(0)
        .useTransportSecurity(expired.certificate().toFile(), expired.key().toFile()).build().start();
    try {
      String url = "https://localhost:" + old.getPort();
      FencepostClient client = FencepostClient.builder().servers(url).tls(trusting(authority)).build();
      assertEquals(unreachable(url, ": " + Facts.TLS_EXPIRED), refusal(client));
    } finally {
      old.shutdownNow();
    }
  }

  @Test
  void tlsAndPlainTextAreToldApart() throws Exception {
    assertEquals(
        unreachable(server.address(), " " + Facts.NOT_GRPC_CLOSED_PLAIN),
        refusal(FencepostClient.connect(server.address())));
    try (FencepostServer plain = FencepostServer.start()) {
      assertEquals(
          unreachable(url(plain), ": " + Facts.TLS_NOT_TLS), refusal(client(plain, trusting(authority))));
    }
  }

  /** A wrong certificate costs no lock: what is open goes on. */
  @Test
  void aServerThatCannotBeCalledEndsNoLock() throws Exception {
    try (FencepostClient client = FencepostClient.builder()
        .servers("https://" + server.address(), url(server)).tls(trusting(authority)).build()) {
      LockRequest request = client.acquire("moves-on").ttl(Duration.ofSeconds(3)).waitFor(Duration.ofSeconds(30));
      try (FencedLock lock = request.get()) {
        assertEquals(
            "moves-on", client.get("moves-on").name(), "the name of the first address is not in the certificate");
        assertThrows(TimedOutException.class, () -> client.acquire("moves-on").waitFor(Duration.ofSeconds(4)).get());
        assertTrue(lock.isValid());
      }
    }
  }

  @Test
  void otherClientsAreRefusedByTheServer() throws Exception {
    Certificates.Issued foreign = stranger.issue("foreign", "DNS:client");
    Tls tls = trusting(authority);
    String missing = ": " + Facts.TLS_CLIENT_CERTIFICATE_MISSING + ": name its files with Tls.certificateFiles";
    assertEquals(unreachable(url(mutual), missing), refusal(client(mutual, tls)));
    String refused = refusal(client(mutual, tls.certificateFiles(foreign.certificate(), foreign.key())));
    String alert = unreachable(url(mutual), ": " + Facts.TLS_CLIENT_CERTIFICATE_REFUSED + " (TLS alert ");
    assertTrue(refused.startsWith(alert), refused);
  }

  @Test
  void aConnectionThatEndsDuringTheHandshakeIsMadeAgain() throws Exception {
    try (Proxy proxy = new Proxy("localhost" + server.address().substring(server.address().lastIndexOf(':')));
        FencepostClient client = FencepostClient.builder()
            .servers("https://localhost" + proxy.address().substring(proxy.address().lastIndexOf(':')))
            .tls(trusting(authority))
            .build()) {
      proxy.mode(Proxy.Mode.CUT_NEXT_REPLY);
      client.acquire("cut").get().release();
    }
  }

  @Test
  void filesAreReadAgainForEachConnection() throws Exception {
    Path ca = folder.resolve("rotated.pem");
    Files.copy(stranger.ca(), ca);
    Tls tls = Tls.defaults().caFile(ca);
    try (FencepostClient client = client(server, tls)) {
      assertThrows(UnavailableException.class, () -> client.acquire("rotated").get());
      assertThrows(UnavailableException.class, () -> client.get("rotated"));
      Files.copy(authority.ca(), ca, StandardCopyOption.REPLACE_EXISTING);
      client.acquire("rotated").get().release();
      assertEquals("rotated", client.get("rotated").name());
    }
    try (FencepostClient client = client(server, tls)) {
      Files.delete(ca);
      UnavailableException missing = assertThrows(UnavailableException.class, () -> client.acquire("rotated").get());
      assertTrue(missing.getMessage().contains(ca.toString()), missing.getMessage());
    }
    IllegalArgumentException unusable = assertThrows(IllegalArgumentException.class, () -> client(server, tls));
    assertTrue(unusable.getMessage().contains(ca.toString()), unusable.getMessage());
  }

  @Test
  void tlsSettingsNeedAnAddressWithTls() {
    ClientBuilder builder = FencepostClient.builder().servers("localhost").tls(trusting(authority));
    assertThrows(IllegalArgumentException.class, builder::build);
  }

  @Test
  void theEnvironmentNamesServersAndFiles() throws Exception {
    Certificates.Issued mine = authority.issue("environment", "DNS:client");
    Map<String, String> environment = Map.of(
        Facts.ENVIRONMENT_SERVER, url(mutual),
        Facts.ENVIRONMENT_CA, authority.ca().toString(),
        Facts.ENVIRONMENT_CERT, mine.certificate().toString(),
        Facts.ENVIRONMENT_KEY, mine.key().toString());
    try (JavaProcess child = JavaProcess.start(environment, Child.class.getName(), "environment")) {
      assertTrue(Long.parseLong(child.line()) > 0);
      assertTrue(child.ends());
    }
  }

  @Test
  void aLockMovesBetweenServersWithTls() throws Exception {
    Certificates.Issued issued = authority.issue("next", "DNS:localhost");
    String certificate = issued.certificate().toString();
    String key = issued.key().toString();
    try (Redis redis = Redis.start();
        FencepostServer one =
            FencepostServer.start("--store", redis.url(), "--tls-cert", certificate, "--tls-key", key);
        FencepostServer two =
            FencepostServer.start("--store", redis.url(), "--tls-cert", certificate, "--tls-key", key);
        FencepostClient client =
            FencepostClient.builder().servers(url(one), url(two)).tls(trusting(authority)).build()) {
      FencedLock lock = client.acquire("moved").ttl(Duration.ofSeconds(5)).get();
      one.process().destroyForcibly().waitFor();
      // Longer than the lease lasts without the second server.
      CompletableFuture<Loss> lost = lock.lost().toCompletableFuture();
      assertThrows(CompletionException.class, () -> lost.orTimeout(6, TimeUnit.SECONDS).join());
      assertTrue(lock.isValid());
      assertEquals(LeaseEnd.RELEASED, lock.release());
    }
  }
}
