"""Writing files so that nothing of the user's is lost and nobody sees half of one.

What a killed process leaves half-written, or in a temporary folder, is removed by whoever writes there a day later.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
import sys
import time
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from tracelens_graph._version import __version__
from tracelens_graph.errors import OutputError

if TYPE_CHECKING:
    import tempfile

_STDOUT = ("-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1")
_PART = ".part"
"""What the name of a half-written file ends with."""

_LONGEST_NAME = 200
"""Bytes of a file's name that its half-written twin takes over: names have an end."""

_TEMPORARY = "tracelens_graph-"
_ABANDONED_S = 86_400
"""Age from which nobody is taken to use what nobody changed."""


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
                with suppress(OSError, ValueError):
                    state = os.stat(0 if path == "-" else path)
                    found[state.st_dev, state.st_ino] = "standard input" if path == "-" else path
        return found

    def check(self, path: str | os.PathLike[str], is_known: bool = False) -> None:
        """Refuse a file that must not be replaced; it may also be absent, a pipe or a device.

        Args:
            path: the file.
            is_known: whether it is known for one of ours, though it may not say so.

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
        if self.force or is_known or not stat.S_ISREG(state.st_mode) or not state.st_size:
            return
        try:
            ours = is_ours(Path(path).resolve())
        except OSError as error:
            raise unwritable(path, error) from None
        if not ours:
            raise OutputError(f"{path}: was not written by tracelens-graph, or changed since; --force replaces it")


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


def check_outputs(paths: Iterable[str | os.PathLike[str]], are_known: bool = False) -> None:
    """Refuse files that must not be replaced, before the first of several is written.

    Args:
        paths: the files.
        are_known: whether they are known for ours, though they may not say so.

    Raises:
        OutputError: one of them must not be replaced.
    """
    if (guard := _protection.get()) is not None:
        for path in paths:
            guard.check(path, are_known)


def is_stdout(path: str | os.PathLike[str]) -> bool:
    """Whether a path stands for standard output."""
    return os.fspath(path) in _STDOUT


@contextmanager
def replacing(path: str | os.PathLike[str], *, private: bool = False, mode: int = 0o666) -> Iterator[BinaryIO]:
    """The one way to write a file: a new one that takes the place of `path` when the block ends well.

    When it does not, also by an interrupt, what stood there stays and the new file vanishes. `-`, `/dev/stdout`, pipes
    and devices get what was written once all of it is there. While a command runs, what it reads and what the tool did
    not write is protected (`protecting`).

    Args:
        path: the file.
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
    with _beside(path, 0o600 if private else mode) as file:
        yield file


@contextmanager
def _beside(path: str | os.PathLike[str], mode: int) -> Iterator[BinaryIO]:
    target = Path(path).resolve()
    before = f".{os.fsdecode(os.fsencode(target.name)[:_LONGEST_NAME])}."
    remove_abandoned(target.parent, before, _PART)
    part = target.with_name(f"{before}{os.urandom(8).hex()}{_PART}")
    try:
        with open(part, "xb", opener=lambda name, flags: os.open(name, flags, mode)) as file:
            yield file
        os.replace(part, target)
    except OSError as error:
        raise unwritable(path, error) from None
    finally:
        with suppress(OSError):
            part.unlink(missing_ok=True)


def temporary_folder(parent: str | None = None, before: str = _TEMPORARY) -> tempfile.TemporaryDirectory[str]:
    """A folder for this process and user alone, which is gone when the block ends, or the program.

    Args:
        parent: where to; None for the system's folder of temporary files.
        before: what its name begins with.

    Raises:
        OSError: it cannot be made.
    """
    import tempfile

    remove_abandoned(Path(parent or tempfile.gettempdir()), before)
    return tempfile.TemporaryDirectory(prefix=before, dir=parent, ignore_cleanup_errors=True)


@contextmanager
def temporary_files() -> Iterator[None]:
    """Blame the system's folder of temporary files, and not an output, for what fails in the block.

    Raises:
        OutputError: there is no space for them.
    """
    try:
        yield
    except OSError as error:
        import tempfile

        raise unwritable(f"{tempfile.gettempdir()} (temporary files)", error) from None


def remove_abandoned(folder: Path, before: str, after: str = "") -> None:
    """Delete files and folders of this user whose names begin and end so, and that nobody changed for a day."""
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if not (entry.name.startswith(before) and entry.name.endswith(after)):
                continue
            with suppress(OSError):  # another process may delete it meanwhile
                state = entry.stat(follow_symlinks=False)
                is_mine = not hasattr(os, "getuid") or state.st_uid == os.getuid()
                if is_mine and state.st_mtime < time.time() - _ABANDONED_S:
                    shutil.rmtree(entry) if stat.S_ISDIR(state.st_mode) else os.unlink(entry)


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
        with temporary_files():
            yield file
            file.flush()
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


# --- what files say that they were made by --------------------------------------------------------------------------


TOOL = "tracelens_graph"
GENERATOR = f"{TOOL} {__version__}"
"""What a file says it was made by."""

COMMENT = f"<!-- generator: {GENERATOR} -->\n"
"""The same in XML and Markdown."""

GRAPH_MAGIC = b"TLGRAPH1"
"""First bytes of a saved graph."""

_HEAD = re.compile(
    rb"\A%s" % GRAPH_MAGIC
    + rb"|\A# generator: tracelens_graph "
    + rb"|\A(?:<\?xml[^>]*>\s*)?<!-- generator: tracelens_graph "
    + rb'|<meta name="generator" content="tracelens_graph '
    + rb'|\A\{"(?:generator|exporter)":"tracelens_graph '
    + rb'|\A\{\s*"schema_version": \d+,\s*"tool": \{\s*"name": "tracelens_graph"'
    + rb'|\A\{\s*"table": "\w+",\s*"title": '
    + rb"|\A\x89PNG.*tEXtSoftware\0tracelens_graph ",
    re.DOTALL,
)
_HEAD_SIZE = 4096
_TAIL_SIZE = 65536


def is_ours(path: Path) -> bool:
    """Whether a file says that the tool wrote it.

    Raises:
        OSError: it cannot be read.
    """
    with open(path, "rb") as file:
        head = file.read(_HEAD_SIZE)
        if head.startswith(b"\x1f\x8b"):
            head = _inflated(head)
        if head.startswith(b"PAR1"):
            file.seek(-min(_TAIL_SIZE, path.stat().st_size), 2)
            return b"tracelens_graph " in file.read()
    return bool(_HEAD.search(head)) or (head.startswith(b"PK\x03\x04") and _is_our_workbook(path))


def _inflated(head: bytes) -> bytes:
    try:
        return zlib.decompressobj(wbits=31).decompress(head, _HEAD_SIZE)
    except zlib.error:
        return b""


def _is_our_workbook(path: Path) -> bool:
    from zipfile import BadZipFile, ZipFile

    try:
        with ZipFile(path) as book, book.open("docProps/core.xml") as core:
            return b"<dc:creator>tracelens_graph " in core.read(_HEAD_SIZE)
    except (BadZipFile, KeyError, NotImplementedError, RuntimeError, ValueError, zlib.error, EOFError):
        return False
