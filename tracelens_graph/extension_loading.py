"""Extensions from files and installed packages, with the errors of their code told in one line.

Code of an extension runs because a user names it; nothing in a trace can make that happen.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import wraps
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from traceback import walk_tb
from types import ModuleType, TracebackType
from typing import Any

from tracelens_graph.categories import kernels
from tracelens_graph.errors import ExtensionError
from tracelens_graph.extension import Extension, combined
from tracelens_graph.perf.cost import CannotModel, Cost
from tracelens_graph.perf.model import OpModel
from tracelens_graph.suggest import hint

GROUP = "tracelens_graph.extensions"
"""Group of entry points in which installed packages offer extensions."""

_OBJECT = "extension"
_PACKAGE = str(Path(__file__).parent) + os.sep


def load_extension(source: str | os.PathLike[str]) -> Extension:
    """An extension from a file of the user's, or from an installed package.

    Args:
        source: path of a Python file (a name that ends in `.py`, or has a folder in it), of a TOML file with patterns
            of kernel names (see `categories.kernels.KernelRules.with_file`), or the name of an entry point in the group
            `tracelens_graph.extensions`. A Python file defines `extension`, an `Extension`, or hooks by the names that
            TraceLens gives them (see `compat.hooks`), or both; an entry point leads to an `Extension` or to a module
            of that kind.

    Raises:
        ExtensionError: there is no such extension, or its code fails; the message names file and line.
        AnalysisError: the TOML file cannot be read, or an entry of it is wrong.
    """
    text = os.fspath(source)
    if text.endswith(".toml"):
        rules = kernels.KERNEL_RULES.with_file(text).rules
        return Extension(kernel_rules=rules[: len(rules) - len(kernels.KERNEL_RULES.rules)], name=text)
    if isinstance(source, os.PathLike) or text.endswith(".py") or os.path.basename(text) != text:
        return _from_module(_executed(Path(source)), text)
    there = entry_points(group=GROUP)
    if text not in there.names:
        meant = hint(text, sorted(there.names))
        raise ExtensionError(f"no extension {text!r} is installed (a file's name ends in .py); {meant}")
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
