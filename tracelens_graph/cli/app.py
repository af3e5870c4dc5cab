"""All commands under one roof; the module of a command is imported when the command is asked for.

Here alone errors become a line on standard error, and `TRACE` alone means `report TRACE`.

Exit codes: 0 done, 1 the input or the question is no good, 2 wrong usage, 3 a condition of `--fail-if` is met,
130 interrupted.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from glob import has_magic
from importlib import import_module
from itertools import islice
from typing import Annotated, Any, ClassVar, NamedTuple, Never

import typer
from typer.core import TyperGroup

from tracelens_graph._version import __version__
from tracelens_graph.cli import hints
from tracelens_graph.cli.ending import INTERRUPTED, unwinding_on_interrupts
from tracelens_graph.cli.options import ANYWHERE, Anywhere, option
from tracelens_graph.errors import NoTimesError, TraceLensGraphError
from tracelens_graph.loaders.sources import GENERIC
from tracelens_graph.utils.suggest import did_you_mean, hint

PANELS = {
    "Start here": ("report", "tree", "modules", "roofline", "diff", "ranks", "cut", "ask"),
    "More": ("info", "explain", "link", "replay", "cypher", "tensor", "split", "export", "save", "model", "skill",
             "mcp", "db"),
}  # fmt: skip
"""The commands, as the help groups them."""

QUESTIONS = {
    "where the GPU's time goes": "report TRACE",
    "why the GPU is idle": "ask idle_causes TRACE",
    "which module takes longest": "modules TRACE",
    "which line launched kernel N": "tree TRACE --uid N --up",
    "how much faster ops could be": "roofline TRACE",
    "what changed between runs": "diff BEFORE AFTER",
    "which rank is late, and why": "ranks FOLDER",
    "what holds the memory": "ask memory_peak TRACE",
    "what was not recorded": "info TRACE",
    "how to hand over one slow op": "replay TRACE --top 1 -o FOLDER",
}
"""What people want to know -> the command, for the end of the help."""

_SHARED = {"info": "tables", "modules": "tables", "tensor": "tables", "save": "export"}
"""Command -> its module, where several have one."""

_GROUPS = {"db"}

HOMES = {
    name: f"tracelens_graph.cli.{_SHARED.get(name, name)}:{'app' if name in _GROUPS else name}"
    for names in PANELS.values()
    for name in names
}
"""Name of a command, or of a group of commands -> its module and what it is there."""

_CLOSED_PIPE = 141
"""What a shell reports of a program that was ended by a closed pipe."""

_UsageError: type[Any] = typer.BadParameter.__mro__[1]
"""Base of typer's errors about wrong usage, which it does not export."""

_DEFAULT = "report"
"""The command that is meant where a trace stands in its place."""


class Earlier(NamedTuple):
    """What asks for a command of earlier versions now.

    Attributes:
        words: the words in place of its name.
        options: its options -> the parameter of the question, with its value where the option had none.
    """

    words: Sequence[str]
    options: Mapping[str, str] = {}

    def now(self, words: Iterable[str]) -> list[str]:
        """The words of today for those that stood behind its name."""
        found, behind = [*self.words], iter(words)
        for word in behind:
            option, _, value = word.partition("=")
            parameter = self.options.get(option)
            if parameter is None:
                found.append(word)
            elif "=" in parameter:
                found += ["--param", parameter]
            else:
                found += ["--param", f"{parameter}={value or next(behind, '')}"]
        return found


class _Commands(Mapping[str, Any]):
    """Commands by name, each imported and made when it is first asked for."""

    def __init__(self, group: Group, others: Mapping[str, Any]) -> None:
        self._group = group
        self._homes = group.homes
        self._made = dict(others)

    def __getitem__(self, name: str) -> Any:
        if name in self._homes and name not in self._made:
            module, _, function = self._homes[name].partition(":")
            self._made[name] = self._command(name, getattr(import_module(module), function))
            panels = self._group.panels.items()
            self._made[name].rich_help_panel = next((panel for panel, names in panels if name in names), None)
        return self._made[name]

    def __contains__(self, name: object) -> bool:
        return name in self._homes or name in self._made

    def __iter__(self) -> Iterator[str]:
        return iter({**self._homes, **self._made})

    def __len__(self) -> int:
        return len({**self._homes, **self._made})

    def _command(self, name: str, function: Callable[..., None] | typer.Typer) -> Any:
        from tracelens_graph.cli.outputs import prepared

        if isinstance(function, typer.Typer):
            group = typer.main.get_command(function)
            group.name = name
            return group
        alone = typer.Typer(add_completion=False)
        # One line per paragraph, so that every terminal breaks them where it must.
        about = "\n\n".join(" ".join(part.split()) for part in (function.__doc__ or "").split("\n\n"))
        of_group = "" if self._group.name == "tracelens-graph" else f" {self._group.name}"
        anywhere = f"Takes {', '.join(self._group.anywhere)}, too: see tracelens-graph{of_group} --help."
        alone.command(name, help=about, epilog=anywhere)(prepared(function))
        return typer.main.get_command(alone)


class Group(TyperGroup):
    """Commands under one name, whose errors all look the same.

    Attributes:
        homes: name -> `module:function` of commands that are imported when they are asked for.
        anywhere: options of the group that may stand behind its commands, too -> whether they have a value.
        earlier: what a command was called in earlier versions -> what asks for it now.
        panels: what the help calls groups of commands -> the commands.
    """

    homes: ClassVar[Mapping[str, str]] = {}
    anywhere: ClassVar[Mapping[str, bool]] = {}
    earlier: ClassVar[Mapping[str, Earlier]] = {}
    panels: ClassVar[Mapping[str, Sequence[str]]] = {}

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = _Commands(self, self.commands)  # type: ignore[assignment]  # it is only read

    def list_commands(self, ctx: Any) -> list[str]:
        """Names of all commands, in their order."""
        return list(self.commands)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Take the options of the group wherever they stand."""
        first: list[str] = []
        others: list[str] = []
        words = iter(args)
        for word in words:
            option, equals, _ = word.partition("=")
            if word == "--":
                others += [word, *words]
                continue
            if option not in self.anywhere:
                others.append(word)
                continue
            first.append(word)
            if self.anywhere[option] and not equals:
                value = list(islice(words, 1))
                if not value or value[0].startswith("--"):
                    ctx.fail(f"option '{option}' requires an argument")
                first += value
        if others and others[0] in self.earlier:
            others = self.earlier[others[0]].now(others[1:])
        ctx.obj = others if ctx.obj is None else ctx.obj
        # Click reads options of a group only before the name of the command.
        return super().parse_args(ctx, first + others)

    def main(self, args: Sequence[str] | None = None, *given: Any, **options: Any) -> Any:
        """Run it; ends the process with its exit code."""
        try:
            code = super().main(args, *given, **{**options, "standalone_mode": False})
        except _UsageError as error:
            _end_with_usage_error(error)
        except typer.Abort:
            _print_error("aborted")
            sys.exit(1)
        sys.exit(code if isinstance(code, int) else 0)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command that is asked for; a wrong name is answered with those that were probably meant."""
        if args[0] not in self.commands:
            ctx.fail(f"there is no command {args[0]!r}; {hint(args[0], self.commands)}")
        return super().resolve_command(ctx, args)


class Program(Group):
    """The whole command line."""

    homes: ClassVar[Mapping[str, str]] = HOMES
    earlier: ClassVar[Mapping[str, Earlier]] = {
        "compare": Earlier(("diff", "--by-name")),
        "timeline": Earlier(
            ("ask", "gpu_timeline"),
            {"--micro-idle": "micro_idle_us", "--linked-only": "linked_only=true", "--recompute": "by_recompute=true"},
        ),
        "attribution": Earlier(("ask", "attribution"), {"--level": "level", "--name": "name"}),
    }
    panels: ClassVar[Mapping[str, Sequence[str]]] = PANELS
    anywhere: ClassVar[Mapping[str, bool]] = {
        "--debug": False,
        "--cache": False,
        "--force": False,
        "--capture": True,
        "--identify": False,
        "--generic": False,
        "--like": True,
        "--memory": True,
    }

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """The help, and below it which command answers what."""
        super().format_help(ctx, formatter)
        lines = (f"   {what:30} tracelens-graph {command}" for what, command in QUESTIONS.items())
        typer.echo("\n".join([" I want to know", *lines, ""]))

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command that is asked for; a trace without one gets its report."""
        if args[0] not in self.commands and _is_trace(args[0], self.commands):
            args = [_DEFAULT, *args]
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Run a command; an error is one line, with a traceback only where `--debug` asks for it."""
        # The programs of this package run one numpy thread: a pool would cost time at the start.
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(errors="backslashreplace")  # a name that the terminal cannot show ends nothing
        try:
            unwinding_on_interrupts()
            result = super().invoke(ctx)
            sys.stdout.flush()
        except BrokenPipeError:
            # Whoever read our output has seen enough. Python would complain once more when it ends.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(_CLOSED_PIPE) from None
        except KeyboardInterrupt:
            raise typer.Exit(INTERRUPTED) from None
        except (TraceLensGraphError, OSError, MemoryError) as error:
            if ctx.params.get("debug"):
                raise
            _print_error(self._advised(error, ctx.obj) if isinstance(error, NoTimesError) else _one_line(error))
            raise typer.Exit(1) from None
        return result

    def _advised(self, error: NoTimesError, words: Sequence[str]) -> str:
        """That an execution trace has no times, and the command that was given for a trace that does."""
        words = words if words[0] in self.commands else [_DEFAULT, *words]
        command = hints.with_profile(words, error.source, self.commands[words[0]].params)
        return f"{error.what}; name the profiler's trace of the same run" + (f": {command}" if command else "")


def _is_trace(word: str, commands: Sequence[str] | Any) -> bool:
    """Whether a word that is no command names a trace: a file or folder, a pattern, or - for standard input."""
    if word == "-" or has_magic(word) or os.path.exists(word):
        return True
    # A path that does not exist is a slip in the path, unless it looks like a command.
    return (os.sep in word or "." in word) and not did_you_mean(word, commands)


def _end_with_usage_error(error: Any) -> Never:
    if type(error).__name__ == "NoArgsIsHelpError":
        error.show()
    else:
        _print_error(_usage_line(error))
    sys.exit(error.exit_code)


def _usage_line(error: Any) -> str:
    """What is wrong with the usage, without a full stop: the option or argument, and why it cannot be taken."""
    parameter = getattr(error, "param", None)
    if isinstance(error, typer.BadParameter) and type(error) is typer.BadParameter:
        place = error.param_hint or (parameter.get_error_hint(error.ctx) if parameter is not None else "")
        names = [place] if isinstance(place, str) else place or []
        where = " / ".join(name.strip("'\"") for name in names).replace("' / '", " / ")
        message = f"{where}: {_begun_small(error.message)}" if where else error.message
    elif meant := _meant(error) or getattr(error, "possibilities", None):
        message = f"no such option: {error.option_name}; did you mean {' or '.join(sorted(meant))}?"
    else:
        message = _begun_small(error.format_message())
    line = _joined(message).removesuffix(".")
    context = getattr(error, "ctx", None)
    if context is not None and not line.endswith("?") and type(error) is not typer.BadParameter:
        line += f" (see {context.command_path} --help)"
    return line


_INSTEAD_OF = {"top": ("--depth", "--min-percent", "--max-lines")}
"""Options of most commands, and what shortens the answer of a command that does not have them."""


def _meant(error: Any) -> list[str]:
    """What is meant by an option that other commands have, or by a format as an option, such as --csv."""
    context, name = getattr(error, "ctx", None), getattr(error, "option_name", "").lstrip("-")
    options = {param.name: param for param in context.command.params} if context is not None else {}
    words = getattr(getattr(options.get("format"), "type", None), "choices", ())
    if name in [getattr(word, "value", word) for word in words]:
        return [f"--format {name}"]
    return [spelled for spelled in _INSTEAD_OF.get(name, ()) if spelled[2:].replace("-", "_") in options]


def _begun_small(text: str) -> str:
    return text[:1].lower() + text[1:] if text[1:2].islower() else text


def _one_line(error: BaseException) -> str:
    if isinstance(error, MemoryError):
        return "out of memory"
    if isinstance(error, OSError) and error.strerror and not isinstance(error, TraceLensGraphError):
        return f"{error.filename}: {error.strerror.lower()}" if error.filename else error.strerror.lower()
    return _joined(str(error))


def _joined(text: str) -> str:
    return " ".join(part.strip() for part in text.splitlines())


def _print_error(text: str) -> None:
    from tracelens_graph.utils.texts import printable

    typer.echo(f"error: {printable(text)}", err=True)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"tracelens-graph {__version__}")
        raise typer.Exit


app = typer.Typer(
    name="tracelens-graph",
    cls=Program,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback()
def options(
    ctx: typer.Context,
    version: Annotated[
        bool, option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
    cache: Annotated[
        bool, option("--cache", help="Keep the loaded graph, so that the next command on this trace is instant.")
    ] = False,
    force: Annotated[
        bool, option("--force", help="Replace files that this tool did not write; never an input.")
    ] = False,
    capture: Annotated[
        list[str] | None,
        option(
            "--capture",
            metavar="FOLDER|FILE",
            help="Captures of the graphs that the trace replays, which give its kernels ops, shapes and modules; may "
            "be given again.",
        ),
    ] = None,
    identify: Annotated[
        bool,
        option(
            "--identify",
            help="Infer what replayed kernels are, from their names and order: layers, and roles such as attention or "
            "expert products.",
        ),
    ] = False,
    like: Annotated[
        str | None,
        option(
            "--like",
            metavar="OTHER",
            help="Identify replayed kernels as in another trace of the model that has ops: eager, of another platform "
            "or batch size, or a capture.",
        ),
    ] = None,
    memory: Annotated[
        str | None,
        option(
            "--memory",
            metavar="SNAPSHOT",
            help="Snapshot of CUDA memory of the same run, as _dump_snapshot writes it, for questions on memory.",
        ),
    ] = None,
    generic: Annotated[
        bool, option("--generic", help="Read events of other tools' Chrome traces as functions of the host.")
    ] = False,
    debug: Annotated[bool, option("--debug", help="Show the traceback of an error.")] = False,
) -> None:
    """Where did the GPU time go? Profiler traces (PyTorch/Kineto JSON) as graphs.

    A trace is a .json, .json.gz, .json.zst or .zip file, a graph saved earlier, or - for standard input.

    Without a command, `tracelens-graph TRACE` is `tracelens-graph report TRACE`.

    --cache, --force, --capture, --identify, --like, --memory, --generic and --debug may also come after the command.
    """
    if generic:  # other processes read traces, too
        os.environ[GENERIC] = "1"
        ctx.call_on_close(lambda: os.environ.pop(GENERIC, None))
    ANYWHERE.set(Anywhere(cache, force, tuple(capture or ()), like or identify, memory or "", generic))
