"""A comparison by structure as JSON for programs and as Markdown for a pull request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from tracelens_graph._version import __version__
from tracelens_graph.analyses.alignment.difference import Diff
from tracelens_graph.output.markers import COMMENT
from tracelens_graph.reports.diff_text import changed_places, headline, side_lines
from tracelens_graph.reports.document import SCHEMA_VERSION, facts, objects
from tracelens_graph.reports.json import laid_out, sound
from tracelens_graph.reports.markdown import escape, table_markdown
from tracelens_graph.tables.table import Table
from tracelens_graph.utils.texts import cut_middle

_LONGEST = 100
"""Characters of a name."""
_HEADINGS = {"change_ms": "change ms", "a_ms": "A ms", "b_ms": "B ms", "change_percent": "%", "meaning": "time"}


def diff_json(difference: Diff, tables: Mapping[str, Table], notes: Sequence[str]) -> str:
    """The comparison as one JSON object: both traces, what is to be said of them, and the tables.

    Strict JSON: NaN and infinity are null. Every row of a table has a line of its own.
    """
    traces = {}
    for letter, name, window in zip("ab", difference.names, (difference.a, difference.b), strict=True):
        about = asdict(facts(window))
        del about["options"]
        traces[letter] = {"name": name, **about}
    document: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION,
        "tool": {"name": "tracelens_graph", "version": __version__},
        **traces,
        "notes": list(notes),
    }
    return laid_out({**sound(document), "tables": objects(tables)}, 4) + "\n"


def diff_markdown(difference: Diff, tables: Mapping[str, Table], notes: Sequence[str], rows: int = 10) -> str:
    """The comparison as a page: the headline, the times, the places with the largest changes, idle time by cause.

    Args:
        difference: the comparison.
        tables: its totals, times and places.
        notes: what is to be said of the two sides.
        rows: how many places; 0 for all.
    """
    changed = changed_places(tables["diff_places"])
    blocks = [f"## GPU work: {escape(difference.names[1])} against {escape(difference.names[0])}"]
    blocks.append(f"**{escape(headline(tables['diff_totals'], bool(changed)))}**")
    blocks.append("\n".join(f"* {escape(line)}" for line in side_lines(difference)))
    blocks += [escape(note) for note in notes]
    times = [row for row in tables["diff_totals"].records() if row["a_ms"] or row["b_ms"]]
    blocks.append(_table(times, ("meaning", "a_ms", "b_ms", "change_ms", "change_percent")))
    shown = changed[:rows] if rows else changed
    if shown:
        blocks += ["### Where", _table(shown, ("change_ms", "a_ms", "b_ms", "times", "op", "module", "why"))]
    if rest := len(changed) - len(shown):
        blocks.append(f"{rest:,} more places.")
    if causes := [row for row in tables["diff_times"].records() if row["cause"]]:
        blocks += ["### Time without GPU work", _table(causes, ("part", "cause", "a_ms", "b_ms", "change_ms", "why"))]
    return COMMENT + "\n\n".join(block.rstrip() for block in blocks) + "\n"


def _table(rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> str:
    """Rows as Markdown; names are cut, sentences are not."""
    cells: dict[str, list[Any]] = {}
    for name in columns:
        values = [row[name] for row in rows]
        cells[_HEADINGS.get(name, name)] = (
            [cut_middle(value, _LONGEST) for value in values] if name in ("op", "module") else values
        )
    return table_markdown(Table("", cells), signed=("change ms", "%"))
