package io.fencepost.client.guards;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;

import io.fencepost.client.FencedLock;
import io.fencepost.client.FencepostClient;
import io.fencepost.client.Proxy;
import io.fencepost.client.testing.FencepostServer;
import java.nio.file.Path;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.time.Duration;
import java.util.List;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import redis.clients.jedis.JedisPooled;

/**
 * In each store: a holder that was cut off past its lease writes late. With the guard it is refused, without it the
 * write goes through.
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

  /** What both holders do with a store. */
  private interface Store {
    void write(FencedLock lock, String value) throws SQLException;

    void writeWithoutGuard(String value) throws SQLException;

    String read() throws SQLException;
  }

  private static void check(String name, Store store) throws Exception {
    try (Proxy proxy = new Proxy(server.address());
        FencepostClient one = FencepostClient.connect(proxy.address());
        FencepostClient two = FencepostClient.connect(server.address())) {
      FencedLock stopped = one.acquire(name).ttl(Duration.ofMillis(500)).get();
      store.write(stopped, "first");
      store.write(stopped, "first again"); // the same grant may write more than once
      proxy.mode(Proxy.Mode.SILENT);
      try (FencedLock next = two.acquire(name).waitFor(Duration.ofSeconds(30)).get()) {
        store.write(next, "second");
        assertFalse(stopped.isValid());
        StaleTokenException stale =
            assertThrows(StaleTokenException.class, () -> store.write(stopped, "late"));
        assertEquals(name, stale.name());
        assertEquals(stopped.token(), stale.token());
        assertEquals(next.token(), stale.newest());
        assertEquals("second", store.read());
        store.writeWithoutGuard("late");
        assertEquals("late", store.read(), "the control: without the guard the late write goes through");
      }
    }
  }

  private record Sql(JdbcGuard guard, String url) implements Store {
    Sql {
      try (Connection connection = DriverManager.getConnection(url);
          Statement statement = connection.createStatement()) {
        guard.createTable(connection);
        guard.createTable(connection); // the second time it does nothing
        statement.execute("DROP TABLE IF EXISTS orders");
        statement.execute("CREATE TABLE orders (id INT PRIMARY KEY, state VARCHAR(20))");
        statement.execute("INSERT INTO orders VALUES (1, 'new')");
      } catch (SQLException failed) {
        throw new AssertionError(failed);
      }
    }

    @Override
    public void write(FencedLock lock, String value) throws SQLException {
      try (Connection connection = DriverManager.getConnection(url)) {
        connection.setAutoCommit(false);
        try {
          guard.raise(connection, lock);
          update(connection, value);
          connection.commit();
        } catch (StaleTokenException stale) {
          connection.rollback();
          throw stale;
        }
      }
    }

    @Override
    public void writeWithoutGuard(String value) throws SQLException {
      try (Connection connection = DriverManager.getConnection(url)) {
        update(connection, value);
      }
    }

    private static void update(Connection connection, String value) throws SQLException {
      try (var statement = connection.prepareStatement("UPDATE orders SET state = ? WHERE id = 1")) {
        statement.setString(1, value);
        assertEquals(1, statement.executeUpdate());
      }
    }

    @Override
    public String read() throws SQLException {
      try (Connection connection = DriverManager.getConnection(url);
          Statement statement = connection.createStatement();
          ResultSet row = statement.executeQuery("SELECT state FROM orders WHERE id = 1")) {
        row.next();
        return row.getString(1);
      }
    }
  }

  @Test
  void postgres() throws Exception {
    check("orders/postgres", new Sql(JdbcGuard.postgres(), stores.postgres()));
  }

  @Test
  void mariadb() throws Exception {
    check("orders/märia", new Sql(JdbcGuard.mysql(), stores.mariadb()));
  }

  @Test
  void mariadbCountingMatchedRows() throws Exception {
    String url = stores.mariadb() + "&useAffectedRows=false";
    check("orders/matched", new Sql(JdbcGuard.mysql(), url));
  }

  @Test
  void sqlite(@TempDir Path folder) throws Exception {
    String url = "jdbc:sqlite:" + folder.resolve("orders.db") + "?transaction_mode=IMMEDIATE&busy_timeout=10000";
    check("orders/sqlite", new Sql(JdbcGuard.sqlite(), url));
  }

  @Test
  void redis() throws Exception {
    RedisGuard guard = new RedisGuard("return redis.call('SET', KEYS[2], ARGV[3])");
    try (JedisPooled jedis = new JedisPooled(stores.redis())) {
      check("orders/redis", new Store() {
        @Override
        public void write(FencedLock lock, String value) {
          guard.run(lock, "{orders/redis}:fence", List.of("{orders/redis}"), List.of(value), jedis::eval);
        }

        @Override
        public void writeWithoutGuard(String value) {
          jedis.set("{orders/redis}", value);
        }

        @Override
        public String read() {
          return jedis.get("{orders/redis}");
        }
      });
    }
  }

  @Test
  void withoutATransactionTheGuardRefuses(@TempDir Path folder) throws Exception {
    try (Connection connection = DriverManager.getConnection("jdbc:sqlite:" + folder.resolve("a.db"))) {
      assertThrows(IllegalStateException.class, () -> JdbcGuard.sqlite().raise(connection, "a", 1, "grant"));
    }
  }
}
