"""All commands under one roof; the module of a command is imported when the command is asked for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar

import typer

from tracelens_graph._version import __version__
from tracelens_graph.cli.options import ANYWHERE, Anywhere, option
from tracelens_graph.cli.program import Program

_COMMANDS = (
    "report", "info", "tree", "modules", "timeline", "attribution", "roofline", "compare", "diff", "ranks", "link",
    "replay", "ask", "tensor", "cut", "export", "save", "model",
)  # fmt: skip
_SHARED = {"info": "tables", "modules": "tables", "timeline": "tables", "attribution": "tables", "tensor": "tables",
           "save": "export"}  # fmt: skip
"""Command -> its module, where several have one."""

HOMES = {
    **{name: f"tracelens_graph.cli.{_SHARED.get(name, name)}:{name}" for name in _COMMANDS},
    "db": "tracelens_graph.cli.db:app",
}
"""Name of a command, or of a group of commands -> its module and what it is there."""


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"tracelens-graph {__version__}")
        raise typer.Exit


class _Program(Program):
    homes: ClassVar[Mapping[str, str]] = HOMES
    lenient = frozenset({"model"})  # sizes were options of it
    anywhere: ClassVar[Mapping[str, bool]] = dict.fromkeys(("--debug", "--cache", "--force"), False)


app = typer.Typer(
    name="tracelens-graph",
    cls=_Program,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback()
def options(
    version: Annotated[
        bool, option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
    cache: Annotated[
        bool, option("--cache", help="Keep the loaded graph, so that the next command on this trace is instant.")
    ] = False,
    force: Annotated[
        bool, option("--force", help="Replace files that this tool did not write; never an input.")
    ] = False,
    debug: Annotated[bool, option("--debug", help="Show the traceback of an error.")] = False,
) -> None:
    """Where did the GPU time go? Profiler traces (PyTorch/Kineto JSON) as graphs.

    A trace is a .json, .json.gz, .json.zst or .zip file, a graph saved earlier, or - for standard input. Without a
    command, `tracelens-graph TRACE` is `tracelens-graph report TRACE`. --cache, --force and --debug may stand behind
    the command, too.
    """
    ANYWHERE.set(Anywhere(cache, force))
