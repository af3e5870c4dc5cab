"""What users add to reports with code of their own: categories, models, tables, changes of the graph.

    extension = load_extension("my_ext.py")
    report_tables(graph, ReportOptions(extension=extension))

An extension is an object that is passed along. Nothing registers itself anywhere, so analyses in one process never see
each other's. Its code runs because a user names it; nothing in a trace can make that happen.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce, wraps
from importlib.metadata import EntryPoint, entry_points
from itertools import chain, pairwise
from pathlib import Path
from traceback import walk_tb
from types import ModuleType, TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np

from tracelens_graph.analyses.report_tables import TABLES
from tracelens_graph.analyses.time_models import TimeModel
from tracelens_graph.categories import kernels, ops
from tracelens_graph.errors import ExtensionError
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.window import Window, window_of
from tracelens_graph.perf.cost import CannotModel, Cost
from tracelens_graph.perf.model import OpModel
from tracelens_graph.perf.registry import MODELS, sheets
from tracelens_graph.table import Table

if TYPE_CHECKING:
    import pandas as pd

GROUP = "tracelens_graph.extensions"
"""Group of entry points in which installed packages offer extensions."""

_OBJECT = "extension"
_PACKAGE = str(Path(__file__).parent) + os.sep


@dataclass(frozen=True, eq=False)
class Extension:
    """What is added to the analyses.

    Attributes:
        op_rules: what categories of ops are told by, asked before the built-in rules.
        models: op name -> performance model; one of a name that has a model already takes its place.
        kernel_rules: what categories of kernels are told by, asked before the built-in rules.
        tables: name -> function of a window that makes the table.
        table_sets: functions of a window that make several tables, by names that only they know.
        postprocess: function that is given the graph, and returns it or a changed one; see `graph.edited`.
        time_models: predictions of the times of calls, shown beside the roofline.
        name: what messages call it.
        notes: what of its source is not taken, in words.

    Raises:
        ExtensionError: something in it is not what it should be.
    """

    op_rules: ops.Rules = field(default_factory=ops.Rules)
    models: Mapping[str, OpModel] = field(default_factory=dict)
    kernel_rules: Sequence[kernels.KernelRule] = ()
    tables: Mapping[str, Callable[[Window], Table | pd.DataFrame]] = field(default_factory=dict)
    table_sets: Sequence[Callable[[Window], Mapping[str, Table | pd.DataFrame]]] = ()
    postprocess: Callable[[Core], Core] | None = None
    time_models: Sequence[TimeModel] = ()
    name: str = "extension"
    notes: Sequence[str] = ()

    def __post_init__(self) -> None:
        self._check("op_rules", (self.op_rules,), ops.Rules)
        self._check("models", self.models, OpModel)
        self._check("kernel_rules", self.kernel_rules, kernels.KernelRule)
        self._check("time_models", self.time_models, TimeModel)
        self._check("tables", self.tables)
        self._check("table_sets", self.table_sets)
        self._check("postprocess", () if self.postprocess is None else (self.postprocess,))
        for table in self.tables:
            self._check_table(table)
        for pattern in chain.from_iterable((rule.pattern, rule.op) for rule in self.kernel_rules):
            try:
                re.compile(pattern)
            except re.error as error:
                raise ExtensionError(f"{self.name}: {pattern!r} is no regular expression: {error}") from error

    def _check(self, what: str, given: Any, kind: type | None = None) -> None:
        """Check that there are objects of a kind, or functions, and nothing else."""
        if not isinstance(given, Iterable):
            raise ExtensionError(f"{self.name}: {what} is of type {type(given).__name__}")
        for one in given.values() if isinstance(given, Mapping) else given:
            if not (isinstance(one, kind) if kind else callable(one)):
                wanted = kind.__name__ if kind else "function"
                raise ExtensionError(f"{self.name}: {what} holds {one!r:.60}, which is no {wanted}")

    def _check_table(self, table: str) -> None:
        if table in TABLES or table in sheets():
            raise ExtensionError(f"{self.name}: {table} is the name of a built-in table; choose another")

    # --- rules and registries, the built-in ones included --------------------------------------------------------

    @cached_property
    def all_op_rules(self) -> ops.Rules:
        """What categories of ops are told by."""
        return self.op_rules.before(ops.RULES)

    @cached_property
    def all_kernel_rules(self) -> kernels.Rules:
        """What categories of kernels are told by."""
        built_in = kernels.RULES
        own = {rule.category: f"what {self.name} says" for rule in self.kernel_rules}
        return replace(
            built_in,
            rules=(*self.kernel_rules, *built_in.rules),
            categories={**own, **built_in.categories},
        )

    @cached_property
    def all_models(self) -> Mapping[str, OpModel]:
        """All performance models by the names of their ops."""
        return _Behind(self.models, MODELS) if self.models else MODELS

    @property
    def table_names(self) -> list[str]:
        """Names of the tables that a report can have beside the built-in ones, as far as they are known before."""
        own = {sheet for model in self.models.values() for sheet in model.sheets}
        return [*self.tables, *sorted(own - set(sheets()))]

    # --- what it does --------------------------------------------------------------------------------------------

    def processed(self, core: Core) -> Core:
        """The graph as post-processing leaves it; asked once per graph, and never of its own result.

        Raises:
            ExtensionError: what is returned is no graph.
        """
        if self.postprocess is None:
            return core
        memo, key = core.everything.memo, ("processed", id(self))
        if key not in memo:
            made = self.postprocess(core)
            if not isinstance(made, Core):
                raise ExtensionError(f"{self.name}: postprocess has to return a graph, not {type(made).__name__}")
            memo[key] = made.everything.memo[key] = (made, self)  # kept with self, so that its id stays its own
        found: Core = memo[key][0]
        return found

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
            raise ExtensionError(f"the window goes by {w.extension.name} already; give both with combined()")
        core = self.processed(w.core)
        if core is w.core:
            return w.extended(self)
        if w is w.core.everything:
            return core.everything.extended(self)
        if not np.array_equal(core.columns.uid, w.core.columns.uid):
            raise ExtensionError(f"{self.name}: postprocess adds or removes nodes: take windows of processed(graph)")
        return w.extended(self, core)

    def made_table(self, name: str, w: Window) -> Table:
        """One of its tables, made for a window.

        Raises:
            ExtensionError: what its function returns is no table.
        """
        return as_table(name, self.tables[name](w), self.name)

    def made_sets(self, w: Window) -> dict[str, Table]:
        """The tables of all its sets, made for a window.

        Raises:
            ExtensionError: what one returns is no mapping of tables, or has a name that is taken.
        """
        found: dict[str, Table] = {}
        for make in self.table_sets:
            made = make(w)
            if not isinstance(made, Mapping):
                raise ExtensionError(f"{self.name}: tables by name are wanted, not {type(made).__name__}")
            for name, one in made.items():
                if name in found or name in self.tables:
                    raise ExtensionError(f"{self.name}: there are two tables {name}")
                self._check_table(name)
                found[name] = as_table(name, one, self.name)
        return found


class _Behind(Mapping[str, OpModel]):
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
    """Several extensions as one: of rules, the first that matches counts; graphs are processed by one after another.

    Raises:
        ExtensionError: two have a model, a table or a time model of one name.
    """
    every = list(extensions)
    if len(every) == 1:
        return every[0]
    owner: dict[tuple[str, str], str] = {}
    for one in every:
        labels = [model.label for model in one.time_models]
        for what, names in (("model of", one.models), ("table", one.tables), ("time model", labels)):
            for name in names:
                if (what, name) in owner:
                    raise ExtensionError(f"{owner[what, name]} and {one.name} both have a {what} {name}")
                owner[what, name] = one.name
    steps = [one.postprocess for one in every if one.postprocess]
    return Extension(
        op_rules=reduce(ops.Rules.before, [one.op_rules for one in every], ops.Rules()),
        models={op: model for one in every for op, model in one.models.items()},
        kernel_rules=tuple(chain.from_iterable(one.kernel_rules for one in every)),
        tables={name: make for one in every for name, make in one.tables.items()},
        table_sets=tuple(chain.from_iterable(one.table_sets for one in every)),
        postprocess=(lambda core: reduce(lambda graph, step: step(graph), steps, core)) if steps else None,
        time_models=tuple(chain.from_iterable(one.time_models for one in every)),
        name=", ".join(one.name for one in every) or "extension",
        notes=tuple(chain.from_iterable(one.notes for one in every)),
    )


# --- tables ------------------------------------------------------------------------------------------------------


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


# --- loading -----------------------------------------------------------------------------------------------------


def load_extension(source: str | os.PathLike[str]) -> Extension:
    """An extension from a file of the user's, or from an installed package.

    Args:
        source: path of a Python file (a name that ends in `.py`, or has a folder in it), of a TOML file with patterns
            of kernel names (see `categories.kernels.Rules.with_file`), or the name of an entry point in the group
            `tracelens_graph.extensions`. A Python file defines `extension`, an `Extension`, or hooks by the names that
            TraceLens gives them (see `compat.hooks`), or both; an entry point leads to an `Extension` or to a module
            of that kind.

    Raises:
        ExtensionError: there is no such extension, or its code fails; the message names file and line.
        AnalysisError: the TOML file cannot be read, or an entry of it is wrong.
    """
    text = os.fspath(source)
    if text.endswith(".toml"):
        rules = kernels.RULES.with_file(text).rules
        return Extension(kernel_rules=rules[: len(rules) - len(kernels.RULES.rules)], name=text)
    if isinstance(source, os.PathLike) or text.endswith(".py") or os.path.basename(text) != text:
        return _from_module(_executed(Path(source)), text)
    there = entry_points(group=GROUP)
    if text not in there.names:
        known = ", ".join(sorted(there.names)) or "none"
        raise ExtensionError(f"no extension {text!r} is installed (there are: {known}); a file's name ends in .py")
    return _from_entry_point(there[text])


def _executed(path: Path) -> ModuleType:
    """The module that a file defines. Nothing is written, and it is known to no one but who asked for it."""
    try:
        source = path.read_bytes()
    except OSError as error:
        raise ExtensionError(f"{path}: cannot be read: {(error.strerror or str(error)).lower()}") from None
    module = ModuleType(f"tracelens_graph_extension_{path.stem}_{id(source):x}")
    module.__file__ = str(path)
    sys.modules[module.__name__] = module  # where dataclasses look for the names in annotations
    with own_code(str(path)):
        exec(compile(source, str(path), "exec", dont_inherit=True), module.__dict__)
    return module


def _from_entry_point(entry: EntryPoint) -> Extension:
    with own_code(f"{entry.name} ({entry.value})"):
        found = entry.load()
    if isinstance(found, Extension):
        module = sys.modules.get(entry.module)
        return _guarded(replace(found, name=entry.name), getattr(module, "__file__", None) or entry.module)
    if isinstance(found, ModuleType):
        return _from_module(found, entry.name)
    raise ExtensionError(f"{entry.name}: {entry.value} is neither an Extension nor a module")


def _from_module(module: ModuleType, name: str) -> Extension:
    from tracelens_graph.compat.hooks import HOOKS, from_hooks

    file = module.__file__ or name
    parts = []
    own = getattr(module, _OBJECT, None)
    if own is not None:
        if not isinstance(own, Extension):
            raise ExtensionError(f"{file}: {_OBJECT} has to be an Extension, not {type(own).__name__}")
        parts.append(replace(own, name=name))
    if any(hasattr(module, hook) for hook in HOOKS):
        with own_code(file):
            parts.append(from_hooks(module, name))
    if not parts:
        raise ExtensionError(
            f"{file}: registers nothing: it has neither {_OBJECT} = Extension(...) nor {_either(HOOKS)}"
        )
    return _guarded(replace(combined(parts), name=name), file)


def _either(names: Sequence[str]) -> str:
    return ", ".join(names[:-1]) + f" or {names[-1]}"


# --- errors ------------------------------------------------------------------------------------------------------


@contextmanager
def own_code(file: str) -> Iterator[None]:
    """Within it code of the user's own runs: what that raises becomes one line that names file and line.

    Raises:
        ExtensionError: it raised something. That a model does not apply is none of this.
    """
    try:
        yield
    except (ExtensionError, CannotModel):
        raise
    except (Exception, SystemExit) as error:
        raise ExtensionError(_told(error, file)) from error


def _told(error: BaseException, file: str) -> str:
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


def _guarded(extension: Extension, file: str) -> Extension:
    """The extension with every function of its own within `own_code`."""

    def guard(function: Any, returns: type = object) -> Any:
        @wraps(function)
        def call(*given: Any) -> Any:
            with own_code(file):
                found = function(*given)
            if not isinstance(found, returns):
                raise ExtensionError(f"{file}: a {returns.__name__} is wanted of a model, not {found!r:.60}")
            return found

        return call

    def model(one: OpModel) -> OpModel:
        return replace(one, estimate=guard(one.estimate, Cost), backward=one.backward and guard(one.backward, Cost))

    return replace(
        extension,
        models={op: model(one) for op, one in extension.models.items()},
        tables={name: guard(make) for name, make in extension.tables.items()},
        table_sets=tuple(map(guard, extension.table_sets)),
        postprocess=extension.postprocess and guard(extension.postprocess),
        time_models=tuple(replace(one, time_us=guard(one.time_us)) for one in extension.time_models),
    )
