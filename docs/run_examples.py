"""Run every example of the documentation and write what it prints below it.

    python docs/run_examples.py [NAME ...]   rewrite README.md and docs/*.md, or only the pages of these names
    python docs/run_examples.py --check      change nothing; end with 1 if a page is out of date

A ```console block holds shell commands (`$ command`), a ```pycon block a dialogue with Python (`>>> statement`), a
```python block statements without output. All Python of a page shares one namespace. Examples run in a folder
that holds `examples/` and the `demo/` that `make demo` writes, so they need nothing else; pages about databases find
an empty one by NEO4J_URI, of a server that is started for them. Seconds, times of day and ports may differ from what
a page shows. The package's own programs run in this process, which saves a start of Python for each of them.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
import tempfile
import traceback
import warnings
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any
from unittest import mock

from pages import CHECKOUT, PAGES, publish

from tracelens_graph.cli.app import app
from tracelens_graph.db.connection import Connection
from tracelens_graph.db.database import Database

_DATABASE = re.compile(r"^(\$ .*tracelens-graph db (?!queries)|>>> .*\bconnect\()", re.MULTILINE)
_VOLATILE = re.compile(r"\d+\.\d s\b|\d{4}-\d\d-\d\dT[\d:]+Z|127\.0\.0\.1:\d+")
_BLOCK = re.compile(r"^```(console|pycon|python)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_OURS = re.compile(
    r"(?P<program>tracelens-graph|python -m (?P<module>tracelens_graph[\w.]*))"
    r"(?P<words>(?: +(?!\d>)(?:'[^']*'|\"[^\"$`\\]*\"|[\w./:=,@%+^-])+)*)"
    r"(?P<rest>| *(?:[|;>&]|\d>).*)"
)
"""One of the package's programs with words that mean nothing to a shell, and what the shell is to do behind it."""

_WIDTH = 100
"""Characters of a line: of commands, and of tables that Python shows at the prompt."""


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
        new = f"```{language}\n{text}```"
        return match[0] if _VOLATILE.sub("", new) == _VOLATILE.sub("", match[0]) else new

    with contextlib.chdir(folder):
        return _BLOCK.sub(renewed, page)


def needs_database(page: str) -> bool:
    """Whether examples of a page talk to a database."""
    return any(_DATABASE.search(block) for _, block in _BLOCK.findall(page))


@contextlib.contextmanager
def server(folder: Path) -> Iterator[Connection]:
    """A Neo4j server of its own in a folder."""
    from tracelens_graph.db.server import jars
    from tracelens_graph.db.server.jars import find_java
    from tracelens_graph.db.server.server import start, stop

    java = find_java()
    started, password = start(folder, java, jars.fetch(java), heap="512m", page_cache="64m")
    try:
        yield Connection(started.uri, password=password or "")
    finally:
        stop(folder)


@contextlib.contextmanager
def empty_database(connection: Connection) -> Iterator[None]:
    """The database without any node, where commands and Python look for it."""
    with Database(connection) as database:
        database.query("MATCH (n) DETACH DELETE n", write=True)
    with mock.patch.dict(os.environ, NEO4J_URI=connection.uri, NEO4J_PASSWORD=connection.password):
        yield


def _commands(text: str) -> Iterator[str]:
    return (line.removeprefix("$ ") for line in text.splitlines() if line.startswith("$ "))


def _shell(command: str, folder: Path) -> str:
    """What a command prints, on both streams."""
    programs = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    environment = {"PATH": programs, "COLUMNS": str(_WIDTH), "NO_COLOR": "1", "TERM": "dumb"}
    code, output = _run(command, folder, environment)
    if code:
        raise ExampleError(f"$ {command}\n{output}ends with {code}")
    return output


def _run(command: str, folder: Path, environment: dict[str, str]) -> tuple[int, str]:
    """Exit code and output of a command."""
    ours = _OURS.fullmatch(command)
    if ours is None:
        run = subprocess.run(
            ["bash", "-c", command],
            cwd=folder,
            env=os.environ | environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        return run.returncode, run.stdout
    rest = ours["rest"]
    apart = re.search(r"(?<!\|)\|(?!\|)|>", rest) is not None
    code, *streams = _in_this_process(ours["module"], shlex.split(ours["words"]), environment, apart)
    if not rest:
        return code, streams[0].decode()
    with tempfile.TemporaryDirectory() as place:
        out, err = (Path(place, name) for name in ("out", "err"))
        out.write_bytes(streams[0])
        err.write_bytes(streams[1])
        return _run(f"{{ cat {err} >&2; cat {out}; (exit {code}); }}{rest}", folder, environment)


def _in_this_process(
    module: str | None, words: list[str], environment: dict[str, str], apart: bool
) -> tuple[int, bytes, bytes]:
    """Exit code and both outputs of a program; unless they are to be apart, all in the first, as on a terminal."""
    out = io.BytesIO()
    err = io.BytesIO() if apart else out
    code = None
    with contextlib.ExitStack() as stack:
        stack.enter_context(mock.patch.dict(os.environ, environment))
        stack.enter_context(mock.patch.object(sys, "stdin", stack.enter_context(open(os.devnull))))
        stack.enter_context(contextlib.redirect_stdout(io.TextIOWrapper(out, "utf-8", write_through=True)))
        stack.enter_context(contextlib.redirect_stderr(io.TextIOWrapper(err, "utf-8", write_through=True)))
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("default")
        try:
            if module is None:
                app(words, prog_name="tracelens-graph")
            else:
                code = import_module(f"{module}.__main__").main(words)
        except SystemExit as end:
            code = end.code
        sys.stdout.flush()
        return int(code or 0), out.getvalue(), b"" if err is out else err.getvalue()


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
    with contextlib.redirect_stdout(printed), mock.patch.dict(os.environ, COLUMNS=str(_WIDTH)):
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
        pages = {page: page.read_text() for page in PAGES if page.name in wanted or not wanted}
        asking = {page: text for page, text in pages.items() if needs_database(text)}
        new = {page: with_outputs(text, Path(folder)) for page, text in pages.items() if page not in asking}
        if asking:
            with server(Path(folder) / "neo4j") as connection:
                for page, text in asking.items():
                    with empty_database(connection):
                        new[page] = with_outputs(text, Path(folder))
        return publish(new)


if __name__ == "__main__":
    sys.exit(main())
