"""Tokens of a statement in Cypher."""

from __future__ import annotations

import re
from typing import NamedTuple

from tracelens_graph.errors import DatabaseError

_TOKEN = re.compile(
    r"(?P<unread>\s+|//[^\r\n]*|/\*.*?\*/)"
    r"|(?P<string>'(?:\\.|[^'\\])*'|\"(?:\\.|[^\"\\])*\")"
    r"|(?P<quoted>`(?:[^`]|``)+`)"
    r"|(?P<number>\d+(?:\.\d+)?(?:[eE][-+]?\d+)?(?!\w))"
    r"|(?P<parameter>\$\w+)"
    r"|(?P<name>[^\W\d]\w*)"
    r"|(?P<symbol>[-+*/%^=<>!~(){}\[\],.;:|&])",
    re.DOTALL,
)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}
_ESCAPED = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)


class Token(NamedTuple):
    """A token of a statement.

    Attributes:
        kind: string, quoted (a name in backticks), number, parameter, name or symbol.
        text: as it stands there.
        start, end: where.
        apart: whether it stands apart from the token before it.
    """

    kind: str
    text: str
    start: int
    end: int
    apart: bool

    @property
    def word(self) -> str:
        """A bare word in capitals, to be held against keywords; else empty."""
        return self.text.upper() if self.kind == "name" else ""

    @property
    def is_name(self) -> bool:
        """Whether it may be a name."""
        return self.kind in ("name", "quoted")

    @property
    def name(self) -> str:
        """The name that it is."""
        return self.text[1:-1].replace("``", "`") if self.kind == "quoted" else self.text


def tokens_of(text: str) -> list[Token]:
    """The tokens of a text.

    Raises:
        DatabaseError: something in it is none; the message says where.
    """
    tokens: list[Token] = []
    at, apart = 0, False
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            raise DatabaseError(f"{place_of(text, at)}: {_what_is_wrong(text[at])}")
        kind = found.lastgroup or ""
        if kind == "unread":
            apart = True
        else:
            tokens.append(Token(kind, found.group(), at, found.end(), apart))
            apart = False
        at = found.end()
    return tokens


def _what_is_wrong(character: str) -> str:
    unclosed = {"'": "a text is not closed", '"': "a text is not closed", "`": "a name is not closed"}
    return unclosed.get(character, f"{character!r} stands for nothing here")


def place_of(text: str, at: int) -> str:
    """A place in a text, for people."""
    line = text.count("\n", 0, at) + 1
    return f"line {line}, column {at - text.rfind(chr(10), 0, at)}"


def literal(token: Token) -> str:
    """A text as the engine reads it, whatever escapes it was written with."""

    def value(found: re.Match[str]) -> str:
        escape = found[1]
        return chr(int(escape[1:], 16)) if len(escape) == 5 else _ESCAPES.get(escape, escape)

    content = _ESCAPED.sub(value, token.text[1:-1])
    content = content.encode("utf-16", "surrogatepass").decode("utf-16", "replace")  # escapes \\u may be in pairs
    return "'" + content.replace("\\", "\\\\").replace("'", "\\'") + "'"
