"""A comparison by structure on the terminal: what changed, where, and why."""

from __future__ import annotations

from collections.abc import Iterator

from tracelens_graph.analyses.alignment.difference import Diff
from tracelens_graph.analyses.alignment.tables import places_table
from tracelens_graph.analyses.timeline.timeline import times_of
from tracelens_graph.reports.document import facts
from tracelens_graph.reports.report_text import heading
from tracelens_graph.short_names import fitted
from tracelens_graph.text_table import bold
from tracelens_graph.texts import printable, wrapped

_PLACES = 5
_INDENT = "  "
_TIMES = (
    ("total_time", "first to last GPU event"),
    ("computation_time", "computation"),
    ("exposed_comm_time", "exposed communication"),
    ("exposed_memcpy_time", "exposed copies"),
    ("idle_time", "idle"),
)


def screen(difference: Diff, width: int, color: bool) -> str:
    """Both sides and their totals, then the places that explain most of the change.

    Args:
        difference: the comparison.
        width: characters of a line.
        color: whether to use terminal escapes.
    """
    return "".join(f"{line.rstrip()}\n" for line in _lines(difference, width, color))


def _lines(difference: Diff, width: int, color: bool) -> Iterator[str]:
    for name, window in zip(difference.names, (difference.a, difference.b), strict=True):
        yield from wrapped(printable(f"{name}: {heading(facts(window))}"), width, _INDENT)
    yield ""
    table = places_table(difference)
    changed = [row for row in table.records() if row["change_ms"] or row["a_ms"] != row["b_ms"]]
    yield from wrapped(bold(_headline(difference, bool(changed)), color), width, _INDENT)
    yield from _times(difference)
    if not changed:
        return
    yield ""
    whole = sum(abs(row["change_ms"]) for row in changed)
    shown = changed[:_PLACES]
    part = 100 * sum(abs(row["change_ms"]) for row in shown) / whole
    number = "The place" if len(shown) == 1 else f"The {len(shown)} places"
    yield from wrapped(f"{number} with most of the change ({part:.0f} % of all that became faster or slower)", width)
    for row in shown:
        yield from _place(row, width)
    if rest := len(changed) - len(shown):
        yield ""
        yield f"{rest:,} more: --points lists all places"


def _headline(difference: Diff, is_changed: bool) -> str:
    first, second = difference.ns
    if not is_changed:
        return f"The GPU work is the same, event by event: {first / 1e6:,.3f} ms"
    change = second - first
    word = "more" if change > 0 else "less"
    share = f" ({100 * change / first:+.1f} %)" if first else ""
    return f"GPU time {first / 1e6:,.3f} -> {second / 1e6:,.3f} ms: {abs(change) / 1e6:,.3f} ms {word}{share}"


def _times(difference: Diff) -> Iterator[str]:
    first, second = (times_of(w.core, w.gpu_rows) for w in (difference.a, difference.b))
    for name, label in _TIMES:
        one, other = first.get(name, 0) / 1e6, second.get(name, 0) / 1e6
        if one or other:
            yield f"{_INDENT}{label:<24}{one:>12,.3f} -> {other:>12,.3f} ms  {other - one:>+12,.3f}"


def _place(row: dict[str, object], width: int) -> Iterator[str]:
    times = f" x {row['times']:,}" if row["times"] != 1 else ""
    figures = f"{row['a_ms']:,.3f} -> {row['b_ms']:,.3f} ms"
    change = f"{row['change_ms']:>+10,.3f} ms"
    room = width - len(change) - len(times) - len(figures) - 6
    yield f"{change}  {fitted(printable(str(row['op'])), max(room, 16))}{times}: {figures}"
    indent = " " * (len(change) + 2)
    if row["module"]:
        yield indent + fitted(printable(str(row["module"])), max(width - len(indent), 16))
    yield from (indent + line for line in wrapped(printable(str(row["why"])), max(width - len(indent), 24)))
