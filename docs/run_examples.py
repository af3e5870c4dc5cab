"""Run every example of the documentation and write what it prints below it.

    python docs/run_examples.py [NAME ...]   rewrite README.md and docs/*.md, or only the pages of these names
    python docs/run_examples.py --check      change nothing; end with 1 if a page is out of date

A ```console block holds shell commands (`$ command`), a ```pycon block a dialogue with Python (`>>> statement`), a
```python block statements without output. All Python of a page shares one namespace. Examples run in a folder
that holds `examples/` and the `demo/` that `make demo` writes, so they need nothing else.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import subprocess
import sys
import tempfile
import traceback
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pages import CHECKOUT, PAGES, publish

_BLOCK = re.compile(r"^```(console|pycon|python)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_WIDTH = 140


class ExampleError(Exception):
    """A command of the documentation failed."""


def workspace(folder: Path) -> None:
    """Put into a folder what the examples use."""
    (folder / "examples").symlink_to(CHECKOUT / "examples")
    _shell(f"{sys.executable} examples/demo.py", folder)


def with_outputs(page: str, folder: Path) -> str:
    """The text of a page with the outputs that its examples have now.

    Raises:
        ExampleError: a command ends with something else than 0.
    """
    namespace: dict[str, Any] = {"__name__": "__main__"}

    def renewed(match: re.Match[str]) -> str:
        language, text = match.groups()
        if language == "console":
            text = "".join(f"$ {command}\n{_shell(command, folder)}" for command in _commands(text))
        elif language == "pycon":
            text = "".join(_prompted(source) + _prompt(source, namespace) for source in _statements(text))
        else:
            exec(compile(text, "<documentation>", "exec"), namespace)
        return f"```{language}\n{text}```"

    with contextlib.chdir(folder):
        return _BLOCK.sub(renewed, page)


def _commands(text: str) -> Iterator[str]:
    return (line.removeprefix("$ ") for line in text.splitlines() if line.startswith("$ "))


def _shell(command: str, folder: Path) -> str:
    """What a command prints, on both streams."""
    programs = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    environment = os.environ | {"PATH": programs, "COLUMNS": str(_WIDTH), "NO_COLOR": "1", "TERM": "dumb"}
    run = subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if run.returncode:
        raise ExampleError(f"$ {command}\n{run.stdout}ends with {run.returncode}")
    return run.stdout


def _statements(text: str) -> Iterator[str]:
    """Statements behind `>>> ` and `... `; what stands between them is old output."""
    lines: list[str] = []
    for line in [*text.splitlines(), ""]:
        if lines and re.match(r"\.\.\.( |$)", line):
            lines.append(line[4:])
            continue
        if lines:
            yield "\n".join(lines)
        lines = [line[4:]] if line.startswith(">>> ") else []


def _prompted(source: str) -> str:
    return ">>> " + source.replace("\n", "\n... ").replace("... \n", "...\n") + "\n"


def _prompt(source: str, namespace: dict[str, Any]) -> str:
    """What a statement prints at the prompt; of an error, the two lines that matter."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # a page shows what is printed, and they go to standard error
                exec(compile(source + "\n", "<documentation>", "single"), namespace)
        except Exception as error:
            printed.write("Traceback (most recent call last):\n")
            printed.write("".join(traceback.format_exception_only(error)))
    return printed.getvalue()


def main() -> int:
    """Renew the pages, or say which are out of date."""
    with tempfile.TemporaryDirectory(prefix="tracelens_graph-docs-") as folder:
        workspace(Path(folder))
        wanted = {Path(argument).name for argument in sys.argv[1:] if argument != "--check"}
        if unknown := wanted - {page.name for page in PAGES}:
            sys.exit(f"no page is called {', '.join(sorted(unknown))}")
        pages = [page for page in PAGES if page.name in wanted] or PAGES
        return publish({page: with_outputs(page.read_text(), Path(folder)) for page in pages})


if __name__ == "__main__":
    sys.exit(main())
