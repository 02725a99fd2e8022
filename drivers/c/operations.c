/* What is counted, each on one connection. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "drivers.h"

#define POINT "SELECT id, k, c, pad FROM upshift_drivers WHERE id = "
#define TEN "SELECT id, k, c, pad FROM upshift_drivers WHERE id BETWEEN "
#define ALL "SELECT id, k, c, pad FROM upshift_drivers WHERE id <= "
#define UPDATE "UPDATE upshift_drivers SET k = k + "
#define INSERT "INSERT INTO upshift_drivers_added (k, c) VALUES "
enum { BATCH = 100 };

struct run {
  const struct target *target;
  MYSQL *connection;
  struct {
    const char *sql;
    MYSQL_STMT *statement;
  } kept[4];
};

MYSQL *connected(const struct target *target, unsigned long flags) {
  MYSQL *connection = mysql_init(NULL);
  unsigned local = 1;
  int encrypted = is_set(target, "ssl_mode", "REQUIRED");
  mysql_options(connection, MYSQL_OPT_LOCAL_INFILE, &local);
  if (is_set(target, "compress", "true")) mysql_options(connection, MYSQL_OPT_COMPRESS, NULL);
#ifdef MARIADB_BASE_VERSION
  my_bool enforce = 1;
  if (encrypted) mysql_options(connection, MYSQL_OPT_SSL_ENFORCE, &enforce);
#else
  unsigned mode = SSL_MODE_REQUIRED;
  if (encrypted) mysql_options(connection, MYSQL_OPT_SSL_MODE, &mode);
#endif
  if (!mysql_real_connect(connection, target->host, target->user, target->password, target->database, target->port, NULL,
                          flags)) {
    failed("mysql_real_connect", mysql_error(connection));
    mysql_close(connection);
    return NULL;
  }
  return connection;
}

long asked(MYSQL *connection, const char *sql) {
  long rows = 0;
  if (mysql_real_query(connection, sql, strlen(sql))) return failed("mysql_real_query", mysql_error(connection));
  int more;
  do {
    MYSQL_RES *result = mysql_store_result(connection);
    if (result) {
      while (mysql_fetch_row(result)) rows++;
      mysql_free_result(result);
    }
    more = mysql_next_result(connection);
    if (more > 0) return failed("mysql_next_result", mysql_error(connection));
  } while (more == 0);
  return rows;
}

/* A prepared statement: for each call, or kept. A cursor where the settings ask for one. */
static MYSQL_STMT *prepared(struct run *run, const char *sql) {
  int keep = is_set(run->target, "statements", "kept");
  int free_place = 0;
  for (; keep && free_place < 4 && run->kept[free_place].sql; free_place++)
    if (strcmp(run->kept[free_place].sql, sql) == 0) return run->kept[free_place].statement;
  MYSQL_STMT *statement = mysql_stmt_init(run->connection);
  if (is_set(run->target, "cursor", "read only")) {
    unsigned long type = CURSOR_TYPE_READ_ONLY, rows = 1;
    char size[16];
    setting(run->target, "prefetch_rows", size, sizeof size);
    if (*size) rows = strtoul(size, NULL, 10);
    mysql_stmt_attr_set(statement, STMT_ATTR_CURSOR_TYPE, &type);
    /* Where the settings say nothing the library's own default holds, which is 1. */
    if (*size) mysql_stmt_attr_set(statement, STMT_ATTR_PREFETCH_ROWS, &rows);
  }
  if (mysql_stmt_prepare(statement, sql, strlen(sql))) {
    failed("mysql_stmt_prepare", mysql_stmt_error(statement));
    mysql_stmt_close(statement);
    return NULL;
  }
  if (keep) {
    run->kept[free_place].sql = sql;
    run->kept[free_place].statement = statement;
  }
  return statement;
}

/* Execute with a number, and with a second one or a text; -1 or the rows that were read. */
static long executed(struct run *run, const char *sql, int first, int second, const char *text) {
  MYSQL_STMT *statement = prepared(run, sql);
  if (!statement) return -1;
  MYSQL_BIND bind[2];
  unsigned long length = text ? strlen(text) : 0;
  memset(bind, 0, sizeof bind);
  bind[0].buffer_type = bind[1].buffer_type = MYSQL_TYPE_LONG;
  bind[0].buffer = &first;
  bind[1].buffer = &second;
  if (text) {
    bind[1].buffer_type = MYSQL_TYPE_STRING;
    bind[1].buffer = (void *)text;
    bind[1].buffer_length = length;
    bind[1].length = &length;
  }
  if (mysql_stmt_bind_param(statement, bind) || mysql_stmt_execute(statement))
    return failed("mysql_stmt_execute", mysql_stmt_error(statement));
  long rows = 0;
  if (mysql_stmt_field_count(statement)) {
    if (!is_set(run->target, "cursor", "read only") && mysql_stmt_store_result(statement))
      return failed("mysql_stmt_store_result", mysql_stmt_error(statement));
    int found;
    while ((found = mysql_stmt_fetch(statement)) == 0 || found == MYSQL_DATA_TRUNCATED) rows++;
    if (found != MYSQL_NO_DATA) return failed("mysql_stmt_fetch", mysql_stmt_error(statement));
    mysql_stmt_free_result(statement);
  }
  if (!is_set(run->target, "statements", "kept")) mysql_stmt_close(statement);
  return rows;
}

static int as_text(const struct run *run) {
  char value[16];
  setting(run->target, "statements", value, sizeof value);
  return !*value || strcmp(value, "text") == 0;
}

static long point(struct run *run, int id) {
  char sql[160];
  snprintf(sql, sizeof sql, POINT "%d", id);
  return as_text(run) ? asked(run->connection, sql) : executed(run, POINT "?", id, 0, NULL);
}

static long ten(struct run *run, int first) {
  char sql[160];
  snprintf(sql, sizeof sql, TEN "%d AND %d", first, first + 9);
  return as_text(run) ? asked(run->connection, sql) : executed(run, TEN "? AND ?", first, first + 9, NULL);
}

static long fetch(struct run *run) {
  return as_text(run) ? asked(run->connection, ALL "1000") : executed(run, ALL "?", 1000, 0, NULL);
}

static long update(struct run *run, int id) {
  char sql[160];
  snprintf(sql, sizeof sql, UPDATE "1 WHERE id = %d", id);
  return as_text(run) ? asked(run->connection, sql) : executed(run, UPDATE "? WHERE id = ?", 1, id, NULL);
}

static long insert(struct run *run, int number) {
  char sql[160], text[32];
  snprintf(text, sizeof text, "row %d", number);
  snprintf(sql, sizeof sql, INSERT "(%d, '%s')", number, text);
  return as_text(run) ? asked(run->connection, sql) : executed(run, INSERT "(?, ?)", number, 0, text);
}

/* One text for a batch: an INSERT with all rows, or the UPDATEs with ; between them. */
static long joined(struct run *run, int inserts) {
  char sql[BATCH * 80];
  size_t used = inserts ? (size_t)snprintf(sql, sizeof sql, INSERT) : 0;
  for (int row = 0; row < BATCH; row++) {
    const char *before = row ? (inserts ? ", " : "; ") : "";
    used += (size_t)(inserts ? snprintf(sql + used, sizeof sql - used, "%s(%d, 'row %d')", before, row, row)
                             : snprintf(sql + used, sizeof sql - used, "%s" UPDATE "1 WHERE id = %d", before, row + 1));
  }
  return asked(run->connection, sql);
}

static long batch(struct run *run, int inserts) {
  if (is_set(run->target, "batch", "joined")) return joined(run, inserts);
  for (int row = 0; row < BATCH; row++)
    if ((inserts ? insert(run, row) : update(run, row + 1)) < 0) return -1;
  return 0;
}

static long transaction(struct run *run, int number) {
  int id = number % 1000 + 1;
  if (asked(run->connection, "BEGIN") < 0) return -1;
  long rows = point(run, id);
  if (rows < 0 || update(run, id) < 0 || insert(run, number) < 0 || asked(run->connection, "COMMIT") < 0) return -1;
  return rows;
}

static long once(struct run *run, const char *operation, int number) {
  if (strcmp(operation, "connect") == 0) return 0;
  if (strcmp(operation, "point_select") == 0) return point(run, number % 1000 + 1);
  if (strcmp(operation, "ten_rows") == 0) return ten(run, number + 1);
  if (strcmp(operation, "fetch") == 0) return fetch(run);
  if (strcmp(operation, "batch_insert") == 0) return batch(run, 1);
  if (strcmp(operation, "batch_update") == 0) return batch(run, 0);
  if (strcmp(operation, "transaction") == 0) return transaction(run, number);
  return failed("no operation is called", operation);
}

int run_operation(const struct target *target, const char *operation, int count, long *rows) {
  unsigned long flags = is_set(target, "multi_statements", "true") ? CLIENT_MULTI_STATEMENTS : 0;
  struct run run = {.target = target, .connection = connected(target, flags)};
  if (!run.connection) return -1;
  for (int number = 0; number < count; number++) {
    long found = once(&run, operation, number);
    if (found < 0) return -1;
    *rows += found;
  }
  for (int place = 0; place < 4 && run.kept[place].sql; place++) mysql_stmt_close(run.kept[place].statement);
  mysql_close(run.connection);
  return 0;
}
