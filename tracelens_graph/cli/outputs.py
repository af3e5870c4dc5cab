"""The one writer of all commands: what `-o`, `-f` and `--csv` ask for, and how it is written without losing anything.

A command has a table of formats (`Forms`). Its parameter `outputs`, annotated with `Writes`, becomes the options.
"""

from __future__ import annotations

import gzip
import inspect
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial, wraps
from glob import glob, has_magic
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO, get_args

import typer
from typer.models import ArgumentInfo, ParameterInfo

from tracelens_graph.cli.options import ANYWHERE, Group, Written, made_option
from tracelens_graph.errors import OutputError
from tracelens_graph.output.files import Protection, is_stdout, protecting, replacing

if TYPE_CHECKING:
    from tracelens_graph.tables.table import Table

Content = str | bytes | Callable[[BinaryIO], str]
"""What is written: a text, bytes, or a function that writes to a file and returns notes on it."""

Forms = Mapping[str, Callable[[Any], Content]]
"""Name of a format -> what makes the content of an answer."""


def streamed(write: Callable[[Any, BinaryIO], str]) -> Callable[[Any], Content]:
    """A format of an answer that a function writes to a file: it returns notes on it."""
    return lambda answer: partial(write, answer)


FORMATS: Mapping[str, tuple[str, ...]] = {
    "table": ("a table for people", ".txt"), "csv": ("CSV", ".csv"), "json": ("JSON", ".json"),
    "md": ("Markdown", ".md", ".markdown"),
    "xlsx": ("an Excel workbook", ".xlsx"), "html": ("a page", ".html", ".htm"), "png": ("a picture", ".png"),
    "svg": ("a picture", ".svg"), "tlg": ("a saved graph", ".tlg"), "trace": ("a trace", ".json", ".json.gz"),
    "graphml": ("GraphML", ".graphml"), "graphml.gz": ("GraphML", ".graphml.gz"), "parquet": ("Parquet", ".parquet"),
    "folded": ("folded stacks", ".folded", ".folded.gz"), "perfetto": ("a trace", ".json", ".json.gz"),
    "speedscope": ("a profile of speedscope", ".speedscope.json", ".speedscope.json.gz", ".json", ".json.gz"),
    "chakra": ("JSON of Chakra", ".json"),
}  # fmt: skip
"""Name of a format -> what a file of it is, and what the names of such files end with, the usual ending first."""

_OTHERS = {".pdf": "a PDF document", ".jpg": "a picture", ".gz": "a packed file", ".zst": "a packed file",
           ".zip": "an archive"}  # fmt: skip
"""Endings of what no command writes -> what it is."""

PICTURES = {"png", "svg"}


@dataclass(frozen=True)
class Outputs:
    """What a command was asked to write.

    Attributes:
        format: what goes to standard output where no file is named; empty for the screen.
        files: files and their formats.
        folder: the folder of all tables.
        way_to_all: the option that gives all of JSON that is too long for standard output; empty where it was given.
    """

    format: str = ""
    files: tuple[tuple[Path, str], ...] = ()
    folder: Path | None = None
    way_to_all: str = "-o FILE.json"

    @property
    def to_files(self) -> bool:
        """Whether files are written, and nothing is printed that was not asked for."""
        return bool(self.files or self.folder)

    @property
    def to_screen(self) -> bool:
        """Whether people read the answer on the terminal, so that hints have their place below it."""
        return not self.to_files and not self.format

    @property
    def formats(self) -> list[str]:
        """The formats that are asked for, without that of the screen and that of the folder."""
        return [name for _, name in self.files] or ([self.format] if self.format else [])

    def check(self, known: Iterable[str], what: str, has_folder: bool = True) -> None:
        """Refuse what an answer cannot be written as.

        Args:
            known: the formats that it has.
            what: what it is, for the message.
            has_folder: whether it is several tables.

        Raises:
            typer.BadParameter: another one is asked for.
        """
        for name in self.formats:
            if name not in known:
                raise typer.BadParameter(f"no {name}: {what} is written as {', '.join(known)}")
        if self.folder is not None and not has_folder:
            raise typer.BadParameter(f"--csv writes all tables, not {what}")

    def write(self, answer: Any, forms: Forms, tables: Callable[[], Mapping[str, Table]] | None = None) -> None:
        """Write an answer wherever it was asked for, but for the screen, and say so.

        Args:
            answer: what the formats are made of.
            forms: the formats.
            tables: makes the tables of the folder.

        Raises:
            OutputError: a file cannot be written, or must not be replaced.
        """
        if self.folder is not None and tables is not None:
            self.say(write_tables(tables(), self.folder))
        for path, name in self.files:
            self.write_file(path, _made(forms, name, answer))
        if self.format and not self.files:
            content = _made(forms, self.format, answer)
            if self.format == "json" and isinstance(content, str) and self.way_to_all:
                from tracelens_graph.reports.document import brief

                content = brief(content, self.way_to_all)
            _print(content)

    def write_file(self, path: Path, content: Content) -> None:
        """Write a file, packed if its name says so, and say so."""
        with replacing(path) as file, _packed(path, file) as packed:
            about = _put(content, packed)
        self.say(f"wrote {path}{size_of(path)}: {about}" if about else f"wrote {path}")

    def say(self, line: str) -> None:
        """Say what was written; nothing where a file goes to standard output, which has it for itself then."""
        from tracelens_graph.utils.texts import printable

        if not any(is_stdout(path) for path, _ in self.files) and (self.files or not self.format):
            typer.echo(printable(line))


def write_tables(tables: Mapping[str, Table], folder: Path) -> str:
    """Write each table to a CSV file in a folder; the line that says so."""
    from tracelens_graph.reports.csv import write_folder

    written = len(write_folder(tables, folder))
    return f"wrote {written} {'table' if written == 1 else 'tables'} to {folder}"


def _made(forms: Forms, name: str, answer: Any) -> Content:
    """An answer in a format; in Markdown, which people read, devices are called as on the screen."""
    content = forms[name](answer)
    if name != "md" or not isinstance(content, str):
        return content
    from tracelens_graph.utils.texts import in_device_words

    return in_device_words(content)


def _put(content: Content, file: BinaryIO) -> str:
    """Write a content; notes on it."""
    if callable(content):
        return content(file)
    file.write(content.encode("utf-8", "backslashreplace") if isinstance(content, str) else content)
    return ""


@contextmanager
def _packed(path: Path, file: BinaryIO) -> Iterator[BinaryIO]:
    if path.suffix.lower() != ".gz":
        yield file
        return
    with gzip.GzipFile("", "wb", 6, file, mtime=0) as packed:
        yield packed  # type: ignore[misc]


def _print(content: Content) -> None:
    if isinstance(content, str):
        if sys.stdout.isatty():  # a file holds names as they are, a terminal would obey what is in them
            from tracelens_graph.utils.texts import printable

            content = "\n".join(map(printable, content.split("\n")))
        sys.stdout.write(content)
        return
    with replacing("-") as file:
        _put(content, file)


def size_of(path: Path) -> str:
    """The size of a file that was written, with a comma before it; nothing for what is not a file."""
    if not path.is_file():
        return ""
    size = path.stat().st_size
    return f", {size / 1e6:,.1f} MB" if size >= 1e5 else f", {size / 1e3:,.1f} kB"


# --- options --------------------------------------------------------------------------------------------------------


class Writes(Group):
    """The options `-o`, `-f` and `--csv` of a command.

    Args:
        formats: what it writes, as in `FORMATS`; where one ending stands for several, the first is meant.
        screen: what `-f` calls the screen; empty where there is none.
        folder: whether `--csv` writes all tables to a folder.
        needed: whether a file has to be named.
        files: whether files can be named at all.
    """

    def __init__(
        self, *formats: str, screen: str = "table", folder: bool = False, needed: bool = False, files: bool = True
    ) -> None:  # fmt: skip
        self.panel = "Output"
        self.formats = formats
        self._screen = "" if needed else screen
        self._folder = folder
        self._needed = needed
        self._files = files

    def parameters(self) -> list[inspect.Parameter]:
        """The options."""
        found = []
        if self._files:
            endings = dict.fromkeys(FORMATS[name][1] for name in self.formats)
            says = "; its suffix chooses the format" if len(endings) > 1 else ""
            about = f"Write a file{says}: {', '.join(endings)}. May be given again."
            kind, default = (list[str], ...) if self._needed else (list[str] | None, None)
            found.append(made_option("output", kind, default, "--output", "-o", metavar="FILE", help=about))
        if names := [name for name in (self._screen, *self.formats) if name][self._needed :]:
            about = "Format to print, or of a file whose suffix does not show it."
            choice = StrEnum("Format", {name: name for name in names}) | None  # type: ignore[operator]
            found.append(made_option("format", choice, None, "--format", "-f", help=about))
        if self._folder:
            about = "Write every table to DIR/NAME.csv."
            found.append(made_option("csv", list[str] | None, None, "--csv", metavar="DIR", help=about))
        return found

    def value(self, given: dict[str, Any]) -> Outputs:
        """What was asked for.

        Raises:
            typer.BadParameter: a name says no format, or another one.
        """
        chosen = given.get("format")
        wanted = "" if chosen is None or chosen.value == self._screen else str(chosen.value)
        names = given.get("output") or ()
        files = tuple((Path(path), self._format(_checked("--output", path), wanted)) for path in names)
        csv, *others = given.get("csv") or (None,)
        if others:
            raise typer.BadParameter(f"--csv {csv} and --csv {others[0]}: give one folder")
        folder = None if csv is None else Path(_checked("--csv", csv, is_folder=True))
        _check_apart([path for path, _ in files], folder)
        found = Outputs(wanted, files, folder)
        if not PICTURES.isdisjoint(found.formats):
            from tracelens_graph.reports.picture import drawing_library

            drawing_library()  # looked for before a large trace is read
        return found

    def _format(self, path: str, wanted: str) -> str:
        """The format of a file, by its name, else as `-f` says, else the only one."""
        ends = [(len(end), name) for name in self.formats for end in FORMATS[name][1:] if path.lower().endswith(end)]
        known = [name for _, name in sorted(ends, key=lambda one: -one[0])]
        if wanted and (wanted in known or not known):
            _check_ending(path, wanted)
            return wanted
        if wanted or (not known and len(self.formats) > 1):
            what = f"-f says {wanted}" if wanted else "its name says no format"
            usual = ", ".join(dict.fromkeys(FORMATS[name][1] for name in ([wanted] if wanted else self.formats)))
            raise typer.BadParameter(f"{path}: {what}; name a file {usual}", param_hint="--output")
        if not known:
            _check_ending(path, self.formats[0])
        return known[0] if known else self.formats[0]


def _check_ending(path: str, name: str) -> None:
    """Refuse a name whose ending stands for another format."""
    ending = Path(path).suffix.lower()
    usual, own = FORMATS[name][1], [end for end in FORMATS[name][1:] if path.lower().endswith(end)]
    others = {end: what for what, *ends in reversed([*FORMATS.values()]) for end in ends if end != ".txt"} | _OTHERS
    if not own and ending in others:
        why = f"{ending} stands for {others[ending]}, and this is {FORMATS[name][0]}; name a file {usual}"
        raise typer.BadParameter(f"{path}: {why}", param_hint="--output")


def _checked(option: str, name: str, is_folder: bool = False) -> str:
    """A name, unless it says by itself that it cannot be meant."""
    what = "a folder" if is_folder else "a file"
    why = ""
    if not name:
        why = f"the name is empty; name {what}"
    elif name.startswith("-") and name != "-":
        why = f"{name} looks like an option; name {what}, ./{name} if that is its name"
    elif is_folder and is_stdout(name):
        why = f"{name} is standard output, which takes one file; name a folder for several"
    elif not is_folder and name.endswith(("/", os.sep)):
        why = f"{name} names a folder; name {what}"
    if why:
        raise typer.BadParameter(why, param_hint=option or None)
    return name


def _check_apart(files: list[Path], folder: Path | None) -> None:
    """Refuse files that are one, or that lie in the folder of tables."""
    seen = set()
    for path in files:
        place = "-" if is_stdout(path) else os.path.realpath(path)
        if place in seen:
            raise typer.BadParameter(f"--output: {path} is named twice")
        seen.add(place)
        if folder is not None and Path(os.path.realpath(folder)) in Path(place).parents:
            raise typer.BadParameter("--output names a file in the folder that --csv writes to")


# --- commands --------------------------------------------------------------------------------------------------------


def prepared(command: Callable[..., None]) -> Callable[..., None]:
    """A command as typer takes it: groups of options spread out, and nothing of the user's overwritten.

    What it reads follows from its arguments: what names a file that exists, or is a pattern, and is not an output.
    """
    own = list(inspect.signature(command, eval_str=True).parameters.values())
    groups = {p.name: group for p in own if (group := _mark(p, Group))}
    options = {name: [_in_panel(q, group.panel) for q in group.parameters()] for name, group in groups.items()}
    folders = {p.name: mark for p in own if (mark := _mark(p, Written))}
    spread = [
        q.replace(kind=inspect.Parameter.KEYWORD_ONLY)
        for p in own
        for q in options.get(p.name, [_as_folder(p) if p.name in folders else p])
    ]
    writes = {q.name for name, group in groups.items() if isinstance(group, Writes) for q in options[name]}
    inputs = [p for p in spread if p.name not in {*writes, *folders}]

    @wraps(command)
    def run(**given: Any) -> None:
        protection = Protection(tuple(path for p in inputs for path in _named(p, given[p.name])), ANYWHERE.get().force)
        for name, group in groups.items():
            given[name] = group.value({q.name: given.pop(q.name) for q in options[name]})
            if isinstance(given[name], Outputs):
                given[name] = replace(given[name], way_to_all=_way_to_all(given))
        outputs = next((one for one in given.values() if isinstance(one, Outputs)), Outputs())
        to_folders = {given[name]: mark.is_new for name, mark in folders.items() if given[name] is not None}
        _check(protection, outputs, to_folders)
        with protecting(protection):
            command(**given)

    run.__signature__ = inspect.Signature(spread)  # type: ignore[attr-defined]
    run.__annotations__ = {p.name: p.annotation for p in spread}
    return run


def _way_to_all(given: Mapping[str, Any]) -> str:
    """The option of a command that gives all of its answer; empty where one was given."""
    ways = {"everything": "--all", "top": "--top 0"}
    is_given = given.get("everything") or given.get("top") is not None
    if is_given or any(one.startswith("top=") for one in given.get("param") or ()):
        return ""
    return next((way for name, way in ways.items() if name in given), Outputs.way_to_all)


def _mark(parameter: inspect.Parameter, kind: type[Any]) -> Any:
    """What marks a parameter in its annotation; None without such a mark."""
    metadata = getattr(parameter.annotation, "__metadata__", ())
    return next((mark for mark in metadata if isinstance(mark, kind)), None)


def _in_panel(parameter: inspect.Parameter, panel: str) -> inspect.Parameter:
    """An option as the help shows it in a panel."""
    if not panel:
        return parameter
    kind, *metadata = get_args(parameter.annotation)
    metadata = [copy(one) for one in metadata]
    for one in metadata:
        if isinstance(one, ParameterInfo):
            one.rich_help_panel = panel
    return parameter.replace(annotation=Annotated[kind, *metadata])


def _as_folder(parameter: inspect.Parameter) -> inspect.Parameter:
    """A parameter that names a folder to write to, with names refused that cannot be meant."""
    path, *metadata = get_args(parameter.annotation)
    metadata = [copy(one) for one in metadata]
    for one in metadata:
        if isinstance(one, ParameterInfo):
            one.parser = lambda name: _checked("", name, is_folder=True)
    return parameter.replace(annotation=Annotated[path, *metadata])


def _check(protection: Protection, outputs: Outputs, folders: Mapping[Path, bool]) -> None:
    """Refuse outputs before anything large is read; files of a folder are checked when their names are known."""
    for folder in (*folders, *([outputs.folder] if outputs.folder else [])):
        if os.path.lexists(folder) and not os.path.isdir(folder):
            raise OutputError(f"{folder}: is a file; name a folder")
    for path, name in outputs.files:
        if is_stdout(path) or name in ("csv", "parquet"):  # which may be a folder, and are checked when written
            continue
        if os.path.isdir(path):
            raise OutputError(f"{path}: is a folder; name a file")
        if not path.absolute().parent.is_dir():
            raise OutputError(f"{path}: cannot be written: there is no folder {path.parent}")
        protection.check(path)


def _named(parameter: inspect.Parameter, value: Any) -> Iterator[str]:
    """Files and folders that the value of a parameter names."""
    may_be_pattern = _mark(parameter, ArgumentInfo) is not None
    for one in value if isinstance(value, list | tuple) else [value]:
        if one == "-" and may_be_pattern:
            yield "-"
        elif isinstance(one, str | Path) and os.path.exists(one) and not is_stdout(one):
            yield str(one)
        elif isinstance(one, str) and may_be_pattern and has_magic(one):
            yield from glob(one, recursive=True)
