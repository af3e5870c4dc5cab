"""What a shell completes beside options and files: questions, their parameters, tables, columns, devices, formulas,
modules, ids of findings.

Nothing is loaded for it: modules and ids are those of a trace that `--cache` has kept.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from importlib import import_module
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from tracelens_graph.graph.core import Core

_Complete = Callable[[typer.Context, str], list[str]]

_TABLES = {
    "report": ("registry:REPORT",), "diff": ("registry:REPORT",), "roofline": ("cli.roofline:TABLES",),
    "replay": ("cli.replay:TABLES",), "link": ("cli.link:TABLES",), "info": ("analyses.report.inventory:TABLES",),
    "model": ("cli.model:FORMULAS",),
    "ranks": ("analyses.ranks.job:TABLES", "analyses.ranks.job:LATE_TABLES", "cli.ranks_path:TABLES"),
}  # fmt: skip
"""Command -> where the names of its tables, or formulas, stand."""


def _completing(names: Callable[[typer.Context], Iterable[str]]) -> _Complete:
    """A function for `autocompletion` that gives the names that begin as the word does."""

    def complete(ctx: typer.Context, incomplete: str) -> list[str]:
        # Values of a parameter are offered behind its name alone.
        return [
            name
            for name in names(ctx)
            if name.startswith(incomplete) and ("=" in incomplete or not name.partition("=")[2])
        ]

    return complete


def _questions(ctx: typer.Context) -> Iterable[str]:
    from tracelens_graph.registry import HOMES

    return [name for name, home in HOMES.items() if home.is_question]


def _parameters(ctx: typer.Context) -> Iterable[str]:
    from tracelens_graph.analyses.questions import QUESTIONS

    asked = [QUESTIONS[word] for word in ctx.obj if word in QUESTIONS]
    own = [f"{one}=" for question in asked[:1] for one in question.parameters]
    return [*own, *(f"arch={device}" for device in _devices(ctx) if "arch=" in own)]


def _tables(ctx: typer.Context) -> Iterable[str]:
    for place in _TABLES.get(ctx.info_name or "", ()):
        module, _, name = place.partition(":")
        yield from getattr(import_module(f"tracelens_graph.{module}"), name)


def _columns(ctx: typer.Context) -> Iterable[str]:
    from tracelens_graph.registry import REPORT, schema_of

    tables = [name for name in ctx.params.get("table") or REPORT if name in REPORT]
    return dict.fromkeys(column for name in tables for column in schema_of(name))


def _devices(ctx: typer.Context) -> Iterable[str]:
    from tracelens_graph.perf.devices import shipped

    return shipped()


def _kept(ctx: typer.Context) -> Core | None:
    """The graph of the trace among the words, if it was kept."""
    from tracelens_graph.stores.cache import cached_core

    # Click takes no argument in front of an option without a value, so that words alone say what the trace is.
    try:
        return cached_core(next(word for word in ctx.obj if os.path.isfile(word)), _not_kept)
    except (LookupError, StopIteration, OSError):
        return None


def _ids(ctx: typer.Context) -> Iterable[str]:
    from tracelens_graph.analyses.diagnosis.explain import explain
    from tracelens_graph.utils.texts import printable

    core = _kept(ctx)
    return [] if core is None else map(printable, explain(core)["what"])


def _modules(ctx: typer.Context) -> Iterable[str]:
    import numpy as np

    from tracelens_graph.schema import Kind

    if (core := _kept(ctx)) is None:
        return []
    c = core.columns
    prefix = core.framework.module_prefix
    return [core.names[code].removeprefix(prefix) for code in np.unique(c.name[c.kind == Kind.Module]).tolist()]


def _not_kept() -> Any:
    raise LookupError


questions, parameters, tables, columns, devices, modules, ids = map(
    _completing, (_questions, _parameters, _tables, _columns, _devices, _modules, _ids)
)
