"""A finding of the report, or an opportunity, by its id: figures, place in the program, what to do next."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from tracelens_graph.analyses.diagnosis.finding import Finding
from tracelens_graph.analyses.diagnosis.outside_steps import whole_note
from tracelens_graph.analyses.diagnosis.verdict import verdict
from tracelens_graph.analyses.opportunities.opportunities import device_named, opportunities
from tracelens_graph.errors import AnalysisError
from tracelens_graph.frameworks import NAMESPACES
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.traversals import ancestors
from tracelens_graph.graph.user_code import shown_frames
from tracelens_graph.graph.window import Window, window_of
from tracelens_graph.schema import GPU_KINDS, Kind
from tracelens_graph.tables.column import Column
from tracelens_graph.tables.schema import TableSchema
from tracelens_graph.tables.table import Table
from tracelens_graph.utils.suggest import hint
from tracelens_graph.utils.texts import printable

if TYPE_CHECKING:
    from tracelens_graph.perf.devices import Architecture

EXPLAIN = TableSchema(
    "explain",
    "What is behind a finding or an opportunity: figures, the place in the program, what to try and to ask next.",
    {
        "part": Column.key("finding, evidence, place (from the outside inwards), try or next; id where all are listed"),
        "what": Column.key("the figure, the kind of a node, or the id"),
        "value": Column("the figure, the name of the node, or the text", wraps=True),
        "uid": Column.uid("the node"),
        "command": Column("the command to run next", heading=None),
    },
    ordered=True,
)

_Row = tuple[str, str, Any, int | None, str]
_NO_FIGURES = {"id", "what", "uid", "advice", "module", "line"}
"""Columns of `opportunities` that stand elsewhere."""


def explain(g: Core | Window, id: str | None = None, arch: Architecture | str | None = None) -> Table:
    """What is behind a finding of the verdict, or an opportunity.

    Args:
        id: its id, which is the same in every run of a program; None for a list of all.
        arch: the device, or its name; None for the one that the trace describes.

    Returns:
        Rows in the order in which to read them. TRACE stands for the trace in commands.

    Raises:
        AnalysisError: there is no such id in the trace.
    """
    w, device = window_of(g), device_named(arch)
    findings = {one.id: one for one in verdict(w, device)}
    chances = {row["id"]: row for row in opportunities(w, device).records()}
    id = next((one for one in (*findings, *chances) if printable(one) == id), id)
    if id is None:
        texts = {name: one.text for name, one in findings.items()} | {
            name: row["what"] for name, row in chances.items() if name not in findings
        }
        return _table(w, [("id", name, text, None, "") for name, text in texts.items()], "What can be explained")
    if id not in findings and id not in chances:
        if id.isdecimal():
            raise AnalysisError(f"{id} is no id of a finding; `tree TRACE --uid {id}` shows the event of this uid")
        raise AnalysisError(f"nothing in the trace has the id {id!r}; {hint(id, findings | chances)}")
    return _table(w, [*_rows(w, findings.get(id), chances.get(id, {}))], id)


def _table(w: Window, rows: list[_Row], title: str) -> Table:
    records = [dict(zip(EXPLAIN.columns, row, strict=True)) for row in rows]
    return EXPLAIN.of_records(records, w.titled(title), filter(None, [whole_note(w)]))


def _rows(w: Window, finding: Finding | None, chance: dict[str, Any]) -> Iterator[_Row]:
    evidence = {key: value for key, value in chance.items() if key not in _NO_FIGURES and value not in ("", None)}
    if finding is None:
        yield "finding", "opportunity", chance["what"], None, ""
    else:
        yield "finding", finding.severity, finding.text, None, ""
        evidence = {**finding.evidence, **evidence}
    uid = evidence.pop("uid", chance.get("uid"))
    for name, value in evidence.items():
        yield "evidence", name, value, None, ""
    if uid is not None:
        yield from _place(w, int(uid))
    for text in finding.suggestions if finding else filter(None, [chance["advice"]]):
        yield "try", "", text, None, ""
    for command in dict.fromkeys(_commands(w, finding, uid)):
        yield "next", "", "", None, command


def _place(w: Window, uid: int) -> Iterator[_Row]:
    """The node and what is around it: modules, ops, calls and the frames that screens show."""
    core, c = w.core, w.core.columns
    row = core.row(uid)
    above = np.array([*reversed(ancestors(c, row)), row], np.int64)
    is_shown = (c.kind[above] != Kind.PythonFunction) | shown_frames(w)[above]
    for place in above[is_shown].tolist():
        yield "place", Kind(c.kind[place]).name, core.names[c.name[place]], int(c.uid[place]), ""


def _commands(w: Window, finding: Finding | None, uid: Any) -> Iterator[str]:
    if finding and finding.ask_next:
        yield finding.ask_next
    if uid is None:
        return
    core, c = w.core, w.core.columns
    row = core.row(int(uid))
    yield f"tracelens-graph tree TRACE --uid {uid} --up"
    yield f"tracelens-graph cut TRACE --uid {uid} -o event-{uid}.json.gz"
    around = [row, *ancestors(c, row)]
    is_op = any(c.kind[one] == Kind.Op and core.names[c.name[one]].startswith(NAMESPACES) for one in around)
    if is_op and (c.kind[row] in (*GPU_KINDS, Kind.Op)):
        yield f"tracelens-graph replay TRACE --uid {uid} -o FOLDER"
