"""What `tracelens-graph replay` says on the terminal."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from tracelens_graph.cli.replay_asked import ROWS, Asked
from tracelens_graph.cli.shown import Shown
from tracelens_graph.utils.texts import cut_end, printable, wrapped

if TYPE_CHECKING:
    from tracelens_graph.graph.window import Window
    from tracelens_graph.replay.collectives import CollectivePlan
    from tracelens_graph.replay.sequence import SequencePlan
    from tracelens_graph.tables.table import Table

_WIDEST = 110
_LONGEST = 300
"""Characters of a line before it is wrapped."""
_MOST = 3
"""Reasons and assumptions that are told."""


def print_screen(asked: Asked, w: Window, table: Table, covered: Table) -> None:
    """Print what can be replayed, how much of the GPU time that is, and the command that writes it."""
    from tracelens_graph.replay.planned import COLLECTIVE
    from tracelens_graph.reports.replay_text import coverage_lines, shown
    from tracelens_graph.reports.terminal import terminal_width

    width = terminal_width(sys.stdout)
    print(Shown(table, view=shown).text(), end="")
    for line in coverage_lines(covered, width):
        print(line)
    if any(state != "no" for state in table["plan"]):
        words = _words_of_sequence(asked, w) if asked.is_sequence else asked.words
        _ask_next(asked, words, "replay/")
    if COLLECTIVE in table["why"] and _has_collectives(w):
        _ask_next(asked, "--collectives", "collectives/")
    if asked.is_sequence:
        _tell_of_sequence(asked, w, width)


def _ask_next(asked: Asked, words: str, folder: str) -> None:
    print(f"ask next: {asked.call.complete(f'tracelens-graph replay TRACE {words} -o {folder}')}")


def _words_of_sequence(asked: Asked, w: Window) -> str:
    """Options that choose the operations of a list below a node one by one."""
    from tracelens_graph.replay.sequence import place

    assert isinstance(asked.window.under, int | str)
    uid = int(w.core.columns.uid[place(w.core, asked.window.under).row])
    return f"--top {ROWS} --under {uid}"


def _has_collectives(w: Window) -> bool:
    """Whether a program of the collectives can be written."""
    from tracelens_graph.errors import AnalysisError
    from tracelens_graph.replay.collectives import collective_plan

    try:
        collective_plan(w)
    except AnalysisError:
        return False
    return True


def _tell_of_sequence(asked: Asked, w: Window, width: int) -> None:
    """Say what one program of all operations is like, and how it is written, or why there is none."""
    from tracelens_graph.errors import AnalysisError
    from tracelens_graph.replay.sequence import sequence

    assert isinstance(asked.window.under, int | str)
    try:
        found = sequence(w.core, asked.window.under)
    except AnalysisError as error:
        for line in wrapped(printable(f"As one program: {cut_end(str(error), _LONGEST)}"), width, "  "):
            print(line)
        return
    print(f"As one program: {_operations(len(found.steps))}")
    for line in _sequence_lines(found, width):
        print(line)
    _ask_next(asked, "", "replay/")


def tell_sequence(found: SequencePlan, file: Path) -> None:
    """Say of a program of several operations what it holds, and how to run it."""
    from tracelens_graph.reports.terminal import terminal_width

    print(printable(f"wrote {_operations(len(found.steps))} as {file}"))
    for line in _sequence_lines(found, terminal_width(sys.stdout)):
        print(line)
    _say_how_to_run(file, True)


def tell_collectives(found: CollectivePlan, file: Path) -> None:
    """Say of a program of collectives what it assumes and leaves out, and how to run it."""
    from tracelens_graph.reports.terminal import terminal_width

    count = sum(call.calls for call in found.calls)
    print(printable(f"wrote {count:,} collective{'s' * (count != 1)} as {file}"))
    told = [f"assumed: {text}" for text in found.assumed] + [f"left out: {one.line}" for one in found.left_out]
    for line in told:
        for part in wrapped(printable(f"  {line}"), min(terminal_width(sys.stdout), _WIDEST), "    "):
            print(part)
    print(f"run it: torchrun --nproc-per-node {found.world_size} {shlex.quote(str(file))}")


def tell_written(folder: Path, table: Table, covered: Table, can_be_verified: bool) -> None:
    """Say what was written, how to run it, and what was left out."""
    from tracelens_graph.reports.replay_text import coverage_lines, left_out_lines
    from tracelens_graph.reports.terminal import terminal_width

    width = terminal_width(sys.stdout)
    files = list(dict.fromkeys(name for name in table["file"] if name))
    share = sum(percent for percent, name in zip(table["percent"], table["file"], strict=True) if name)
    programs = "program" if len(files) == 1 else "programs"
    print(printable(f"wrote {len(files):,} {programs} and replay.json to {folder}: {share:.1f} % of the GPU time"))
    for line in (*left_out_lines(table, width), *coverage_lines(covered, width)):
        print(line)
    _say_how_to_run(folder / files[0], len(files) == 1)
    if can_be_verified:
        print(f"verify them: tracelens-graph replay --verify {shlex.quote(str(folder))}")


def _say_how_to_run(file: Path, is_only: bool) -> None:
    print(f"run {'it' if is_only else 'the first'}: python {shlex.quote(str(file))}")


def _operations(count: int) -> str:
    return "1 operation" if count == 1 else f"{count:,} operations in their order"


def _assumed(found: SequencePlan) -> list[str]:
    """What is assumed of a program of several operations, each text once with the arguments that it is said of."""
    texts: dict[str, dict[str, dict[str, None]]] = {}
    for plan in found.plans:
        for name, _, text in (one.partition(": ") for one in plan.assumed):
            texts.setdefault(text, {}).setdefault(plan.op, {})[name] = None
    lines = []
    for text, ops in texts.items():
        said = [f"{op} {', '.join(names)}" for op, names in ops.items()]
        more = f"; {len(said) - _MOST:,} more operations" if len(said) > _MOST else ""
        lines.append(f"{'; '.join(said[:_MOST])}{more}: {text}")
    return lines


def _sequence_lines(found: SequencePlan, width: int) -> Iterator[str]:
    """What a program of several operations shares, assumes and leaves out."""
    narrow = min(width, _WIDEST)
    unit = "of GPU time" if found.is_gpu else "on the host"
    told = [f"{found.traced_us:,.1f} us {unit} in the trace; {found.sharing}"]
    told += [found.note] if found.note else []
    assumed = _assumed(found)
    told += [f"assumed: {text}" for text in assumed[:_MOST]]
    if (more := len(assumed) - _MOST) > 0:
        told += [f"assumed: {more:,} more, which the program lists"]
    told += [f"left out: {one.line}" for one in found.left_out[:_MOST]]
    for line in told:
        yield from wrapped(printable(f"  {cut_end(line, _LONGEST)}"), narrow, "    ")
