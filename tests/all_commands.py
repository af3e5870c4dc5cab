"""All commands with the functions behind them, as the program makes its commands of."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from typing import Any

import typer

from tracelens_graph.cli import app, db
from tracelens_graph.cli.outputs import prepared

MODEL = "model"
"""The command whose sizes are words of its own."""


def commands(homes: Mapping[str, str] = app.HOMES, above: str = "") -> Iterator[tuple[str, Callable[..., Any]]]:
    """Name, with that of its group before it, and function of each command but `model`."""
    for name, home in homes.items():
        module, _, function = home.partition(":")
        found = getattr(import_module(module), function)
        if isinstance(found, typer.Typer):
            yield from commands(db.HOMES, f"{name} ")
        elif name != MODEL:
            yield above + name, prepared(found)
