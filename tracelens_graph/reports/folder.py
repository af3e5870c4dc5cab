"""A report as a folder of CSV files."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from io import TextIOWrapper
from pathlib import Path

from tracelens_graph.errors import OutputError
from tracelens_graph.output.folder import writing_folder
from tracelens_graph.reports.csv import write_csv
from tracelens_graph.tables.table import Table

_FILE_NAME = re.compile(r"\w[\w.-]*", re.ASCII)


def write_folder(tables: Mapping[str, Table], folder: str | os.PathLike[str]) -> list[Path]:
    """Write each table to `NAME.csv` in a folder, which is made if it is not there.

    All of them are written, or none; files of their names are replaced, others left alone. Text is UTF-8; half a
    surrogate pair, which UTF-8 does not have, becomes a visible escape.

    Args:
        tables: name of a file without `.csv` -> its table.
        folder: where to.

    Returns:
        The files.

    Raises:
        OutputError: the folder is something else, or a file cannot be written.
    """
    files = {name: _file_name(folder, name) for name in tables}
    with writing_folder(folder, files.values()) as output:
        for name, table in tables.items():
            with output.file(files[name]) as file:
                text = TextIOWrapper(file, "utf-8", errors="backslashreplace", newline="", write_through=True)
                write_csv(table, text)
                text.detach()
    return output.paths


def _file_name(folder: str | os.PathLike[str], name: str) -> str:
    if not _FILE_NAME.fullmatch(name):
        raise OutputError(f"{folder}: {name!r} cannot be the name of a table's file")
    return f"{name}.csv"
