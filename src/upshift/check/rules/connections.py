"""Connections, threads, files and time limits."""

from __future__ import annotations

from statistics import median

from upshift.check.model import Facts, Found
from upshift.check.rule import Rule
from upshift.check.rules.buffers import connections_that_fit
from upshift.check.rules.words import listed, share
from upshift.server.mysql_settings import THREAD_POOL

_NEAR = 0.85
_THREADS_A_CPU = 4
_NEW_THREADS = 0.1
_FEW_CONNECTIONS = 1000
_LEAST_FILES = 5000
_OTHER_FILES = {"mysql": 10, "mariadb": 31}
"""What each server counts beside connections and tables (sql/mysqld.cc)."""
_LONG_S = 3600
_LEAST_BACKLOG = 50
_LONG_LOCK_WAIT_S = 600
_MOST_PREPARED = 4_194_304
_POOL_OF_THE_SOURCE = (9, 7, 0)
"""The first MySQL whose source has the thread pool. A server refuses a setting that its plugin does not know."""


def _near_limit(facts: Facts) -> Found | None:
    most, used = facts.number("max_connections"), facts.counted("max_used_connections")
    refused = facts.counted("connection_errors_max_connections")
    if used < _NEAR * most:  # those refused may have met an earlier limit
        return None
    said = f" {refused:,} were refused." if refused else ""
    told = f"{used:,} of {most:,} connections were open at once ({share(used, most)}).{said}"
    more = max(2 * used, most)
    if facts.host:
        more = min(more, connections_that_fit(facts))
    if more <= most:
        return Found(evidence=f"{told} Memory does not suffice for the buffers of more.")
    return Found(evidence=told, settings={"max_connections": str(more)})


def _idle_cpus_halt(facts: Facts) -> Found | None:
    assert facts.host
    if facts.host.idle_poll_ns != 0:
        return None
    told = "The kernel's governor of idle CPUs is haltpoll, and guest_halt_poll_ns is 0; the kernel's default is 200000."
    return Found(evidence=told, commands=("echo 200000 > /sys/module/haltpoll/parameters/guest_halt_poll_ns",))


def _thread_cache_off(facts: Facts) -> Found | None:
    if facts.number("thread_cache_size") or facts.text("thread_handling") != "one-thread-per-connection":
        return None
    return Found(
        evidence="thread_cache_size is 0: each connection makes a thread, and ends it.",
        settings={"thread_cache_size": str(8 + facts.number("max_connections") // 100)},
    )


def _thread_cache_small(facts: Facts) -> Found | None:
    made, all_ = facts.counted("threads_created"), facts.counted("connections")
    now = facts.number("thread_cache_size")
    if not now or all_ < _FEW_CONNECTIONS or made < _NEW_THREADS * all_:
        return None
    told = f"{made:,} threads were made for {all_:,} connections ({share(made, all_)}); the cache holds {now:,}."
    return Found(evidence=told, settings={"thread_cache_size": str(max(2 * now, 64))})


def _thread_pool(facts: Facts) -> Found | None:
    host, running = facts.host, median(facts.threads_running or (0,))
    assert host
    if facts.text("thread_handling") != "one-thread-per-connection" or running < _THREADS_A_CPU * host.cpus:
        return None
    told = f"{running:g} threads work at once on {host.cpus:g} CPUs."
    if facts.family == "mariadb":
        return Found(evidence=told, settings={"thread_handling": "pool-of-threads"})
    if not host.thread_pool:
        return None
    told += f" thread_pool.so lies in {facts.text('plugin_dir')}."
    known = facts.version >= _POOL_OF_THE_SOURCE
    return Found(evidence=told, settings=THREAD_POOL if known else {"plugin_load_add": THREAD_POOL["plugin_load_add"]})


def _thread_concurrency(facts: Facts) -> Found | None:
    assert facts.host
    now = facts.number("innodb_thread_concurrency")
    if not now or now >= 2 * facts.host.cpus:
        return None
    return Found(
        evidence=f"InnoDB lets {now} threads in at once, on {facts.host.cpus:g} CPUs.",
        settings={"innodb_thread_concurrency": "0"},
    )


def _backlog(facts: Facts) -> Found | None:
    now, most = facts.number("back_log"), facts.number("max_connections")
    if now >= min(_LEAST_BACKLOG, most):
        return None
    told = f"back_log is {now}: that many clients may wait for their connection, and max_connections is {most:,}."
    return Found(evidence=told, settings={"back_log": str(max(_LEAST_BACKLOG, min(most, 900)))})


def _somaxconn(facts: Facts) -> Found | None:
    assert facts.host and facts.host.somaxconn is not None
    now = facts.host.somaxconn
    if now >= min(facts.number("back_log"), facts.number("max_connections"), 1024) or facts.on("skip_networking"):
        return None
    told = f"net.core.somaxconn is {now:,}, and back_log {facts.number('back_log'):,}: the kernel takes the smaller."
    return Found(evidence=told, commands=("sysctl -w net.core.somaxconn=4096",))


def _open_files(facts: Facts) -> Found | None:
    limit, most, cache = facts.number("open_files_limit"), facts.number("max_connections"), facts.number("table_open_cache")
    wanted = _OTHER_FILES[facts.family] + most + 2 * cache
    # The server cuts the cache until it fits, so that the sum is then the limit, or above where the cache is at its least.
    if limit > max(_LEAST_FILES, 5 * most) or wanted < limit - 1:
        return None
    told = f"The server may open {limit:,} files: {most:,} connections and {cache:,} cached tables need {wanted:,}."
    better = max(_LEAST_FILES, 5 * most, wanted)
    # How many tables the server would cache, if it had not cut the cache, nobody can tell.
    return Found(evidence=told, settings={"open_files_limit": str(better if better > limit else 2 * limit)})


def _lock_wait(facts: Facts) -> Found | None:
    now_s = facts.number("innodb_lock_wait_timeout")
    if now_s <= _LONG_LOCK_WAIT_S:
        return None
    told = f"A statement waits for a row lock for up to {now_s:,} s, with its connection and its own locks."
    return Found(evidence=told, settings={"innodb_lock_wait_timeout": "50"})


def _deadlocks(facts: Facts) -> Found | None:
    if facts.on("innodb_deadlock_detect"):
        return None
    wait_s = facts.number("innodb_lock_wait_timeout")
    if wait_s < 10:
        return None
    told = f"innodb_deadlock_detect is OFF: two transactions that wait for each other do so for {wait_s:,} s."
    return Found(evidence=told, settings={"innodb_deadlock_detect": "ON"})


def _long_query(facts: Facts) -> Found | None:
    limit = facts.variables.get("max_execution_time", facts.variables.get("max_statement_time", "0"))
    long = [each for each in facts.statements if each.verb == "SELECT" and each.age_s >= _LONG_S]
    if float(limit) or not long:
        return None
    named = listed([f"{each.thread} for {each.age_s:,} s" for each in long], "SELECT")
    setting = {"max_execution_time": "600000"} if facts.family == "mysql" else {"max_statement_time": "600"}
    return Found(
        evidence=f"Nothing limits a statement's time, and there are {named} (thread, time).",
        settings=setting,
        statements=tuple(f"KILL QUERY {each.thread}" for each in long),
    )


def _prepared(facts: Facts) -> Found | None:
    now, most = facts.counted("prepared_stmt_count"), facts.number("max_prepared_stmt_count")
    if not most or now < 0.8 * most:
        return None
    told = f"{now:,} prepared statements are open, and {most:,} may be: clients prepare and do not close."
    more = min(4 * most, _MOST_PREPARED)
    return Found(evidence=told, settings={"max_prepared_stmt_count": str(more)} if more > most else {})


RULES: tuple[Rule, ...] = (
    Rule(
        id="connections-near-limit",
        title="Nearly all connections were in use",
        cause="connections",
        severity="warning",
        source="MySQL manual: Too many connections",
        variables=(
            *("max_connections", "key_buffer_size", "sort_buffer_size", "join_buffer_size", "read_buffer_size"),
            *("read_rnd_buffer_size", "binlog_cache_size", "net_buffer_length"),
        ),
        needs=("traffic",),
        condition=_near_limit,
        effect="No client gets error 1040.",
        risk="More statements at once need more memory; a pool in the application may be the better place.",
    ),
    Rule(
        id="thread-pool",
        title="Many more threads work than there are CPUs",
        cause="connections",
        severity="note",
        source="MySQL 9.7 source: plugin/thread_pool",
        variables=("thread_handling", "plugin_dir"),
        needs=("machine", "traffic"),
        condition=_thread_pool,
        effect="Fewer statements at once that wait for the same CPU, latch and cache.",
        risk=(
            "A statement may wait for a thread; long transactions hold one. In MySQL 9.7.4 without the patch pool_kill, a new "
            "connection may hang after a KILL."
        ),
        provable=True,
    ),
    Rule(
        id="thread-concurrency-low",
        title="InnoDB limits how many threads run inside it",
        cause="connections",
        severity="warning",
        source="MySQL manual: Configuring Thread Concurrency for InnoDB",
        variables=("innodb_thread_concurrency",),
        needs=("machine",),
        condition=_thread_concurrency,
        effect="Threads do not queue before idle CPUs.",
        risk="Under very many threads they get into each other's way.",
        provable=True,
    ),
    Rule(
        id="idle-cpus-halt",
        title="Idle CPUs of the virtual machine halt at once",
        cause="connections",
        severity="warning",
        source="Linux kernel, Documentation/virt/guest-halt-polling.rst",
        needs=("machine",),
        condition=_idle_cpus_halt,
        effect="A thread that waits on an idle CPU is woken without a way through the hypervisor.",
        risk=(
            "A CPU without work polls for up to 0.2 ms before it halts, which the host's other machines may miss; add "
            "haltpoll.guest_halt_poll_ns=200000 to the kernel's command line to keep it."
        ),
    ),
    Rule(
        id="thread-cache-off",
        title="Threads are not kept for the next connection",
        cause="connections",
        severity="warning",
        source="MySQL manual: Server System Variables, thread_cache_size",
        variables=("thread_cache_size", "thread_handling"),
        condition=_thread_cache_off,
        effect="A connection takes a thread that is there.",
        risk="Some idle threads.",
        provable=True,
    ),
    Rule(
        id="thread-cache-small",
        title="Many connections make a thread of their own",
        cause="connections",
        severity="warning",
        source="MySQL manual: Server System Variables, thread_cache_size",
        variables=("thread_cache_size",),
        needs=("traffic",),
        condition=_thread_cache_small,
        effect="A connection takes a thread that is there.",
        risk="Some idle threads.",
        provable=True,
    ),
    Rule(
        id="back-log-small",
        title="The queue of new connections is short",
        cause="connections",
        severity="warning",
        source="MySQL manual: Server System Variables, back_log",
        variables=("back_log", "max_connections"),
        condition=_backlog,
        effect="A burst of new connections is not refused.",
        risk="None that is known.",
    ),
    Rule(
        id="somaxconn",
        title="The kernel cuts the queue of new connections",
        cause="connections",
        severity="note",
        source="MySQL manual: Server System Variables, back_log",
        variables=("back_log", "max_connections", "skip_networking"),
        needs=("machine", "network"),
        condition=_somaxconn,
        effect="A burst of new connections is not refused.",
        risk="None that is known; write the line to /etc/sysctl.d to keep it.",
    ),
    Rule(
        id="open-files-limit",
        title="The open-file limit reduces the caches",
        cause="connections",
        severity="warning",
        source="MySQL 9.7 source: sql/mysqld.cc, adjust_open_files_limit",
        variables=("open_files_limit", "max_connections", "table_open_cache"),
        condition=_open_files,
        effect="The table cache has the size that the configuration says.",
        risk="None that is known. The limit of its systemd unit, LimitNOFILE, must allow it.",
    ),
    Rule(
        id="lock-wait-long",
        title="Statements wait very long for a row",
        cause="connections",
        severity="warning",
        source="MySQL manual: InnoDB Startup Options and System Variables, innodb_lock_wait_timeout",
        variables=("innodb_lock_wait_timeout",),
        condition=_lock_wait,
        effect="One stuck transaction does not gather all connections behind it.",
        risk="Clients get error 1205, and must be ready for it.",
    ),
    Rule(
        id="deadlock-detect-off",
        title="Deadlocks last until a time limit",
        cause="connections",
        severity="warning",
        source="MySQL manual: Deadlock Detection",
        variables=("innodb_deadlock_detect", "innodb_lock_wait_timeout"),
        condition=_deadlocks,
        effect="A deadlock ends at once, with error 1213 for one of them.",
        risk="CPU time where very many transactions want the same row.",
        provable=True,
    ),
    Rule(
        id="query-without-limit",
        title="A statement has run for hours, and nothing stops it",
        cause="connections",
        severity="warning",
        source="MySQL manual: Server System Variables, max_execution_time",
        needs=("statements",),
        condition=_long_query,
        effect="A runaway SELECT ends by itself; purge goes on.",
        risk=(
            "What takes longer ends: in MySQL SELECTs, with error 3024, in MariaDB every statement, also ALTER TABLE, with "
            "error 1969. Raise the limit in the session of reports and backups."
        ),
    ),
    Rule(
        id="prepared-near-limit",
        title="Prepared statements are running out",
        cause="connections",
        severity="warning",
        source="MySQL manual: Server System Variables, max_prepared_stmt_count",
        variables=("max_prepared_stmt_count",),
        condition=_prepared,
        effect="No client gets error 1461.",
        risk="Memory; the clients that do not close their statements are the cause.",
    ),
)
