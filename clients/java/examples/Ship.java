import io.fencepost.client.FencedLock;
import io.fencepost.client.FencepostClient;
import io.fencepost.client.guards.JdbcGuard;
import io.fencepost.client.guards.StaleTokenException;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.time.Duration;

/** Ships an order once, whatever happens to the processes that try: the database refuses a holder that is late. */
public final class Ship {
  private Ship() {}

  /** The argument is the JDBC address of an SQLite database; FENCEPOST_SERVER names the servers. */
  public static void main(String[] arguments) throws SQLException {
    JdbcGuard guard = JdbcGuard.sqlite();
    try (Connection connection = DriverManager.getConnection(arguments[0]);
        FencepostClient client = FencepostClient.create()) {
      guard.createTable(connection);
      try (Statement statement = connection.createStatement()) {
        statement.execute("CREATE TABLE IF NOT EXISTS orders (id INTEGER PRIMARY KEY, state TEXT NOT NULL)");
        statement.execute("INSERT OR IGNORE INTO orders VALUES (42, 'paid')");
      }
      try (FencedLock lock = client.acquire("orders/42").waitFor(Duration.ofSeconds(30)).get()) {
        System.out.println(ship(connection, guard, lock) ? "order 42 is shipped" : "order 42 was shipped before");
      }
    }
  }

  static boolean ship(Connection connection, JdbcGuard guard, FencedLock lock) throws SQLException {
    connection.setAutoCommit(false);
    try {
      guard.raise(connection, lock); // first the fence, then read, then write
      boolean ships = state(connection).equals("paid");
      if (ships) {
        try (PreparedStatement update = connection.prepareStatement("UPDATE orders SET state = ? WHERE id = 42")) {
          update.setString(1, "shipped");
          update.executeUpdate();
        }
      }
      connection.commit();
      return ships;
    } catch (SQLException | StaleTokenException failed) {
      connection.rollback();
      throw failed;
    }
  }

  private static String state(Connection connection) throws SQLException {
    try (Statement statement = connection.createStatement();
        ResultSet row = statement.executeQuery("SELECT state FROM orders WHERE id = 42")) {
      row.next();
      return row.getString(1);
    }
  }
}
