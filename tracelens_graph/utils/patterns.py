"""Regular expressions of large tables, which fit few names: each is compiled when a word of it occurs."""

from __future__ import annotations

import re
from functools import cached_property

_NO_LITERAL = re.compile(r"\\(?:x..|u.{4}|U.{8}|N\{.*?\}|\d{1,3}|.)|\[\^?\]?(?:\\.|[^\]\\])*\]|[.^$]", re.DOTALL)
_GROUP = re.compile(r"\([^()]*\)")
_OPTIONAL = re.compile(r".(?:[?*]|\{[^}]*\})[?+]?|\+[?+]?", re.DOTALL)
_FLAGS = re.compile(r"\(\?[a-zL]*[ix]")


class LazyPattern:
    """A regular expression whose compilation waits for a text that may fit.

    Attributes:
        pattern: the expression.
        ignores_case: whether case does not matter.
    """

    def __init__(self, pattern: str, *, ignores_case: bool = False) -> None:
        self.pattern = pattern
        self.ignores_case = ignores_case

    @cached_property
    def _words(self) -> tuple[str, ...]:
        return () if self.ignores_case else required_words(self.pattern)

    @cached_property
    def _compiled(self) -> re.Pattern[str]:
        return re.compile(self.pattern, re.IGNORECASE if self.ignores_case else 0)

    def search(self, text: str, start: int = 0) -> re.Match[str] | None:
        """As `re.Pattern.search`."""
        words = self._words
        if words and not any(word in text for word in words):
            return None
        return self._compiled.search(text, start)


def required_words(pattern: str) -> tuple[str, ...]:
    """Words, one of them in every text that fits an expression; empty where that is not clear.

    Every alternative at the top gives its longest stretch of plain characters that is neither optional nor in a group.

    >>> required_words(r"splitk_?reduce|(?<![a-z])gemv")
    ('splitk', 'gemv')
    """
    if _FLAGS.search(pattern):
        return ()
    plain = _NO_LITERAL.sub("\0", pattern)
    while (less := _GROUP.sub("\0", plain)) != plain:
        plain = less
    words = [max(_OPTIONAL.sub("\0", one).split("\0"), key=len) for one in plain.split("|")]
    return tuple(dict.fromkeys(words)) if all(words) else ()
