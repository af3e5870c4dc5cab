"""Patterns of a MATCH as the engine reads them, with conditions for what it does not take for granted."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from tracelens_graph.embedded import labels as of_labels
from tracelens_graph.embedded.labels import Labelled
from tracelens_graph.embedded.statement import Hop, Statement
from tracelens_graph.errors import DatabaseError
from tracelens_graph.schema import CONTEXT_EDGES, DIFF_EDGES, EVENT_EDGES, RANK_EDGES
from tracelens_graph.utils.suggest import did_you_mean

LONGEST_PATH = 1000
"""Edges of a path whose length the statement leaves open: more than calls are ever deep."""

TYPES = {edge.name: edge for edge in (*EVENT_EDGES, *CONTEXT_EDGES)}
"""Types of the edges of one trace."""

Values = Callable[[Statement, int, int], str]
"""Translates values between two places."""

_EDGE = "an edge is -[:TYPE]->, <-[:TYPE]- or -[:TYPE]-"


def matched(s: Statement, values: Values, begin: int, end: int, where: tuple[int, int] | None) -> str:
    """The patterns of one MATCH with its WHERE, which says more here than the user's."""
    patterns = Patterns(s, values)
    paths = ",".join(patterns.path(*part) for part in s.split(begin, end))
    conditions = patterns.all_conditions()
    if where:
        conditions.append(f"({s.mark(where[0])}{values(s, where[0] + 1, where[1])})")
    return f"{paths} WHERE {' AND '.join(conditions)} " if conditions else f"{paths} "


def map_at(s: Statement, place: int, values: Values) -> str:
    """`{name: value}`; keys are names of properties or of what is made."""
    closed = s.bounds[place]
    parts = []
    for first, last in s.split(place + 1, closed) if closed > place + 1 else ():
        if not s.at(first).is_name or s.at(first + 1).text != ":":
            raise s.wrong(first, "a map is {name: value, ...}")
        parts.append(f"{s.mark(first)}`{s.tokens[first].name}`: {values(s, first + 2, last)}")
    return f"{s.as_is(place)}{', '.join(parts)}{s.as_is(closed)}"


def labels_at(s: Statement, place: int) -> tuple[Labelled, int]:
    """What labels joined by |, & and ! mean, and the place behind them."""
    found, place = _all_of(s, place)
    while s.at(place).text == "|":
        other, place = _all_of(s, place + 1 + (s.at(place + 1).text == ":"))
        found = of_labels.either(found, other)
    return found, place


def _all_of(s: Statement, place: int) -> tuple[Labelled, int]:
    found, place = _label(s, place)
    while s.at(place).text in ("&", ":"):
        other, place = _label(s, place + 1)
        found = of_labels.both(found, other)
    return found, place


def _label(s: Statement, place: int) -> tuple[Labelled, int]:
    token = s.at(place)
    if token.text == "!":
        refused = 1
        while s.at(place + refused).text == "!":
            refused += 1
        found, after = _label(s, place + refused)
        return (of_labels.neither(found, s.universe) if refused % 2 else found), after
    if token.text == "(":
        found, after = labels_at(s, place + 1)
        if after != s.bounds[place]:
            raise s.wrong(after, "labels are joined by &, | and !")
        return found, after + 1
    if not token.is_name:
        raise s.wrong(place, "a label is wanted")
    try:
        return of_labels.named(token.name, s.universe), place + 1
    except DatabaseError as error:
        raise s.wrong(place, str(error)) from None


class Patterns:
    """The patterns of one clause: their edges, and what has to hold of them, gather here."""

    def __init__(self, s: Statement, values: Values) -> None:
        self._s, self._values = s, values
        self._hops: list[Hop] = []
        self._conditions: list[str] = []

    def all_conditions(self) -> list[str]:
        """What has to hold, as texts."""
        return [*self._conditions, *_apart(self._hops)]

    def path(self, begin: int, end: int) -> str:
        """One path, with its name."""
        s, named = self._s, ""
        if s.at(begin, end).is_name and s.at(begin + 1, end).text == "=":
            named = f"{s.declared(begin)}{s.as_is(begin + 1)}"
            begin += 2
        text, after = self.chain(begin, end)
        if after < end:
            raise s.wrong(after, f"{s.tokens[after].text} does not belong into a pattern")
        return named + text

    def chain(self, begin: int, end: int) -> tuple[str, int]:
        """Nodes with edges between them, and the place of what is none any more."""
        s = self._s
        if s.at(begin, end).text != "(":
            raise s.wrong(begin, "a pattern begins with a node, such as (k:Kernel)")
        text, labelled, name = self._node(begin)
        place = s.bounds[begin] + 1
        s.wants_all |= labelled is None and s.at(place, end).text not in ("-", "<")
        while s.at(place, end).text in ("-", "<"):
            edge, place, hop_to = self._edge(place, (labelled, name), end)
            node, labelled, name = self._node(place)
            hop = hop_to(labelled, name)
            self._hops.append(hop)
            s.hops.append(hop)
            text += edge + node
            place = s.bounds[place] + 1
        return text, place

    def _node(self, begin: int) -> tuple[str, Labelled | None, str]:
        """A node, what its labels mean, and what it is called."""
        s, end, place = self._s, self._s.bounds[begin], begin + 1
        labelled, name, text = None, "", s.as_is(begin)
        if s.at(place, end).is_name:
            name = s.declared(place)
            place += 1
        if s.at(place, end).text == ":":
            labelled, after = labels_at(s, place + 1)
            name = name or s.new_name()
            s.labels.update(labelled.tables)
            if labelled.tables:
                text += f"{name}{s.mark(place)}:{':'.join(f'`{one}`' for one in labelled.tables)}"
            else:
                text += name
                self._conditions.append("false")
            if condition := labelled.condition(name):
                self._conditions.append(condition)
            place = after
        else:
            text += name
        if s.at(place, end).text == "{":
            text += map_at(s, place, self._values)
            place = s.bounds[place] + 1
        if s.at(place, end).word == "WHERE":
            self._conditions.append(f"({self._values(s, place + 1, end)})")
            place = end
        if place < end:
            raise s.wrong(place, f"{s.tokens[place].text} does not belong into a node")
        return text + s.as_is(end), labelled, s.plain(name)[0].strip() or f"_{begin}"

    def _edge(
        self, place: int, left: tuple[Labelled | None, str], end: int
    ) -> tuple[str, int, Callable[[Labelled | None, str], Hop]]:
        """An edge, the place of the node that it leads to, and what it is once that node is known."""
        s = self._s
        is_back = s.at(place).text == "<"
        begins, place = place, place + is_back
        if s.at(place).text != "-":
            raise s.wrong(place, _EDGE)
        types, variable, length, facts = s.types or None, "", "", ""
        place += 1
        if s.at(place).text == "[":
            closed, place = s.bounds[place], place + 1
            if s.at(place, closed).is_name:
                variable = s.declared(place)
                place += 1
            if s.at(place, closed).text == ":":
                types, place = _types(s, place + 1)
            if s.at(place, closed).text == "*":
                length, place = _length(s, place + 1, closed)
            if s.at(place, closed).text == "{":
                facts = map_at(s, place, self._values)
                place = s.bounds[place] + 1
            if place != closed:
                raise s.wrong(place, f"{s.tokens[place].text} does not belong into an edge")
            place += 1
        if s.at(place).text != "-":
            raise s.wrong(place, _EDGE)
        is_forth = s.at(place + 1).text == ">"
        place += 1 + is_forth
        if s.at(place, end).text != "(":
            raise s.wrong(place, "an edge leads to a node, such as (k:Kernel)")
        is_both_ways = is_back == is_forth
        variable = variable or s.new_name()
        inside = variable + (":" + "|".join(f"`{one}`" for one in types) if types else "")
        if length:
            # A path of one type that goes one way meets no edge twice.
            inside += f"*{'' if types and len(types) == 1 and not is_both_ways else ' TRAIL'} {length}"

        def hop(labelled: Labelled | None, name: str) -> Hop:
            ends = [left, (labelled, name)]
            if is_back and not is_forth:
                ends.reverse()
            tables = [None if one is None else tuple(one.tables) for one, _ in ends]
            return Hop(types, tables[0], tables[1], is_both_ways, variable, bool(length), ends[0][1], ends[1][1])

        return f"{'<' * is_back}{s.mark(begins)}-[{inside}{facts}]-{'>' * is_forth}", place, hop


def _types(s: Statement, place: int) -> tuple[tuple[str, ...], int]:
    found = []
    while True:
        token = s.at(place)
        if not token.is_name:
            raise s.wrong(place, "a type of edges is wanted, or several with | between them")
        if token.name in {edge.name for edge in (*DIFF_EDGES, *RANK_EDGES)} - TYPES.keys():
            raise s.wrong(place, f"edges {token.name} stand in a Neo4j database only")
        if token.name not in TYPES:
            meant = did_you_mean(token.name, TYPES)
            raise s.wrong(place, f"no type of edges {token.name}" + (f"; {meant}" if meant else ""))
        found.append(token.name)
        if s.at(place + 1).text != "|":
            return tuple(dict.fromkeys(found)), place + 1
        place += 2 + (s.at(place + 2).text == ":")


def _length(s: Statement, begin: int, end: int) -> tuple[str, int]:
    """How many edges may follow each other, `1..30`."""
    place = next((at for at in s.outer(begin, end) if s.tokens[at].text == "{"), end)
    text = "".join(token.text for token in s.tokens[begin:place])
    found = re.fullmatch(r"(\d*)(\.\.)?(\d*)", text)
    if not found:
        raise s.wrong(begin, f"*{text}: a length is *, *3, *1..3 or *..3")
    low, dots, high = found.groups()
    least, most = int(low or 1), int(high or (LONGEST_PATH if dots or not low else low))
    if most > LONGEST_PATH:
        raise s.wrong(begin, f"*{text}: paths of {LONGEST_PATH:,} edges at most are followed")
    return f"{least}..{most}", place


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
