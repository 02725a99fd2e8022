"""How statements are prepared: each time (C1), never (C2), with literals in their text (C13)."""

from __future__ import annotations

from upshift.stack.evidence import Evidence, Statement
from upshift.stack.suspects.finding import DATA_VERBS, accused, count, figure, found, innocent, ratio, unseen
from upshift.stack.suspects.model import Outcome
from upshift.stack.suspects.thresholds import Thresholds

_AT_ONCE = " PostgreSQL answers a prepare together with the execution in its flight: the share then includes the execution."


def prepares_each_time(evidence: Evidence, thresholds: Thresholds) -> Outcome:
    """C1: the same connection prepares the same text again."""
    repeated = [each for each in evidence.statements if ratio(each.prepares_again, each.executes or 1) > thresholds["C1.share"]]
    guilty = [each for each in repeated if not (evidence.trace.masked and each.prepares_with_literals)]
    if repeated and not guilty:
        return unseen("C1", "the trace is masked: texts whose literals have one length look alike")
    if not guilty:
        again = sum(each.prepares_again for each in evidence.statements)
        executes = sum(each.executes for each in evidence.statements)
        return innocent("C1", f"{count(again, 'repeated prepare')} for {count(executes, 'execution')}")
    again, executes = sum(each.prepares_again for each in guilty), sum(each.executes for each in guilty)
    time_us = sum(map(_again_us, guilty))
    at_once = evidence.trace.family == "postgres"
    return found(
        evidence,
        "C1",
        share=evidence.budget.share(time_us),
        status="counted",
        said=f"{count(again, 'prepare')} of a text that the connection had prepared before, for {count(executes, 'execution')}",
        figures=(
            figure("prepares", sum(each.prepares for each in guilty)),
            figure("prepares_again", again),
            figure("executions", executes),
            figure("prepares_again_per_execution", ratio(again, executes), "per_execution", "C1.share"),
            figure("prepare_and_close_again_us", time_us, "us"),
        ),
        statements=accused(
            evidence,
            guilty,
            _again_us,
            lambda each: (figure("prepares_again", each.prepares_again), figure("executions", each.executes)),
        ),
        limits="The share is the time of the repeated prepares and their closes, with the client's gaps before them."
        + _AT_ONCE * at_once,
        keeps_a_part=at_once,
    )


def _again_us(each: Statement) -> float:
    return each.prepare_again_us + each.close_us * ratio(each.prepares_again, each.prepares)


def sends_text_again(evidence: Evidence, thresholds: Thresholds) -> Outcome:
    """C2: the server parses and plans the same statement from its text each time."""
    guilty = [
        each for each in evidence.statements if each.verb in DATA_VERBS and each.as_text >= max(1, thresholds["C2.executions"])
    ]
    if not guilty:
        most = max((each.as_text for each in evidence.statements if each.verb in DATA_VERBS), default=0)
        return innocent("C2", f"no statement was sent as text more than {count(most, 'time')}")
    sent = sum(each.as_text for each in guilty)
    time_us = sum(each.text_server_us for each in guilty)
    return found(
        evidence,
        "C2",
        share=evidence.budget.share(time_us),
        status="counted",
        said=f"{count(len(guilty), 'statement')} sent as text again and again, {count(sent, 'time')}",
        figures=(
            figure("statements", len(guilty)),
            figure("executions_as_text", sent),
            figure("server_us", time_us, "us"),
        ),
        statements=accused(
            evidence,
            guilty,
            lambda each: each.text_server_us,
            lambda each: (figure("executions_as_text", each.as_text, "", "C2.executions"),),
        ),
        limits="The share is all of their time in the server. Preparing saves the parsing, and a part of the planning.",
    )


def literals_in_prepared_text(evidence: Evidence, thresholds: Thresholds) -> Outcome:
    """C13: values in the text make each prepare another statement, which nobody executes again."""
    guilty = [each for each in evidence.statements if each.prepared_literals >= max(2, thresholds["C13.texts"])]
    if not guilty:
        if evidence.trace.masked and any(each.prepares for each in evidence.statements):
            return unseen("C13", "the trace is masked: literals of one length look alike")
        most = max((each.prepared_literals for each in evidence.statements), default=0)
        return innocent("C13", f"no statement was prepared with more than {count(most, 'list')} of literals")
    time_us = sum(each.prepare_us + each.close_us for each in guilty)
    return found(
        evidence,
        "C13",
        share=evidence.budget.share(time_us),
        status="counted",
        said=f"{count(len(guilty), 'statement')} prepared with values in the text, "
        f"{count(sum(each.prepared_literals for each in guilty), 'text')} in all",
        figures=(
            figure("statements", len(guilty)),
            figure("texts", sum(each.prepared_literals for each in guilty)),
            figure("prepares", sum(each.prepares for each in guilty)),
            figure("prepare_and_close_us", time_us, "us"),
        ),
        statements=accused(
            evidence,
            guilty,
            lambda each: each.prepare_us + each.close_us,
            lambda each: (figure("texts", each.prepared_literals, "", "C13.texts"), figure("prepares", each.prepares)),
        ),
        limits="The share is the time of the prepares and closes, with the client's gaps before them. "
        "The trace does not show the memory that the statements hold in the server; max_prepared_stmt_count bounds it.",
    )
