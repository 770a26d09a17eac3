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
 * <p>The holder of a shared lock is a reader, and there may be several. A reader raises its token once after the grant,
 * and then checks it in each transaction of its work. What it reads there stays so: no earlier writer gets through.
 *
 * <pre>{@code
 * connection.setAutoCommit(true);
 * guard.raiseShared(connection, lock); // once, a transaction of its own
 * connection.setAutoCommit(false);
 * guard.checkShared(connection, lock); // first in each transaction
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
    POSTGRES(
        Facts.GUARD_POSTGRES_CREATE,
        Facts.GUARD_POSTGRES_HAS_SHARED,
        Facts.GUARD_POSTGRES_ADD_SHARED,
        Facts.GUARD_POSTGRES_RAISE,
        Facts.GUARD_POSTGRES_NEWEST,
        Facts.GUARD_POSTGRES_RAISE_SHARED,
        Facts.GUARD_POSTGRES_CHECK_SHARED,
        Facts.GUARD_POSTGRES_NEWEST),
    MYSQL(
        Facts.GUARD_MYSQL_CREATE,
        Facts.GUARD_MYSQL_HAS_SHARED,
        Facts.GUARD_MYSQL_ADD_SHARED,
        Facts.GUARD_MYSQL_RAISE,
        Facts.GUARD_MYSQL_NEWEST,
        Facts.GUARD_MYSQL_RAISE_SHARED,
        Facts.GUARD_MYSQL_CHECK_SHARED,
        Facts.GUARD_MYSQL_NEWEST_SHARED),
    SQLITE(
        Facts.GUARD_SQLITE_CREATE,
        Facts.GUARD_SQLITE_HAS_SHARED,
        Facts.GUARD_SQLITE_ADD_SHARED,
        Facts.GUARD_SQLITE_RAISE,
        Facts.GUARD_SQLITE_NEWEST,
        Facts.GUARD_SQLITE_RAISE_SHARED,
        Facts.GUARD_SQLITE_CHECK_SHARED,
        Facts.GUARD_SQLITE_NEWEST);

    final String create;
    final String hasShared;
    final String addShared;
    final String raise;
    final String newest;
    final String raiseShared;
    final String checkShared;
    final String newestShared;

    Dialect(
        String create,
        String hasShared,
        String addShared,
        String raise,
        String newest,
        String raiseShared,
        String checkShared,
        String newestShared) {
      this.create = create;
      this.hasShared = hasShared;
      this.addShared = addShared;
      this.raise = raise;
      this.newest = newest;
      this.raiseShared = raiseShared;
      this.checkShared = checkShared;
      this.newestShared = newestShared;
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
   * Creates the table {@code fencepost_fences} unless it exists, and adds what one of an earlier version lacks. In
   * production, put the statements into your migrations instead (the folder {@code clients/guards} of the repository
   * has them).
   *
   * @param connection the connection
   * @throws SQLException if the database refuses it
   */
  public void createTable(Connection connection) throws SQLException {
    if (isCurrent(connection)) {
      return;
    }
    try (Statement statement = connection.createStatement()) {
      statement.execute(dialect.create);
      if (!isCurrent(connection)) {
        statement.execute(dialect.addShared);
      }
    } catch (SQLException failed) {
      // Of several processes that do so at once, the database may refuse all but one.
      if (!isCurrentAfter(failed, connection)) {
        throw failed;
      }
    }
  }

  private boolean isCurrent(Connection connection) throws SQLException {
    try (Statement statement = connection.createStatement();
        ResultSet row = statement.executeQuery(dialect.hasShared)) {
      return row.next() && row.getInt(1) > 0;
    }
  }

  private boolean isCurrentAfter(SQLException failed, Connection connection) {
    try {
      return isCurrent(connection);
    } catch (SQLException again) {
      failed.addSuppressed(again);
      return false;
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
   * @throws IllegalArgumentException if the lock has several permits of a semaphore, and so no {@link Fence}
   */
  public void raise(Connection connection, FencedLock lock) throws SQLException {
    raise(connection, Fence.name(lock), lock.name(), lock.token(), lock.grantId());
  }

  /**
   * Raises the fence with a token that came from another process, in a message say.
   *
   * @param connection a connection with a transaction: auto-commit must be off
   * @param name the lock's name; for a semaphore, that of its {@link Fence}
   * @param token the fencing token
   * @param grantId the grant id that belongs to the token
   * @throws StaleTokenException if the store has seen a newer token; roll back
   * @throws SQLException if the database fails
   */
  public void raise(Connection connection, String name, long token, String grantId) throws SQLException {
    raise(connection, name, name, token, grantId);
  }

  private void raise(Connection connection, String fence, String name, long token, String grantId)
      throws SQLException {
    Objects.requireNonNull(grantId);
    if (connection.getAutoCommit()) {
      throw new IllegalStateException("raise needs a transaction: call setAutoCommit(false) first");
    }
    boolean raised = dialect == Dialect.MYSQL
        ? raiseMysql(connection, fence, token, grantId)
        : returnsARow(connection, dialect.raise, fence, grantId, token);
    if (!raised) {
      throw new StaleTokenException(name, token, newest(connection, dialect.newest, fence));
    }
  }

  /**
   * Raises the token of a shared lock, in a transaction of its own: within that of the work, readers would wait for one
   * another. Call it once after the grant. It waits for the transactions that work under this lock at that time.
   *
   * @param connection a connection without a transaction: auto-commit must be on
   * @param lock the lock; its token and grant id count, whether it is still valid or not
   * @throws StaleTokenException if a later writer has raised the fence
   * @throws SQLException if the database fails; SQLSTATE 40001 means that the call should be repeated
   * @throws IllegalStateException if auto-commit is off
   * @throws IllegalArgumentException if the lock is held as a semaphore
   */
  public void raiseShared(Connection connection, FencedLock lock) throws SQLException {
    Fence.checkReader(lock);
    raiseShared(connection, lock.name(), lock.token(), lock.grantId());
  }

  /**
   * Raises the token of a shared lock with a token that came from another process, in a message say.
   *
   * @param connection a connection without a transaction: auto-commit must be on
   * @param name the lock's name
   * @param token the fencing token
   * @param grantId the grant id that belongs to the token
   * @throws StaleTokenException if a later writer has raised the fence
   * @throws SQLException if the database fails
   */
  public void raiseShared(Connection connection, String name, long token, String grantId) throws SQLException {
    Objects.requireNonNull(grantId);
    if (!connection.getAutoCommit()) {
      throw new IllegalStateException("raiseShared is a transaction of its own: call setAutoCommit(true) first");
    }
    boolean raised;
    if (dialect == Dialect.MYSQL) {
      try (PreparedStatement statement = connection.prepareStatement(dialect.raiseShared)) {
        bind(statement, name, grantId, token);
        statement.executeUpdate();
      }
      raised = passes(connection, name, token, grantId);
    } else {
      raised = returnsARow(connection, dialect.raiseShared, name, grantId, token);
    }
    if (!raised) {
      throw refused(connection, name, token);
    }
  }

  /**
   * Checks the token of a shared lock, as the first statement of each transaction that works under the lock. Until the
   * end of the transaction writers wait, and other readers do not.
   *
   * @param connection a connection with a transaction: auto-commit must be off
   * @param lock the lock; its token and grant id count, whether it is still valid or not
   * @throws StaleTokenException if a later writer has raised the fence; roll back
   * @throws SQLException if the database fails; SQLSTATE 40001 means that the transaction should be repeated
   * @throws IllegalStateException if auto-commit is on, or if {@code raiseShared} was not called
   * @throws IllegalArgumentException if the lock is held as a semaphore
   */
  public void checkShared(Connection connection, FencedLock lock) throws SQLException {
    Fence.checkReader(lock);
    checkShared(connection, lock.name(), lock.token(), lock.grantId());
  }

  /**
   * Checks the token of a shared lock that came from another process, in a message say.
   *
   * @param connection a connection with a transaction: auto-commit must be off
   * @param name the lock's name
   * @param token the fencing token
   * @param grantId the grant id that belongs to the token
   * @throws StaleTokenException if a later writer has raised the fence; roll back
   * @throws SQLException if the database fails
   */
  public void checkShared(Connection connection, String name, long token, String grantId) throws SQLException {
    Objects.requireNonNull(grantId);
    if (connection.getAutoCommit()) {
      throw new IllegalStateException("checkShared needs a transaction: call setAutoCommit(false) first");
    }
    if (!passes(connection, name, token, grantId)) {
      throw refused(connection, name, token);
    }
  }

  /** Parameters without numbers: the token comes as often as it is compared. */
  private boolean passes(Connection connection, String name, long token, String grantId) throws SQLException {
    return returnsARow(connection, dialect.checkShared, name, grantId, token, token, token);
  }

  private RuntimeException refused(Connection connection, String name, long token) throws SQLException {
    long newest = newest(connection, dialect.newestShared, name);
    if (newest < token) {
      return new IllegalStateException(
          "token " + token + " of " + name + " was not raised: call raiseShared once after the grant");
    }
    return new StaleTokenException(name, token, newest);
  }

  /** The statement returns a row if the token is not stale. */
  private boolean returnsARow(Connection connection, String text, String name, String grantId, long... tokens)
      throws SQLException {
    try (PreparedStatement statement = connection.prepareStatement(text)) {
      bind(statement, name, grantId, tokens);
      try (ResultSet row = statement.executeQuery()) {
        return row.next();
      }
    }
  }

  /** The parameters come in this order: the name, the token once or more, the grant id. */
  private void bind(PreparedStatement statement, String name, String grantId, long... tokens) throws SQLException {
    int number = 1;
    bindName(statement, name);
    for (long token : tokens) {
      number++;
      statement.setLong(number, token);
    }
    statement.setString(number + 1, grantId);
  }

  /** In MySQL as bytes, which no character set of the connection changes. */
  private void bindName(PreparedStatement statement, String name) throws SQLException {
    if (dialect == Dialect.MYSQL) {
      statement.setBytes(1, name.getBytes(StandardCharsets.UTF_8));
    } else {
      statement.setString(1, name);
    }
  }

  /** The counts of changed rows depend on the driver's settings, so the row is read back under its lock. */
  private boolean raiseMysql(Connection connection, String name, long token, String grantId) throws SQLException {
    try (PreparedStatement statement = connection.prepareStatement(dialect.raise)) {
      bind(statement, name, grantId, token);
      statement.executeUpdate();
    }
    try (PreparedStatement statement = connection.prepareStatement(dialect.newest)) {
      bindName(statement, name);
      try (ResultSet row = statement.executeQuery()) {
        // The grant id is NULL if the newest token is that of a reader.
        return row.next() && row.getLong(1) == token && grantId.equals(row.getString(2));
      }
    }
  }

  private long newest(Connection connection, String text, String name) throws SQLException {
    try (PreparedStatement statement = connection.prepareStatement(text)) {
      bindName(statement, name);
      try (ResultSet row = statement.executeQuery()) {
        return row.next() ? row.getLong(1) : 0;
      }
    }
  }
}
