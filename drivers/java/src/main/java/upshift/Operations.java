package upshift;

import com.google.gson.JsonObject;
import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;

/** What is counted, each on one connection. */
final class Operations {
  private static final String POINT = "SELECT id, k, c, pad FROM upshift_drivers WHERE id = ?";
  private static final String TEN = "SELECT id, k, c, pad FROM upshift_drivers WHERE id BETWEEN ? AND ?";
  private static final String ALL = "SELECT id, k, c, pad FROM upshift_drivers WHERE id <= ?";
  private static final String UPDATE = "UPDATE upshift_drivers SET k = k + ? WHERE id = ?";
  private static final String INSERT = "INSERT INTO upshift_drivers_added (k, c) VALUES (?, ?)";
  private static final int BATCH = 100;

  private final Target target;
  private final Connection connection;
  private final NewOrder orders;
  private PreparedStatement kept;
  private long rows;

  private Operations(Target target, Connection connection) {
    this.target = target;
    this.connection = connection;
    this.orders = new NewOrder(target, connection);
  }

  static void run(Target target, String operation, int count, JsonObject done) throws SQLException {
    try (Connection connection = target.connect()) {
      Operations operations = new Operations(target, connection);
      for (int number = 0; number < count; number++) {
        operations.once(operation, number);
      }
      if (!connection.getAutoCommit() && !operation.equals("connect")) {
        connection.commit();
      }
      done.addProperty("rows", operations.rows);
    }
  }

  private void once(String operation, int number) throws SQLException {
    switch (operation) {
      case "connect" -> {}
      case "point_select" -> select(POINT, number % 1000 + 1);
      case "ten_rows" -> select(TEN, number + 1, number + 10);
      case "fetch" -> select(ALL, 1000);
      case "batch_insert" -> insert();
      case "batch_update" -> update();
      case "transaction" -> transaction(number);
      case "new_order" -> rows += orders.run(number);
      default -> throw new IllegalArgumentException("no operation is called " + operation);
    }
  }

  /** As an application does that leaves keeping statements to the driver; or the one that it keeps itself. */
  private PreparedStatement prepared(String sql) throws SQLException {
    if (target.use("statements", "each").equals("each")) {
      return connection.prepareStatement(sql);
    }
    if (kept == null) {
      kept = connection.prepareStatement(sql);
    }
    return kept;
  }

  private void done(PreparedStatement statement) throws SQLException {
    if (statement != kept) {
      statement.close();
    }
  }

  private void select(String sql, int... parameters) throws SQLException {
    PreparedStatement statement = prepared(sql);
    for (int index = 0; index < parameters.length; index++) {
      statement.setInt(index + 1, parameters[index]);
    }
    try (ResultSet found = statement.executeQuery()) {
      while (found.next()) {
        found.getInt(2);
        found.getString(3);
        rows++;
      }
    }
    done(statement);
  }

  private void insert() throws SQLException {
    PreparedStatement statement = prepared(INSERT);
    for (int number = 0; number < BATCH; number++) {
      statement.setInt(1, number);
      statement.setString(2, "row " + number);
      statement.addBatch();
    }
    statement.executeBatch();
    done(statement);
  }

  private void update() throws SQLException {
    PreparedStatement statement = prepared(UPDATE);
    for (int number = 0; number < BATCH; number++) {
      statement.setInt(1, 1);
      statement.setInt(2, number + 1);
      statement.addBatch();
    }
    statement.executeBatch();
    done(statement);
  }

  /** A connection of a pool is in autocommit before and after. */
  private void transaction(int number) throws SQLException {
    boolean pooled = target.use("autocommit", "true").equals("true");
    if (pooled) {
      connection.setAutoCommit(false);
    }
    select(POINT, number % 1000 + 1);
    try (PreparedStatement statement = connection.prepareStatement(UPDATE)) {
      statement.setInt(1, 1);
      statement.setInt(2, number % 1000 + 1);
      statement.executeUpdate();
    }
    try (PreparedStatement statement = connection.prepareStatement(INSERT)) {
      statement.setInt(1, number);
      statement.setString(2, "row " + number);
      statement.executeUpdate();
    }
    connection.commit();
    if (pooled) {
      connection.setAutoCommit(true);
    }
  }
}
