"""Write docs/queries.md: the library of queries, from the headers of its files.

python docs/make_queries.py            write the page
python docs/make_queries.py --check    change nothing; end with 1 if it is out of date
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from itertools import groupby

from pages import DOCS, publish

from tracelens_graph.cypher import Query, library
from tracelens_graph.registry import HOMES, THEMES, schema_of

HEAD = """# Library of queries

One question per query, each answered by the database (`tracelens-graph db query NAME`, `db.query(NAME)` in Python, or
pasted into [Neo4j Browser](local-server.md#neo4j-browser)) and by the graph in memory (`tlg.QUESTIONS[NAME]` of it). The tests hold
both to the same rows and cells, on real traces. How to ask: [Asking a database](asking.md).

The columns of a query are those of the table of its name in [tables.md](tables.md), where what is absent is null here.
Some are in memory only: what a database does not store (rates of links, hosts, durations of a server's iterations, what
fusing would save), sentences for people, and what a report alone fills in (`is_recompute`, `parent_module`, call
stacks, details of kernels, comparisons). Only complete traces answer.

Each is to answer within two seconds on a graph of 200,000 nodes once it was asked before; `benchmarks/queries.py`
measures them. On graphs of 218,000 nodes the slowest, `kernel_choices`, took 0.18 of that, and none is beyond it.

## Parameters of many queries
"""

_MANY = 3
"""Queries with the same parameter, from which on it is explained once."""

Parameter = tuple[str, str, str]
"""Name, default and meaning."""


def queries_page() -> str:
    """The page."""
    by_theme = sorted(library().values(), key=lambda query: list(THEMES).index(query.theme))
    uses = Counter(parameter for query in by_theme for parameter in _parameters(query))
    common = [parameter for parameter, times in uses.items() if times >= _MANY]
    parts = [HEAD, _list(sorted(common))]
    for theme, queries in groupby(by_theme, key=lambda query: query.theme):
        parts.append(f"## {THEMES[theme]}\n")
        parts += [part for query in queries for part in _section(query, common)]
    return "\n".join(parts)


def _parameters(query: Query) -> list[Parameter]:
    return [(name, str(query.defaults[name]), meaning) for name, meaning in query.parameters.items()]


def _section(query: Query, common: list[Parameter]) -> Iterator[str]:
    yield f"### `{query.name}`\n"
    yield f"{_escaped(query.title)}{' ' + _escaped(query.notes) if query.notes else ''}\n"
    parameters = _parameters(query)
    declared = schema_of(query.name) if query.name in HOMES else query.columns
    sentences = {
        "Takes": [one[0] for one in parameters if one in common],
        "Columns in memory only:": [name for name in declared if name not in query.columns],
        "In the database only:": [name for name in query.columns if name not in declared],
    }
    said = [f"{start} {', '.join(f'`{name}`' for name in names)}." for start, names in sentences.items() if names]
    if own := [one for one in parameters if one not in common]:
        yield _list(own)
    if said:
        yield " ".join(said) + "\n"


def _list(parameters: list[Parameter]) -> str:
    return "".join(f"* `{name}`, `{default}`: {_escaped(meaning)}\n" for name, default, meaning in parameters)


def _escaped(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")


if __name__ == "__main__":
    sys.exit(publish({DOCS / "queries.md": queries_page()}))
