/* What a driver must be able to do through a proxy. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "drivers.h"

static int ask(const struct target *target) {
  MYSQL *connection = connected(target, 0);
  if (!connection) return -1;
  long rows = asked(connection, "SELECT 1");
  mysql_close(connection);
  return rows == 1 ? 0 : -1;
}

/* The settings require TLS. */
static int tls_refused(const struct target *target) {
  MYSQL *connection = connected(target, 0);
  if (!connection) return 0;
  mysql_close(connection);
  return failed("TLS", "it connected without, which it was to require");
}

/* Parameters of several types; a cursor over all rows where there is a number of rows to prefetch. */
static int prepared(MYSQL *connection, unsigned long prefetch) {
  const char *sql = prefetch ? "SELECT id, ?, ? FROM upshift_drivers WHERE id >= ?" : "SELECT id, ?, ? FROM upshift_drivers WHERE id = ?";
  MYSQL_STMT *statement = mysql_stmt_init(connection);
  if (prefetch) {
    unsigned long type = CURSOR_TYPE_READ_ONLY;
    mysql_stmt_attr_set(statement, STMT_ATTR_CURSOR_TYPE, &type);
    mysql_stmt_attr_set(statement, STMT_ATTR_PREFETCH_ROWS, &prefetch);
  }
  if (mysql_stmt_prepare(statement, sql, strlen(sql))) return failed("mysql_stmt_prepare", mysql_stmt_error(statement));
  for (int id = 1; id <= (prefetch ? 1 : 20); id++) {
    char text[] = "Gr\xc3\xbc\xc3\x9f" "e 'n \\ ?", back[64] = "";
    unsigned long length = sizeof text - 1, back_length = 0;
    int found = 0, wanted = id;
    MYSQL_BIND in[3], out[3];
    memset(in, 0, sizeof in);
    memset(out, 0, sizeof out);
    in[0].buffer_type = MYSQL_TYPE_STRING;
    in[0].buffer = text;
    in[0].buffer_length = length;
    in[0].length = &length;
    in[1].buffer_type = MYSQL_TYPE_NULL;
    in[2].buffer_type = out[0].buffer_type = MYSQL_TYPE_LONG;
    in[2].buffer = &wanted;
    out[0].buffer = &found;
    out[1].buffer_type = MYSQL_TYPE_STRING;
    out[1].buffer = back;
    out[1].buffer_length = sizeof back;
    out[1].length = &back_length;
    out[2].buffer_type = MYSQL_TYPE_NULL;
    if (mysql_stmt_bind_param(statement, in) || mysql_stmt_bind_result(statement, out) || mysql_stmt_execute(statement))
      return failed("mysql_stmt_execute", mysql_stmt_error(statement));
    int rows = 0;
    while (mysql_stmt_fetch(statement) == 0) {
      if (found != id + rows++) return failed("prepared", "another row");
      if (back_length != length || memcmp(back, text, length) != 0) return failed("prepared", "another text");
    }
    if (rows != (prefetch ? 1000 : 1)) return failed("prepared", "another number of rows");
    mysql_stmt_free_result(statement);
  }
  return mysql_stmt_close(statement) ? failed("mysql_stmt_close", mysql_error(connection)) : 0;
}

static int batch(MYSQL *connection) {
  if (asked(connection, "INSERT INTO upshift_drivers_added (k, c) VALUES (1, 'a'), (2, 'b')") < 0) return -1;
  return asked(connection, "SELECT 1; SELECT 2 UNION ALL SELECT 3") == 3 ? 0 : failed("batch", "not three rows");
}

static int error(MYSQL *connection) {
  if (asked(connection, "SELECT nothing FROM nowhere") >= 0) return failed("error", "there was none");
  if (mysql_errno(connection) != 1146) return failed("error", mysql_error(connection));
  return asked(connection, "SELECT 1") == 1 ? 0 : -1;
}

static int reconnect(const struct target *target, MYSQL *connection) {
  char kill[64];
  snprintf(kill, sizeof kill, "KILL %lu", mysql_thread_id(connection));
  MYSQL *other = connected(target, 0);
  if (!other || asked(other, kill) < 0) return -1;
  mysql_close(other);
  usleep(200000);
  if (asked(connection, "SELECT 1") >= 0) return failed("reconnect", "the connection was not killed");
  return ask(target);
}

static int local_infile(MYSQL *connection) {
  char name[] = "/tmp/upshift-XXXXXX", sql[160];
  int file = mkstemp(name);
  const char rows[] = "1\tone\n2\ttwo\n3\tthree\n";
  if (file < 0 || write(file, rows, sizeof rows - 1) < 0) return failed("mkstemp", name);
  close(file);
  snprintf(sql, sizeof sql, "LOAD DATA LOCAL INFILE '%s' INTO TABLE upshift_drivers_added (k, c)", name);
  int bad = mysql_query(connection, sql);
  unlink(name);
  if (bad) return failed("mysql_query", mysql_error(connection));
  return mysql_affected_rows(connection) == 3 ? 0 : failed("local infile", "not three rows");
}

int run_check(const struct target *target, const char *name) {
  if (strcmp(name, "connect") == 0) return ask(target);
  if (strcmp(name, "tls_refused") == 0) return tls_refused(target);
  MYSQL *connection = connected(target, CLIENT_MULTI_STATEMENTS);
  if (!connection) return -1;
  int bad = -1;
  if (strcmp(name, "prepared") == 0) bad = prepared(connection, 0);
  else if (strcmp(name, "cursor") == 0) bad = prepared(connection, 7);
  else if (strcmp(name, "batch") == 0) bad = batch(connection);
  else if (strcmp(name, "error") == 0) bad = error(connection);
  else if (strcmp(name, "reconnect") == 0) bad = reconnect(target, connection);
  else if (strcmp(name, "local_infile") == 0) bad = local_infile(connection);
  else failed("no check is called", name);
  mysql_close(connection);
  return bad;
}
