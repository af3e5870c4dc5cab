"""The files of TraceLens's TraceDiff."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import msgspec

from tracelens_graph.analyses.alignment.common_ancestors import SOURCES, TraceLensDiff
from tracelens_graph.compat.cells import as_tuples, in_python
from tracelens_graph.graph.arguments import ARGUMENTS
from tracelens_graph.reports.csv import write_folder
from tracelens_graph.tables.table import Table
from tracelens_graph.utils.texts import printable


def write_trace_diff(
    difference: TraceLensDiff, folder: str | os.PathLike[str], prune_non_gpu: bool = False
) -> list[Path]:
    """Write the files of a comparison under TraceLens's names: tables, maps from ops to kernels, the merged tree.

    Args:
        difference: the comparison.
        folder: where to; it is made if it is not there.
        prune_non_gpu: leave ops that lead to no GPU work out of the merged tree.

    Returns:
        The files.

    Raises:
        OutputError: the folder is something else, or a file cannot be written.
    """
    maps = {f"cpu_op_map_{source}.json": difference.cpu_op_map_of(source) for source in SOURCES}
    texts = {name: _json(found) for name, found in {"cpu_op_map.json": difference.cpu_op_map, **maps}.items()}
    texts["merged_tree_output.txt"] = _lines(difference.tree_lines(prune_non_gpu))
    return write_folder({name: in_python(in_tuples(table)) for name, table in difference.tables.items()}, folder, texts)


def in_tuples(table: Table) -> Table:
    """A table of a comparison with tuples as arguments of ops, an empty text where none were recorded."""
    columns = {
        name: ["" if cell is None else as_tuples(cell) for cell in cells] if name in ARGUMENTS else cells
        for name, cells in table.columns.items()
    }
    return replace(table, columns=columns)


def _json(found: object) -> bytes:
    text: bytes = msgspec.json.format(msgspec.json.encode(found), indent=2)
    return text


def _lines(lines: Iterable[str]) -> bytes:
    return "".join(f"{printable(line)}\n" for line in lines).encode("utf-8", "backslashreplace")
