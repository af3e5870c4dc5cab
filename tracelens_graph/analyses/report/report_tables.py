"""The tables of a report: which there are, and each computed when it is asked for."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Any

from tracelens_graph.errors import ExtensionError
from tracelens_graph.extensions.extension import extension_of
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.window import Window, window_of
from tracelens_graph.registry import HOMES, REPORT
from tracelens_graph.tables.table import Table

if TYPE_CHECKING:
    from tracelens_graph.extensions.extension import Extension
    from tracelens_graph.perf.devices import Architecture


def extension_table_sets(w: Window) -> dict[str, Table]:
    """The tables of all sets of the window's extension.

    Raises:
        ExtensionError: what one returns is no mapping of tables, or has a name that is taken.
    """
    extension = extension_of(w)
    tables: dict[str, Table] = {}
    for make in extension.table_sets:
        made = make(w)
        if not isinstance(made, Mapping):
            raise ExtensionError(f"{extension.name}: expected tables by name, not {type(made).__name__}")
        for name, one in made.items():
            if name in tables or name in extension.tables:
                raise ExtensionError(f"{extension.name}: there are two tables {name}")
            extension.check_table_name(name)
            tables[name] = as_table(name, one, extension.name)
    return tables


def as_table(name: str, made: Any, source: str) -> Table:
    """A table from what a function of an extension returns: a Table, or a DataFrame with `attrs` as ours have them.

    Raises:
        ExtensionError: it is neither, or its columns are not equally long.
    """
    if isinstance(made, Table):
        table = replace(made, name=name, title=made.title or name)
    elif "pandas" in sys.modules and isinstance(made, sys.modules["pandas"].DataFrame):
        try:
            table = Table.from_pandas(made, name)
        except ValueError as error:
            raise ExtensionError(f"{source}: {error}") from error
    else:
        raise ExtensionError(f"{source}: {name} has to be a Table or a DataFrame, not {type(made).__name__}")
    lengths = {column: len(cells) for column, cells in table.columns.items()}
    for (one, length), (other, differs) in pairwise(lengths.items()):
        if length != differs:
            raise ExtensionError(f"{source}: in {name}, {one} has {length:,} cells and {other} {differs:,}")
    return table


@dataclass(frozen=True)
class ReportOptions:
    """What a report contains in addition to the default.

    Attributes:
        linked_only: tables of ops and the timeline leave out GPU events whose launch is not in the trace (and the
            tables of ops communication), as TraceLens does.
        micro_idle_us: split idle time into gaps shorter than this and the others.
        short_kernels_us: add the tables of kernels shorter than this.
        histogram_bins: bins of the histogram of short kernels.
        overlap: kernels that run beside an op on other streams.
        first_occurrence: when an op was first called with its arguments.
        call_stack: modules around an op, and the line of Python that it comes from.
        python_frames: what of Python is in call stacks of `unified_perf_summary`; else they hold ops alone.
        as_recorded: kernel details with durations and streams as the file spells them.
        recompute: separate recomputation of activations from the rest.
        by_kernel_count: separate calls with different numbers of GPU events.
        by_module: separate by the innermost module around an op.
        kernel_categories: show what kernels do by their names, and add the tables of that.
        models: add the tables of cost and rates, by performance models.
        arch: the device, for the columns of the roofline in these.
        compare_with: another trace, or a window of it, to compare the window with as TraceLens's report does: adds
            columns to `unified_perf_summary`, and the table `diff_stats`.
        extension: what a user adds: rules, models, tables, changes of the graph; None for that of the window.
    """

    linked_only: bool = False
    micro_idle_us: float | None = None
    short_kernels_us: float | None = None
    histogram_bins: int = 100
    overlap: bool = False
    first_occurrence: bool = False
    call_stack: bool = False
    python_frames: bool = True
    as_recorded: bool = False
    recompute: bool = False
    by_kernel_count: bool = False
    by_module: bool = False
    kernel_categories: bool = False
    models: bool = True
    arch: Architecture | None = None
    compare_with: Window | None = None
    extension: Extension | None = None

    def as_values(self) -> dict[str, Any]:
        """The options as plain values, for documents."""
        values = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in (*_OBJECTS, *_OF_LAYOUT)}
        names = {
            "arch": self.arch and self.arch.name,
            "compare_with": self.compare_with and self.compare_with.core.info.source,
            "extension": self.extension and self.extension.name,
        }
        return values | names


_OBJECTS = ("arch", "compare_with", "extension")
"""Options that are no plain values."""

_OF_LAYOUT = ("python_frames", "as_recorded")
"""Options that nobody gives: TraceLens's layout has them."""


_OPTION_OF = {
    "threshold_us": "short_kernels_us", "bins": "histogram_bins", "overlapping": "overlap", "by_recompute": "recompute",
}  # fmt: skip
"""Parameters of tables that stand for an option of another name."""


def _arguments(function: Callable[..., Table], options: ReportOptions) -> dict[str, Any]:
    """The options of a report that a table takes: parameters of tables have the names of options."""
    names = {name: _OPTION_OF.get(name, name) for name in inspect.signature(function).parameters}
    given = {name: getattr(options, option, None) for name, option in names.items()}
    return {name: value for name, value in given.items() if value is not None}


def _unified(table: Table, w: Window, o: ReportOptions) -> Table:
    """The table with a note on what has no model, and with what the ops took in the trace that is compared."""
    from tracelens_graph.analyses.performance.roofline_summary import unmodelled_note

    table.notes = [*table.notes, *filter(None, [unmodelled_note(w)])]
    if o.compare_with is None:
        return table
    from tracelens_graph.analyses.alignment.unified_comparison import compared_with, with_comparison

    return with_comparison(table, w, compared_with(w, o.compare_with), o.recompute)


OF_COMPARISON = ("diff_stats",)
"""In a report if `compare_with` is given."""


class Tables(Mapping[str, Table]):
    """The tables of a window under some options; a table that is not in the report can be asked for all the same."""

    def __init__(self, w: Window, options: ReportOptions) -> None:
        self.window = w
        self.options = options
        self._made: dict[str, Table] = {}

    @cached_property
    def _sheets(self) -> dict[str, Table]:
        from tracelens_graph.analyses.performance.perf_sheets import perf_sheets

        o = self.options
        return perf_sheets(
            self.window, arch=o.arch, recompute=o.recompute, by_kernel_count=o.by_kernel_count,
            as_recorded=o.as_recorded,
        )  # fmt: skip

    @cached_property
    def _sets(self) -> dict[str, Table]:
        return extension_table_sets(self.window)

    @property
    def _of_comparison(self) -> tuple[str, ...]:
        return () if self.options.compare_with is None else OF_COMPARISON

    @cached_property
    def _diff_stats(self) -> Table:
        from tracelens_graph.analyses.alignment.unified_comparison import compared_with

        assert self.options.compare_with is not None
        return compared_with(self.window, self.options.compare_with).diff_stats

    @property
    def of_extension(self) -> list[str]:
        """Names of the tables that the extension adds."""
        return [*extension_of(self.window).tables, *self._sets]

    @property
    def built_in(self) -> list[str]:
        """Names of the tables that are in the report whatever the trace holds."""
        return [name for name, when in REPORT.items() if self._is_shown(when)]

    def _is_shown(self, when: str) -> bool:
        if when in ("always", "programs"):
            return when == "always" or bool(self.window.core.programs)
        if when == "host":
            return not len(self.window.gpu_rows)
        value = getattr(self.options, when, None)
        return value is not None and value is not False

    def __getitem__(self, name: str) -> Table:
        if name not in self._made:
            if name in REPORT:
                self._made[name] = self._of_report(name)
            elif name in (extension := extension_of(self.window)).tables:
                self._made[name] = as_table(name, extension.tables[name](self.window), extension.name)
            else:
                if name in self._of_comparison:
                    return self._diff_stats
                return self._sets[name] if name in self._sets else self._sheets[name]
        return self._made[name]

    def _of_report(self, name: str) -> Table:
        home = HOMES[name]
        function = getattr(home.load(), home.function)
        table: Table = function(self.window, **_arguments(function, self.options))
        return _unified(table, self.window, self.options) if name == "unified_perf_summary" else table

    def __iter__(self) -> Iterator[str]:
        sheets = self._sheets if self.options.models else ()
        return chain(self.built_in, sheets, self._of_comparison, self.of_extension)

    def __contains__(self, name: object) -> bool:
        # Unlike that of Mapping it computes no table.
        if name in REPORT:
            return name in self.built_in or (self.options.models and REPORT[str(name)] == "comparison")
        return name in (*self._of_comparison, *self.of_extension) or (self.options.models and name in self._sheets)

    def __len__(self) -> int:
        return sum(1 for _ in self)


def report_tables(g: Core | Window, options: ReportOptions | None = None) -> Tables:
    """The tables of a report.

    Args:
        g: the graph, or a window of it.
        options: what to include; see `ReportOptions`. Rules of the extension for kernels bring their categories.

    Raises:
        ExtensionError: code of the extension fails.
    """
    options = options or ReportOptions()
    w = options.extension.of(g) if options.extension else window_of(g)
    if extension_of(w).kernel_rules:
        options = replace(options, kernel_categories=True)
    return Tables(w, options)
