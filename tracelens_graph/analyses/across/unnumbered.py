"""Tables of profiles of JAX that ran other programs, with instructions by their names without numbers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from tracelens_graph.analyses.report.report_tables import Tables
from tracelens_graph.graph.classes import normal_name
from tracelens_graph.graph.core import Core
from tracelens_graph.schema import Kind
from tracelens_graph.tables.table import Table

NOTE = "different compiled programs: instructions go by their names without numbers"


def are_compiled_apart(cores: Iterable[Core]) -> bool:
    """Whether all graphs are of JAX, and not all of them ran the same programs."""
    found = set()
    for core in cores:
        if core.programs is None:
            return False
        found.add(frozenset(one.fingerprint for one in core.programs.listed))
    return len(found) > 1


INSTRUCTIONS = ("name", "op", "cpu_op", "Parent cpu_op")
"""Columns that name instructions."""


def of_other_programs(runs: Mapping[str, Mapping[str, Table]]) -> bool:
    """Whether the runs are profiles of JAX that did not run the same programs; a folder of tables does not show it."""
    made = [run for run in runs.values() if isinstance(run, Tables)]
    return len(made) == len(runs) and are_compiled_apart(run.window.core for run in made)


class Unnumbered(Mapping[str, Table]):
    """The tables of a profile, in which `cublas-gemm.8` is `cublas-gemm`.

    Args:
        tables: the tables by name.
    """

    def __init__(self, tables: Mapping[str, Table]) -> None:
        self._tables = tables

    def __getitem__(self, name: str) -> Table:
        table = self._tables[name]
        named = [column for column in INSTRUCTIONS if column in table.columns]
        if not named:
            return table
        columns = {
            column: [normal_name(Kind.Op, cell) if isinstance(cell, str) else cell for cell in cells]
            if column in named
            else cells
            for column, cells in table.columns.items()
        }
        return replace(table, columns=columns)

    def __contains__(self, name: object) -> bool:
        return name in self._tables

    def __iter__(self) -> Iterator[str]:
        return iter(self._tables)

    def __len__(self) -> int:
        return len(self._tables)
