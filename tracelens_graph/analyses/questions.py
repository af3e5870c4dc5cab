"""All questions that can be asked of a trace or of several, by name: one registry for Python, the command line, Cypher.

`QUESTIONS["idle_gaps"](graph, top=5)` is a `Table`, and so is what the query `idle_gaps` gives of the same trace in a
database: where there is a query of a question's name, both have the same rows, and the table all of its columns.

To add a question, write a function of a window (or of a `TraceSet`) that returns a `Table`, declare the table's columns
in `tracelens_graph.schema.tables`, and give it a line here. A Cypher file of its name in `cypher/` is its twin.
"""

from __future__ import annotations

import builtins
import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from numbers import Integral, Real
from typing import Any, Literal, get_args, get_origin, get_type_hints

from tracelens_graph.analyses.ranks import COLUMNS as OF_RANKS
from tracelens_graph.cypher import Query, library
from tracelens_graph.errors import AnalysisError
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.trace_set import TraceSet
from tracelens_graph.graph.window import Window, narrow, window_of
from tracelens_graph.schema.tables import TABLES
from tracelens_graph.tables.table import Table
from tracelens_graph.utils.suggest import hint
from tracelens_graph.utils.texts import whole_number

STEP = "step"
"""A parameter of all questions about one trace: the number of a `ProfilerStep` to look at."""

TOP = "top"
"""A parameter of questions that can have very many rows: how many are given, 0 for all."""


@dataclass(frozen=True)
class Parameter:
    """A parameter of a question.

    Attributes:
        name: its name.
        types: what its value may be; for a few words, the words.
        default: its value where none is given.
    """

    name: str
    types: tuple[Any, ...]
    default: Any

    def read(self, text: str) -> Any:
        """Its value from text, as a command line has it.

        Raises:
            AnalysisError: the text is no such value.
        """
        if text in ("", "null") and type(None) in self.types:
            return None
        for kind in self.types:
            if kind is bool and text.lower() in ("true", "false"):
                return text.lower() == "true"
            if kind is int and (number := whole_number(text)) is not None:
                return number
            if kind in (int, float):
                try:
                    return kind(text)
                except ValueError:
                    continue
            if kind is str or text == kind:
                return text
        raise AnalysisError(f"{self.name}={text}: {self.wanted} is wanted")

    def check(self, value: Any) -> None:
        """Refuse what it cannot be.

        Raises:
            AnalysisError: it is of another type, not a number, or a number of rows below 0.
        """
        if self.name == STEP or not set(self.types) <= {*_PLAIN, type(None), *self._words}:
            return  # what else there is, the function itself judges
        kinds: dict[type, type] = {bool: bool, Integral: int, Real: float}
        kind = next((plain for one, plain in kinds.items() if isinstance(value, one)), type(value))
        fits = kind in self.types or (kind is int and float in self.types) or (kind is str and value in self._words)
        if kind is float and value != value:  # not a number
            fits = False
        if not fits or (self.name == "top" and value is not None and value < 0):
            least = " from 0 on" if self.name == "top" else ""
            raise AnalysisError(f"{self.name}={value!r:.60}: {self.wanted}{least} is wanted")

    @property
    def _words(self) -> set[Any]:
        """The few texts that it may be, where it is one of these."""
        return {kind for kind in self.types if isinstance(kind, str)}

    @property
    def wanted(self) -> str:
        """What its value may be, in words."""
        words = {int: "a whole number", float: "a number", bool: "true or false", str: "a text", type(None): "null"}
        kinds = [kind for kind in self.types if kind is not int or float not in self.types]
        return " or ".join(words.get(kind, str(kind)) for kind in kinds)


@dataclass(frozen=True)
class Question:
    """A question and what answers it.

    Attributes:
        name: its name, also that of its table and of its query.
        theme: what it is about, in a word.
        home: module below `tracelens_graph.analyses`, and function.
        several: whether it is asked of several traces.
        columns: of several traces, the columns of `schema.STORED` that it reads; None for all.
        fixed: arguments that it gives to the function.
    """

    name: str
    theme: str
    home: str
    several: bool = False
    columns: tuple[str, ...] | None = None
    fixed: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def function(self) -> Callable[..., Table]:
        """What answers it; imported when it is first needed."""
        module, _, name = self.home.rpartition(".")
        found: Callable[..., Table] = getattr(import_module(f"tracelens_graph.analyses.{module}"), name)
        return found

    @property
    def query(self) -> Query | None:
        """Its twin in Cypher."""
        return library().get(self.name)

    @property
    def answers(self) -> str:
        """What it answers, in a sentence."""
        return TABLES[self.name].answers if self.name in TABLES else inspect.getdoc(self.function) or ""

    @cached_property
    def parameters(self) -> Mapping[str, Parameter]:
        """Its parameters by name. Those of a query, where it has one; else the plain ones of its function."""
        told = {} if self.several else {STEP: Parameter(STEP, (int, type(None)), None)}
        hints = get_type_hints(self.function, localns=_Known(vars(builtins) | self.function.__globals__))
        _, *own = inspect.signature(self.function).parameters.values()
        for one in own:
            types = _types(hints[one.name])
            is_plain = any(kind in _PLAIN or isinstance(kind, str) for kind in types)
            if one.name not in self.fixed and is_plain and one.default is not inspect.Parameter.empty:
                told[one.name] = Parameter(one.name, types, one.default)
        if self.query:
            return {name: one for name, one in told.items() if name in self.query.parameters}
        return told

    def __call__(self, given: Any, **parameters: Any) -> Table:
        """The answer.

        Args:
            given: a graph, a window of it or a `TraceMember`; for a question about several traces a `TraceSet` or what
                makes one.
            parameters: see `parameters`.

        Raises:
            AnalysisError: it has no such parameter, the trace lacks what it asks for, or the number of traces is wrong.
        """
        for name in parameters:
            if name not in self.parameters:
                raise AnalysisError(f"{self.name} has no parameter {name!r}; {hint(name, self.parameters)}")
            self.parameters[name].check(parameters[name])
        if self.several:
            traces = TraceSet.of(given)
            table = self._named(self.function(traces, **self.fixed, **parameters))
            table.notes = [*table.notes, *self._remarks(table, traces, parameters)]
            return table
        w = narrow(self._window(given), step=parameters.pop(STEP, None))
        return self._named(self.function(w, **self.fixed, **parameters))

    def _window(self, given: Any) -> Window:
        """The window that a question about one trace is asked of; the analysis says whether it needs times."""
        if isinstance(given, Core | Window):
            return window_of(given, needs_times=False)
        traces = TraceSet.of(given)
        if len(traces) != 1:
            raise AnalysisError(f"{self.name} is asked of one trace, not of {len(traces)}")
        return traces[0].window

    def _remarks(self, table: Table, traces: TraceSet, given: Mapping[str, Any]) -> Iterator[str]:
        """Why there are no rows, and which of many traces were taken."""
        from tracelens_graph.analyses.across.empty import pair_note, why_empty

        if "a" in self.parameters and (note := pair_note(traces, given)):
            yield note
        if not (len(table) or table.notes) and (note := why_empty(self.name, traces, given)):
            yield note

    def _named(self, table: Table) -> Table:
        """The table under the question's name; where arguments are fixed, without columns that say nothing then."""
        declared = TABLES[self.name].columns if self.fixed else table.columns
        names = [name for name in table.columns if name in declared]
        about = {name: table.about[name] for name in names}
        return Table(self.name, {name: table[name] for name in names}, about, table.title, table.notes)


_PLAIN = {int, float, str, bool}


class _Known(dict[str, Any]):
    """Names that hints may hold; those that are imported for checkers alone are no plain types."""

    def __missing__(self, name: str) -> Any:
        return object


def _types(hint: Any) -> tuple[Any, ...]:
    """What a hint allows: plain types, and the words of a Literal."""
    if get_origin(hint) is Literal:
        return get_args(hint)
    parts = get_args(hint)
    return tuple(one for part in parts for one in _types(part)) if parts else (hint,)


def parameters_of(query: Query) -> Mapping[str, Parameter]:
    """Parameters of a query of the library, or of a statement of its form as far as its defaults tell their types.

    A number takes the place of a whole number too, but for a number of rows.
    """
    if query.theme:
        return QUESTIONS[query.name].parameters if query.name in QUESTIONS else {}
    told = {}
    for name, default in query.asked.defaults.items():
        if name == STEP and default.kind in (int, type(None)):
            told[name] = Parameter(name, (int, type(None)), None)
        elif default.kind is int and name != TOP:
            told[name] = Parameter(name, (int, float), default.text)
        elif default.kind not in (None, type(None)):
            told[name] = Parameter(name, (default.kind,), default.text)
    return told


def _questions() -> Mapping[str, Question]:
    one = [
        ("timeline", "gpu_timeline", "timeline.timeline.gpu_timeline"),
        ("timeline", "steps", "timeline.steps.step_summary"),
        ("timeline", "step_summary", "timeline.steps.step_summary"),
        ("timeline", "exposed_communication", "timeline.streams.exposed_communication"),
        ("timeline", "coll_analysis", "timeline.collectives.coll_analysis"),
        ("timeline", "idle_gaps", "idle.idle_gaps.idle_gaps"),
        ("timeline", "idle_causes", "idle.idle.idle_causes"),
        ("timeline", "stream_overlap", "timeline.streams.stream_overlap"),
        ("attribution", "ops_summary_by_category", "ops.ops.ops_summary_by_category"),
        ("attribution", "ops_summary", "ops.ops.ops_summary"),
        ("attribution", "ops_unique_args", "ops.ops.ops_unique_args"),
        ("attribution", "kernel_summary", "kernels.kernels.kernel_summary"),
        ("attribution", "unified_perf_summary", "performance.perf_tables.unified_perf_summary"),
        ("attribution", "runtime_summary", "launches.runtime.runtime_summary"),
        ("attribution", "attribution", "places.attribution.attribution"),
        ("attribution", "programs", "ops.programs.programs"),
        ("attribution", "modules", "places.modules.module_times"),
        ("attribution", "gpu_time_under", "places.python_lines.gpu_time_under"),
        ("attribution", "python_lines", "places.python_lines.python_lines"),
        ("attribution", "launch_delay", "launches.launch_delay.launch_delay"),
        ("attribution", "forward_backward", "ops.passes.forward_backward"),
        ("attribution", "unlaunched_gpu_time", "launches.unlinked.unlaunched_gpu_time"),
        ("shapes", "category_shares", "kernels.shares.category_shares"),
        ("shapes", "kernel_category_summary", "kernels.kernel_categories.kernel_category_summary"),
        ("shapes", "kernel_category_detail", "kernels.kernel_categories.kernel_category_detail"),
        ("shapes", "kernels_by_tile", "kernels.shares.kernels_by_tile"),
        ("shapes", "short_kernels", "kernels.short_kernels.short_kernels"),
        ("shapes", "short_kernels_summary", "kernels.short_kernels.short_kernels_summary"),
        ("shapes", "copies", "kernels.copies.copies"),
        ("shapes", "graph_launches", "kernels.graph_launches.graph_launches"),
        ("shapes", "op_signatures", "ops.signatures.op_signatures"),
        ("shapes", "instruction_costs", "ops.instruction_costs.instruction_costs"),
        ("shapes", "modules_of_signature", "ops.signatures.modules_of_signature"),
        ("structure", "repeated_subtrees", "structure.structure.repeated_subtrees"),
        ("structure", "odd_layers", "structure.layers.odd_layers"),
        ("structure", "path_to_python", "structure.structure.path_to_python"),
        ("structure", "unusual_kernels", "structure.structure.unusual_kernels"),
        ("structure", "recomputed_share", "structure.structure.recomputed_share"),
        ("tensors", "storage_kernels", "tensors.storages.storage_kernels"),
        ("tensors", "tensor_makers", "tensors.copies.tensor_makers"),
        ("tensors", "copy_chains", "tensors.copies.copy_chains"),
        ("tensors", "bytes_alive", "tensors.storages.bytes_alive"),
        ("tensors", "peak_bytes_by_module", "tensors.storages.peak_bytes_by_module"),
        ("tensors", "shared_reads", "tensors.storages.shared_reads"),
        ("memory", "memory_summary", "memory.peak.memory_summary"),
        ("memory", "memory_peak", "memory.peak.memory_peak"),
        ("memory", "allocations_by_module", "memory.by_module.allocations_by_module"),
        ("quality", "unlinked", "launches.unlinked.unlinked"),
        ("quality", "outliving_events", "structure.outliving.outliving_events"),
        ("quality", "unmodelled_time", "performance.roofline_summary.unmodelled"),
    ]
    charged = ("argset", "owner", "thread")
    several: list[tuple[str, str, str, tuple[str, ...] | None]] = [
        ("across", "common_signatures", "across.signatures.common_signatures", charged),
        ("across", "kernel_choices", "across.signatures.kernel_choices", charged),
        ("across", "ops_only_in_one", "across.signatures.ops_only_in_one", charged),
        ("across", "divergences", "across.divergences.divergences", None),
        ("across", "kernel_replacements", "across.divergences.kernel_replacements", None),
        ("across", "layer_differences", "across.divergences.layer_differences", None),
        ("across", "run_history", "across.history.run_history", ("device", "stream", "thread")),
        ("across", "collective_spread", "ranks.collective_tables.collective_spread", OF_RANKS),
        ("across", "slowest_ranks", "ranks.rank_tables.slowest_ranks", OF_RANKS),
        ("across", "waits_by_group", "ranks.collective_tables.waits_by_group", OF_RANKS),
        ("across", "path_of_step", "critical_path.job_paths.path_of_step", None),
        ("quality", "incomplete_traces", "across.history.incomplete_traces", ()),
    ]
    fixed: Mapping[str, Mapping[str, Any]] = {"steps": {"top_ops": 0}}
    of_one = {name: Question(name, theme, home, fixed=fixed.get(name, {})) for theme, name, home in one}
    of_several = {name: Question(name, theme, home, True, columns) for theme, name, home, columns in several}
    return _Questions(of_one | of_several)


class _Questions(dict[str, Question]):
    """Questions by name, with a hint for a name that none has."""

    def __missing__(self, name: str) -> Question:
        raise KeyError(f"there is no question {name!r}; {hint(str(name), self)}")


QUESTIONS: Mapping[str, Question] = _questions()
"""All questions by name; `QUESTIONS[name](graph)` is the answer, a `Table`."""
