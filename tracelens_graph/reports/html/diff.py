"""The page of a comparison: what changed, where and why, as the screen of `diff` says it, and both call trees as one.

Figures are those of the tables of the comparison; the flame graph adds up to the GPU times of both sides.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from tracelens_graph.analyses.alignment.causes import REASON_MEANING, Reason
from tracelens_graph.analyses.alignment.difference import Diff, Place
from tracelens_graph.analyses.report.inventory import inventory
from tracelens_graph.graph.window import Window
from tracelens_graph.reports.diff_point import point_lines
from tracelens_graph.reports.diff_text import changed_places, headline, side_lines
from tracelens_graph.reports.document import facts
from tracelens_graph.reports.html.diff_flame import Called, diff_stacks
from tracelens_graph.reports.html.names import LONGEST_LINE, clean, texts_of
from tracelens_graph.reports.html.overview import chosen, in_window, parts, recorded
from tracelens_graph.reports.html.shell import Code, page
from tracelens_graph.reports.html.stacks import stack_columns
from tracelens_graph.reports.html.tables import Texts, table_objects
from tracelens_graph.tables.table import Table
from tracelens_graph.tables.terminal import list_text

CODE = Code("page-diff.js", ("diff.css",))

MOST_PLACES = 200
"""Places that are drawn, those with most of the change; all are in the table."""
_MOST_KERNELS = 20
"""Names of GPU events of one side of a place."""
_WIDTH = 110
"""Characters of a line that draws a place."""

Commands = Callable[[int], Iterable[tuple[str, str]]]
"""For the number of a place what to do next: what it is for, and the command."""


def diff_page(
    difference: Diff, tables: Mapping[str, Table], said: Sequence[str], commands: Commands = lambda number: ()
) -> str:
    """A comparison as a page.

    Args:
        difference: the comparison.
        tables: its totals, times and places.
        said: what is to be said of the two sides.
        commands: makes the commands that tell more of a place.
    """
    (stacks, names), texts = diff_stacks(difference), Texts()
    first, second = difference.names
    title = clean(f"GPU work: {second} against {first}")
    head = {"overview": _overview(difference, tables, said), "title": title}
    rows = tables["diff_places"].records()[:MOST_PLACES]
    body = {
        "places": [
            _place(difference, place, row, commands, names) for place, row in zip(difference.places, rows, strict=False)
        ],
        "tables": table_objects(tables, texts),
        "texts": texts.listed,
        **texts_of(names.texts, names.shorts),
    }
    return page(title, head, body, stack_columns("diff", stacks), CODE)


def _overview(difference: Diff, tables: Mapping[str, Table], said: Sequence[str]) -> dict[str, Any]:
    changed = changed_places(tables["diff_places"])
    windows = difference.a, difference.b
    return {
        "headline": clean(headline(tables["diff_totals"], bool(changed)), LONGEST_LINE),
        "notes": [clean(line, LONGEST_LINE) for line in said],
        "sides": [
            {
                "letter": letter, "name": clean(name), "text": clean(line, LONGEST_LINE), "gpu_ns": ns,
                "parts": parts(window),
            }
            for letter, name, line, ns, window in zip(
                "AB", difference.names, side_lines(difference), difference.ns, windows, strict=True
            )
        ],
        "totals": [
            {key: row[key] for key in ("meaning", "a_ms", "b_ms", "change_ms", "change_percent")}
            for row in tables["diff_totals"].records()
            if row["a_ms"] or row["b_ms"]
        ],
        "reasons": _reasons(changed),
        "idle": [
            {key: row[key] for key in ("part", "cause", "a_ms", "b_ms", "change_ms")}
            | {"why": clean(str(row["why"]), LONGEST_LINE)}
            for row in tables["diff_times"].records()
            if row["cause"]
        ],
        "facts": _facts(*windows),
    }  # fmt: skip


def _reasons(changed: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The reasons of places that differ, the one behind most of what became faster or slower first."""
    found: dict[str, dict[str, Any]] = {}
    for row in changed:
        one = found.setdefault(row["reason"], {
            "reason": row["reason"].replace("_", " "), "meaning": _meaning(row), "places": 0,
            "a_ms": 0.0, "b_ms": 0.0, "slower_ms": 0.0, "faster_ms": 0.0, "first": int(row["place"]),
        })  # fmt: skip
        one["places"] += 1
        one["a_ms"] += row["a_ms"]
        one["b_ms"] += row["b_ms"]
        one["slower_ms" if row["change_ms"] > 0 else "faster_ms"] += abs(row["change_ms"])
    return sorted(found.values(), key=lambda one: -(one["slower_ms"] + one["faster_ms"]))


def _meaning(row: Mapping[str, Any]) -> str:
    """What the reason of a place means; names of columns stand in backticks there."""
    return REASON_MEANING[Reason(row["reason"])].replace("`", "")


def _facts(a: Window, b: Window) -> list[list[str | None]]:
    """What was recorded of both sides: label, and the value on each side; None where a side has none."""
    sides: list[dict[str, str]] = []
    for window in (a, b):
        about: dict[str, str] = {}
        whole = recorded(facts(window.core), inventory(window.core))
        part = ((f"{label} compared", value) for label, value in in_window(window))
        for label, value in (*whole, *part, *chosen(facts(window))):
            about[label] = f"{about[label]}, {value}" if label in about else value
        sides.append(about)
    labels = dict.fromkeys(label for about in sides for label in about)
    return [[clean(label), *(clean(about[label]) if label in about else None for about in sides)] for label in labels]


def _place(difference: Diff, place: Place, row: Mapping[str, Any], commands: Commands, names: Called) -> dict[str, Any]:
    """One place with all that is known of it."""
    return {
        "place": int(row["place"]),
        "op": clean(str(row["op"])),
        "module": clean(str(row["module"] or ""), LONGEST_LINE),
        "reason": row["reason"].replace("_", " "),
        "meaning": _meaning(row),
        "why": clean(str(row["why"]), LONGEST_LINE),
        "times": int(row["times"]),
        "ns": list(place.ns),
        "sides": [_side(place, row, k, names) for k in range(2)],
        "drawn": [clean(line) for line in point_lines(difference, place, _WIDTH)],
        "commands": [[clean(label), clean(command, LONGEST_LINE)] for label, command in commands(int(row["place"]))],
    }


def _side(place: Place, row: Mapping[str, Any], k: int, names: Called) -> dict[str, Any]:
    """What one side does at a place: what launched its longest event, and all its kernels."""
    letter, kernels = "ab"[k], place.kernels[k]
    line, shapes, types, uid = (row[f"{field}_{letter}"] for field in ("line", "shapes", "types", "uid"))
    return {
        "line": clean(str(line)) if line else None,
        "shapes": None if shapes is None else clean(_arguments(shapes)),
        "types": None if types is None else clean(_arguments(types)),
        "uid": uid,
        "kernels": [[names.kernel(name), count, ns] for name, (count, ns) in list(kernels.items())[:_MOST_KERNELS]],
        "more": max(len(kernels) - _MOST_KERNELS, 0),
    }


def _arguments(text: str) -> str:
    """Shapes or types, JSON as the graph has them, in few characters."""
    try:
        value = json.loads(text)
    except ValueError:
        return text
    return list_text(value) if isinstance(value, list) else text
