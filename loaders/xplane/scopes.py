"""Named scopes as modules: what lies in one scope and follows one another is a call of it.

XLA keeps no scopes, only the name of where each instruction comes from, and runs instructions in an order of its own:
a scope that is left and entered again has several calls. Instructions of a backward pass stand outside of scopes, as
they do in traces of PyTorch, and arrows lead to them from the forward pass of their scope.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass

import numpy as np

from tracelens_graph.graph.flows import Flows
from tracelens_graph.graph.forest import build_forest
from tracelens_graph.graph.traversals import climb
from tracelens_graph.hlo.origin import Origin, Pass
from tracelens_graph.utils.arrays import Codes, Ns, Rows

_DEEPEST = 24
"""Scopes within scopes that become modules."""


@dataclass(frozen=True)
class Host:
    """Events of the host.

    Attributes:
        thread, start_ns, dur_ns: of each.
        rank: who goes outside where start and duration are equal.
        origin: position of where it comes from among the origins, -1 for what is no instruction.
        run: number of the execution that it belongs to, where that is known.
        program: number of the program whose instruction it is.
    """

    thread: Codes
    start_ns: Ns
    dur_ns: Ns
    rank: np.ndarray
    origin: Rows
    run: np.ndarray
    program: Codes


@dataclass(frozen=True)
class Scopes:
    """Calls of scopes, outer ones first.

    Attributes:
        name: position of the name of each among `names`.
        thread, start_ns, dur_ns: of each.
        names: names of scopes.
        arrows: from forward instructions to those of the backward pass of their scope. Where several have one name, the
            backward pass cannot be divided: the first has all of it, and the others its first instruction.
    """

    names: list[str]
    name: Codes
    thread: Codes
    start_ns: Ns
    dur_ns: Ns
    arrows: Flows


_NOTHING = np.zeros(0, np.int64)
NO_SCOPES = Scopes([], _NOTHING, _NOTHING, _NOTHING, _NOTHING, Flows.of())


def scopes(host: Host, origins: list[Origin]) -> Scopes:
    """The calls of scopes.

    Args:
        host: events of the host.
        origins: where instructions come from, at least one of them in a scope.
    """
    names: dict[str, int] = {}
    depth = min(max(len(one.scopes) for one in origins), _DEEPEST)
    # The last row serves origin -1, of what is no instruction.
    path = np.full((len(origins) + 1, depth), -1, np.int64)
    for number, one in enumerate(origins):
        if one.part is not Pass.backward:
            path[number, : len(one.scopes)] = [names.setdefault(name, len(names)) for name in one.scopes[:depth]]
    forest = build_forest(host.thread, host.start_ns, host.dur_ns, host.rank)
    at = np.flatnonzero(host.origin[forest.order] >= 0)
    parent = forest.parent[at]
    order = np.argsort(parent, kind="stable")  # children of one caller side by side, in their order
    at, parent = at[order], parent[order]
    events = forest.order[at]
    path = _without_outer(path, at, forest.parent, host.origin[forest.order])
    same = np.zeros(len(events), bool)
    same[1:] = (parent[1:] == parent[:-1]) & (host.run[events][1:] == host.run[events][:-1])
    same[1:] &= host.thread[events][1:] == host.thread[events][:-1]
    found: list[tuple[np.ndarray, ...]] = []
    end = host.start_ns + host.dur_ns
    for level in range(depth):
        # Cut once, cut on all levels below: a call ends with the call of any scope around it.
        same[1:] &= path[1:, level] == path[:-1, level]
        first = np.flatnonzero(~same)
        if not len(first):
            break
        stop = np.maximum.reduceat(end[events], first)
        there = path[first, level] >= 0
        first, stop = first[there], stop[there]
        begin = host.start_ns[events[first]]
        found.append((path[first, level], host.thread[events[first]].astype(np.int64), begin, stop - begin))
    name, thread, start, dur = (
        (np.concatenate((_NOTHING, *column)) for column in zip(*found, strict=True)) if found else [_NOTHING] * 4
    )
    return Scopes(list(names), name, thread, start, dur, _arrows(host, origins))


def _without_outer(path: np.ndarray, at: Ns, parent: Rows, origin: Rows) -> np.ndarray:
    """Scopes without those of the instruction around: the body of a loop is in the scopes of the loop.

    Args:
        path: scopes of each origin, the last one of none; -1 behind the innermost.
        at: rows of instructions in the forest.
        parent, origin: of each row of the forest.
    """
    own = path[origin[at]]
    around = climb(parent, parent[at], origin >= 0)
    outer = np.where((around >= 0)[:, None], path[origin[around]], -1)
    common = np.cumprod((own == outer) & (own >= 0), axis=1).sum(axis=1)
    if not common.any():
        return own
    depth = own.shape[1]
    place = np.arange(depth) + common[:, None]
    return np.where(place < depth, np.take_along_axis(own, np.minimum(place, depth - 1), axis=1), -1)


def _arrows(host: Host, origins: list[Origin]) -> Flows:
    """To each instruction of a backward pass from the forward pass of its scope, the last one that began before it.

    That is the first instruction of the same primitive there, if the scope has one. Others of that primitive lead to
    the first one that it leads to.
    """
    is_backward, is_forward = (
        np.array([bool(one.scopes) and one.part is part for one in origins] + [False])
        for part in (Pass.backward, Pass.forward)
    )
    heads, tails = (np.flatnonzero(which[host.origin]) for which in (is_backward, is_forward))
    found = np.full(len(heads), -1, np.int64)
    scope, name = (
        _numbered(origins, key)[host.origin]
        for key in (lambda one: one.scopes, lambda one: (one.scopes, one.primitive))
    )
    for code in (name, scope):
        lacking = np.flatnonzero(found < 0)
        found[lacking] = _last_before(host, tails, heads[lacking], code)
    heads, found = heads[found >= 0], found[found >= 0]
    if not len(heads):
        return Flows.of()
    first = _first_alike(host, tails, heads, name, scope)
    group = np.full(len(host.origin), -1, np.int64)
    group[tails] = first
    tail = group[found]
    # The first head of each group of tails, for those that lead to none otherwise.
    order = np.lexsort((heads, host.start_ns[heads], tail))
    led, at = np.unique(tail[order], return_index=True)
    others = tails[(first != tails) & np.isin(first, led)]
    to = heads[order][at[np.searchsorted(led, group[others])]]
    tail, heads = np.concatenate((tail, others)), np.concatenate((heads, to))
    ends = np.stack((tail, heads), axis=1).reshape(-1)
    count = len(heads)
    return Flows(
        ["s", "f"], list(range(count)), np.tile(np.arange(2), count), np.repeat(np.arange(count), 2),
        host.thread[ends].astype(np.int64), host.start_ns[ends],
    )  # fmt: skip


def _numbered(origins: list[Origin], key: Callable[[Origin], Hashable]) -> np.ndarray:
    """A number for each origin, equal where keys are, and -1 behind them for what has none."""
    codes: dict[Hashable, int] = {}
    return np.array([codes.setdefault(key(one), len(codes)) for one in origins] + [-1], np.int64)


def _first_alike(host: Host, tails: np.ndarray, heads: np.ndarray, name: Codes, scope: np.ndarray) -> np.ndarray:
    """For each tail the first one of its name in its forward pass.

    A forward pass ends where another program or execution begins, or the backward pass of its scope.
    """
    moments, place = np.unique(host.start_ns, return_inverse=True)
    moment = scope * len(moments) + place
    # Tails with as many heads before them have no begin of a backward pass between them.
    before = np.searchsorted(np.sort(moment[heads]), moment[tails])
    keys = (before, host.run[tails], host.program[tails], name[tails])
    order = np.lexsort((tails, host.start_ns[tails], *keys))
    begins = np.ones(len(tails), bool)
    begins[1:] = np.any([key[order][1:] != key[order][:-1] for key in keys], axis=0)
    found = np.empty(len(tails), np.int64)
    found[order] = tails[order][begins][np.cumsum(begins) - 1]
    return found


def _last_before(host: Host, tails: np.ndarray, heads: np.ndarray, code: Codes) -> np.ndarray:
    """For each head the last tail of its code that starts before it, -1 without one."""
    if not len(tails) or not len(heads):
        return np.full(len(heads), -1, np.int64)
    # Places in their order stand for times, so that a code and a time fit into one key.
    moments, place = np.unique(host.start_ns[np.concatenate((tails, heads))], return_inverse=True)
    key = code[np.concatenate((tails, heads))] * len(moments) + place
    order = np.argsort(key[: len(tails)], kind="stable")
    at = np.searchsorted(key[order], key[len(tails) :], "left") - 1
    tail = tails[order[np.maximum(at, 0)]]
    return np.where((at >= 0) & (code[tail] == code[heads]), tail, -1)
