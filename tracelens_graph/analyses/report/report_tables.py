"""The tables of a report by name, each computed when it is first asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Any

from tracelens_graph.analyses.kernels.kernels import kernel_summary
from tracelens_graph.analyses.kernels.short_kernels import short_kernel_histogram, short_kernels_summary
from tracelens_graph.analyses.launches.runtime import runtime_summary
from tracelens_graph.analyses.ops.ops import ops_summary, ops_summary_by_category, ops_unique_args
from tracelens_graph.analyses.questions import QUESTIONS
from tracelens_graph.analyses.report.extension_tables import extension_table, extension_table_sets
from tracelens_graph.analyses.timeline.collectives import coll_analysis
from tracelens_graph.analyses.timeline.steps import step_summary
from tracelens_graph.analyses.timeline.timeline import gpu_timeline
from tracelens_graph.extensions.extension import extension_of
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.window import Window, window_of
from tracelens_graph.tables.table import Table

if TYPE_CHECKING:
    from tracelens_graph.extensions.extension import Extension
    from tracelens_graph.perf.devices import Architecture


@dataclass(frozen=True)
class ReportOptions:
    """What a report contains beside the default.

    Attributes:
        linked_only: tables of ops and the timeline leave out GPU events whose launch is not in the trace (and the
            tables of ops communication), as TraceLens does.
        micro_idle_us: split idle time into gaps shorter than this and the others.
        short_kernels_us: add the tables of kernels shorter than this.
        histogram_bins: bins of the histogram of short kernels.
        overlap: kernels that run beside an op on other streams.
        first_occurrence: when an op was first called with its arguments.
        call_stack: modules around an op, and the line of Python that it comes from.
        recompute: tell recomputation of activations from the rest.
        by_kernel_count: tell calls with different numbers of GPU events apart.
        by_module: tell the innermost module around an op.
        kernel_categories: tell what kernels do by their names, and add the tables of that.
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
    recompute: bool = False
    by_kernel_count: bool = False
    by_module: bool = False
    kernel_categories: bool = False
    models: bool = True
    arch: Architecture | None = None
    compare_with: Window | None = None
    extension: Extension | None = None

    def said(self) -> dict[str, Any]:
        """The options as plain values, for documents."""
        values = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in _OBJECTS}
        names = {
            "arch": self.arch and self.arch.name,
            "compare_with": self.compare_with and self.compare_with.core.info.source,
            "extension": self.extension and self.extension.name,
        }
        return values | names


_OBJECTS = ("arch", "compare_with", "extension")
"""Options that are no plain values."""


def _unique_args(w: Window, o: ReportOptions) -> Table:
    return ops_unique_args(
        w, o.linked_only, first_occurrence=o.first_occurrence, call_stack=o.call_stack, overlapping=o.overlap,
        recompute=o.recompute, by_kernel_count=o.by_kernel_count, by_module=o.by_module,
    )  # fmt: skip


def _unified(w: Window, o: ReportOptions) -> Table:
    # The models are many, and a report without them need not import them.
    from tracelens_graph.analyses.performance.perf_tables import unified_perf_summary
    from tracelens_graph.analyses.performance.roofline_summary import unmodelled_note

    table = unified_perf_summary(
        w, o.linked_only, arch=o.arch, recompute=o.recompute, call_stack=o.call_stack
    )  # fmt: skip
    table.notes = [*table.notes, *filter(None, [unmodelled_note(w)])]
    if o.compare_with is None:
        return table
    from tracelens_graph.analyses.alignment.unified import compared_with, with_comparison

    return with_comparison(table, w, compared_with(w, o.compare_with), o.recompute)


def _work(w: Window, o: ReportOptions) -> Table:
    from tracelens_graph.analyses.performance.work_summary import work_summary

    return work_summary(w)


def _histogram(w: Window, o: ReportOptions) -> Table:
    return short_kernel_histogram(w, _threshold(o), o.histogram_bins)


def _threshold(o: ReportOptions) -> float:
    return 10.0 if o.short_kernels_us is None else o.short_kernels_us


def _op_tables(table: Callable[..., Table]) -> Callable[[Window, ReportOptions], Table]:
    return lambda w, o: table(w, o.linked_only, recompute=o.recompute, by_module=o.by_module, call_stack=o.call_stack)


def _asked(name: str) -> Callable[[Window, ReportOptions], Table]:
    """A table without options, whose module is imported when someone asks for it."""
    return lambda w, o: QUESTIONS[name].function(w)


_OF_MEMORY = ("memory_summary", "memory_peak", "allocations_by_module")
"""In no report, as few traces have allocations."""

TABLES: Mapping[str, Callable[[Window, ReportOptions], Table]] = {
    "gpu_timeline": lambda w, o: gpu_timeline(w, o.linked_only, o.micro_idle_us, o.recompute),
    "ops_summary_by_category": _op_tables(ops_summary_by_category),
    "ops_summary": _op_tables(ops_summary),
    "ops_unique_args": _unique_args,
    "kernel_summary": lambda w, o: kernel_summary(w, o.kernel_categories),
    "kernel_category_detail": _asked("kernel_category_detail"),
    "kernel_category_summary": _asked("kernel_category_summary"),
    "unified_perf_summary": _unified,
    "work_summary": _work,
    "coll_analysis": lambda w, o: coll_analysis(w),
    "runtime_summary": lambda w, o: runtime_summary(w),
    "step_summary": lambda w, o: step_summary(w),
    "programs": _asked("programs"),
    "short_kernel_histogram": _histogram,
    "idle_causes": _asked("idle_causes"),
    "short_kernels_summary": lambda w, o: short_kernels_summary(w, _threshold(o), o.linked_only),
    **{name: _asked(name) for name in _OF_MEMORY},
}
"""Name -> how the table is made; all of `schema.tables.REPORT_TABLES`, in that order."""

_SHORT_KERNELS = ("short_kernel_histogram", "short_kernels_summary")
"""In a report if `short_kernels_us` is given."""

_KERNEL_CATEGORIES = ("kernel_category_detail", "kernel_category_summary")
"""In a report if `kernel_categories` is set."""

_OF_MODELS = ("unified_perf_summary",)
"""In a report if `models` is set, beside the tables by family."""

OF_COMPARISON = ("diff_stats",)
"""In a report if `compare_with` is given."""

_BY_NAME_ONLY = ("idle_causes",)
"""In no report: its verdict says what they say."""


_OF_JAX = ("programs",)
"""In a report on a profile of JAX that holds programs."""

_FOR_COMPARISONS = ("work_summary",)
"""In no report, but there for comparisons of runs, if `models` is set."""


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
        return perf_sheets(self.window, arch=o.arch, recompute=o.recompute, by_kernel_count=o.by_kernel_count)

    @cached_property
    def _sets(self) -> dict[str, Table]:
        return extension_table_sets(self.window)

    @property
    def _of_comparison(self) -> tuple[str, ...]:
        return () if self.options.compare_with is None else OF_COMPARISON

    @cached_property
    def _diff_stats(self) -> Table:
        from tracelens_graph.analyses.alignment.unified import compared_with

        assert self.options.compare_with is not None
        return compared_with(self.window, self.options.compare_with).diff_stats

    @property
    def of_extension(self) -> list[str]:
        """Names of the tables that the extension adds."""
        return [*extension_of(self.window).tables, *self._sets]

    @property
    def built_in(self) -> list[str]:
        """Names of the tables that are in the report whatever the trace holds."""
        o = self.options
        hidden = {*_BY_NAME_ONLY, *_OF_MEMORY, *_FOR_COMPARISONS}
        hidden |= set(() if o.short_kernels_us is not None else _SHORT_KERNELS)
        hidden |= set(() if o.kernel_categories else _KERNEL_CATEGORIES)
        hidden |= set(() if o.models else _OF_MODELS)
        hidden |= set(() if self.window.core.programs else _OF_JAX)
        return [name for name in TABLES if name not in hidden]

    def __getitem__(self, name: str) -> Table:
        if name not in self._made:
            if name in TABLES:
                self._made[name] = TABLES[name](self.window, self.options)
            elif name in extension_of(self.window).tables:
                self._made[name] = extension_table(self.window, name)
            else:
                if name in self._of_comparison:
                    return self._diff_stats
                return self._sets[name] if name in self._sets else self._sheets[name]
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        sheets = self._sheets if self.options.models else ()
        return chain(self.built_in, sheets, self._of_comparison, self.of_extension)

    def __contains__(self, name: object) -> bool:
        # Unlike that of Mapping it computes no table.
        if name in TABLES:
            return name in self.built_in or (self.options.models and name in _FOR_COMPARISONS)
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
