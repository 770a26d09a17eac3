package io.fencepost.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.fencepost.client.testing.FencepostServer;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** Each form of address, with a real server that listens there. */
@Timeout(60)
class AddressTest {
  private static void works(String address) {
    try (FencepostClient client = FencepostClient.connect(address);
        FencedLock lock = client.acquire("address").get();
        Watch watch = client.watch("address", event -> {})) {
      watch.started().toCompletableFuture().join();
      CompletableFuture<Loss> lost = lock.lost().toCompletableFuture();
      assertEquals(lock.token(), client.get("address").newestToken());
      assertTrue(lock.isValid() && !lost.isDone());
      assertEquals(LeaseEnd.RELEASED, lock.release());
    }
  }

  @Test
  void aUnixSocket(@TempDir Path folder) throws Exception {
    Path socket = folder.resolve("fencepost.sock");
    try (FencepostServer server = FencepostServer.start("--listen", "unix:" + socket)) {
      assertEquals("unix:" + socket, server.address());
      works("unix:" + socket);
      works("unix://" + socket);
    }
  }

  @Test
  void anIpv6Address() throws Exception {
    try (FencepostServer server = FencepostServer.start("--listen", "[::1]:0")) {
      assertTrue(server.address().startsWith("[::1]:"), server.address());
      works(server.address());
      works("http://" + server.address() + "/");
    }
  }

  @Test
  void aName() throws Exception {
    try (FencepostServer server = FencepostServer.start()) {
      works("localhost:" + server.address().substring(server.address().lastIndexOf(':') + 1));
    }
  }

  @Test
  void aNameThatCannotBeResolved() throws Exception {
    // The top-level domain is reserved for names that do not exist.
    String nowhere = "nowhere.invalid:7420";
    try (FencepostServer server = FencepostServer.start();
        FencepostClient both = FencepostClient.connect(nowhere, server.address());
        FencepostClient alone = FencepostClient.connect(nowhere);
        Logs logs = new Logs()) {
      CompletableFuture<?> acquire = alone.acquire("nowhere").getAsync();
      CompletableFuture<?> read = CompletableFuture.supplyAsync(() -> alone.get("nowhere"));
      // The call and the session of this client move on to the next server.
      assertTrue(both.get("nowhere").holders().isEmpty());
      assertEquals(LeaseEnd.RELEASED, both.acquire("nowhere").get().release());
      for (CompletableFuture<?> repeated : List.of(acquire, read)) {
        ExecutionException failed = assertThrows(ExecutionException.class, repeated::get);
        assertTrue(failed.getMessage().endsWith(nowhere + ": the host name cannot be resolved"), failed.getMessage());
      }
      assertEquals(List.of(), logs.warnings());
    }
  }

  @Test
  void theEnvironmentNamesTheServers() throws Exception {
    try (FencepostServer server = FencepostServer.start()) {
      // The first one does not answer: port 1 is reserved.
      Map<String, String> environment = Map.of(Facts.ENVIRONMENT_SERVER, "127.0.0.1:1, " + server.address());
      try (JavaProcess child = JavaProcess.start(environment, Child.class.getName(), "environment");
          FencepostClient client = FencepostClient.connect(server.address())) {
        assertEquals(child.line(), "" + client.get("child").newestToken());
        assertTrue(child.ends());
      }
    }
  }
}
