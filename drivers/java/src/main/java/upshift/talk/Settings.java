package upshift.talk;

import java.util.Locale;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;

/** What the command line says; where an option comes twice, the last one counts. */
record Settings(
    String driver,
    String address,
    String database,
    int connections,
    int seconds,
    int warehouses,
    long seed,
    boolean keeps,
    boolean keysAtOnce,
    Writes writes,
    Properties options) {
  /** How an order's lines and its changes of stock are sent. */
  enum Writes {
    EACH,
    BATCH,
    JOINED
  }

  private static final Map<String, String> DEFAULTS =
      Map.ofEntries(
          Map.entry("driver", "connector-j"),
          Map.entry("address", ""),
          Map.entry("database", ""),
          Map.entry("connections", "4"),
          Map.entry("seconds", "10"),
          Map.entry("warehouses", "2"),
          Map.entry("seed", "1"),
          Map.entry("statements", "each"),
          Map.entry("keys", "each"),
          Map.entry("writes", "each"));

  static Settings of(String... arguments) {
    Map<String, String> given = new TreeMap<>(DEFAULTS);
    Properties options = new Properties();
    for (int index = 0; index < arguments.length; index += 2) {
      String name = arguments[index].replaceFirst("^--", "");
      if (index + 1 == arguments.length) {
        throw new IllegalArgumentException("--" + name + " needs a value");
      }
      String value = arguments[index + 1];
      if (name.equals("option")) {
        String[] pair = value.split("=", 2);
        options.setProperty(pair[0], pair.length > 1 ? pair[1] : "");
      } else if (given.containsKey(name)) {
        given.put(name, value);
      } else {
        throw new IllegalArgumentException("no option is called --" + name);
      }
    }
    return new Settings(
        given.get("driver"),
        given.get("address"),
        given.get("database"),
        Integer.parseInt(given.get("connections")),
        Integer.parseInt(given.get("seconds")),
        Integer.parseInt(given.get("warehouses")),
        Long.parseLong(given.get("seed")),
        either(given, "statements", "each", "kept"),
        either(given, "keys", "each", "in"),
        Writes.valueOf(given.get("writes").toUpperCase(Locale.ROOT)),
        options);
  }

  private static boolean either(Map<String, String> given, String name, String no, String yes) {
    String value = given.get(name);
    if (!value.equals(no) && !value.equals(yes)) {
      throw new IllegalArgumentException("--" + name + " takes " + no + " or " + yes + ", not " + value);
    }
    return value.equals(yes);
  }

  boolean postgres() {
    return driver.equals("pgjdbc");
  }
}
