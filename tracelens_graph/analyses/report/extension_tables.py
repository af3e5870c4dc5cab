"""The tables that an extension makes of a window, checked and brought into our form."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Any

from tracelens_graph.errors import ExtensionError
from tracelens_graph.extensions.extension import extension_of
from tracelens_graph.graph.window import Window
from tracelens_graph.tables.table import Table


def extension_table(w: Window, name: str) -> Table:
    """One of the tables of the window's extension.

    Raises:
        ExtensionError: what its function returns is no table.
    """
    extension = extension_of(w)
    return as_table(name, extension.tables[name](w), extension.name)


def extension_table_sets(w: Window) -> dict[str, Table]:
    """The tables of all sets of the window's extension.

    Raises:
        ExtensionError: what one returns is no mapping of tables, or has a name that is taken.
    """
    extension = extension_of(w)
    tables: dict[str, Table] = {}
    for make in extension.table_sets:
        made = make(w)
        if not isinstance(made, Mapping):
            raise ExtensionError(f"{extension.name}: tables by name are wanted, not {type(made).__name__}")
        for name, one in made.items():
            if name in tables or name in extension.tables:
                raise ExtensionError(f"{extension.name}: there are two tables {name}")
            extension.check_table_name(name)
            tables[name] = as_table(name, one, extension.name)
    return tables


def as_table(name: str, made: Any, source: str) -> Table:
    """A table from what a function of an extension returns: a Table, or a DataFrame with `attrs` as ours have them.

    Raises:
        ExtensionError: it is neither, or its columns are not equally long.
    """
    if isinstance(made, Table):
        table = replace(made, name=name, title=made.title or name)
    elif "pandas" in sys.modules and isinstance(made, sys.modules["pandas"].DataFrame):
        try:
            table = Table.from_pandas(made, name)
        except ValueError as error:
            raise ExtensionError(f"{source}: {error}") from error
    else:
        raise ExtensionError(f"{source}: {name} has to be a Table or a DataFrame, not {type(made).__name__}")
    lengths = {column: len(cells) for column, cells in table.columns.items()}
    for (one, length), (other, differs) in pairwise(lengths.items()):
        if length != differs:
            raise ExtensionError(f"{source}: in {name}, {one} has {length:,} cells and {other} {differs:,}")
    return table
