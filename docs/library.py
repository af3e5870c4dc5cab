"""What the reference of the tables says of the queries of the library, from the headers of their files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator

from tracelens_graph.cypher import Query, library

_MANY = 3
"""Queries with the same parameter, from which on it is explained once."""

IN_MEMORY = {
    "in words for people": "Instruction kernel_details_summary trunc_kernel_details top_ops message top_categories",
    "of what a database does not store":
        "traffic_us saved_us perf_params compile_ms exposed_ms exposed_wait_ms unmatched",
    "as a database rounds rates otherwise": "TB/s_std TFLOPS/s_std",
}  # fmt: skip
"""Why a database lacks columns of a table; all others are filled in by options of reports alone."""

Parameter = tuple[str, str, str]
"""Name, default and meaning."""


def _parameters(query: Query) -> list[Parameter]:
    return [(name, str(query.defaults[name]), meaning) for name, meaning in query.parameters.items()]


def common() -> list[Parameter]:
    """Parameters of many queries."""
    uses = Counter(parameter for query in library().values() for parameter in _parameters(query))
    return sorted(parameter for parameter, times in uses.items() if times >= _MANY)


def listed(parameters: list[Parameter]) -> str:
    """Parameters as a list in Markdown."""
    return "".join(f"* `{name}`, `{default}`: {escaped(meaning)}\n" for name, default, meaning in parameters)


def escaped(text: str) -> str:
    """A text as Markdown shows it."""
    return text.replace("|", "\\|").replace("<", "&lt;")


def question_of(query: Query) -> str:
    """What a query answers, and how."""
    return escaped(f"{query.title} {query.notes}".strip())


def differences(query: Query, columns: Collection[str], explained: list[Parameter]) -> Iterator[str]:
    """What a query takes, and where its columns are not those of the table.

    Args:
        query: the query.
        columns: of the table.
        explained: parameters that are explained elsewhere.
    """
    parameters = _parameters(query)
    taken = [one[0] for one in parameters if one in explained]
    sentences = {
        "Query that takes": taken if taken != ["trace", "step"] else [],
        "Columns in the database only:": [name for name in query.columns if name not in columns],
    }
    said = [f"{start} {_named(names)}." for start, names in sentences.items() if names]
    said = said if sentences["Query that takes"] else ["Query.", *said]
    lacking = [name for name in columns if name not in query.columns]
    reasons = {name: why for why, names in IN_MEMORY.items() for name in names.split()}
    given = [
        f"{_named([name for name in lacking if reasons.get(name) == why])}, {why}"
        for why in dict.fromkeys(reasons[name] for name in lacking if name in reasons)
    ]
    if given:
        said.append(f"Columns in memory only: {'; '.join(given)}.")
    if own := [one for one in parameters if one not in explained]:
        yield listed(own) + "\n"
    if said:
        yield " ".join(said) + "\n\n"


def _named(names: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)
