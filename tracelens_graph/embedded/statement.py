"""One statement in Cypher as tokens in brackets, which every part of the translation reads by their places.

A translation is a text in which each token of the user's stands behind a mark, so that a place in the translation can
be given as a place in the statement.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from tracelens_graph.embedded.tokens import Token, literal, place_of, tokens_of
from tracelens_graph.errors import DatabaseError
from tracelens_graph.schema.database import REPEATED_EDGES
from tracelens_graph.utils.suggest import did_you_mean

MOST_TOKENS = 10_000
DEEPEST = 50
"""Brackets in each other."""
LARGEST = 50_000
"""Characters that an expression may be translated to, words that one may have once names stand for what WITH says."""

CLAUSES = frozenset((
    "MATCH", "OPTIONAL", "UNWIND", "WITH", "RETURN", "WHERE", "UNION", "ORDER", "SKIP", "LIMIT",
))  # fmt: skip
KEYWORDS = frozenset((
    *CLAUSES, "AND", "OR", "XOR", "NOT", "IN", "IS", "NULL", "AS", "BY", "DISTINCT", "CASE", "WHEN", "THEN", "ELSE",
    "END", "CONTAINS", "STARTS", "ENDS", "ASC", "DESC", "TRUE", "FALSE",
))  # fmt: skip
_REFUSED = {
    **dict.fromkeys(("CREATE", "MERGE", "SET", "DELETE", "DETACH", "REMOVE", "DROP", "ALTER", "FOREACH", "COPY",
                     "IMPORT", "COMMENT"), "it writes, and the graph is only read"),
    **dict.fromkeys(("LOAD", "EXPORT", "ATTACH", "INSTALL", "UNINSTALL", "UPDATE", "USE"), "it is about files"),
    **dict.fromkeys(("BEGIN", "COMMIT", "ROLLBACK", "CHECKPOINT"), "there are no transactions"),
    "CALL": "procedures and subqueries in CALL need Neo4j",
    **dict.fromkeys(("EXPLAIN", "PROFILE", "CYPHER"), "plans need Neo4j"),
}  # fmt: skip
_OPENS, _CLOSES = {"(": ")", "[": "]", "{": "}"}, frozenset(")]}")
_FIRST_MARK = 0x100000  # characters for private use, of which there are 65,534
_MARK = re.compile("[\U00100000-\U0010ffff]")


@dataclass(frozen=True)
class Hop:
    """Edges that a pattern asks for.

    Attributes:
        types: their types; None for any.
        source, target: labels of their ends; None for any.
        is_both_ways: whether ends may change places.
        variable: what the translation calls them.
        is_long: whether several may follow each other.
        begins, ends: which nodes of the clause the edges are between, in the direction that they are drawn.
    """

    types: tuple[str, ...] | None
    source: tuple[str, ...] | None
    target: tuple[str, ...] | None
    is_both_ways: bool
    variable: str
    is_long: bool
    begins: str
    ends: str


class Statement:
    """The tokens of a statement, and what it has been found to ask for.

    Attributes:
        text: as the user wrote it.
        universe: labels that nodes of the graph have.
        types: types of edges that whoever names none gets: those that a push writes.
        parameters: values of `$name`.
        tokens: without comments.
        bounds: place of each bracket that opens -> place of the one that closes it.
        labels: labels whose nodes are asked for, beside those at ends of edges.
        wants_all: whether nodes of any label are asked for.
        hops: edges that are asked for.

    Raises:
        DatabaseError: brackets do not match, it does more than read, or a parameter has no value.
    """

    def __init__(
        self, text: str, universe: Collection[str], types: Collection[str], parameters: Mapping[str, Any]
    ) -> None:
        self.text, self.universe, self.parameters = text, universe, parameters
        self.types = tuple(sorted({*types} - {*REPEATED_EDGES}))
        self.labels: set[str] = set()
        self.wants_all = False
        self.hops: list[Hop] = []
        self._names: dict[str, str] = {}
        self._number = 0
        self._end = Token("symbol", "", len(text), len(text), True)
        if mark := _MARK.search(text):
            raise DatabaseError(f"{place_of(text, mark.start())}: {mark[0]!r} stands for nothing here")
        self.tokens = tokens_of(text)
        while self.tokens and self.tokens[-1].text == ";":
            self.tokens.pop()
        if not self.tokens:
            raise DatabaseError("there is nothing to ask: a statement in Cypher is wanted")
        if len(self.tokens) > MOST_TOKENS:
            raise self.wrong(MOST_TOKENS, f"a statement has {MOST_TOKENS:,} words and signs at most; lists go into -p")
        self.bounds = self._pairs()
        self._check_words()

    def _pairs(self) -> dict[int, int]:
        found: dict[int, int] = {}
        opened: list[int] = []
        for place, token in enumerate(self.tokens):
            if token.kind == "symbol" and token.text in _OPENS:
                opened.append(place)
                if len(opened) > DEEPEST:
                    raise self.wrong(place, f"more than {DEEPEST} brackets are in each other")
            elif token.kind == "symbol" and token.text in _CLOSES:
                if not opened or _OPENS[self.tokens[opened[-1]].text] != token.text:
                    raise self.wrong(place, f"{token.text} closes nothing")
                found[opened.pop()] = place
        if opened:
            raise self.wrong(opened[-1], f"{self.tokens[opened[-1]].text} is not closed")
        return found

    def _check_words(self) -> None:
        for place, token in enumerate(self.tokens):
            if token.text == ";":
                raise self.wrong(place, "one statement at a time is answered")
            if token.word in _REFUSED and (not place or self.follows_value(place, 0)):  # else it is somebody's name
                raise self.wrong(place, f"{token.text} is refused: {_REFUSED[token.word]}")
            if token.kind == "parameter" and token.text[1:] not in self.parameters:
                meant = did_you_mean(token.text[1:], self.parameters)
                raise self.wrong(place, f"no value is given for {token.text}" + (f"; {meant}" if meant else ""))

    def wrong(self, place: int, why: str) -> DatabaseError:
        """An error about a token."""
        return DatabaseError(f"{place_of(self.text, self.at(place).start)}: {why}")

    def at(self, place: int, end: int | None = None) -> Token:
        """The token at a place; behind the end, or behind that of a part, one without text."""
        stop = len(self.tokens) if end is None else end
        return self.tokens[place] if 0 <= place < stop else self._end

    def outer(self, begin: int, end: int) -> list[int]:
        """Places of tokens that are in no bracket; brackets themselves are those that open."""
        found, place = [], begin
        while place < end:
            found.append(place)
            place = self.bounds.get(place, place) + 1
        return found

    def first(self, begin: int, end: int, what: str) -> int | None:
        """Place of the first keyword, in capitals, or sign outside of brackets."""
        return next((at for at in self.outer(begin, end) if what in (self.tokens[at].word, self.tokens[at].text)), None)

    def split(self, begin: int, end: int) -> list[tuple[int, int]]:
        """Parts between commas."""
        cuts = [place for place in self.outer(begin, end) if self.tokens[place].text == ","]
        return list(zip([begin, *(cut + 1 for cut in cuts)], [*cuts, end], strict=True))

    def follows_value(self, place: int, begin: int) -> bool:
        """Whether what is before a place is a value, so that this is no beginning of one."""
        before = self.at(place - 1) if place > begin else self._end
        if before.is_name:
            return before.word not in KEYWORDS or before.word == "END"
        return before.text in (")", "]", "}") or before.kind in ("parameter", "string", "number")

    def new_name(self) -> str:
        """A variable that the statement has not."""
        self._number += 1
        return f"__{self._number}"

    def declared(self, place: int) -> str:
        """A variable; the engine takes names that differ in letter case only for one."""
        name = self.tokens[place].name
        other = self._names.setdefault(name.casefold(), name)
        if other != name:
            raise self.wrong(place, f"{name} and {other} are one name here: call one of them otherwise")
        if name.startswith("_"):
            raise self.wrong(place, f"{name}: names that begin with _ are the engine's own")
        return self.as_is(place)

    def as_is(self, place: int) -> str:
        """A token as the engine reads it, behind its mark."""
        token = self.at(place)
        text = literal(token) if token.kind == "string" else token.text
        if token.word in _REFUSED:
            text = f"`{text}`"  # a name, which the engine is not to take for a clause
        if token.kind == "parameter" and self.parameters[token.text[1:]] is None:
            text = "NULL"  # which has no type, where the engine would take a parameter for a truth value
        return f"{' ' * token.apart}{self.mark(place)}{text}"

    def mark(self, place: int) -> str:
        """What says that a translation comes from a place from here on."""
        return chr(_FIRST_MARK + place)

    def plain(self, marked: str) -> tuple[str, list[tuple[int, int]]]:
        """A translation without marks, and where parts of it begin: there, and in the statement."""
        parts, starts, length, begin = [], [(0, 0)], 0, 0
        for mark in _MARK.finditer(marked):
            parts.append(marked[begin : mark.start()])
            length += mark.start() - begin
            starts.append((length, self.at(ord(mark[0]) - _FIRST_MARK).start))
            begin = mark.end()
        return "".join([*parts, marked[begin:]]), starts
