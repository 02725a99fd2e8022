package upshift;

import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import java.net.URI;
import java.sql.Connection;
import java.sql.Driver;
import java.sql.DriverManager;
import java.sql.DriverPropertyInfo;
import java.sql.SQLException;
import java.util.Arrays;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.stream.Collectors;

/** Whom to call, with which options of the driver, and how the driver is used. */
final class Target {
  private static final Map<String, String> SCHEMES =
      Map.of("connector-j", "mysql", "mariadb-connector-j", "mariadb", "pgjdbc", "postgresql");

  final boolean postgres;
  private final boolean mariadbs;
  private final URI url;
  private final String jdbc;
  private final JsonObject options;
  private final JsonObject use;

  Target(String driver, String url, JsonObject settings) {
    this.url = URI.create(url);
    this.postgres = driver.equals("pgjdbc");
    this.mariadbs = driver.equals("mariadb-connector-j");
    this.jdbc =
        "jdbc:" + SCHEMES.get(driver) + "://" + this.url.getHost() + ":" + this.url.getPort() + this.url.getPath();
    this.options = settings.getAsJsonObject("options");
    this.use = settings.getAsJsonObject("use");
  }

  /** How the program calls the driver, where that is no option of the driver's. */
  String use(String name, String otherwise) {
    JsonElement value = use.get(name);
    return value == null ? otherwise : value.getAsString();
  }

  String version() throws SQLException {
    if (mariadbs) {
      return org.mariadb.jdbc.util.VersionFactory.getInstance().getVersion();
    }
    // getMajorVersion leaves the patch out.
    String implementation = driver().getClass().getPackage().getImplementationVersion();
    return implementation != null ? implementation : driver().getMajorVersion() + "." + driver().getMinorVersion();
  }

  Connection connect() throws SQLException {
    return connect(Map.of());
  }

  Connection connect(Map<String, String> more) throws SQLException {
    Properties properties = new Properties();
    String[] login = (url.getUserInfo() == null ? "" : url.getUserInfo()).split(":", 2);
    properties.setProperty("user", login[0]);
    properties.setProperty("password", login.length > 1 ? login[1] : "");
    Set<String> known =
        Arrays.stream(driver().getPropertyInfo(jdbc, new Properties()))
            .map((DriverPropertyInfo each) -> each.name)
            .collect(Collectors.toSet());
    for (String name : options.keySet()) {
      if (!known.contains(name)) {
        throw new IllegalArgumentException("the driver has no option " + name);
      }
      properties.setProperty(name, options.get(name).getAsString());
    }
    more.forEach(properties::setProperty);
    Connection connection = DriverManager.getConnection(jdbc, properties);
    if (use("autocommit", "true").equals("false")) {
      connection.setAutoCommit(false);
    }
    return connection;
  }

  Map<String, String> cursors() {
    return postgres || mariadbs ? Map.of() : Map.of("useCursorFetch", "true");
  }

  Map<String, String> files() {
    return Map.of(mariadbs ? "allowLocalInfile" : "allowLoadLocalInfile", "true");
  }

  private Driver driver() throws SQLException {
    return DriverManager.getDriver(jdbc);
  }
}
