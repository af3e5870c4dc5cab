"""What instructions of XLA cost, by our rules and by those of XLA's own analysis."""

from __future__ import annotations

import numpy as np

from tracelens_graph.analyses.shared.gpu_work import names_of
from tracelens_graph.analyses.shared.grouping import Cells, group_by, smallest
from tracelens_graph.graph.arguments import instructions_of
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.programs import CompiledProgram
from tracelens_graph.graph.traversals import rows_of_kind
from tracelens_graph.graph.window import Window, window_of
from tracelens_graph.hlo.facts import Facts
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
        "kind": Column.key("its opcode; of a fusion or a custom call also what it does", "kind", drop_priority=2),
        "calls": Column.count("how often it ran", "calls", drop_priority=2),
        "flops": Column("operations of a run without transcendental ones", heading="FLOPs", drop_priority=-1),
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
            "where our rules depart from XLA's, if that makes a difference", "departs in", drop_priority=-1
        ),
        "uid": Column.uid("the first run"),
    },
)


_FIGURES = ("flops", "transcendentals", "bytes")


def instruction_costs(g: Core | Window) -> Table:
    """The cost of each executed instruction per run, by our rules and by XLA's; the most FLOPs first.

    What a loop or a call costs is the work of instructions that ran as ops of their own, too: rows are not to be
    added up. For each program a note says what it costs as a whole by XLA's rules.
    """
    w = window_of(g)
    core, c = w.core, w.core.columns
    known = instructions_of(core)
    every = rows_of_kind(c, (Kind.Op,))
    inside = w.holds(every) & np.isin(c.argset[every], list(known))
    rows = every[inside]
    listed = core.programs.listed if core.programs else ()
    place = core.programs.place[inside] if core.programs else np.full(len(rows), -1)
    group, first = group_by(place, c.name[rows], c.argset[rows])
    uid = smallest(group, c.uid[rows], len(first))
    facts = [known[code] for code in c.argset[rows[first]].tolist()]
    ours = {name: np.array([getattr(one, name) for one in facts], np.int64) for name in _FIGURES}
    columns: dict[str, Cells] = {
        "instruction": names_of(core, rows[first]),
        "program": [listed[at].name if at >= 0 else None for at in place[first].tolist()],
        "kind": [one.kind for one in facts],
        "calls": np.bincount(group, minlength=len(first)),
        **ours,
        **{f"xla_{name}": _by_xla(facts, name) for name in _FIGURES},
        "departs": [one.departs or None for one in facts],
        "uid": uid,
    }
    order = np.lexsort((uid, -ours["bytes"], -ours["flops"]))
    notes = [_of_program(listed[at]) for at in np.unique(place[place >= 0]).tolist()]
    if not known:
        notes = ["no arguments of instructions of XLA are recorded"]
    return INSTRUCTION_COSTS.table(columns, w.titled("Costs of instructions"), notes).take(order)


def _by_xla(facts: list[Facts], name: str) -> np.ndarray:
    """A figure by XLA's rules, which is ours where no other is noted."""
    both = [(getattr(one, name), getattr(one, f"xla_{name}")) for one in facts]
    return np.array([ours if theirs is None else theirs for ours, theirs in both], np.int64)


def _of_program(one: CompiledProgram) -> str:
    """What a program costs by XLA's rules, in words."""
    if one.xla_flops is None:
        return f"{one.name}: what it costs by XLA's rules is not known"
    return (
        f"{one.name} by XLA's rules, as Compiled.cost_analysis() says: {one.xla_flops:,} FLOPs, "
        f"{one.xla_transcendentals:,} transcendentals, {one.xla_bytes:,} bytes"
    )
