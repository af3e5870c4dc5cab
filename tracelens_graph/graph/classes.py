"""Classes of equal call subtrees: which of these N layers did the same, and which did not.

Every call subtree that holds GPU work gets a 128-bit class: a hash of its root's kind and name and of the
ordered classes of those of its children that hold GPU work too. What differs between equal runs (addresses, line
numbers, instance numbers of modules, numbers of XLA's instructions, which launch API was used) is taken out of the
names first. Names enter by a keyless cryptographic hash of their text, so a class is the same number in every trace and
every process.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from hashlib import blake2b

import numpy as np

from tracelens_graph.graph.arguments import argset_text
from tracelens_graph.graph.arrays import fitting
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.node import Node, nodes_at
from tracelens_graph.graph.traversals import rows_of_kind
from tracelens_graph.schema import GPU_KINDS, HOST_KINDS, Kind
from tracelens_graph.tables.table import Column, Table
from tracelens_graph.utils.arrays import Mask, Rows

_ADDRESS = re.compile(r"\b0x[0-9a-fA-F]+")
_LINE = re.compile(r"\(\d+\)(?=: )")
_INSTANCE = re.compile(r"_\d+$")
_INSTRUCTION = re.compile(r"(?:\d+\.)+(?=[^.:])", re.ASCII)
"""What numbers the instructions of a program of XLA: `fusion.12`, `cudnn-conv.1.0`."""
_APIS = (
    (re.compile(r"^(cuda|cu|hip)\w*Graph\w*Launch", re.I), "launch graph"),
    (re.compile(r"^(cuda|cu|hip|ze|ur|xpu)\w*(Launch|KernelLaunch)", re.I), "launch"),
    (re.compile(r"^(cuda|cu|hip|ze|ur|xpu)\w*(Memcpy|MemoryCopy)", re.I), "copy"),
    (re.compile(r"^(cuda|cu|hip|ze|ur|xpu)\w*(Memset|MemoryFill|MemFill)", re.I), "fill"),
)
_LANES = np.array((0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F), np.uint64)
"""Odd constants that make the two halves of a class two independent hashes."""

_ABOUT = {
    "class": Column("the class, 128 bits in hexadecimal; equal in all traces"),
    "kind": Column("kind of the root"),
    "name": Column("name of the root, without what differs between instances"),
    "count": Column("number of subtrees of the class"),
    "uid": Column("root of the first one in row order"),
    "gpu_sum_ns": Column("sum of the durations of the GPU events of all of them", "ns"),
    "mean_gpu_sum_ns": Column("the same per subtree", "ns"),
}


def normal_name(kind: Kind, name: str) -> str:
    """A name without what differs between instances, runs and platforms.

    >>> normal_name(Kind.Module, "nn.Module: Linear_3")
    'nn.Module: Linear'
    >>> normal_name(Kind.PythonFunction, "model.py(31): forward")
    'model.py: forward'
    >>> normal_name(Kind.RuntimeCall, "hipModuleLaunchKernel")
    'launch'
    >>> normal_name(Kind.Op, "cublas-gemm.11")
    'cublas-gemm'
    """
    if kind is Kind.Op and "::" not in name:
        number = _INSTRUCTION.match(name[::-1])
        name = name[: len(name) - number.end()] if number else name
    if kind is Kind.RuntimeCall:
        return next((api for pattern, api in _APIS if pattern.match(name)), name)
    if kind is Kind.Module:
        return _INSTANCE.sub("", name)
    if kind is Kind.PythonFunction:
        name = _LINE.sub("", name)
    return _ADDRESS.sub("0x", name)


def subtree_classes(core: Core, shapes: bool = True, kernel_names: bool = False) -> np.ndarray:
    """Per row the class of its subtree as two uint64; zeros where it holds no GPU work.

    Two subtrees are of one class if they are equal as ordered trees, once branches without GPU work are cut off.

    Args:
        shapes: argument sets of ops must be equal too.
        kernel_names: names of GPU events must be equal too, not only their kinds.
    """
    return core.once(_classes, shapes, kernel_names)


def class_rows(core: Core) -> Rows:
    """Rows of the roots of call subtrees that hold GPU work: host events, ascending."""
    c, gpu = core.columns, core.gpu_rows
    host = rows_of_kind(c, HOST_KINDS)
    # A subtree is a range of rows, so two searches show whether a GPU event is in it.
    return host[np.searchsorted(gpu, host) < np.searchsorted(gpu, c.last[host], "right")]


def class_table(core: Core, shapes: bool = True, kernel_names: bool = False) -> Table:
    """One row per class of call subtrees with GPU work, the one with most GPU time first.

    Sums add up over the instances of one class, not over classes: a subtree stands inside others.
    """
    c, rows = core.columns, class_rows(core)
    lanes = subtree_classes(core, shapes, kernel_names)[rows]
    first, number = distinct_classes(lanes)
    total = np.zeros(len(first), np.int64)
    np.add.at(total, number, core.gpu_sum_ns[rows])
    count = np.bincount(number, minlength=len(first))
    order = np.lexsort((first, -total))
    roots = rows[first[order]]
    kinds = [Kind(kind) for kind in c.kind[roots].tolist()]
    names = [core.names[name] for name in c.name[roots].tolist()]
    return Table(
        "subtree_classes",
        {
            "class": hex_of(lanes[first[order]]),
            "kind": [kind.name for kind in kinds],
            "name": [normal_name(kind, name) for kind, name in zip(kinds, names, strict=True)],
            "count": count[order],
            "uid": c.uid[roots],
            "gpu_sum_ns": total[order],
            "mean_gpu_sum_ns": total[order] / np.maximum(count[order], 1),
        },
        about=_ABOUT,
        title="Classes of call subtrees with GPU work",
    )


def same_as(core: Core, node: Node, shapes: bool = True, kernel_names: bool = False) -> list[Node]:
    """Nodes whose subtrees are of the class of this one's, itself included, in row order; none without GPU work."""
    lanes = subtree_classes(core, shapes, kernel_names)
    mine = lanes[node.row]
    return nodes_at(core, np.flatnonzero((lanes == mine).all(axis=1)).tolist()) if mine.any() else []


def launches_graphs(core: Core, rows: Rows) -> Mask:
    """Whether each of some events is a call that launches a captured graph."""
    c = core.columns
    names = fitting(core.names, c.name[rows], lambda name: normal_name(Kind.RuntimeCall, name) == "launch graph")
    return (c.kind[rows] == Kind.RuntimeCall) & names


def hex_of(lanes: np.ndarray) -> list[str]:
    """Classes in hexadecimal, 32 digits each."""
    return [f"{high:016x}{low:016x}" for high, low in lanes.tolist()]


def distinct_classes(lanes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Position of the first of each distinct class, and for every position the number of its class."""
    order = np.lexsort((lanes[:, 1], lanes[:, 0]))
    sorted_lanes = lanes[order]
    new = np.ones(len(order), bool)
    new[1:] = (sorted_lanes[1:] != sorted_lanes[:-1]).any(axis=1)
    number = np.empty(len(order), np.int64)
    number[order] = np.cumsum(new) - 1
    return order[new], number


def _classes(core: Core, shapes: bool, kernel_names: bool) -> np.ndarray:
    c = core.columns
    rows = np.union1d(class_rows(core), core.gpu_rows)
    lanes = np.zeros((len(c), 2), np.uint64)
    lanes[rows] = _own(core, rows, shapes, kernel_names)
    # Stable: rows of a level stay in pre-order, so children of one parent stand together, in their order.
    by_depth = rows[np.argsort(c.depth[rows], kind="stable")]
    levels = np.searchsorted(c.depth[by_depth], np.arange(c.depth[rows].max(initial=0) + 2))
    # From the deepest level up: when a level is reached, all below it are final.
    for level in range(len(levels) - 2, 0, -1):
        here = by_depth[levels[level] : levels[level + 1]]
        parent = c.parent[here]
        begin = np.flatnonzero(np.concatenate(([True], parent[1:] != parent[:-1])))
        place = np.arange(len(here)) - np.repeat(begin, np.diff(np.append(begin, len(here))))
        # A sum wraps around, and place in the mix makes it depend on the order.
        placed = mixed(lanes[here] + (place.astype(np.uint64)[:, None] + np.uint64(1)) * _LANES)
        above = parent[begin]
        lanes[above] = mixed(lanes[above] ^ mixed(np.add.reduceat(placed, begin, axis=0) + _LANES))
    # One array, kept with the graph, is handed to all who ask.
    lanes.flags.writeable = False
    return lanes


def _own(core: Core, rows: Rows, shapes: bool, kernel_names: bool) -> np.ndarray:
    """What a node brings itself: hash of kind and name, and of its argument set."""
    c = core.columns
    pairs = c.name[rows].astype(np.int64) * len(Kind) + c.kind[rows]
    wanted, back = np.unique(pairs, return_inverse=True)
    texts = []
    for name, number in zip(*(part.tolist() for part in np.divmod(wanted, len(Kind))), strict=True):
        kind = Kind(number)
        nameless = kind in GPU_KINDS and not kernel_names
        texts.append(kind.name if nameless else f"{kind.name}\n{normal_name(kind, core.names[name])}")
    own = _hashes(texts)[back]
    if shapes:
        has = np.flatnonzero(c.argset[rows] >= 0)
        sets, back = np.unique(c.argset[rows[has]], return_inverse=True)
        own[has] = mixed(own[has] + mixed(_hashes(argset_text(core, code) for code in sets.tolist())[back]))
    return own


def _hashes(texts: Iterable[str]) -> np.ndarray:
    digests = b"".join(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest() for text in texts)
    # The byte order is fixed, so that classes are equal on all machines.
    return np.frombuffer(digests, ">u8").astype(np.uint64).reshape(-1, 2)


def mixed(lanes: np.ndarray) -> np.ndarray:
    """Scramble each lane (the finalizer of splitmix64)."""
    lanes = (lanes ^ (lanes >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    lanes = (lanes ^ (lanes >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return lanes ^ (lanes >> np.uint64(31))
