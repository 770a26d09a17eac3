package io.fencepost.client.guards;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.fencepost.client.Facts;
import io.fencepost.client.FencedLock;
import io.fencepost.client.FencepostClient;
import io.fencepost.client.JavaProcess;
import io.fencepost.client.LeaseEnd;
import io.fencepost.client.guards.GuardedStore.Grant;
import io.fencepost.client.testing.FakeLock;
import io.fencepost.client.testing.FencepostServer;
import java.nio.file.Path;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.Statement;
import java.time.Duration;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.function.Executable;
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

  private static void assertStale(Grant grant, long newest, Executable step) {
    StaleTokenException stale = assertThrows(StaleTokenException.class, step);
    assertEquals(grant, new Grant(stale.name(), stale.token(), grant.id()));
    assertEquals(newest, stale.newest());
  }

  /** Readers hold side by side: what they have read stays so, and a later writer ends their work. */
  private static void checkReaders(String kind, String url) throws Exception {
    try (GuardedStore store = GuardedStore.of(kind, url)) {
      store.create();
      String name = "shared/" + kind + "/ü";
      Grant writer = new Grant(name, 10, "g10");
      Grant first = new Grant(name, 11, "g11");
      Grant second = new Grant(name, 12, "g12");

      assertThrows(IllegalStateException.class, () -> store.work(second, "early"));
      store.write(writer, "written");
      IllegalStateException early = assertThrows(IllegalStateException.class, () -> store.work(second, "early"));
      String remedy = "call raiseShared once after the grant";
      assertEquals("token 12 of " + name + " was not raised: " + remedy, early.getMessage());
      for (Grant reader : List.of(second, first)) {
        store.raiseShared(reader);
        store.work(reader, reader.id());
      }
      store.raiseShared(second);
      store.work(first, "both");
      for (Grant late : List.of(writer, first, second)) {
        assertStale(late, 12, () -> store.write(late, "late"));
      }
      for (Grant late : List.of(new Grant(name, 9, "g9"), new Grant(name, 10, "another"))) {
        assertStale(late, 12, () -> store.raiseShared(late));
        assertStale(late, 12, () -> store.work(late, "late"));
      }
      assertEquals("both", store.read());

      Grant next = new Grant(name, 13, "g");
      store.write(next, "next");
      for (Grant late : List.of(first, second)) {
        assertStale(late, 13, () -> store.raiseShared(late));
        assertStale(late, 13, () -> store.work(late, "late"));
      }
      assertEquals("next", store.read());

      // A downgraded writer reads with its token, and shuts out its own late writes.
      store.raiseShared(next);
      store.work(next, "read");
      assertStale(next, 13, () -> store.write(next, "late"));
      Grant another = new Grant(name, 13, "another");
      assertStale(another, 13, () -> store.work(another, "late"));
      // An upgrade keeps the grant and draws a new token. A downgrade follows before anything is written.
      Grant upgraded = new Grant(name, Facts.TOKEN_MAX, "g");
      store.raiseShared(upgraded);
      assertStale(upgraded, Facts.TOKEN_MAX, () -> store.write(upgraded, "late"));
      store.work(next, "read again");
      assertEquals("read again", store.read());
    }
  }

  @Test
  void readersInPostgres() throws Exception {
    checkReaders("postgres", stores.postgres());
  }

  @Test
  void readersInMariadb() throws Exception {
    checkReaders("mysql", stores.mariadb());
  }

  @Test
  void readersInSqlite(@TempDir Path folder) throws Exception {
    checkReaders("sqlite", sqliteUrl(folder));
  }

  @Test
  void readersInRedisWithJedis() throws Exception {
    checkReaders("jedis", stores.redis());
  }

  @Test
  void readersInRedisWithLettuce() throws Exception {
    checkReaders("lettuce", stores.redis());
  }

  /** The holders of slots write side by side, and the next holder of a slot shuts out the one before. */
  private static void checkSlots(String kind, String url) throws Exception {
    try (GuardedStore store = GuardedStore.of(kind, url);
        FencepostClient client = FencepostClient.connect(server.address())) {
      store.create();
      String name = "semaphore/" + kind + "/ü";
      FencedLock first = client.acquire(name).semaphore(3).get();
      FencedLock second = client.acquire(name).semaphore(3).get();
      for (FencedLock holder : List.of(second, first, second, first)) {
        store.write(holder, "by " + holder.slot().orElseThrow());
      }
      first.release();
      FencedLock next = client.acquire(name).semaphore(3).get();
      assertEquals(first.slot(), next.slot());
      store.write(next, "next");
      StaleTokenException stale = assertThrows(StaleTokenException.class, () -> store.write(first, "late"));
      assertEquals(List.of(first.token(), next.token()), List.of(stale.token(), stale.newest()));
      assertEquals(name, stale.name());
      assertEquals("next", store.read());
      store.write(second, "other");
      // The lock itself has another fence.
      store.write(new Grant(name, 9, "g9"), "exclusive");
      assertEquals("exclusive", store.read());

      second.release();
      FencedLock several = client.acquire(name).semaphore(3).permits(2).get();
      IllegalArgumentException refused =
          assertThrows(IllegalArgumentException.class, () -> store.write(several, "late"));
      assertTrue(refused.getMessage().contains("take one permit each, or check the token with checkToken"));
      assertEquals("exclusive", store.read());
    }
  }

  @Test
  void slotsInPostgres() throws Exception {
    checkSlots("postgres", stores.postgres());
  }

  @Test
  void slotsInMariadb() throws Exception {
    checkSlots("mysql", stores.mariadb());
  }

  @Test
  void slotsInSqlite(@TempDir Path folder) throws Exception {
    checkSlots("sqlite", sqliteUrl(folder));
  }

  @Test
  void slotsInRedisWithJedis() throws Exception {
    checkSlots("jedis", stores.redis());
  }

  @Test
  void slotsInRedisWithLettuce() throws Exception {
    checkSlots("lettuce", stores.redis());
  }

  @Test
  void aSemaphoreHasNoReaders(@TempDir Path folder) throws Exception {
    RedisGuard.Eval<String> never = (script, keys, arguments) -> "ran";
    RedisGuard redis = new RedisGuard("return 1");
    JdbcGuard guard = JdbcGuard.sqlite();
    try (Connection connection = DriverManager.getConnection(sqliteUrl(folder));
        FencepostClient client = FencepostClient.connect(server.address())) {
      FencedLock lock = client.acquire("no readers").semaphore(2).get();
      List<Executable> steps = List.of(
          () -> guard.raiseShared(connection, lock),
          () -> guard.checkShared(connection, lock),
          () -> RedisGuard.raiseShared(lock, "fence", never),
          () -> redis.checkShared(lock, "fence", List.of(), List.of(), never));
      for (Executable step : steps) {
        String message = assertThrows(IllegalArgumentException.class, step).getMessage();
        assertTrue(message.contains("held as a semaphore, not as a shared lock"), message);
      }
      assertEquals("no readers#1", Fence.name(lock));
      assertEquals("{a}:fence#1", Fence.key(lock, "{a}:fence"));
      String name = "a".repeat(Facts.NAME_BYTES_MAX - 1);
      FencedLock tooLong = client.acquire(name).semaphore(2).get();
      assertThrows(IllegalArgumentException.class, () -> Fence.name(tooLong));
      assertEquals(name + "x", Fence.name(new FakeLock(name + "x", 1)));
    }
  }

  /** Many processes start at once, on a table of the first version or on none. */
  private static void checkCreation(JdbcGuard guard, String url) throws Exception {
    for (boolean before : List.of(true, false)) {
      try (Connection connection = DriverManager.getConnection(url);
          Statement statement = connection.createStatement()) {
        guard.createTable(connection);
        statement.execute("DROP TABLE fencepost_fences");
        if (before) {
          statement.execute("CREATE TABLE fencepost_fences (lock_name VARCHAR(512) PRIMARY KEY, token BIGINT NOT NULL, "
              + "grant_id VARCHAR(36) NOT NULL)");
          statement.execute("INSERT INTO fencepost_fences VALUES ('a', 10, 'g10')");
        }
        ExecutorService processes = Executors.newFixedThreadPool(6);
        try {
          Callable<Void> create = () -> {
            try (Connection own = DriverManager.getConnection(url)) {
              guard.createTable(own);
            }
            return null;
          };
          for (Future<Void> created : processes.invokeAll(Collections.nCopies(6, create))) {
            created.get();
          }
        } finally {
          processes.shutdown();
        }
        if (before) {
          assertThrows(StaleTokenException.class, () -> guard.raiseShared(connection, "a", 9, "g9"));
        }
        guard.raiseShared(connection, "a", 12, "g12");
        connection.setAutoCommit(false);
        guard.checkShared(connection, "a", 12, "g12");
        connection.rollback();
      }
    }
  }

  @Test
  void manyCreateTheTableInPostgres() throws Exception {
    checkCreation(JdbcGuard.postgres(), stores.postgres());
  }

  @Test
  void manyCreateTheTableInMariadb() throws Exception {
    checkCreation(JdbcGuard.mysql(), stores.mariadb());
  }

  @Test
  void manyCreateTheTableInSqlite(@TempDir Path folder) throws Exception {
    checkCreation(JdbcGuard.sqlite(), sqliteUrl(folder));
  }

  private static String sqliteUrl(Path folder) {
    return "jdbc:sqlite:" + folder.resolve("orders.db") + "?transaction_mode=IMMEDIATE&busy_timeout=10000";
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
    check("orders/sqlite", "sqlite", sqliteUrl(folder));
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
      assertThrows(IllegalStateException.class, () -> JdbcGuard.sqlite().checkShared(connection, "a", 1, "grant"));
      connection.setAutoCommit(false);
      assertThrows(IllegalStateException.class, () -> JdbcGuard.sqlite().raiseShared(connection, "a", 1, "grant"));
    }
  }
}
