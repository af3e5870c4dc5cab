"""Write docs/queries.md: the library of queries, from the headers of its files.

python docs/make_queries.py            write the page
python docs/make_queries.py --check    change nothing; end with 1 if it is out of date
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from itertools import groupby

from pages import DOCS, publish

from tracelens_graph.cypher import Query, library
from tracelens_graph.registry import HOMES, THEMES, schema_of

HEAD = """# Library of queries

One question per query, each answered by the database (`tracelens-graph db query NAME`, `db.query(NAME)` in Python, or
pasted into [Neo4j Browser](neo4j-browser.md)) and by the graph in memory (`tlg.QUESTIONS[NAME]` of it): the tests hold
both to the same rows and cells, on real traces. Columns that only the table in memory may have stand below those of
the query. They hold what a database does not store (rates of links, hosts, durations of a server's iterations, what
fusing would save), sentences for people, or what a report alone fills in (`is_recompute`, `parent_module`, call stacks,
details of kernels, comparisons). How to ask: [Asking a database](asking.md).

`trace`, `a` and `b` name a trace: its id, `run/name`, or its name. Only complete traces answer.

Each is to answer within two seconds on a graph of 200,000 nodes once it was asked before; `benchmarks/queries.py`
measures them. On graphs of 218,000 nodes the slowest, `kernel_choices`, took 0.18 of that, and none is beyond it.
"""


def queries_page() -> str:
    """The page."""
    by_theme = sorted(library().values(), key=lambda query: list(THEMES).index(query.theme))
    parts = [HEAD]
    for theme, queries in groupby(by_theme, key=lambda query: query.theme):
        parts.append(f"## {THEMES[theme]}\n")
        parts += [part for query in queries for part in _section(query)]
    return "\n".join(parts)


def _section(query: Query) -> Iterator[str]:
    yield f"### `{query.name}`\n"
    yield f"{_escaped(query.title)}{' ' + _escaped(query.notes) if query.notes else ''}\n"
    defaults = query.defaults
    yield from _table("parameter", "", {f"`{name}`, `{defaults[name]}`": m for name, m in query.parameters.items()})
    yield from _table("column", "", {f"`{name}`": meaning for name, meaning in query.columns.items()})
    declared = schema_of(query.name) if query.name in HOMES else ()
    if further := [f"`{name}`" for name in declared if name not in query.columns]:
        yield f"In memory only: {', '.join(further)}.\n"


def _table(first: str, second: str, rows: Mapping[str, str]) -> Iterator[str]:
    if rows:
        yield f"| {first} | {second} |\n|---|---|"
        yield "".join(f"| {name} | {_escaped(meaning)} |\n" for name, meaning in rows.items())


def _escaped(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")


if __name__ == "__main__":
    sys.exit(publish({DOCS / "queries.md": queries_page()}))
