"""All questions that can be asked of a trace or of several, by name: for Python, the command line, and Cypher.

`QUESTIONS["idle_gaps"](graph, top=5)` is a `Table`, and so is what the query `idle_gaps` gives of the same trace in a
database: where there is a query of a question's name, both have the same rows, and the table all of its columns.

To add a question, write a function of a window (or of `traces`, a `TraceSet`) in a folder of `analyses`, declare its
table beside it, and name it in `tracelens_graph.registry`. A Cypher file of its name in `cypher/` is its twin.
"""

from __future__ import annotations

import builtins
import inspect
import re
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import cached_property
from numbers import Integral, Real
from typing import Any, Literal, get_args, get_origin, get_type_hints

import numpy as np

from tracelens_graph.cypher import Query, library
from tracelens_graph.errors import AnalysisError
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.trace_set import TraceSet
from tracelens_graph.graph.traversals import rows_of_kind
from tracelens_graph.graph.window import Window, narrow, window_of
from tracelens_graph.registry import FIRST, HOMES, RENAMED, THEMES, Home, Renamed, current, schema_of
from tracelens_graph.schema import GPU_KINDS, Kind
from tracelens_graph.tables.table import Column, Table, short_html
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
            AnalysisError: the text is no such value, or between slashes is no regular expression.
        """
        if text in ("", "null") and type(None) in self.types:
            return None
        if re.Pattern in self.types and len(text) > 1 and text[0] == text[-1] == "/":
            try:
                return re.compile(text[1:-1])
            except re.error as error:
                raise AnalysisError(f"{self.name}: {text[1:-1]!r} is no regular expression: {error}") from None
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
            AnalysisError: it is of another type, not a number, or a number of rows or bytes below 0.
        """
        if self.name == STEP or not set(self.types) <= {*_PLAIN, type(None), *self._words}:
            return  # what else there is, the function itself judges
        kinds: dict[type, type] = {bool: bool, Integral: int, Real: float}
        kind = next((plain for one, plain in kinds.items() if isinstance(value, one)), type(value))
        fits = kind in self.types or (kind is int and float in self.types) or (kind is str and value in self._words)
        if kind is float and value != value:  # not a number
            fits = False
        counts = self.name in ("top", "size")
        if not fits or (counts and value is not None and value < 0):
            least = " from 0 on" if counts else ""
            raise AnalysisError(f"{self.name}={value!r:.60}: {self.wanted}{least} is wanted")

    @property
    def _words(self) -> set[Any]:
        """The few texts that it may be, where it is one of these."""
        return {kind for kind in self.types if isinstance(kind, str)}

    @property
    def wanted(self) -> str:
        """What its value may be, in words."""
        words = {int: "a whole number", float: "a number", bool: "true or false", str: "a text", type(None): "null",
                 re.Pattern: "/an expression/"}  # fmt: skip
        kinds = [kind for kind in self.types if kind is not object and (kind is not int or float not in self.types)]
        return " or ".join(words.get(kind, str(kind)) for kind in kinds)


_LACKS: Sequence[tuple[str, Sequence[Kind], Set[str]]] = (
    ("GPU events", GPU_KINDS, {"device", "kernels", "gpu_events", "gpu_time_us", "launches", "forward_us"}),
    ("launches", (Kind.RuntimeCall,), {"launches"}),
    ("ops", (Kind.Op,), {"op", "host_self_us", "forward_calls"}),
    ("modules", (Kind.Module,), {"module_path", "layers"}),
)
"""What a trace may lack, its kinds, and the columns of the questions that have no rows without it."""


@dataclass(frozen=True, repr=False)
class Question:
    """A question and the function that answers it.

    Attributes:
        name: its name, also that of its table and of its query.
        renamed: what it is called now, if the name is an old one.
    """

    name: str
    renamed: Renamed | None = None

    @property
    def _home(self) -> Home:
        return HOMES[self.renamed.name if self.renamed else self.name]

    @property
    def theme(self) -> str:
        """What it is about, in a word."""
        return self._home.theme

    @cached_property
    def function(self) -> Callable[..., Table]:
        """What answers it; imported when it is first needed."""
        found: Callable[..., Table] = getattr(self._home.load(), self._home.function)
        return found

    @cached_property
    def several(self) -> bool:
        """Whether it is asked of several traces."""
        return next(iter(inspect.signature(self.function).parameters)) == "traces"

    @property
    def columns(self) -> Sequence[str] | None:
        """Of several traces, the columns of `schema.STORED` that it reads; None for all."""
        return schema_of(self.name).reads

    @property
    def query(self) -> Query | None:
        """Its twin in Cypher."""
        return library().get(current(self.name))

    @property
    def answers(self) -> str:
        """What it answers, in a sentence."""
        return schema_of(self.name).answers

    @cached_property
    def parameters(self) -> Mapping[str, Parameter]:
        """Its parameters by name: the plain ones of its function."""
        found = {} if self.several else {STEP: Parameter(STEP, (int, type(None)), None)}
        hints = get_type_hints(self.function, localns=_Known(vars(builtins) | self.function.__globals__))
        _, *own = inspect.signature(self.function).parameters.values()
        for one in own:
            types = _types(hints[one.name])
            is_plain = any(kind in _PLAIN or isinstance(kind, str) for kind in types)
            if one.name not in self._given and is_plain and one.default is not inspect.Parameter.empty:
                found[one.name] = Parameter(one.name, types, one.default)
        return found

    @property
    def _given(self) -> Mapping[str, Any]:
        return self.renamed.given if self.renamed else {}

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
            table = self._under_its_name(self.function(traces, **self._given, **parameters))
            table.notes = [*table.notes, *self._remarks(table, traces, parameters)]
            return table
        w = narrow(self._window(given), step=parameters.pop(STEP, None))
        table = self._under_its_name(self.function(w, **self._given, **parameters))
        if not (len(table) or table.notes):
            lacks = [
                word
                for word, kinds, columns in _LACKS
                if columns & table.about.keys() and not len(rows_of_kind(w.core.columns, kinds))
            ]
            table.notes = [f"nothing of this is in the trace, which has no {' and no '.join(lacks)}"] if lacks else []
        return table

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
        if "a" in self.parameters and (note := _pair_note(traces, given)):
            yield note
        if not (len(table) or table.notes) and (note := _why_empty(current(self.name), traces, given)):
            yield note

    def __repr__(self) -> str:
        given = ", ".join(f"{one.name}={one.default!r}" for one in self.parameters.values())
        return f"<Question {self.name}({given}): {self.answers}>"

    def _under_its_name(self, table: Table) -> Table:
        return self.renamed.as_before(self.name, table) if self.renamed else replace(table, name=self.name)


_PLAIN = {int, float, str, bool}


class _Known(dict[str, Any]):
    """Names that hints may hold; those that are imported for checkers alone are no plain types."""

    def __missing__(self, name: str) -> Any:
        return object


def _types(hint: Any) -> tuple[Any, ...]:
    """What a hint allows: plain types, and the words of a Literal."""
    if get_origin(hint) is Literal:
        return get_args(hint)
    if get_origin(hint) is re.Pattern:
        return (re.Pattern,)
    parts = get_args(hint)
    return tuple(one for part in parts for one in _types(part)) if parts else (hint,)


def parameters_of(query: Query) -> Mapping[str, Parameter]:
    """Parameters of a query of the library, or of a statement of its form as far as its defaults show their types.

    A number takes the place of a whole number too, but for a number of rows.
    """
    if query.theme:
        known = QUESTIONS[query.name].parameters if query.name in QUESTIONS else {}
        return {name: one for name, one in known.items() if name in query.parameters}
    found = {}
    for name, default in query.asked.defaults.items():
        if name == STEP and default.kind in (int, type(None)):
            found[name] = Parameter(name, (int, type(None)), None)
        elif default.kind is int and name != TOP:
            found[name] = Parameter(name, (int, float), default.text)
        elif default.kind not in (None, type(None)):
            found[name] = Parameter(name, (default.kind,), default.text)
    return found


_ABOUT_QUESTIONS = {
    "question": Column("its name"),
    "of": Column("whether it is asked of one trace or of several"),
    "answers": Column("what it answers"),
}


class _Questions(Mapping[str, Question]):
    """Questions by name; old names are understood, and a name that none has gets a hint."""

    def __init__(self) -> None:
        self._current = {name: Question(name) for name, home in HOMES.items() if home.is_question}

    def __getitem__(self, name: str) -> Question:
        if name in RENAMED:
            return Question(name, RENAMED[name])
        if name not in self._current:
            raise KeyError(f"there is no question {name!r}; {hint(str(name), self)}")
        return self._current[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._current)

    def __len__(self) -> int:
        return len(self._current)

    def by_theme(self) -> Iterator[Table]:
        """Tables of questions and what they answer: those to begin with, then those of each theme."""
        others = [one for one in self._current.values() if one.name not in FIRST]
        parts = {"Ask first": [self._current[name] for name in FIRST]}
        parts |= {
            f"{title} ({theme})": [one for one in others if one.theme == theme] for theme, title in THEMES.items()
        }
        for title, own in parts.items():
            of = ["several" if one.several else "one" for one in own]
            columns = {"question": [one.name for one in own], "of": of, "answers": [one.answers for one in own]}
            yield Table("questions", columns, _ABOUT_QUESTIONS, title)

    def __repr__(self) -> str:
        return "\n".join(one.text(shutil.get_terminal_size((100, 0)).columns) for one in self.by_theme())

    def _repr_html_(self) -> str:
        return "".join(short_html(one.title, one.columns, one.about, len(one)) for one in self.by_theme())


QUESTIONS = _Questions()
"""All questions by name; `QUESTIONS[name](graph)` is the answer, a `Table`."""


# --- what to say of questions about several traces ---------------------------------------------------------------

_NOTHING = {
    "common_signatures": "no op with the same arguments has GPU time in both traces",
    "kernel_choices": "where both traces ran an op with the same arguments, they ran kernels of the same names",
    "diff_places": "one of the traces has no GPU work",
    "kernel_replacements": "no other kernel took the place of one",
    "layer_differences": "no layer differs, or the traces have none",
    "ops_only_in_one": "both traces have ops of the same names",
}
"""What it means that one of the questions about two traces has no rows."""


def _why_empty(question: str, traces: TraceSet, given: Mapping[str, Any]) -> str:
    """Why a question has no rows; empty if there is nothing to say.

    Args:
        question: its name.
        traces: what it was asked of.
        given: its parameters, as far as they were given.
    """
    if question == "incomplete_traces":
        run = given.get("run")
        asked = [one for one in traces if run in (None, one.run)]
        return f"no file of {len(asked):,} was damaged" if asked else _no_run(traces, str(run))
    return _NOTHING.get(question) or _not_there(traces, given)


def _not_there(traces: TraceSet, given: Mapping[str, Any]) -> str:
    """What of the parameters no trace has; empty where all is there."""
    label, run, named, op = (given.get(name) for name in ("label", "run", "named", "op"))
    keys = sorted({text.partition("=")[0] for one in traces for text in one.labels})
    if label is not None and label not in keys:
        there = f"{hint(label, keys)}" if keys else "the traces have no labels"
        return f"no trace has a label {label!r}; {there}"
    if run is not None and all(one.run != run for one in traces):
        return _no_run(traces, run)
    if named is not None and all(one.name != named for one in traces):
        return f"no trace is called {named!r}; {hint(named, dict.fromkeys(one.name for one in traces))}"
    if op is not None and op not in (ops := {name for one in traces for name in _ops_of(one.core)}):
        return f"no op is called {op!r}; {hint(op, sorted(ops))}"
    return ""


def _ops_of(core: Core) -> Iterator[str]:
    c = core.columns
    return (core.names[code] for code in np.unique(c.name[c.kind == Kind.Op]).tolist())


def _no_run(traces: TraceSet, run: str) -> str:
    runs = [one for one in dict.fromkeys(one.run for one in traces) if one]
    return f"no run is called {run!r}; {hint(run, runs) if runs else 'the traces are of no named run'}"


def _pair_note(traces: TraceSet, given: Mapping[str, Any]) -> str:
    """Which two of more traces are compared where the choice was left open, and how to choose."""
    if len(traces) < 3 or (given.get("a") is not None and given.get("b") is not None):
        return ""
    one, other = traces.pair(given.get("a"), given.get("b"))
    compared = f"of {len(traces):,} traces {other.path} (b) is compared with {one.path} (a)"
    return f"{compared}; the parameters a and b name others"
