"""More than two: runs against the first of them, and which of equal layers, steps or ranks is not like the others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tracelens_graph.analyses.alignment.compared_steps import choice_note, median_steps, steps_with_work
from tracelens_graph.analyses.alignment.difference import Diff, diff
from tracelens_graph.analyses.alignment.forest import Forest, Vocabulary, forest
from tracelens_graph.analyses.alignment.host_work import HOST_TIMES, comparable, is_of_host
from tracelens_graph.analyses.alignment.noise import Proof
from tracelens_graph.analyses.alignment.rules import Reasons
from tracelens_graph.analyses.alignment.tables import module_of, noise_of, op_of, percent
from tracelens_graph.analyses.structure.layers import side_by_side
from tracelens_graph.analyses.timeline.timeline import times_of
from tracelens_graph.graph.arrays import distinct
from tracelens_graph.graph.classes import normal_name
from tracelens_graph.graph.window import Window, narrow
from tracelens_graph.schema import Kind
from tracelens_graph.tables.column import Column
from tracelens_graph.tables.schema import TableSchema
from tracelens_graph.tables.table import Table

DIFF_RUNS = TableSchema(
    "diff_runs",
    "Several traces against the first by structure.",
    {
        "run": Column.key("the trace", "run"),
        "structure": Column(
            "number of the structure: runs of one number make the same calls with the same shapes and kinds of kernels",
            heading="structure",
        ),
        "gpu_ms": Column("sum of the durations of its GPU events", "ms", heading="GPU ms"),
        "change_ms": Column("that less that of the first run", "ms", heading="change ms"),
        "change_percent": Column("that as share of the first run", "%", heading="%"),
        "total_ms": Column("time from its first to its last GPU event", "ms", heading="total ms"),
        "shared_percent": Column("share of its GPU time in work that the first run has, too", "%", heading="shared %"),
        "most": Column.text("the place with the most of the change", "most of the change"),
        "why": Column.text("why that place differs", drop_priority=2),
    },
    ordered=True,
)

DIFF_WITHIN = TableSchema(
    "diff_within",
    "Which of equal layers, steps or ranks is not like the others.",
    {
        "part": Column.key("layer, step or rank", "part"),
        "name": Column.key("which of them", "name"),
        "times": Column.count("how many are odd in this way; the row shows the one farthest off", heading="times"),
        "parts": Column("how many there are side by side", heading="of"),
        "alike": Column("how many of them have the usual structure", heading="alike"),
        "differs": Column.text(
            "structure: other calls, shapes, types or kinds of kernels; time: the same in another "
            "time; spread: most share no structure, none is odd by its time, and the row compares "
            "the slowest with the fastest",
            "differs in",
        ),
        "gpu_ms": Column("sum of the durations of its GPU events", "ms", heading="GPU ms"),
        "usual_ms": Column(
            "the same of the usual one that it is compared with, the one of median time; for a spread the fastest",
            "ms",
            heading="usual ms",
        ),
        "change_ms": Column("the difference", "ms", heading="change ms"),
        "usual": Column.text("that usual one"),
        "where": Column.text("the place with the most of the change", "where"),
        "why": Column.text("why that place differs", "why", drop_priority=0),
        "uid": Column.uid("the layer; absent for steps and ranks"),
        "usual_uid": Column.uid("the usual layer; absent for steps and ranks"),
    },
    counts="part",
)


WITHIN_NOISE = "no place changed by more than its noise"
OWN_NOISE = "; within its own noise"
SPREAD = "spread"
"""In place of what differs: no structure is that of most, and the row compares the slowest with the fastest."""
_LEAST = 3
"""How many there must be for one of them to be odd."""
_OTHER_TIME = 0.1
"""Share of the median by which the time of one must differ from it, and ..."""
_SPREADS = 5
"""... by how many median absolute deviations."""


class Structures:
    """Numbers of structures of windows: one number, one structure, from 1 in the order of their appearance."""

    def __init__(self) -> None:
        self._names, self._shapes = Vocabulary(), Vocabulary()
        self._numbers: dict[object, int] = {}

    def of(self, w: Window) -> int:
        """The number of a window's structure: its calls, their shapes, and kinds of kernels, thread by thread."""
        side = _by_shapes(w, self._names, self._shapes)
        roots = np.concatenate((side.linked_roots, side.lone_roots))
        key = tuple(sorted(side.identity[roots].tolist()))
        return self._numbers.setdefault(key, len(self._numbers) + 1)


def _by_shapes(w: Window, names: Vocabulary, shapes: Vocabulary) -> Forest:
    """The forest of a window in which dims and types alone are arguments: ranks, seeds and scalars differ anyhow."""
    side = forest(w, names, Vocabulary())
    core = w.core
    codes, back = distinct(np.where(side.row >= 0, core.columns.argset[side.row], -1))
    numbers = [0 if code < 0 else shapes[core.argsets[code][:2]] for code in codes.tolist()]
    return replace(side, args=np.array(numbers, np.int64)[back])


def runs_table(runs: Iterable[tuple[str, Window]], chosen: bool = False) -> Table:
    """Runs against the first of them, in their order; one run beside the first is held at a time.

    Args:
        chosen: whether windows were chosen; else steps of median GPU time are compared where both have steps.
    """
    structures = Structures()
    records: list[dict[str, Any]] = []
    first: tuple[str, Window] | None = None
    compared: dict[str, list[str]] = {}
    note = ""
    for name, window in runs:
        one, window = comparable(first[1] if first else window, window)
        first = (first or (name, one))[0], one
        sides = (one, window) if chosen else median_steps(one, window)
        if sides[1] is not window:
            compared.setdefault(sides[1].title, []).append(name)
            note = choice_note(sides[1])
        records.append(_run(diff(*sides, (first[0], name)), structures))
    notes = [HOST_TIMES] if first and is_of_host(first[1]) else []
    if compared:
        steps = "; ".join(f"{', '.join(names)}: {title}" for title, names in compared.items())
        notes.append(f"{note} {steps}")
    return DIFF_RUNS.of_records(records, f"Runs against {first[0] if first else 'none'}", notes)


def _run(difference: Diff, structures: Structures) -> dict[str, Any]:
    w = difference.b
    before, now = difference.ns
    side, partner = difference.alignment.sides[1], difference.alignment.leaves[1]
    where, why = most(difference)
    return {
        "run": difference.names[1],
        "structure": structures.of(w),
        "gpu_ms": now / 1e6,
        "change_ms": (now - before) / 1e6,
        "change_percent": percent(now - before, before),
        "total_ms": times_of(w.core, w.gpu_rows)["total_time"] / 1e6,
        "shared_percent": percent(int(side.ns[partner >= 0].sum()), now),
        "most": where,
        "why": why,
    }


def most(difference: Diff, is_layer: bool = False, is_odd: bool = False) -> tuple[str, str]:
    """The place with the most of the change, and why it differs; no place where nothing changed by more than noise.

    Args:
        difference: two runs, or two parts of one.
        is_layer: whether these are layers of one program; noise is not known of them.
        is_odd: whether their time as a whole is known to be no noise: then no place is passed over as noise.
    """
    if not difference.places or not difference.places[0].change_ns:
        return "", ""
    reasons = Reasons(difference, is_layer)
    if (of_all := reasons.of_all) is not None:
        return f"{difference.change_ns / 1e6:+,.3f} ms in all", of_all
    found = 0
    proofs = [] if is_layer else noise_of(difference, list(map(reasons.of, difference.places))).proofs
    if proofs and not is_odd:
        shown = (at for at, proof in enumerate(proofs) if proof is not Proof.noise and difference.places[at].change_ns)
        if (found := next(shown, -1)) < 0:
            return "", WITHIN_NOISE
    place = difference.places[found]
    module = module_of(place)
    where = f"{place.change_ns / 1e6:+,.3f} ms {op_of(place)}" + (f" in {module}" if module else "")
    remark = OWN_NOISE if proofs and proofs[found] is Proof.noise else ""
    return where, reasons.of(place).text + remark


@dataclass(frozen=True)
class _Part:
    """A layer, step or rank: its name, structure, GPU time and window; a layer has the window around it, and a uid."""

    name: str
    structure: int
    ns: int
    around: Window
    uid: int | None = None

    @property
    def window(self) -> Window:
        """The window of the part alone."""
        return self.around if self.uid is None else narrow(self.around, under=self.uid)


def odd_parts(w: Window) -> Table:
    """Which of the steps of a window, and of the equal layers of a step, are not like the others.

    A part is held against those beside it: most of them must have one structure. It is odd if its structure is
    another, or if its GPU time is more than 10 % and five median absolute deviations off their median. The layers are
    those of the step of median GPU time, or of the window where it has no steps.

    Raises:
        AnalysisError: the window holds neither GPU work nor ops.
    """
    (w,) = comparable(w)
    records: list[dict[str, Any]] = []
    notes: list[str] = [HOST_TIMES] if is_of_host(w) else []
    steps = steps_with_work(w)
    if len(steps) >= _LEAST:
        structures = Structures()
        parts = []
        for number, ns in steps.items():
            window = narrow(w, step=number)
            parts.append(_Part(f"ProfilerStep#{number}", structures.of(window), ns, window))
        records += _odd("step", f"{len(parts):,} steps", parts, notes)
    layers, _ = median_steps(w, w)
    for called, parts in _layers(layers):
        records += _odd("layer", f"{len(parts):,} x {called}", parts, notes)
    return _within(records, w.titled("Parts that may differ from the others"), notes)


def odd_ranks(ranks: Mapping[str, Window]) -> Table:
    """Which of several ranks, or other runs of one program, is not like the others."""
    structures = Structures()
    parts = []
    for name, window in zip(ranks, comparable(*ranks.values()), strict=True):
        one, _ = median_steps(window, window)
        ns = int(one.core.columns.dur_ns[one.gpu_rows].sum())
        parts.append(_Part(name, structures.of(one), ns, one))
    notes: list[str] = [HOST_TIMES] if any(is_of_host(part.window) for part in parts) else []
    if len(parts) < _LEAST:
        notes.append(
            f"{len(parts)} of the files are traces, and the odd one of so few is not known: compare two by `diff A B`"
        )
    return _within(_odd("rank", f"{len(parts):,} ranks", parts, notes), "Ranks that may differ from the others", notes)


def _within(records: list[dict[str, Any]], title: str, notes: list[str]) -> Table:
    records.sort(key=lambda row: -abs(row["change_ms"]))
    notes = list(dict.fromkeys(notes)) or ["There are no three parts side by side: steps, or modules of one class."]
    return DIFF_WITHIN.of_records(records, title, notes)


def _layers(w: Window) -> list[tuple[str, list[_Part]]]:
    """Modules of one class that stand in one call of a module, with what they are called.

    Modules inside such layers are none of their own: where they differ, their layer does.
    """
    core, c = w.core, w.core.columns
    side = _by_shapes(w, Vocabulary(), Vocabulary())
    nodes = np.flatnonzero(side.row >= 0)
    nodes = nodes[c.kind[side.row[nodes]] == Kind.Module]
    if len(nodes) < _LEAST:
        return []
    rows = side.row[nodes]
    group, _ = side_by_side(core, rows)
    running = np.concatenate(([0], np.cumsum(side.ns)))
    time = running[side.high[nodes]] - running[side.low[nodes]]
    _, structure = np.unique(side.identity[nodes], return_inverse=True)
    found = []
    order = np.argsort(group, kind="stable")
    groups = np.split(order, np.flatnonzero(np.diff(group[order])) + 1)
    inside_until = -1
    # The outer before the inner: rows are in pre-order, and so are the first members.
    for members in sorted((one for one in groups if len(one) >= _LEAST), key=lambda one: int(rows[one[0]])):
        if rows[members[0]] <= inside_until:
            continue
        inside_until = int(c.last[rows[members[-1]]])
        called = normal_name(Kind.Module, core.names[c.name[rows[members[0]]]]).removeprefix("nn.Module: ")
        parts = [
            _Part(core.names[c.name[rows[at]]].removeprefix("nn.Module: "), int(structure[at]), int(time[at]),
                  w, int(c.uid[rows[at]]))
            for at in members.tolist()
        ]  # fmt: skip
        found.append((called, parts))
    return found


def _odd(part: str, called: str, parts: Sequence[_Part], notes: list[str]) -> list[dict[str, Any]]:
    """What to say of the odd ones of some parts, one row for those that are odd in one way.

    Args:
        part: what a part is.
        called: how many there are of what.
        notes: takes what there is to say of all of them.
    """
    structure, alike = Counter(one.structure for one in parts).most_common(1)[0]
    is_shared = alike >= _LEAST and 2 * alike > len(parts)
    if not is_shared and (part == "layer" or len(parts) < _LEAST):
        return []
    usual = sorted((one for one in parts if not is_shared or one.structure == structure), key=lambda one: one.ns)
    typical = usual[(len(usual) - 1) // 2]
    spread = float(np.median([abs(one.ns - typical.ns) for one in usual]))
    ways: dict[tuple[int, bool], list[_Part]] = {}
    for one in parts:
        is_usual = not is_shared or one.structure == structure
        off = abs(one.ns - typical.ns)
        if not is_usual:
            ways.setdefault((one.structure, False), []).append(one)
        elif off > _OTHER_TIME * typical.ns and off > _SPREADS * spread:
            ways.setdefault((-1, one.ns > typical.ns), []).append(one)
    number = sum(map(len, ways.values()))
    about = {"parts": len(parts), "alike": alike}
    if is_shared:
        notes.append(f"{called}: {f'{number:,} odd' if number else 'all alike'}, usually {typical.ns / 1e6:,.3f} ms")
    else:
        structures = len({one.structure for one in parts})
        times = f"{number:,} with an odd time" if number else "none odd"
        notes.append(
            f"{called}: {structures:,} structures, none of them in most {part}s, so only times are compared: {times}, "
            f"from {usual[0].ns / 1e6:,.3f} ms ({usual[0].name}) to {usual[-1].ns / 1e6:,.3f} ms ({usual[-1].name})"
        )
        if not number:
            return [_within_row(part, usual[-1], usual[0], differs=SPREAD, times=1, **about)]
    found = []
    for (way, _), odd in ways.items():
        one = max(odd, key=lambda of: abs(of.ns - typical.ns))
        differs = "time" if way < 0 else "structure"
        found.append(_within_row(part, one, typical, differs=differs, times=len(odd), **about))
    return found


def _within_row(part: str, one: _Part, usual: _Part, **about: Any) -> dict[str, Any]:
    """A row about a part that is compared with a usual one."""
    difference = diff(usual.window, one.window, (usual.name, one.name))
    where, why = most(difference, part == "layer", about["differs"] == "time")
    return {
        "part": part, "name": one.name, **about,
        "gpu_ms": one.ns / 1e6, "usual_ms": usual.ns / 1e6, "change_ms": (one.ns - usual.ns) / 1e6,
        "usual": usual.name, "where": where, "why": why, "uid": one.uid, "usual_uid": usual.uid,
    }  # fmt: skip
