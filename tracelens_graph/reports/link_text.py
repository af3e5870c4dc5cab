"""A linked pair of traces for people: what links, what single operators did, and how many lead back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

from tracelens_graph.execution.link import Link
from tracelens_graph.graph.core import Core
from tracelens_graph.reports import tree_text
from tracelens_graph.reports.document import document_json
from tracelens_graph.reports.markdown import code, escape, page, table_markdown
from tracelens_graph.reports.views import top
from tracelens_graph.schema import Kind
from tracelens_graph.tables.names import fitted
from tracelens_graph.tables.table import Table
from tracelens_graph.tables.terminal import bold
from tracelens_graph.utils.texts import file_name, paragraphs, printable, wrapped

Report = Mapping[str, Any]
"""What is known about an operator: `metadata`, `tracing`, `kernels` and more, as `linkage.validation` gives it."""

_TENSORS = 4
_CHAIN = 12
"""Tensors on a side, and lines of the drawn chain, that are shown."""
_LABEL = 10
_NAME = 72
_SHAPE = (
    ("grid", "grid {}"), ("block", "block {}"), ("blocks", "blocks {:,}"), ("threads", "threads {:,}"),
    ("shared_memory_bytes", "shared memory {:,} B"), ("registers_per_thread", "registers {}"),
    ("blocks_per_sm", "blocks per SM {:.4g}"), ("warps_per_sm", "warps per SM {:.4g}"),
)  # fmt: skip
_WORDS = {"cpu_op": "op", "runtime": "runtime call", "kernel": "kernel", "gpu_memcpy": "copy", "gpu_memset": "fill"}
"""Categories of events -> what people call one."""
_SPLITS = {"every_event_added": "op + runtime + GPU", "launches_counted_once": "op + GPU"}


def screen(
    core: Core,
    link: Link,
    tables: Mapping[str, Table],
    reports: Sequence[Report],
    width: int,
    color: bool,
    rows: int = 10,
) -> Iterator[str]:
    """The answer in the first lines, then what each trace holds, the operators, and all ops.

    Args:
        link: what links it with the execution trace.
        tables: `link_counts`, `link_ways` and `link_ops`.
        reports: what is known about single operators.
        rows: rows of a table; 0 for all.
    """
    first, *rest = headlines(core, link, tables)
    yield from (bold(line, color) for line in wrapped(printable(first), width, "  "))
    yield from paragraphs(rest, width, "  ")
    yield from _table_lines(tables["link_ways"], width, color, rows)
    for report in reports:
        yield ""
        yield from op_lines(core, report, width, color)
    yield from _table_lines(tables["link_ops"], width, color, rows)


def _table_lines(table: Table, width: int, color: bool, rows: int) -> Iterator[str]:
    if len(table):
        yield ""
        yield from top(table, rows).text(width, color).splitlines()


def headlines(core: Core, link: Link, tables: Mapping[str, Table]) -> list[str]:
    """What links and round-trips, in three lines."""
    counts = {row["what"]: row for row in tables["link_counts"].records()}
    linked, trip, traced = counts["linked"], counts["round_trip"], counts["traced_gpu_events"]
    returns = (
        f"{trip['count']:,} of {trip['of']:,} ops with GPU work round-trip ({_percent(trip['percent'])})"
        if trip["of"]
        else "the trace has no GPU work"
    )
    return [
        f"{linked['count']:,} of {linked['of']:,} nodes link; {returns}",
        f"{file_name(link.execution.info.source)} (execution trace): {counts['nodes']['count']:,} ops and ranges; "
        f"{file_name(core.info.source)}: {counts['events']['count']:,} ops and ranges, "
        f"{_counted(traced['of'], 'GPU event')}; {traced['count']:,} of them "
        f"{'leads' if traced['count'] == 1 else 'lead'} to an op",
        f"joined by: {link.method}; {_percent(link.equal_names_percent)} of the names are equal",
    ]


def op_lines(core: Core, report: Report, width: int, color: bool = False) -> Iterator[str]:
    """What is known about an operator."""
    title = f"{_heading(report)}{report['metadata']['name']}, node {report['cpu_op_id']}, event {report['uid']}"
    yield from (bold(line, color) for line in wrapped(printable(title), width, "  "))
    for label, text in _facts(report):
        lines = list(wrapped(printable(text), max(width - _LABEL - 2, 20)))
        yield f"  {label:<{_LABEL}}{lines[0] if lines else ''}"
        yield from (f"  {'':<{_LABEL}}{line}" for line in lines[1:])
    yield from (f"  {line}" for line in chain(core, report, width - 2))


def _heading(report: Report) -> str:
    """What an operator stands for; empty where it was asked for itself."""
    is_itself = report["why"] in (report["metadata"]["name"], str(report["cpu_op_id"]))
    return "" if is_itself else f"{report['why']}: "


def _facts(report: Report) -> Iterator[tuple[str, str]]:
    """Label and text of each line."""
    about, events = report["metadata"], report["tracing"]["events"]
    if about["schema"]:
        yield "schema", about["schema"]
    ids = [f"rf_id {about['rf_id']}", f"inside node {about['ctrl_deps']} ({about['ctrl_deps_name']})"]
    yield "ids", ", ".join(one for one in ids if "None" not in one)
    for side in ("inputs", "outputs"):
        tensors = about[side]
        for place, tensor in enumerate(tensors[:_TENSORS]):
            yield "" if place else side, tensor_text(tensor)
        if len(tensors) > _TENSORS:
            yield "", f"and {len(tensors) - _TENSORS:,} more; {about[side[:-1] + '_bytes']:,} B in all"
    yield "events", ", ".join(_counted(len(events[one]), word) for one, word in _WORDS.items() if events[one])
    times = report["tracing"]["timing"]
    yield (
        "time",
        (
            f"op {times['cpu_op_us']:,.2f} us, runtime {times['runtime_us']:,.2f} us, GPU {times['gpu_us']:,.2f} us; "
            f"{times['elapsed_us']:,.2f} us from its start to the end of its work"
        ),
    )
    for place, (name, sum_of) in enumerate(_SPLITS.items()):
        split = times[name]
        if split["gpu_percent"] is not None:
            yield (
                "" if place else "split",
                f"{sum_of} = {split['total_us']:,.2f} us: GPU {_percent(split['gpu_percent'])}, "
                f"overhead {_percent(split['overhead_percent'])}"
                + ("" if place else " (counts launches twice: they lie in the op)"),
            )
    for kernel in report["kernels"]:
        yield from kernel_facts(kernel)
    if (rest := report["gpu_events"] - len(report["kernels"])) > 0:
        yield "", f"and {rest:,} more"
    yield "back", verdict(report)


def verdict(report: Report) -> str:
    """Whether the GPU work leads back to the operator."""
    events, returning = report["gpu_events"], report["returning"]
    if not events:
        return "no GPU work, so nothing to lead back"
    if returning == events:
        return f"yes: {'its GPU event leads' if events == 1 else f'all {events:,} GPU events lead'} back to it"
    return f"no: {events - returning:,} of {events:,} GPU events lead elsewhere, or nowhere"


def kernel_facts(kernel: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Name, place and configuration of a kernel, copy or fill."""
    yield (
        _WORDS[kernel["category"]],
        f"{fitted(printable(kernel['name']), _NAME)}, {kernel['dur_us']:,.2f} us, stream {kernel['stream']}",
    )
    yield "", f"identifier ({', '.join(map(repr, kernel['identifier']))})"
    if kernel["category"] != "kernel":
        if kernel["bytes"] is not None:
            yield "", f"{kernel['bytes']:,} B"
        return
    if shape := ", ".join(form.format(kernel[key]) for key, form in _SHAPE if kernel[key] is not None):
        yield "", shape
    yield "", occupancy_text(kernel)
    if kernel["name_tells"]:
        yield "", "its name says: " + ", ".join(f"{key} {value}" for key, value in kernel["name_tells"].items())


def occupancy_text(kernel: Mapping[str, Any]) -> str:
    """Occupancy, where it comes from, and what limits it."""
    percent, theory = kernel["occupancy_percent"], kernel["theoretical_occupancy"]
    if percent is None:
        return f"occupancy is not known: {kernel['occupancy_unknown']}"
    if kernel["occupancy_source"] != "theoretical":
        limited = f"; at most {theory['percent']:.4g} % by {' and '.join(theory['limited_by'])}" if theory else ""
        source = "as reported" if kernel["occupancy_source"] == "reported" else "estimated from its grid"
        return f"occupancy {percent:.4g} %, {source}{limited}"
    resident = f"{_counted(theory['blocks_per_sm'], 'block')} and {_counted(theory['warps_per_sm'], 'warp')}"
    limited = " and ".join(theory["limited_by"])
    return f"theoretical occupancy {percent:.4g} %: {resident} on a multiprocessor, limited by {limited}"


def tensor_text(tensor: Mapping[str, Any]) -> str:
    """A tensor in a line, named as `tracelens-graph tensor` names it."""
    place = f"at element {tensor['offset']:,} of " if tensor["offset"] else ""
    storage = f", {place}storage {tensor['storage']}" if tensor["storage"] else ""
    return f"{tensor['name']}: {tensor['form']}, {tensor['bytes']:,} bytes on {tensor['device']}{storage}"


def chain(core: Core, report: Report, width: int) -> Iterator[str]:
    """The operator's calls and what they launched, drawn as a tree."""
    row = core.row(report["uid"])
    nodes = {event["uid"]: event["cpu_op_id"] for event in report["tracing"]["events"]["cpu_op"]}
    drawn = core.columns.kind != Kind.PythonFunction
    drawn &= core.columns.kind != Kind.Module
    places = tree_text.subtree(core, row, tree_text.Choice(only=drawn))
    name = tree_text.short_category(core)
    for at, branches in islice(places, _CHAIN):
        text = branches
        if at != tree_text.HEADING:
            uid, node = int(core.columns.uid[at]), None
            node = nodes.get(uid)
            text += f"({name(at)}) {tree_text.name_of(core, at)}, {int(core.columns.dur_ns[at]) / 1000:,.2f} us"
            text += f", node {node}" if node is not None else ""
        yield tree_text.fitted_line(text, width)
    if len(places) > _CHAIN:
        yield f"    ... {_counted(len(places) - _CHAIN, 'more line')} (tree --uid {report['uid']} shows all)"


def link_markdown(
    core: Core, link: Link, tables: Mapping[str, Table], reports: Sequence[Report], rows: int = 40
) -> str:
    """The same as a page: the answer, the operators with their chains, and all tables."""
    first, *rest = headlines(core, link, tables)
    blocks = [
        f"# {escape(file_name(core.info.source))}, linked with its execution trace",
        f"**{escape(first)}**",
        "\n".join(f"* {escape(line)}" for line in rest),
    ]
    for report in reports:
        heading = f"{escape(_heading(report))}{code(report['metadata']['name'])}, node {report['cpu_op_id']}"
        blocks.append(f"## {heading}")
        lines = [f"| {label} | {escape(text)} |" for label, text in _facts(report)]
        blocks.append("\n".join(["| | |", "|---|---|", *lines]))
        drawing = "\n".join(printable(line) for line in chain(core, report, 120))
        blocks.append(f"````text\n{drawing.replace('````', '')}\n````")
    for table in tables.values():
        if len(table):
            shown = replace(top(table, rows), title="")
            blocks += [f"## {escape(table.title)}", table_markdown(shown, _NAME).rstrip()]
    return page(blocks)


def link_json(core: Core, link: Link, tables: Mapping[str, Table], reports: Sequence[Report]) -> str:
    """Both traces, how they join, the operators and all tables as one JSON object."""
    about = {
        "execution_trace": file_name(link.execution.info.source),
        "trace": file_name(core.info.source),
        "method": link.method,
        "equal_names_percent": link.equal_names_percent,
        "ops": list(reports),
    }
    return document_json(about, tables)


def _percent(share: float) -> str:
    """A share that never looks whole if it is not."""
    shown = f"{share:.1f}"
    return f"{share:.4g} %" if shown in ("100.0", "0.0") and share not in (0, 100) else f"{float(shown):g} %"


def _counted(number: int, word: str) -> str:
    plural = f"{word[:-1]}ies" if word.endswith("y") else f"{word}s"
    return f"{number:,} {word if number == 1 else plural}"
