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

  /** Writes with a token that came from elsewhere. */
  void write(Grant grant, String value) throws SQLException;

  /** The first step of a reader. */
  void raiseShared(Grant grant) throws SQLException;

  /** Writes in a transaction that begins with the second step of a reader. */
  void work(Grant grant, String value) throws SQLException;

  String read() throws SQLException;

  @Override
  default void close() {}

  /** What a guard compares. */
  record Grant(String name, long token, String id) {}

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

    /** The first statement of a transaction. */
    private interface First {
      void run(Connection connection) throws SQLException;
    }

    @Override
    public void write(FencedLock lock, String value) throws SQLException {
      transact(connection -> guard.raise(connection, lock), value);
    }

    @Override
    public void write(Grant grant, String value) throws SQLException {
      transact(connection -> guard.raise(connection, grant.name(), grant.token(), grant.id()), value);
    }

    @Override
    public void raiseShared(Grant grant) throws SQLException {
      try (Connection connection = DriverManager.getConnection(url)) {
        guard.raiseShared(connection, grant.name(), grant.token(), grant.id());
      }
    }

    @Override
    public void work(Grant grant, String value) throws SQLException {
      transact(connection -> guard.checkShared(connection, grant.name(), grant.token(), grant.id()), value);
    }

    private void transact(First first, String value) throws SQLException {
      try (Connection connection = DriverManager.getConnection(url)) {
        connection.setAutoCommit(false);
        try {
          first.run(connection);
          update(connection, value);
          connection.commit();
        } catch (StaleTokenException | IllegalStateException refused) {
          connection.rollback();
          throw refused;
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
    public void write(Grant grant, String value) {
      REDIS.run(
          grant.name(), grant.token(), grant.id(), fence(grant), List.of("{jedis}"), List.of(value), redis::eval);
    }

    @Override
    public void raiseShared(Grant grant) {
      RedisGuard.raiseShared(grant.name(), grant.token(), grant.id(), fence(grant), redis::eval);
    }

    @Override
    public void work(Grant grant, String value) {
      REDIS.checkShared(
          grant.name(), grant.token(), grant.id(), fence(grant), List.of("{jedis}"), List.of(value), redis::eval);
    }

    private static String fence(Grant grant) {
      return "{jedis}:" + grant.name();
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
      REDIS.run(lock, "{lettuce}:fence", List.of("{lettuce}"), List.of(value), this::eval);
    }

    @Override
    public void write(Grant grant, String value) {
      REDIS.run(
          grant.name(), grant.token(), grant.id(), fence(grant), List.of("{lettuce}"), List.of(value), this::eval);
    }

    @Override
    public void raiseShared(Grant grant) {
      RedisGuard.raiseShared(grant.name(), grant.token(), grant.id(), fence(grant), this::eval);
    }

    @Override
    public void work(Grant grant, String value) {
      REDIS.checkShared(
          grant.name(), grant.token(), grant.id(), fence(grant), List.of("{lettuce}"), List.of(value), this::eval);
    }

    private String eval(String script, List<String> keys, List<String> arguments) {
      return redis.eval(
          script, ScriptOutputType.STATUS, keys.toArray(String[]::new), arguments.toArray(String[]::new));
    }

    private static String fence(Grant grant) {
      return "{lettuce}:" + grant.name();
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
