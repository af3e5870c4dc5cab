"""How large the project is: lines, rooms, import circles, options, and what the main path imports.

    .venv/bin/python benchmarks/house.py

Figures, no limits: nothing fails for a number here.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grimp
import networkx as nx
import typer

ROOT = Path(__file__).resolve().parent.parent
PRODUCT = ("tracelens_graph", "loaders", "cypher")

TRACE = """{"traceEvents": [
{"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 1, "dur": 9, "args": {"External id": 1}},
{"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1, "ts": 3, "dur": 2,
 "args": {"correlation": 7, "External id": 1}},
{"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": 12, "dur": 5,
 "args": {"correlation": 7, "External id": 1, "device": 0, "stream": 7}}]}"""

_IMPORTED = """
import sys
sys.argv = ["tracelens-graph", "report", sys.argv[1]]
from tracelens_graph.cli import main
try:
    main()
except SystemExit:
    pass
print(sum(name.partition(".")[0] == "tracelens_graph" for name in sys.modules), file=sys.stderr)
"""


def files_of(folder: Path) -> Iterator[Path]:
    """Python files below a folder; symbolic links are not followed."""
    for path in folder.iterdir():
        if path.is_dir() and not path.is_symlink():
            yield from files_of(path)
        elif path.suffix == ".py" and not path.is_symlink():
            yield path


def lines(*folders: str) -> int:
    """Lines of the Python files below folders of the project."""
    return sum(path.read_bytes().count(b"\n") for folder in folders for path in files_of(ROOT / folder))


def rooms() -> int:
    """Packages directly below tracelens_graph, `loaders` and `cypher` among them."""
    return sum(path.is_dir() and (path / "__init__.py").exists() for path in (ROOT / "tracelens_graph").iterdir())


def circles() -> int:
    """Groups of modules that import one another in a circle; imports for type checkers count."""
    graph = grimp.build_graph("tracelens_graph", exclude_type_checking_imports=False, cache_dir=None)
    imports = nx.DiGraph(
        (one, other) for one in graph.modules for other in graph.find_modules_directly_imported_by(one)
    )
    return sum(len(group) > 1 for group in nx.strongly_connected_components(imports))


def options(command: Any, path: str = "") -> set[tuple[str, str]]:
    """Distinct pairs of a command and an option that its help shows."""
    found = {
        (path, max(one.opts, key=len))
        for one in command.params
        if one.param_type_name == "option" and not getattr(one, "hidden", False)
    }
    for name, below in getattr(command, "commands", {}).items():
        found |= options(below, f"{path} {name}".strip())
    return found


def imported_by_report() -> int:
    """Modules of tracelens_graph that `report` of one trace has imported when it ends."""
    with tempfile.TemporaryDirectory() as folder:
        trace = str(Path(folder) / "trace.json")
        Path(trace).write_text(TRACE)
        done = subprocess.run([sys.executable, "-c", _IMPORTED, trace], capture_output=True, text=True)
    return int(done.stderr.split()[-1])


def main() -> None:
    """Print all figures."""
    from tracelens_graph.cli.app import app

    figures = {
        "lines of Python in the product": lines(*PRODUCT),
        "lines of Python in tests": lines("tests"),
        "modules directly in tracelens_graph": len(list((ROOT / "tracelens_graph").glob("*.py"))),
        "rooms": rooms(),
        "circles of modules that import one another": circles(),
        "options that are shown": len(options(typer.main.get_command(app))),
        "modules that report imports": imported_by_report(),
    }
    for what, figure in figures.items():
        print(f"{figure:>9,}  {what}")


if __name__ == "__main__":
    main()
