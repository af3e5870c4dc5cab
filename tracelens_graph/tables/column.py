"""What a column of a table says about itself: everything that reports, comparisons and gates need to know of it.

To add a column, declare it with its table, beside the function that computes it, and fill it there. CSV files,
workbooks, JSON, the terminal, comparisons, `--fail-if` and the reference pages read what is declared.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, Literal, Self


class Role(Enum):
    """The meaning of a column's cells, which determines how they are merged."""

    key = "key"
    """Separates rows; rows that are merged share it."""
    text = "text"
    """Names; those of merged rows stand side by side."""
    flag = "flag"
    """True or false; None where merged rows differ."""
    count = "count"
    """A number of things; adds up, and is the weight of means."""
    sum = "sum"
    """A quantity that adds up over any partition of the rows."""
    share = "share"
    """Percent of a whole that all rows share, so it adds up."""
    mean = "mean"
    """A mean over what the table's first count counts; merged by that weight."""
    min = "min"
    """The smallest of merged rows is kept."""
    max = "max"
    """The greatest of merged rows is kept."""
    spread = "spread"
    """A median or deviation: not known of merged rows."""
    time = "time"
    """A moment on the trace's clock; the earliest of merged rows is kept."""
    value = "value"
    """Any other figure or text that belongs to one row; None where merged rows differ."""
    uid = "uid"
    """A node; the smallest of merged rows is kept."""
    instance = "instance"
    """A node that stands for the row: people are shown where Perfetto UI finds it."""


Cells = Literal["text", "number", "list", "flag"]
Compared = Literal["", "main", "diff", "beside", "carried"]
Fold = Literal["key", "unite", "agree", "add", "weigh", "smallest", "greatest", "forget"]

_FOLDS: Mapping[Role, Fold] = {
    Role.key: "key",
    Role.text: "unite",
    Role.flag: "agree",
    Role.count: "add",
    Role.sum: "add",
    Role.share: "add",
    Role.mean: "weigh",
    Role.min: "smallest",
    Role.max: "greatest",
    Role.spread: "forget",
    Role.time: "smallest",
    Role.value: "agree",
    Role.uid: "smallest",
    Role.instance: "smallest",
}

_DROP_PRIORITY: Mapping[Role, int] = {
    Role.uid: 3, Role.instance: 3, Role.time: 3, Role.min: 2, Role.max: 2, Role.spread: 2,
    Role.text: 1, Role.flag: 1, Role.value: 1,
}  # fmt: skip


@dataclass(frozen=True)
class Column:
    """A column of a table.

    Attributes:
        definition: what it holds, in one sentence.
        unit: unit of its numbers.
        role: what its cells are; see `Role`.
        heading: what people read above it; None for its name, with blanks for underscores. Where some columns of a
            table have a heading, people are shown these alone.
        compared: its part in a comparison of runs: "main" is what rows are sorted by, "diff" has a difference too,
            "beside" stands there for each run, "carried" is kept once, "" is left out. Keys and counts need none.
        figure: what `--fail-if` calls it behind the name of its row, such as `ms` in `op:aten::mm:ms`.
        cells: what a cell holds; None for text in keys and texts, else a number. What a file of text holds is read so.
        drop_priority: how readily it is left out where a line is too long; None for what its role says. See
            `order_of_leaving`.
        wraps: whether its cells are sentences, which take several lines at the end of a line that is too long.
    """

    definition: str
    unit: str = ""
    role: Role = Role.value
    heading: str | None = None
    compared: Compared = ""
    figure: str = ""
    cells: Cells | None = None
    drop_priority: int | None = None
    wraps: bool = False

    @classmethod
    def key(cls, definition: str, heading: str | None = None, cells: Cells | None = None, **more: Any) -> Self:
        """A column that separates rows."""
        return cls(definition, role=Role.key, heading=heading, cells=cells, **more)

    @classmethod
    def text(cls, definition: str, heading: str | None = None, compared: Compared = "", **more: Any) -> Self:
        """A column of names."""
        return cls(definition, role=Role.text, heading=heading, compared=compared, **more)

    @classmethod
    def count(cls, definition: str, heading: str | None = None, figure: str = "", **more: Any) -> Self:
        """A column that counts."""
        return cls(definition, role=Role.count, heading=heading, figure=figure, **more)

    @classmethod
    def total(
        cls,
        definition: str,
        unit: str,
        heading: str | None = None,
        compared: Compared = "",
        figure: str = "",
        **more: Any,
    ) -> Self:
        """A column of a quantity that adds up."""
        return cls(definition, unit, Role.sum, heading, compared, figure, **more)

    @classmethod
    def share(cls, definition: str, heading: str | None = None, figure: str = "", **more: Any) -> Self:
        """A column of percentages of one whole."""
        return cls(definition, "%", Role.share, heading, figure=figure, **more)

    @classmethod
    def moment(cls, definition: str, unit: str, **more: Any) -> Self:
        """A column of moments, counted from the zero of Perfetto UI; see `TraceInfo.lead_ns`."""
        return cls(definition, unit, Role.time, **more)

    @classmethod
    def uid(cls, definition: str, **more: Any) -> Self:
        """A column of nodes."""
        return cls(definition, role=Role.uid, **more)

    @classmethod
    def instance(cls, definition: str, **more: Any) -> Self:
        """A column of nodes that stand for their rows."""
        return cls(definition, role=Role.instance, **more)

    @classmethod
    def listed(cls, definition: str, heading: str | None = None, **more: Any) -> Self:
        """A column of lists."""
        return cls(definition, heading=heading, cells="list", **more)

    @property
    def fold(self) -> Fold:
        """What becomes of its cells when rows are merged into one."""
        return _FOLDS[self.role]

    @property
    def adds_up(self) -> bool:
        """Whether its values over a partition of the rows add up to the value over all of them."""
        return self.fold == "add"

    @property
    def is_text(self) -> bool:
        """Whether its cells are plain text, whatever they look like."""
        return (self.cells or ("text" if self.role in (Role.key, Role.text) else "number")) == "text"

    @property
    def is_id(self) -> bool:
        """Whether its numbers name nodes, so that they are not to be rounded or grouped."""
        return self.role in (Role.uid, Role.instance)

    @property
    def order_of_leaving(self) -> int:
        """How readily it is left out of a line that is too long: the greatest first.

        From 2 on it leaves before names are cut, 1 after they have been cut once, 0 where nothing else helps, and below
        0 never.
        """
        return _DROP_PRIORITY.get(self.role, 0) if self.drop_priority is None else self.drop_priority


About = Mapping[str, Column]
"""Name of a column -> what it says about itself."""


def keys(about: About) -> list[str]:
    """The columns that separate rows."""
    return [name for name, column in about.items() if column.role is Role.key]


def main_column(about: About) -> str:
    """The column by whose change rows of a comparison are sorted; empty if the table cannot be compared."""
    return next((name for name, column in about.items() if column.compared == "main"), "")


def count_column(about: About) -> str:
    """The column that counts what a row stands for; empty for none."""
    return next((name for name, column in about.items() if column.role is Role.count), "")


def instance_column(about: About) -> str:
    """The column with the node that stands for a row; empty for none."""
    return next((name for name, column in about.items() if column.role is Role.instance), "")


def headings(about: About) -> dict[str, str]:
    """The columns that people are shown, with what stands above them."""
    headed = {name: column.heading for name, column in about.items() if column.heading}
    return headed or {name: heading_of(name) for name in about}


def heading_of(name: str, column: Column | None = None) -> str:
    """What people read above a column: its heading, else its name with blanks for underscores."""
    if column and column.heading:
        return column.heading
    return name.replace("_", " ") if name.islower() and name.isidentifier() else name


_STATISTICS: Mapping[str, tuple[str, Role]] = {
    "sum": ("sum", Role.sum),
    "mean": ("mean", Role.mean),
    "median": ("median", Role.spread),
    "std": ("standard deviation (one degree of freedom less; none for a single value)", Role.spread),
    "min": ("smallest", Role.min),
    "max": ("greatest", Role.max),
    "count": ("number", Role.count),
}

FIVE = ("mean", "median", "std", "min", "max")


def statistics(name: str, of: str, unit: str, which: Iterable[str]) -> dict[str, Column]:
    """Columns `name.format(which)` for some statistics of one quantity."""
    return {
        name.format(w): Column(f"{_STATISTICS[w][0]} of {of}", "" if w == "count" else unit, _STATISTICS[w][1])
        for w in which
    }


def shown(columns: Mapping[str, Column], **headings: str) -> dict[str, Column]:
    """The columns, some of them with a heading for people; names are given with `_` for all that is no letter or digit.

    `shown(statistics("dur_{}", ...), dur_sum="sum us")`.
    """
    plain = {"".join(c if c.isalnum() and c.isascii() else "_" for c in name): name for name in columns}
    headed = {plain[name]: heading for name, heading in headings.items()}
    return {name: replace(one, heading=headed[name]) if name in headed else one for name, one in columns.items()}
