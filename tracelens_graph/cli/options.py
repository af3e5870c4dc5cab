"""Arguments and options that commands share, each declared once: one name has one meaning.

A parameter of a command whose annotation has a `Group` stands for several options, and gets what is made of them.
"""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tracelens_graph.cli import completing
from tracelens_graph.utils.texts import whole_number

if TYPE_CHECKING:
    from tracelens_graph.graph.core import Core
    from tracelens_graph.perf.devices import Architecture


class Group:
    """Options that stand together on commands.

    Args:
        make: function whose parameters are the options; the command gets what it returns.
        panel: what the help calls them; empty for no panel of their own.
    """

    def __init__(self, make: Callable[..., Any], panel: str = "") -> None:
        self._make = make
        self.panel = panel

    def parameters(self) -> list[inspect.Parameter]:
        """The options."""
        return list(inspect.signature(self._make, eval_str=True).parameters.values())

    def value(self, given: dict[str, Any]) -> Any:
        """What is made of their values.

        Raises:
            typer.BadParameter: they make no sense.
        """
        return self._make(**given)


def option(*spelled: Any, **settings: Any) -> Any:
    """An option whose help does not show its default: most have none to show."""
    return typer.Option(*spelled, show_default=False, **settings)


def finite(value: float | None) -> float | None:
    """A number that is one, as the callback of an option whose limits let `nan` and `inf` pass."""
    if value is not None and not math.isfinite(value):
        raise typer.BadParameter(f"{value} is no number to compare with")
    return value


def argument(**settings: Any) -> Any:
    """An argument whose help does not show its default."""
    return typer.Argument(show_default=False, **settings)


def made_option(name: str, kind: Any, default: Any, *spelled: str, **settings: Any) -> inspect.Parameter:
    """An option that code makes: name, type, default (`...` for none), how it is spelled, and settings of typer."""
    annotation, given = Annotated[kind, option(*spelled, **settings)], {} if default is ... else {"default": default}
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, **given)


@dataclass(frozen=True)
class Anywhere:
    """Options of all commands, which may stand anywhere on the command line.

    Attributes:
        cache: whether the graph of a trace is kept, or taken from where it was kept.
        force: whether files may be replaced that the tool did not write.
        memory: the snapshot of CUDA memory that the trace is joined with; empty for none.
        capture: captures that traces are joined with, as the user named them.
        identify: whether replayed kernels are identified without captures, or the trace that they are like.
        generic: whether events of tools that are not known are read as functions of the host.
    """

    cache: bool = False
    force: bool = False
    capture: tuple[str, ...] = ()
    identify: bool | str = False
    memory: str = ""
    generic: bool = False


ANYWHERE: ContextVar[Anywhere] = ContextVar("anywhere", default=Anywhere())  # noqa: B039 (frozen)


@dataclass(frozen=True)
class Written:
    """Marks an argument or option, in its annotation, that names a folder to write to.

    Attributes:
        is_new: whether it has to be empty or new.
    """

    is_new: bool = False


TO_FOLDER = Written()
TO_NEW_FOLDER = Written(is_new=True)


Layout = StrEnum("Layout", "own tracelens")
"""Whose files and columns are written."""

Noise = StrEnum("Noise", "on off")
"""Whether changes within noise count as none."""

Trace = Annotated[
    str,
    argument(metavar="TRACE", help="Trace file (.json, JAX's .xplane.pb; packed too), saved graph, or - for stdin."),
]
Traces = Annotated[
    list[str], argument(metavar="TRACE...", help="Traces, saved graphs, folders of them, patterns, or - for stdin.")
]
ExecutionTraceFile = Annotated[
    str | None,
    option(
        "--et",
        metavar="FILE",
        help="Execution trace of the same run, for tensors that ops take and make, and arguments that TRACE lacks.",
    ),
]
Names = Annotated[str | None, option(metavar="A,B,...", help="Names of the traces. Default: by file or folder.")]
LinkedOnly = Annotated[bool, option("--linked-only", help="Leave out GPU events whose launch is not in the trace.")]
SchedulerAddress = Annotated[
    str | None,
    option(
        "--scheduler",
        metavar="ADDRESS",
        help="Dask scheduler, such as tcp://node1:8786, whose workers load the traces; they have to see the files.",
    ),
]
Recompute = Annotated[bool, option("--recompute", help="Separate recomputation of activations from everything else.")]
MicroIdle = Annotated[
    float | None,
    option(
        metavar="US",
        min=0,
        callback=finite,
        help="Split idle time into gaps shorter than this many microseconds, and the others.",
    ),
]
Arch = Annotated[
    str | None,
    typer.Option(
        metavar="NAME|FILE|auto",
        autocompletion=completing.devices,
        show_default="auto",
        help="Device for the roofline: a name such as h100-sxm, a file, or auto for that of the trace.",
    ),
]
Extensions = Annotated[
    list[str] | None,
    option(
        "--extension",
        metavar="FILE|NAME",
        help="Python file of yours, TOML file of kernel patterns, or installed extension; may be given again.",
    ),
]
Name = Annotated[
    str | None,
    option(
        metavar="NAME|/REGEX/", help="Only this name; between slashes, names in which the regular expression is found."
    ),
]
TableNames = Annotated[
    list[str] | None,
    option("--table", metavar="NAME", autocompletion=completing.tables, help="Only this table; may be given again."),
]
TableName = Annotated[str | None, option(metavar="NAME", autocompletion=completing.tables, help="Only this table.")]
Top = Annotated[
    int | None, option(metavar="N", min=0, help="Rows of a table; 0 for all. Default: few for people, else all.")
]
Parameters = Annotated[
    list[str] | None,
    option(
        "--param",
        "-p",
        metavar="NAME=VALUE",
        autocompletion=completing.parameters,
        help="A parameter; may be given again.",
    ),
]
FailIf = Annotated[
    list[str] | None,
    option(
        "--fail-if",
        metavar="'FIGURE OP NUMBER'",
        help="End with exit code 3 if this holds (docs/ci-gate.md); may be given again.",
    ),
]
LayoutOption = Annotated[Layout, typer.Option("--layout", help="tracelens: tables and files as TraceLens has them.")]

NoiseOption = Annotated[
    Noise, typer.Option("--noise", help="off: also show, and judge by, changes that are within noise.")
]

NO_ARCH = "none"
"""What `--arch` takes for tables without a roofline."""


def refuse(*combinations: tuple[Any, str]) -> None:
    """Refuse the first of some combinations of options that was given.

    Args:
        combinations: whether one was given, and why that cannot be.

    Raises:
        typer.BadParameter: one was.
    """
    for is_given, why in combinations:
        if is_given:
            raise typer.BadParameter(why)


def check_name(option: str, name: str, known: Any, what: str = "table") -> None:
    """Refuse a name that there is not.

    Raises:
        typer.BadParameter: it is none of those that are known; the message has similar ones.
    """
    if name not in known:
        from tracelens_graph.utils.suggest import hint

        raise typer.BadParameter(f"{option}: there is no {what} {name!r}; {hint(name, known)}")


# --- what values mean ------------------------------------------------------------------------------------------------

_TIME = re.compile(
    r"\s*(?P<number>(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d*)?(?:e[+-]?\d{1,2})?)\s*(?P<unit>ns|us|µs|μs|ms|s|min|)\s*",
    re.IGNORECASE | re.ASCII,
)
_NS = {"ns": 1, "": 1_000, "ms": 10**6, "s": 10**9, "min": 60 * 10**9}
_LIMIT_NS = 2**62


def to_ns(text: str, option: str) -> int:
    """A time as a user writes it, in ns; commas between thousands are allowed, as tables print them.

    Args:
        text: a number with the unit ns, us, ms, s or min; without a unit, us.
        option: the option it was given to, for the message.

    Raises:
        typer.BadParameter: it is no such time, or longer than a century.
    """
    match = _TIME.fullmatch(text)
    if match is None:
        raise typer.BadParameter(f"{option}: {text!r} is no time; write 5ms, 200us, 1.5s or a number of microseconds")
    ns = Decimal(match["number"].replace(",", "")) * _NS.get(match["unit"].lower(), 1_000)
    if ns >= _LIMIT_NS:
        raise typer.BadParameter(f"{option}: {text!r} is longer than a century")
    return int(ns.to_integral_value())


def to_uid(text: str, option: str) -> int:
    """A uid as a user writes it.

    Raises:
        typer.BadParameter: it is none.
    """
    uid = whole_number(text)
    if uid is None:
        raise typer.BadParameter(f"{option}: {text!r} is no uid, a whole number from 0")
    return uid


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


def as_written(name: Any) -> str:
    """A name, an expression as `name_wanted` reads it, or a number."""
    return f"/{name.pattern}/" if isinstance(name, re.Pattern) else str(name)


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
        raise AnalysisError(
            f"no roofline: {found}; name a device with --arch (tracelens-graph model architectures lists them)"
        )
    return found
