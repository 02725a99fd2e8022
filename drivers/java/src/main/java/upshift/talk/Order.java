package upshift.talk;

import java.math.BigDecimal;
import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Timestamp;
import java.util.Map;
import java.util.SplittableRandom;
import java.util.TreeMap;
import java.util.stream.IntStream;
import upshift.Statements;

/**
 * TPC-C's NewOrder (clause 2.4) on the tables of {@code upshift load tpcc prepare}, as one connection sends it. All lines are
 * supplied by the home warehouse, customers and items are drawn evenly, and no order is rolled back on purpose.
 */
final class Order {
  private static final int DISTRICTS = 10;
  private static final int CUSTOMERS = 3000;
  private static final int ITEMS = 100_000;

  private static final String CUSTOMER =
      "SELECT c_discount, c_last, c_credit, w_tax FROM customer JOIN warehouse ON w_id = c_w_id"
          + " WHERE c_w_id = ? AND c_d_id = ? AND c_id = ?";
  private static final String DISTRICT =
      "SELECT d_tax, d_next_o_id FROM district WHERE d_w_id = ? AND d_id = ? FOR UPDATE";
  private static final String NEXT = "UPDATE district SET d_next_o_id = d_next_o_id + 1 WHERE d_w_id = ? AND d_id = ?";
  private static final String ORDER =
      "INSERT INTO oorder (o_id, o_d_id, o_w_id, o_c_id, o_entry_d, o_ol_cnt, o_all_local) VALUES (?, ?, ?, ?, ?, ?, 1)";
  private static final String NEW = "INSERT INTO new_order (no_o_id, no_d_id, no_w_id) VALUES (?, ?, ?)";
  private static final String ITEM = "SELECT i_id, i_price, i_name, i_data FROM item WHERE i_id";
  private static final String STOCK =
      "SELECT s_i_id, s_quantity, s_data, s_dist_01 FROM stock WHERE s_w_id = ? AND s_i_id";
  private static final String TAKE =
      "UPDATE stock SET s_quantity = ?, s_ytd = s_ytd + ?, s_order_cnt = s_order_cnt + 1 WHERE s_w_id = ? AND s_i_id = ?";
  private static final String LINE =
      "INSERT INTO order_line (ol_o_id, ol_d_id, ol_w_id, ol_number, ol_i_id, ol_supply_w_id, ol_quantity, ol_amount,"
          + " ol_dist_info) VALUES ";
  private static final String ROW = "(?, ?, ?, ?, ?, ?, ?, ?, ?)";

  private final Connection connection;
  private final Settings settings;
  private final SplittableRandom random;
  private final int warehouse;
  private final Statements statements;

  Order(Connection connection, Settings settings, SplittableRandom random, int warehouse) {
    this.connection = connection;
    this.statements = new Statements(connection, settings.keeps());
    this.settings = settings;
    this.random = random;
    this.warehouse = warehouse;
  }

  /** One item of an order. */
  private static final class Line {
    final int quantity;
    BigDecimal price;
    int stock;
    String district;

    Line(int quantity) {
      this.quantity = quantity;
    }

    int left() {
      return stock - quantity >= 10 ? stock - quantity : stock - quantity + 91;
    }

    BigDecimal amount() {
      return price.multiply(BigDecimal.valueOf(quantity));
    }
  }

  void place() throws SQLException {
    int district = random.nextInt(1, DISTRICTS + 1);
    int customer = random.nextInt(1, CUSTOMERS + 1);
    // In the order of their numbers, so that connections lock stock in one order.
    TreeMap<Integer, Line> lines = new TreeMap<>();
    int wanted = random.nextInt(5, 16);
    while (lines.size() < wanted) {
      lines.put(random.nextInt(1, ITEMS + 1), new Line(random.nextInt(1, 11)));
    }
    ask(CUSTOMER, row -> row.getBigDecimal(1), warehouse, district, customer);
    int[] number = new int[1];
    ask(DISTRICT, row -> number[0] = row.getInt(2), warehouse, district);
    change(NEXT, warehouse, district);
    change(ORDER, number[0], district, warehouse, customer, new Timestamp(System.currentTimeMillis()), wanted);
    change(NEW, number[0], district, warehouse);
    if (settings.keysAtOnce()) {
      Integer[] items = lines.keySet().toArray(new Integer[0]);
      ask(ITEM + in(wanted), row -> price(lines, row), (Object[]) items);
      ask(STOCK + in(wanted) + " FOR UPDATE", row -> stock(lines, row), prepend(warehouse, items));
    }
    int place = 0;
    for (Map.Entry<Integer, Line> each : lines.entrySet()) {
      int item = each.getKey();
      if (!settings.keysAtOnce()) {
        ask(ITEM + " = ?", row -> price(lines, row), item);
        ask(STOCK + " = ? FOR UPDATE", row -> stock(lines, row), warehouse, item);
      }
      Line line = each.getValue();
      if (settings.writes() == Settings.Writes.EACH) {
        change(TAKE, line.left(), line.quantity, warehouse, item);
        change(LINE + ROW, line(number[0], district, ++place, item, line));
      }
    }
    if (settings.writes() == Settings.Writes.BATCH) {
      batch(number[0], district, lines);
    } else if (settings.writes() == Settings.Writes.JOINED) {
      joined(number[0], district, lines);
    }
    connection.commit();
  }

  /** As JDBC's batches, which the driver may or may not send at once. */
  private void batch(int number, int district, TreeMap<Integer, Line> lines) throws SQLException {
    PreparedStatement take = statements.get(TAKE);
    PreparedStatement add = statements.get(LINE + ROW);
    int place = 0;
    for (Map.Entry<Integer, Line> each : lines.entrySet()) {
      Line line = each.getValue();
      bind(take, line.left(), line.quantity, warehouse, each.getKey());
      take.addBatch();
      bind(add, line(number, district, ++place, each.getKey(), line));
      add.addBatch();
    }
    take.executeBatch();
    statements.done(take);
    add.executeBatch();
    statements.done(add);
  }

  /** One UPDATE with CASE, and one INSERT of all rows. */
  private void joined(int number, int district, TreeMap<Integer, Line> lines) throws SQLException {
    int count = lines.size();
    StringBuilder take = new StringBuilder("UPDATE stock SET s_order_cnt = s_order_cnt + 1, s_quantity = CASE s_i_id");
    take.append(" WHEN ? THEN ?".repeat(count)).append(" END, s_ytd = s_ytd + CASE s_i_id");
    take.append(" WHEN ? THEN ?".repeat(count)).append(" END WHERE s_w_id = ? AND s_i_id").append(in(count));
    Object[] taken = new Object[5 * count + 1];
    Object[] rows = new Object[9 * count];
    taken[4 * count] = warehouse;
    int place = 0;
    for (Map.Entry<Integer, Line> each : lines.entrySet()) {
      Line line = each.getValue();
      taken[2 * place] = taken[2 * (count + place)] = taken[4 * count + 1 + place] = each.getKey();
      taken[2 * place + 1] = line.left();
      taken[2 * (count + place) + 1] = line.quantity;
      System.arraycopy(line(number, district, place + 1, each.getKey(), line), 0, rows, 9 * place, 9);
      place++;
    }
    change(take.toString(), taken);
    change(LINE + ROW + (", " + ROW).repeat(count - 1), rows);
  }

  private Object[] line(int number, int district, int place, int item, Line line) {
    return new Object[] {
      number, district, warehouse, place, item, warehouse, line.quantity, line.amount(), line.district
    };
  }

  private static void price(Map<Integer, Line> lines, ResultSet row) throws SQLException {
    lines.get(row.getInt(1)).price = row.getBigDecimal(2);
  }

  private static void stock(Map<Integer, Line> lines, ResultSet row) throws SQLException {
    Line line = lines.get(row.getInt(1));
    line.stock = row.getInt(2);
    line.district = row.getString(4);
  }

  private static String in(int count) {
    return " IN (?" + ", ?".repeat(count - 1) + ")";
  }

  private static Object[] prepend(Object first, Object[] others) {
    return IntStream.range(0, others.length + 1).mapToObj(at -> at == 0 ? first : others[at - 1]).toArray();
  }

  /** What is done with a row. */
  private interface Reader {
    void read(ResultSet row) throws SQLException;
  }

  private void ask(String sql, Reader reader, Object... values) throws SQLException {
    PreparedStatement statement = statements.get(sql);
    bind(statement, values);
    int rows = 0;
    try (ResultSet found = statement.executeQuery()) {
      for (; found.next(); rows++) {
        reader.read(found);
      }
    }
    statements.done(statement);
    if (rows == 0) {
      throw new IllegalStateException("no row: " + sql);
    }
  }

  private void change(String sql, Object... values) throws SQLException {
    PreparedStatement statement = statements.get(sql);
    bind(statement, values);
    statement.executeUpdate();
    statements.done(statement);
  }

  private static void bind(PreparedStatement statement, Object... values) throws SQLException {
    for (int index = 0; index < values.length; index++) {
      statement.setObject(index + 1, values[index]);
    }
  }
}
