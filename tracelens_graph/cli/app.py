"""All commands under one roof."""

from __future__ import annotations

from typing import Annotated

import typer

from tracelens_graph._version import __version__
from tracelens_graph.cli import (
    ask,
    attribution,
    compare,
    cut,
    db,
    diff,
    export,
    info,
    link,
    model,
    modules,
    ranks,
    replay,
    report,
    roofline,
    save,
    tensor,
    timeline,
    tree,
)
from tracelens_graph.cli.outputs import protected
from tracelens_graph.cli.program import Program


def _paragraphs(docstring: str | None) -> str:
    """A docstring with one line per paragraph, so that every terminal breaks them where it must."""
    return "\n\n".join(" ".join(part.split()) for part in (docstring or "").split("\n\n"))


app = typer.Typer(
    name="tracelens-graph",
    cls=Program,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
COMMANDS = (
    report.report, info.info, tree.tree, modules.modules, timeline.timeline, attribution.attribution, roofline.roofline,
    compare.compare, diff.diff, ranks.ranks, link.link, replay.replay, ask.ask, tensor.tensor, cut.cut, export.export,
    save.save,
)  # fmt: skip
for command in COMMANDS:
    app.command(help=_paragraphs(command.__doc__))(protected(command))
# Sizes stand as `--m 5` in commands of earlier versions.
app.command(help=_paragraphs(model.model.__doc__), context_settings={"ignore_unknown_options": True})(model.model)
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

    A trace is a .json, .json.gz, .json.zst or .zip file, a graph saved earlier, or - for standard input. Without a
    command, `tracelens-graph TRACE` is `tracelens-graph report TRACE`.
    """
