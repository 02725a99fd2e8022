"""Effects in words, the same on the page, on the terminal and in files."""

from __future__ import annotations

from upshift.measure.model import Experiment, Load, Metric
from upshift.measure.statistics import UNBOUNDED_HIGH
from upshift.report import words
from upshift.study.attribution import Together
from upshift.study.intervals import Effect
from upshift.study.recommend import unconfirmed
from upshift.study.result import Cell, Crossed, StudyResult

WITHOUT_PAIRS = "rows are missing: shares are fitted as if the factors did nothing together, and pairs of factors are not told"


_MOST_DECIMALS = 4
"""Of a change in per cent."""


def change(effect: Effect | None) -> str:
    """``-3.1 % (-4.0 to -2.2)``; a dash where the rows tell nothing."""
    return f"{estimate(effect)} ({limits(effect)})" if effect else "–"


def estimate(effect: Effect) -> str:
    """``-3.1 %``, with as many decimals as its interval."""
    return change_percent(effect.ratio, _decimals(effect))


def change_percent(ratio: float, decimals: int = 1) -> str:
    """``-3.1 %`` of 0.969; ``0.0 %`` has no sign."""
    return f"{_percent(ratio, decimals)} %"


def limits(effect: Effect) -> str:
    """``-4.0 to -2.2``, in per cent."""
    decimals = _decimals(effect)
    high = "∞" if effect.ci_high >= UNBOUNDED_HIGH else _percent(effect.ci_high, decimals)
    return f"{_percent(effect.ci_low, decimals)} to {high}"


def times(effect: Effect) -> str:
    """``1.01x (0.98 to 1.04)``, as ratios."""
    decimals = words.decimals(effect.ci_low, effect.ci_high, told=effect.told)
    ratio, low, high = (words.limit(each, decimals) for each in (effect.ratio, effect.ci_low, effect.ci_high))
    return f"{ratio}x ({low} to {high})"


def _percent(ratio: float, decimals: int) -> str:
    said = f"{100 * (ratio - 1):+.{decimals}f}"
    return said if float(said) else said[1:]


def _decimals(effect: Effect) -> int:
    """A limit of an interval that leaves 1 out is not written as 0.0."""
    if not effect.told:
        return 1
    limits = [100 * (each - 1) for each in (effect.ci_low, effect.ci_high)]
    shows = (number for number in range(1, _MOST_DECIMALS) if 0.0 not in [round(each, number) for each in limits])
    return next(shows, _MOST_DECIMALS)


def notes(result: StudyResult) -> tuple[str, ...]:
    """What is not the same in each study: sentences without full stops."""
    return (
        *((words.unit_sentence(result.transactions),) if result.transactions else ()),
        *((words.slowed_sentence(result.slowed_share),) if result.slowed_share is not None else ()),
    )


def verdict(result: StudyResult) -> str:
    """What the study comes to, in one sentence."""
    if not result.recommended:
        told = [effect for each in result.effects.factors if (effect := each.share or each.alone)]
        if not told:
            return "The rows that have figures do not tell what any factor does"
        if all(effect.ci_high >= UNBOUNDED_HIGH for effect in told):
            return "One trial gives no interval, so that nothing is told of any factor"
        if any(each.verdict == "faster" for each in result.effects.factors):
            return "Nothing to recommend: some factors made the figure better, but no set of them beyond what chance does"
        return "Nothing helps: no factor made the figure better beyond what chance does"
    names = ", ".join(result.recommended)
    if result.confirmed is None:
        return f"{names} may help; nothing was confirmed, so there is no gain to publish"
    against = unconfirmed(result.confirmed, result.metric)
    return f"{names} was not confirmed: {against}" if against else f"Recommended: {names}"


def share(result: StudyResult) -> str:
    """What a share is in this study; empty where no factor has one."""
    shares = [each.share for each in result.effects.factors]
    if not any(shares):
        return ""
    if result.design.kind == "grid" or result.effects.without_pairs:
        return "Share: fitted over all rows, as if the factors did nothing together."
    if result.design.kind == "full" and not result.design.two_levels:
        return "Share: all rows with the level against all with the factor off."
    return f"Share: its part of the whole{'; shares add up to it, on logarithms' if all(shares) else ''}."


def gain_sentences(confirmed: Experiment | None, metric: Metric) -> list[str]:
    """What further trials of the recommended set showed, losses first: throughput, CPU time, and what the study judges by."""
    if confirmed is None:
        return ["Not confirmed by trials of its own."]
    found = [each for each in confirmed.comparisons if each.metric in ("qps", "total_cpu_us_per_query", metric)]
    return [
        f"{each.workload} at {words.count(each.connections, 'connection')}{', held out' if each.held_out else ''}: "
        f"{words.ratio(each)}x the {words.metric_name(each.metric, transactions=each.workload in confirmed.transactions)} "
        f"({words.measured(each)}), "
        f"{words.verdict_name(each)}"
        for each in sorted(found, key=lambda each: (each.verdict != "slower", not each.held_out))
    ]


def cell(result: StudyResult, each: Cell) -> str:
    """A row under a load beside all off, in one sentence without a full stop."""
    return f"{each.row} under {_at(each.load)}: {change(each.effect)} {_figure(result, each.load)} beside {result.rows[0].name}"


def crossed(result: StudyResult, each: Crossed) -> str:
    """Trained on one workload and run on another, in one sentence without a full stop."""
    said = f"{change(each.effect)} {_figure(result, each.load)} beside {each.own}, which was trained on it"
    return f"{each.row} under {_at(each.load)}: {said}"


def luck_of_training(result: StudyResult) -> str:
    """What the intervals of a comparison of trainings leave out; empty when nothing."""
    if result.trainings > 1:
        return ""
    return "Each profile was trained once: the luck of that training is in these ratios, and not in their intervals"


def together(each: Together) -> str:
    """What does not add up, in one sentence."""
    if not each.second:
        return f"All of {', '.join(each.first)} together give {estimate(each.effect)} beyond their sum"
    both = f"{'+'.join(each.first)} with {'+'.join(each.second)}"
    marked = ", an equal part of a figure that several pairs share" if each.shared else ""
    return f"{both}: {change(each.effect)} beyond what each does without the other{marked}"


def adds_up(result: StudyResult) -> str:
    """What there is to say where no pair was found that does not add up, in one sentence without a full stop."""
    pairs = result.effects.together
    if not pairs:
        return "The rows do not tell"
    bounded = [each.effect for each in pairs if each.effect.ci_high < UNBOUNDED_HIGH]
    if not bounded:
        return "One trial gives no interval, so that nothing is told of what factors do together"
    unseen = max(max(effect.ci_high - 1, 1 - effect.ci_low) for effect in bounded)
    return (
        "No two factors were seen to do more or less together than apart; "
        f"the intervals leave room for {unseen * 100:,.1f} % either way"
    )


def levels(result: StudyResult) -> str:
    """The confidence of the factors' intervals under the loads; earlier versions gave each load its own."""
    told = [words.percent(each.effects.confidence) for each in result.by_load]
    if len(set(told)) < 2:
        return f"intervals of {told[0]}" if told else ""
    return f"intervals of {', '.join(told[:-1])} and {told[-1]}, in the order of the loads"


def judged_by(result: StudyResult) -> str:
    """The figure that the factors are judged by, in words."""
    return words.metric_name(result.metric, transactions={load.workload for load in result.loads} <= set(result.transactions))


def _at(load: Load) -> str:
    return f"{load.workload} at {words.count(load.connections, 'connection')}"


def _figure(result: StudyResult, load: Load) -> str:
    return words.metric_name(result.metric, transactions=load.workload in result.transactions)


def gathered(result: StudyResult) -> str:
    """How the figures came about."""
    kind, rows = result.design.kind, len(result.rows)
    return (
        f"A {kind} design of {words.count(len(result.design.factors), 'factor')} in {words.count(rows, 'row')}, "
        f"{words.count(result.trials, 'trial')} each; the figure is {judged_by(result)}. Factors are judged by "
        f"Holm's procedure: the chance that one of those that do nothing is named is at most 1 in 100."
    )
