"""How large the project is: lines, rooms, import circles, options, and what `report` imports.

python benchmarks/house.py
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grimp
import networkx as nx
import typer

from tracelens_graph.cli.app import app

CHECKOUT = Path(__file__).resolve().parents[1]
TRACE = CHECKOUT / "examples/traces"
_IMPORTED = """
import sys
from tracelens_graph.cli import main
sys.argv = ["tracelens-graph", "report", sys.argv[1]]
try:
    main()
except SystemExit:
    pass
print("MODULES", sum(name.split(".")[0] == "tracelens_graph" for name in sys.modules))
"""


def lines(*folders: str) -> int:
    """Raw lines of Python below folders; symlinks are not followed."""
    return sum(len(path.read_bytes().splitlines()) for folder in folders for path in python_files(CHECKOUT / folder))


def python_files(folder: Path) -> Iterator[Path]:
    """The Python files below a folder."""
    for path in sorted(folder.iterdir()):
        if path.is_dir() and not path.is_symlink():
            yield from python_files(path)
        elif path.suffix == ".py":
            yield path


def options(command: Any) -> int:
    """Options that the help of a command and of those below it lists, each counted once per command."""
    own = sum(not one.hidden for one in command.params if one.param_type_name == "option")
    return own + sum(map(options, getattr(command, "commands", {}).values()))


def circles() -> int:
    """Groups of modules that import each other, imports for type checkers counted."""
    imports = grimp.build_graph("tracelens_graph", cache_dir=None)
    edges = ((one, other) for one in imports.modules for other in imports.find_modules_directly_imported_by(one))
    return sum(len(found) > 1 for found in nx.strongly_connected_components(nx.DiGraph(edges)))


def imported_by_report(trace: Path) -> int:
    """Modules of the package that a report of a trace imports."""
    run = subprocess.run(
        [sys.executable, "-c", _IMPORTED, str(trace)], cwd=CHECKOUT, capture_output=True, text=True, check=True
    )
    return int(run.stdout.rpartition("MODULES")[2])


def main() -> None:
    """Print a figure a line."""
    package = CHECKOUT / "tracelens_graph"
    rooms = [one for one in package.iterdir() if (one / "__init__.py").exists()]
    trace = min(TRACE.rglob("*.json*"))
    for name, figure in {
        "lines of Python in the product": lines("tracelens_graph", "loaders", "cypher"),
        "lines of Python in tests": lines("tests"),
        "modules on top": len([*package.glob("*.py")]),
        "rooms": len(rooms),
        "import circles": circles(),
        "options": options(typer.main.get_command(app)),
        "modules that report imports": imported_by_report(trace),
    }.items():
        print(f"{figure:>8,}  {name}")


if __name__ == "__main__":
    main()
