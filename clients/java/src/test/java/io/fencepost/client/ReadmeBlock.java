package io.fencepost.client;

import java.nio.file.Path;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.SQLException;
import java.sql.Statement;
import redis.clients.jedis.JedisPooled;

/** What surrounds the code blocks of the README: {@link ReadmeTest} compiles each as the body of {@code run}. */
public abstract class ReadmeBlock {
  /** A store that refuses lower tokens. */
  public static final class Store {
    private long newest;

    public void write(String order, long token) {
      if (token < newest) {
        throw new IllegalStateException("stale token " + token + " for " + order);
      }
      newest = token;
    }
  }

  /** A source of bearer tokens. */
  public static final class Tokens {
    public String current() {
      return "secret";
    }
  }

  /** Work under locks. */
  public static final class Worker {
    public void stop() {}

    public void work(FencedLock lock) {
      try (lock) {
        lock.check();
      }
    }
  }

  protected final Worker worker = new Worker();
  protected final Store store = new Store();
  protected final Tokens tokens = new Tokens();
  protected final String order = "42";
  protected FencepostClient client;
  protected FencedLock lock;
  protected Connection connection;
  protected JedisPooled jedis;

  public abstract void run() throws Exception;

  protected static void update(Connection connection, String order) throws SQLException {
    try (PreparedStatement statement = connection.prepareStatement("UPDATE orders SET state = ? WHERE id = ?")) {
      statement.setString(1, "shipped");
      statement.setString(2, order);
      if (statement.executeUpdate() != 1) {
        throw new SQLException("there is no order " + order);
      }
    }
  }

  /** Runs the block under a lock of another name, and closes what it left open. */
  final void runWith(String server, String redis, Path database) throws Exception {
    try (FencepostClient surrounding = FencepostClient.connect(server);
        FencedLock held = surrounding.acquire("surrounding").get();
        Connection opened = DriverManager.getConnection("jdbc:sqlite:" + database);
        JedisPooled pooled = new JedisPooled(redis)) {
      io.fencepost.client.guards.JdbcGuard.sqlite().createTable(opened);
      try (Statement statement = opened.createStatement()) {
        statement.execute("CREATE TABLE IF NOT EXISTS orders (id TEXT PRIMARY KEY, state TEXT)");
        statement.execute("INSERT OR REPLACE INTO orders VALUES ('42', 'paid')");
      }
      client = surrounding;
      lock = held;
      connection = opened;
      jedis = pooled;
      run();
    }
  }
}
