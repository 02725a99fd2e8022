"""Drivers: how each is recognised, and which of its options fixes what."""

from __future__ import annotations

import json
from collections.abc import Mapping

from upshift.errors import UsageError
from upshift.stack.suspects.model import Fix
from upshift.values import Value


class Driver(Value):
    """A client library, and what to change in its options or calls for each suspect that it is the cause of."""

    name: str
    family: str
    calls_itself: tuple[str, ...] = ()
    """Its ``_client_name`` or application_name; empty for those that say nothing."""
    fixes: Mapping[str, str]


def _driver(name: str, family: str, *calls_itself: str, **fixes: str) -> Driver:
    return Driver(name=name, family=family, calls_itself=calls_itself, fixes=fixes)


_BY_NAME = (
    _driver(
        "Connector/J",
        "mysql",
        "MySQL Connector/J",
        C1="Set useServerPrepStmts=true&cachePrepStmts=true. Set prepStmtCacheSize above the number of statements (default "
        "25), and prepStmtCacheSqlLimit above the length of the longest one (default 256 characters): the driver prepares a "
        "longer one each time.",
        C2="Set useServerPrepStmts=true&cachePrepStmts=true&prepStmtCacheSqlLimit=2048.",
        C3="Set useCursorFetch=false, or call setFetchSize(0).",
        C5="Set useLocalSessionState=true&elideSetAutoCommits=true&cacheServerConfiguration=true. Let the pool test only "
        "connections that were idle.",
        C7="Set rewriteBatchedStatements=true. The driver then joins the INSERTs of a batch into one, and sends more than "
        "three UPDATEs of a batch as one text.",
        C11="Use a connection pool, with a maxLifetime of minutes.",
    ),
    _driver(
        "MariaDB Connector/J",
        "mysql",
        "MariaDB Connector/J",
        C1="Set useServerPrepStmts=true&cachePrepStmts=true. Set prepStmtCacheSize above the number of statements (default "
        "250).",
        C2="Set useServerPrepStmts=true.",
        C3="Set defaultFetchSize=0, or call setFetchSize(0).",
        C5="List the variables in sessionVariables=...: the driver sets them once, at the login. Set "
        "useLocalSessionState=true (3.2 and newer). Let the pool test only connections that were idle.",
        C7="On a MariaDB server, set useBulkStmts=true. On a MySQL server, set rewriteBatchedStatements=true, which turns "
        "useServerPrepStmts off; versions from 3.0 to 3.5.5 do not have it.",
        C11="Use a connection pool, with a maxLifetime of minutes.",
    ),
    _driver(
        "go-sql-driver",
        "mysql",
        "Go-MySQL-Driver",
        C1="Keep the *sql.Stmt of db.Prepare: without it, a query with arguments is a prepare, an execute and a close. Or "
        "set interpolateParams=true in the DSN: the driver then sends text.",
        C2="Keep the *sql.Stmt of db.Prepare.",
        C5="Set the variables in the DSN, such as transaction_isolation=%27READ-COMMITTED%27. The isolation level of BeginTx "
        "costs a SET for each transaction.",
        C7="Send one INSERT with many rows of VALUES: the driver has no batches.",
        C11="Set db.SetMaxIdleConns to the number of db.SetMaxOpenConns: by default, the pool keeps 2 idle connections.",
    ),
    _driver(
        "mysql2",
        "mysql",
        "Node-MySQL-2",
        C1="Call execute() on the same connection again. Set maxPreparedStatements above the number of statements.",
        C2="Call execute() in place of query().",
        C7="Call query('INSERT ... VALUES ?', [rows]): it sends one INSERT with many rows.",
        C11="Call createPool in place of createConnection.",
        C13="Give the values as the second argument of execute(), never in its text.",
    ),
    _driver(
        "PyMySQL",
        "mysql",
        "pymysql",
        C2="Use Connector/Python with cursor(prepared=True): PyMySQL has no prepared statements.",
        C5="Set autocommit= and init_command= of connect() in place of SET statements. Do not call ping() before each use.",
        C7="Call executemany() for an INSERT or REPLACE ... VALUES. Send updates as one UPDATE ... CASE: executemany() sends "
        "them one by one.",
    ),
    _driver(
        "Connector/Python",
        "mysql",
        C1="Keep one cursor(prepared=True) for each statement: a new cursor prepares again.",
        C2="Use cursor(prepared=True).",
        C5="Use cursor() without prepared=True for a statement that runs once: with it, the driver sends a COM_STMT_RESET "
        "before each execute. Set pool_reset_session=False.",
        C7="Call executemany() of a cursor without prepared=True for an INSERT: it joins the rows. Send updates as one "
        "UPDATE ... CASE.",
    ),
    _driver(
        "libmysqlclient",
        "mysql",
        "libmysql",
        "libmariadb",
        C1="Keep the MYSQL_STMT of mysql_stmt_prepare.",
        C2="Call mysql_stmt_prepare once, and mysql_stmt_execute each time. mysqlclient (Python) has no such call.",
        C3="Set STMT_ATTR_CURSOR_TYPE to CURSOR_TYPE_NO_CURSOR. With a cursor, set STMT_ATTR_PREFETCH_ROWS far above its "
        "default of 1.",
        C7="Send one INSERT with many rows, as executemany() of mysqlclient (Python) does. MariaDB's library has "
        "STMT_ATTR_ARRAY_SIZE.",
        C12="Set MYSQL_OPT_OPTIONAL_RESULTSET_METADATA, and resultset_metadata=NONE in the session (MySQL 8.0 and newer).",
    ),
    _driver(
        "mysqlclient",
        "mysql",
        C2="Use Connector/Python with cursor(prepared=True): mysqlclient has no prepared statements.",
        C5="Set autocommit= and init_command= of connect() in place of SET statements.",
        C7="Call executemany() for an INSERT or REPLACE ... VALUES. Send updates as one UPDATE ... CASE: executemany() sends "
        "them one by one.",
    ),
    _driver(
        "pgjdbc",
        "postgres",
        "PostgreSQL JDBC Driver",
        C1="Set prepareThreshold=1 (default 5). Set preparedStatementCacheQueries above the number of statements (default "
        "256).",
        C2="Set preferQueryMode=extended.",
        C3="Set defaultRowFetchSize=0, or call setFetchSize(0).",
        C5="Set variables once, by options=-c%20NAME=VALUE in the URL. Let the pool test only connections that were idle.",
        C7="Set reWriteBatchedInserts=true: the driver then joins the INSERTs of a batch.",
        C11="Use a connection pool, with a maxLifetime of minutes.",
    ),
    _driver(
        "pgx",
        "postgres",
        "pgx",
        C1="Set default_query_exec_mode=cache_statement: describe_exec and exec prepare each time.",
        C2="Set default_query_exec_mode=cache_statement in place of simple_protocol.",
        C6="Send the statements as a pgx.Batch: it takes one round trip.",
        C7="Send the statements as a pgx.Batch, or use CopyFrom for inserts.",
        C11="Use pgxpool.",
    ),
    _driver(
        "psycopg",
        "postgres",
        "psycopg",
        C1="Call execute(..., prepare=True), or set prepare_threshold below its default of 5.",
        C2="Use Cursor of psycopg 3 in place of ClientCursor. Do not set prepare_threshold to None.",
        C3="Set a larger itersize of the server-side cursor, or use a client-side cursor.",
        C7="Call executemany() of psycopg 3, which sends a pipeline. Use copy() for inserts.",
        C11="Use psycopg_pool.",
    ),
)

DRIVERS: Mapping[str, Driver] = {each.name: each for each in _BY_NAME}

GENERIC: Mapping[str, str] = {
    "C1": "Prepare each statement once on a connection, and keep it.",
    "C2": "Prepare the statement once on a connection, and execute it with parameters.",
    "C3": "Fetch all rows at once where they fit into memory. Otherwise, fetch hundreds at a time.",
    "C4": "Select only the rows that are used: add LIMIT, or select MIN() or MAX() where the first row of an order is used.",
    "C5": "Set the session once, after the login. Do not test a connection before each use.",
    "C6": "Send one statement for all keys: WHERE key IN (...), a join, or INSERT ... VALUES with many rows.",
    "C7": "Send the batch in one statement or round trip: INSERT ... VALUES with many rows, UPDATE ... CASE, or the driver's "
    "batches.",
    "C8": "Find out what the application does between its statements while the transaction is open. Begin the transaction "
    "later, or commit it earlier.",
    "C9": "Use fewer round trips in a transaction, or move the application nearer to the server.",
    "C10": "Set TCP_NODELAY on both sides. Write each message with one call.",
    "C11": "Keep connections open: use a connection pool.",
    "C12": "Select fewer columns, or more rows at once: each answer describes its columns again.",
    "C13": "Send values as parameters, never in the text that is prepared.",
    "P1": "Create an index that leads to the rows that are sent.",
    "P2": "Create an index on the columns of WHERE or of the join.",
    "P3": "Create an index in the order of ORDER BY or GROUP BY, or sort fewer rows.",
    "E2": "Make transactions shorter. Lock rows in the same order in all of them. Give each locking statement an index.",
    "E3": "Commit less often, with more changes each time. Put the log on a faster disk. Relax durability "
    "(innodb_flush_log_at_trx_commit, synchronous_commit) where losing the last second is allowed.",
    "E4": "Enlarge the buffer pool (innodb_buffer_pool_size), or create indexes with which statements read fewer pages.",
}
"""What to do whatever the driver is."""


def recognised(family: str, name: str | None, attributes: str | None) -> str | None:
    """The driver of a session by its connection attributes (JSON); None: it does not say, or is not known here."""
    known = json.loads(attributes) if attributes else {}
    # It stands beside the name of the library that it may be built on.
    if isinstance(known, dict) and known.get("_connector_name") == "mysql-connector-python":
        return "Connector/Python"
    said = (name or "").lower()
    return next(
        (
            each.name
            for each in DRIVERS.values()
            if each.family == family and any(said.startswith(own.lower()) for own in each.calls_itself)
        ),
        None,
    )


def find_driver(name: str) -> str:
    """A driver that a user named. Raises UsageError."""
    for known in DRIVERS:
        if known.lower() == name.lower():
            return known
    raise UsageError(f"there is no driver {name!r}", f"one of {', '.join(DRIVERS)}")


def fixes(suspect: str, drivers: tuple[str, ...]) -> tuple[Fix, ...]:
    """What to change: the option of each of these drivers that has one, or else what holds for all."""
    own = tuple(
        Fix(driver=name, text=DRIVERS[name].fixes[suspect]) for name in dict.fromkeys(drivers) if suspect in DRIVERS[name].fixes
    )
    return own or (Fix(text=GENERIC[suspect]),)
