package io.fencepost.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.fencepost.client.testing.FencepostServer;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.time.Duration;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** Names and proxies, with the settings of a whole JVM, so in one of its own. */
@Timeout(90)
class NamesTest {
  /** A name whose spellings fit into a file of hosts: the JVM's reader of that file wants the exact one. */
  private static final String NAME = "locks";

  private static void point(Path hosts, String address) throws IOException {
    StringBuilder line = new StringBuilder(address);
    for (int change = 0; change < 1 << NAME.length(); change++) {
      line.append(' ');
      for (int at = 0; at < NAME.length(); at++) {
        char c = NAME.charAt(at);
        line.append((change >> at & 1) == 0 ? c : Character.toUpperCase(c));
      }
    }
    Path next = hosts.resolveSibling("next");
    Files.writeString(next, line + "\n");
    Files.move(next, hosts, StandardCopyOption.REPLACE_EXISTING);
  }

  /** The JVM keeps the old address for 30 s, and the lock lasts 10 s. */
  @Test
  void aServerThatMovesToAnotherAddressCostsNoLock(@TempDir Path folder) throws Exception {
    Path hosts = folder.resolve("hosts");
    point(hosts, "127.0.0.2");
    try (Redis redis = Redis.start();
        FencepostServer old = FencepostServer.start("--store", redis.url(), "--listen", "127.0.0.2:0")) {
      String port = old.address().substring(old.address().lastIndexOf(':'));
      Map<String, String> environment = Map.of("JAVA_TOOL_OPTIONS", "-Djdk.net.hosts.file=" + hosts);
      try (JavaProcess child = JavaProcess.start(environment, Child.class.getName(), "names", NAME + port);
          FencepostServer moved = FencepostServer.start("--store", redis.url(), "--listen", "127.0.0.3" + port);
          FencepostClient other = FencepostClient.connect(moved.address())) {
        String token = child.line();
        old.process().destroyForcibly().waitFor();
        point(hosts, "127.0.0.3");
        LockRequest longer = other.acquire("child").waitFor(Duration.ofSeconds(13));
        assertThrows(TimedOutException.class, longer::get);
        assertEquals("true", child.ask("valid?"));
        assertEquals(token, "" + other.get("child").newestToken());
      }
    }
  }

  @Test
  void noProxyIsObeyed() throws Exception {
    // Port 1 is reserved: nothing listens there.
    StringBuilder options = new StringBuilder("-Djava.net.useSystemProxies=true");
    for (String kind : new String[] {"http.proxy", "https.proxy", "socksProxy", "grpc.proxy"}) {
      options.append(" -D").append(kind).append("Host=127.0.0.1 -D").append(kind).append("Port=1");
    }
    options.append(" -Dhttp.nonProxyHosts= -DsocksNonProxyHosts=");
    String dead = "http://127.0.0.1:1";
    try (FencepostServer server = FencepostServer.start("--listen", "127.0.0.2:0")) {
      Map<String, String> environment = Map.of(
          "JAVA_TOOL_OPTIONS", options.toString(), "http_proxy", dead, "https_proxy", dead, "grpc_proxy", dead,
          "all_proxy", dead, "GRPC_PROXY_EXP", "127.0.0.1:1", "no_proxy", "");
      try (JavaProcess child = JavaProcess.start(environment, Child.class.getName(), "names", server.address())) {
        assertTrue(Long.parseLong(child.line()) > 0);
        assertEquals("true", child.ask("valid?"));
      }
    }
  }
}
