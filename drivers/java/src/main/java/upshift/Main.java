package upshift;

import com.google.gson.GsonBuilder;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import java.sql.SQLException;

/** DRIVER URL SETTINGS OPERATION COUNT: does the operation and prints one line of JSON about it. */
public final class Main {
  private Main() {}

  public static void main(String[] arguments) {
    if (arguments.length != 5) {
      System.err.println("usage: DRIVER URL SETTINGS OPERATION COUNT");
      System.exit(2);
    }
    Target target = new Target(arguments[0], arguments[1], JsonParser.parseString(arguments[2]).getAsJsonObject());
    String operation = arguments[3];
    JsonObject done = new JsonObject();
    done.addProperty("driver", arguments[0]);
    done.addProperty("operation", operation);
    int code = 0;
    try {
      done.addProperty("driver_version", target.version());
      if (operation.startsWith("check_")) {
        Checks.run(target, operation.substring("check_".length()));
        done.addProperty("ok", true);
      } else {
        Operations.run(target, operation, Integer.parseInt(arguments[4]), done);
      }
    } catch (SQLException | RuntimeException | java.io.IOException | InterruptedException error) {
      done.addProperty("error", error.getClass().getSimpleName() + ": " + error.getMessage());
      code = 1;
    }
    System.out.println(new GsonBuilder().disableHtmlEscaping().create().toJson(done));
    System.exit(code);
  }
}
