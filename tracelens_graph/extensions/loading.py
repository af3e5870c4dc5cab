"""Extensions from files and installed packages, with the errors of their code in one line.

Code of an extension runs because a user names it; nothing in a trace can make that happen.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import ModuleType

from tracelens_graph.categories import kernels
from tracelens_graph.errors import ExtensionError
from tracelens_graph.extensions.extension import Extension, combined, user_code
from tracelens_graph.utils.suggest import hint

GROUP = "tracelens_graph.extensions"
"""Group of entry points in which installed packages offer extensions."""

_OBJECT = "extension"


def load_extension(source: str | os.PathLike[str]) -> Extension:
    """An extension from a user's file or an installed package.

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
    with user_code(str(path)):
        exec(compile(source, str(path), "exec", dont_inherit=True), module.__dict__)
    return module


def _from_entry_point(entry: EntryPoint) -> Extension:
    with user_code(f"{entry.name} ({entry.value})"):
        found = entry.load()
    if isinstance(found, Extension):
        module = sys.modules.get(entry.module)
        return replace(found, name=entry.name).guarded(getattr(module, "__file__", None) or entry.module)
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
        with user_code(file):
            parts.append(from_hooks(module, name))
    if not parts:
        raise ExtensionError(
            f"{file}: registers nothing: it has neither {_OBJECT} = Extension(...) nor {_either(HOOKS)}"
        )
    return replace(combined(parts), name=name).guarded(file)


def _either(names: Sequence[str]) -> str:
    return ", ".join(names[:-1]) + f" or {names[-1]}"
