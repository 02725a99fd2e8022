"""Memory beside the buffer pool: each connection's buffers, and what else is taken."""

from __future__ import annotations

from upshift.check.model import Facts, Found
from upshift.check.rule import Rule
from upshift.check.rules.words import MIB, SMALL_MEMORY_BYTES, amount, size

_OF_EACH_CONNECTION = ("sort_buffer_size", "join_buffer_size", "read_buffer_size", "read_rnd_buffer_size", "binlog_cache_size")
"""What a statement may take of each, besides the connection's own buffer. Stacks are mapped, and hardly touched."""
_SHARED = ("innodb_buffer_pool_size", "innodb_log_buffer_size", "key_buffer_size")
_ENOUGH = ("sort_buffer_size", "join_buffer_size", "read_rnd_buffer_size")
"""Buffers of a statement that suffice with 256 KiB, their default in MySQL."""
_USED_OF_MEMORY = 0.9


def _of_each_connection(facts: Facts) -> int:
    return sum(facts.number(name) for name in (*_OF_EACH_CONNECTION, "net_buffer_length"))


def _shared(facts: Facts) -> int:
    """What is allocated once; InnoDB's is not there where InnoDB is not."""
    return sum(facts.number(name) for name in _SHARED if name in facts.variables)


def connections_that_fit(facts: Facts) -> int:
    """How many connections have memory for all of their buffers."""
    assert facts.host
    return max(0, int((_USED_OF_MEMORY * facts.host.memory_bytes - _shared(facts)) / _of_each_connection(facts)))


def _connections_above_memory(facts: Facts) -> Found | None:
    assert facts.host
    most, memory = facts.number("max_connections"), facts.host.memory_bytes
    each, shared, used = _of_each_connection(facts), _shared(facts), facts.counted("max_used_connections")
    if shared + most * each <= memory:
        return None
    told = f"{most:,} connections of {size(each)} beside {size(shared)} of shared buffers may take {size(shared + most * each)}"
    told = f"{told}; there are {size(memory)}. The most at once were {used:,}."
    fitting = max(10, connections_that_fit(facts), used + 10)
    if fitting < most:
        return Found(evidence=told, settings={"max_connections": str(fitting)})
    # All are in use: what each of them takes is too large, or what they share.
    if large := [name for name in _ENOUGH if facts.number(name) > MIB // 4]:
        return Found(evidence=told, settings=dict.fromkeys(large, "256K"))
    smaller = {}
    if "innodb_buffer_pool_size" in facts.variables:
        pool = facts.number("innodb_buffer_pool_size") - (shared + most * each - _USED_OF_MEMORY * memory)
        smaller = {"innodb_buffer_pool_size": amount(max(pool, 8 * MIB))}
    return Found(evidence=told, settings=smaller)


def _key_buffer(facts: Facts) -> Found | None:
    size_bytes = facts.number("key_buffer_size")
    if size_bytes < 64 * MIB or any(each.engine == "MyISAM" for each in facts.tables):
        return None
    return Found(
        evidence=f"key_buffer_size is {size(size_bytes)}, and no table of yours is MyISAM's.",
        settings={"key_buffer_size": "8M"},
    )


def _performance_schema_memory(facts: Facts) -> Found | None:
    assert facts.host
    memory = facts.host.memory_bytes
    if memory >= SMALL_MEMORY_BYTES or facts.performance_schema_bytes < 0.1 * memory:
        return None
    held = f"{size(facts.performance_schema_bytes)} of {size(facts.host.memory_bytes)}"
    return Found(evidence=f"performance_schema holds {held}.", settings={"performance_schema": "OFF"})


def _session_buffer(name: str, most_bytes: int, better: str) -> Rule:
    def condition(facts: Facts) -> Found | None:
        now = facts.number(name)
        if now <= most_bytes:
            return None
        told = f"{name} is {size(now)} for every connection, and statements take it each time that they need one."
        return Found(evidence=told, settings={name: better})

    return Rule(
        id=f"{name.removesuffix('_size').replace('_', '-')}-global",
        title=f"{name} is large for all connections",
        cause="memory",
        severity="warning",
        source=f"MySQL manual: Server System Variables, {name}",
        variables=(name,),
        condition=condition,
        effect="Less memory and less time to get it; statements that need more set it for their own session.",
        risk="A few large statements get slower unless they set it themselves.",
        provable=True,
    )


RULES: tuple[Rule, ...] = (
    Rule(
        id="connections-above-memory",
        title="All connections at work need more memory than there is",
        cause="memory",
        severity="warning",
        source="MySQL manual: How MySQL Uses Memory",
        variables=(*_OF_EACH_CONNECTION, "net_buffer_length", "max_connections", "key_buffer_size"),
        needs=("machine",),
        condition=_connections_above_memory,
        effect="A burst of clients is refused, and does not bring the server down.",
        risk="Clients above the limit get error 1040.",
    ),
    Rule(
        id="key-buffer-unused",
        title="A large key buffer, and no MyISAM tables",
        cause="memory",
        severity="note",
        source="MySQL manual: The MyISAM Key Cache",
        variables=("key_buffer_size",),
        needs=("all tables",),
        condition=_key_buffer,
        effect="The memory is free for InnoDB's buffer pool.",
        risk="None that is known; MyISAM tables that come later read their indexes from the page cache.",
    ),
    Rule(
        id="performance-schema-memory",
        title="performance_schema takes much of a small memory",
        cause="memory",
        severity="warning",
        source="MySQL manual: The Performance Schema Memory-Allocation Model",
        variables=("performance_schema",),
        needs=("machine", "instruments"),
        condition=_performance_schema_memory,
        effect="The memory is free for the buffer pool and connections.",
        risk="No statement digests, waits or sys schema; smaller performance_schema_max_* keep some of them.",
    ),
    _session_buffer("sort_buffer_size", 4 * MIB, "256K"),
    _session_buffer("join_buffer_size", 8 * MIB, "256K"),
    _session_buffer("read_buffer_size", 4 * MIB, "128K"),
    _session_buffer("read_rnd_buffer_size", 4 * MIB, "256K"),
)
