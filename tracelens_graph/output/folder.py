"""Several files of one output, such as the tables of a report: a folder gets all of them, or none.

They are written into a temporary folder within, and moved up one after another when the last is whole.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, TextIO

from tracelens_graph.errors import OutputError
from tracelens_graph.output.files import check_outputs, is_stdout, temporary_folder, unwritable

_BEFORE = ".tracelens_graph."
"""What names begin with of temporary folders within, and of lists that earlier versions wrote."""


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
        try:
            with open(self._begun(name), "xb") as file:
                yield file
        except OSError as error:
            raise unwritable(self.path / name, error) from None

    def open_text(self, name: str) -> TextIO:
        """A file of a name for text in UTF-8, which the caller closes; what UTF-8 does not have becomes `?`."""
        return open(self._begun(name), "x", encoding="utf-8", errors="replace", newline="")

    def _begun(self, name: str) -> Path:
        self.names.append(name)
        return self.staged / name

    def move(self) -> None:
        """Have the files take their places, in the order in which they were begun."""
        for name in self.names:
            try:
                os.replace(self.staged / name, self.path / name)
            except OSError as error:
                raise unwritable(self.path / name, error) from None


@contextmanager
def writing_folder(
    path: str | os.PathLike[str],
    names: Iterable[str] = (),
    *,
    is_known: Callable[[Path], bool] | None = None,
    new: bool = False,
) -> Iterator[OutputFolder]:
    """Write files of a folder, which is made if it is not there; all of them are there when the block ends well.

    When it does not, the folder is as it was. Files of other names are left alone. Those of these names are replaced if
    they say that they are ours, or are known.

    Args:
        path: the folder.
        names: files that will be written; refused at once if one that is there must not be replaced.
        is_known: whether a file that is there is one of ours; by default all are if no other ones are in the folder.
        new: the folder has to be empty or new.

    Raises:
        OutputError: it is something else, holds something that must not be replaced, or cannot be written.
    """
    if is_stdout(path):
        raise OutputError(f"{path}: is standard output, which takes one file; name a folder for several")
    folder = Path(path)
    made = [one for one in (*reversed(folder.parents), folder) if not os.path.lexists(one)]
    try:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            there = [one for one in folder.iterdir() if not one.name.startswith(_BEFORE)]
            stage = temporary_folder(str(folder), _BEFORE)
        except FileExistsError:
            raise OutputError(f"{folder}: is a file; name a folder") from None
        except OSError as error:
            raise unwritable(folder, error) from None
        with stage as staged:
            if new and there:
                raise OutputError(f"{folder}: holds something already; name a new folder")
            targets = {folder / name for name in names}
            for target in sorted(targets.intersection(there)):
                check_outputs([target], is_known(target) if is_known else targets.issuperset(there))
                if not target.is_file():
                    raise OutputError(f"{target}: is a folder or device; name a file")
            output = OutputFolder(folder, Path(staged))
            yield output
            output.move()
    except BaseException:
        for one in reversed(made):
            with suppress(OSError):  # another process may write there, too
                one.rmdir()
        raise
