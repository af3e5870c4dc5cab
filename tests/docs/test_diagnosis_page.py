"""docs/diagnosis.md lists the thresholds, kinds and suggestions that there are, with their values."""

from __future__ import annotations

import re
from pathlib import Path

from corpus import CHECKOUT
from tracelens_graph.analyses.diagnosis import thresholds
from tracelens_graph.analyses.diagnosis.finding import ADVICE, KINDS


def rows(heading: str) -> list[list[str]]:
    """Cells of the first table below a heading."""
    text = (Path(CHECKOUT) / "docs" / "diagnosis.md").read_text().partition(f"## {heading}\n")[2].partition("\n## ")[0]
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[2:]]


def test_thresholds_are_those_of_the_code() -> None:
    written: dict[str, float] = {}
    for names, values, *_ in rows("Thresholds"):
        found = re.findall(r"`(\w+)`", names)
        written.update(zip(found, map(float, values.split(", ")), strict=True))
    there = {name: float(value) for name, value in vars(thresholds).items() if name.isupper()}
    assert written == there


def test_kinds_and_suggestions_are_those_of_the_code() -> None:
    assert {row[0].strip("`"): row[1] for row in rows("The first line")} == KINDS
    assert {row[0].strip("`"): row[1] for row in rows("What to try")} == ADVICE
