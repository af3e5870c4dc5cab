"""A report on the terminal: one screen with the answer, or all tables."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from tracelens_graph.analyses.diagnosis.finding import Finding
from tracelens_graph.graph.core import Core
from tracelens_graph.reports.document import Facts
from tracelens_graph.reports.views import top, view
from tracelens_graph.tables.table import Table
from tracelens_graph.tables.terminal import bold
from tracelens_graph.utils.texts import cut_end, paragraphs, printable, width_of, wrapped

_NEXT = "ask next: "
_TRY = "try: "
_UID = re.compile(r"\[uid \d|\buid$", re.MULTILINE)
_OF_UID = re.compile(r"tracelens-graph tree TRACE --uid \d+ --up")
"""The command that a screen explains once for all events."""
_NAMED = 3
"""Tables that are left out and named."""
_UNIT = re.compile(r"(\d|\[uid) (%|ms\b|us\b|s\b|GB/s|MB\b|\d)")
_WIDEST = 110
"""Lines of prose are not longer, however wide the terminal."""

_BAR = 30
Hint = Callable[[str], str]
"""Makes a command of a finding, with TRACE for the trace, one that can be pasted into a shell."""


_LONGEST_NAME = 60
"""Characters of a device's name in the heading."""


def heading(about: Facts) -> str:
    """One line on what was loaded: file, rank, devices, window, GPU events."""
    parts = [Path(about.source).name]
    if about.rank is not None:
        parts.append(f"rank {about.rank}" + (f" of {about.world_size}" if about.world_size else ""))
    for device in dict.fromkeys(about.devices):
        count = about.devices.count(device)
        named = cut_end(device, _LONGEST_NAME)
        parts.append(named if count == 1 else f"{count} x {named}")
    parts.append(f"{about.gpu_events:,} GPU events")
    if about.window:
        parts.append(f"only {about.window}")
    return ", ".join(parts)


def verdict_lines(
    findings: Sequence[Finding], hint: Hint, width: int | None, shown: Iterable[str] = ()
) -> Iterator[str]:
    """The findings as paragraphs with a bullet, each with the command that shows more below it.

    Args:
        hint: completes their commands.
        width: characters of a line; None for no limit. Commands may be longer.
        shown: commands, with TRACE for the trace, that would only repeat what is on the screen. So would advice that
            was given, and the way up from an event, which is explained once.
    """
    printed = set(shown)
    narrow = min(width or _WIDEST, _WIDEST)
    for finding in findings:
        lines = _sentence(f"* {printable(finding.text)}", narrow, "  ")
        if new := [one for one in finding.suggestions if one not in printed]:
            lines += _sentence(f"  {_TRY}{'; '.join(new)}", narrow, "    ")
            printed.update(new)
        if finding.ask_next and finding.ask_next not in printed and not _OF_UID.fullmatch(finding.ask_next):
            lines.append(f"  {_NEXT}{printable(hint(finding.ask_next))}")
            printed.add(finding.ask_next)
        yield from lines


def _sentence(text: str, width: int, indent: str) -> list[str]:
    """Lines of a sentence, in which a number stands with its unit."""
    held = _UNIT.sub("\\1\N{NO-BREAK SPACE}\\2", text)
    return [line.replace("\N{NO-BREAK SPACE}", " ") for line in wrapped(held, width, indent)]


def first_screen(
    about: Facts,
    findings: Sequence[Finding],
    spent: Table,
    largest: Sequence[Table],
    others: Sequence[str],
    hint: Hint,
    hints: Sequence[str],
    width: int,
    color: bool,
) -> str:
    """The answer on one screen: the verdict, where the time went, the most expensive operations, what else there is.

    Args:
        about: what the report is on.
        spent: the table `time_spent`.
        largest: the table `top_ops`; without GPU events those of host time.
        others: what was left out.
        hint: completes commands of findings.
        hints: commands for the operations.
    """
    title = "\n".join(bold(line, color) for line in wrapped(printable(heading(about)), width, "  "))
    repeated = ["tracelens-graph ask gpu_timeline TRACE"]
    if about.linked:
        title += "\n" + "\n".join(paragraphs(about.linked.splitlines(), min(width, _WIDEST), "  "))
    blocks = [title + "\n", _block(verdict_lines(findings, hint, width, repeated))]
    if len(spent):
        blocks.append(_block(_bars(spent, width, color)))
    blocks += [_without_empty_columns(table).text(width, color) for table in largest if len(table)]
    if hints:
        blocks[-1] += _block(hints)
    if others:
        if len(others) > _NAMED:
            others = [f"{len(others) - 1:,} tables, such as {others[1]}", others[-1]]
        left_out = f"Left out: {', '.join(others)}. --all prints all tables, --table NAME one."
        blocks.append(_block(wrapped(left_out, width)))
    return _with_uids_explained([block for block in blocks if block], hint)


def _with_uids_explained(blocks: Sequence[str], hint: Hint) -> str:
    """Blocks of a screen; where they name events by uid, what that is, once, behind the last that does."""
    named = [at for at, block in enumerate(blocks) if _UID.search(block)]
    if not named:
        return "\n".join(blocks)
    note = f"event with uid N, and what calls it: {printable(hint('tracelens-graph tree TRACE --uid N --up'))}\n"
    return "\n".join((*blocks[: named[-1]], blocks[named[-1]] + note, *blocks[named[-1] + 1 :]))


def _without_empty_columns(table: Table) -> Table:
    columns = {name: cells for name, cells in table.columns.items() if any(cell not in ("", None) for cell in cells)}
    return replace(table, columns=columns)


def _block(lines: Iterable[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def _bars(table: Table, width: int, color: bool) -> Iterator[str]:
    """The parts of the time, a line each with a bar."""
    parts, ms, percent = (list(table[name]) for name in ("part", "ms", "percent"))
    size, number = max(map(width_of, parts)), len(f"{max(ms):,.3f}")
    yield from (bold(line, color) for line in wrapped(printable(table.title), width, "  "))
    for part, time, share in zip(parts, ms, percent, strict=True):
        bar = "#" * round(share * min(_BAR, max(width - size - number - 22, 0)) / 100)
        yield f"  {part:{size}}  {time:{number},.3f} ms  {share:5.1f} %  {bar}".rstrip()


def all_tables(
    core: Core,
    about: Facts,
    findings: Sequence[Finding],
    tables: Mapping[str, Table],
    hint: Hint,
    hints: Callable[[Table], Sequence[str]],
    rows: int,
    width: int,
    color: bool,
) -> str:
    """The verdict and all tables.

    Args:
        core: the graph, for the places of instances.
        about: what the report is on.
        tables: name -> table, in the order in which they are shown; those without rows only say why.
        hint: completes commands of findings.
        hints: commands for the events that a table names; those of the first table with any stand at the end.
        rows: rows per table; 0 for all.
    """
    blocks = [_block(bold(line, color) for line in wrapped(printable(heading(about)), width, "  "))]
    blocks.append(_block(verdict_lines(findings, hint, width)))
    silent: list[str] = []
    to_open: Sequence[str] = ()
    for table in tables.values():
        if len(table):
            shown = view(top(table, rows), core)
            blocks.append(shown.text(width, color))
            to_open = to_open or hints(shown)
        else:
            silent += [f"{table.title}: {note}" for note in table.notes or ["nothing"]]
    if silent:
        blocks.append(_block(paragraphs(silent, width, "  ")))
    if to_open:
        blocks.append(_block(to_open))
    return _with_uids_explained(blocks, hint)
