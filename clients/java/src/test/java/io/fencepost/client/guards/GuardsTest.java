package io.fencepost.client.guards;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.fencepost.client.FencedLock;
import io.fencepost.client.FencepostClient;
import io.fencepost.client.JavaProcess;
import io.fencepost.client.LeaseEnd;
import io.fencepost.client.testing.FencepostServer;
import java.nio.file.Path;
import java.sql.Connection;
import java.sql.DriverManager;
import java.time.Duration;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/**
 * In each store: a holder is stopped past its lease, another one writes, and then the first one goes on and writes.
 * With the guard the late write is refused; without it, it goes through.
 */
@Timeout(120)
class GuardsTest {
  private static Stores stores;
  private static FencepostServer server;

  @BeforeAll
  static void start() throws Exception {
    stores = Stores.start();
    server = FencepostServer.start("--ttl-min", "100ms");
  }

  @AfterAll
  static void stop() throws Exception {
    server.close();
    stores.close();
  }

  private static void check(String name, String kind, String url) throws Exception {
    try (GuardedStore store = GuardedStore.of(kind, url);
        FencepostClient client = FencepostClient.connect(server.address())) {
      store.create();
      try (JavaProcess stopped = JavaProcess.start(Holder.class, kind, url, server.address())) {
        stopped.send(name);
        long token = Long.parseLong(stopped.line());
        assertEquals("written", stopped.ask("guarded first"));
        assertEquals("written", stopped.ask("guarded again"), "the same grant may write more than once");
        stopped.pause();
        try (FencedLock next = client.acquire(name).waitFor(Duration.ofSeconds(60)).get()) {
          assertEquals(LeaseEnd.EXPIRED, next.previousEnd());
          assertTrue(next.token() > token);
          store.write(next, "second");
          // The command is in the pipe before the process goes on: it writes before it can learn anything.
          stopped.send("guarded late");
          stopped.resume();
          assertEquals("stale " + token + " " + next.token(), stopped.line());
          assertEquals("second", store.read());
          assertEquals("written", stopped.ask("unguarded late"));
          assertEquals("late", store.read(), "the control: without the guard the late write goes through");
          assertEquals("false", stopped.ask("valid"));
        }
      }
    }
  }

  @Test
  void postgres() throws Exception {
    check("orders/postgres", "postgres", stores.postgres());
  }

  @Test
  void mariadb() throws Exception {
    check("orders/märia", "mysql", stores.mariadb());
  }

  @Test
  void mariadbCountingMatchedRows() throws Exception {
    check("orders/matched", "mysql", stores.mariadb() + "&useAffectedRows=false");
  }

  @Test
  void sqlite(@TempDir Path folder) throws Exception {
    String url = "jdbc:sqlite:" + folder.resolve("orders.db") + "?transaction_mode=IMMEDIATE&busy_timeout=10000";
    check("orders/sqlite", "sqlite", url);
  }

  @Test
  void redisWithJedis() throws Exception {
    check("orders/jedis", "jedis", stores.redis());
  }

  @Test
  void redisWithLettuce() throws Exception {
    check("orders/lettuce", "lettuce", stores.redis());
  }

  @Test
  void aStaleTokenIsRefusedWithBothTokens(@TempDir Path folder) throws Exception {
    try (Connection connection = DriverManager.getConnection("jdbc:sqlite:" + folder.resolve("a.db"))) {
      JdbcGuard guard = JdbcGuard.sqlite();
      guard.createTable(connection);
      connection.setAutoCommit(false);
      guard.raise(connection, "a", 2, "second");
      StaleTokenException stale =
          assertThrows(StaleTokenException.class, () -> guard.raise(connection, "a", 1, "first"));
      assertEquals("a", stale.name());
      assertEquals(1, stale.token());
      assertEquals(2, stale.newest());
      guard.raise(connection, "b", 1, "first"); // another lock has a fence of its own
    }
  }

  @Test
  void withoutATransactionTheGuardRefuses(@TempDir Path folder) throws Exception {
    try (Connection connection = DriverManager.getConnection("jdbc:sqlite:" + folder.resolve("a.db"))) {
      assertThrows(IllegalStateException.class, () -> JdbcGuard.sqlite().raise(connection, "a", 1, "grant"));
    }
  }
}
