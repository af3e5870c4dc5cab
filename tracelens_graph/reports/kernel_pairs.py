"""Kernels of two sides that would be called alike: what their whole names differ in."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tracelens_graph.analyses.alignment.cause_words import difference_of


def told_apart(first: Iterable[str], second: Iterable[str], shown: Callable[[str], str]) -> dict[str, str]:
    """Kernels of the second side that look like one of the first -> what is another there.

    Kernels that both sides run are left out, and each kernel of the first side counts once.

    Args:
        first, second: whole names of kernels.
        shown: what people see of a name.
    """
    ones, others = list(dict.fromkeys(first)), list(dict.fromkeys(second))
    common = {*ones} & {*others}
    look: dict[str, list[str]] = {}
    for name in ones:
        if name not in common:
            look.setdefault(shown(name), []).append(name)
    found = {}
    for name in others:
        if name not in common and (alike := look.get(shown(name))):
            found[name] = difference_of(alike.pop(0), name) or "another build"
    return found
