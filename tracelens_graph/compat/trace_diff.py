"""TraceLens's `TraceDiff`, over an alignment of two graphs, and its files.

    difference = TraceDiff(TraceToTree("trace1.json.gz"), TraceToTree("trace2.json.gz"))
    difference.generate_tracediff_report()
    difference.print_tracediff_report_files("rprt_diff", prune_non_gpu=True)

Trees are aligned by the order of their GPU work, not child by child; modules and Python frames are no nodes of the
merged tree, whether the trees hold them or not. Two equal traces are treated like any others.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from tracelens_graph.analyses.alignment.common_ancestors import SOURCES, TraceLensDiff
from tracelens_graph.analyses.alignment.difference import diff
from tracelens_graph.compat.cells import as_tuples, in_python
from tracelens_graph.graph.arguments import ARGUMENTS
from tracelens_graph.graph.core import Core
from tracelens_graph.loading.one import load_core
from tracelens_graph.reports.csv import write_folder
from tracelens_graph.tables.table import Table
from tracelens_graph.utils.texts import printable

if TYPE_CHECKING:
    import pandas as pd


class TraceDiff:
    """Two traces, merged into one tree.

    Args:
        tree1, tree2: each a `TraceToTree` or `TreePerfAnalyzer`, or whatever `tracelens_graph.load` takes, or a loaded
            graph. Modules are shown if Python frames are part of one of the trees, or it is no tree.

    Attributes:
        baseline, variant: what was given.
        diff_stats_df, diff_stats_unique_args_summary_df: tables, None before `generate_tracediff_report`. Times are
            microseconds.
        cpu_op_map: op -> trace -> its kernels and the modules around it; None before that, too.

    Raises:
        AnalysisError: one of them holds no GPU work.
    """

    def __init__(self, tree1: Any, tree2: Any) -> None:
        self.baseline, self.variant = tree1, tree2
        modules = _has_modules(tree1) or _has_modules(tree2)
        self._difference = TraceLensDiff(diff(_graph(tree1), _graph(tree2), ("tree1", "tree2")), modules)
        self.diff_stats_df: pd.DataFrame | None = None
        self.diff_stats_unique_args_summary_df: pd.DataFrame | None = None
        self.cpu_op_map: dict[str, dict[str, dict[str, list[str]]]] | None = None

    def generate_tracediff_report(self) -> None:
        """Make the tables; writes nothing."""
        self.generate_diff_stats()
        self.get_df_diff_stats_unique_args()
        self.get_cpu_op_to_kernels_json()

    def generate_diff_stats(self) -> pd.DataFrame:
        """One row per GPU event that an op launched, with its lowest common ancestor."""
        self.diff_stats_df = in_tuples(self._difference.diff_stats).to_pandas()
        return self.diff_stats_df

    def get_df_diff_stats_unique_args(self) -> pd.DataFrame:
        """GPU events that differ in their times alone, a row for each group of them."""
        self.diff_stats_unique_args_summary_df = in_tuples(self._difference.diff_stats_unique_args_summary).to_pandas()
        return self.diff_stats_unique_args_summary_df

    def get_cpu_op_to_kernels_json(self) -> dict[str, dict[str, dict[str, list[str]]]]:
        """Op -> trace -> its kernels, and the modules right around it."""
        self.cpu_op_map = self._difference.cpu_op_map
        return self.cpu_op_map

    def perf_summary_by_lca(self) -> pd.DataFrame:
        """One row per lowest common ancestor with both times."""
        return in_tuples(self._difference.perf_summary_by_lca).to_pandas()

    def print_tracediff_report_files(
        self, output_folder: str | os.PathLike[str] = "rprt_diff", prune_non_gpu: bool = False
    ) -> None:
        """Write tables, maps and the merged tree.

        Args:
            output_folder: where to; it is made if it is not there.
            prune_non_gpu: leave ops that lead to no GPU work out of the merged tree.

        Raises:
            OutputError: a file cannot be written.
        """
        write_trace_diff(self._difference, output_folder, prune_non_gpu)

    def print_merged_tree(self, prune_non_gpu: bool = False) -> None:
        """Print the merged tree, `>>` before what the first trace alone has, `<<` before what the second has."""
        for line in self._difference.tree_lines(prune_non_gpu):
            print(line)

    def get_corresponding_uid(self, tree_num: int, uid: int) -> int:
        """The UID of the same node in the other tree; -1 without one.

        Args:
            tree_num: 1 or 2, the tree that the UID is of.
        """
        return self._partners[tree_num - 1].get(uid, -1)

    @cached_property
    def _partners(self) -> tuple[dict[int, int], dict[int, int]]:
        tree = self._difference.tree
        first, second = (w.core.columns.uid for w in tree.windows)
        pairs = [(int(first[u]), int(second[v])) for u, v in tree.rows if u >= 0 and v >= 0]
        return dict(pairs), {v: u for u, v in pairs}


def _tree(given: Any) -> Any:
    return getattr(given, "tree", given)


def _graph(given: Any) -> Core:
    graph = getattr(_tree(given), "graph", given)
    return graph if isinstance(graph, Core) else load_core(graph)


def _has_modules(given: Any) -> bool:
    return bool(getattr(_tree(given), "add_python_func", True))


def write_trace_diff(
    difference: TraceLensDiff, folder: str | os.PathLike[str], prune_non_gpu: bool = False
) -> list[Path]:
    """Write the files of a comparison under TraceLens's names: tables, maps from ops to kernels, the merged tree.

    Args:
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
    return msgspec.json.format(msgspec.json.encode(found), indent=2)


def _lines(lines: Iterable[str]) -> bytes:
    return "".join(f"{printable(line)}\n" for line in lines).encode("utf-8", "backslashreplace")
