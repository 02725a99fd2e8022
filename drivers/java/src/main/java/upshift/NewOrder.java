package upshift;

import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;

/**
 * TPC-C's NewOrder (clause 2.4) of ten lines, as a JDBC application writes it: a statement for each step, the stock and the
 * lines of the order as batches.
 */
final class NewOrder {
  static final int LINES = 10;

  private static final String CUSTOMER =
      "SELECT c_discount, c_last, c_credit, w_tax FROM upshift_drivers_customer, upshift_drivers_warehouse"
          + " WHERE w_id = ? AND c_w_id = w_id AND c_d_id = ? AND c_id = ?";
  private static final String DISTRICT =
      "SELECT d_tax, d_next_o_id FROM upshift_drivers_district WHERE d_w_id = ? AND d_id = ? FOR UPDATE";
  private static final String NEXT =
      "UPDATE upshift_drivers_district SET d_next_o_id = d_next_o_id + 1 WHERE d_w_id = ? AND d_id = ?";
  private static final String ORDER =
      "INSERT INTO upshift_drivers_orders (o_id, o_d_id, o_w_id, o_c_id, o_ol_cnt) VALUES (?, ?, ?, ?, ?)";
  private static final String NEW =
      "INSERT INTO upshift_drivers_new_order (no_o_id, no_d_id, no_w_id) VALUES (?, ?, ?)";
  private static final String ITEM = "SELECT i_price, i_name, i_data FROM upshift_drivers_item WHERE i_id = ?";
  private static final String STOCK =
      "SELECT s_quantity, s_data, s_dist FROM upshift_drivers_stock WHERE s_w_id = ? AND s_i_id = ? FOR UPDATE";
  private static final String TAKE =
      "UPDATE upshift_drivers_stock SET s_quantity = ?, s_order_cnt = s_order_cnt + 1 WHERE s_w_id = ? AND s_i_id = ?";
  private static final String LINE =
      "INSERT INTO upshift_drivers_order_line (ol_o_id, ol_d_id, ol_w_id, ol_number, ol_i_id, ol_quantity, ol_amount,"
          + " ol_dist_info) VALUES (?, ?, ?, ?, ?, ?, ?, ?)";

  private final Connection connection;
  private final Statements statements;
  private long rows;

  NewOrder(Target target, Connection connection) {
    this.connection = connection;
    this.statements = new Statements(connection, target.use("statements", "each").equals("kept"));
  }

  /** Orders, and returns how many rows it read. */
  long run(int number) throws SQLException {
    boolean autocommit = connection.getAutoCommit();
    if (autocommit) {
      connection.setAutoCommit(false);
    }
    rows = 0;
    int district = number % 10 + 1;
    read(4, CUSTOMER, 1, district, number % 30 + 1);
    int order = read(2, DISTRICT, 1, district);
    write(NEXT, 1, district);
    write(ORDER, order, district, 1, number % 30 + 1, LINES);
    write(NEW, order, district, 1);
    PreparedStatement take = statements.get(TAKE);
    PreparedStatement line = statements.get(LINE);
    for (int ordered = 1; ordered <= LINES; ordered++) {
      // Ascending, so that all connections lock stock in the same order.
      int item = (number % 10) * LINES + ordered;
      int price = read(1, ITEM, item);
      int quantity = read(1, STOCK, 1, item);
      bind(take, quantity > 14 ? quantity - 5 : quantity + 86, 1, item);
      take.addBatch();
      bind(line, order, district, 1, ordered, item, 5, 5 * price);
      line.setString(8, "dist-info-of-24-letters-");
      line.addBatch();
    }
    take.executeBatch();
    statements.done(take);
    line.executeBatch();
    statements.done(line);
    connection.commit();
    if (autocommit) {
      connection.setAutoCommit(true);
    }
    return rows;
  }

  /** A number of the row that is read. */
  private int read(int column, String sql, int... parameters) throws SQLException {
    PreparedStatement statement = statements.get(sql);
    bind(statement, parameters);
    int value = 0;
    try (ResultSet found = statement.executeQuery()) {
      while (found.next()) {
        value = found.getInt(column);
        rows++;
      }
    }
    statements.done(statement);
    return value;
  }

  private void write(String sql, int... parameters) throws SQLException {
    PreparedStatement statement = statements.get(sql);
    bind(statement, parameters);
    statement.executeUpdate();
    statements.done(statement);
  }

  private static void bind(PreparedStatement statement, int... parameters) throws SQLException {
    for (int index = 0; index < parameters.length; index++) {
      statement.setInt(index + 1, parameters[index]);
    }
  }
}
