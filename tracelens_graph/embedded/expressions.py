"""Values and conditions of a statement as the engine reads them: whatever is no pattern of a MATCH."""

from __future__ import annotations

import re

from tracelens_graph.embedded.functions import FUNCTIONS, LARGEST_RANGE, QUANTIFIERS, SAME, known
from tracelens_graph.embedded.patterns import Patterns, labels_at, map_at, matched
from tracelens_graph.embedded.statement import CLAUSES, KEYWORDS, LARGEST, Statement
from tracelens_graph.utils.suggest import did_you_mean

Read = tuple[str, int]
"""A translation, and the place behind what it is of."""


def values(s: Statement, begin: int, end: int) -> str:
    """The translation of the tokens from one place to another.

    Raises:
        DatabaseError: there is something that only Neo4j knows; in one line, with the place.
    """
    parts: list[str] = []
    place, left = begin, 0  # where the operand begins that an IN may follow
    while place < end:
        if s.tokens[place].word == "IN":
            value = "".join(parts[left:])
            text, place = _member(s, f" ({value})" if len(parts) > left + 1 else value, place, end)
            del parts[left:]
        else:
            left = len(parts) + 1 if _ends_operand(s, place) else left
            text, place = _next(s, place, begin, end)
        parts.append(text)
    found = "".join(parts)
    if len(found) > LARGEST:
        raise s.wrong(begin, f"this is more than {LARGEST:,} characters for the engine: take it apart with WITH")
    return found


def _ends_operand(s: Statement, place: int) -> bool:
    token = s.tokens[place]
    return token.text in _LOOSER if token.kind == "symbol" else token.word in KEYWORDS - _WITHIN


def _member(s: Statement, value: str, place: int, end: int) -> Read:
    """`value IN list`: where the list has a null, the engine says false of what is not in it, and Neo4j null."""
    stop = next((at for at in s.outer(place + 1, end) if _ends_operand(s, at)), end)
    if stop == place + 1:
        raise s.wrong(place, "nothing follows IN")
    found, plain = values(s, place + 1, stop), f"{value}{s.as_is(place)}"
    if _is_without_null(s, place + 1, stop):
        return f"{plain}{found}", stop
    has_null = f"size(list_filter({found}, __e -> __e IS NULL)) > 0"
    empty = f" (CASE WHEN size({found}) = 0 THEN false"
    return f"{empty} WHEN {has_null} THEN nullif({plain}{found}, false) ELSE {plain}{found} END)", stop


def _is_without_null(s: Statement, begin: int, end: int) -> bool:
    """Whether a list is one of numbers and texts, as far as the statement shows."""
    token, inside = s.at(begin), s.tokens[begin + 1 : end - 1]
    if token.kind == "parameter" and begin + 1 == end:
        given = s.parameters[token.text[1:]]
        return isinstance(given, list) and bool(given) and None not in given
    return token.text == "[" and bool(inside) and all(
        one.kind in ("string", "number") or one.text in (",", "-") for one in inside
    )  # fmt: skip


_LOOSER = frozenset(",|=<>")
"""Signs that bind less than IN."""
_WITHIN = frozenset(("TRUE", "FALSE", "NULL", "END"))
"""Words that may be part of an operand of IN."""


def _next(s: Statement, place: int, begin: int, end: int) -> Read:
    token, following = s.tokens[place], s.at(place + 1, end)
    is_name = token.is_name and token.word not in KEYWORDS
    if token.kind == "symbol" and token.text == "[":
        return _subscript(s, place) if s.follows_value(place, begin) else _list(s, place)
    if token.kind == "symbol" and token.text == "(":
        return _brackets(s, place, end)
    if token.kind == "symbol" and token.text == "{":
        if s.follows_value(place, begin):
            raise s.wrong(place, "n{...} needs Neo4j: here columns, or a map such as {name: n.name}")
        return f" {map_at(s, place, values)}", s.bounds[place] + 1
    if token.word in ("EXISTS", "COUNT") and following.text == "{":
        return _subquery(s, place)
    if is_name and following.text == "(":
        return _call(s, place)
    if is_name and following.text == ":":
        labelled, after = labels_at(s, place + 2)
        s.labels.update(labelled.tables)
        return f" {labelled.condition(s.as_is(place).strip(), always=True)}", after
    if token.text == "." and following.is_name and s.follows_value(place, begin):
        return f".{s.mark(place + 1)}`{following.name}`", place + 2
    if token.text == "=" and following.text == "~":
        _check_pattern(s, place + 2)
    return s.as_is(place), place + 1


def _check_pattern(s: Statement, place: int) -> None:
    """A regular expression that the engine cannot read would match nothing."""
    token = s.at(place)
    text = s.parameters[token.text[1:]] if token.kind == "parameter" else token.text[1:-1]
    if token.kind not in ("parameter", "string") or not isinstance(text, str):
        return
    try:
        re.compile(text)
    except re.error as error:
        raise s.wrong(place, f"{text} is no regular expression: {error}") from None
    if found := re.search(r"\\[1-9]|\(\?(<?[=!]|>)", text):
        raise s.wrong(place, f"{found[0]} in a regular expression needs Neo4j")


def _brackets(s: Statement, place: int, end: int) -> Read:
    """An expression in brackets, or a pattern as a condition, `(o)-[:CALLS]->(:Op)`."""
    closed = s.bounds[place]
    behind = "".join(s.at(at, end).text for at in range(closed + 1, closed + 4))
    is_node = place + 1 == closed or s.at(place + 1).text == ":" or (
        s.at(place + 1).is_name and (place + 2 == closed or s.at(place + 2).text in (":", "{"))
    )  # fmt: skip
    if is_node and behind.startswith(("-[", "<-[", "-->", "<--", "--(")):
        patterns = Patterns(s, values)
        text, after = patterns.chain(place, end)
        if patterns.all_conditions():
            raise s.wrong(place, "such a pattern in a condition is written EXISTS { MATCH ... }")
        return f" {text}", after
    return f"{s.as_is(place)}{values(s, place + 1, closed)}{s.as_is(closed)}", closed + 1


def _subquery(s: Statement, place: int) -> Read:
    """`EXISTS { MATCH ... WHERE ... }`."""
    if s.tokens[place].word == "COUNT":  # the engine may leave out those with none
        raise s.wrong(place, "COUNT { } needs Neo4j; here: OPTIONAL MATCH ..., then count()")
    closed = s.bounds[place + 1]
    begin = place + 2 + (s.at(place + 2).word == "MATCH")
    where = s.first(begin, closed, "WHERE")
    for at in s.outer(begin, closed):
        if s.tokens[at].word in CLAUSES - {"WHERE"} and s.at(at - 1).word not in ("STARTS", "ENDS"):
            raise s.wrong(at, "EXISTS { } is about one MATCH with its WHERE here")
    condition = None if where is None else (where, closed)
    text = matched(s, values, begin, closed if where is None else where, condition)
    return f"{s.as_is(place)} {{ MATCH {text} }}", closed + 1


def _list(s: Statement, place: int) -> Read:
    """A list, or `[x IN list WHERE condition | value]`."""
    closed = s.bounds[place]
    if not (s.at(place + 1).is_name and s.at(place + 2, closed).word == "IN"):
        return f"{s.as_is(place)}{values(s, place + 1, closed)}{s.as_is(closed)}", closed + 1
    variable = s.declared(place + 1)
    where, bar = s.first(place + 3, closed, "WHERE"), s.first(place + 3, closed, "|")
    text = values(s, place + 3, min(at for at in (where, bar, closed) if at is not None))
    if where is not None:
        text = f"list_filter({text}, {variable} -> {values(s, where + 1, bar or closed)})"
    if bar is not None:
        text = f"list_transform({text}, {variable} -> {values(s, bar + 1, closed)})"
    return f" {text}", closed + 1


def _subscript(s: Statement, place: int) -> Read:
    """`list[0]` and `list[0..3]`: the engine counts from 1."""
    closed = s.bounds[place]
    text = "".join(token.text for token in s.tokens[place + 1 : closed])
    if found := re.fullmatch(r"(-?)(\d+)", text):
        return f"[-{found[2]}]" if found[1] else f"[{int(found[2]) + 1}]", closed + 1
    if found := re.match(r"(\d*)\.\.(?!-)", text):
        high = values(s, place + 3 + bool(found[1]), closed)
        return f"[{int(found[1] or 0) + 1}:{high}]", closed + 1
    if ".." in text:
        raise s.wrong(place, f"[{text}] needs Neo4j: here a part of a list begins at a number")
    index = values(s, place + 1, closed)
    return f"[CASE WHEN {index} < 0 THEN {index} ELSE {index} + 1 END]", closed + 1


def _call(s: Statement, place: int) -> Read:
    """A function by the name that the engine has for it."""
    closed, name = s.bounds[place + 1], s.tokens[place].name.lower()
    lead, after = " " * s.tokens[place].apart, closed + 1
    if name in QUANTIFIERS:
        if s.at(place + 3).word != "IN":
            raise s.wrong(place, f"{name} is written {name}(x IN list WHERE ...)")
        of = f"{s.declared(place + 2)}{s.as_is(place + 3)}{values(s, place + 4, closed)}"
        return f"{lead}{name}({of})", after
    parts = s.split(place + 2, closed) if closed > place + 2 else []
    if name == "range":
        _check_range(s, parts)
    elif name not in SAME and (name, len(parts)) not in FUNCTIONS:
        meant = did_you_mean(name, known(), cutoff=0.75)
        raise s.wrong(place, f"the function {s.tokens[place].text}() needs Neo4j" + (f"; {meant}" if meant else ""))
    arguments = [values(s, *part).strip() for part in parts]
    template = FUNCTIONS.get((name, len(parts)), f"{name}({', '.join(['{}'] * len(parts))})")
    return f"{lead}{template.format(*arguments)}", after


def _check_range(s: Statement, parts: list[tuple[int, int]]) -> None:
    """The engine makes a list whole, whatever its limits are: it is not to be long."""
    for place in (at for part in parts for at in s.outer(*part)):
        token, before = s.tokens[place], s.at(place - 1)
        value = s.parameters[token.text[1:]] if token.kind == "parameter" else token.text
        if token.kind == "number" or isinstance(value, int):
            if float(value) > LARGEST_RANGE:
                raise s.wrong(place, f"a range ends at {LARGEST_RANGE:,} at the latest")
        elif not ({token.text.lower(), before.text.lower()} & {"size", "length"} or token.text in ("-", "+")):
            raise s.wrong(place, "here a range is between numbers, parameters and sizes of lists")
