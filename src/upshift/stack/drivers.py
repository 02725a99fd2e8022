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
        C1="useServerPrepStmts=true&cachePrepStmts=true, and prepStmtCacheSqlLimit above the longest statement: a longer one "
        "is prepared each time (default 256 characters); prepStmtCacheSize above the number of statements (default 25)",
        C2="useServerPrepStmts=true&cachePrepStmts=true&prepStmtCacheSqlLimit=2048",
        C3="useCursorFetch=false, or setFetchSize(0)",
        C5="useLocalSessionState=true&elideSetAutoCommits=true&cacheServerConfiguration=true; no test query in the pool",
        C7="rewriteBatchedStatements=true: it joins the INSERTs of a batch into one, and sends its UPDATEs as one text",
        C11="a connection pool whose maxLifetime is minutes",
    ),
    _driver(
        "MariaDB Connector/J",
        "mysql",
        "MariaDB Connector/J",
        C1="useServerPrepStmts=true&cachePrepStmts=true, and prepStmtCacheSize above the number of statements (default 250)",
        C2="useServerPrepStmts=true",
        C3="defaultFetchSize=0, or setFetchSize(0)",
        C5="sessionVariables=... sets variables once a login; no test query in the pool",
        C7="useBulkStmts=true on a MariaDB server; elsewhere rewriteBatchedStatements=true, which turns useServerPrepStmts off",
        C11="a connection pool whose maxLifetime is minutes",
    ),
    _driver(
        "go-sql-driver",
        "mysql",
        "Go-MySQL-Driver",
        C1="keep the *sql.Stmt of db.Prepare, or interpolateParams=true in the DSN: a query with arguments otherwise is a "
        "prepare, an execute and a close",
        C2="keep the *sql.Stmt of db.Prepare",
        C5="variables in the DSN, as transaction_isolation=%27READ-COMMITTED%27, in place of a SET for each transaction",
        C7="one INSERT with many rows of VALUES: the driver has no batches",
        C11="db.SetMaxIdleConns as large as db.SetMaxOpenConns: it keeps 2 idle connections otherwise",
    ),
    _driver(
        "mysql2",
        "mysql",
        "Node-MySQL-2",
        C1="the same connection for execute(), and maxPreparedStatements above the number of statements",
        C2="execute() in place of query()",
        C7="query('INSERT ... VALUES ?', [rows]): one INSERT with many rows",
        C11="createPool in place of createConnection",
        C13="values as the second argument of execute(), never in its text",
    ),
    _driver(
        "PyMySQL",
        "mysql",
        "pymysql",
        C2="PyMySQL has no prepared statements: Connector/Python with cursor(prepared=True) has",
        C5="autocommit= and init_command= of connect() in place of SET statements; no ping() before each use",
        C7="executemany() of an INSERT or REPLACE ... VALUES; an UPDATE ... CASE for updates, which it sends one by one",
    ),
    _driver(
        "Connector/Python",
        "mysql",
        C1="one cursor(prepared=True) for all executions of a statement: a new cursor prepares again",
        C2="cursor(prepared=True)",
        C5="cursor() without prepared=True where a statement runs once: with it a COM_STMT_RESET goes before each execute; "
        "pool_reset_session=False",
        C7="executemany() of a cursor without prepared=True joins the rows of an INSERT; an UPDATE ... CASE for updates",
    ),
    _driver(
        "libmysqlclient",
        "mysql",
        "libmysql",
        "libmariadb",
        C1="keep the MYSQL_STMT of mysql_stmt_prepare",
        C2="mysql_stmt_prepare once, mysql_stmt_execute each time; mysqlclient (Python) has no such call",
        C3="STMT_ATTR_CURSOR_TYPE = CURSOR_TYPE_NO_CURSOR; with a cursor STMT_ATTR_PREFETCH_ROWS far above its default of 1",
        C7="one INSERT with many rows, as executemany() of mysqlclient (Python) makes; MariaDB's library: STMT_ATTR_ARRAY_SIZE",
        C12="MYSQL_OPT_OPTIONAL_RESULTSET_METADATA, and resultset_metadata=NONE in the session (MySQL 8.0 and newer)",
    ),
    _driver(
        "mysqlclient",
        "mysql",
        C2="mysqlclient has no prepared statements: Connector/Python with cursor(prepared=True) has",
        C5="autocommit= and init_command= of connect() in place of SET statements",
        C7="executemany() of an INSERT or REPLACE ... VALUES; an UPDATE ... CASE for updates, which it sends one by one",
    ),
    _driver(
        "pgjdbc",
        "postgres",
        "PostgreSQL JDBC Driver",
        C1="prepareThreshold=1 (default 5), and preparedStatementCacheQueries above the number of statements (default 256)",
        C2="preferQueryMode=extended",
        C3="defaultRowFetchSize=0, or setFetchSize(0)",
        C5="autosave=never: always and conservative send a SAVEPOINT with each statement",
        C7="reWriteBatchedInserts=true",
        C11="a connection pool whose maxLifetime is minutes",
    ),
    _driver(
        "pgx",
        "postgres",
        "pgx",
        C1="default_query_exec_mode=cache_statement; describe_exec and exec prepare each time",
        C2="default_query_exec_mode=cache_statement in place of simple_protocol",
        C6="pgx.Batch sends many statements in one round trip",
        C7="pgx.Batch, or CopyFrom for inserts",
        C11="pgxpool",
    ),
    _driver(
        "psycopg",
        "postgres",
        "psycopg",
        C1="execute(..., prepare=True), or a lower prepare_threshold (default 5)",
        C2="psycopg 3 with Cursor in place of ClientCursor; prepare_threshold not None",
        C3="a larger itersize of the server-side cursor, or a client-side cursor",
        C7="executemany() of psycopg 3, which pipelines; copy() for inserts",
        C11="psycopg_pool",
    ),
)

DRIVERS: Mapping[str, Driver] = {each.name: each for each in _BY_NAME}

GENERIC: Mapping[str, str] = {
    "C1": "prepare each statement once a connection and keep it",
    "C2": "prepare the statement once a connection and execute it with parameters",
    "C3": "fetch all rows at once where they fit into memory; otherwise hundreds a fetch",
    "C4": "ask for the rows that are used: LIMIT, or MIN() or MAX() for the first of an order",
    "C5": "set the session once after the login; leave out tests of the connection before each use",
    "C6": "one statement for all keys: WHERE key IN (...), a join, or INSERT ... VALUES with many rows",
    "C7": "one statement or round trip for the batch: INSERT ... VALUES with many rows, UPDATE ... CASE, the driver's batches",
    "C8": "look at what the application does between its statements while the transaction is open; begin later, commit earlier",
    "C9": "fewer round trips a transaction, or the application nearer to the server",
    "C10": "TCP_NODELAY on both sides; write each message with one call",
    "C11": "keep connections open: a pool",
    "C12": "select fewer columns or more rows at once; descriptions of columns come with each answer",
    "C13": "values as parameters, never in the text that is prepared",
    "P1": "an index that leads to the rows that are sent",
    "P2": "an index on the columns of WHERE or of the join",
    "P3": "an index in the order of ORDER BY or GROUP BY; fewer rows before the sort",
    "E2": "shorter transactions, the same order of rows in all of them, an index for each locking statement",
    "E3": "fewer and larger transactions; a faster disk for the log; relaxed durability "
    "(innodb_flush_log_at_trx_commit, synchronous_commit) where losing the last second is allowed",
    "E4": "a larger buffer pool (innodb_buffer_pool_size), or indexes with which fewer pages are read",
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
