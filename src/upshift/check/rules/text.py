"""The server's own code in memory."""

from __future__ import annotations

from pathlib import PurePosixPath
from shlex import quote

from upshift.card.model import middle
from upshift.card.sentences import code_pages
from upshift.check.model import Facts, Found
from upshift.check.rule import Rule
from upshift.check.rules.words import MIB, size
from upshift.report.words import figure

_LEAST_TEXT_BYTES = 8 * MIB
"""A smaller program has few whole huge pages that could be moved."""


def _small_pages(facts: Facts) -> Found | None:
    assert facts.host and facts.host.text and facts.card
    text, found = facts.host.text, code_pages(facts.card)
    if found is None or text.huge_bytes or text.size_bytes < _LEAST_TEXT_BYTES:
        return None
    small, huge, effect = found
    if effect != "cheaper":
        return None
    program = PurePosixPath(facts.host.program).name or "mysqld"
    # The unit's name is the distribution's choice: mysql on Debian, mysqld on Red Hat.
    drop_in = quote(f"/etc/systemd/system/{facts.host.unit or f'{facts.family}.service'}.d")
    told = (
        f"A call of one of {facts.card.function_counts[-1]:,} functions costs {figure(middle(small))} ns on this machine when "
        f"they lie on pages of 4 KiB, and {figure(middle(huge))} ns on pages of 2 MiB; {size(text.size_bytes)} of the server's "
        "text lie on small ones."
    )
    preload = f"LD_PRELOAD=/usr/local/lib/libupshift_hugetext.so UPSHIFT_HUGETEXT_PROGRAM={program}"
    allow = (
        ()
        if facts.host.huge_pages in ("always", "madvise")
        else ("echo madvise > /sys/kernel/mm/transparent_hugepage/enabled",)
    )
    write = f"mkdir -p {drop_in} && printf '[Service]\\nEnvironment={preload}\\n' > {drop_in}/hugetext.conf"
    return Found(evidence=told, commands=(*allow, f"{write} && systemctl daemon-reload"))


RULES: tuple[Rule, ...] = (
    Rule(
        id="text-small-pages",
        title="The server's text lies on small pages where huge ones make calls cheaper",
        cause="memory",
        severity="note",
        source="Linux kernel, Documentation/admin-guide/mm/transhuge.rst",
        needs=("machine", "text", "card"),
        condition=_small_pages,
        effect="Less time for finding code. `text_huge_pages` in a variant lets `upshift measure` say how much.",
        risk=(
            "perf loses the names of functions; memory of the text's size. A unit that preloads something already, such as an "
            "allocator, needs both in LD_PRELOAD. docs/reference/hugetext.md has the library."
        ),
    ),
)
