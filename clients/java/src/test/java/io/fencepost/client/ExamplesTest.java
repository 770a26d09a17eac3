package io.fencepost.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.fencepost.client.testing.FencepostServer;
import java.io.IOException;
import java.nio.file.Path;
import java.util.Map;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** Runs the programs of the folder examples; WorkerTest there is a test of its own. */
@Timeout(90)
class ExamplesTest {
  private static FencepostServer server;

  @BeforeAll
  static void start() throws Exception {
    server = FencepostServer.start();
  }

  @AfterAll
  static void stop() {
    server.close();
  }

  private static JavaProcess example(String program, String... arguments) throws IOException {
    return JavaProcess.start(Map.of(Facts.ENVIRONMENT_SERVER, server.address()), program, arguments);
  }

  @Test
  void worker() throws Exception {
    try (FencepostClient client = FencepostClient.connect(server.address());
        FencedLock busy = client.acquire("jobs/report").get();
        JavaProcess worker = example("Worker", "report", "invoices")) {
      assertTrue(worker.line().contains(busy.holder()));
      for (int step = 1; step <= 3; step++) {
        assertTrue(worker.line().startsWith("invoices: step " + step + " with token "));
      }
      assertTrue(worker.ends());
    }
  }

  @Test
  void leader() throws Exception {
    try (JavaProcess first = example("Leader");
        JavaProcess second = example("Leader")) {
      for (int round = 1; round <= 3; round++) {
        assertTrue(first.line().endsWith(", round " + round));
        assertTrue(second.line().endsWith(", round " + round));
      }
      assertTrue(first.ends() && second.ends());
    }
  }

  @Test
  void ship(@TempDir Path folder) throws Exception {
    String database = "jdbc:sqlite:" + folder.resolve("orders.db");
    try (JavaProcess first = example("Ship", database)) {
      assertEquals("order 42 is shipped", first.line());
      assertTrue(first.ends());
    }
    try (JavaProcess second = example("Ship", database)) {
      assertEquals("order 42 was shipped before", second.line());
      assertTrue(second.ends());
    }
  }
}
