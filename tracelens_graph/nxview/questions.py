"""The questions as methods: of a trace and of parts of it those about one trace, of a set those about several.

`docs/make_stub.py` writes their signatures into `questions.pyi`, for type checkers and editors.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from functools import wraps
from inspect import signature
from types import MethodType
from typing import Any

import numpy as np

from tracelens_graph.graph.core import Core
from tracelens_graph.registry import HOMES, Home
from tracelens_graph.tables.table import Table

SEVERAL = frozenset(("across", "ranks", "critical_path"))
"""Themes whose questions are asked of several traces; a test holds this against their functions."""


class _Asked:
    """A question as a method: what it is asked of takes the place of the function's first argument."""

    def __init__(self, name: str, home: Home) -> None:
        self._name, self._home = name, home

    def __get__(self, asked: object | None, owner: type | None = None) -> Any:
        """The function that answers, whose module is imported now; as a method it checks what it is given."""
        function = getattr(self._home.load(), self._home.function)
        return function if asked is None else MethodType(_checked(function, self._name), asked)


def _checked(function: Callable[..., Table], name: str) -> Callable[..., Table]:
    """A function that answers a question, with the errors of the command line for parameters that cannot be.

    Where the question itself has no `top`, that many of the first rows are given, and all for 0.
    """
    from tracelens_graph.analyses.questions import QUESTIONS, Parameter

    names = list(signature(function).parameters)[1:]

    @wraps(function)
    def answer(asked: object, *args: Any, **given: Any) -> Table:
        if "top" in given and "top" not in names:
            Parameter("top", (int,), 0).check(top := given.pop("top"))
            found = answer(asked, *args, **given)
            return found.take(np.arange(len(found))[: top or None])
        for parameter, value in (*zip(names, args, strict=False), *given.items()):
            if parameter in QUESTIONS[name].parameters:
                QUESTIONS[name].parameters[parameter].check(value)
        return function(asked, *args, **given)

    return answer


class OfTrace:
    """The questions about one trace, but for those whose names are parts of a graph: these are functions alone."""


class OfSet:
    """The questions about several traces."""


_PARTS = {field.name for field in fields(Core)}

for _name, _home in HOMES.items():
    if _home.is_question and _name not in _PARTS:
        setattr(OfSet if _home.theme in SEVERAL else OfTrace, _name, _Asked(_name, _home))
