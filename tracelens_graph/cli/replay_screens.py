"""What `tracelens-graph replay` says on the terminal."""

from __future__ import annotations

import re
import shlex
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tracelens_graph.cli.shown import Shown, put
from tracelens_graph.reports.views import with_headings
from tracelens_graph.tables.names import short_name
from tracelens_graph.tables.table import Table
from tracelens_graph.tables.terminal import terminal_width
from tracelens_graph.utils.texts import cut_end, printable, shown_name, wrapped

if TYPE_CHECKING:
    from tracelens_graph.cli.replay_asked import Asked
    from tracelens_graph.graph.window import Window
    from tracelens_graph.replay.collectives import CollectivePlan
    from tracelens_graph.replay.sequence import SequencePlan
    from tracelens_graph.replay.sweep import Swept

_WIDEST = 110
_LONGEST = 300
"""Characters of a line before it is wrapped."""
_MOST_REASONS, _MOST_FILES, _MOST_LINES, _MOST_NAMES = 3, 3, 10, 12
"""Reasons with their shares, files of a reason, reasons of programs that lack something, and operations of each."""
_ASSUMED = re.compile(r"(?:^|; )(\w+): ", re.ASCII)
"""Names of arguments in what is said of those that are assumed."""
_BY_ROOF, _LESS_BY_ROOF = ("could_be_won_us", "percent_of_roof"), ("calls", "percent")
"""Columns that are shown only where operations are ordered by the first, and those that make room for these."""
_SMALL = 0.05
"""Percent below which a share is not worth a word."""


def shown(table: Table) -> Table:
    """A table of what can be replayed as people see it: short names of kernels, whether there is a plan and why not."""
    columns = {**table.columns, "plan": [_in_short(row) for row in table.records()]}
    about = dict(table.about)
    if "kernel" in columns:
        columns["kernel"] = [short_name(name) for name in table["kernel"]]
    if not any(table["input_dims"] if "input_dims" in columns else [True]):
        del columns["input_dims"]
    if _BY_ROOF[0] in columns:
        if np.isnan(np.asarray(table[_BY_ROOF[0]], float)).all():
            columns = {name: cells for name, cells in columns.items() if name not in _BY_ROOF}
        else:
            about |= {name: replace(about[name], drop_priority=1) for name in _LESS_BY_ROOF}
    return with_headings(replace(table, columns=columns, about=about))


def _in_short(row: dict[str, Any]) -> str:
    """Whether there is a plan; why not, unless the name says it, or the names of what is assumed."""
    if row["plan"] == "assumed" and row["why"]:
        return f"assumed: {', '.join(_ASSUMED.findall(row['why']))}"
    stands_for_itself = row["op"].startswith("(")
    return f"{row['plan']}: {row['why']}" if row["why"] and not stands_for_itself else row["plan"]


def print_screen(asked: Asked, w: Window, table: Table, covered: Table) -> None:
    """Print what can be replayed, how much of the GPU time that is, and the command that writes it."""
    from tracelens_graph.replay.collectives import RUN_AGAIN

    put(Shown(table, view=shown).text())
    if asked.outside:
        _print_lines([asked.outside], indent="")
    _print_coverage(covered)
    if any(state != "no" for state in table["plan"]):
        _ask_next(asked, _words_of_sequence(asked, w) if asked.is_sequence else asked.words, "replay/")
    if RUN_AGAIN in table["remedy"]:
        _ask_next(asked, "--collectives", "collectives/")
    if asked.is_sequence:
        _print_sequence(asked, w)


def print_written(asked: Asked, folder: Path, table: Table, covered: Table, part: str) -> None:
    """Say what was written, the part of the trace that it is of, how to run it, and what was left out."""
    files = list(dict.fromkeys(name for name in table["file"] if name))
    share = sum(percent for percent, name in zip(table["percent"], table["file"], strict=True) if name)
    programs = "program" if len(files) == 1 else "programs"
    of_time = f"for {share:.1f} % of the GPU time" + (f" ({part})" if part else "")
    put(printable(f"wrote {len(files):,} {programs} and replay.json to {folder}, {of_time}") + "\n")
    if lacking := [row["percent"] for row in table.records() if row["file"] and row["plan"] == "no"]:
        operations = f"{len(lacking):,} operation{'s' * (len(lacking) != 1)} of these"
        text = f"{operations}, for {sum(lacking):.1f} %, can run once filled in: --kernel-source FILE"
        _print_lines([text], indent="")
    _print_left_out(table)
    if asked.outside:
        _print_lines([asked.outside], indent="")
    _print_coverage(covered, "Can be replayed in all", part)
    _print_uses([folder / file for file in files])


def _print_uses(files: Sequence[Path]) -> None:
    """Say how the programs of a folder are run, verified by the same Python, and compared between devices."""
    first, it = ("it", "it") if len(files) == 1 else ("the first", "them")
    print(f"run {first}: python {shlex.quote(str(files[0]))}")
    print(f"verify {it}: tracelens-graph replay --verify {shlex.quote(str(files[0].parent))} --python python")
    results = "A.json B.json" if len(files) == 1 else "FOLDER_A FOLDER_B"
    print(f"compare devices: run {it} with --json FILE on each, then tracelens-graph replay --compare {results}")


def print_sweep(found: Swept, files: Sequence[Path]) -> None:
    """Say which sizes a sweep changes, and what was written."""
    _print_lines([f"changes {', '.join(f'{place} ({size:,})' for place, size in found.places.items())}"], indent="")
    if found.doubled:
        example = ",".join(place for place in found.places if place.endswith(".0")) or next(iter(found.places))
        text = f"several sizes of {', '.join(found.doubled)} change alike; to change some alone, name these"
        _print_lines([f"note: {text}: {example}=..."], indent="")
    if found.elsewhere:
        text = f"{', '.join(found.elsewhere)} had that size, too, and keep it; name them where they are the same size"
        _print_lines([f"note: {text}"], indent="")
    for file in files:
        print(f"wrote {shlex.quote(str(file))}")
    _print_uses(files)


def print_removed(names: Sequence[str]) -> None:
    """Say which programs of an earlier run went."""
    if removed := [name for name in names if name.endswith(".py")]:
        named = _some(removed, _MOST_FILES)
        _print_lines([f"removed {named} of an earlier run into this folder; another -o DIR keeps them"], indent="")


def print_sequence(found: SequencePlan, file: Path) -> None:
    """Say of a program of several operations what it holds, and how to run it."""
    print(printable(f"wrote {_operations(len(found.steps))} as {file}"))
    _print_lines(_sequence_lines(found))
    print(f"run it: python {shlex.quote(str(file))}")


def print_collectives(found: CollectivePlan, file: Path) -> None:
    """Say of a program of collectives what it assumes and leaves out, and how to run it."""
    count = sum(call.calls for call in found.calls)
    print(printable(f"wrote {count:,} collective{'s' * (count != 1)} as {file}"))
    _print_lines([f"assumed: {text}" for text in found.assumed] + [f"left out: {one.line}" for one in found.left_out])
    print(f"run it: torchrun --nproc-per-node {found.world_size} {shlex.quote(str(file))}")


def print_failures(table: Table) -> None:
    """Say why programs failed, or are not as in the trace, each reason of `replay_verify` once with its programs."""
    reasons: dict[str, list[str]] = {}
    for row in table.records():
        if row["why"] and row["outcome"] not in ("no torch", "no jax"):  # which a note says
            reasons.setdefault(row["why"], []).append(row["file"])
    for why, files in reasons.items():
        _print_lines([f"{_some(files, _MOST_FILES)}: {cut_end(why, _LONGEST)}"], indent="")


def _some(names: Sequence[str], most: int) -> str:
    """The first of some names, and how many more there are."""
    return ", ".join(names[:most]) + f" and {len(names) - most:,} more" * (len(names) > most)


def _print_lines(lines: Iterable[str], indent: str = "  ", behind: int = 2) -> None:
    """Print lines, the parts of one that is too long further in by some columns."""
    width = min(terminal_width(sys.stdout), _WIDEST)
    for line in lines:
        for part in wrapped(printable(f"{indent}{line}"), width, indent + " " * behind):
            put(f"{part}\n")


def _ask_next(asked: Asked, words: str, folder: str) -> None:
    words = f"--from-database {words}" if asked.from_database else words
    print(f"ask next: {asked.call.complete(f'tracelens-graph replay TRACE {words} -o {folder}')}")


def _print_coverage(covered: Table, what: str = "Can be replayed", part: str = "") -> None:
    """Say how much of the GPU time can be replayed, and of the rest the greatest parts with what would help."""
    rows = covered.records()
    if not rows:
        return
    share = {state: sum(row["percent"] for row in rows if row["plan"] == state) for state in ("yes", "assumed", "no")}
    text = f"{what}: {share['yes'] + share['assumed']:.1f} % of the GPU time" + (f" ({part})" if part else "")
    if share["assumed"] >= _SMALL:
        part = "all of it" if share["yes"] < _SMALL else f"{share['assumed']:.1f} %"
        text += f", {part} with assumed values of arguments"
    _print_lines([f"{text}."], indent="")
    if share["no"] < _SMALL:
        return
    parts: dict[tuple[str, str], float] = {}
    for row in rows:
        if row["plan"] == "no":
            parts[row["why"], row["remedy"]] = parts.get((row["why"], row["remedy"]), 0.0) + row["percent"]
    greatest = sorted(parts.items(), key=lambda part: -part[1])
    shown = len(greatest) if len(greatest) == _MOST_REASONS + 1 else _MOST_REASONS  # one more takes no more room
    print("Not replayable:")
    for (why, remedy), percent in greatest[:shown]:
        if percent >= _SMALL:
            text = cut_end(f"{why}; what helps: {remedy}" if remedy else why, _LONGEST)
            _print_lines([f"{percent:5.1f} %  {text.replace('what helps: nothing', 'nothing helps')}"], behind=9)
    if (rest := sum(percent for _, percent in greatest[shown:])) >= _SMALL:
        print(f"  {rest:5.1f} %  other reasons")


def _print_left_out(table: Table) -> None:
    """Say which operations of `replay_signatures` have no program, or one that lacks something, and why."""
    reasons: dict[tuple[str, str], list[str]] = {}
    for row in table.records():
        if row["plan"] == "no":
            reasons.setdefault(("to be filled in" if row["file"] else "left out", row["why"]), []).append(row["op"])
    for (what, why), names in list(reasons.items())[:_MOST_LINES]:
        counted = [
            shown_name(name) + f" ({count:,} argument sets)" * (count > 1)
            for name, count in Counter(names).most_common()
        ]
        _print_lines([f"{what}: {_some(counted, _MOST_NAMES)}: {cut_end(why, _LONGEST)}"], indent="")
    if len(reasons) > _MOST_LINES:
        print(f"left out: for {len(reasons) - _MOST_LINES:,} other reasons")


# --- operations below a node ---------------------------------------------------------------------------------------


def _words_of_sequence(asked: Asked, w: Window) -> str:
    """Options that choose the operations of a list below a node one by one."""
    from tracelens_graph.replay.sequence import place

    return f"--top {asked.rows} --under {int(w.core.columns.uid[place(w.core, asked.under).row])}"


def _print_sequence(asked: Asked, w: Window) -> None:
    """Say what one program of all operations is like, and how it is written, or why there is none."""
    from tracelens_graph.errors import AnalysisError
    from tracelens_graph.replay.sequence import sequence

    try:
        found = sequence(w.core, asked.under)
    except AnalysisError as error:
        _print_lines([f"As one program: {cut_end(str(error), _LONGEST)}"], indent="")
        return
    print(f"As one program: {_operations(len(found.steps))}")
    _print_lines(_sequence_lines(found))
    _ask_next(asked, "", "replay/")


def _operations(count: int) -> str:
    return "1 operation" if count == 1 else f"{count:,} operations in their order"


def _sequence_lines(found: SequencePlan) -> Iterator[str]:
    """What a program of several operations shares, assumes and leaves out."""
    unit = "of GPU time" if found.is_gpu else "on the host"
    lines = [f"{found.traced_us:,.1f} us {unit} in the trace; {found.sharing}"]
    lines += [found.note] if found.note else []
    assumed = _assumed(found)
    lines += [f"assumed: {text}" for text in assumed[:_MOST_REASONS]]
    if (more := len(assumed) - _MOST_REASONS) > 0:
        lines += [f"assumed: {more:,} more, which the program lists"]
    lines += [f"left out: {one.line}" for one in found.left_out[:_MOST_REASONS]]
    if found.sources:
        lines += [f"to be filled in: {', '.join(found.sources)}: sources of Triton kernels; --kernel-source FILE does"]
    return (cut_end(line, _LONGEST) for line in lines)


def _assumed(found: SequencePlan) -> list[str]:
    """What is assumed of a program of several operations, each text once with the arguments that it is said of."""
    texts: dict[str, dict[str, dict[str, None]]] = {}
    for plan in found.plans:
        for name, _, text in (one.partition(": ") for one in plan.assumed):
            texts.setdefault(text, {}).setdefault(plan.op, {})[name] = None
    lines = []
    for text, ops in texts.items():
        of = [f"{op} {', '.join(names)}" for op, names in ops.items()]
        more = f"; {len(of) - _MOST_REASONS:,} more operations" if len(of) > _MOST_REASONS else ""
        lines.append(f"{'; '.join(of[:_MOST_REASONS])}{more}: {text}")
    return lines
