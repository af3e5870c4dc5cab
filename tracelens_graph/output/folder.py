"""Several files of one output, such as the tables of a report: a folder gets all of them, or none.

They are written into a temporary folder within, and moved up when the last is whole. Should even that be cut off, which
takes a kill within a few milliseconds, the list of the folder says that its files may be of two runs (`marks`).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, TextIO

from tracelens_graph.errors import OutputError
from tracelens_graph.output.files import check_outputs, is_stdout, replacing, unwritable
from tracelens_graph.output.marks import LIST, enlisted, sums
from tracelens_graph.output.temporary import TemporaryFolder, remove_leftovers

_BEFORE, _AFTER = ".tracelens_graph.", ".part"


class OutputFolder:
    """The files that are being written for a folder.

    Attributes:
        path: the folder.
        staged: where the files are until all of them are whole.
    """

    def __init__(self, path: Path, staged: Path) -> None:
        self.path = path
        self.staged = staged
        self.names: list[str] = []

    @property
    def paths(self) -> list[Path]:
        """The files, where they will be, in the order in which they were begun."""
        return [self.path / name for name in self.names]

    @contextmanager
    def file(self, name: str) -> Iterator[BinaryIO]:
        """Write a file of a name.

        Raises:
            OutputError: it cannot be written.
        """
        with self._in_words(name), open(self._begun(name), "xb") as file:
            yield file

    def open_text(self, name: str) -> TextIO:
        """A file of a name for text in UTF-8, which the caller closes; what UTF-8 does not have becomes `?`."""
        return open(self._begun(name), "x", encoding="utf-8", errors="replace", newline="")

    def _begun(self, name: str) -> Path:
        self.names.append(name)
        return self.staged / name

    @contextmanager
    def _in_words(self, name: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise unwritable(self.path / name, error) from None

    def move(self) -> None:
        """Have the files take their places, in the order in which they were begun."""
        for name in self.names:
            with self._in_words(name):
                os.replace(self.staged / name, self.path / name)

    def replace(self) -> None:
        """Have the files take the places of older ones; the list of the folder names them."""
        written = sums(self.staged / name for name in self.names)
        # Older and newer files are ours, whichever of them a kill leaves there.
        self._write_list(enlisted(self.path, written, is_whole=False))
        self.move()
        self._write_list(enlisted(self.path, written))

    def _write_list(self, content: bytes) -> None:
        with replacing(self.path / LIST) as file:
            file.write(content)


@contextmanager
def writing_folder(
    path: str | os.PathLike[str], names: Iterable[str] = (), *, new: bool = False
) -> Iterator[OutputFolder]:
    """Write files of a folder, which is made if it is not there; all of them are there when the block ends well.

    When it does not, the folder is as it was. Files of other names are left alone.

    Args:
        path: the folder.
        names: files that will be written; refused at once if one that is there must not be replaced.
        new: the folder has to be empty or new; no list of it is made then.

    Raises:
        OutputError: it is something else, holds something that must not be replaced, or cannot be written.
    """
    if is_stdout(path):
        raise OutputError(f"{path}: is standard output, which takes one file; name a folder for several")
    folder = Path(path)
    made = _make(folder)
    try:
        remove_leftovers(folder, _BEFORE, _AFTER)
        if new and any(_entries(folder)):
            raise OutputError(f"{folder}: holds something already; name a new folder")
        targets = [folder / name for name in names]
        check_outputs(targets)
        for target in targets:
            _check_is_file(target)
        try:
            stage = TemporaryFolder(folder, _BEFORE, _AFTER)
        except OSError as error:
            raise unwritable(folder, error) from None
        with stage as staged:
            output = OutputFolder(folder, staged)
            yield output
            if new:
                output.move()
            else:
                output.replace()
    except BaseException:
        for one in reversed(made):
            with suppress(OSError):  # another process may write there, too
                one.rmdir()
        raise


def _make(folder: Path) -> list[Path]:
    """Make a folder and those around it; those that were made, the outermost first."""
    made = [one for one in (*reversed(folder.parents), folder) if not os.path.lexists(one)]
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        raise OutputError(f"{folder}: is a file; name a folder") from None
    except OSError as error:
        raise OutputError(f"{folder}: cannot be made a folder: {(error.strerror or str(error)).lower()}") from None
    return made


def _entries(folder: Path) -> Iterator[Path]:
    try:
        yield from folder.iterdir()
    except OSError as error:
        raise unwritable(folder, error) from None


def _check_is_file(target: Path) -> None:
    if target.is_dir():
        raise OutputError(f"{target}: is a folder; name a file")
    if target.exists() and not target.is_file():
        raise OutputError(f"{target}: is a pipe or device, which cannot be replaced")
