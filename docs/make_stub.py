"""Writes `__init__.pyi` of each package whose names are imported on first use, and `questions.pyi` of the methods that
questions are: these names, for type checkers.

python docs/make_stub.py
"""

from __future__ import annotations

import inspect
from importlib import import_module
from pathlib import Path
from typing import Any

import tracelens_graph
from tracelens_graph._lazy import homes_of
from tracelens_graph.nxview import questions
from tracelens_graph.registry import HOMES

PACKAGES = ("", ".categories", ".compat", ".graph", ".linkage", ".perf", ".replay")


def stubs() -> dict[Path, str]:
    """File -> its text, made of the one list of public names in the `__init__.py` beside it."""
    found = {}
    for package in PACKAGES:
        names = import_module(f"tracelens_graph{package}")._NAMES
        imports = sorted(_import(home, name, package) for name, home in homes_of(names).items())
        lines = [f"from {module} import {name} as {name}" for _, module, _, name in imports]
        text = ["# Made by docs/make_stub.py of the list in __init__.py.", "", *lines, "", "__all__: list[str]", ""]
        folder = Path(tracelens_graph.__file__).parent / package.replace(".", "")
        found[folder / "__init__.pyi"] = "\n".join(text)
    found[Path(questions.__file__).with_suffix(".pyi")] = _methods()
    return found


def _methods() -> str:
    """The classes of `nxview/questions.py`, each question with the signature of the function that answers it."""
    classes: list[str] = []
    for of in (questions.OfTrace, questions.OfSet):
        classes += ["", "", f"class {of.__name__}:", f'    """{inspect.getdoc(of)}"""', ""]
        names = [name for name in HOMES if name in vars(of)]
        classes += [line for name in names for line in _method(name, getattr(of, name))]
    return "\n".join((*_HEAD, *classes, "", "SEVERAL: frozenset[str]", ""))


def _method(name: str, function: Any) -> list[str]:
    """A method without a body, and what it answers."""
    shown = ["self"]
    for one in [*inspect.signature(function).parameters.values()][1:]:
        if one.kind is one.KEYWORD_ONLY and "*" not in shown:
            shown.append("*")
        shown.append(f"{one.name}: {one.annotation} = {one.default!r}")
    if not any(one.startswith("top:") for one in shown):
        shown += [*(["*"] if "*" not in shown else []), "top: int = 0"]
    answers = (inspect.getdoc(function) or "").splitlines()[0]
    return [f"    def {name}({', '.join(shown)}) -> Table:", f'        """{answers}"""', ""]


_HEAD = """# Made by docs/make_stub.py of the functions that answer questions.
# fmt: off
# ruff: noqa: E501, I001

import re
from typing import Literal

from tracelens_graph.perf.devices import Architecture
from tracelens_graph.tables.table import Table
""".splitlines()
"""Imports of all that signatures hold."""


def _import(home: str, name: str, package: str) -> tuple[str, str, bool, str]:
    """Module and name of an import, each behind what it is sorted by. A module may stand for itself."""
    module = f"tracelens_graph{package}" if f".{home}" == f"{package}.{name}" else f"tracelens_graph.{home}"
    return module.lower(), module, not name.isupper(), name


if __name__ == "__main__":
    for file, text in stubs().items():
        file.write_text(text)
