"""The hooks of TraceLens's extension files, as an extension.

| hook | what is done |
|---|---|
| `op_category_extension` {op: category} | categories of ops |
| `perf_model_extension` {op: class} | performance models; see `perf_classes` |
| `tree_postprocess_extension(tree)` | names and recorded arguments that it writes into events count everywhere |
| `get_additional_dataframes_extension(tree)` | further tables, of the whole trace |
| `dict_cat2names_extension` {category: [op]} | the table and the category of ops, as in older files |

The tree is a `TraceToTree` whose events can be written to. `name` and, in `args`, what was recorded of an op's
arguments are taken into a new graph; keys of the extension's own stay with the event for its other hook. What changes
the tree itself is refused: parents, children, times, events that no trace has.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, MutableMapping
from functools import cached_property
from types import ModuleType
from typing import TYPE_CHECKING, Any

from tracelens_graph.analyses.shared.gpu_work import recorded
from tracelens_graph.categories.ops import OpRules
from tracelens_graph.compat.event import TraceEvent
from tracelens_graph.compat.perf_classes import adapted, category_of, table_of
from tracelens_graph.compat.trace_to_tree import TraceToTree
from tracelens_graph.errors import ExtensionError
from tracelens_graph.extensions.extension import Extension
from tracelens_graph.graph.arguments import ARGUMENTS
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.edited import renamed, with_arguments
from tracelens_graph.graph.node import Node
from tracelens_graph.graph.window import Window, whole_window

if TYPE_CHECKING:
    import pandas as pd

HOOKS = (
    "tree_postprocess_extension",
    "perf_model_extension",
    "op_category_extension",
    "get_additional_dataframes_extension",
    "dict_cat2names_extension",
)
"""Names that TraceLens looks for in an extension file."""

_FIXED = frozenset(
    {"UID", "cat", "children", "cpu_op_root", "dur", "parent", "ph", "pid", "t_end", "tid", "tree", "ts"}
)


def from_hooks(module: ModuleType, name: str) -> Extension:
    """The extension that the hooks in a module make.

    Raises:
        ExtensionError: a hook is not what its name says.
    """
    classes = _mapping(module, "perf_model_extension", name)
    families: dict[str, str] = {}
    for family, ops in _mapping(module, "dict_cat2names_extension", name).items():
        families |= dict.fromkeys(ops, family)
    categories = families | {op: found for op, one in classes.items() if (found := category_of(one))}
    categories |= _mapping(module, "op_category_extension", name)
    for op, category in categories.items():
        if not isinstance(category, str):
            raise ExtensionError(f"{name}: the category of {op} has to be text, not {type(category).__name__}")
    frames = _function(module, "get_additional_dataframes_extension", name)
    change = _function(module, "tree_postprocess_extension", name)
    known = {*HOOKS}
    others = [hook for hook in vars(module) if hook.endswith("_extension") and hook not in known]
    trees = _Trees(change)
    return Extension(
        op_rules=OpRules(names=categories),
        models={op: adapted(op, one, families.get(op) or table_of(one), name) for op, one in classes.items()},
        table_sets=(trees.frames_of(frames),) if frames else (),
        postprocess=trees.changed if change else None,
        name=name,
        notes=[f"{name}: {hook} is not a known hook; it is left out" for hook in others],
    )


def _mapping(module: ModuleType, hook: str, name: str) -> Mapping[str, Any]:
    found = getattr(module, hook, {})
    if not isinstance(found, Mapping):
        raise ExtensionError(f"{name}: {hook} has to be a dictionary, not {type(found).__name__}")
    return found


def _function(module: ModuleType, hook: str, name: str) -> Callable[[TraceToTree], Any] | None:
    found = getattr(module, hook, None)
    if found is not None and not callable(found):
        raise ExtensionError(f"{name}: {hook} has to be a function, not {type(found).__name__}")
    return found


class _Trees:
    """The trees that the hooks of one file are given."""

    def __init__(self, change: Callable[[TraceToTree], Any] | None) -> None:
        self._change = change

    def changed(self, core: Core) -> Core:
        """The graph with what the hook wrote into events."""
        assert self._change is not None
        tree = WritableTree(core)
        self._change(tree)
        after = tree.applied()
        again = WritableTree(after)
        again.written = {row: {key: value for key, value in keys.items() if key not in ("name", "args")}
                         for row, keys in tree.written.items()}  # fmt: skip
        whole_window(after).remember(again, _tree_of, self)
        return after

    def frames_of(self, frames: Callable[[TraceToTree], Any]) -> Callable[[Window], Mapping[str, pd.DataFrame]]:
        """The hook for tables as a function of a window; the tree is that of the whole trace."""

        def made(w: Window) -> Mapping[str, pd.DataFrame]:
            found: Mapping[str, pd.DataFrame] = frames(whole_window(recorded(w.core)).once(_tree_of, self))
            if w.title and isinstance(found, Mapping):
                for frame in found.values():
                    frame.attrs["notes"] = [*frame.attrs.get("notes", ()), f"of the whole trace, not only {w.title}"]
            return found

        return made


def _tree_of(everything: Window, trees: _Trees) -> WritableTree:
    """The tree that the hook for tables is given; `changed` remembers one that keeps what the other hook wrote."""
    return WritableTree(everything.core)


class WritableTree(TraceToTree):
    """A tree whose events can be written to.

    Attributes:
        written: row -> keys of its event that were written, or may have been.
    """

    def __init__(self, core: Core) -> None:
        self.written: dict[int, dict[str, Any]] = {}
        super().__init__(core)

    @cached_property
    def name2event_uids(self) -> dict[str, list[int]]:
        """Name -> UIDs of its events, in file order."""
        found: dict[str, list[int]] = defaultdict(list)
        for event in self.events:
            found[event["name"]].append(event["UID"])
        return found

    def _event(self, row: int) -> TraceEvent:
        return WritableEvent(self, row)

    def applied(self) -> Core:
        """The graph with the names and arguments that were written."""
        core = self.graph
        uid = core.columns.uid.tolist()
        names = {uid[row]: keys["name"] for row, keys in self.written.items() if "name" in keys}
        arguments = {}
        for row, keys in self.written.items():
            if "args" in keys:
                before = Node(core, row).shapes
                new = {part: keys["args"][part] for part in ARGUMENTS if part in keys["args"]}
                if changed := {part: value for part, value in new.items() if before.get(part) != value}:
                    arguments[uid[row]] = changed
        if names:
            core = renamed(core, names)
        return with_arguments(core, arguments) if arguments else core


class WritableEvent(TraceEvent, MutableMapping[str, Any]):
    """A view of an event that keeps what is written to it.

    Raises:
        ExtensionError: a key is written that would change the tree.
    """

    __slots__ = ()

    _tree: WritableTree

    def __getitem__(self, key: str) -> Any:
        keys = self._tree.written.get(self.row, {})
        if key not in keys and key == "args":
            # The arguments may be written to as well, so that they have to stay the same object.
            keys = self._tree.written.setdefault(self.row, keys)
            keys["args"] = super().__getitem__("args")
        return keys[key] if key in keys else super().__getitem__(key)

    def __setitem__(self, key: str, value: Any) -> None:
        if key in _FIXED:
            raise ExtensionError(f"the graph is not to be rebuilt: {key} of an event cannot be changed")
        if key == "name" and not isinstance(value, str):
            raise ExtensionError(f"the name of an event is text, not {type(value).__name__}")
        self._tree.written.setdefault(self.row, {})[key] = value

    def __delitem__(self, key: str) -> None:
        raise ExtensionError(f"keys of events cannot be deleted: {key}")

    def __iter__(self) -> Any:
        own = list(super().__iter__())
        return iter([*own, *(key for key in self._tree.written.get(self.row, {}) if key not in own)])

    def __len__(self) -> int:
        return sum(1 for _ in self)

    __hash__ = TraceEvent.__hash__
    __eq__ = TraceEvent.__eq__
