"""The library of queries: one question per file, in folders by theme.

Each file is a statement that runs as it is in Neo4j Browser. Its header says what it answers, its parameters and its
columns; its first clause holds the parameters' defaults, as `WITH {trace: null, step: null} AS p`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.resources import files

from tracelens_graph.cypher.clause import Asked, filled

_LISTED = re.compile(r"(?P<name>[^:]+): (?P<meaning>.*)")


@dataclass(frozen=True)
class Query:
    """A query of the library.

    Attributes:
        name: name of its file.
        theme: folder of its file.
        title: what it answers, in one line.
        parameters: name -> meaning.
        columns: name -> meaning with unit.
        notes: further lines of the header.
        text: the whole file.
    """

    name: str
    theme: str
    title: str
    parameters: Mapping[str, str]
    columns: Mapping[str, str]
    notes: str
    text: str

    @cached_property
    def asked(self) -> Asked:
        """How parameters come into the text."""
        return Asked.of(self.text)

    @property
    def defaults(self) -> Mapping[str, str]:
        """Parameter -> default as it stands in the first clause."""
        return {name: default.text for name, default in self.asked.defaults.items()}

    def statement(self, given: Collection[str]) -> str:
        """The statement with parameters in the place of some defaults: `{step: $step}` instead of `{step: null}`."""
        return filled(self.text, self.asked, given)


@cache
def library() -> Mapping[str, Query]:
    """All queries by name, by theme and name."""
    folder = files(__name__)
    themes = sorted((one for one in folder.iterdir() if one.is_dir()), key=lambda one: one.name)
    found = [
        parse(file.name.removesuffix(".cypher"), theme.name, file.read_text("utf-8"))
        for theme in themes
        for file in sorted(theme.iterdir(), key=lambda one: one.name)
        if file.name.endswith(".cypher")
    ]
    return {query.name: query for query in found}


def parse(name: str, theme: str, text: str) -> Query:
    """A query from the text of its file."""
    lines = []
    for line in text.splitlines():
        if not line.startswith("//"):
            break
        lines.append(line[2:])
    title, *rest = lines or [""]
    sections: dict[str, dict[str, str]] = {"Parameters": {}, "Columns": {}}
    notes: list[str] = []
    section: dict[str, str] | None = None
    last = ""
    for line in rest:
        heading = line.strip().rstrip(":")
        if heading in sections:
            section = sections[heading]
        elif not line.strip():
            section = None
        elif section is None:
            notes.append(line.strip())
        elif line.startswith("     "):  # a meaning goes on
            section[last] += " " + line.strip()
        elif entry := _LISTED.fullmatch(line.strip()):
            last = entry["name"]
            section[last] = entry["meaning"]
    return Query(name, theme, title.strip(), sections["Parameters"], sections["Columns"], " ".join(notes), text)
