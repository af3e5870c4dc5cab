"""Statements for Neo4j as the embedded engine reads them, and what of the graph they are about.

What the engine would answer otherwise than Neo4j is written in the engine's way, or refused; nothing is answered
otherwise in silence. Only reading is known here: a statement consists of MATCH, WHERE, WITH, UNWIND, RETURN and their
like, and everything else is refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tracelens_graph.embedded import labels as of_labels
from tracelens_graph.embedded.functions import FUNCTIONS, LARGEST_RANGE, QUANTIFIERS, SAME, known, rendered
from tracelens_graph.embedded.labels import Labelled
from tracelens_graph.embedded.tokens import Piece, Token, joined, literal, place_of, tokens_of
from tracelens_graph.errors import DatabaseError
from tracelens_graph.schema import CONTEXT_EDGES, DIFF_EDGES, EVENT_EDGES, RANK_EDGES
from tracelens_graph.schema.database import REPEATED_EDGES
from tracelens_graph.utils.suggest import did_you_mean

LONGEST_PATH = 1000
"""Edges of a path whose length the statement leaves open: more than calls are ever deep."""

TYPES = {edge.name: edge for edge in (*EVENT_EDGES, *CONTEXT_EDGES)}
"""Types of the edges of one trace."""

_BEGINS = ("MATCH", "OPTIONAL", "UNWIND", "WITH", "RETURN")
_CLAUSES = frozenset((*_BEGINS, "WHERE", "UNION", "ORDER", "SKIP", "LIMIT"))
_WRITES = frozenset((
    "CREATE", "MERGE", "SET", "DELETE", "DETACH", "REMOVE", "DROP", "ALTER", "FOREACH", "COPY", "IMPORT", "COMMENT",
))  # fmt: skip
_REFUSED = {
    **dict.fromkeys(_WRITES, "it writes, and the graph is only read"),
    **dict.fromkeys(("LOAD", "EXPORT", "ATTACH", "INSTALL", "UNINSTALL", "UPDATE", "USE"), "it is about files"),
    **dict.fromkeys(("BEGIN", "COMMIT", "ROLLBACK", "CHECKPOINT"), "there are no transactions"),
    "CALL": "procedures and subqueries in CALL need Neo4j",
    "EXPLAIN": "plans need Neo4j", "PROFILE": "plans need Neo4j", "CYPHER": "options of the planner need Neo4j",
}  # fmt: skip
_NO_FUNCTIONS = frozenset((
    *_CLAUSES, "AND", "OR", "XOR", "NOT", "IN", "IS", "NULL", "AS", "BY", "DISTINCT", "CASE", "WHEN", "THEN", "ELSE",
    "END", "CONTAINS", "STARTS", "ENDS", "ASC", "DESC", "TRUE", "FALSE",
))  # fmt: skip
_OPENS, _CLOSES = {"(": ")", "[": "]", "{": "}"}, frozenset(")]}")
_SHORTEST = {"shortestpath": "SHORTEST", "allshortestpaths": "ALL SHORTEST"}

Pieces = list[Piece]


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


@dataclass
class Translated:
    """A statement as the engine reads it.

    Attributes:
        source: as the user wrote it.
        pieces: as the engine reads it.
        columns: what Neo4j would call the columns of the answer; None where only the engine knows.
        labels: labels whose nodes are asked for, beside those at ends of edges.
        wants_all: whether nodes of any label are asked for.
        hops: edges that are asked for.
        words: all names in it.
        parameters: names of its parameters.
    """

    source: str
    pieces: Pieces = field(default_factory=list)
    columns: list[str] | None = None
    labels: set[str] = field(default_factory=set)
    wants_all: bool = False
    hops: list[Hop] = field(default_factory=list)
    words: set[str] = field(default_factory=set)
    parameters: set[str] = field(default_factory=set)

    @property
    def text(self) -> str:
        """As the engine reads it."""
        return joined(self.pieces)


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
    return _Translator(text, universe, types, parameters).whole()


class _Translator:
    """Goes through the tokens of one statement once."""

    def __init__(
        self, text: str, universe: Collection[str], types: Collection[str], parameters: Mapping[str, Any]
    ) -> None:
        self._text = text
        self._universe = universe
        self._types_there = tuple(sorted({*types} - {*REPEATED_EDGES}))  # whoever names none gets what a push writes
        self._parameters = parameters
        self._tokens = tokens_of(text)
        while self._tokens and self._tokens[-1].text == ";":
            self._tokens.pop()
        self._end = Token("symbol", "", len(text), len(text), True)
        self._found = Translated(text)
        self._number = 0
        self._keeps_order = True
        self._variables: dict[str, str] = {}
        self._bounds = self._pairs()

    # --- the whole -------------------------------------------------------------------------------------------

    def whole(self) -> Translated:
        """The translation."""
        if not self._tokens:
            raise DatabaseError("there is nothing to ask: a statement in Cypher is wanted")
        self._check_words()
        first = self._tokens[0]
        if first.word not in _BEGINS:
            raise self._wrong(first, f"a statement begins with {', '.join(_BEGINS)}, not with {first.text}")
        self._found.pieces = self._clauses(0, len(self._tokens), is_outermost=True)
        self._found.words = {token.name for token in self._tokens if token.is_name}
        return self._found

    def _check_words(self) -> None:
        for place, token in enumerate(self._tokens):
            if token.text == ";":
                raise self._wrong(token, "one statement at a time is answered")
            if token.word in _REFUSED and (not place or self._follows_value(place, 0)):  # else it is somebody's name
                raise self._wrong(token, f"{token.text} is refused: {_REFUSED[token.word]}")
            if token.kind == "parameter":
                self._found.parameters.add(token.text[1:])
                if token.text[1:] not in self._parameters:
                    meant = did_you_mean(token.text[1:], self._parameters)
                    raise self._wrong(token, f"no value is given for {token.text}" + (f"; {meant}" if meant else ""))

    def _wrong(self, token: Token, why: str) -> DatabaseError:
        return DatabaseError(f"{place_of(self._text, token.start)}: {why}")

    def _at(self, place: int) -> Token:
        return self._tokens[place] if 0 <= place < len(self._tokens) else self._end

    def _pairs(self) -> dict[int, int]:
        """Place of each bracket that opens -> place of the one that closes it."""
        found: dict[int, int] = {}
        opened: list[int] = []
        for place, token in enumerate(self._tokens):
            if token.kind != "symbol":
                continue
            if token.text in _OPENS:
                opened.append(place)
            elif token.text in _CLOSES:
                if not opened or _OPENS[self._tokens[opened[-1]].text] != token.text:
                    raise self._wrong(token, f"{token.text} closes nothing")
                found[opened.pop()] = place
        if opened:
            raise self._wrong(self._tokens[opened[-1]], f"{self._tokens[opened[-1]].text} is not closed")
        return found

    def _outer(self, begin: int, end: int) -> list[int]:
        """Places of tokens that are in no bracket; brackets themselves are those that open."""
        found, place = [], begin
        while place < end:
            found.append(place)
            place = self._bounds.get(place, place) + 1
        return found

    def _split(self, begin: int, end: int, at: str = ",") -> list[tuple[int, int]]:
        """Parts between commas."""
        cuts = [place for place in self._outer(begin, end) if self._tokens[place].text == at]
        return list(zip([begin, *(cut + 1 for cut in cuts)], [*cuts, end], strict=True))

    def _new_name(self) -> str:
        self._number += 1
        return f"__{self._number}"

    def _declare(self, token: Token) -> None:
        """The engine takes names that differ in letter case only for one."""
        other = self._variables.setdefault(token.name.casefold(), token.name)
        if other != token.name:
            raise self._wrong(token, f"{token.name} and {other} are one name here: call one of them otherwise")
        if token.name.startswith("_"):
            raise self._wrong(token, f"{token.name}: names that begin with _ are the engine's own")

    def _as_is(self, place: int) -> Piece:
        token = self._at(place)
        text = literal(token) if token.kind == "string" else token.text
        if token.word in _REFUSED:
            text = f"`{text}`"  # a name, which the engine is not to take for a clause
        if token.kind == "parameter" and self._parameters[token.text[1:]] is None:
            text = "NULL"  # which has no type, where the engine would take a parameter for a truth value
        return Piece((" " if token.apart else "") + text, token.start)

    def _made(self, text: str, place: int) -> Piece:
        return Piece(text, self._at(place).start)

    # --- clauses ---------------------------------------------------------------------------------------------

    def _clauses(self, begin: int, end: int, is_outermost: bool = False) -> Pieces:
        """A statement, or what is in the brackets of EXISTS and COUNT."""
        pieces: Pieces = []
        marks = [
            place
            for place in self._outer(begin, end)
            if self._tokens[place].word in _CLAUSES
            and self._at(place - 1).text != "."
            and not (self._tokens[place].word == "WITH" and self._at(place - 1).word in ("STARTS", "ENDS"))
        ]
        bounds = list(zip(marks, [*marks[1:], end], strict=True))
        number = 0
        while number < len(bounds):
            mark, stop = bounds[number]
            word = self._tokens[mark].word
            if word == "MATCH":
                where = bounds[number + 1] if number + 1 < len(bounds) else (end, end)
                has_where = self._at(where[0]).word == "WHERE" and where[0] < end
                pieces += self._match(mark, stop, where if has_where else None)
                number += has_where
            else:
                pieces += self._clause(word, mark, stop)
                if word == "RETURN" and is_outermost and self._found.columns is None:
                    self._found.columns = self._names(mark + 1, stop)
            number += 1
        return pieces

    def _clause(self, word: str, mark: int, stop: int) -> Pieces:
        if word == "OPTIONAL" and self._at(mark + 1).word != "MATCH":
            raise self._wrong(self._tokens[mark], "OPTIONAL stands before MATCH")
        if word == "ORDER" and self._is_of_with(mark):
            if self._at(stop).word not in ("SKIP", "LIMIT"):
                raise self._wrong(self._tokens[mark], "an ORDER BY before the last clause needs a LIMIT here")
            is_one = self._at(stop).word == "LIMIT" and self._at(stop + 1).text == "1"
            self._keeps_order &= is_one  # one row is in order
        if word in ("WITH", "UNWIND", "RETURN"):
            for place in self._outer(mark, stop):
                if self._tokens[place].word == "AS" and self._at(place + 1).is_name and place + 1 < stop:
                    self._declare(self._tokens[place + 1])
        return [self._as_is(mark), *self._expression(mark + 1, stop)]

    def _is_of_with(self, place: int) -> bool:
        """Whether an ORDER BY is that of a WITH, whose order the engine does not keep for what follows."""
        before = next(at for at in range(place - 1, -1, -1) if self._tokens[at].word in ("WITH", "RETURN"))
        return self._tokens[before].word == "WITH"

    def _names(self, begin: int, end: int) -> list[str] | None:
        """What Neo4j calls the columns of an answer."""
        begin += self._at(begin).word == "DISTINCT"
        found = []
        for first, last in self._split(begin, end):
            alias = [place for place in self._outer(first, last) if self._tokens[place].word == "AS"]
            if self._at(first).text == "*":
                return None
            if alias and alias[-1] + 1 < last:
                found.append(self._tokens[alias[-1] + 1].name)
            elif first < last:
                found.append(self._text[self._tokens[first].start : self._tokens[last - 1].end])
        return found

    def _match(self, mark: int, stop: int, where: tuple[int, int] | None) -> Pieces:
        """MATCH with its WHERE, which says what the engine does not take for granted, too."""
        pieces: Pieces = [self._as_is(mark)]
        hops: list[Hop] = []
        conditions: list[str] = []
        for number, (first, last) in enumerate(self._split(mark + 1, stop)):
            if number:
                pieces.append(self._as_is(first - 1))
            part, part_hops, part_conditions = self._part(first, last)
            pieces, hops, conditions = pieces + part, hops + part_hops, conditions + part_conditions
        conditions += _apart(hops)
        if conditions:
            at = where[0] if where else mark
            pieces.append(self._made(" WHERE " + " AND ".join(conditions), at))
        if where and conditions:
            pieces += [self._made(" AND (", where[0]), *self._expression(where[0] + 1, where[1]),
                       self._made(")", where[1] - 1)]  # fmt: skip
        elif where:
            pieces += [self._as_is(where[0]), *self._expression(where[0] + 1, where[1])]
        return [*pieces, self._made(" ", stop)]

    # --- patterns --------------------------------------------------------------------------------------------

    def _part(self, begin: int, end: int) -> tuple[Pieces, list[Hop], list[str]]:
        """One path of a MATCH, with its name."""
        pieces: Pieces = []
        if self._at(begin).is_name and self._at(begin + 1).text == "=" and begin + 1 < end:
            self._declare(self._tokens[begin])
            pieces += [self._as_is(begin), self._as_is(begin + 1)]
            begin += 2
        shortest = _SHORTEST.get(self._at(begin).text.lower(), "")
        if shortest and self._at(begin + 1).text == "(":
            inner = (begin + 2, self._bounds[begin + 1])
            pieces.append(self._made(" ", begin))
            chain, hops, conditions, _ = self._chain(*inner, shortest)
            return pieces + chain, hops, conditions
        chain, hops, conditions, after = self._chain(begin, end)
        if after < end:
            raise self._wrong(self._tokens[after], f"{self._tokens[after].text} does not belong into a pattern")
        return pieces + chain, hops, conditions

    def _chain(self, begin: int, end: int, shortest: str = "") -> tuple[Pieces, list[Hop], list[str], int]:
        """Nodes with edges between them, up to what is none."""
        if self._at(begin).text != "(" or begin >= end:
            raise self._wrong(self._at(begin), "a pattern begins with a node, such as (k:Kernel)")
        pieces, labelled, name, conditions = self._node(begin)
        place = self._bounds[begin] + 1
        hops: list[Hop] = []
        self._found.wants_all |= labelled is None and not self._is_edge(place, end)
        while self._is_edge(place, end):
            edge, place, hop = self._edge(place, shortest)
            if self._at(place).text != "(" or place >= end:
                raise self._wrong(self._at(place), "an edge leads to a node, such as (k:Kernel)")
            node, other, other_name, more = self._node(place)
            pieces += [*edge, *node]
            conditions += more
            left, right = (None if one is None else tuple(one.tables) for one in (labelled, other))
            types, is_back, is_both_ways, variable, is_long = hop
            ends = (right, left, other_name, name) if is_back else (left, right, name, other_name)
            hops.append(Hop(types, ends[0], ends[1], is_both_ways, variable, is_long, ends[2], ends[3]))
            labelled, name, place = other, other_name, self._bounds[place] + 1
        self._found.hops += hops
        return pieces, hops, conditions, place

    def _is_edge(self, place: int, end: int) -> bool:
        return place < end and self._at(place).text in ("-", "<")

    def _node(self, begin: int) -> tuple[Pieces, Labelled | None, str, list[str]]:
        """A node, what its labels mean, what it is called, and what else has to hold of it."""
        end = self._bounds[begin]
        pieces, place, labelled, conditions = [self._as_is(begin)], begin + 1, None, []
        name = ""
        if self._at(place).is_name and place < end:
            self._declare(self._tokens[place])
            name = self._tokens[place].text
            pieces.append(self._as_is(place))
            place += 1
        if self._at(place).text == ":" and place < end:
            labelled, after = self._label_or(place + 1)
            if not name:
                name = self._new_name()
                pieces.append(self._made(name, place))
            if condition := labelled.condition(name):
                conditions.append(condition)
            tables = labelled.tables
            if not tables:
                conditions.append("false")
            else:
                pieces.append(self._made(":" + ":".join(f"`{one}`" for one in tables), place))
            self._found.labels.update(tables)
            place = after
        name = name or f"_{begin}"
        if self._at(place).text == "{" and place < end:
            pieces += self._map(place)
            place = self._bounds[place] + 1
        if self._at(place).word == "WHERE" and place < end:
            conditions.append(f"({joined(self._expression(place + 1, end)).strip()})")
            place = end
        if place < end:
            raise self._wrong(self._tokens[place], f"{self._tokens[place].text} does not belong into a node")
        return [*pieces, self._as_is(end)], labelled, name, conditions

    def _label_or(self, place: int) -> tuple[Labelled, int]:
        found, place = self._label_and(place)
        while self._at(place).text == "|":
            other, place = self._label_and(place + 1 + (self._at(place + 1).text == ":"))
            found = of_labels.either(found, other)
        return found, place

    def _label_and(self, place: int) -> tuple[Labelled, int]:
        found, place = self._label(place)
        while self._at(place).text in ("&", ":"):
            other, place = self._label(place + 1)
            found = of_labels.both(found, other)
        return found, place

    def _label(self, place: int) -> tuple[Labelled, int]:
        token = self._at(place)
        if token.text == "!":
            found, place = self._label(place + 1)
            return of_labels.neither(found, self._universe), place
        if token.text == "(":
            found, after = self._label_or(place + 1)
            if after != self._bounds[place]:
                raise self._wrong(self._at(after), "labels are joined by &, | and !")
            return found, after + 1
        if token.text == "%":
            return of_labels.everything(self._universe), place + 1
        if not token.is_name:
            raise self._wrong(token, "a label is wanted")
        try:
            return of_labels.named(token.name, self._universe), place + 1
        except DatabaseError as error:
            raise self._wrong(token, str(error)) from None

    def _edge(self, place: int, shortest: str) -> tuple[Pieces, int, tuple[Any, ...]]:
        """An edge of a pattern: how it is written, where it ends, and what it is."""
        pieces: Pieces = []
        is_back = self._at(place).text == "<"
        for symbol in ("<", "-") if is_back else ("-",):
            if self._at(place).text != symbol:
                raise self._wrong(self._at(place), "an edge is -[:TYPE]->, <-[:TYPE]- or -[:TYPE]-")
            pieces.append(self._as_is(place))
            place += 1
        types = self._types_there or None
        variable, length, facts = "", "", Piece("", 0)
        at = place
        if self._at(place).text == "[":
            end = self._bounds[place]
            at, place = place, place + 1
            if self._at(place).is_name and place < end:
                self._declare(self._tokens[place])
                variable = self._tokens[place].text
                place += 1
            if self._at(place).text == ":":
                types, place = self._types(place + 1)
            if self._at(place).text == "*":
                length, place = self._length(place + 1, end)
            if self._at(place).text == "{":
                facts = Piece(joined(self._map(place)), self._at(place).start)
                place = self._bounds[place] + 1
            if place != end:
                raise self._wrong(self._tokens[place], f"{self._tokens[place].text} does not belong into an edge")
            place += 1
        dash = place
        if self._at(place).text != "-":
            raise self._wrong(self._at(place), "an edge is -[:TYPE]->, <-[:TYPE]- or -[:TYPE]-")
        place += 1
        is_forth = self._at(place).text == ">"
        is_both_ways = is_back == is_forth
        variable = variable or self._new_name()
        inside = [variable, ":" + "|".join(f"`{one}`" for one in types) if types else ""]
        if length:
            # A path of one type that goes one way meets no edge twice.
            once = "" if types and len(types) == 1 and not is_both_ways else " TRAIL"
            inside.append(f"*{' ' + shortest if shortest else once} {length}")
        pieces += [self._made(f"[{''.join(inside)}{facts.text}]", at), self._as_is(dash)]
        if is_forth:
            pieces.append(self._as_is(place))
            place += 1
        return pieces, place, (types, is_back and not is_forth, is_both_ways, variable, bool(length))

    def _types(self, place: int) -> tuple[tuple[str, ...], int]:
        found = []
        while True:
            token = self._at(place)
            if not token.is_name:
                raise self._wrong(token, "a type of edges is wanted, or several with | between them")
            if token.name not in TYPES:
                if token.name in {edge.name for edge in (*DIFF_EDGES, *RANK_EDGES)}:
                    raise self._wrong(token, f"edges {token.name} stand in a Neo4j database only")
                meant = did_you_mean(token.name, TYPES)
                raise self._wrong(token, f"no type of edges {token.name}" + (f"; {meant}" if meant else ""))
            found.append(token.name)
            place += 1
            if self._at(place).text != "|":
                return tuple(dict.fromkeys(found)), place
            place += 1 + (self._at(place + 1).text == ":")

    def _length(self, place: int, end: int) -> tuple[str, int]:
        """How many edges may follow each other, `1..30`."""
        parts = []
        while place < end and self._at(place).text != "{":
            parts.append(self._tokens[place])
            place += 1
        text = "".join(part.text for part in parts)
        found = re.fullmatch(r"(\d*)(\.\.)?(\d*)", text)
        if not found:
            raise self._wrong(parts[0], f"*{text}: a length is *, *3, *1..3 or *..3")
        low, dots, high = found.groups()
        least, most = int(low or 1), int(high or (LONGEST_PATH if dots or not low else low))
        if most > LONGEST_PATH:
            raise self._wrong(parts[0], f"*{text}: paths of {LONGEST_PATH:,} edges at most are followed")
        return f"{least}..{most}", place

    def _map(self, place: int) -> Pieces:
        """`{name: value}`; keys are names of properties or of what is made."""
        end = self._bounds[place]
        pieces = [self._as_is(place)]
        for number, (first, last) in enumerate(self._split(place + 1, end)):
            if first == last:
                break
            if number:
                pieces.append(self._as_is(first - 1))
            if not self._at(first).is_name or self._at(first + 1).text != ":":
                raise self._wrong(self._at(first), "a map is {name: value, ...}")
            pieces += [
                self._made(f"`{self._tokens[first].name}`", first),
                self._as_is(first + 1), self._made(" ", first + 1), *self._expression(first + 2, last),
            ]  # fmt: skip
        return [*pieces, self._as_is(end)]

    # --- expressions -----------------------------------------------------------------------------------------

    def _expression(self, begin: int, end: int) -> Pieces:
        """Values, conditions, lists of items: whatever is no pattern."""
        pieces: Pieces = []
        place = begin
        while place < end:
            token, following = self._tokens[place], self._at(place + 1) if place + 1 < end else self._end
            handle: Callable[[int, int], tuple[Pieces, int]] | None = None
            if token.text == "[" and token.kind == "symbol":
                handle = self._subscript if self._follows_value(place, begin) else self._list
            elif token.text == "(":
                handle = self._brackets
            elif token.text == "{":
                handle = self._map_in_expression
            elif token.is_name and following.text == "(" and token.word not in _NO_FUNCTIONS:
                handle = self._call
            elif token.word in ("EXISTS", "COUNT") and following.text == "{":
                handle = self._subquery
            elif token.is_name and following.text == "{" and token.word not in _NO_FUNCTIONS:
                handle = self._projection
            elif token.is_name and following.text == ":" and token.word not in _NO_FUNCTIONS:
                handle = self._label_predicate
            elif token.text == "." and following.is_name and self._follows_value(place, begin):
                handle = self._property
            if handle is None:
                pieces.append(self._as_is(place))
                place += 1
            else:
                found, place = handle(place, end)
                pieces += found
        return pieces

    def _follows_value(self, place: int, begin: int) -> bool:
        before = self._at(place - 1) if place > begin else self._end
        if before.is_name:
            return before.word not in _NO_FUNCTIONS or before.word == "END"
        return before.text in (")", "]", "}") or before.kind in ("parameter", "string", "number")

    def _property(self, place: int, end: int) -> tuple[Pieces, int]:
        token = self._tokens[place + 1]
        return [Piece(f".`{token.name}`", token.start)], place + 2

    def _label_predicate(self, place: int, end: int) -> tuple[Pieces, int]:
        labelled, after = self._label_or(place + 2)
        self._found.labels.update(labelled.tables)
        condition = labelled.condition(self._tokens[place].text, always=True)
        return [self._made((" " if self._tokens[place].apart else "") + condition, place)], after

    def _map_in_expression(self, place: int, end: int) -> tuple[Pieces, int]:
        return [self._made(" ", place), *self._map(place)], self._bounds[place] + 1

    def _projection(self, place: int, end: int) -> tuple[Pieces, int]:
        """`n{.name, step: 3}`."""
        closed = self._bounds[place + 1]
        pieces = [self._made(" {", place)]
        for number, (first, last) in enumerate(self._split(place + 2, closed)):
            if number:
                pieces.append(self._as_is(first - 1))
            name = self._at(last - 1)
            if self._at(first).text == "." and name.is_name and last == first + 2:
                pieces.append(self._made(f"`{name.name}`: {self._tokens[place].text}.`{name.name}`", first))
            elif self._at(first).is_name and self._at(first + 1).text == ":":
                value = self._expression(first + 2, last)
                pieces += [self._made(f"`{self._tokens[first].name}`: ", first), *value]
            else:
                raise self._wrong(self._at(first), "a part of n{...} is .name or name: value")
        return [*pieces, self._made("}", closed)], closed + 1

    def _brackets(self, place: int, end: int) -> tuple[Pieces, int]:
        after = self._bounds[place] + 1
        if self._begins_pattern(place, end):
            pieces, hops, conditions, after = self._chain(place, end)
            if conditions or _apart(hops):
                raise self._wrong(self._tokens[place], "such a pattern in a condition is written EXISTS { MATCH ... }")
            return [self._made(" ", place), *pieces], after
        inside = self._expression(place + 1, after - 1)
        return [self._as_is(place), *inside, self._as_is(after - 1)], after

    def _begins_pattern(self, place: int, end: int) -> bool:
        """Whether brackets in an expression are a node, with an edge behind it."""
        after = self._bounds[place] + 1
        nexts = "".join(self._at(at).text for at in range(after, min(after + 3, end)))
        content = self._tokens[place + 1 : after - 1]
        is_node = (
            not content
            or (content[0].is_name and (len(content) == 1 or content[1].text in (":", "{")))
            or (content[0].text in (":", "{"))
        )
        return is_node and nexts.startswith(("-[", "<-[", "-->", "<--", "--("))

    def _subquery(self, place: int, end: int) -> tuple[Pieces, int]:
        after = self._bounds[place + 1] + 1
        inner = (place + 2, after - 1)
        if self._tokens[place].word == "COUNT":  # the engine may leave out those with none
            raise self._wrong(self._tokens[place], "COUNT { } needs Neo4j; here: OPTIONAL MATCH ..., then count()")
        pieces = [self._as_is(place), self._made(" { ", place + 1)]
        if self._at(inner[0]).text == "(":  # MATCH is understood
            where = next((at for at in self._outer(*inner) if self._tokens[at].word == "WHERE"), None)
            match = self._match(inner[0] - 1, where or inner[1], (where, inner[1]) if where else None)
            pieces += [self._made("MATCH ", inner[0]), *match[1:]]
        elif self._at(inner[0]).word == "MATCH":
            pieces += self._clauses(*inner)
        else:
            raise self._wrong(self._at(inner[0]), "such a subquery begins with MATCH")
        return [*pieces, self._made(" }", after - 1)], after

    def _list(self, place: int, end: int) -> tuple[Pieces, int]:
        """A list, or `[x IN list WHERE condition | value]`."""
        last = self._bounds[place]
        lead = " " if self._tokens[place].apart else ""
        if not (self._at(place + 1).is_name and self._at(place + 2).word == "IN" and place + 2 < last):
            return [self._as_is(place), *self._expression(place + 1, last), self._as_is(last)], last + 1
        self._declare(self._tokens[place + 1])
        variable = self._tokens[place + 1].text
        outer = self._outer(place + 3, last)
        where = next((at for at in outer if self._tokens[at].word == "WHERE"), None)
        bar = next((at for at in outer if self._tokens[at].text == "|"), None)
        list_ends = min(at for at in (where, bar, last) if at is not None)
        text = joined(self._expression(place + 3, list_ends)).strip()
        if where is not None:
            condition = joined(self._expression(where + 1, bar or last)).strip()
            text = f"list_filter({text}, {variable} -> {condition})"
        if bar is not None:
            value = joined(self._expression(bar + 1, last)).strip()
            text = f"list_transform({text}, {variable} -> {value})"
        return [self._made(lead + text, place)], last + 1

    def _subscript(self, place: int, end: int) -> tuple[Pieces, int]:
        """`list[0]` and `list[0..3]`: the engine counts from 1."""
        last = self._bounds[place]
        text = "".join(token.text for token in self._tokens[place + 1 : last])
        if found := re.fullmatch(r"(-?)(\d+)", text):
            number = f"-{found[2]}" if found[1] else str(int(found[2]) + 1)
            return [self._made(f"[{number}]", place)], last + 1
        dots = next((at for at in range(place + 1, last) if self._at(at).text == self._at(at + 1).text == "."), None)
        if dots is None:
            index = joined(self._expression(place + 1, last)).strip()
            return [self._made(f"[CASE WHEN {index} < 0 THEN {index} ELSE {index} + 1 END]", place)], last + 1
        low, high = self._tokens[place + 1 : dots], self._tokens[dots + 2 : last]
        if [part.kind for part in low] not in ([], ["number"]) or (high and high[0].text == "-"):
            raise self._wrong(self._tokens[place], f"[{text}] needs Neo4j: here a part of a list begins at a number")
        first = int(low[0].text) + 1 if low else 1
        return [self._made(f"[{first}:", place), *self._expression(dots + 2, last), self._made("]", last)], last + 1

    def _call(self, place: int, end: int) -> tuple[Pieces, int]:
        """A function by the name that the engine has for it."""
        token, opened = self._tokens[place], place + 1
        closed = self._bounds[opened]
        lead = " " if token.apart else ""
        name = token.name.lower()
        if name == "collect" and not self._keeps_order:
            raise self._wrong(token, "collect() behind an ORDER BY needs Neo4j: here it keeps no order")
        if name in QUANTIFIERS and self._at(opened + 2).word == "IN":
            self._declare(self._tokens[opened + 1])
            return [Piece(f"{lead}{name}(", token.start), *self._expression(opened + 1, closed),
                    self._as_is(closed)], closed + 1  # fmt: skip
        if name == "reduce":
            return [self._made(lead + self._reduce(opened + 1, closed), place)], closed + 1
        if name == "exists" and self._at(opened + 1).text == "(":
            return [
                self._made(f"{lead}(", place),
                *self._expression(opened + 1, closed),
                self._as_is(closed),
            ], closed + 1
        parts = self._split(opened + 1, closed) if closed > opened + 1 else []
        arguments = [joined(self._expression(*part)).strip() for part in parts]
        if name == "range":
            self._check_range(parts)
        elif (name, len(parts)) in FUNCTIONS:
            distinct = ""
            if name == "sum" and self._at(opened + 1).word == "DISTINCT":
                distinct, arguments = "DISTINCT ", [arguments[0][len("DISTINCT") :].strip()]
            text = rendered(FUNCTIONS[name, len(parts)], [distinct + arguments[0], *arguments[1:]])
            return [self._made(lead + text, place)], closed + 1
        elif name not in SAME:
            meant = did_you_mean(name, known(), cutoff=0.75)
            raise self._wrong(token, f"the function {token.text}() needs Neo4j" + (f"; {meant}" if meant else ""))
        return [Piece(f"{lead}{name}(", token.start), self._made(", ".join(arguments), opened + 1),
                self._as_is(closed)], closed + 1  # fmt: skip

    def _check_range(self, parts: Sequence[tuple[int, int]]) -> None:
        """The engine makes a list whole, whatever its limits are: it is not to be long."""
        for first, last in parts:
            for place in self._outer(first, last):
                token = self._tokens[place]
                value = self._parameters.get(token.text[1:]) if token.kind == "parameter" else token.text
                is_number = token.kind == "number" or (token.kind == "parameter" and isinstance(value, int))
                is_size = token.text.lower() in ("size", "length") or self._at(place - 1).text.lower() in (
                    "size",
                    "length",
                )
                if is_number and float(value or 0) > LARGEST_RANGE:
                    raise self._wrong(token, f"a range ends at {LARGEST_RANGE:,} at the latest")
                if not (is_number or is_size or token.text in ("-", "+")):
                    raise self._wrong(token, "here a range is between numbers, parameters and sizes of lists")

    def _reduce(self, begin: int, end: int) -> str:
        """`reduce(sum = 0, x IN list | sum + x)`."""
        parts = self._split(begin, end)
        bar = next((at for at in self._outer(begin, end) if self._tokens[at].text == "|"), None)
        if len(parts) != 2 or bar is None or self._at(begin + 1).text != "=" or self._at(parts[1][0] + 1).word != "IN":
            raise self._wrong(self._at(begin), "reduce is written reduce(sum = 0, x IN list | sum + x)")
        first = parts[1][0]
        self._declare(self._tokens[begin])
        self._declare(self._tokens[first])
        so_far, variable = self._tokens[begin].text, self._tokens[first].text
        start = joined(self._expression(begin + 2, parts[0][1])).strip()
        values = joined(self._expression(first + 2, bar)).strip()
        value = joined(self._expression(bar + 1, end)).strip()
        return f"list_reduce(list_prepend({values}, {start}), ({so_far}, {variable}) -> {value})"


def _apart(hops: Sequence[Hop]) -> list[str]:
    """That one edge is not two edges of a clause: so it is in Neo4j, and not for the engine."""
    found = []
    for number, one in enumerate(hops):
        for other in hops[number + 1 :]:
            if one.types and other.types and not {*one.types} & {*other.types}:
                continue
            types = {*(one.types or ()), *(other.types or ())}
            is_one_way = not (one.is_both_ways or other.is_both_ways)
            is_simple = len(types) == 1 or not (one.is_long or other.is_long)
            follows = one.ends == other.begins or other.ends == one.begins
            if is_one_way and is_simple and follows and one.types and other.types:
                continue  # an edge that follows itself would be a circle
            sides = [f"list_transform(rels({hop.variable}), e -> id(e))" if hop.is_long else f"id({hop.variable})"
                     for hop in (one, other)]  # fmt: skip
            if one.is_long and other.is_long:
                found.append(f"NOT list_has_any({sides[0]}, {sides[1]})")
            elif one.is_long or other.is_long:
                alone, several = sides if other.is_long else reversed(sides)
                found.append(f"NOT {alone} IN {several}")
            else:
                found.append(f"{sides[0]} <> {sides[1]}")
    return found
