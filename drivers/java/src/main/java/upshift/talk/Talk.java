package upshift.talk;

import com.google.gson.JsonObject;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.SQLException;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import java.util.SplittableRandom;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.stream.LongStream;

/**
 * The client of Huawei's talk: NewOrder over JDBC, from naive to tuned by its options. Its last line is an object with the
 * transactions, the errors that were rolled back, and the latency.
 */
public final class Talk {
  private Talk() {}

  /** What a connection did. */
  private record Done(List<Long> latenciesNs, int errors) {}

  public static void main(String[] arguments) throws InterruptedException {
    int code = 0;
    JsonObject said = new JsonObject();
    try {
      run(Settings.of(arguments), said);
    } catch (ExecutionException | IllegalArgumentException error) {
      Throwable cause = error instanceof ExecutionException ? error.getCause() : error;
      said.addProperty("error", cause.getClass().getSimpleName() + ": " + cause.getMessage());
      code = 1;
    }
    System.out.println(said);
    System.exit(code);
  }

  private static void run(Settings settings, JsonObject said) throws InterruptedException, ExecutionException {
    ExecutorService threads = Executors.newFixedThreadPool(settings.connections());
    long endNs = System.nanoTime() + settings.seconds() * 1_000_000_000L;
    List<Callable<Done>> clients = new ArrayList<>();
    for (int number = 0; number < settings.connections(); number++) {
      int each = number;
      clients.add(() -> client(settings, each, endNs));
    }
    int errors = 0;
    LongStream all = LongStream.empty();
    for (Future<Done> each : threads.invokeAll(clients)) {
      errors += each.get().errors();
      all = LongStream.concat(all, each.get().latenciesNs().stream().mapToLong(Long::longValue));
    }
    threads.shutdown();
    long[] sorted = all.sorted().toArray();
    said.addProperty("transactions", sorted.length);
    said.addProperty("tpmc", Math.round(60.0 * sorted.length / settings.seconds()));
    said.addProperty("errors", errors);
    for (int percent : new int[] {50, 95, 99}) {
      // The nearest rank.
      int rank = Math.max(1, (int) Math.ceil(sorted.length * percent / 100.0));
      said.addProperty("latency_ms_p" + percent, sorted.length == 0 ? 0 : sorted[rank - 1] / 1e6);
    }
  }

  private static Done client(Settings settings, int number, long endNs) throws SQLException {
    List<Long> latenciesNs = new ArrayList<>();
    int errors = 0;
    SplittableRandom random = new SplittableRandom(settings.seed() * 1000 + number);
    try (Connection connection = connect(settings)) {
      connection.setAutoCommit(false);
      Order order = new Order(connection, settings, random, number % settings.warehouses() + 1);
      for (long beganNs = System.nanoTime(); beganNs < endNs; beganNs = System.nanoTime()) {
        try {
          order.place();
          latenciesNs.add(System.nanoTime() - beganNs);
        } catch (SQLException error) {
          // 40001 and 40P01: deadlocks and the like, which clause 2.4 has tried again. Others are faults.
          if (error.getSQLState() == null || !error.getSQLState().startsWith("40")) {
            throw error;
          }
          connection.rollback();
          errors++;
        }
      }
      connection.rollback();
    }
    return new Done(latenciesNs, errors);
  }

  /** By TCP to HOST:PORT, or by the socket that is an absolute path; PostgreSQL's is the folder or its socket. */
  private static Connection connect(Settings settings) throws SQLException {
    Properties options = new Properties();
    options.putAll(settings.options());
    options.putIfAbsent("user", settings.postgres() ? "postgres" : "root");
    options.putIfAbsent("password", "");
    String address = settings.address();
    if (address.startsWith("/")) {
      options.setProperty("socketFactory", (settings.postgres() ? UnixSockets.class : MySqlSockets.class).getName());
      options.setProperty(settings.postgres() ? "socketFactoryArg" : "path", address);
      address = "localhost";
    }
    if (!settings.postgres()) {
      options.putIfAbsent("sslMode", "DISABLED");
      options.putIfAbsent("allowPublicKeyRetrieval", "true");
    }
    String scheme = settings.postgres() ? "postgresql" : "mysql";
    return DriverManager.getConnection("jdbc:" + scheme + "://" + address + "/" + settings.database(), options);
  }
}
