"""All commands under one roof, and the one place where errors become a line on standard error.

Exit codes: 0 done, 1 the input or the question is no good, 2 wrong usage, 3 a condition of
`--fail-if` is met, 130 interrupted.
"""

from __future__ import annotations

import io
import os
import sys
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from tracelens_graph._version import __version__
from tracelens_graph.cli import (
    ask,
    attribution,
    compare,
    cut,
    db,
    export,
    hints,
    info,
    model,
    modules,
    report,
    roofline,
    save,
    timeline,
    tree,
)
from tracelens_graph.errors import TraceLensGraphError

_CLOSED_PIPE = 141
"""What a shell reports of a program that was ended by a closed pipe."""


class _Commands(TyperGroup):
    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if "--debug" in args:  # wherever it stands
            args = ["--debug", *(arg for arg in args if arg != "--debug")]
        return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        # The programs of this package run one numpy thread: a pool would cost time at the start.
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(errors="backslashreplace")  # a name that the terminal cannot show ends nothing
        hints.remember(self.commands)
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
        except BrokenPipeError:
            # Whoever read our output has seen enough. Python would complain once more when it ends.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(_CLOSED_PIPE) from None
        except KeyboardInterrupt:
            raise typer.Exit(130) from None
        except (TraceLensGraphError, OSError, MemoryError) as error:
            if ctx.params.get("debug"):
                raise
            from tracelens_graph.texts import printable

            typer.echo(f"error: {printable(_one_line(error))}", err=True)
            raise typer.Exit(1) from None
        return result


def _one_line(error: BaseException) -> str:
    if isinstance(error, MemoryError):
        return "out of memory"
    if isinstance(error, OSError) and error.strerror and not isinstance(error, TraceLensGraphError):
        return f"{error.filename}: {error.strerror.lower()}" if error.filename else error.strerror.lower()
    return " ".join(str(error).splitlines())


def _paragraphs(docstring: str | None) -> str:
    """A docstring with one line per paragraph, so that every terminal breaks them where it must."""
    return "\n\n".join(" ".join(part.split()) for part in (docstring or "").split("\n\n"))


app = typer.Typer(
    name="tracelens-graph",
    cls=_Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
COMMANDS = (
    report.report, info.info, tree.tree, modules.modules, timeline.timeline, attribution.attribution, roofline.roofline,
    compare.compare, ask.ask, cut.cut, export.export, save.save,
)  # fmt: skip
for command in COMMANDS:
    app.command(help=_paragraphs(command.__doc__))(command)
app.add_typer(model.app, name="model")
app.add_typer(db.app, name="db")


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"tracelens-graph {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error; may stand anywhere.")] = False,
) -> None:
    """Where did the GPU time go? Profiler traces (PyTorch/Kineto JSON) as graphs.

    A trace is a .json, .json.gz, .json.zst or .zip file, a graph saved earlier, or - for standard input.
    """
