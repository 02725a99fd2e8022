"""Memory: what the server takes, against what there is."""

from __future__ import annotations

from upshift.check.model import BY_SET, Facts, Found, Host
from upshift.check.rule import Rule, too_little_traffic
from upshift.check.rules.words import GIB, MIB, amount, share, size

_FEW_MISSES = 0.001
_WORTH_GROWING = 1.5
_MOST_OF_MEMORY = 0.85
_SWAPPED_BYTES = 64 * MIB


def room_for_pool(host: Host) -> float:
    """What a buffer pool may take of what others leave: a little less than innodb_dedicated_server gives it of all."""
    left = host.memory_bytes if host.limited else host.memory_bytes - host.others_bytes
    return left * (0.25 if left < GIB else 0.5 if left <= 4 * GIB else 0.7)


def data_bytes(facts: Facts) -> int:
    return sum(each.data_bytes + each.index_bytes for each in facts.tables if each.engine == "InnoDB")


def _pool_below_data(facts: Facts) -> Found | None:
    assert facts.host
    pool, data = facts.number("innodb_buffer_pool_size"), data_bytes(facts)
    best = min(1.1 * data, room_for_pool(facts.host))
    if data <= pool or best < _WORTH_GROWING * pool:
        return None
    read = ""
    if not too_little_traffic(facts):
        asked, missed = facts.counted("innodb_buffer_pool_read_requests"), facts.counted("innodb_buffer_pool_reads")
        if missed < _FEW_MISSES * asked:
            return None
        read = f" {share(missed, asked)} of the page requests went to the disk."
    told = f"{size(data)} of InnoDB data, a pool of {size(pool)}, and {size(facts.host.memory_bytes)} of memory.{read}"
    return Found(evidence=told, settings={"innodb_buffer_pool_size": amount(best)})


def _pool_above_memory(facts: Facts) -> Found | None:
    assert facts.host
    pool, memory = facts.number("innodb_buffer_pool_size"), facts.host.memory_bytes
    others = 0 if facts.host.limited else facts.host.others_bytes
    if pool <= _MOST_OF_MEMORY * memory and pool + others <= memory:
        return None
    beside = f", and other processes hold {size(others)}" if others else ""
    limit = " by its control group" if facts.host.limited else ""
    told = f"The pool may grow to {size(pool)}; the server has {size(memory)}{limit}{beside}."
    return Found(evidence=told, settings={"innodb_buffer_pool_size": amount(max(room_for_pool(facts.host), 8 * MIB))})


def _swapped(facts: Facts) -> Found | None:
    assert facts.host
    if facts.host.swapped_bytes < max(_SWAPPED_BYTES, facts.host.resident_bytes // 50):
        return None
    told = f"{size(facts.host.swapped_bytes)} of the server are in swap, {size(facts.host.resident_bytes)} in memory."
    lower = amount(max(0.8 * facts.number("innodb_buffer_pool_size"), 8 * MIB))
    above = _pool_above_memory(facts)
    return Found(evidence=told, settings=above.settings if above else {"innodb_buffer_pool_size": lower})


def _swappiness(facts: Facts) -> Found | None:
    host = facts.host
    assert host
    if not host.swap_bytes or host.swappiness <= 10 or facts.number("innodb_buffer_pool_size") < host.memory_bytes / 2:
        return None
    told = (
        f"vm.swappiness is {host.swappiness}, there are {size(host.swap_bytes)} of swap, and the pool is over half of memory."
    )
    return Found(evidence=told, commands=("sysctl -w vm.swappiness=1",))


def _numa(facts: Facts) -> Found | None:
    host, pool = facts.host, facts.number("innodb_buffer_pool_size")
    assert host
    if host.numa_nodes < 2 or facts.on("innodb_numa_interleave") or pool < host.memory_bytes / host.numa_nodes / 2:
        return None
    told = f"{host.numa_nodes} NUMA nodes, and a pool of {size(pool)}: one node's memory fills up while others' is free."
    return Found(evidence=told, settings={"innodb_numa_interleave": "ON"})


def _huge_pages(facts: Facts) -> Found | None:
    host, pool = facts.host, facts.number("innodb_buffer_pool_size")
    assert host
    if host.huge_pages != "always" or pool < 0.6 * host.memory_bytes:
        return None
    return Found(
        evidence=f"Transparent huge pages are always, and the pool leaves {size(host.memory_bytes - pool)} for all else.",
        commands=("echo madvise > /sys/kernel/mm/transparent_hugepage/enabled",),
    )


def _is_pool_configured(facts: Facts) -> bool:
    """Whether the buffer pool has a size that innodb_dedicated_server leaves alone, at the next start as well."""
    return facts.origins.get("innodb_buffer_pool_size", BY_SET) != BY_SET


def _dedicated(facts: Facts) -> Found | None:
    host = facts.host
    assert host
    if not facts.on("innodb_dedicated_server") or _is_pool_configured(facts):
        return None
    if host.limited or host.others_bytes < host.memory_bytes / 4:
        return None
    told = (
        f"Other processes hold {size(host.others_bytes)} of {size(host.memory_bytes)}: the machine is not the server's alone."
    )
    fixed = {"innodb_dedicated_server": "OFF", "innodb_buffer_pool_size": amount(room_for_pool(host))}
    return Found(evidence=told, settings=fixed)


def _dedicated_ignored(facts: Facts) -> Found | None:
    if not facts.on("innodb_dedicated_server") or not _is_pool_configured(facts):
        return None
    return Found(
        evidence="innodb_dedicated_server is ON, and innodb_buffer_pool_size is set: the server then takes the second.",
        settings={"innodb_dedicated_server": "OFF"},
    )


def _container(facts: Facts) -> Found | None:
    assert facts.host
    if facts.on("container_aware") or not facts.host.limited or facts.number("server_memory"):
        return None
    told = f"A control group limits the server to {size(facts.host.memory_bytes)}, and container_aware is OFF."
    return Found(evidence=told, settings={"container_aware": "ON"})


def _no_warm_up(facts: Facts) -> Found | None:
    names = ("innodb_buffer_pool_dump_at_shutdown", "innodb_buffer_pool_load_at_startup")
    off = [name for name in names if not facts.on(name)]
    if not off or facts.number("innodb_buffer_pool_size") < GIB:
        return None
    return Found(evidence=f"{' and '.join(off)}: OFF.", settings=dict.fromkeys(off, "ON"))


_ALSO_DEDICATED = (
    "innodb_redo_log_capacity falls back to its default unless it is set, and so does innodb_flush_method before MySQL 8.4."
)
RULES: tuple[Rule, ...] = (
    Rule(
        id="buffer-pool-above-memory",
        title="The buffer pool does not fit into memory",
        cause="memory",
        severity="error",
        source="MySQL manual: InnoDB Startup Options and System Variables, innodb_buffer_pool_size",
        variables=("innodb_buffer_pool_size",),
        needs=("machine",),
        condition=_pool_above_memory,
        effect="The kernel neither swaps the server nor kills it.",
        risk="More pages are read from the disk if the pool was full.",
    ),
    Rule(
        id="buffer-pool-below-data",
        title="The buffer pool is smaller than the data, and there is memory",
        cause="memory",
        severity="warning",
        source="MySQL manual: Configuring InnoDB Buffer Pool Size",
        variables=("innodb_buffer_pool_size",),
        needs=("machine", "all tables"),
        condition=_pool_below_data,
        effect="Pages stay in memory that are now read from the disk.",
        risk="Memory that nothing else can use; leave some to the page cache of binary logs and backups.",
        provable=True,
    ),
    Rule(
        id="server-swapped",
        title="A part of the server is in swap",
        cause="memory",
        severity="error",
        source="MySQL manual: How MySQL Uses Memory",
        variables=("innodb_buffer_pool_size",),
        needs=("machine",),
        condition=_swapped,
        effect="No statement waits for its own memory to come back from the disk.",
        risk="A smaller pool holds fewer pages.",
    ),
    Rule(
        id="swappiness",
        title="The kernel would rather swap the server than drop its page cache",
        cause="memory",
        severity="note",
        source="Linux kernel, Documentation/admin-guide/sysctl/vm.rst: swappiness",
        variables=("innodb_buffer_pool_size",),
        needs=("machine",),
        condition=_swappiness,
        effect="The buffer pool stays in memory when files are read.",
        risk="Under pressure the kernel kills sooner; write the line to /etc/sysctl.d to keep it.",
    ),
    Rule(
        id="numa-interleave",
        title="The buffer pool may come from one NUMA node",
        cause="memory",
        severity="warning",
        source="MySQL manual: InnoDB Startup Options and System Variables, innodb_numa_interleave",
        variables=("innodb_numa_interleave", "innodb_buffer_pool_size"),
        needs=("machine",),
        condition=_numa,
        effect="No node runs out of memory, and swaps, while others have some.",
        risk="A page is more often another node's.",
    ),
    Rule(
        id="huge-pages-always",
        title="The kernel gives huge pages to all programs while memory is short",
        cause="memory",
        severity="note",
        source="Linux kernel, Documentation/admin-guide/mm/transhuge.rst",
        variables=("innodb_buffer_pool_size",),
        needs=("machine",),
        condition=_huge_pages,
        effect="Small allocations do not hold 2 MiB each, and no statement waits while the kernel makes room for one.",
        risk="Loads on a large buffer pool may cost more: `upshift card` measures that.",
    ),
    Rule(
        id="dedicated-server-shared",
        title="innodb_dedicated_server on a machine that others use",
        cause="memory",
        severity="error",
        source="MySQL manual: Enabling Automatic InnoDB Configuration for a Dedicated MySQL Server",
        variables=("innodb_dedicated_server",),
        needs=("machine",),
        condition=_dedicated,
        effect="The server takes what is left, not three quarters of all.",
        risk=f"A smaller pool holds fewer pages. {_ALSO_DEDICATED}",
    ),
    Rule(
        id="dedicated-server-ignored",
        title="innodb_dedicated_server without effect on the buffer pool",
        cause="memory",
        severity="note",
        source="MySQL 9.7 source: storage/innobase/handler/ha_innodb.cc, innodb_buffer_pool_size_init",
        variables=("innodb_dedicated_server", "innodb_buffer_pool_size"),
        condition=_dedicated_ignored,
        effect="The configuration says what holds; or leave innodb_buffer_pool_size out instead.",
        risk=_ALSO_DEDICATED,
    ),
    Rule(
        id="container-unaware",
        title="The server does not know of its container's limits",
        cause="memory",
        severity="warning",
        source="MySQL 9.7 source: sql/mysqld.cc, setup_container_awareness",
        variables=("container_aware", "server_memory"),
        needs=("machine",),
        condition=_container,
        effect="What the server sizes by memory and CPUs is sized by the container's.",
        risk="Defaults that follow from memory and CPUs become smaller.",
    ),
    Rule(
        id="buffer-pool-cold",
        title="The buffer pool is empty after each restart",
        cause="memory",
        severity="note",
        source="MySQL manual: Saving and Restoring the Buffer Pool State",
        variables=("innodb_buffer_pool_dump_at_shutdown", "innodb_buffer_pool_load_at_startup", "innodb_buffer_pool_size"),
        condition=_no_warm_up,
        effect="The pages of yesterday are there minutes after a restart.",
        risk="The disk is busy with them in that time.",
    ),
)
