"""A report as a comment on GitHub: the headline, the most expensive operations, the change; the rest unfolds.

A comment holds 65,536 characters. What has no room is left out by whole tables, and the comment says which.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from tracelens_graph.analyses.diagnosis.finding import Finding
from tracelens_graph.graph.core import Core
from tracelens_graph.output.files import COMMENT
from tracelens_graph.reports.comparison import Change, brief, changes_by_op, changes_of_times, ops_of_one
from tracelens_graph.reports.document import Facts
from tracelens_graph.reports.markdown import code, code_cell, escape, folded, pipe_table, table_markdown
from tracelens_graph.reports.views import for_people, top, view
from tracelens_graph.tables.names import fitted
from tracelens_graph.tables.table import Table
from tracelens_graph.utils.texts import counted, shorten

ROOM = 60_000
"""Bytes of a comment. GitHub takes 65,536 characters; the rest is for what a job adds."""

_NAME = 60
_CELL = 80
_SENTENCE = 600
_COMMAND = 400
"""Characters of a command; a longer one is left out, as half of it is of no use."""
_DEVICES = 4
_ONE_TABLE = "tracelens-graph report TRACE --table NAME --top 0"


def report_comment(
    core: Core,
    findings: Sequence[Finding],
    largest: Table,
    advice: Sequence[str],
    tables: Mapping[str, Table],
    about: Facts,
    hint: Callable[[str], str],
    rows: int = 10,
    memory: Sequence[str] = (),
) -> str:
    """The report as a comment on a pull request.

    Args:
        core: the graph, for the places of instances.
        largest: the table `top_ops`.
        advice: for each of its rows what to try; empty for nothing.
        tables: all tables; those that are not shown are named.
        hint: completes a command with TRACE for the trace.
        rows: rows per table; 0 for all.
        memory: of each device the peak of its memory, in words.
    """
    blocks = [f"## GPU report: {_one_line(about.source)}", *_headline(findings), _facts_line(about, memory)]
    if len(largest):
        blocks.append(_largest(largest, advice))
    folds: list[tuple[str, str]] = []
    if len(findings) > 1:
        causes = "\n".join(f"* {_finding(finding, hint)}" for finding in findings[1:])
        folds.append(("verdict", folded("Verdict, with what to try and commands that show more", causes)))
    others = []
    for name, table in tables.items():
        if for_people(table) and len(table):
            shown = replace(view(top(table, rows), core), title="")
            folds.append((name, _fold(table.title or name, len(table), shown)))
        else:
            others.append(f"{code(name)} ({counted(len(table), 'row')})")
    command = hint(_ONE_TABLE) if len(hint(_ONE_TABLE)) <= _COMMAND else _ONE_TABLE
    left_out = f"Not shown: {', '.join(others)}. One table: {code(command)}" if others else ""
    return COMMENT + "\n\n".join(_with_room(blocks, folds, left_out, command, ROOM)) + "\n"


def change_comment(
    names: Sequence[str], tables: Mapping[str, Table], notes: Sequence[str], command: str, rows: int
) -> str:
    """How runs differ from the first of them, as a comment on a pull request, half as long as one may be.

    Args:
        names: of the runs.
        tables: theirs, compared, by name; the change is shown of the timeline and of `ops_summary`.
        notes: notes on the runs.
        command: what compares them on the terminal.
        rows: rows per table; 0 for all.
    """
    blocks = [f"## GPU time against {_one_line(names[0])}"]
    blocks += [block for now in names[1:] for block in _change(tables, names[0], now)]
    blocks += ["\n".join(f"* {_one_line(note)}" for note in notes)] if notes else []
    shown = {name: brief(table, names) for name, table in tables.items()}
    folds = [
        (f"change: {name}", _fold(f"Change: {table.title or name}", len(table), replace(top(table, rows), title="")))
        for name, table in shown.items() if len(table)
    ]  # fmt: skip
    command = command if len(command) <= _COMMAND else ""
    end = f"All that changed: {code(command)}" if command else ""
    return COMMENT + "\n\n".join(_with_room(blocks, folds, end, command, ROOM // 2)) + "\n"


def _with_room(blocks: list[str], folds: Sequence[tuple[str, str]], end: str, command: str, room: int) -> Iterator[str]:
    """All blocks, as many of those that unfold as there is room for, and which these are not."""
    names = [name for name, _ in folds]
    room -= _size(COMMENT) + sum(_size(one) + 4 for one in (*blocks, end, command, *names)) + 200
    yield from blocks
    cut = []
    for name, text in folds:
        if _size(text) + 2 > room:
            cut.append(name)
            continue
        room -= _size(text) + 2
        yield text
    if cut:
        yield f"Left out, as they do not fit into a comment: {', '.join(map(code, cut))}. One table: {code(command)}"
    if end:
        yield end


def _headline(findings: Sequence[Finding]) -> Iterator[str]:
    """What kind of run it is, and the most expensive cause that something can be tried against."""
    if not findings:
        yield "Nothing to report."
        return
    first, *others = findings
    yield f"**{_one_line(first.text)}.**{_try(first)}"
    if cause := next((one for one in others if one.suggestions), None):
        yield f"{_one_line(cause.text)}.{_try(cause)}"


def _try(finding: Finding) -> str:
    return f" **Try:** {_one_line('; '.join(finding.suggestions))}." if finding.suggestions else ""


def _finding(finding: Finding, hint: Callable[[str], str]) -> str:
    line = f"**{_one_line(finding.topic.replace('_', ' '))}**: {_one_line(finding.text)}.{_try(finding)}"
    command = hint(finding.ask_next) if finding.ask_next else ""
    return f"{line} More: {code(command)}" if 0 < len(command) <= _COMMAND else line


def _facts_line(about: Facts, memory: Sequence[str]) -> str:
    """What was read, as a sentence."""
    parts = [f"{about.events:,} entries, {about.gpu_events:,} GPU events"]
    if about.rank is not None:
        parts.append(f"rank {about.rank}" + (f" of {about.world_size}" if about.world_size else ""))
    devices = list(dict.fromkeys(about.devices))
    for device in devices[:_DEVICES]:
        count = about.devices.count(device)
        parts.append(_one_line(device if count == 1 else f"{count} x {device}", _NAME))
    if more := len(devices) - _DEVICES if len(devices) > _DEVICES else 0:
        parts.append(f"{more:,} more devices")
    if memory:
        rest = f" and {len(memory) - _DEVICES:,} more devices" if len(memory) > _DEVICES else ""
        parts.append(f"peak of memory {_one_line('; '.join(memory[:_DEVICES]))}{rest}")
    if about.window:
        parts.append(f"only {_one_line(about.window)}")
    if about.damage:
        parts.append(f"damaged: {_one_line(about.damage)}")
    return "; ".join(parts) + "."


def _largest(largest: Table, advice: Sequence[str]) -> str:
    """The operations with most GPU time. What to try with several of them is said once."""
    rows, first = [], dict[str, str]()
    for row, tried in zip(largest.records(), advice, strict=True):
        name = code_cell(fitted(str(row["name"]), _NAME))
        cell = f"as with {first[tried]}" if tried in first else escape(tried)
        cells = [name, code_cell(fitted(str(row["mostly_in"] or ""), _NAME))]
        rows.append([*cells, f"{row['total_ms']:,.3f}", f"{row['percent']:.1f}", cell])
        if tried:
            first.setdefault(tried, name)
    headings = ("operation", "mostly in", "GPU ms", "% of GPU time", "try")
    kept = [at for at, name in enumerate(headings) if name == "operation" or any(row[at] for row in rows)]
    return pipe_table(
        [headings[at] for at in kept], ([row[at] for at in kept] for row in rows), [at in (2, 3) for at in kept]
    )


def _change(tables: Mapping[str, Table], first: str, now: str) -> Iterator[str]:
    """How the times and the operations changed most."""
    times = changes_of_times(tables, first, now)
    whole = next((one for one in times if one.label == "total"), None)
    change = ""
    if whole is not None:
        change = escape(f": GPU span {whole.before:,.3f} -> {whole.now:,.3f} ms{_percent(whole, ' ({})')}")
    yield f"**{_one_line(now)}{change}**"
    changes = [("GPU span" if one is whole else f"GPU {one.label}", one) for one in times]
    changes += [(code_cell(fitted(one.label, _NAME)), one) for one in changes_by_op(tables, first, now)]
    if changes:
        rows = [
            (label, f"{one.before:,.3f}", f"{one.now:,.3f}", f"{one.diff:+,.3f}", _percent(one, "{}"))
            for label, one in changes
        ]
        yield pipe_table(("", "baseline ms", "now ms", "change ms", "%"), rows, [False, True, True, True, True])
    if lines := ops_of_one(tables, first, now):
        yield "\n".join(f"* {_one_line(line)}" for line in lines)


def _percent(change: Change, around: str) -> str:
    return "" if change.percent is None else around.format(f"{change.percent:+,.1f} %")


def _fold(title: str, count: int, table: Table) -> str:
    table.notes = [shorten(note, _SENTENCE) for note in table.notes]
    return folded(f"{shorten(title, _SENTENCE)}, {counted(count, 'row')}", table_markdown(table, _CELL))


def _one_line(text: str, longest: int = _SENTENCE) -> str:
    return escape(shorten(text, longest))


def _size(text: str) -> int:
    return len(text.encode())
