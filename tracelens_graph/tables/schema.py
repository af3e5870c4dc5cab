"""What a table says about itself: declared once, beside the function that computes it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tracelens_graph.tables.column import About, Column
from tracelens_graph.tables.table import Table

_OF_ONE = re.compile(r"(rank|device)_(?:\d+|[A-Z])_")
_SIZE = "param: "

DECLARED: dict[str, TableSchema] = {}
"""Tables by name, as far as their modules have been imported; `tracelens_graph.registry` imports them."""


@dataclass(frozen=True, eq=False)
class TableSchema(Mapping[str, Column]):
    """A table: the question that it answers, and its columns by name.

    Attributes:
        name: its name, also that of its file in reports and of its query in Cypher.
        answers: the question, as a sentence.
        columns: its columns, in order; a table may lack those that were not asked for. `rank_i_...` stands for a column
            of each rank, `device_i_...` for one of each device, `param: ` for one of each size.
        ordered: whether its rows have an order of their own, and all of them belong together.
        counts: what one of its count is, in a word.
        figure: what `--fail-if` calls a row of it, such as `op` in `op:aten::mm:ms`.
        leads: the column that people are shown first, where that is not the first one.
        reads: of a question about several traces, the columns of `schema.STORED` that it reads; None for all.
    """

    name: str
    answers: str
    columns: About
    ordered: bool = False
    counts: str = "call"
    figure: str = ""
    leads: str = ""
    reads: Sequence[str] | None = None

    def __post_init__(self) -> None:
        DECLARED[self.name] = self

    def __getitem__(self, name: str) -> Column:
        return self.columns[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.columns)

    def __len__(self) -> int:
        return len(self.columns)

    def about(self, names: Iterable[str]) -> dict[str, Column]:
        """What is declared of some columns; of those that are not declared, nothing."""
        found = {}
        for name in names:
            if name.startswith(_SIZE) and _SIZE in self.columns:
                found[name] = replace(self.columns[_SIZE], heading=name.removeprefix(_SIZE))
            elif (key := _OF_ONE.sub(r"\1_i_", name, count=1)) in self.columns:
                found[name] = self.columns[key]
        return found

    def table(
        self,
        columns: Mapping[str, np.ndarray | Sequence[Any]],
        title: str = "",
        notes: Iterable[str] = (),
        *,
        more: About | None = None,
        name: str = "",
    ) -> Table:
        """The table with these columns.

        Args:
            columns: the cells of each.
            title, notes: see `Table`.
            more: further columns, such as a user's.
            name: what it is called, if not by the name declared.

        Raises:
            ValueError: a column is not declared, so nobody would know what it is.
        """
        known = {**self.about(columns), **(more or {})}
        about = {column: known[column] for column in columns if column in known}
        if undeclared := columns.keys() - about.keys():
            raise ValueError(f"{self.name}: columns that are not declared: {', '.join(sorted(undeclared))}")
        return Table(name or self.name, columns, about, title, list(notes))

    def of_records(self, records: Sequence[Mapping[str, Any]], title: str = "", notes: Iterable[str] = ()) -> Table:
        """The table with these rows; each has a cell for every declared column.

        Raises:
            ValueError: a row has a cell of a column that is not declared.
        """
        if undeclared := {name for record in records for name in record if name not in self.columns}:
            raise ValueError(f"{self.name}: columns that are not declared: {', '.join(sorted(undeclared))}")
        return self.table({name: [record[name] for record in records] for name in self.columns}, title, notes)

    def empty(self, title: str = "", notes: Iterable[str] = ()) -> Table:
        """The table without rows."""
        return self.of_records((), title, notes)
