"""Turns of phrase that were edited out of pages and of texts of the program, and must not come back."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from pages import PAGES

from corpus import CHECKOUT
from tracelens_graph.cypher import library

EVERYWHERE = {
    r"dearest": "most expensive, costliest",
    r"that which": "what",
    r"no room for": "does not fit, is left out",
    r"told apart|tells? \w+ apart": "separate, distinguish",
    r"time to win": "time that could be won",
    r"kernels of which no name": "kernels whose names do not",
    r"tells? of|tells? nothing|tells? which|tells? how": "show, list, name",
}
"""Pattern -> what to write instead; in pages, which hold screens and help, and in texts of the program."""

IN_PAGES = {
    r"tells?|told": "show, list, name, separate",
    r"of which": "whose, a clause of its own",
    r"but for": "except, without",
    r"as ever": "as usual",
    r"anyhow": "usually, in any case",
    r"held against": "compared with",
    r"put down to": "explained by",
    r"so (?:is|are|does|do) (?:what|those)": "name the subject",
    r"not found are": "... are missed",
    r"nothing of an? \w+": "no ...",
    r"in its stead": "instead",
    r"(?:is|are) said": "a line says",
    r"stands? behind": "comes after",
    r"takes? the place of all": "replaces everything",
}
"""The same, in pages alone: other sentences of the program still have these."""

IN_DOCUMENTATION = {
    r"tells?(?!:)|told(?!:)": "say, show, list, name",
    r"(?<!one )(?<!each )of which": "whose, a clause of its own",
    r"no room for": "no space for, does not fit",
}
"""The same in documentation of code, whose functions may have parameters of these names."""

FOLDERS = ("tracelens_graph", "loaders")
SOURCES = [
    path
    for folder in FOLDERS
    for path in sorted((CHECKOUT / folder).rglob("*.py"))
    if not {"loaders", "cypher"} & set(path.relative_to(CHECKOUT / folder).parts[:1])
]


def found(text: str, patterns: dict[str, str]) -> list[str]:
    """Each phrase of a text that a pattern fits, with its line and what to write instead."""
    one_of = rf"(?<![\w`-])(?:{'|'.join(patterns)})(?![\w`])"
    return [
        f"{line.strip()[:160]}  [{match[0]}: {instead}]"
        for line in text.splitlines()
        for match in re.finditer(one_of, line, re.IGNORECASE)
        for pattern, instead in patterns.items()
        if re.fullmatch(pattern, match[0], re.IGNORECASE)
    ]


def texts(path: Path) -> Iterator[tuple[str, bool]]:
    """Texts in a file, and whether they are documentation of its code."""
    tree = ast.parse(path.read_text())
    documentation = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield " ".join(node.value.split()), id(node) in documentation


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_pages(page: Path) -> None:
    assert found(page.read_text(), EVERYWHERE | IN_PAGES) == []


@pytest.mark.checkout
def test_texts_of_the_program() -> None:
    assert [
        f"{path.name}: {one}"
        for path in SOURCES
        for text, is_documentation in texts(path)
        for one in found(text, IN_DOCUMENTATION if is_documentation else EVERYWHERE)
    ] == []


def test_texts_of_queries() -> None:
    texts = [f"{query.title} {query.notes} {' '.join(query.columns.values())}" for query in library().values()]
    assert [one for text in texts for one in found(text, EVERYWHERE | IN_PAGES)] == []


@pytest.mark.parametrize(
    ("text", "phrase"), [("the dearest first", "dearest"), ("names tell nothing of it", "tell nothing")]
)
def test_a_phrase_is_found(text: str, phrase: str) -> None:
    (one,) = found(text, EVERYWHERE)
    assert f"[{phrase}:" in one
