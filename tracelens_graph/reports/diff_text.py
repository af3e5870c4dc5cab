"""A comparison by structure on the terminal: what changed, where, and why; and the same as JSON and Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from tracelens_graph.analyses.across.outer_join import NOTE, are_compiled_apart
from tracelens_graph.analyses.alignment.difference import Diff
from tracelens_graph.analyses.alignment.host_work import HOST_TIMES, is_of_host
from tracelens_graph.analyses.alignment.noise import Proof
from tracelens_graph.analyses.alignment.reasons import Reason
from tracelens_graph.analyses.alignment.setups import setup_lines
from tracelens_graph.analyses.alignment.several import SPREAD
from tracelens_graph.analyses.alignment.spread import odd_step
from tracelens_graph.analyses.ops.programs import recorded_executions
from tracelens_graph.analyses.serving.iterations import BETWEEN
from tracelens_graph.analyses.shared.common_factor import CLOCK
from tracelens_graph.analyses.shared.thinned import is_thinned
from tracelens_graph.reports.diff_times_text import (
    INDENT,
    NEARLY_NOTHING,
    cause_lines,
    figures,
    percent_of,
    pooled_lines,
    total_lines,
)
from tracelens_graph.reports.document import document_json, facts
from tracelens_graph.reports.markdown import escape, page, table_markdown
from tracelens_graph.reports.report_text import heading
from tracelens_graph.reports.views import with_headings
from tracelens_graph.schema import Kind
from tracelens_graph.tables.names import fitted
from tracelens_graph.tables.table import Table
from tracelens_graph.tables.terminal import bold
from tracelens_graph.utils.arrays import Mask
from tracelens_graph.utils.texts import cut_middle, outer_lines, paragraphs, printable, width_of, wrapped

PLACES = 5
"""Places on the screen."""
_CHANGE = 9
_SCREEN = 38
"""Lines that a screen has room for, beside two hints."""
_WHY_LINES = ((3, 3), (3, 2), (3, 1), (2, 1), (3, 0), (2, 0), (1, 0))
"""Lines of the reason of a place, and of the explanation of a cause, at most: the first that fit on a screen."""
_OTHERS = ", the others as before"
"""What the end of a reason need not say."""
_PHASES = 3
"""Phases of servers on the screen."""
_LEAST_OUTSIDE = 0.05
"""Least change of the time outside of steps that is shown, as a share of the longest step."""
STEP_PARTS = {"gpu_ms": "GPU work", "idle_ms": "idle in the step", "gap_ms": "gap before it", "step_ms": "in all"}
"""What a step of a server takes -> what it is; the first three add up to the last."""
_HARDLY = 0.005
"""Share of a place's time below which a change of it fills no place of the list."""
_OF_CLOCK = 0.01
"""Share of what the factor of all kernels explains, likewise."""
_LEAST_UNLINKED = 1
"""Percent of GPU time without a launch from which on a note has it."""


def screen(
    difference: Diff, tables: Mapping[str, Table], width: int, color: bool, notes: Sequence[str] = (),
    places: int | None = None,
) -> Iterator[str]:  # fmt: skip
    """Both sides and their totals, then the places that explain most of the change.

    Args:
        places: how many places; 0 for all, None for as many as a screen holds.
    """
    number = PLACES if places is None else places or len(tables["diff_places"])
    without_families = {**tables, "diff_places": replace(tables["diff_places"], notes=[])}
    ways = [*((tables, most) for most in _WHY_LINES), (without_families, _WHY_LINES[-1])]
    above = list(_above(difference, tables, width, color))
    for shown, most in ways:
        lines = [*above, *_lines(shown, width, notes, number, *most)]
        if len(lines) <= _SCREEN or number > PLACES:
            break
    yield from (line.rstrip() for line in lines)


def side_lines(difference: Diff) -> list[str]:
    """What was compared, one line for each side."""
    lines = []
    for letter, name, window in zip("AB", difference.names, (difference.a, difference.b), strict=True):
        called = f"{letter} ({name})" if name != letter else letter
        lines.append(f"{called}: {heading(facts(window))}")
    return lines


def warnings_on(difference: Diff) -> list[str]:
    """What to know before any time is read: what else differs than the program, that it is host time, or that launches
    of a side did not run."""
    of_host = [HOST_TIMES] if is_of_host(difference.a) else []
    return [*setup_lines(difference), *of_host] + [
        f"{name} records {len(side.captured):,} launches into a graph without running them: they take no GPU time "
        "there, so that times of both sides cannot be compared"
        for name, side in zip(difference.names, difference.alignment.sides, strict=True)
        if side.captured
    ]


def notes_on(difference: Diff) -> list[str]:
    """What to know of the two sides: that they share nothing, that most events of one were left out of its file, and
    what is inferred in either, and GPU time without a launch, which is compared by stream."""
    notes = []
    if difference.alignment.are_unrelated:
        notes.append("These are two programs with hardly a module or call in common: nothing was aligned.")
    if are_compiled_apart(window.core for window in (difference.a, difference.b)):
        notes.append(NOTE)
    sides = list(zip(difference.names, (difference.a, difference.b), strict=True))
    notes += [f"{name}: {text}" for name, window in sides if (text := recorded_executions(window).text)]
    notes += [f"{name}: {text}" for name, window in sides if (text := window.core.info.inferred)]
    if thinned := [name for name, window in sides if is_thinned(window)]:
        files = "files" if len(thinned) > 1 else "file"
        notes.append(
            f"Most events were left out of the {files} of {' and '.join(thinned)}: what stands on the other side only "
            "may have run there unrecorded"
        )
    for name, window in sides:
        if (odd := odd_step(window)) is not None:
            step = window.core.names[window.core.columns.name[odd.row]]
            notes.append(
                f"{name}: {step} computes {odd.ratio:.2f}x as long as its other steps, and is not part of its noise"
            )
    notes += _graph_launches(difference)
    for name, side, ns in zip(difference.names, difference.alignment.sides, difference.ns, strict=True):
        unlinked = sum(int(side.ns[side.low[root] : side.high[root]].sum()) for root in side.lone_roots.tolist())
        if ns and (share := 100 * unlinked / ns) >= _LEAST_UNLINKED:
            notes.append(
                f"{name}: {share:.0f} % of the GPU time has no launch in the trace, so that no call says what it is"
            )
    return notes


def _graph_launches(difference: Diff) -> list[str]:
    """What one side launches as graphs where the other launches one by one."""
    found = []
    for side in difference.alignment.sides:
        row = side.row[side.leaf_parent]
        graphs = row[(row >= 0) & (side.window.core.columns.kind[np.maximum(row, 0)] == Kind.RuntimeCall)]
        found.append((len(graphs), len(np.unique(graphs)), len(side.events)))
    return [
        f"{difference.names[one]} launches {events:,} of its {every:,} GPU events as {_graphs(launches)}, "
        f"{difference.names[1 - one]} one by one (graph_launch)"
        for one, (events, launches, every) in enumerate(found)
        if events and not found[1 - one][0]
    ]


def _graphs(number: int) -> str:
    return f"{number:,} graphs" if number > 1 else "a graph"


def changed_places(places: Table) -> list[dict[str, Any]]:
    """The rows of places in which time, GPU work or its arguments differ, by more than noise."""
    return [row for row, is_changed in zip(places.records(), _is_changed(places), strict=True) if is_changed]


def _is_changed(places: Table) -> Mask:
    """Of each place whether its sides differ by more than noise."""
    pairs = zip(places["reason"], places["proof"], strict=True)
    return np.array([reason != Reason.same and proof != Proof.noise for reason, proof in pairs], bool)


def noise_note(places: Table) -> str:
    """How many places changed by less than their noise, and by how much together; empty for none."""
    ms = [
        change
        for change, reason, proof in zip(places["change_ms"], places["reason"], places["proof"], strict=True)
        if proof == Proof.noise and reason != Reason.same
    ]
    if not ms:
        return ""
    what, their = ("place", "its") if len(ms) == 1 else ("places", "their")
    return f"{len(ms):,} {what} changed by less than {their} noise ({sum(ms):+,.3f} ms): --noise off"


def listed_places(changed: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Of these the rows that show something: neither what the factor of all kernels explains, nor hardly any change of
    time of the same kernels."""
    of_clock = sum(abs(row["change_ms"]) for row in changed if row["reason"] == Reason.clock)

    def is_hardly_changed(row: Mapping[str, Any]) -> bool:
        least = max(_HARDLY * row["a_ms"], _OF_CLOCK * of_clock, NEARLY_NOTHING)
        return bool(row["reason"] in (Reason.other_time, Reason.copy_rate) and abs(row["change_ms"]) < least)

    return [row for row in changed if row["reason"] != Reason.clock and not is_hardly_changed(row)]


def clock_texts(changed: Iterable[Mapping[str, Any]]) -> list[str]:
    """One line on the places that the factor of all kernels explains; none where there are none."""
    a, b = (sum(row[side] for row in changed if row["reason"] == Reason.clock) for side in ("a_ms", "b_ms"))
    return [f"All kernels {b / a:.2f}x as long: {a:,.3f} -> {b:,.3f} ms; {CLOCK}"] if a else []


def only_changed(places: Table) -> Table:
    """The places without those that are the same on both sides, or changed by noise; notes say how many these are."""
    is_changed = _is_changed(places)
    same = sum(reason == Reason.same for reason in places["reason"])
    cut = places.take(np.flatnonzero(is_changed))
    notes = list(places.notes)
    is_noise = noise_note(places)
    if not len(cut):
        nothing = "by more than noise" if is_noise else "the GPU work is the same, event by event"
        notes.insert(0, f"Nothing differs{' ' if is_noise else ': '}{nothing}")
    if is_noise:
        notes.append(is_noise)
    if same:
        notes.append(f"{same:,} {'place is' if same == 1 else 'places are'} the same on both sides, and not listed")
    cut.notes = notes
    return cut


def headline(totals: Table, changed: Sequence[Mapping[str, Any]]) -> str:
    """The change of the GPU time, in a sentence; where not all of it is shown to be no noise, what the places that
    changed are of it."""
    row = totals.records()[0]
    first, second, change = row["a_ms"], row["b_ms"], row["change_ms"]
    if not changed and not change:
        return f"The GPU work is the same, event by event: {first:,.3f} ms"
    percent = row["change_percent"]
    share = "" if percent is None else f" ({percent:+.1f} %)"
    word = "more" if change > 0 else "less"
    text = f"{abs(change):,.3f} ms {word}{share}" if change else "no change in all"
    noise = ""
    if row["proof"] in (Proof.noise, Proof.places):
        ms = sum(one["change_ms"] for one in changed)
        if round(ms, 3):
            noise = f"; places that changed beyond noise: {ms:+,.3f} ms"
        elif change and not changed:
            noise = ", within noise"
    return f"GPU time {first:,.3f} -> {second:,.3f} ms: {text}{noise}"


def _above(difference: Diff, tables: Mapping[str, Table], width: int, color: bool) -> Iterator[str]:
    """What was compared, and both totals."""
    yield from paragraphs([*side_lines(difference), *warnings_on(difference)], width, INDENT)
    yield ""
    if "diff_phases" in tables:
        yield from _phases(tables["diff_phases"], width)
    totals = tables["diff_totals"]
    sentence = headline(totals, changed_places(tables["diff_places"]))
    yield from (bold(line, color) for line in wrapped(sentence, width, INDENT))
    yield from total_lines(difference, totals, width)
    yield from pooled_lines(difference, width)


def _lines(
    tables: Mapping[str, Table], width: int, notes: Iterable[str], places: int, of_place: int, of_cause: int
) -> Iterator[str]:
    """Idle time by cause, notes, and places."""
    changed = changed_places(tables["diff_places"])
    largest = max((abs(row["change_ms"]) for row in listed_places(changed)), default=0.0)
    yield from cause_lines(tables["diff_times"], largest, width, of_cause)
    yield from paragraphs(notes, width, INDENT)
    noise = noise_note(tables["diff_places"])
    if not changed:
        yield from wrapped(noise, width, INDENT) if noise else ()
        return
    yield ""
    of_all = clock_texts(changed)
    yield from paragraphs(of_all or tables["diff_places"].notes, width, INDENT)
    listed = listed_places(changed)
    whole = sum(abs(row["change_ms"]) for row in changed)
    shown = _foremost(listed, places)
    part = 100 * sum(abs(row["change_ms"]) for row in shown) / whole if whole else 100
    number = "The place" if len(shown) == 1 else f"The {len(shown)} places"
    deviate = " besides" if of_all else ""
    if shown:
        is_counted = [row["place"] for row in shown] == [*range(1, len(shown) + 1)]
        numbers = "" if is_counted else "; numbers as in --points"
        text = f"{number} with most of the change{deviate} ({part:.0f} % of all that became faster or slower{numbers})"
        yield from wrapped(text if whole else f"{number} with other work, which takes as long", width)
    for row in shown:
        yield from place_lines(row, width, of_place)
    if rest := len(changed) - len(shown):
        yield f"{rest:,} more: --points lists all places, --tree draws both call trees as one"
    yield from wrapped(noise, width, INDENT) if noise else ()


def _foremost(changed: list[Mapping[str, Any]], places: int) -> list[Mapping[str, Any]]:
    """The places with most of the change; the last of them gives way to work that moved: times do not show it."""
    moved = [row for row in changed if row["reason"] == Reason.moved]
    most = max(moved, key=lambda row: row["a_ms"], default=None)
    if most is None or any(row in changed[:places] for row in moved) or places >= len(changed):
        return changed[:places]
    is_more = most["a_ms"] > abs(changed[places - 1]["change_ms"])
    return [*changed[: places - 1], most] if is_more else changed[:places]


def _phases(table: Table, width: int) -> Iterator[str]:
    """What a step of two servers takes, by phase, those with most of the change first."""
    rows = sorted(
        table.records(), key=lambda row: -abs(row["change_ms"] * max(row["iterations_a"], row["iterations_b"]))
    )
    most = max((max(row["step_ms_a"], row["step_ms_b"]) for row in rows), default=0)
    rows = [row for row in rows if row["phase"] != BETWEEN or abs(row["change_ms"]) > _LEAST_OUTSIDE * most]
    if rows:
        yield from wrapped("One step of each, averaged over steps of equal phase and size", width, INDENT)
    for row in rows[:_PHASES]:
        yield from wrapped(f"{INDENT}{_phase_heading(row)}", width, 2 * INDENT)
        for name, label in STEP_PARTS.items():
            first, second = row[f"{name}_a"], row[f"{name}_b"]
            change = {"change_ms": second - first, "change_percent": 100 * (second - first) / first if first else None}
            if first or second:
                yield figures(2 * INDENT + label, {"a_ms": first, "b_ms": second, **change}, width)
        if row["why"]:
            room = max(width - 3 * len(INDENT), 24)
            yield from (3 * INDENT + line for line in wrapped(printable(f"before it: {row['why']}"), room))
    notes = [*table.notes, *([f"{len(rows) - _PHASES} more phases"] if len(rows) > _PHASES else [])]
    yield from paragraphs((INDENT + note for note in notes), width, 2 * INDENT)
    yield ""


def _phase_heading(row: Mapping[str, Any]) -> str:
    """`decode, 47 -> 47 steps of 13.7 -> 13.7 requests, 36,923 -> 8,289 tokens/s`."""
    text = f"{row['phase']}, {row['iterations_a']:,} -> {row['iterations_b']:,} steps"
    if row["requests_a"] is not None and row["requests_b"] is not None:
        text += f" of {row['requests_a']:,.3g} -> {row['requests_b']:,.3g} requests"
    if row["tokens_per_s_a"] is not None and row["tokens_per_s_b"] is not None:
        text += f", {row['tokens_per_s_a']:,.0f} -> {row['tokens_per_s_b']:,.0f} tokens/s"
    return text


def phase_texts(table: Table) -> list[str]:
    """The same, a sentence for each phase."""
    texts = []
    for row in table.records():
        parts = ", ".join(
            f"{label} {row[f'{name}_a']:,.3f} -> {row[f'{name}_b']:,.3f} ms" for name, label in STEP_PARTS.items()
        )
        texts.append(f"{_phase_heading(row)}: {parts}" + (f". Before it: {row['why']}" if row["why"] else ""))
    return texts


def runs_text(table: Table, width: int, color: bool = False) -> Iterator[str]:
    """Several runs against the first: a line of figures each, runs of one structure, the largest change of each."""
    yield from with_headings(replace(table, notes=[]), leave="most").text(width, color).splitlines()
    rows = table.records()
    structures: dict[int, list[str]] = {}
    for row in rows:
        structures.setdefault(row["structure"], []).append(row["run"])
    yield ""
    if len(structures) == 1:
        yield from wrapped("All runs have one structure: the same calls, shapes and kinds of kernels.", width)
    else:
        named = (f"Structure {number}: {', '.join(runs)}" for number, runs in structures.items())
        yield from paragraphs(named, width, INDENT)
    for row in rows[1:]:
        text = (
            f"{row['run']}: {row['most']}; {row['why']}"
            if row["most"]
            else f"{row['run']}: {row['why'] or 'all GPU time as in the first'}"
        )
        yield from wrapped(printable(text), width, INDENT)
    yield from paragraphs(table.notes, width, INDENT)


def within_text(table: Table, width: int, color: bool = False, most: int = 0) -> Iterator[str]:
    """Parts that are not like those beside them, a paragraph each, then what was looked at."""
    yield from (bold(line, color) for line in wrapped(printable(table.title), width))
    rows = table.records()
    for row in rows[:most] if most else rows:
        times = f" and {row['times'] - 1:,} more" if row["times"] > 1 else ""
        is_spread = row["differs"] == SPREAD
        differs = "the slowest" if is_spread else f"other {row['differs']}"
        text = (
            f"{row['change_ms']:+,.3f} ms  {row['name']}{times} of {row['parts']:,}: {differs}, "
            f"{row['usual_ms']:,.3f} -> {row['gpu_ms']:,.3f} ms against {row['usual']}{', the fastest' * is_spread}"
        )
        yield from wrapped(printable(text), width, INDENT)
        if row["where"]:
            yield from wrapped(printable(f"{INDENT}{row['where']}: {row['why']}"), width, 2 * INDENT)
    if most and len(rows) > most:
        yield f"{len(rows) - most:,} more (--top 0 shows all)"
    yield from paragraphs(table.notes, width, INDENT)


def place_lines(row: Mapping[str, Any], width: int, most: int | None = None) -> Iterator[str]:
    """A row of the places: times, where, why.

    Args:
        most: lines of the reason; None for all of it.
    """
    times = f" x {row['times']:,}" if row["times"] != 1 else ""
    figures = f": {row['a_ms']:,.3f} -> {row['b_ms']:,.3f} ms"
    if row["proof"] not in ("", Proof.structure):
        figures += f" ±{(row['high_ms'] - row['low_ms']) / 2:,.3f}"
    head = f"{row['place']:>2} {row['change_ms']:>+{_CHANGE},.3f} ms  "
    room = width - width_of(head) - len(times) - len(figures)
    yield f"{head}{fitted(printable(str(row['op'])), max(room, 8))}{times}{figures}"
    indent = " " * len(head)
    room = max(width - len(indent), 24)
    if row["module"]:
        yield indent + fitted(printable(str(row["module"])), room)
    why = printable(str(row["why"]))
    if most is None:
        yield from (indent + line for line in wrapped(why, room))
        return
    if len([*wrapped(why, room)]) > most:
        why = why.removesuffix(_OTHERS)
    yield from (indent + line for line in outer_lines(why, room, most))


# --- JSON and Markdown ----------------------------------------------------------------------------------------------


_LONGEST = 100
"""Characters of a name."""
_HEADINGS = {
    "change_ms": "change ms", "low_ms": "change, low", "high_ms": "change, high", "a_ms": "A ms", "b_ms": "B ms",
    "change_percent": "%", "meaning": "time",
}  # fmt: skip


def diff_json(difference: Diff, tables: Mapping[str, Table], notes: Sequence[str]) -> str:
    """The comparison as one JSON object: the headline, notes, both traces, and the tables."""
    about: dict[str, Any] = {
        "headline": headline(tables["diff_totals"], changed_places(tables["diff_places"])), "notes": list(notes),
    }  # fmt: skip
    for letter, name, window in zip("ab", difference.names, (difference.a, difference.b), strict=True):
        about[letter] = {"name": name, **asdict(facts(window))}
        del about[letter]["options"]
    return document_json(about, tables)


def diff_markdown(difference: Diff, tables: Mapping[str, Table], notes: Sequence[str], rows: int = 10) -> str:
    """The comparison as a page: the headline, the times, the places with the largest changes, idle time by cause.

    Args:
        rows: how many places; 0 for all.
    """
    changed = changed_places(tables["diff_places"])
    blocks = [f"## GPU work: {escape(difference.names[1])} against {escape(difference.names[0])}"]
    blocks.append(f"**{escape(headline(tables['diff_totals'], changed))}**")
    blocks.append("\n".join(f"* {escape(line)}" for line in side_lines(difference)))
    blocks += [escape(note) for note in notes]
    if "diff_phases" in tables:
        blocks.append("\n".join(f"* {escape(text)}" for text in phase_texts(tables["diff_phases"])))
    totals = tables["diff_totals"].records()
    times = [{**row, "change_percent": percent_of(row)} for row in totals if row["a_ms"] or row["b_ms"]]
    blocks.append(_table(times, ("meaning", "a_ms", "b_ms", "change_ms", "change_percent")))
    shown = changed[:rows] if rows else changed
    if shown:
        columns = ("change_ms", "low_ms", "high_ms", "a_ms", "b_ms", "times", "op", "module", "why")
        blocks += ["### Where", _table(shown, columns)]
    if rest := len(changed) - len(shown):
        blocks.append(f"{rest:,} more places.")
    if noise := noise_note(tables["diff_places"]):
        blocks.append(escape(noise))
    if causes := [row for row in tables["diff_times"].records() if row["cause"]]:
        blocks += ["### Time without GPU work", _table(causes, ("part", "cause", "a_ms", "b_ms", "change_ms", "why"))]
    return page(blocks)


def _table(rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> str:
    """Rows as Markdown; names are cut, sentences are not."""
    cells: dict[str, list[Any]] = {}
    for name in columns:
        values = [row[name] for row in rows]
        cells[_HEADINGS.get(name, name)] = (
            [cut_middle(value, _LONGEST) for value in values] if name in ("op", "module") else values
        )
    return table_markdown(Table("", cells), signed=("change ms", "change, low", "change, high", "%"))
