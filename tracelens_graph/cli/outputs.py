"""What commands write is opened by `files.replacing`; here every command with an output gets the protection for it."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterator, Mapping
from copy import copy
from functools import wraps
from glob import glob, has_magic
from pathlib import Path
from typing import Annotated, Any, get_args

import typer
from typer.models import ArgumentInfo, OptionInfo, ParameterInfo

from tracelens_graph.cli.ending import printed_messages_only
from tracelens_graph.cli.options import Written
from tracelens_graph.errors import OutputError
from tracelens_graph.output.files import Protection, is_stdout, protecting

_OUTPUT = "output"
"""The parameter of `-o`, which takes a file of any format that the command writes."""

Force = Annotated[bool, typer.Option("--force", help="Replace files that this tool did not write; never an input.")]


_FORMATS = {
    ".csv": "CSV", ".json": "JSON", ".md": "Markdown", ".markdown": "Markdown", ".xlsx": "an Excel workbook",
    ".html": "a page", ".htm": "a page", ".png": "a picture", ".svg": "a picture", ".jpg": "a picture",
    ".pdf": "a PDF document", ".tlg": "a saved graph", ".graphml": "GraphML", ".parquet": "Parquet",
    ".folded": "folded stacks",
    ".gz": "a compressed file", ".zst": "a compressed file", ".zip": "an archive",
}  # fmt: skip
"""Suffixes that tell a format."""


def protected(command: Callable[..., None], acts: bool = False) -> Callable[..., None]:
    """A command that overwrites nothing of the user's, with the option `--force` if it writes.

    What it reads is told by its arguments: whatever names a file that exists, or is a pattern, and is no output.

    Args:
        command: the command.
        acts: it does something elsewhere, so what it prints are messages.
    """
    parameters = list(inspect.signature(command, eval_str=True).parameters.values())
    outputs = {p.name: mark for p in parameters if (mark := written(p))}
    if not outputs and not acts:
        return command
    formats = _by_suffix(outputs)
    parameters = [_with_name_checked(p, outputs[p.name]) if p.name in outputs else p for p in parameters]
    if formats:
        parameters = [_hidden(p) if p.name in formats.values() else p for p in parameters if p.name != _OUTPUT]
        parameters.append(_output(formats, own=outputs.get(_OUTPUT)))
    if any(not mark.is_new for mark in outputs.values()):
        force = inspect.Parameter("force", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=Force)
        parameters.append(force)

    @wraps(command)
    def run(**given: Any) -> None:
        if formats:
            given |= _placed(given.pop(_OUTPUT), formats, given, outputs.get(_OUTPUT))
        named = {name: given[name] for name in outputs if given[name] is not None}
        protection = Protection(
            inputs=tuple(
                path for p in parameters if p.name in given.keys() - outputs for path in _named(p, given[p.name])
            ),
            force=given.pop("force", False),
        )
        _check(protection, {name: (path, outputs[name]) for name, path in named.items()})
        with protecting(protection):
            command(**given)
        if acts or (named and not any(map(is_stdout, named.values()))):
            printed_messages_only()

    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {p.name: p.annotation for p in parameters}
    return run


def _by_suffix(outputs: Mapping[str, Written]) -> dict[str, str]:
    """Suffix -> the output of a command that has the format, the first where several have; packed files have none."""
    formats: dict[str, str] = {}
    for name, mark in outputs.items():
        suffixes = mark.suffixes or ()
        if name != _OUTPUT and not {".gz", *formats} & {*suffixes}:
            formats |= dict.fromkeys(suffixes, name)
    return formats


def _hidden(parameter: inspect.Parameter) -> inspect.Parameter:
    """An option that help does not list; `-o` has its place."""
    path, *marks = get_args(parameter.annotation)
    marks = [copy(one) for one in marks]
    for one in marks:
        if isinstance(one, OptionInfo):
            one.hidden = True
    return parameter.replace(annotation=Annotated[path, *marks])


def _output(formats: Mapping[str, str], own: Written | None) -> inspect.Parameter:
    """The option `-o` of a command that writes several formats."""
    usual = [next(suffix for suffix in formats if formats[suffix] == name) for name in dict.fromkeys(formats.values())]
    pictures = [".png", ".svg"] if own else []
    option = typer.Option(
        "--output", "-o", metavar="FILE", show_default=False,
        parser=_checked_by(Written()),
        help=f"Write a file; its suffix says what: {', '.join([*usual, *pictures])}. May be given again.",
    )  # fmt: skip
    kind = Annotated[list[Path] | None, option, *([own] if own else [Written(tuple(formats))])]
    return inspect.Parameter(_OUTPUT, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=kind)


def _placed(
    files: list[Path] | None, formats: Mapping[str, str], given: Mapping[str, Any], own: Written | None
) -> dict[str, Path | None]:
    """The files of `-o` by the output that each is of."""
    found: dict[str, Path | None] = {_OUTPUT: None} if own else {}
    for file in map(Path, files or ()):
        name = formats.get(file.suffix.lower(), _OUTPUT if own else None)
        if name is None:
            raise typer.BadParameter(f"{file}: name a file {' or '.join(formats)}", param_hint="--output")
        if found.get(name) or (name != _OUTPUT and given[name] is not None):
            raise typer.BadParameter(f"{file}: another file of this format is named", param_hint="--output")
        found[name] = file
    return found


def _with_name_checked(parameter: inspect.Parameter, mark: Written) -> inspect.Parameter:
    """The parameter of an output, with names refused that tell by themselves that they cannot be meant."""
    path, *marks = get_args(parameter.annotation)
    marks = [copy(one) for one in marks]
    for one in marks:
        if isinstance(one, ParameterInfo):
            one.parser = _checked_by(mark)
    return parameter.replace(annotation=Annotated[path, *marks])


def _checked_by(mark: Written) -> Callable[[str], str]:
    def checked(name: str) -> str:
        what = "a file" if mark.is_file else "a folder"
        if not name:
            raise typer.BadParameter(f"the name is empty; name {what}")
        if name.startswith("-") and name != "-":
            raise typer.BadParameter(f"{name} looks like an option; name {what}, ./{name} if that is its name")
        if not mark.is_folder and name.endswith(("/", os.sep)):
            raise typer.BadParameter(f"{name} names a folder; name {what}")
        if not mark.is_file and is_stdout(name):
            raise typer.BadParameter(f"{name} is standard output, which takes one file; name a folder for several")
        return name

    return checked


def written(parameter: inspect.Parameter) -> Written | None:
    """Whether a parameter of a command says where it writes to."""
    marks = getattr(parameter.annotation, "__metadata__", ())
    return next((mark for mark in marks if isinstance(mark, Written)), None)


def say_written(text: str, output: Path) -> None:
    """Say what was written; nothing where it went to standard output itself."""
    from tracelens_graph.utils.texts import printable

    if not is_stdout(output):
        typer.echo(printable(text))


def size_of(output: Path) -> str:
    """The size of a file that was written, with a comma before it; nothing for what is no file."""
    if not output.is_file():
        return ""
    size = output.stat().st_size
    return f", {size / 1e6:,.1f} MB" if size >= 1e5 else f", {size / 1e3:,.1f} kB"


def _check(protection: Protection, outputs: Mapping[str, tuple[Path, Written]]) -> None:
    """Refuse outputs before anything large is read; files of a folder are checked when their names are known."""
    seen: dict[str, str] = {}
    for name, (output, mark) in outputs.items():
        if is_stdout(output) or not os.path.isdir(output):
            place = "-" if is_stdout(output) else os.path.realpath(output)
            if other := seen.get(place):
                raise typer.BadParameter(f"--{other} and --{name} name one file")
            seen[place] = name
        if is_stdout(output):
            continue
        for other, (folder, _) in outputs.items():
            if other != name and Path(os.path.realpath(folder)) in Path(os.path.realpath(output)).parents:
                raise typer.BadParameter(f"--{name} names a file in the folder that --{other} writes to")
        _check_kind(output, mark)
        if mark.is_new:
            continue
        if not os.path.isdir(output):
            protection.check(output)
        _check_suffix(name, output, mark)


def _check_kind(output: Path, mark: Written) -> None:
    if os.path.isdir(output):
        if not mark.is_folder:
            raise OutputError(f"{output}: is a folder; name a file")
    elif not mark.is_file:
        if os.path.lexists(output):
            raise OutputError(f"{output}: is a file; name a folder")
    elif not mark.is_folder and not output.absolute().parent.is_dir():
        raise OutputError(f"{output}: cannot be written: there is no folder {output.parent}")


def _check_suffix(name: str, output: Path, mark: Written) -> None:
    suffix = output.suffix.lower()
    if mark.suffixes and suffix in _FORMATS and suffix not in mark.suffixes:
        usual = mark.suffixes[0]
        raise typer.BadParameter(
            f"{output}: {suffix} stands for {_FORMATS[suffix]}, and this is {_FORMATS[usual]}; name a file {usual}",
            param_hint=f"--{name}",
        )


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
