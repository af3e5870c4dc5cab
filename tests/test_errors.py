"""All exceptions of the product stand in one module, and are drawn there as they derive from one another."""

from __future__ import annotations

import ast
import re
from itertools import chain
from pathlib import Path

import pytest

import tracelens_graph
from tracelens_graph import errors

PRODUCT = Path(tracelens_graph.__file__).parent
DRAWN = re.compile(r"^(?P<indent>[ │├└─]*)(?P<name>[A-Za-z]+)(?: {2,}\S.*)?$")
CLASSES = {name: one for name, one in vars(errors).items() if isinstance(one, type)}
BUILT_IN = {"Exception", "BaseException", "KeyError", "ValueError", "RuntimeError", "UserWarning"}


def drawn() -> dict[str, str]:
    """Class -> the one that it stands below in the module's drawing."""
    found: dict[str, str] = {}
    above: list[str] = []
    for line in ast.get_docstring(ast.parse(Path(errors.__file__).read_text())).splitlines()[1:]:  # type: ignore[union-attr]
        if match := DRAWN.match(line):
            depth = len(match["indent"]) // 4
            above[depth:] = [match["name"]]
            if depth:
                found[match["name"]] = above[depth - 1]
    return found


def test_the_drawing_is_the_tree() -> None:
    tree = drawn()
    assert tree.keys() | {"TraceLensGraphError"} == CLASSES.keys()
    assert [
        name for name, base in tree.items() if base not in (one.__name__ for one in CLASSES[name].__mro__[1:])
    ] == []


@pytest.mark.checkout
def test_no_exception_stands_elsewhere() -> None:
    known = BUILT_IN | CLASSES.keys()
    elsewhere = [
        f"{path.relative_to(PRODUCT)}: {node.name}"
        for path in chain(PRODUCT.rglob("*.py"), (PRODUCT / "loaders").rglob("*.py"))
        if path.name != "errors.py"
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ClassDef)
        and any(isinstance(base, ast.Name) and base.id in known for base in node.bases)
    ]
    assert elsewhere == []
