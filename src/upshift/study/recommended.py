"""The recommended set as a TOML file: a recipe to build with, or a variant to measure again."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from upshift.build.recipe import Recipe
from upshift.measure.model import Experiment
from upshift.study.file import Study
from upshift.study.plan import Arm
from upshift.study.recommend import unconfirmed
from upshift.study.wording import gain_sentences

_SURROUNDINGS = ("under", "client", "sql", "server_cpus", "client_cpus", "settings", "environment", "text_huge_pages", "tier")


def write_recommended(file: Path, study: Study, arm: Arm, confirmed: Experiment | None) -> Path:
    """A recipe when one builds the server, else a variant; a comment says what was confirmed, and what a recipe cannot hold."""
    against = unconfirmed(confirmed, study.metric) if confirmed else ""
    said = (
        f"Chosen by the study {study.name}, and not confirmed, as {against}"
        if against
        else f"Recommended by the study {study.name}"
    )
    lines = [f"# {' '.join(said.split())}: {arm.name}."]
    lines += [f"# {sentence}" for sentence in gain_sentences(confirmed, study.metric)]
    change = arm.change.model_dump(mode="json", exclude_defaults=True)
    if arm.recipe is None:
        server = {"server": arm.change.server} if arm.change.server else {}
        table = {"binary": str(arm.change.binary), **server, **{key: change[key] for key in _SURROUNDINGS if change.get(key)}}
    else:
        table = _recipe_keys(arm.recipe)
        if arm.trained:
            change = {"trained_on": study.workloads, **change}
        beside = {key: change[key] for key in ("trained_on", "hot_set_of", *_SURROUNDINGS) if change.get(key)}
        lines += [f"# Measured with: {line}" for line in toml(beside).splitlines() if line]
    file.write_text("\n".join(lines) + "\n" + toml(table))
    return file


def toml(table: Mapping[str, Any]) -> str:
    """A table of texts, numbers, lists and tables as TOML: JSON's notation of these is TOML's, but for tables."""
    plain = {key: value for key, value in table.items() if not isinstance(value, Mapping)}
    text = "".join(f"{key} = {json.dumps(value, ensure_ascii=False)}\n" for key, value in plain.items())
    for key, value in table.items():
        if isinstance(value, Mapping):
            text += f"\n[{key}]\n" + "".join(
                f"{_key(name)} = {json.dumps(item, ensure_ascii=False)}\n" for name, item in value.items()
            )
    return text


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else json.dumps(name)


def _recipe_keys(recipe: Recipe) -> dict[str, Any]:
    keys = recipe.model_dump(mode="json", exclude_defaults=True, exclude={"name", "description"})
    return {key: value for key, value in keys.items() if value is not None}
