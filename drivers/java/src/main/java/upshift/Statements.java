package upshift;

import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.SQLException;
import java.util.HashMap;
import java.util.Map;

/** A connection's prepared statements: the application keeps each, or closes it after each use. */
public final class Statements {
  private final Connection connection;
  private final boolean keeps;
  private final Map<String, PreparedStatement> kept = new HashMap<>();

  public Statements(Connection connection, boolean keeps) {
    this.connection = connection;
    this.keeps = keeps;
  }

  /** One that is kept; or a new one: a driver that caches statements takes them back when they are closed. */
  public PreparedStatement get(String sql) throws SQLException {
    PreparedStatement statement = kept.get(sql);
    if (statement == null) {
      statement = connection.prepareStatement(sql);
      if (keeps) {
        kept.put(sql, statement);
      }
    }
    return statement;
  }

  /** The end of a use. */
  public void done(PreparedStatement statement) throws SQLException {
    if (!keeps) {
      statement.close();
    }
  }
}
