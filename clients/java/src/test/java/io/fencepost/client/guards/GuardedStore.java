package io.fencepost.client.guards;

import io.fencepost.client.FencedLock;
import io.lettuce.core.RedisClient;
import io.lettuce.core.ScriptOutputType;
import io.lettuce.core.api.sync.RedisCommands;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.List;
import redis.clients.jedis.JedisPooled;

/** What the holders of a lock do with a store: they write one value, through the guard or without it. */
interface GuardedStore extends AutoCloseable {
  /** Prepares the store. */
  void create() throws SQLException;

  void write(FencedLock lock, String value) throws SQLException;

  void writeWithoutGuard(String value) throws SQLException;

  String read() throws SQLException;

  @Override
  default void close() {}

  /** {@code kind} names the store and the driver. */
  static GuardedStore of(String kind, String url) {
    return switch (kind) {
      case "postgres" -> new Sql(JdbcGuard.postgres(), url);
      case "mysql" -> new Sql(JdbcGuard.mysql(), url);
      case "sqlite" -> new Sql(JdbcGuard.sqlite(), url);
      case "jedis" -> new Jedis(new JedisPooled(url));
      case "lettuce" -> new Lettuce(RedisClient.create(url));
      default -> throw new IllegalArgumentException(kind);
    };
  }

  /** A row of a table, over JDBC. */
  record Sql(JdbcGuard guard, String url) implements GuardedStore {
    @Override
    public void create() throws SQLException {
      try (Connection connection = DriverManager.getConnection(url);
          Statement statement = connection.createStatement()) {
        guard.createTable(connection);
        guard.createTable(connection); // the second time it does nothing
        statement.execute("DROP TABLE IF EXISTS orders");
        statement.execute("CREATE TABLE orders (id INT PRIMARY KEY, state VARCHAR(20))");
        statement.execute("INSERT INTO orders VALUES (1, 'new')");
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
      try (PreparedStatement statement = connection.prepareStatement("UPDATE orders SET state = ? WHERE id = 1")) {
        statement.setString(1, value);
        if (statement.executeUpdate() != 1) {
          throw new SQLException("there is no order");
        }
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

  /** The script that both Redis clients run, and its keys: the fence and the value, in one slot. */
  RedisGuard REDIS = new RedisGuard("return redis.call('SET', KEYS[2], ARGV[3])");

  /** A key of Redis, with Jedis. */
  record Jedis(JedisPooled redis) implements GuardedStore {
    @Override
    public void create() {
      redis.set("{jedis}", "new");
    }

    @Override
    public void write(FencedLock lock, String value) {
      REDIS.run(lock, "{jedis}:fence", List.of("{jedis}"), List.of(value), redis::eval);
    }

    @Override
    public void writeWithoutGuard(String value) {
      redis.set("{jedis}", value);
    }

    @Override
    public String read() {
      return redis.get("{jedis}");
    }

    @Override
    public void close() {
      redis.close();
    }
  }

  /** A key of Redis, with Lettuce. */
  record Lettuce(RedisClient client, RedisCommands<String, String> redis) implements GuardedStore {
    Lettuce(RedisClient client) {
      this(client, client.connect().sync());
    }

    @Override
    public void create() {
      redis.set("{lettuce}", "new");
    }

    @Override
    public void write(FencedLock lock, String value) {
      RedisGuard.Eval<String> eval = (script, keys, arguments) -> redis.eval(
          script, ScriptOutputType.STATUS, keys.toArray(String[]::new), arguments.toArray(String[]::new));
      REDIS.run(lock, "{lettuce}:fence", List.of("{lettuce}"), List.of(value), eval);
    }

    @Override
    public void writeWithoutGuard(String value) {
      redis.set("{lettuce}", value);
    }

    @Override
    public String read() {
      return redis.get("{lettuce}");
    }

    @Override
    public void close() {
      client.shutdown();
    }
  }
}
