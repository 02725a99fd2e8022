"""DRIVER URL SETTINGS OPERATION COUNT: does the operation and prints one line of JSON about it."""

from __future__ import annotations

import json
import sys
from importlib import import_module
from typing import Any

import checks
import operations
from connecting import Target

MODULES = {
    "pymysql": "with_pymysql",
    "mysqlclient": "with_mysqlclient",
    "connector-python": "with_connector",
    "psycopg": "with_psycopg",
}


def main() -> int:
    if len(sys.argv) != 6:
        sys.stderr.write("usage: DRIVER URL SETTINGS OPERATION COUNT\n")
        return 2
    driver, url, settings, operation, count = sys.argv[1:]
    done: dict[str, Any] = {"driver": driver, "operation": operation}
    try:
        api = import_module(MODULES[driver])
        done["driver_version"] = api.version()
        target = Target.read(url, json.loads(settings))
        if operation.startswith("check_"):
            checks.run(api, target, operation.removeprefix("check_"))
            done["ok"] = True
        else:
            done["rows"] = operations.run(api, target, operation, int(count))
    except Exception as error:
        done["error"] = f"{type(error).__name__}: {error}"
    sys.stdout.write(json.dumps(done) + "\n")
    return int("error" in done)


if __name__ == "__main__":
    sys.exit(main())
