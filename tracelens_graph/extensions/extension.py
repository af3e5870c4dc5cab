"""What users add to analyses: categories, models, tables, changes of the graph, ways to call ops again, as plain data.

    extension = Extension(models={"my::op": OpModel(estimate, "GEMM")})
    unified_perf_summary(extension.of(graph))

An extension is passed along with a window, and analyses read their rules and models from the window. Nothing registers
itself anywhere, so two analyses in one process never see each other's. `extension_loading` reads extensions from files.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property, partial, reduce, wraps
from importlib import import_module
from itertools import chain
from pathlib import Path
from traceback import walk_tb
from types import TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np

from tracelens_graph.categories import ops
from tracelens_graph.errors import ExtensionError
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.window import Window, whole_window, window_of
from tracelens_graph.registry import REPORT

if TYPE_CHECKING:
    import pandas as pd

    from tracelens_graph.categories.kernels import KernelRule, KernelRules
    from tracelens_graph.perf.model import OpModel, TimeModel
    from tracelens_graph.tables.table import Table

_KINDS = {
    "models": ("tracelens_graph.perf.model", "OpModel"),
    "time_models": ("tracelens_graph.perf.model", "TimeModel"),
}
"""Attribute -> module and name of what it holds; imported where something is held, as most reports need none."""
_OF_FUNCTIONS = ("models", "tables", "table_sets", "postprocess", "time_models")
_MOST_WORK = 2**63
_PACKAGE = str(Path(__file__).parents[1]) + os.sep


@contextmanager
def user_code(file: str) -> Iterator[None]:
    """Within it code of the user's own runs: what that raises becomes one line that names file and line.

    Raises:
        ExtensionError: it raised something. That a model does not apply is none of this.
    """
    try:
        yield
    except ExtensionError:
        raise
    except (Exception, SystemExit) as error:
        from tracelens_graph.perf.cost import CannotModel

        if isinstance(error, CannotModel):
            raise
        raise ExtensionError(_in_one_line(error, file)) from error


def _in_one_line(error: BaseException, file: str) -> str:
    text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    if isinstance(error, SyntaxError) and error.filename == file:
        return f"{file}:{error.lineno}: {type(error).__name__}: {error.msg}"
    place = _place(error.__traceback__, file)
    return f"{place}: {text}"


def _place(traceback: TracebackType | None, file: str) -> str:
    """The innermost line of a file that an error passed, else the innermost outside of this package."""
    frames = [(frame.f_code.co_filename, line) for frame, line in walk_tb(traceback)]
    inside = [line for name, line in frames if name == file]
    if inside:
        return f"{file}:{inside[-1]}"
    outside = [(name, line) for name, line in frames if not name.startswith(_PACKAGE)]
    return f"{file}: {outside[-1][0]}:{outside[-1][1]}" if outside else file


def guarded(function: Callable[..., Any], name: str, file: str | None = None, returns: type = object) -> Any:
    """The function within `user_code`.

    Args:
        function: a function; one of this package stays as it is unless a file is given.
        name: what messages call it where it names no file.
        file: the file that it comes from; by default the one that it is written in.
        returns: what it has to return.
    """
    written = getattr(getattr(function, "__code__", None), "co_filename", "")
    if file is None and written.startswith(_PACKAGE):
        return function
    shown_file = file or written or name

    @wraps(function)
    def call(*given: Any) -> Any:
        with user_code(shown_file):
            found = function(*given)
        if not isinstance(found, returns):
            raise ExtensionError(f"{shown_file}: a {returns.__name__} is wanted of a model, not {found!r:.60}")
        for what in ("flops", "bytes", "link_bytes") if returns is not object else ():
            value = getattr(found, what)
            if value is not None and not (isinstance(value, int | float | np.integer) and 0 <= value < _MOST_WORK):
                raise ExtensionError(f"{shown_file}: {what} of a Cost is a number from 0 on, not {value!r:.60}")
        return found

    return call


_MODULE = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*", re.ASCII)
_SCHEMA = re.compile(r"([A-Za-z_]\w*(?:::[A-Za-z_]\w*)+)(?:\.\w+)?\(.*\) *-> *\S.*", re.ASCII | re.DOTALL)
_OPTION = re.compile(r"[a-z_]+")


@dataclass(frozen=True)
class Replayer:
    """What a program needs to call a custom operation again.

    Attributes:
        schema: its schema, as `torch.library` or `TORCH_LIBRARY` registers it:
            `acme::scaled_mm(Tensor a, Tensor b, float scale=1.0) -> Tensor`.
        imports: modules that register it when they are imported; a program imports them before it calls.
        fills: argument -> what tensors given for it hold, in the words of programs: `{"fill": "integers", "high": 8}`.
            Without an entry they hold what their type and name suggest.

    Raises:
        ExtensionError: the schema is none, or something else is not a name.
    """

    schema: str
    imports: Sequence[str] = ()
    fills: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.schema, str) or not _SCHEMA.fullmatch(self.schema.strip()):
            raise ExtensionError(f"{self.schema!r:.100} is no schema: acme::op(Tensor x) -> Tensor is one")
        if isinstance(self.imports, str):
            raise ExtensionError(f"imports is a list of modules, not the text {self.imports!r:.60}")
        for module in self.imports:
            if not is_module(module):
                raise ExtensionError(f"{module!r:.60} is not the name of a module")
        for argument, options in self.fills.items():
            if not isinstance(options, Mapping) or not all(_OPTION.fullmatch(str(option)) for option in options):
                raise ExtensionError(f"{argument} is filled by a mapping such as {{'fill': 'normal'}}: {options!r:.60}")

    @property
    def schemas(self) -> tuple[str, ...]:
        """The schemas by which it may have been called."""
        return (self.schema,)

    @property
    def op(self) -> str:
        """Name of the operation, with its namespace and without its overload."""
        found = _SCHEMA.fullmatch(self.schema.strip())
        assert found is not None
        return found[1]


def is_module(text: object) -> bool:
    """Whether a text is the dotted name of a module, and nothing else."""
    return isinstance(text, str) and _MODULE.fullmatch(text) is not None


TableMaker = Callable[[Window], "Table | pd.DataFrame"]
TableSetMaker = Callable[[Window], "Mapping[str, Table | pd.DataFrame]"]


@dataclass(frozen=True, eq=False)
class Extension:
    """Rules, models and tables that a user adds to the analyses.

    Attributes:
        op_rules: what categories of ops are known by, asked before the built-in rules.
        models: op name -> performance model; one of a name that has a model already takes its place.
        kernel_rules: what categories of kernels are known by, asked before the built-in rules.
        tables: name -> function of a window that makes the table.
        table_sets: functions of a window that make several tables, by names that only they know.
        postprocess: function that is given the graph, and returns it or a changed one; see `graph.edited`.
        time_models: predictions of the times of calls, shown beside the roofline.
        replayers: op name -> how it is called again, for ops whose schema PyTorch does not have.
        registry: the models that `models` is added to; None for all built-in ones, `{}` for none.
        name: what messages call it.
        notes: what of its source is not taken, in words.

    An error in one of the functions comes out as an `ExtensionError` that names file and line, with the original error
    as its cause; only `CannotModel`, by which a model says that it does not apply, is none.

    Raises:
        ExtensionError: something in it is not what it should be.
    """

    op_rules: ops.OpRules = field(default_factory=ops.OpRules)
    models: Mapping[str, OpModel] = field(default_factory=dict)
    kernel_rules: Sequence[KernelRule] = ()
    tables: Mapping[str, TableMaker] = field(default_factory=dict)
    table_sets: Sequence[TableSetMaker] = ()
    postprocess: Callable[[Core], Core] | None = None
    time_models: Sequence[TimeModel] = ()
    replayers: Mapping[str, Replayer] = field(default_factory=dict)
    registry: Mapping[str, OpModel] | None = None
    name: str = "extension"
    notes: Sequence[str] = ()

    def __post_init__(self) -> None:
        self._check("op_rules", (self.op_rules,), ops.OpRules)
        for what, home in _KINDS.items():
            self._check(what, getattr(self, what), home)
        self._check("replayers", self.replayers, Replayer)
        self._check("tables", self.tables)
        self._check("table_sets", self.table_sets)
        self._check("postprocess", () if self.postprocess is None else (self.postprocess,))
        for table in self.tables:
            self.check_table_name(table)
        for op, replayer in self.replayers.items():
            if op != replayer.op:
                raise ExtensionError(f"{self.name}: the replayer of {op} has the schema of {replayer.op}")
        self._check_kernel_rules()
        if any(getattr(self, what) for what in _OF_FUNCTIONS):
            for attribute, value in self._guarded(None).items():
                object.__setattr__(self, attribute, value)

    def guarded(self, file: str) -> Extension:
        """The extension with errors of its functions raised as those of a file."""
        return replace(self, **self._guarded(file))

    def _guarded(self, file: str | None) -> dict[str, Any]:
        """The attributes that hold functions; each function raises nothing but errors that say where."""
        from tracelens_graph.perf.cost import Cost

        guard = partial(guarded, name=self.name, file=file)

        def model(one: OpModel) -> OpModel:
            estimate = guard(one.estimate, returns=Cost)
            return replace(one, estimate=estimate, backward=one.backward and guard(one.backward, returns=Cost))

        return {
            "models": {op: model(one) for op, one in self.models.items()},
            "tables": {name: guard(make) for name, make in self.tables.items()},
            "table_sets": tuple(map(guard, self.table_sets)),
            "postprocess": self.postprocess and guard(self.postprocess),
            "time_models": tuple(replace(one, time_us=guard(one.time_us)) for one in self.time_models),
        }

    def _check(self, what: str, given: Any, home: type | tuple[str, str] | None = None) -> None:
        """Check that there are objects of a kind, or functions, and nothing else."""
        if not isinstance(given, Iterable):
            raise ExtensionError(f"{self.name}: {what} is of type {type(given).__name__}")
        kind: Any = getattr(import_module(home[0]), home[1]) if isinstance(home, tuple) and given else home
        for one in given.values() if isinstance(given, Mapping) else given:
            if not (isinstance(one, kind) if kind else callable(one)):
                wanted = kind.__name__ if kind else "function"
                raise ExtensionError(f"{self.name}: {what} holds {one!r:.60}, which is no {wanted}")

    def _check_kernel_rules(self) -> None:
        if isinstance(self.kernel_rules, Sequence) and not self.kernel_rules:
            return
        # Rules of kernels take time to import, and most reports need none.
        from tracelens_graph.categories.kernels import KernelRule

        self._check("kernel_rules", self.kernel_rules, KernelRule)
        for pattern in chain.from_iterable((rule.pattern, rule.op) for rule in self.kernel_rules):
            try:
                re.compile(pattern)
            except re.error as error:
                raise ExtensionError(f"{self.name}: {pattern!r} is no regular expression: {error}") from error

    def check_table_name(self, table: str) -> None:
        """Refuse the name of a built-in table.

        Raises:
            ExtensionError: the name is taken.
        """
        from tracelens_graph.perf.registry import sheets

        if table in REPORT or table in sheets():
            raise ExtensionError(f"{self.name}: {table} is the name of a built-in table; choose another")

    # --- rules and registries, the built-in ones included --------------------------------------------------------

    @cached_property
    def all_op_rules(self) -> ops.OpRules:
        """What categories of ops are known by."""
        return self.op_rules.before(ops.OP_RULES) if self.op_rules != ops.OpRules() else ops.OP_RULES

    @cached_property
    def all_kernel_rules(self) -> KernelRules:
        """What categories of kernels are known by."""
        from tracelens_graph.categories.kernels import KERNEL_RULES

        if not self.kernel_rules:
            return KERNEL_RULES
        own = {rule.category: f"what {self.name} says" for rule in self.kernel_rules}
        return replace(
            KERNEL_RULES, rules=(*self.kernel_rules, *KERNEL_RULES.rules), categories={**own, **KERNEL_RULES.categories}
        )

    @cached_property
    def all_models(self) -> Mapping[str, OpModel]:
        """All performance models by the names of their ops."""
        from tracelens_graph.perf.registry import MODELS

        behind = MODELS if self.registry is None else self.registry
        return _Behind(self.models, behind) if self.models else behind

    @property
    def table_names(self) -> list[str]:
        """Names of the tables that a report can have beside the built-in ones, as far as they are known before."""
        from tracelens_graph.perf.registry import sheets

        own = {sheet for model in self.models.values() for sheet in model.sheets}
        return [*self.tables, *sorted(own - set(sheets()))]

    # --- graphs and windows under it -----------------------------------------------------------------------------

    def processed(self, core: Core) -> Core:
        """The graph as post-processing leaves it; asked once per graph, and never of its own result.

        Raises:
            ExtensionError: what is returned is not a graph.
        """
        return core if self.postprocess is None else whole_window(core).once(_processed, self)

    def of(self, g: Core | Window) -> Window:
        """A graph, or a window of it, as analyses see it that go by the extension.

        Raises:
            ExtensionError: post-processing changes which nodes there are, so that a window has to be taken afterwards;
                or the window goes by another extension.
        """
        w = window_of(g)
        if w.extension is self:
            return w
        if w.extension is not None:
            raise ExtensionError(f"the window goes by {extension_of(w).name} already; give both with combined()")
        core = self.processed(w.core)
        if w is whole_window(w.core):
            return whole_window(core).extended(self).whole
        if core is not w.core and not np.array_equal(core.columns.uid, w.core.columns.uid):
            raise ExtensionError(f"{self.name}: postprocess adds or removes nodes: take windows of processed(graph)")
        return w.moved_to(core).extended(self)


def _processed(everything: Window, extension: Extension) -> Core:
    assert extension.postprocess is not None
    made = extension.postprocess(everything.core)
    if not isinstance(made, Core):
        raise ExtensionError(f"{extension.name}: postprocess has to return a graph, not {type(made).__name__}")
    whole_window(made).remember(made, _processed, extension)
    return made


NO_EXTENSION = Extension(name="")
"""What analyses go by where nothing is added."""


def extension_of(w: Window) -> Extension:
    """What analyses of a window go by: its extension, or one that adds nothing."""
    if w.extension is None:
        return NO_EXTENSION
    assert isinstance(w.extension, Extension)
    return w.extension


class _Behind(Mapping[str, "OpModel"]):
    """Two registries, the second asked where the first knows nothing; neither is gone through before it has to be."""

    def __init__(self, first: Mapping[str, OpModel], second: Mapping[str, OpModel]) -> None:
        self._first = first
        self._second = second

    def __getitem__(self, name: str) -> OpModel:
        return self._first[name] if name in self._first else self._second[name]

    def __iter__(self) -> Iterator[str]:
        return chain(self._first, (name for name in self._second if name not in self._first))

    def __len__(self) -> int:
        return sum(1 for _ in self)


def combined(extensions: Iterable[Extension]) -> Extension:
    """Several extensions as one: the first matching rule counts, and each processes the graph in turn.

    Raises:
        ExtensionError: two have a model, a table, a time model or a replayer of one name, or replace the built-in
            models.
    """
    every = list(extensions)
    if len(every) == 1:
        return every[0]
    registries = [one.registry for one in every if one.registry is not None]
    if len(registries) > 1:
        raise ExtensionError("only one of several extensions can replace the built-in models")
    owner: dict[tuple[str, str], str] = {}
    for one in every:
        labels = [model.label for model in one.time_models]
        own = (("model of", one.models), ("table", one.tables), ("time model", labels), ("replayer of", one.replayers))
        for what, names in own:
            for name in names:
                if (what, name) in owner:
                    raise ExtensionError(f"{owner[what, name]} and {one.name} both have a {what} {name}")
                owner[what, name] = one.name
    steps = [one.postprocess for one in every if one.postprocess]
    return Extension(
        op_rules=reduce(ops.OpRules.before, [one.op_rules for one in every], ops.OpRules()),
        models={op: model for one in every for op, model in one.models.items()},
        kernel_rules=tuple(chain.from_iterable(one.kernel_rules for one in every)),
        tables={name: make for one in every for name, make in one.tables.items()},
        table_sets=tuple(chain.from_iterable(one.table_sets for one in every)),
        postprocess=(lambda core: reduce(lambda graph, step: step(graph), steps, core)) if steps else None,
        time_models=tuple(chain.from_iterable(one.time_models for one in every)),
        replayers={op: replayer for one in every for op, replayer in one.replayers.items()},
        registry=registries[0] if registries else None,
        name=", ".join(one.name for one in every) or "extension",
        notes=tuple(chain.from_iterable(one.notes for one in every)),
    )
