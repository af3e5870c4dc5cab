"""What commands write is opened by `files.replacing`; here every command with an output gets the protection for it."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterator, Mapping
from functools import wraps
from glob import glob, has_magic
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.models import ArgumentInfo

from tracelens_graph.cli.options import Written
from tracelens_graph.files import Protection, is_stdout, protecting

Force = Annotated[bool, typer.Option("--force", help="Replace files that this tool did not write; never an input.")]


def protected(command: Callable[..., None]) -> Callable[..., None]:
    """A command that overwrites nothing of the user's, with the option `--force`; as it is if it writes nothing.

    What it reads is told by its arguments: whatever names a file that exists, or is a pattern, and is no output.
    """
    parameters = list(inspect.signature(command, eval_str=True).parameters.values())
    outputs = {p.name: mark for p in parameters if (mark := written(p))}
    if not outputs:
        return command
    replaces = Written.OUTPUT in outputs.values()
    if replaces:
        force = inspect.Parameter("force", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=Force)
        parameters.append(force)

    @wraps(command)
    def run(**given: Any) -> None:
        protection = Protection(
            inputs=tuple(
                path for p in parameters if p.name in given.keys() - outputs for path in _named(p, given[p.name])
            ),
            force=given.pop("force", False),
        )
        _check(
            protection,
            {n: given[n] for n, mark in outputs.items() if mark is Written.OUTPUT and given[n] is not None},
        )
        with protecting(protection):
            command(**given)

    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {p.name: p.annotation for p in parameters}
    return run


def written(parameter: inspect.Parameter) -> Written | None:
    """Whether a parameter of a command says where it writes to."""
    marks = getattr(parameter.annotation, "__metadata__", ())
    return next((mark for mark in marks if isinstance(mark, Written)), None)


def say_written(text: str, output: Path) -> None:
    """Say what was written; nothing where it went to standard output itself."""
    from tracelens_graph.texts import printable

    if not is_stdout(output):
        typer.echo(printable(text))


def size_of(output: Path) -> str:
    """The size of a file that was written, with a comma before it; nothing for what is no file."""
    if not output.is_file():
        return ""
    size = output.stat().st_size
    return f", {size / 1e6:,.1f} MB" if size >= 1e5 else f", {size / 1e3:,.1f} kB"


def _check(protection: Protection, outputs: Mapping[str, Path]) -> None:
    """Refuse outputs before anything large is read; files of a folder are checked when their names are known."""
    seen: dict[str, str] = {}
    for name, output in outputs.items():
        if is_stdout(output) or not os.path.isdir(output):
            place = "-" if is_stdout(output) else os.path.realpath(output)
            if other := seen.get(place):
                raise typer.BadParameter(f"--{other} and --{name} name one file")
            seen[place] = name
        if is_stdout(output):
            continue
        for other, folder in outputs.items():
            if other != name and Path(os.path.realpath(folder)) in Path(os.path.realpath(output)).parents:
                raise typer.BadParameter(f"--{name} names a file in the folder that --{other} writes to")
        if os.path.isdir(output):
            protection.check_folder(output)
        else:
            protection.check(output)


def _named(parameter: inspect.Parameter, value: Any) -> Iterator[str]:
    """Files and folders that the value of a parameter names."""
    may_be_pattern = any(isinstance(mark, ArgumentInfo) for mark in getattr(parameter.annotation, "__metadata__", ()))
    for one in value if isinstance(value, list | tuple) else [value]:
        if one == "-" and may_be_pattern:
            yield "-"
        elif isinstance(one, str | Path) and os.path.exists(one) and not is_stdout(one):
            yield str(one)
        elif isinstance(one, str) and may_be_pattern and has_magic(one):
            yield from glob(one, recursive=True)
