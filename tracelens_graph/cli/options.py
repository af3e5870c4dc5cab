"""Arguments and options that commands share, each declared once: one name has one meaning."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from tracelens_graph.extensions.extension import Extension
    from tracelens_graph.graph.core import Core
    from tracelens_graph.perf.devices import Architecture


@dataclass(frozen=True)
class Written:
    """Marks an argument or option, in its annotation, that says where a command writes to.

    `protected` in `outputs` finds it there: what stands there is protected, and the command has `--force`, unless it
    writes to a new folder.

    Attributes:
        suffixes: what names of its files end with; a name with the suffix of another format is refused. None where the
            command itself tells the format by the suffix.
        is_file, is_folder: what it can be.
        is_new: whether it has to be empty or new.
    """

    suffixes: tuple[str, ...] | None = None
    is_file: bool = True
    is_folder: bool = False
    is_new: bool = False


TO_FOLDER = Written(is_file=False, is_folder=True)
TO_NEW_FOLDER = Written(is_file=False, is_folder=True, is_new=True)


class Format(StrEnum):
    """How a table is written."""

    table = "table"
    csv = "csv"
    json = "json"
    md = "md"


class Layout(StrEnum):
    """Whose files and columns are written."""

    own = "own"
    tracelens = "tracelens"


Trace = Annotated[
    str,
    typer.Argument(
        metavar="TRACE",
        show_default=False,
        help="Trace file (.json, JAX's .xplane.pb; packed too), saved graph, or - for stdin.",
    ),
]

Traces = Annotated[
    list[str],
    typer.Argument(
        metavar="TRACE...", show_default=False, help="Traces, saved graphs, folders of them, patterns, or - for stdin."
    ),
]

ExecutionTraceFile = Annotated[
    str | None,
    typer.Option(
        "--et",
        metavar="FILE",
        show_default=False,
        help="Execution trace of the same run: what ops were given and made, and arguments that TRACE lacks.",
    ),
]

FormatOption = Annotated[
    Format, typer.Option("--format", "-f", help="table for people; csv and json with all digits; md for a page.")
]

CsvFolder = Annotated[
    Path | None,
    typer.Option("--csv", metavar="DIR", show_default=False, help="Write every table to DIR/NAME.csv."),
    TO_FOLDER,
]

JsonFile = Annotated[
    Path | None,
    typer.Option("--json", metavar="FILE", show_default=False, help="Write the findings and all tables as JSON."),
    Written((".json",)),
]

MarkdownFile = Annotated[
    Path | None,
    typer.Option(
        "--markdown", metavar="FILE", show_default=False, help="Write the findings and the key tables as Markdown."
    ),
    Written((".md", ".markdown")),
]

Names = Annotated[
    str | None,
    typer.Option(metavar="A,B,...", show_default=False, help="What to call the traces; else by file or folder."),
]

LinkedOnly = Annotated[
    bool, typer.Option("--linked-only", help="Leave out GPU events whose launch is not in the trace.")
]

CacheOption = Annotated[
    bool, typer.Option("--cache", help="Keep the loaded graph, so that the next command on this trace is instant.")
]

SchedulerAddress = Annotated[
    str | None,
    typer.Option(
        "--scheduler",
        metavar="ADDRESS",
        show_default=False,
        help="Dask scheduler, such as tcp://node1:8786, whose workers load the traces; they have to see the files.",
    ),
]

Recompute = Annotated[bool, typer.Option("--recompute", help="Tell recomputation of activations from the rest.")]

MicroIdle = Annotated[
    float | None,
    typer.Option(
        metavar="US",
        min=0,
        show_default=False,
        help="Split idle time into gaps shorter than this many microseconds, and the others.",
    ),
]

Arch = Annotated[
    str | None,
    typer.Option(
        metavar="NAME|FILE|auto",
        show_default="auto",
        help="Device for the roofline: a name such as h100-sxm, a file, or auto for that of the trace.",
    ),
]

Extensions = Annotated[
    list[str] | None,
    typer.Option(
        "--extension",
        metavar="FILE|NAME",
        show_default=False,
        help="Python file of yours, TOML file of kernel patterns, or installed extension; may be given again.",
    ),
]

Name = Annotated[
    str | None,
    typer.Option(
        metavar="NAME|/REGEX/",
        show_default=False,
        help="Only this name; between slashes, names in which the regular expression is found.",
    ),
]

TableNames = Annotated[
    list[str] | None,
    typer.Option("--table", metavar="NAME", show_default=False, help="Print only this table; may be given again."),
]
TableName = Annotated[str | None, typer.Option(metavar="NAME", show_default=False, help="Print only this table.")]

NO_ARCH = "none"
"""What `--arch` takes for tables without a roofline."""


def name_wanted(name: str | None, option: str = "--name") -> str | re.Pattern[str] | None:
    """What names to look for: exactly one, or those in which a regular expression between slashes is found.

    Raises:
        typer.BadParameter: between the slashes is no regular expression.
    """
    if name is None or len(name) < 2 or not (name[0] == name[-1] == "/"):
        return name
    try:
        return re.compile(name[1:-1])
    except re.error as error:
        raise typer.BadParameter(f"{option}: {name[1:-1]!r} is no regular expression: {error}") from None


def as_written(name: str | re.Pattern[str]) -> str:
    """A name or an expression as `name_wanted` reads it."""
    return name if isinstance(name, str) else f"/{name.pattern}/"


def architecture_named(arch: str | None) -> Architecture | None:
    """The device that `--arch` names; None for that of the trace."""
    if arch is None or arch == "auto":
        return None
    from tracelens_graph.perf.devices import architecture

    return architecture(arch)


def architecture_of(core: Core, arch: Architecture | None) -> Architecture:
    """The device that was named, else the one that a trace was recorded on.

    Raises:
        AnalysisError: it is not known; the message says why.
    """
    from tracelens_graph.errors import AnalysisError
    from tracelens_graph.perf.devices import detect

    found = arch or detect(core.info.metadata.get("deviceProperties"))
    if isinstance(found, str):
        raise AnalysisError(f"no roofline: {found}; name a device with --arch")
    return found


def extension_of(sources: list[str] | None, tell: bool = True) -> Extension | None:
    """What the user's extensions add up to; None without any.

    Args:
        sources: what `--extension` was given.
        tell: warn of what is odd about them; not where every process of several loads them.
    """
    if not sources:
        return None
    from tracelens_graph.cli.traces import warn
    from tracelens_graph.extensions.extension import combined
    from tracelens_graph.extensions.loading import load_extension

    extension = combined(map(load_extension, sources))
    if tell:
        warn(extension.notes)
    return extension
