"""Calls that one server's code has and the other's lacks, and what that says: pure functions over machine code."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from upshift.explain.code import Code
from upshift.explain.model import CauseKind, CodeChange, Family, Inlined
from upshift.explain.symbols import Groups

_SEEN_SAMPLES = 10
"""On whose stacks one function called another, from which it is believed that calls that ran have gone."""
_LEFT_SHARE = 0.25
"""Of the time under a call, what may be left where calls of it have gone."""
_SEEN_SHARE = 0.02
"""Of a function's samples, those under one caller, from which an indirect call between the two is believed."""


@dataclass(frozen=True)
class Examined:
    """One server: its functions' code, and what was sampled in them. All names are those of groups."""

    code: Mapping[str, Code]
    exist: Collection[str]
    """All functions that it has."""
    self_us: Mapping[str, float]
    """CPU microseconds a query by function."""
    callers: Mapping[str, Mapping[str, int]]
    """Samples with a function on the stack by the function that called it, in its innermost call where there are several; the
    empty name stands for callers in libraries. Nothing without frame pointers."""

    us_a_sample: float

    def under(self, callee: str, caller: str) -> int:
        """Samples on whose stacks the caller called the callee."""
        return self.callers.get(callee, {}).get(caller, 0)

    def through(self, callee: str, caller: str) -> float:
        """The share of the callee's samples that came through this caller and no other, nor a library; 1 where stacks do not
        tell.
        """
        callers = self.callers.get(callee, {})
        total = sum(callers.values())
        return callers.get(caller, 0) / total if total else 1.0


def inlined(before: Examined, after: Examined, groups: Groups) -> tuple[Inlined, ...]:
    """Calls of sampled functions that have gone from their callers' hot code; those with the most time first.

    A call that only moved to the caller's cold part is not one of them: the layout changed, nothing was inlined. Where calls
    are left in hot code, stacks must show that those that ran have gone, and the code that some have, or that the callee's own
    calls are the caller's now. An indirect call counts when stacks saw it before and the caller now knows the callee's
    address: it was promoted, then inlined.
    """
    found = []
    for caller in sorted(before.code.keys() & after.code.keys()):
        old, new = (_calls(side.code[caller], groups) for side in (before, after))
        for callee, calls in sorted({**_indirect(caller, old, new, before), **old.hot}.items()):
            if callee == caller or not before.self_us.get(callee):
                continue
            moved = _moved(callee, caller, old, new, before, groups)
            if not _gone(callee, caller, moved, old, new, before, after):
                continue
            symbol_gone = callee not in after.exist
            seen_no_more = callee not in after.self_us
            found.append(
                Inlined(
                    callee=callee,
                    caller=caller,
                    indirect=not calls,
                    calls_before=calls,
                    calls_after=new.hot.get(callee, 0),
                    cold_calls_after=new.cold.get(callee, 0),
                    symbol_gone=symbol_gone,
                    moved_calls=moved,
                    callee_us_before=before.self_us[callee] * before.through(callee, caller),
                    under_us_before=before.under(callee, caller) * before.us_a_sample,
                    under_us_after=after.under(callee, caller) * after.us_a_sample,
                    caller_us_before=before.self_us.get(caller, 0.0),
                    caller_us_after=after.self_us.get(caller, 0.0),
                    callee_us_after=after.self_us.get(callee, 0.0),
                    proof="code" if moved or symbol_gone else "samples" if seen_no_more else "call gone",
                )
            )
    return tuple(sorted(found, key=lambda each: (-each.callee_us_before, each.callee, each.caller)))


def families(found: Sequence[Inlined], before: Examined, after: Examined) -> tuple[Family, ...]:
    """Functions that were sampled after, each with all that it took in, directly or through what it took in.

    Their time before is their own and that of what they took in, as far as it came through them: of a callee with several
    callers, each gets the part that stacks saw under it. None without stacks that tell callers.
    """
    into: dict[str, list[str]] = {}
    for each in found:
        into.setdefault(each.caller, []).append(each.callee)
    made = []
    for name in into:
        if not after.self_us.get(name) or not before.callers:
            continue
        members: dict[str, float] = {}
        _take_in(name, 1.0, into, before, after, members, (name,))
        own_us = before.self_us.get(name, 0.0)
        made.append(
            Family(
                name=name,
                members=tuple(sorted(members, key=lambda each: (-members[each], each))),
                before_us=own_us + sum(members.values()),
                own_before_us=own_us,
                after_us=after.self_us[name],
            )
        )
    return tuple(sorted(made, key=lambda each: (-each.before_us, each.name)))


def changes(before: Examined, after: Examined) -> tuple[CodeChange, ...]:
    """The code of every function that both have, those with the most time before first."""
    both = sorted(before.code.keys() & after.code.keys(), key=lambda name: (-before.self_us.get(name, 0.0), name))
    return tuple(
        CodeChange(
            name=name,
            instructions_before=old.all_instructions,
            instructions_after=new.all_instructions,
            cold_before=old.cold_instructions,
            cold_after=new.cold_instructions,
            same_instructions=old.mnemonics == new.mnemonics,
        )
        for name in both
        for old, new in [(before.code[name], after.code[name])]
    )


def causes(
    names: Iterable[str], before: Examined, after: Examined, found: Collection[Inlined], changed: Collection[CodeChange]
) -> Mapping[str, CauseKind]:
    """What happened to the code of each function."""
    callees, callers = {each.callee for each in found}, {each.caller for each in found}
    code = {each.name: each for each in changed}

    def cause(name: str) -> CauseKind:
        gone = bool(before.self_us.get(name)) and not after.self_us.get(name)
        if name in callees and (gone or name not in callers):
            return "inlined"
        if gone and name in after.exist:
            return "seen no more"
        if name in callers:
            return "takes in"
        if name in code:
            return "same instructions" if code[name].same_instructions else "compiled otherwise"
        return "not in both" if (name in before.exist) != (name in after.exist) else "not examined"

    return {name: cause(name) for name in names}


@dataclass(frozen=True)
class _Calls:
    hot: Mapping[str, int]
    cold: Mapping[str, int]
    named: Collection[str]


def _calls(code: Code, groups: Groups) -> _Calls:
    """A function's calls, with functions of the same code under one name."""
    kinds: list[dict[str, int]] = []
    for counts in (code.calls, code.cold_calls):
        merged: dict[str, int] = {}
        for callee, count in counts.items():
            merged[groups.of(callee)] = merged.get(groups.of(callee), 0) + count
        kinds.append(merged)
    return _Calls(kinds[0], kinds[1], {groups.of(name) for name in code.named})


def _gone(
    callee: str, caller: str, moved: Collection[str], old: _Calls, new: _Calls, before: Examined, after: Examined
) -> bool:
    calls, hot = old.hot.get(callee, 0), new.hot.get(callee, 0)
    gained = new.cold.get(callee, 0) - old.cold.get(callee, 0)
    if not hot and (gained < calls or not calls):
        return True
    # Compilers copy code, too: as many calls may be left, or more, of which none runs.
    seen, seen_after = before.under(callee, caller), after.under(callee, caller) * after.us_a_sample / before.us_a_sample
    fewer = seen >= _SEEN_SAMPLES and seen_after < seen * _LEFT_SHARE
    return fewer and (hot + gained < calls or bool(moved))


def _indirect(caller: str, old: _Calls, new: _Calls, before: Examined) -> Mapping[str, int]:
    """What a caller reached through a pointer before and knows by its address now."""
    learnt = set(new.named) - set(old.named) - old.hot.keys() - old.cold.keys()
    return {callee: 0 for callee in learnt if before.callers.get(callee) and before.through(callee, caller) >= _SEEN_SHARE}


def _moved(callee: str, caller: str, old: _Calls, new: _Calls, before: Examined, groups: Groups) -> tuple[str, ...]:
    """What only the callee called before, and the caller calls now."""
    if callee not in before.code:
        return ()
    inner = _calls(before.code[callee], groups)
    own = {*old.hot, *old.cold, caller, callee}
    return tuple(sorted(({*inner.hot, *inner.cold} - own) & {*new.hot, *new.cold}))


def _take_in(
    name: str,
    share: float,
    into: Mapping[str, Sequence[str]],
    before: Examined,
    after: Examined,
    members: dict[str, float],
    path: tuple[str, ...],
) -> None:
    for callee in into.get(name, ()):
        part = share * before.through(callee, name)
        if callee in path or not part:
            continue
        members[callee] = members.get(callee, 0.0) + part * before.self_us.get(callee, 0.0)
        # What is still seen by itself has a family of its own, with what it took in.
        if not after.self_us.get(callee):
            _take_in(callee, part, into, before, after, members, (*path, callee))
