"""What a study's page, terminal and files say."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest
from cards import card
from example_study import confirmed, part, result, shown, two_factors

from upshift.build.recipe import find_recipe, read_recipe
from upshift.errors import RecipeError, UpshiftError, UsageError
from upshift.measure.model import Experiment, Verdict
from upshift.measure.variant import find_variant
from upshift.options import Options
from upshift.paths import CHECKOUT
from upshift.plan import refuse_pointless
from upshift.study import wording
from upshift.study.change import Change
from upshift.study.designs import Factor, make_design
from upshift.study.file import Study
from upshift.study.intervals import Effect
from upshift.study.losses import losses
from upshift.study.page import render, write_page
from upshift.study.plan import Arm
from upshift.study.recommended import write_recommended
from upshift.study.store import load_study
from upshift.study.wording import change_percent

ADDS_UP = {"off": 20.0, "a": 19.0, "b": 22.0, "a+b": 20.9}
DOES_NOT = {**ADDS_UP, "a+b": 25.0}


def test_the_page_has_the_verdict_every_factor_and_every_row() -> None:
    found = result(two_factors(), (part(ADDS_UP),))
    page = render(found)
    assert "Nothing to recommend" in page
    for text in ("<td>a</td>", "-5.0 %", "<td>a+b</td>", "reads ×8", "held out", "No two factors were seen"):
        assert text in page, text
    assert "made up&lt;/b&gt;" in page and "http://" not in page and "https://" not in page
    assert "Nothing to recommend" in shown(found) and "a+b" in shown(found)


def test_a_load_that_counts_transactions_has_them_at_the_head_of_its_rows() -> None:
    found = result(two_factors(), (part(ADDS_UP),)).model_copy(update={"metric": "qps"})
    assert "<small>QPS</small>" in render(found)
    counted = found.model_copy(update={"transactions": tuple(load.workload for load in found.loads)})
    assert "<small>transactions per second</small>" in render(counted) and "<small>QPS</small>" not in render(counted)


def test_rows_are_drawn_against_all_off() -> None:
    found = result(two_factors(), (part(ADDS_UP),))
    page = render(found)
    loads = len({cell.load for cell in found.cells})
    assert loads > 1 and page.count('<svg class="rows"') == loads and page.count('<text class="name"') == 3 * loads
    assert ">a+b</text>" in page and "1.00x" not in page


def test_only_what_was_found_has_a_colour() -> None:
    found = result(two_factors(), (part({"off": 20.0, "a": 19.0, "b": 20.01, "a+b": 19.01}),))
    verdicts = [each.verdict for load in found.by_load for each in load.effects.factors]
    assert set(verdicts) == {"faster", "equivalent"}
    assert render(found).count("color-mix") == verdicts.count("faster")


def test_every_table_of_intervals_states_their_level() -> None:
    found = result(two_factors(), (part(ADDS_UP),))
    confidences = iter((0.991, 0.992, 0.993))
    effects = found.effects.model_copy(update={"confidence": next(confidences)})
    under = next(confidences)
    by_load = tuple(
        each.model_copy(update={"effects": each.effects.model_copy(update={"confidence": under})}) for each in found.by_load
    )
    known = found.model_copy(update={"effects": effects, "by_load": by_load, "cells_confidence": next(confidences)})
    page = render(known)
    for section, level in (("factors", "99.1 %"), ("heat", "99.2 %"), ("rows", "99.3 %")):
        assert f"ntervals of {level}" in page.partition(f'<section id="{section}">')[2].partition("</section>")[0], section
    said = shown(known)
    assert "intervals of 99.1 %" in said and "intervals of 99.3 %" in said


def test_one_at_a_time_each_load_has_what_a_factor_does_alone() -> None:
    """All together lack a fifth: a share of it is no factor's own doing."""
    design = make_design("one-at-a-time", two_factors().factors)
    found = result(design, (part({"off": 20.0, "a": 19.0, "b": 22.0, "a+b": 26.0}),))
    alone, share = found.by_load[0].effects.factors[0].alone, found.by_load[0].effects.factors[0].share
    assert alone and share and share.ratio > 1 > alone.ratio
    against_loads = render(found).partition("Factors against loads")[2].partition("</table>")[0]
    assert change_percent(alone.ratio) in against_loads and change_percent(share.ratio) not in against_loads


def test_one_at_a_time_the_terminal_has_the_instructions_that_a_factor_adds_alone() -> None:
    design = make_design("one-at-a-time", two_factors().factors)
    found = result(design, (part({"off": 20.0, "a": 19.0, "b": 22.0, "a+b": 26.0}),))
    counted = found.model_copy(update={"by_instructions": found.effects})
    first = found.effects.factors[0]
    assert first.alone and first.share
    said = shown(counted)
    assert f"instructions of a query, a on: {change_percent(first.alone.ratio)}" in said
    assert f"instructions of a query, a on: {change_percent(first.share.ratio)}" not in said


def test_a_row_of_steps_is_named_by_how_far_it_goes() -> None:
    """It is drawn beside all off: its ratio is not that of the factor that it adds."""
    design = make_design("steps", two_factors().factors)
    page = render(result(design, (part({"off": 20.0, "a": 19.0, "a+b": 20.9}),)))
    assert "Step by step" in page and ">up to b</text>" in page and "<td>a+b</td>" in page


def test_shares_of_levels_are_not_said_to_add_up() -> None:
    """Of two levels of one factor none is a part of the other's whole."""
    design = make_design("full", [Factor(name="pool", levels=("off", "2G", "4G"))])
    page = render(result(design, (part({"off": 20.0, "pool=2G": 19.0, "pool=4G": 18.0}),)))
    assert "all rows with the level against all with the factor off" in page and "shares add up" not in page
    assert "shares add up" in render(result(two_factors(), (part(ADDS_UP),)))


def test_what_does_not_add_up_is_said() -> None:
    found = result(two_factors(), (part(DOES_NOT),))
    for text in (render(found), shown(found)):
        assert "beyond what each does without the other" in text


def test_only_the_confirmed_gain_stands_at_the_top_and_a_loss_before_it() -> None:
    gain = confirmed()
    worse = [each for each in gain.comparisons if each.verdict == "slower"]
    found = result(
        two_factors(), (part(ADDS_UP),), recommended=("a",), recommended_file="/run/recommended.toml", confirmed=gain
    )
    page = render(found)
    assert page.index("What trials of its own showed") < page.index("What each factor does")
    assert worse and page.index("What the recommended set makes worse") < page.index("a was not confirmed")
    assert "in trials of its own: " in shown(found)


def test_the_losses_of_a_confirmed_set_begin_with_the_greatest() -> None:
    gain, *others = confirmed().comparisons
    ratios = {"qps": 0.98, "latency_ms_p99": 1.02, "user_cpu_us_per_query": 1.50, "total_cpu_us_per_query": 1.10}
    lost = [gain.model_copy(update={"metric": metric, "ratio": ratio, "verdict": "slower"}) for metric, ratio in ratios.items()]
    trials = confirmed().model_copy(update={"comparisons": (*lost, *(each for each in others if each.verdict != "slower"))})
    found = losses(result(two_factors(), (part(ADDS_UP),), recommended=("a",), confirmed=trials))
    said = [each.sentence.partition("x the ")[0].rpartition(" ")[2] for each in found]
    assert [float(each) for each in said] == pytest.approx([1.50, 1.10, 0.98, 1.02], abs=0.005)


def test_the_losses_of_rows_are_told_where_trials_of_its_own_did_not_confirm_a_set() -> None:
    def told(confirmed: Experiment | None) -> list[str]:
        found = result(two_factors(), (part(ADDS_UP),), recommended=("a",), confirmed=confirmed)
        return [each.sentence for each in losses(found)]

    rows = told(None)
    assert rows and told(confirmed_as(judged="inconclusive", held_out="inconclusive")) == rows
    assert told(confirmed_as(judged="faster", held_out="inconclusive")) == []


def test_what_a_speed_probe_saw_is_said() -> None:
    found = result(two_factors(), (part(ADDS_UP),))
    said = "In 21% of the turns, they were slower by a sixth or more"
    for text in (render(found), shown(found)):
        assert said not in " ".join(text.split())
    probed = found.model_copy(update={"slowed_share": 0.21})
    for text in (render(probed), shown(probed)):
        assert said in " ".join(text.split())


def confirmed_as(**verdicts: Verdict) -> Experiment:
    """The set's own trials with these verdicts for total CPU time: under loads that are not held out, and under the other."""
    found = [
        each.model_copy(update={"verdict": verdicts["held_out" if each.held_out else "judged"]})
        if each.metric == "total_cpu_us_per_query"
        else each.model_copy(update={"verdict": verdicts.get("others", "inconclusive")})
        for each in confirmed().comparisons
    ]
    return confirmed().model_copy(update={"comparisons": tuple(found)})


@pytest.mark.parametrize(
    ("gain", "said"),
    [
        (confirmed_as(judged="faster", held_out="inconclusive"), ""),
        (confirmed_as(judged="faster", held_out="slower"), "something was worse"),
        (confirmed_as(judged="faster", held_out="faster", others="slower"), "something was worse"),
        (confirmed_as(judged="inconclusive", held_out="faster"), "found no gain"),
        (confirmed_as(judged="equivalent", held_out="equivalent", others="faster"), "found no gain"),
        (confirmed_as(judged="slower", held_out="inconclusive"), "something was worse"),
    ],
)
def test_a_set_is_recommended_when_its_own_trials_say_so(gain: Experiment, said: str, tmp_path: Path) -> None:
    named: dict[str, Any] = {"recommended": ("a",), "recommended_file": "/run/recommended.toml", "confirmed": gain}
    found = result(two_factors(), (part(ADDS_UP),), **named)
    arm = Arm(name="a", row=(1,), change=Change(recipe="max-clang"), recipe=find_recipe("max-clang"))
    file = write_recommended(tmp_path / "recommended.toml", study(), arm, gain).read_text()
    for text in (render(found), shown(found), file):
        assert ("not confirmed" in text) == bool(said) and said in text
        assert ("Recommended" in text) == (not said)
    assert ("no gain to be published" in render(found)) == bool(said)


def test_the_figure_that_a_study_judges_by_is_among_those_that_confirm() -> None:
    found = result(two_factors(), (part(ADDS_UP),), recommended=("a",), confirmed=confirmed(), metric="user_cpu_us_per_query")
    assert "x the user CPU per query" in render(found)
    assert "x the user CPU per query" not in render(found.model_copy(update={"metric": "qps"})).partition('id="verdict"')[2]


def test_rows_that_died_or_are_the_same_say_so() -> None:
    found = result(two_factors(), (part(ADDS_UP),))
    rows = (
        found.rows[0],
        found.rows[1].model_copy(update={"died": "arm 'b': it crashed\nlog"}),
        found.rows[2].model_copy(update={"same_as": "off"}),
        found.rows[3],
    )
    changed = found.model_copy(update={"rows": rows})
    for text in (render(changed), shown(changed)):
        assert "left out: arm" in text and "the same server as off" in text and "\nlog" not in text


def test_a_result_survives_as_json_and_a_damaged_one_is_an_error(tmp_path: Path) -> None:
    found = result(two_factors(), (part(ADDS_UP),))
    with pytest.raises(UsageError, match="has no result"):
        load_study(tmp_path)
    (tmp_path / "result.json").write_text(found.model_dump_json())
    assert load_study(tmp_path) == found
    (tmp_path / "result.json").write_text("{}")
    with pytest.raises(UpshiftError, match="damaged"):
        load_study(tmp_path)
    (tmp_path / "result.json").write_text(found.model_copy(update={"schema_version": 99}).model_dump_json())
    with pytest.raises(UpshiftError, match="schema version 99"):
        load_study(tmp_path)
    # A version to come has fields of its own, and may lack some of today's.
    (tmp_path / "result.json").write_text('{"schema_version": 99, "upshift_version": "7.0", "of_version_99": 1}')
    with pytest.raises(UpshiftError, match="schema version 99") as caught:
        load_study(tmp_path)
    assert caught.value.hint.endswith("the Upshift that wrote it: 7.0")
    write_page(found, tmp_path / "report.html")
    assert not list(tmp_path.glob("*.partial"))


def study() -> Study:
    return Study(name="mine", base=Change(recipe="max-clang"), factors={"x": {"on": Change(recipe="plain")}})


def test_the_recommended_set_is_a_recipe_with_its_confirmed_gain(tmp_path: Path) -> None:
    recipe = find_recipe("max-clang").model_copy(update={"flags": ("-march=native",), "options": {"WITH_X": "1"}})
    change = Change(recipe="max-clang", settings={"log.error": "2"})
    arm = Arm(name="native", row=(1,), change=change, recipe=recipe)
    file = write_recommended(tmp_path / "recommended.toml", study(), arm, confirmed())
    assert read_recipe(file).before_post_link() == recipe.before_post_link()
    text = file.read_text()
    assert "x the queries per second" in text and '# Measured with: "log.error" = "2"' in text


def test_a_recipe_without_a_profile_is_for_build_as_the_guide_says(tmp_path: Path) -> None:
    """``optimize``, which the guide named alone, refuses it."""
    recipe = find_recipe("plain").model_copy(update={"scope": "hot", "flags": ("-O3",)})
    arm = Arm(name="x", row=(1,), change=Change(recipe="plain"), recipe=recipe)
    file = str(write_recommended(tmp_path / "recommended.toml", study(), arm, None))
    with pytest.raises(RecipeError, match="has no profile") as error:
        refuse_pointless(Options(recipe=file, held_out=("oltp_write_only",)))
    assert "`upshift build`" in error.value.hint
    guide = (CHECKOUT / "docs" / "how-to" / "study.md").read_text()
    assert "./upshift build recommended.toml" in guide
    trained = arm.model_copy(update={"recipe": recipe.model_copy(update={"profile": "ir"})})
    file = str(write_recommended(tmp_path / "trained.toml", study(), trained, None))
    refuse_pointless(Options(recipe=file, held_out=("oltp_write_only",)))


def test_the_file_of_a_recipe_says_what_it_was_trained_on(tmp_path: Path) -> None:
    change = Change(recipe="max-clang", trained_on=("oltp_read_only",), hot_set_of=("oltp_read_write",))
    arm = Arm(name="x", row=(1,), change=change, recipe=find_recipe("max-clang"))
    text = write_recommended(tmp_path / "recommended.toml", study(), arm, None).read_text()
    assert '# Measured with: trained_on = ["oltp_read_only"]\n# Measured with: hot_set_of = ["oltp_read_write"]' in text


def test_the_file_of_a_recipe_says_what_the_whole_study_was_trained_on(tmp_path: Path) -> None:
    """`build` would train it on its own default workloads, and that is another server than the confirmed one."""
    asked = study().model_copy(update={"workloads": ("/home/mine.toml", "commit")})

    def told(recipe: str) -> str:
        arm = Arm(name="x", row=(1,), change=Change(recipe=recipe), recipe=find_recipe(recipe))
        return write_recommended(tmp_path / "recommended.toml", asked, arm, None).read_text()

    assert '# Measured with: trained_on = ["/home/mine.toml", "commit"]\n' in told("max-clang")
    assert "trained_on" not in told("plain")


def test_the_file_is_toml_whatever_a_study_and_its_settings_are_called(tmp_path: Path) -> None:
    odd = study().model_copy(update={"name": "two\nlines"})
    change = Change(binary=tmp_path / "mysqld", settings={"größe": "1", "a.b": "2"})
    arm = Arm(name="x", row=(1,), change=change, recipe=None)
    found = tomllib.loads(write_recommended(tmp_path / "recommended.toml", odd, arm, None).read_text())
    assert found["settings"] == {"größe": "1", "a.b": "2"}


def test_the_recommended_set_of_a_binary_is_a_variant(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server = tmp_path / "mysqld"
    server.touch(mode=0o755)
    change = Change.model_validate(
        {
            "binary": server,
            "settings": {"x": "1"},
            "environment": {"A": "b c"},
            "tier": {"size": "1G"},
            "under": ["nice"],
            "text_huge_pages": True,
        }
    )
    file = write_recommended(tmp_path / "recommended.toml", study(), Arm(name="x", row=(1,), change=change, recipe=None), None)
    monkeypatch.setattr("upshift.measure.variant.refuse_without_huge_pages", lambda _whose: None)
    found = find_variant(f"x={file}")
    assert found.settings == {"x": "1"} and found.environment == {"A": "b c"} and found.under == ("nice",)
    assert found.text_huge_pages
    assert found.tier and found.tier.size == "1G"
    assert tomllib.loads(file.read_text())["binary"] == str(server)
    assert "Not confirmed" in file.read_text()


def test_the_machine_card_is_in_the_page_and_on_the_terminal() -> None:
    found = result(two_factors(), (part(ADDS_UP),), card=card())
    assert "What the machine costs a server" in render(found)
    assert "What the machine costs a server" not in render(result(two_factors(), (part(ADDS_UP),)))
    assert len(shown(found)) > len(shown(found.model_copy(update={"card": None})))


def effect(low: float, ratio: float, high: float) -> Effect:
    return Effect(ratio=ratio, ci_low=low, ci_high=high, chance=0.5)


@pytest.mark.parametrize(
    ("known", "percent", "ratios"),
    [
        (effect(0.960, 0.969, 0.978), "-3.1 % (-4.0 to -2.2)", "0.969x (0.960 to 0.978)"),
        (effect(0.98, 1.01, 1.04), "+1.0 % (-2.0 to +4.0)", "1.01x (0.98 to 1.04)"),
        (effect(0.988, 0.9997, 1.0004), "0.0 % (-1.2 to 0.0)", "1.000x (0.988 to 1.000)"),
        (effect(0.988, 0.994, 0.9996), "-0.60 % (-1.20 to -0.04)", "0.9940x (0.9880 to 0.9996)"),
        (effect(0.9, 0.95, 0.9996), "-5.00 % (-10.00 to -0.04)", "0.9500x (0.9000 to 0.9996)"),
        (effect(1.00001, 1.1, 1.2), "+10.000 % (+0.001 to +20.000)", "1.10000x (1.00001 to 1.20000)"),
        (effect(1.0, 1.0, 1.0), "0.0 % (0.0 to 0.0)", "1.000x (1.000 to 1.000)"),
        (effect(0.0, 1.1, 1e9), "+10.0 % (-100.0 to ∞)", "1.10x (0 to ∞)"),
    ],
)
def test_a_limit_is_not_rounded_to_no_effect_where_the_interval_leaves_that_out(
    known: Effect, percent: str, ratios: str
) -> None:
    assert wording.change(known) == percent
    assert wording.times(known) == ratios


def test_the_page_has_as_many_decimals_of_an_estimate_as_of_its_limits() -> None:
    found = result(two_factors(), (part(ADDS_UP),))
    first = found.effects.factors[0].model_copy(update={"share": effect(0.988, 0.994, 0.9996)})
    effects = found.effects.model_copy(update={"factors": (first, *found.effects.factors[1:])})
    assert "<b>-0.60 %</b><br><small>-1.20 to -0.04</small>" in render(found.model_copy(update={"effects": effects}))


def test_one_trial_is_not_said_to_show_that_nothing_helps() -> None:
    for text in (render(found := result(two_factors(), (part(ADDS_UP, trials=1),), trials=1)), shown(found)):
        assert "One trial gives no interval, so that nothing is told of any factor" in text and "Nothing helps" not in text
    page = render(found)
    assert "nothing is told of what factors do together." in page and "No two factors" not in page


def test_where_no_factor_has_a_share_none_is_explained() -> None:
    """One at a time with several levels there is no row with all on."""
    design = make_design("one-at-a-time", [Factor(name="pool", levels=("off", "2G", "4G")), *two_factors().factors[:1]])
    page = render(result(design, (part({"off": 20.0, "pool=2G": 19.0, "pool=4G": 18.0, "a": 19.5}),)))
    assert "Share:" not in page and "Alone: switched on by itself" in page


def test_shares_of_steps_do_not_add_up_to_the_whole_where_some_are_missing() -> None:
    design = make_design("steps", two_factors().factors)
    found = result(design, (part({"off": 20.0, "a": 19.0, "a+b": 20.9}),))
    assert "shares add up to it" in render(found)
    dead = found.effects.factors[0].model_copy(update={"share": None})
    effects = found.effects.model_copy(update={"factors": (dead, *found.effects.factors[1:])})
    assert "shares add up" not in render(found.model_copy(update={"effects": effects}))
