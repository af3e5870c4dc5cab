"""Expressions that are compiled late fit what they fit when compiled at once, and words are those that a fit needs."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracelens_graph.categories.kernels import KERNEL_RULES
from tracelens_graph.graph.collective_kinds import LIBRARIES
from tracelens_graph.utils.patterns import LazyPattern, required_words

_ATOMS = st.sampled_from(
    [
        r"ab",
        r"c",
        r"a?",
        r"b+",
        r"b*?",
        r"(?:a|bc)",
        r"(?:a(?:b)?)?",
        r"[a-c]",
        r"[^a]",
        r"c{2}",
        r"b{0}a",
        r".",
        r"\w",
        r"\x61",
        r"(?<!a)",
        r"^",
    ]
)
_PATTERNS = st.lists(_ATOMS, min_size=1, max_size=5).map("".join)


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        (r"splitk_?reduce|(?<![a-z])gemv", ("splitk", "gemv")),
        (r"nccl(?:dev)?kernel", ("kernel",)),
        (r"ab??cde*", ("cd",)),
        (r"[a|b](?:c|d)", ()),
        (r"one|\w+", ()),
        (r"(?i)word", ()),
        (r"(?x) w o r d", ()),
        (r"\x41b|\(c", ("b", "c")),
    ],
)
def test_a_text_that_fits_holds_a_word(pattern: str, words: tuple[str, ...]) -> None:
    assert required_words(pattern) == words


@given(st.lists(_PATTERNS, min_size=1, max_size=3).map("|".join), st.text("abcd", max_size=8))
def test_patterns_fit_the_same_texts_compiled_late(pattern: str, text: str) -> None:
    assert bool(LazyPattern(pattern).search(text)) == bool(re.search(pattern, text))


def test_most_patterns_of_kernels_have_words() -> None:
    patterns = [rule.pattern for rule in KERNEL_RULES.rules if rule.pattern] + [one.marker for one in LIBRARIES]
    assert sum(bool(required_words(one)) for one in patterns) > 0.8 * len(patterns)
