"""What instructions of XLA cost, by our rules and by those of XLA's own analysis."""

from __future__ import annotations

import numpy as np

from tracelens_graph.analyses.shared.gpu_work import names_of
from tracelens_graph.analyses.shared.grouping import Cells, group_by, picked
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.programs import CompiledProgram
from tracelens_graph.graph.traversals import rows_of_kind
from tracelens_graph.graph.window import Window, window_of
from tracelens_graph.hlo.shapes import LARGEST
from tracelens_graph.hlo.told import PREFIX, told_in
from tracelens_graph.schema import Kind
from tracelens_graph.tables.column import Column
from tracelens_graph.tables.schema import TableSchema
from tracelens_graph.tables.table import Table

INSTRUCTION_COSTS = TableSchema(
    "instruction_costs",
    "What instructions of XLA should cost, by our rules and by those of XLA's own analysis.",
    {
        "instruction": Column.key("name of the instruction", "instruction"),
        "program": Column.key("name of its compiled program", "program", drop_priority=2),
        "kind": Column.key(
            "what it is called for: its opcode, of a fusion and a custom call also what it does",
            "kind",
            drop_priority=2,
        ),
        "calls": Column.count("how often it ran", "calls", drop_priority=2),
        "flops": Column("operations of a run but for transcendental ones", heading="FLOPs", drop_priority=-1),
        "transcendentals": Column("transcendental operations of a run", heading="transc.", drop_priority=3),
        "bytes": Column("least traffic of a run to and from memory", "B", heading="bytes", drop_priority=-1),
        "xla_flops": Column(
            "the operations by XLA's rules; -1 for what it does not know", heading="XLA FLOPs", drop_priority=0
        ),
        "xla_transcendentals": Column(
            "the transcendental operations by XLA's rules", heading="XLA transc.", drop_priority=3
        ),
        "xla_bytes": Column(
            "the traffic by XLA's rules; -1 for what it does not know", "B", heading="XLA bytes", drop_priority=-1
        ),
        "departs": Column.text(
            "what our rules depart in, where that makes a difference", "departs in", drop_priority=-1
        ),
        "uid": Column.uid("the first run"),
    },
)


_FIGURES = ("flops", "transcendentals", "bytes")
_LONGEST = 20
"""Characters of a figure of 64 bits."""


def instruction_costs(g: Core | Window) -> Table:
    """What instructions that ran cost for each run, by our rules and by XLA's, those with the most FLOPs first.

    What a loop or a call costs is the work of instructions that ran as ops of their own, too: rows are not to be
    added up. For each program a note says what it costs as a whole by XLA's rules.

    Args:
        g: the graph, or a window of it.
    """
    w = window_of(g)
    core, c = w.core, w.core.columns
    told = {code: found for code, argset in enumerate(core.argsets) if (found := told_in(argset[3]))}
    every = rows_of_kind(c, (Kind.Op,))
    inside = w.holds(every) & np.isin(c.argset[every], list(told))
    rows = every[inside]
    listed = core.programs.listed if core.programs else ()
    place = core.programs.place[inside] if core.programs else np.full(len(rows), -1)
    group, first = group_by(place, c.name[rows], c.argset[rows])
    uid = np.full(len(first), np.iinfo(np.int64).max)
    np.minimum.at(uid, group, c.uid[rows])
    texts = [told[code] for code in c.argset[rows[first]].tolist()]
    ours = {name: [_figure(one, name) or 0 for one in texts] for name in _FIGURES}
    theirs = {name: [_figure(one, f"xla_{name}") for one in texts] for name in _FIGURES}
    size = {name: np.array(ours[name], np.int64) for name in _FIGURES}
    columns: dict[str, Cells] = {
        "instruction": names_of(core, rows[first]),
        "program": [listed[at].name if at >= 0 else None for at in place[first].tolist()],
        "kind": [one[0].removeprefix(PREFIX) for one in texts],
        "calls": np.bincount(group, minlength=len(first)),
        **size,
        **{
            f"xla_{name}": np.array(
                [one if other is None else other for one, other in zip(ours[name], theirs[name], strict=True)], np.int64
            )
            for name in _FIGURES
        },
        "departs": [_said(one, "departs=") for one in texts],
        "uid": uid,
    }
    order = np.lexsort((uid, -size["bytes"], -size["flops"]))
    columns = {name: picked(cells, order) for name, cells in columns.items()}
    notes = [_of_program(listed[at]) for at in np.unique(place[place >= 0]).tolist()]
    if not told:
        notes = ["no arguments of instructions of XLA are recorded"]
    return INSTRUCTION_COSTS.table(columns, w.titled("Costs of instructions"), notes)


def _said(texts: list[str], begin: str) -> str | None:
    """What stands behind the beginning of the first attribute that has it."""
    return next((text.removeprefix(begin) for text in texts if text.startswith(begin)), None)


def _figure(texts: list[str], name: str) -> int | None:
    said = _said(texts, f"{name}=") or ""
    value = int(said) if said.removeprefix("-").isdecimal() and len(said) <= _LONGEST else None
    return value if value is not None and abs(value) <= LARGEST else None


def _of_program(one: CompiledProgram) -> str:
    """What a program costs by XLA's rules, in words."""
    if one.xla_flops is None:
        return f"{one.name}: what it costs by XLA's rules is not known"
    return (
        f"{one.name} by XLA's rules, as Compiled.cost_analysis() says: {one.xla_flops:,} FLOPs, "
        f"{one.xla_transcendentals:,} transcendentals, {one.xla_bytes:,} bytes"
    )
