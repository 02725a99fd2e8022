/* DRIVER URL SETTINGS OPERATION COUNT: does the operation and prints one line of JSON about it. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "drivers.h"

static char why[512];

int failed(const char *what, const char *reason) {
  snprintf(why, sizeof why, "%s: %s", what, reason);
  return -1;
}

/* The value of a key that occurs once in the settings, which Upshift writes without escapes; empty where it is none. */
void setting(const struct target *target, const char *name, char *value, size_t size) {
  char quoted[80];
  snprintf(quoted, sizeof quoted, "\"%s\"", name);
  *value = 0;
  const char *at = strstr(target->settings, quoted);
  if (!at) return;
  at += strlen(quoted);
  at += strspn(at, ": \"");
  snprintf(value, size, "%.*s", (int)strcspn(at, "\",}"), at);
}

int is_set(const struct target *target, const char *name, const char *wanted) {
  char value[80];
  setting(target, name, value, sizeof value);
  return strcmp(value, wanted) == 0;
}

static void read_url(struct target *target, const char *url) {
  char login[128] = "";
  const char *host = strstr(url, "://");
  host = host ? host + 3 : url;
  const char *at = strchr(host, '@');
  if (at) {
    snprintf(login, sizeof login, "%.*s", (int)(at - host), host);
    host = at + 1;
  }
  char *colon = strchr(login, ':');
  if (colon) {
    *colon = 0;
    snprintf(target->password, sizeof target->password, "%s", colon + 1);
  }
  snprintf(target->user, sizeof target->user, "%s", login);
  snprintf(target->host, sizeof target->host, "%.*s", (int)strcspn(host, ":/"), host);
  const char *port = strchr(host, ':');
  target->port = port ? (unsigned)atoi(port + 1) : 3306;
  const char *path = strchr(host, '/');
  snprintf(target->database, sizeof target->database, "%s", path ? path + 1 : "");
}

static void print_text(const char *text) {
  for (; *text; text++) {
    if (*text == '"' || *text == '\\') putchar('\\');
    putchar((unsigned char)*text < ' ' ? ' ' : *text);
  }
}

int main(int count, char **arguments) {
  if (count != 6) {
    fputs("usage: DRIVER URL SETTINGS OPERATION COUNT\n", stderr);
    return 2;
  }
  struct target target = {.settings = arguments[3]};
  read_url(&target, arguments[2]);
  const char *operation = arguments[4];
  long rows = 0;
  int check = strncmp(operation, "check_", 6) == 0;
  int bad = check ? run_check(&target, operation + 6) : run_operation(&target, operation, atoi(arguments[5]), &rows);
  printf("{\"driver\": \"%s\", \"driver_version\": \"%s %s\", \"operation\": \"%s\", \"rows\": %ld", arguments[1],
         LIBRARY, mysql_get_client_info(), operation, rows);
  if (check && !bad) fputs(", \"ok\": true", stdout);
  if (bad) {
    fputs(", \"error\": \"", stdout);
    print_text(why);
    putchar('"');
  }
  puts("}");
  return bad ? 1 : 0;
}
