"""A report as a folder of CSV files."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from io import TextIOWrapper
from pathlib import Path

from tracelens_graph.errors import OutputError
from tracelens_graph.files import check_outputs, replacing
from tracelens_graph.reports.csv import write_csv
from tracelens_graph.table import Table

_FILE_NAME = re.compile(r"\w[\w.-]*", re.ASCII)


def write_folder(tables: Mapping[str, Table], folder: str | os.PathLike[str]) -> list[Path]:
    """Write each table to `NAME.csv` in a folder, which is made if it is not there.

    A file of that name is replaced, and never half written; other files are left alone. Text is UTF-8; half a
    surrogate pair, which UTF-8 does not have, becomes a visible escape.

    Args:
        tables: name of a file without `.csv` -> its table.
        folder: where to.

    Returns:
        The files.

    Raises:
        OutputError: the folder is something else, or a file cannot be written.
    """
    folder = Path(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        raise OutputError(f"{folder}: is a file; name a folder") from None
    except OSError as error:
        raise OutputError(f"{folder}: cannot be made a folder: {(error.strerror or str(error)).lower()}") from None
    paths = {name: _path(folder, name) for name in tables}
    check_outputs(paths.values())
    for name, table in tables.items():
        _write(table, paths[name])
    return list(paths.values())


def _path(folder: Path, name: str) -> Path:
    if not _FILE_NAME.fullmatch(name):
        raise OutputError(f"{folder}: {name!r} cannot be the name of a table's file")
    return folder / f"{name}.csv"


def _write(table: Table, path: Path) -> None:
    with replacing(path, listed=True) as file:
        text = TextIOWrapper(file, "utf-8", errors="backslashreplace", newline="", write_through=True)
        write_csv(table, text)
        text.detach()
