"""Writing files so that nothing of the user's is lost and nobody sees half of one; names of traces by their files."""

from __future__ import annotations

import os
import re
import stat
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import BinaryIO

from tracelens_graph.errors import OutputError
from tracelens_graph.output.marks import LIST, enlisted, is_ours, sums
from tracelens_graph.output.temporary import hold, remove_leftovers, token

_SUFFIXES = (".json", ".gz", ".zst", ".zip", ".tlg", ".trace", ".pt")
"""What names of trace files end with, one behind the other."""

_STDOUT = ("-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1")
_DESCRIPTOR = re.compile(r"/(?:dev|proc/self)/fd/([0-9]+)")
"""What a shell calls a pipe that it hands to a command as a file."""
_PART = ".part"
"""What the name of a half-written file ends with."""

_LONGEST_NAME = 200
"""Bytes of a file's name that its half-written twin takes over: names have an end."""


def stem(name: str) -> str:
    """The name of a trace file without what all are called: `worker0.123` of `worker0.123.pt.trace.json.gz`."""
    path = Path(name)
    while path.suffix in _SUFFIXES and path.stem:
        path = Path(path.stem)
    return path.name


def file_name(path: str) -> str:
    """What a file is called in headings: its name without the folder; `pipe` for a descriptor such as `/dev/fd/63`."""
    return "pipe" if _DESCRIPTOR.fullmatch(path) else Path(path).name


def distinct_names(files: Sequence[str]) -> list[str]:
    """A name for each trace file: without suffixes, and with as many folders as tell it from the others.

    Files that are one and the same have one name.
    """
    parts = {file: ("stdin",) if file == "-" else _parts(file) for file in files}
    lengths = dict.fromkeys(files, 1)
    while True:
        names = {file: "/".join(part[-lengths[file] :]) for file, part in parts.items()}
        count = Counter(names[file] for file in parts)
        alike = [file for file, part in parts.items() if count[names[file]] > 1 and lengths[file] < len(part)]
        if not alike:
            return [names[file] for file in files]
        for file in alike:
            lengths[file] += 1


def _parts(file: str) -> tuple[str, ...]:
    if number := _DESCRIPTOR.fullmatch(file):
        return (f"fd{number[1]}", "pipe")
    path = Path(file).absolute()
    return (*path.parts[1:-1], stem(path.name))


@dataclass(frozen=True)
class Protection:
    """What must not be overwritten while a command runs.

    Attributes:
        inputs: paths of what the command reads; folders stand for the files in them.
        force: whether a file may be replaced that the tool did not write. Inputs never are.
    """

    inputs: tuple[str, ...] = ()
    force: bool = False

    @cached_property
    def _files(self) -> dict[tuple[int, int], str]:
        """Device and inode of every input, and of the files in input folders -> its path."""
        found: dict[tuple[int, int], str] = {}
        for one in self.inputs:
            inside = [entry.path for entry in os.scandir(one)] if os.path.isdir(one) else []
            for path in (one, *inside):
                if identity := _identity(0 if path == "-" else path):
                    found[identity] = "standard input" if path == "-" else path
        return found

    def check(self, path: str | os.PathLike[str]) -> None:
        """Refuse a file that must not be replaced; it may also be absent, a pipe or a device.

        Raises:
            OutputError: it is an input, or the tool did not write it; the message says which.
        """
        try:
            state = os.stat(path)
        except OSError:
            return
        if source := self._files.get((state.st_dev, state.st_ino)):
            same = "" if os.path.abspath(source) == os.path.abspath(path) else f" ({source})"
            raise OutputError(f"{path}: is what the command reads{same}; name another file")
        if self.force or not stat.S_ISREG(state.st_mode) or not state.st_size:
            return
        try:
            ours = is_ours(Path(path).resolve())
        except OSError as error:
            raise unwritable(path, error) from None
        if not ours:
            raise OutputError(f"{path}: is there already and was not written by tracelens-graph; --force replaces it")

    def check_folder(self, folder: str | os.PathLike[str]) -> None:
        """Refuse a folder to write to that is an input, or holds one.

        Raises:
            OutputError: it does.
        """
        if self.force or (identity := _identity(folder)) is None:
            return
        for source in self.inputs:
            if source != "-" and identity in (_identity(source), _identity(os.path.dirname(os.path.abspath(source)))):
                raise OutputError(f"{folder}: holds what the command reads ({source}); name another folder, or --force")


_protection: ContextVar[Protection | None] = ContextVar("protection", default=None)


@contextmanager
def protecting(protection: Protection | None) -> Iterator[None]:
    """Have `replacing` ask a protection while the block runs."""
    token = _protection.set(protection)
    try:
        yield
    finally:
        _protection.reset(token)


def protection() -> Protection | None:
    """What is protected at present, for processes that write on behalf of this one."""
    return _protection.get()


def check_outputs(paths: Iterable[str | os.PathLike[str]]) -> None:
    """Refuse files that must not be replaced, before the first of several is written.

    Raises:
        OutputError: one of them must not be replaced.
    """
    if (guard := _protection.get()) is not None:
        for path in paths:
            guard.check(path)


def is_stdout(path: str | os.PathLike[str]) -> bool:
    """Whether a path stands for standard output."""
    return os.fspath(path) in _STDOUT


@contextmanager
def replacing(
    path: str | os.PathLike[str], *, listed: bool = False, private: bool = False, mode: int = 0o666
) -> Iterator[BinaryIO]:
    """The one way to write a file: a new one that takes the place of `path` when the block ends well.

    When it does not, also by an interrupt, what stood there stays and the new file vanishes. `-`, `/dev/stdout`, pipes
    and devices get what was written once all of it is there. While a command runs, what it reads and what the tool did
    not write is protected (`protecting`).

    Args:
        path: the file.
        listed: note it in the list of its folder, because its format has no place for a mark (`marks`).
        private: a file of the tool's own, in a folder of its own: for its owner alone, and always replaced.
        mode: who may read and write it, less what the umask takes away, whatever held of the file that stood there.

    Raises:
        OutputError: it cannot be written, or must not be replaced.
    """
    if is_stdout(path):
        with _spooled(path, lambda: nullcontext(sys.stdout.buffer)) as file:
            sys.stdout.flush()
            yield file
        sys.stdout.buffer.flush()
        return
    # Asked once: another process may put a file there, or delete it, at any moment.
    kind = 0
    with suppress(OSError):
        kind = os.stat(path).st_mode
    if stat.S_ISDIR(kind):
        raise OutputError(f"{path}: is a folder; name a file")
    if kind and not stat.S_ISREG(kind):
        with _spooled(path, lambda: open(path, "wb")) as file:
            yield file
        return
    if not private:
        check_outputs([path])
    target = Path(path).resolve()
    with _beside(target, path, 0o600 if private else mode) as file:
        yield file
    if listed:
        with _beside(target.with_name(LIST), path, 0o666) as file:
            file.write(enlisted(target.parent, sums([target])))


@contextmanager
def _beside(target: Path, path: str | os.PathLike[str], mode: int) -> Iterator[BinaryIO]:
    before = f".{os.fsdecode(os.fsencode(target.name)[:_LONGEST_NAME])}."
    remove_leftovers(target.parent, before, _PART)
    part: Path | None = None
    try:
        with ExitStack() as locks:
            while True:
                part = target.with_name(f"{before}{token()}{_PART}")
                file = open(part, "xb", opener=lambda name, flags: os.open(name, flags, mode))  # noqa: SIM115
                # The lock outlasts the file: some disks say that they are full only when it is closed.
                locks.callback(os.close, os.dup(file.fileno()))
                if hold(file.fileno()):
                    break
                file.close()
            with file:
                yield file
            os.replace(part, target)
    except OSError as error:
        raise unwritable(path, error) from None
    finally:
        if part is not None:
            with suppress(OSError):
                part.unlink(missing_ok=True)


def unwritable(path: str | os.PathLike[str], error: OSError) -> OutputError:
    """The error of a file that cannot be written, in words."""
    if isinstance(error, FileNotFoundError) and not Path(path).absolute().parent.is_dir():
        return OutputError(f"{path}: cannot be written: there is no folder {Path(path).parent}")
    return OutputError(f"{path}: cannot be written: {(error.strerror or str(error)).lower()}")


@contextmanager
def _spooled(
    path: str | os.PathLike[str], opened: Callable[[], AbstractContextManager[BinaryIO]]
) -> Iterator[BinaryIO]:
    """A temporary file, as writers go back in what they wrote; its content goes on when it is whole."""
    import tempfile

    with tempfile.TemporaryFile() as file:
        yield file
        file.seek(0)
        try:
            with opened() as target:
                while block := file.read(1 << 20):
                    _write_all(target, block)
        except BrokenPipeError:
            raise
        except OSError as error:
            raise unwritable(path, error) from None


def _write_all(target: BinaryIO, block: bytes) -> None:
    """Write all of a block: standard output that Python does not buffer may take a part, and leave the rest."""
    rest = memoryview(block)
    while rest:
        taken = target.write(rest)
        if taken is None:
            raise BlockingIOError("it takes nothing more")
        rest = rest[taken:]


def _identity(path: str | int | os.PathLike[str]) -> tuple[int, int] | None:
    try:
        state = os.stat(path)
    except (OSError, ValueError):
        return None
    return state.st_dev, state.st_ino
