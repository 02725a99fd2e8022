"""Tables of studies, and of how narrow the intervals of a measurement came out."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator
from typing import Any

import table_rows as table

from upshift.measure.statistics import geometric_mean
from upshift.report import words
from upshift.study import wording
from upshift.study.attribution import judged_effect
from upshift.study.losses import losses as every_loss
from upshift.study.page import base_value, crossed_cells, row_cells
from upshift.study.result import StudyResult


def study(result: dict[str, Any]) -> Iterator[str]:
    """When, where and how a study was measured, as a list."""
    found = StudyResult.model_validate(result)
    plan = found.plan
    yield f"- {found.started_at[:10]}, run `{found.run}`, `{found.command}`"
    yield f"- {table.machine(result)}"
    server, client = (", ".join(map(str, cpus)) for cpus in (plan.server_cpus, plan.client_cpus))
    yield f"- server on CPU {server}, load on CPU {client}"
    turns = f"{words.count(plan.rounds, 'slice')} of {plan.slice_s:g} s a load"
    designed = f"{found.design.kind} design, {words.count(len(found.design.rows), 'row')}"
    yield f"- {designed}; {words.count(found.trials, 'trial')}, {turns}"
    if base := found.settings or (found.confirmed.arms[0].settings if found.confirmed else {}):
        yield f"- settings of the base: {table.names(f'{name}={value}' for name, value in sorted(base.items()))}"
    if found.transactions:
        yield f"- {words.unit_sentence(found.transactions)}"
    yield f"- what the report flags: {', '.join(flag.name for flag in found.flags) or 'nothing'}"


def factors(result: dict[str, Any]) -> Iterator[str]:
    """A row a factor: what it does alone, last and as its share to the metric; to the instructions of a query, the effect
    that its verdict judges.
    """
    found = StudyResult.model_validate(result)
    counted = {(each.factor, each.level): each for each in found.by_instructions.factors} if found.by_instructions else {}
    metric = _named(found, table.METRICS[found.metric])
    last = any(each.last for each in found.effects.factors)
    # In a grid some factors have no row alone: their share is what all rows say.
    told: tuple[str, ...] = ("alone", "last", "share")
    if not last:
        told = ("alone",) if all(each.alone for each in found.effects.factors) else ("alone", "share")
    more = (_named(found, "instructions a query"),) if counted else ()
    yield from table.head("factor", *(f"{metric}, {name}" for name in told), "verdict", *more)
    for each in found.effects.factors:
        name = each.factor if each.level == "on" else f"{each.factor}: {each.level}"
        verdict = each.verdict if found.metric == "qps" else words.VERDICT_NAMES[each.verdict]
        count = counted.get((each.factor, each.level))
        effect = judged_effect(found.design, count) if count else None
        said = (wording.estimate(effect) if effect else "–",) if counted else ()
        yield table.row(name, *(wording.change(getattr(each, which)) for which in told), verdict, *said)
    if found.effects.total:
        yield table.row("all", *[""] * (len(told) - 1), wording.change(found.effects.total), "", *[""] * len(more))
    yield from _below(f"intervals of {words.percent(found.effects.confidence)}")


def rows(result: dict[str, Any]) -> Iterator[str]:
    """A row of the design: the metric with all off, and each other row's change of it, under each load."""
    found = StudyResult.model_validate(result)
    loads = (table.named(f"{load.workload}, {table.connections(load.connections)}", load.held_out) for load in found.loads)
    yield from table.head("row", *loads)
    for each in found.rows:
        if each.died or each.same_as:
            said = each.died.splitlines()[0] if each.died else f"the same server as {each.same_as}"
            yield table.row(each.name, said, *[""] * (len(found.loads) - 1))
        elif each is found.rows[0]:
            yield table.row(
                each.name, *(f"{base_value(found, load)} {_named(found, words.UNITS[found.metric])}" for load in found.loads)
            )
        else:
            yield table.row(each.name, *(wording.change(cell.effect if cell else None) for cell in row_cells(found, each.name)))
    yield from _below(f"intervals of {words.percent(found.cells_confidence)}")


def heat(result: dict[str, Any]) -> Iterator[str]:
    """A row a factor: under each load the effect that its verdict judges, its share or what it does alone. Bold is what was
    found.
    """
    found = StudyResult.model_validate(result)
    loads = [each.load for each in found.by_load]
    names = (table.named(f"{load.workload}, {table.connections(load.connections)}", load.held_out) for load in loads)
    yield from table.head(f"factor, {_named(found, table.METRICS[found.metric])}", *names)
    for number, factor in enumerate(found.effects.factors):
        under = [each.effects.factors[number] for each in found.by_load]
        cells = ((wording.change(judged_effect(found.design, each)), each.verdict in ("faster", "slower")) for each in under)
        yield table.row(
            factor.factor if factor.level == "on" else f"{factor.factor}: {factor.level}",
            *(f"**{said}**" if called else said for said, called in cells),
        )
    yield from _below(wording.levels(found))


def together(result: dict[str, Any]) -> Iterator[str]:
    """A point a pair of factors that do more or less together than apart."""
    found = StudyResult.model_validate(result)
    seen = found.effects.does_not_add_up()
    yield from (f"- {wording.together(each)}" for each in seen)
    if not seen:
        yield f"{wording.adds_up(found)}."


def losses(result: dict[str, Any]) -> Iterator[str]:
    """A point a loss that a study found, the greatest first."""
    found = every_loss(StudyResult.model_validate(result))
    yield from (f"- {table.named(each.sentence, each.held_out)}" for each in found)
    if not found:
        yield "Nothing was found to be worse."


def crossed(result: dict[str, Any]) -> Iterator[str]:
    """A row a training: the metric under each load beside the server that was trained on that load alone."""
    found = StudyResult.model_validate(result)
    loads = (table.named(f"{load.workload}, {table.connections(load.connections)}", load.held_out) for load in found.loads)
    yield from table.head("trained as", *(f"run on {load}" for load in loads))
    for row, cells in crossed_cells(found).items():
        yield table.row(row, *(each if isinstance(each, str) else wording.change(each.effect) for each in cells))
    luck = wording.luck_of_training(found)
    figure = words.opened(wording.judged_by(found))
    interval = f"intervals of {words.percent(found.crossed_confidence)}"
    yield from _below(f"{figure} beside the server trained on that workload alone; {interval}{f'. {luck}' if luck else ''}")


def confirmed(result: dict[str, Any]) -> Iterator[str]:
    """What a study recommends, and what its own trials of it showed."""
    found = StudyResult.model_validate(result)
    yield f"{wording.verdict(found)}."
    if found.recommended:
        yield ""
        yield from (f"- {sentence}" for sentence in wording.gain_sentences(found.confirmed, found.metric))


def variance(result: dict[str, Any]) -> Iterator[str]:
    """A row a source of variation: what one of it scatters by, and its part of the variance of one block."""
    yield from table.head("source", "how many", "standard deviation of one", "part of what one block scatters by")
    for one in result["variance"]:
        yield table.row(one["source"], one["count"], f"{100 * one['log_sd']:.2f} %", f"{100 * one['share']:.1f} %")


def widths(result: dict[str, Any]) -> Iterator[str]:
    """How a measurement was made, and a row a metric: the ratio, its interval and half of its width."""
    plan, reached = result["experiment"]["plan"], result["experiment"].get("reached")
    trials = reached["trials"] if reached else plan["trials"]
    measure_s = next(stage["wall_s"] for stage in result["stages"] if stage["name"] == "measure")
    leads = {one["lead_s"] for one in result["experiment"].get("lead_ins", ())} or {plan["lead_s"]}
    behind = " or ".join(f"{one:g}" for one in sorted(leads))
    lead = f"{plan['rounds']} slices of {plan['slice_s']:g} s behind {behind} s of lead-in"
    yield from table.on_machine(result, f"; {trials} trials, {lead}, {table.time(measure_s)} of measuring")
    yield from table.head("workload", "figure", "ratio", "interval", "half-width")
    for one in result["comparisons"]:
        if one["metric"] in ("qps", "total_cpu_us_per_query", "user_cpu_us_per_query", "system_cpu_us_per_query"):
            half = math.sqrt(one["ci_high"] / one["ci_low"]) - 1
            limits = f"{one['ci_low']:.3f} to {one['ci_high']:.3f} at {100 * one['confidence']:.0f} %"
            load = f"{one['workload']}, {table.connections(one['connections'])}"
            yield table.row(load, table.METRICS[one["metric"]], f"{one['ratio']:.3f}", limits, f"{100 * half:.1f} %")


def each_arm(result: dict[str, Any]) -> Iterator[str]:
    """A row a load and a server beside the first: its ratios to the first."""
    first = result["experiment"]["baseline"]
    found = [one for one in result["comparisons"] if one["baseline"] == first]
    metrics = [name for name in table.METRICS if any(one["metric"] == name for one in found)]
    yield from table.head("workload", "connections", f"beside {first}", *(table.METRICS[name] for name in metrics))
    rows = sorted({(one["workload"], one["connections"], one["arm"]) for one in found})
    for row in rows:
        own = {one["metric"]: one for one in found if (one["workload"], one["connections"], one["arm"]) == row}
        yield table.row(*row, *(table.ratio(own[metric]) for metric in metrics))


def turn_spread(result: dict[str, Any]) -> Iterator[str]:
    """A row a run of tests/benches/turn_spread.py: how far turns spread, by the length of their slices."""
    yield from table.on_machine(result)
    yield from table.head(
        "workload",
        "slice",
        "lead-in",
        "pairs of turns",
        "spread of a pair",
        "correlation of a slice's halves",
        "of slices in a row",
    )
    for one in result["rows"]:
        yield table.row(
            f"{one['workload']}, {table.connections(one['connections'])}",
            f"{one['slice_s']:g} s",
            f"{one['lead_s']:g} s",
            one["trials"] * one["rounds"],
            f"{100 * one['pair_log_sd']:.0f} %",
            f"{one['halves']:.2f}",
            f"{one['next']:.2f}",
        )


def start_spread(result: dict[str, Any]) -> Iterator[str]:
    """A row a run of tests/benches/turn_spread.py that has a name: how far the starts of one server spread."""
    yield from table.on_machine(result)
    yield from table.head("server", "pairs of starts", "spread of a pair of starts", "of a pair of turns")
    for one in result["rows"]:
        spreads = (f"{100 * one[name]:.1f} %" for name in ("start_log_sd", "pair_log_sd"))
        yield table.row(one["name"], one["trials"], *spreads)


def trial_spread(result: dict[str, Any]) -> Iterator[str]:
    """A row a run of tests/benches/turn_spread.py that has a name: how far the ratio of two servers spreads over trials."""
    figures = [name for name in table.METRICS if name in result["rows"][0]["trial_log_sd"]]
    yield from table.on_machine(result, "; the spread of the ratio from trial to trial")
    yield from table.head("servers", "trials", "turns of each", *(table.METRICS[name] for name in figures))
    for one in result["rows"]:
        spreads = (f"{100 * one['trial_log_sd'][name]:.1f} %" for name in figures)
        yield table.row(one["name"], one["trials"], one["rounds"], *spreads)


def probed(result: dict[str, Any]) -> Iterator[str]:
    """A row a run of tests/benches/turn_spread.py with a speed probe: how far the ratio spreads over trials, as measured and
    at the usual speed of the CPUs.
    """
    figures = ("qps", "total_cpu_us_per_query", "typical_cpu_us_per_query")
    yield from table.on_machine(
        result, "; the spread of the ratio from trial to trial, as measured and at the CPUs' usual speed"
    )
    yield from table.head(
        "servers",
        "trials",
        "turns of each",
        "on slow CPUs",
        "correlation of the probe's and the server's time",
        "the probe's time without bursts, second server to first",
        *(f"{table.METRICS[name]}{how}" for name in figures for how in ("", ", usual speed")),
    )
    for one in result["rows"]:
        spreads = (
            f"{100 * of[name]:.1f} %" for name in figures for of in (one["trial_log_sd_as_measured"], one["trial_log_sd"])
        )
        yield table.row(
            one["name"],
            one["trials"],
            one["rounds"],
            f"{100 * one['slowed']:.0f} %",
            f"{one['probe']:.2f}",
            f"{one['probe_ratio']:.3f}",
            *spreads,
        )


def copies(result: dict[str, Any]) -> Iterator[str]:
    """A row a figure of each run of tests/benches/copies.py: what each copy of an executable is beside their mean."""
    yield from table.on_machine(result)
    yield from table.head(
        "copies of the executable",
        "trials",
        "figure",
        "each beside the mean of all",
        "standard error",
        "chance if they are alike",
    )
    for one in result["rows"]:
        for metric, found in one["figures"].items():
            ratios = ", ".join(f"{ratio:.3f}" for ratio in found["ratios"])
            error, chance = f"{100 * found['error']:.2f} %", f"{100 * found['chance']:.1f} %"
            yield table.row(one["name"], one["trials"], table.METRICS[metric], ratios, error, chance)


def starts(result: dict[str, Any]) -> Iterator[str]:
    """Rows of tests/benches/starts.py: each figure in each state, and how far starts and turns of one server spread in it."""
    figures = [name for name in table.METRICS if name in result["rows"][0]]
    pairs, connections = result["rows"][0]["pairs"], table.connections(result["connections"])
    yield from table.on_machine(result, f"; {connections}, {words.count(pairs, 'pair')} of starts in each state, CPU in µs")
    yield from table.head("figure", "idle CPUs", "mean", "spread of a pair of starts", "of a pair of turns")
    for name in figures:
        for one in result["rows"]:
            spreads = (f"{100 * one[name][of]:.1f} %" for of in ("start_log_sd", "pair_log_sd"))
            mean = f"{one[name]['level']:,.{0 if name == 'qps' else 1}f}"
            yield table.row(table.METRICS[name], one["state"], mean, *spreads)


def covariates(result: dict[str, Any]) -> Iterator[str]:
    """A row a simulated case: how wide each interval is beside Student's, and how often each covers the truth."""
    ways = {"student": "Student", "regressed": "regressed", "cuped": "slope of the baseline"}
    wide = [f"width, {name}" for way, name in ways.items() if way != "student"]
    cover = [f"covers, {name}" for name in ways.values()]
    yield from table.head("machine", "trials", "explained", "moved by", *wide, *cover)
    for one in result["rows"]:
        widths_of = (f"{one[way]['width']:.2f}" for way in ways if way != "student")
        covers = (f"{100 * one[way]['covered']:.1f} %" for way in ways)
        yield table.row(
            one["machine"], one["trials"], f"{100 * one['explained']:.0f} %", f"{one['moved']:g} sd", *widths_of, *covers
        )


def met(result: dict[str, Any]) -> Iterator[str]:
    """How much steal the kept measurements met, and how many were beside other programs, in a sentence."""
    found = result["met"]
    beside = sum(one["other_load"] for one in found)
    yield (
        f"The largest steal of the {len(found)} kept measurements that recorded it is "
        f"{100 * max(one['steal_share'] for one in found):.2f} % of the CPUs' time; {beside} of them met other programs."
    )


def called(result: dict[str, Any]) -> Iterator[str]:
    """A row a figure: how often tests/benches/precision.py had it called, and what it came out as."""
    found = result["comparisons"]
    runs = {one["run"]: one["wall_s"] for one in found}
    each = f"{table.time(min(runs.values()))} to {table.time(max(runs.values()))}"
    yield from table.on_machine(result, f"; {words.count(len(runs), 'run')} of {each} of measuring")
    same = "called_at_99" in found[0]
    # A planted loop costs the same in each run; a server is measured against itself under several workloads.
    more = ("called at 99 %",) if same else ("all together (95 %)",)
    yield from table.head("figure", "comparisons", "called", *more, "ratios", "widest interval, half")
    for metric in dict.fromkeys(one["metric"] for one in found):
        of = [one for one in found if one["metric"] == metric]
        ratios = sorted(one["ratio"] for one in of)
        widest = max(math.sqrt(one["ci_high"] / one["ci_low"]) - 1 for one in of)
        told = sum(one["called_at_99"] for one in of) if same else _together(ratios)
        figures = (f"{ratios[0]:.3f} to {ratios[-1]:.3f}", f"{100 * widest:.1f} %")
        yield table.row(table.METRICS[metric], len(of), sum(one["called"] for one in of), told, *figures)


def _together(ratios: list[float]) -> str:
    """The geometric mean with Student's interval over runs."""
    if len(ratios) < 2:
        return ""
    mean = geometric_mean([math.log(each) for each in ratios], 0.95)
    return f"{mean.value:.3f} ({mean.low:.3f} to {mean.high:.3f})"


def proofs(result: dict[str, Any]) -> Iterator[str]:
    """A row a finding that tests/benches/check_proofs.py had `upshift check` prove: the setting, and what its fix brings."""
    found = result["proofs"]
    settled = sum(one.get("verdict") in ("faster", "slower", "equivalent") for one in found)
    yield from table.on_machine(result, f"; {result['server']}; {settled} of {words.count(len(found), 'finding')} settled")
    yield from table.head("finding", "setting, as found and fixed", "load", "throughput with the fix", "verdict", "trials")
    for one in found:
        changed = ", ".join(f"`{name}` {now} -> {then}" for name, (now, then) in one.get("changed", {}).items())
        load = f"{one['workload']}, {table.connections(one['connections'])}"
        figures = (table.ratio(one), one["verdict"], one["trials"]) if "verdict" in one else ("", "failed", "")
        yield table.row(one["id"], changed, load, *figures)


def one_more(result: dict[str, Any]) -> Iterator[str]:
    """What the build of a row took, on the average of those that are recorded, beside the plain build."""
    plain_s = next(each["cpu_s"] for each in result["stages"] if each["name"] == "plain build")
    built = [each["cpu_s"] for each in result["stages"] if each["name"] == "optimised build" and not each["cached"]]
    row_s = statistics.fmean(built)
    share = f"{row_s / plain_s:.2f}x the plain build's {table.time(plain_s)}"
    yield f"The build of a row took {table.time(row_s)} of CPU time, {share}."


def _below(said: str) -> Iterator[str]:
    """A sentence below a table."""
    yield ""
    yield f"{words.opened(said)}."


def _named(found: StudyResult, figure: str) -> str:
    """As the figure is called where all workloads count transactions."""
    if {load.workload for load in found.loads} <= set(found.transactions):
        return figure.replace("QPS", "transactions a second").replace("a query", "a transaction")
    return figure


KINDS = (
    called,
    copies,
    covariates,
    turn_spread,
    start_spread,
    trial_spread,
    probed,
    starts,
    met,
    proofs,
    study,
    factors,
    heat,
    together,
    rows,
    losses,
    crossed,
    confirmed,
    each_arm,
    variance,
    widths,
    one_more,
)
