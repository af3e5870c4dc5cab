"""Writes `__init__.pyi` of each package whose names are imported on first use: these names, for type checkers.

python docs/make_stub.py
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import tracelens_graph
from tracelens_graph._lazy import homes_of

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
    return found


def _import(home: str, name: str, package: str) -> tuple[str, str, bool, str]:
    """Module and name of an import, each behind what it is sorted by. A module may stand for itself."""
    module = f"tracelens_graph{package}" if f".{home}" == f"{package}.{name}" else f"tracelens_graph.{home}"
    return module.lower(), module, not name.isupper(), name


if __name__ == "__main__":
    for file, text in stubs().items():
        file.write_text(text)
