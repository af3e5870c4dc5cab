"""Statements for Neo4j as the embedded engine reads them, and what of the graph they are about.

What the engine would answer otherwise than Neo4j is written in the engine's way, or refused; nothing is answered
otherwise in silence. Only reading is known here: a statement consists of MATCH, WHERE, WITH, UNWIND, RETURN and their
like, and everything else is refused.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from tracelens_graph.embedded.expressions import values
from tracelens_graph.embedded.patterns import matched
from tracelens_graph.embedded.statement import CLAUSES, LARGEST, Hop, Statement
from tracelens_graph.embedded.tokens import place_of

_BEGINS = ("MATCH", "OPTIONAL", "UNWIND", "WITH", "RETURN")


@dataclass(frozen=True)
class Translated:
    """A statement as the engine reads it.

    Attributes:
        source: as the user wrote it.
        text: as the engine reads it.
        starts: where parts of that text begin, and where they come from.
        columns: what Neo4j would call the columns of the answer; None where only the engine knows.
        labels: labels whose nodes are asked for, beside those at ends of edges.
        wants_all: whether nodes of any label are asked for.
        hops: edges that are asked for.
        words: all names in it.
        parameters: names of its parameters.
    """

    source: str
    text: str
    starts: list[tuple[int, int]]
    columns: list[str] | None
    labels: set[str]
    wants_all: bool
    hops: list[Hop]
    words: set[str]
    parameters: set[str]

    def place(self, offset: int) -> str:
        """Where in the user's text a character of the engine's comes from, for people."""
        return place_of(self.source, [at for start, at in self.starts if start <= offset][-1])

    def placed(self, what: str, why: str) -> str:
        """An error about something, with its place where it stands in the user's text once."""
        found = list(re.finditer(re.escape(what), self.source, re.IGNORECASE)) if what else []
        return f"{place_of(self.source, found[0].start())}: {why}" if len(found) == 1 else why


def translated(
    text: str, universe: Collection[str], types: Collection[str], parameters: Mapping[str, Any]
) -> Translated:
    """A statement as the engine reads it.

    Args:
        text: one statement.
        universe: labels that nodes of the graph have.
        types: types that edges of the graph have.
        parameters: values of `$name`.

    Raises:
        DatabaseError: it is none, it does more than read, a name in it is none, or it needs Neo4j; in one line, with
            the place in the text.
    """
    s = Statement(text, universe, types, parameters)
    if s.tokens[0].word not in _BEGINS:
        raise s.wrong(0, f"a statement begins with {', '.join(_BEGINS)}, not with {s.tokens[0].text}")
    marks = [
        place
        for place in s.outer(0, len(s.tokens))
        if s.tokens[place].word in CLAUSES
        and s.at(place - 1).text != "."
        and not (s.tokens[place].word == "WITH" and s.at(place - 1).word in ("STARTS", "ENDS"))
    ]
    bounds = list(zip(marks, [*marks[1:], len(s.tokens)], strict=True))
    sizes: dict[str, int] = {}
    parts: list[str] = []
    for number, (mark, stop) in enumerate(bounds):
        word = s.tokens[mark].word
        if mark + 1 == stop and word not in ("OPTIONAL", "UNION"):
            raise s.wrong(mark, f"nothing follows {s.tokens[mark].text}")
        if word == "MATCH":
            where = bounds[number + 1] if s.at(stop).word == "WHERE" else None
            parts.append(f"{s.as_is(mark)} {matched(s, values, mark + 1, stop, where)}")
        elif word in ("WITH", "UNWIND", "RETURN"):
            parts += [s.as_is(mark), _items(s, mark + 1, stop, sizes)]
        elif word != "WHERE" or s.tokens[bounds[number - 1][0]].word != "MATCH":
            if word == "ORDER":
                _check_order(s, mark, stop)
            if word == "OPTIONAL" and s.at(mark + 1).word != "MATCH":
                raise s.wrong(mark, "OPTIONAL stands before MATCH")
            parts += [s.as_is(mark), values(s, mark + 1, stop)]
    plain, starts = s.plain("".join(parts))
    returns = next(((mark + 1, stop) for mark, stop in bounds if s.tokens[mark].word == "RETURN"), (0, 0))
    words = {token.name for token in s.tokens if token.is_name}
    given = {token.text[1:] for token in s.tokens if token.kind == "parameter"}
    return Translated(text, plain, starts, _columns(s, *returns), s.labels, s.wants_all, s.hops, words, given)


def _items(s: Statement, begin: int, end: int, sizes: dict[str, int]) -> str:
    """What WITH, UNWIND or RETURN lists.

    The engine puts what WITH calls a name in the name's place, so that each clause may double a statement: `sizes`
    says how many words a name stands for.
    """
    texts, found = [], {}
    for first, last in s.split(begin, end):
        alias = s.first(first, last, "AS")
        text = values(s, first, last if alias is None else alias)
        size = sum(sizes.get(word, 1) for word in re.findall(r"\w+", text))
        if size > LARGEST:
            raise s.wrong(first, f"with what WITH says before, this has more than {LARGEST:,} words")
        if alias is not None:
            if not s.at(alias + 1, end).is_name:
                raise s.wrong(alias + 1, "AS is followed by a name")
            found[s.tokens[alias + 1].name] = size
            text += f" AS{s.declared(alias + 1)}{values(s, alias + 2, last)}"
        texts.append(text)
    sizes |= found
    return ",".join(texts)


def _check_order(s: Statement, mark: int, stop: int) -> None:
    """The engine does not keep the order of a WITH for what follows."""
    before = next((at for at in range(mark - 1, -1, -1) if s.tokens[at].word in ("WITH", "RETURN")), 0)
    if s.tokens[before].word != "WITH":
        return
    if s.at(stop).word not in ("SKIP", "LIMIT"):
        raise s.wrong(mark, "an ORDER BY before the last clause needs a LIMIT here")
    if s.at(stop).word == "LIMIT" and s.at(stop + 1).text == "1":
        return  # one row is in order
    for place in range(stop, len(s.tokens) - 1):
        if s.tokens[place].word == "COLLECT" and s.tokens[place + 1].text == "(":
            raise s.wrong(place, "collect() behind an ORDER BY needs Neo4j: here it keeps no order")


def _columns(s: Statement, begin: int, end: int) -> list[str] | None:
    """What Neo4j calls the columns of an answer."""
    found = []
    for first, last in s.split(begin + (s.at(begin).word == "DISTINCT"), end):
        alias = s.first(first, last, "AS")
        if s.at(first).text == "*":
            return None
        if alias is not None:
            found.append(s.tokens[alias + 1].name)
        elif first < last:
            found.append(s.text[s.tokens[first].start : s.tokens[last - 1].end])
    return found
