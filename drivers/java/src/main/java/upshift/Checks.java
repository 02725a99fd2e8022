package upshift;

import java.io.IOException;
import java.math.BigDecimal;
import java.nio.file.Files;
import java.nio.file.Path;
import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.sql.Types;
import java.util.Arrays;

/** What a driver must be able to do through a proxy. Each throws what went wrong. */
final class Checks {
  private Checks() {}

  static void run(Target target, String check) throws SQLException, IOException, InterruptedException {
    switch (check) {
      case "connect" -> connect(target);
      case "prepared" -> prepared(target);
      case "batch" -> batch(target);
      case "cursor" -> cursor(target);
      case "error" -> error(target);
      case "cancel" -> cancel(target);
      case "reconnect" -> reconnect(target);
      case "local_infile" -> localInfile(target);
      case "tls_refused" -> tlsRefused(target);
      default -> throw new IllegalArgumentException("no check is called " + check);
    }
  }

  private static void connect(Target target) throws SQLException {
    try (Connection connection = target.connect()) {
      require(one(connection, "SELECT 1").equals("1"), "SELECT 1 is not 1");
    }
  }

  private static void prepared(Target target) throws SQLException {
    byte[] bytes = {0, 1, (byte) 255, 39, 92};
    String sql = "SELECT id, ?, ?, ?, ? FROM upshift_drivers WHERE id = ?";
    if (target.postgres) {
      sql = "SELECT id, ?::text, ?::numeric, ?::bytea, ?::int FROM upshift_drivers WHERE id = ?";
    }
    try (Connection connection = target.connect();
        PreparedStatement statement = connection.prepareStatement(sql)) {
      for (int id = 1; id <= 20; id++) {
        statement.setString(1, "Grüße 'n \\ ?");
        statement.setBigDecimal(2, new BigDecimal("12.50"));
        statement.setBytes(3, bytes);
        statement.setNull(4, Types.INTEGER);
        statement.setInt(5, id);
        try (ResultSet found = statement.executeQuery()) {
          require(found.next() && found.getInt(1) == id, "another row");
          require(found.getString(2).equals("Grüße 'n \\ ?"), "another text: " + found.getString(2));
          require(found.getBigDecimal(3).compareTo(new BigDecimal("12.5")) == 0, "another number");
          require(Arrays.equals(found.getBytes(4), bytes), "other bytes");
          require(found.getObject(5) == null, "no NULL");
          require(!found.next(), "a row too many");
        }
      }
    }
  }

  private static void batch(Target target) throws SQLException {
    try (Connection connection = target.connect();
        PreparedStatement statement =
            connection.prepareStatement("INSERT INTO upshift_drivers_added (k, c) VALUES (?, ?)")) {
      connection.setAutoCommit(false);
      String count = "SELECT COUNT(*) FROM upshift_drivers_added";
      int before = Integer.parseInt(one(connection, count));
      for (int number = 0; number < 10; number++) {
        statement.setInt(1, number);
        statement.setString(2, "batch");
        statement.addBatch();
      }
      statement.executeBatch();
      require(Integer.parseInt(one(connection, count)) == before + 10, "not ten rows");
      connection.rollback();
      require(Integer.parseInt(one(connection, count)) == before, "no rollback");
    }
  }

  private static void cursor(Target target) throws SQLException {
    try (Connection connection = target.connect(target.cursors())) {
      connection.setAutoCommit(false);
      try (PreparedStatement statement = connection.prepareStatement("SELECT id FROM upshift_drivers ORDER BY id")) {
        statement.setFetchSize(7);
        int rows = 0;
        try (ResultSet found = statement.executeQuery()) {
          while (found.next()) {
            require(found.getInt(1) == ++rows, "another row");
          }
        }
        require(rows == 1000, rows + " rows");
      }
      connection.rollback();
    }
  }

  private static void error(Target target) throws SQLException {
    try (Connection connection = target.connect()) {
      try {
        one(connection, "SELECT nothing FROM nowhere");
        throw new IllegalStateException("no error");
      } catch (SQLException expected) {
        require(expected.getSQLState().equals(target.postgres ? "42P01" : "42S02"), expected.getSQLState());
      }
      require(one(connection, "SELECT 1").equals("1"), "SELECT 1 is not 1");
    }
  }

  private static void cancel(Target target) throws SQLException, InterruptedException {
    try (Connection connection = target.connect();
        Statement statement = connection.createStatement()) {
      Thread other =
          new Thread(
              () -> {
                try {
                  Thread.sleep(500);
                  statement.cancel();
                } catch (SQLException | InterruptedException error) {
                  throw new IllegalStateException(error);
                }
              });
      long began = System.nanoTime();
      other.start();
      try {
        // SLEEP() that is killed answers 1; a statement with a table is an error.
        statement.executeQuery(target.postgres ? "SELECT pg_sleep(20)" : "SELECT SLEEP(20) FROM upshift_drivers LIMIT 1");
      } catch (SQLException expected) {
        require(expected.getMessage() != null, "no message");
      }
      other.join();
      require(System.nanoTime() - began < 15_000_000_000L, "it was not cancelled");
      require(one(connection, "SELECT 1").equals("1"), "SELECT 1 is not 1");
    }
  }

  private static void reconnect(Target target) throws SQLException {
    try (Connection other = target.connect();
        Connection connection = target.connect()) {
      String mine = one(connection, target.postgres ? "SELECT pg_backend_pid()" : "SELECT CONNECTION_ID()");
      try (Statement statement = other.createStatement()) {
        statement.execute(target.postgres ? "SELECT pg_terminate_backend(" + mine + ")" : "KILL " + mine);
      }
      try {
        one(connection, "SELECT 1");
        throw new IllegalStateException("the connection was not killed");
      } catch (SQLException expected) {
        require(expected.getSQLState() != null, "no SQLSTATE");
      }
    }
    connect(target);
  }

  private static void localInfile(Target target) throws SQLException, IOException {
    Path file = Files.createTempFile("upshift", ".tsv");
    try (Connection connection = target.connect(target.files());
        Statement statement = connection.createStatement()) {
      Files.writeString(file, "1\tone\n2\ttwo\n3\tthree\n");
      String load = "LOAD DATA LOCAL INFILE '" + file + "' INTO TABLE upshift_drivers_added (k, c)";
      require(statement.executeUpdate(load) == 3, "not three rows");
    } finally {
      Files.delete(file);
    }
  }

  /** Its options ask for TLS. */
  private static void tlsRefused(Target target) throws SQLException {
    try (Connection connection = target.connect()) {
      throw new IllegalStateException("it connected without TLS, which it was to require");
    } catch (SQLException expected) {
      require(expected.getMessage() != null, "no message");
    }
  }

  private static String one(Connection connection, String sql) throws SQLException {
    try (Statement statement = connection.createStatement();
        ResultSet found = statement.executeQuery(sql)) {
      require(found.next(), "no row");
      return found.getString(1);
    }
  }

  private static void require(boolean right, String otherwise) {
    if (!right) {
      throw new IllegalStateException(otherwise);
    }
  }
}
