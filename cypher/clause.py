"""What a statement in Cypher is asked with: the defaults in its first clause, and what it calls `$name`."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

_TOKEN = re.compile(
    r"(?P<unread>\s+|//[^\r\n]*|/\*.*?(?:\*/|\Z))"
    r"|'(?:\\.|[^'\\])*(?:'|\Z)|\"(?:\\.|[^\"\\])*(?:\"|\Z)|`[^`]*(?:`|\Z)"
    r"|\$?\w+|.",
    re.DOTALL,
)
_PLANS = ("EXPLAIN", "PROFILE")
_LITERALS: Mapping[type, re.Pattern[str]] = {
    int: re.compile(r"-?\d+"),
    float: re.compile(r"-?\d*\.?\d+(?:e[-+]?\d+)?", re.IGNORECASE),
    bool: re.compile("true|false", re.IGNORECASE),
    str: re.compile(r"'(?:\\.|[^'\\])*'|\"(?:\\.|[^\"\\])*\"", re.DOTALL),
    type(None): re.compile("null", re.IGNORECASE),
}
_OPENS, _CLOSES = "{[(", "}])"

Tokens = Sequence[re.Match[str]]


@dataclass(frozen=True)
class Part:
    """A part of a statement: its text, and where that is."""

    text: str
    start: int
    end: int

    @property
    def kind(self) -> type | None:
        """Type of the literal that it is: int, float, bool, str, or that of None for null; else None."""
        return next((kind for kind, form in _LITERALS.items() if form.fullmatch(self.text)), None)


@dataclass(frozen=True)
class Asked:
    """How parameters come into a statement.

    Attributes:
        defaults: key of the map that the first clause names, a WITH -> default. Empty where no such clause comes first.
        used: names that the statement calls `$name`.
        statements: number of statements in the text, which semicolons part.
        plan: EXPLAIN or PROFILE, where the plan of the statement is asked for.
    """

    defaults: Mapping[str, Part] = field(default_factory=dict)
    used: Collection[str] = ()
    statements: int = 0
    plan: Part | None = None

    @staticmethod
    def of(text: str) -> Asked:
        """What is found in a text. Letter case, comments, line breaks and what is before the clause do not count."""
        tokens = [token for token in _TOKEN.finditer(text) if not token["unread"]]
        words = [token.group() for token in tokens]
        first = _first_clause(words)
        plan = next((_part(text, one, one) for one in tokens[:first] if one.group().upper() in _PLANS), None)
        is_map = [word.upper() for word in words[first : first + 2]] == ["WITH", "{"]
        return Asked(
            dict(_entries(text, tokens[first + 1 :])) if is_map else {},
            tuple(dict.fromkeys(word[1:] for word in words if word[0] == "$" and len(word) > 1)),
            sum(word != ";" and before == ";" for before, word in zip([";", *words], words, strict=False)),
            plan,
        )


def filled(text: str, asked: Asked, given: Collection[str]) -> str:
    """The text with parameters in the place of some defaults: `{step: $step}` instead of `{step: null}`."""
    parts, done = [], 0
    for key, default in asked.defaults.items():
        if key in given:
            parts += [text[done : default.start], f"${key}"]
            done = default.end
    return "".join((*parts, text[done:]))


def _first_clause(words: Sequence[str]) -> int:
    """Where the first clause begins, behind `CYPHER 5 runtime = slotted`, EXPLAIN and PROFILE."""
    at, is_option = 0, False
    while at < len(words):
        word = words[at].upper()
        if word == "CYPHER" or word in _PLANS:
            is_option, at = word == "CYPHER", at + 1
        elif is_option and (word[0].isdigit() or word == "."):
            at += 1
        elif is_option and words[at + 1 : at + 2] == ["="]:
            at += 3
        else:
            break
    return min(at, len(words))


def _entries(text: str, tokens: Tokens) -> Iterator[tuple[str, Part]]:
    """Keys and defaults of the map that the tokens begin with."""
    depth = 0
    entry: list[re.Match[str]] = []
    for token in tokens:
        word = token.group()
        closes = word in _CLOSES
        if depth == 1 and (word == "," or closes):
            if len(entry) > 2:  # key, colon, default
                yield entry[0].group(), _part(text, entry[2], entry[-1])
            entry = []
        elif depth:
            entry.append(token)
        depth += (word in _OPENS) - closes
        if not depth:
            return


def _part(text: str, first: re.Match[str], last: re.Match[str]) -> Part:
    return Part(text[first.start() : last.end()], first.start(), last.end())
