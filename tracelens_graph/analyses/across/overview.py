"""Several traces side by side: a line each, what kind of run each is, and which rank the others wait for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from tracelens_graph.analyses.diagnosis.finding import KINDS
from tracelens_graph.analyses.diagnosis.verdict import verdict
from tracelens_graph.analyses.ranks.job import Job
from tracelens_graph.analyses.ranks.rank_collectives import gathered, read_alone
from tracelens_graph.analyses.stragglers.lateness import Lateness
from tracelens_graph.analyses.timeline.timeline import gpu_timeline
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.iterations import is_of_server
from tracelens_graph.graph.trace_set import TraceSet
from tracelens_graph.graph.window import Window, window_of
from tracelens_graph.schema import Kind
from tracelens_graph.tables.column import Column
from tracelens_graph.tables.schema import TableSchema
from tracelens_graph.tables.table import Table
from tracelens_graph.utils.arrays import Ns

OVERVIEW = TableSchema(
    "overview",
    "Several traces side by side, one row each.",
    {
        "trace": Column.key("name of the file", "trace"),
        "rank": Column("rank in the job, from the metadata, else from the name of the file", heading="rank"),
        "file": Column.text("`cut short` if the end of the file is missing; the column is there only if one is"),
        "kind": Column.text("what kind of run it is, as its verdict says", heading="kind of run"),
        "steps": Column("steps; of a server its iterations", heading="steps"),
        "host_step_ms": Column(
            "mean duration of a step on the host, that of its `ProfilerStep` or iteration; on the device it may "
            "last longer or shorter, see `device_step_ms` of `rank_steps`",
            "ms",
            heading="host step ms",
        ),
        "total_ms": Column("from the first to the last GPU event", "ms", heading="total ms"),
        "busy_percent": Column("share of that time with a GPU event", "%", heading="busy % of total"),
        "computation_ms": Column("computation runs", "ms", heading="compute ms"),
        "communication_ms": Column("communication runs", "ms", heading="comm ms"),
        "exposed_communication_ms": Column("communication runs and no computation", "ms", heading="exposed comm ms"),
        "idle_ms": Column("nothing runs", "ms", heading="idle ms"),
    },
)


Line = Mapping[str, Any]

_WAITING = {"comm.exposed": "comm.waits_for_a_late_rank"}
"""What communication is where a rank is late: waiting for it."""


def overview_line(g: Core | Window, trace: str, linked_only: bool = False) -> Line:
    """What the overview says of one trace; see `overview`.

    Beside the columns of the table, `attendance` has the collectives that the trace took part in, on its own clock,
    `cut_short` says how far the GPU events of a file reach whose end is missing, and `has_ranks` whether it is a
    profile of JAX, where each device is a rank.
    """
    w = window_of(g)
    findings = verdict(w)
    (member,) = TraceSet.of({trace: g})
    times = {row["type"]: row for row in gpu_timeline(w, linked_only).records()}
    steps = _steps_ns(w)

    def time(kind: str, column: str) -> float | None:
        return times[kind][column] if kind in times else None

    return {
        "trace": trace, "rank": member.rank, "file": "cut short" if w.core.info.ends_early else "",
        "cut_short": next((one.text for one in findings if one.topic == "cut_short"), ""),
        "kind": findings[0].evidence["kind"], "steps": len(steps),
        "host_step_ms": float(steps.mean() / 1e6) if len(steps) else None,
        "total_ms": time("total_time", "time ms"), "busy_percent": time("busy_time", "percent"),
        "computation_ms": time("computation_time", "time ms"),
        "communication_ms": time("total_comm_time", "time ms"),
        "exposed_communication_ms": time("exposed_comm_time", "time ms"), "idle_ms": time("idle_time", "time ms"),
        "attendance": read_alone(member), "has_ranks": w.framework.devices_are_ranks,
    }  # fmt: skip


def _steps_ns(w: Window) -> Ns:
    """Durations of the steps on the host, else of a server's iterations."""
    steps = w.core.columns.dur_ns[w.rows_of_kind(Kind.Step)]
    if len(steps) or not is_of_server(w.core):
        return steps
    from tracelens_graph.analyses.serving.iterations import served_in

    served = served_in(w)
    return served.found.dur_ns[served.numbers]


def lateness_of(lines: Sequence[Line], ranks: TraceSet | None = None) -> Lateness | None:
    """Which rank the others wait for, as `ranks` says it where it looks for no reasons.

    Args:
        lines: what `overview_line` says of each trace.
        ranks: the devices of profiles of JAX (`TraceSet.by_device`); without them nothing is said of these.
    """
    if all(line["has_ranks"] for line in lines):
        return Job(ranks).lateness if ranks is not None and len(ranks) > 1 else None
    return Job(gathered([line["attendance"] for line in lines if not line["has_ranks"]])).lateness


def overview(lines: Sequence[Line], late: Lateness | None = None) -> Table:
    """Traces side by side, by rank, with what kind of run each is.

    Notes say how many there are of each kind, which rank is late, and which files are cut short.

    Args:
        lines: what `overview_line` says of each trace.
        late: see `lateness_of`.
    """
    ordered = sorted(lines, key=lambda line: (line["rank"] is None, line["rank"] or 0, line["trace"]))
    if late and late.late:
        ordered = [{**line, "kind": _WAITING.get(line["kind"], line["kind"])} for line in ordered]
    about = {name: column for name, column in OVERVIEW.items() if name != "file" or any(one["file"] for one in ordered)}
    columns = {name: [line[name] for line in ordered] for name in about}
    columns["kind"] = [_word(line["kind"]) for line in ordered]
    cut = [f"{line['trace']}: {line['cut_short']}" for line in ordered if line["cut_short"]]
    notes = [*_kinds(ordered), *([late.text] if late else []), *cut]
    return Table("overview", columns, about, "1 trace" if len(ordered) == 1 else f"{len(ordered)} traces", notes)


def late_trace(lines: Sequence[Line], late: Lateness | None) -> int | None:
    """Position of the line of the rank that the others wait for, or of its host; None if none is proven late."""
    if late is None or late.late is None:
        return None
    name = late.late.rpartition("-device")[0] if all(line["has_ranks"] for line in lines) else late.late
    return next((place for place, line in enumerate(lines) if line["trace"] == name), None)


def _kinds(lines: Sequence[Line]) -> list[str]:
    """How many traces there are of each kind of run; nothing for a single trace."""
    count = Counter(line["kind"] for line in lines)
    if len(lines) < 2:
        return []
    if len(count) == 1:
        return [f"kind of run of all: {KINDS[lines[0]['kind']]}"]
    kinds = (f"{number} {_word(kind)} ({KINDS[kind]})" for kind, number in count.most_common())
    return [f"kinds of run: {', '.join(kinds)}"]


def _word(kind: str) -> str:
    """`waits for a late rank` of `comm.waits_for_a_late_rank`."""
    return kind.rpartition(".")[2].replace("_", " ")
