"""Questions that the library of Cypher queries answers, answered by the graph in memory: one function per query.

`QUESTIONS["idle_gaps"](g)` is the table that the query `idle_gaps` gives of the same trace in a database. Functions
take the parameters of their query, with its defaults. Those that compare traces take a sequence of `Placed` in place
of a graph.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module, util

from tracelens_graph.table import Table

THEMES = ("timeline", "attribution", "shapes", "structure", "across", "quality")
"""Themes, each a module here and a folder of queries."""

QUESTIONS: Mapping[str, Callable[..., Table]] = {
    name: answer
    for theme in THEMES
    if util.find_spec(f"{__name__}.{theme}")
    for name, answer in import_module(f"{__name__}.{theme}").QUESTIONS.items()
}
"""Name of a query -> its twin."""
