package io.fencepost.client.guards;

import io.fencepost.client.Facts;
import io.fencepost.client.FencedLock;
import java.nio.charset.StandardCharsets;
import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.Objects;

/**
 * Keeps the newest token of each lock in a table of the database that the lock protects, over JDBC.
 *
 * <pre>{@code
 * JdbcGuard guard = JdbcGuard.postgres(); // once: guard.createTable(connection)
 * connection.setAutoCommit(false);
 * guard.raise(connection, lock);          // first, then read, then write
 * ...
 * connection.commit();
 * }</pre>
 *
 * <p>The fence's row is locked until the transaction ends, so holders of one lock write one after the other. At the
 * isolation levels REPEATABLE READ and SERIALIZABLE a database may end the transaction with a serialization failure
 * (SQLSTATE 40001): repeat the whole transaction, {@code raise} included.
 */
public final class JdbcGuard {
  private enum Dialect {
    POSTGRES(Facts.GUARD_POSTGRES_CREATE, Facts.GUARD_POSTGRES_RAISE, Facts.GUARD_POSTGRES_NEWEST),
    MYSQL(Facts.GUARD_MYSQL_CREATE, Facts.GUARD_MYSQL_RAISE, Facts.GUARD_MYSQL_NEWEST),
    SQLITE(Facts.GUARD_SQLITE_CREATE, Facts.GUARD_SQLITE_RAISE, Facts.GUARD_SQLITE_NEWEST);

    final String create;
    final String raise;
    final String newest;

    Dialect(String create, String raise, String newest) {
      this.create = create;
      this.raise = raise;
      this.newest = newest;
    }
  }

  private final Dialect dialect;

  private JdbcGuard(Dialect dialect) {
    this.dialect = dialect;
  }

  /**
   * The guard for PostgreSQL.
   *
   * @return a guard that any number of threads may use
   */
  public static JdbcGuard postgres() {
    return new JdbcGuard(Dialect.POSTGRES);
  }

  /**
   * The guard for MySQL and MariaDB.
   *
   * @return a guard that any number of threads may use
   */
  public static JdbcGuard mysql() {
    return new JdbcGuard(Dialect.MYSQL);
  }

  /**
   * The guard for SQLite. Open connections with {@code transaction_mode=IMMEDIATE}, so that a transaction does not fail
   * when its first statement, {@code raise}, must wait for another writer.
   *
   * @return a guard that any number of threads may use
   */
  public static JdbcGuard sqlite() {
    return new JdbcGuard(Dialect.SQLITE);
  }

  /**
   * Creates the table {@code fencepost_fences} unless it exists. In production, put the statement into your migrations
   * instead (the folder {@code clients/guards} of the repository has it).
   *
   * @param connection the connection
   * @throws SQLException if the database refuses it
   */
  public void createTable(Connection connection) throws SQLException {
    try (Statement statement = connection.createStatement()) {
      statement.execute(dialect.create);
    }
  }

  /**
   * Raises the fence of a lock, as the first statement of a transaction. The caller commits or rolls back.
   *
   * @param connection a connection with a transaction: auto-commit must be off
   * @param lock the lock; its token and grant id count, whether it is still valid or not
   * @throws StaleTokenException if the store has seen a newer token; roll back
   * @throws SQLException if the database fails; SQLSTATE 40001 means that the transaction should be repeated
   * @throws IllegalStateException if auto-commit is on, because the fence would not protect the statements that follow
   */
  public void raise(Connection connection, FencedLock lock) throws SQLException {
    raise(connection, lock.name(), lock.token(), lock.grantId());
  }

  /**
   * Raises the fence with a token that came from another process, in a message say.
   *
   * @param connection a connection with a transaction: auto-commit must be off
   * @param name the lock's name
   * @param token the fencing token
   * @param grantId the grant id that belongs to the token
   * @throws StaleTokenException if the store has seen a newer token; roll back
   * @throws SQLException if the database fails
   */
  public void raise(Connection connection, String name, long token, String grantId) throws SQLException {
    Objects.requireNonNull(grantId);
    if (connection.getAutoCommit()) {
      throw new IllegalStateException("raise needs a transaction: call setAutoCommit(false) first");
    }
    boolean raised = dialect == Dialect.MYSQL
        ? raiseMysql(connection, name, token, grantId)
        : raiseReturning(connection, name, token, grantId);
    if (!raised) {
      throw new StaleTokenException(name, token, newest(connection, name));
    }
  }

  /** The statement returns a row if the token is not stale. */
  private boolean raiseReturning(Connection connection, String name, long token, String grantId) throws SQLException {
    try (PreparedStatement statement = connection.prepareStatement(dialect.raise)) {
      statement.setString(1, name);
      statement.setLong(2, token);
      statement.setString(3, grantId);
      try (ResultSet row = statement.executeQuery()) {
        return row.next();
      }
    }
  }

  /** The counts of changed rows depend on the driver's settings, so the row is read back under its lock. */
  private boolean raiseMysql(Connection connection, String name, long token, String grantId) throws SQLException {
    try (PreparedStatement statement = connection.prepareStatement(dialect.raise)) {
      statement.setBytes(1, name.getBytes(StandardCharsets.UTF_8));
      statement.setLong(2, token);
      statement.setString(3, grantId);
      statement.executeUpdate();
    }
    try (PreparedStatement statement = connection.prepareStatement(dialect.newest)) {
      statement.setBytes(1, name.getBytes(StandardCharsets.UTF_8));
      try (ResultSet row = statement.executeQuery()) {
        return row.next() && row.getLong(1) == token && row.getString(2).equals(grantId);
      }
    }
  }

  private long newest(Connection connection, String name) throws SQLException {
    try (PreparedStatement statement = connection.prepareStatement(dialect.newest)) {
      if (dialect == Dialect.MYSQL) {
        statement.setBytes(1, name.getBytes(StandardCharsets.UTF_8));
      } else {
        statement.setString(1, name);
      }
      try (ResultSet row = statement.executeQuery()) {
        return row.next() ? row.getLong(1) : 0;
      }
    }
  }
}
