/* What the files share: whom to call, and how to say what went wrong. */

#ifndef UPSHIFT_DRIVERS_H
#define UPSHIFT_DRIVERS_H

#include <mysql.h>

#ifdef MARIADB_BASE_VERSION
#define LIBRARY "libmariadb"
#else
#define LIBRARY "libmysqlclient"
#endif

struct target {
  char user[128], password[128], host[128], database[128];
  unsigned port;
  const char *settings;
};

/* Each returns 0, or -1 after failed() was told why. */
int run_operation(const struct target *target, const char *operation, int count, long *rows);
int run_check(const struct target *target, const char *name);

int failed(const char *what, const char *reason);
void setting(const struct target *target, const char *name, char *value, size_t size);
int is_set(const struct target *target, const char *name, const char *wanted);

/* A connection, with TLS and compression where the settings say so; NULL after failed() was told why. */
MYSQL *connected(const struct target *target, unsigned long flags);

/* One statement as text, with all its results read; -1 or the rows that were read. */
long asked(MYSQL *connection, const char *sql);

#endif
