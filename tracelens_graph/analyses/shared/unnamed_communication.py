"""Communication that no name shows: kernels of unknown families that stand in a trace as communication does.

A library that nobody here knows writes kernels like all others: a few blocks that stay until data are there, launched
on a stream of their own, so that computation runs beside them. Each of that alone is found in computation, too, so a
family (all kernels of one name) is taken for communication only if all of the following holds.

* **Nothing else is known of it**: no rule of categories fits its name or op, and no op of PyTorch's own launched it.
* **There are other ranks**, as far as the trace records.
* **Its stream is its own.** On another stream of the device more kernels run; on its own, kernels of known families
  take a tenth of the time at most. Copies and casts beside communication are common there, computation is not.
* And either **a name for each direction**: families of that stream are named in pairs, `dispatch` and `combine`, `put`
  and `get`, `send` and `recv`. On a stream with computation such names are not enough, for experts are also permuted
  within a device.
* Or **long, of few blocks, beside computation**: its kernels take 50 us in the mean, and five times as long as those of
  the stream that computes; the longest have at most half as many blocks as the device has multiprocessors; and the
  other stream runs kernels for some of that time. Computation that leaves most of the device empty for so long would
  be a fault of its own. Where blocks are not recorded, nothing is concluded.

In the traces that this was tried on, it finds 72 to 100 % of the time of collectives on streams of their own whose
names and arguments are taken away, and no kernel of computation, even if all names are taken away.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from tracelens_graph.analyses.shared.grouping import group_by
from tracelens_graph.categories.kernel_rules import OTHER
from tracelens_graph.graph.arrays import fitting, positions_by
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.intervals import length_before, merge, sum_by_group
from tracelens_graph.graph.thread_blocks import multiprocessors, thread_blocks
from tracelens_graph.graph.traversals import rows_of_kind
from tracelens_graph.schema import Kind
from tracelens_graph.utils.arrays import Codes, Mask, Rows

KNOWN_PERCENT = 10
"""Share of a stream's time that kernels of known families may take where it is one of communication."""
LONG_NS = 50_000
LONG_RATIO = 5
"""Mean duration of kernels from which they are long, also compared with the mean on the stream that computes."""
FEW_BLOCKS = 32
"""Blocks that are few where the number of multiprocessors is not recorded; else half of these are."""
_EXAMPLES = 4
"""Kernels of a family, the longest ones, whose blocks are read from the file."""

PAIRS = (
    ("dispatch", "combine"), ("put", "get"), ("put", "wait"), ("put", "signal"), ("send", "recv"), ("send", "receive"),
    ("push", "pull"),
)  # fmt: skip
"""Words in names of kernels that stand for the two directions of an exchange."""
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_LONGEST = 512
"""Characters of a name in which words are looked for."""


def unnamed_communication(core: Core, named: Rows) -> Rows:
    """Rows of kernels that are communication by how they stand in the trace, though nothing names them so.

    Args:
        core: the graph. There are none where it lacks devices, streams or owners, as some lean ones do.
        named: rows that are known to be communication.
    """
    if core.info.world_size == 1 or not {"device", "stream", "owner"}.issubset(core.columns.names):
        return named[:0]
    c, rows = core.columns, rows_of_kind(core.columns, (Kind.Kernel,))
    rows = rows[c.stream[rows] >= 0]
    stream, first = group_by(c.device[rows], c.stream[rows])
    main = _main_streams(c.device[rows[first]], stream)
    aside = main[stream] != stream
    if not aside.any():
        return named[:0]
    side, on = rows[aside], stream[aside]
    family, example = group_by(on, c.name[side])
    code, is_named, ns, of_stream = c.name[side[example]], np.isin(side, named), c.dur_ns[side], on[example]
    candidate = ~is_named[example] & ~np.isin(code, c.name[rows[~aside]]) & ~_of_aten(core, side, family, len(example))
    names = [core.names[one] for one in code.tolist()]
    beside = _beside(core, (rows[~aside], stream[~aside]), (side, main[on]), family, len(example))
    # Rules are asked about streams that may be of communication only: their patterns take most of the time.
    asked = np.isin(of_stream, of_stream[candidate & (beside | _in_pairs(names, of_stream, candidate))])
    category = np.full(len(example), "", object)
    category[asked] = _categories(core, side[example[asked]])
    unknown = np.isin(category, (OTHER, _OF_EXPERTS)) & ~is_named[example]
    of_known = sum_by_group(on, np.where(unknown[family] | is_named, 0, ns), len(first))
    is_own = 100 * of_known <= KNOWN_PERCENT * sum_by_group(on, ns, len(first))
    candidate &= unknown & is_own[of_stream]
    found = _in_pairs(names, of_stream, candidate)
    long = np.flatnonzero(candidate & ~found & (category == OTHER) & beside)
    blocks, few = _most_blocks(core, side, family, long), _smallest(core) // 2 or FEW_BLOCKS
    found[long] = (blocks > 0) & (blocks <= few)
    return side[found[family]]


def _main_streams(device: Codes, stream: Codes) -> Codes:
    """Per stream that of its device on which most kernels run: the one that computes; its own number if it is that."""
    order = np.lexsort((-np.bincount(stream, minlength=len(device)), device))
    _, first, at = np.unique(device[order], return_index=True, return_inverse=True)
    main = np.empty(len(device), np.int64)
    main[order] = order[first][at]
    return main


def _categories(core: Core, rows: Rows) -> np.ndarray:
    """What rules know of kernels by their names and the ops that they are charged to."""
    # Few traces have kernels aside, and the rules take time to import.
    from tracelens_graph.categories.kernels import kernel_categories

    names, c = core.names, core.columns
    ops = [names[c.name[owner]] if owner >= 0 else "" for owner in c.owner[rows].tolist()]
    kernels = [names[code] for code in c.name[rows].tolist()]
    return np.array(kernel_categories(zip(kernels, ops, strict=True)), object)


_OF_EXPERTS = "MoE"
"""Category of kernels that may be communication if their names say so: tokens go to experts and come back."""


def _in_pairs(names: Sequence[str], stream: Codes, candidate: Mask) -> Mask:
    """Which candidates are named by one direction of an exchange, the other one being on the stream, too."""
    words = {one: set(_words(names[one])) for one in np.flatnonzero(candidate).tolist()}
    on_stream: dict[int, set[str]] = {}
    for one, own in words.items():
        on_stream.setdefault(int(stream[one]), set()).update(own)
    there = {one: {word for pair in PAIRS if own.issuperset(pair) for word in pair} for one, own in on_stream.items()}
    found = np.zeros(len(names), bool)
    found[[one for one, own in words.items() if not own.isdisjoint(there[int(stream[one])])]] = True
    return found


def _words(name: str) -> list[str]:
    """The words of a kernel's name, in lower case, without those of its arguments."""
    plain = re.split(r"[<(]", name.replace("(anonymous namespace)", "")[:_LONGEST], maxsplit=1)[0]
    return [word.lower() for word in _WORD.findall(plain)]


def _beside(core: Core, computing: tuple[Rows, Codes], side: tuple[Rows, Codes], family: Codes, families: int) -> Mask:
    """Which families are of long kernels, some of them beside kernels of the stream that computes.

    Args:
        computing: kernels of streams that compute, and the stream of each.
        side: the other kernels, and for each the stream of its device that computes.
        family: family of each of the others, in numbers below `families`.
    """
    (rows, stream), (others, main) = computing, side
    start, dur = core.columns.start_ns, core.columns.dur_ns
    beside, least = np.zeros(len(others), np.int64), np.zeros(len(others))
    of_main = dict(positions_by(stream))
    for one, here in positions_by(main):
        there = rows[of_main[one]]
        merged = merge(start[there], start[there] + dur[there])
        own = others[here]
        beside[here] = length_before(merged, start[own] + dur[own]) - length_before(merged, start[own])
        least[here] = max(LONG_NS, LONG_RATIO * dur[there].mean())
    count, ns = np.bincount(family, minlength=families), sum_by_group(family, dur[others], families)
    at_least = np.zeros(families)
    at_least[family] = least  # kernels of one family are on one stream
    return (ns >= count * at_least) & (sum_by_group(family, beside, families) > 0)


def may_communicate(core: Core, rows: Rows, family: Codes, families: int) -> Mask:
    """Which families of unknown kernels may be communication: nothing about their kernels says that they compute.

    PyTorch's own ops compute, and so do kernels with more blocks than the device has multiprocessors: what waits for
    other ranks has to be on the device as a whole. Names that stand for an exchange go before blocks. A single rank
    has nobody to communicate with.
    """
    if core.info.world_size == 1:
        return np.zeros(families, bool)
    c, size = core.columns, _smallest(core) or 2 * FEW_BLOCKS
    exchanges = np.zeros(families, bool)
    exchanges[family] = fitting(core.names, c.name[rows], lambda name: not _EXCHANGE.isdisjoint(_words(name)))
    few = _most_blocks(core, rows, family, np.arange(families)) <= size
    return ~_of_aten(core, rows, family, families) & (exchanges | few)


def _of_aten(core: Core, rows: Rows, family: Codes, families: int) -> Mask:
    """Which families have a kernel that an op of PyTorch's own launched."""
    owner, aten = core.columns.owner[rows], np.zeros(families, bool)
    by_aten = fitting(core.names, core.columns.name[owner[owner >= 0]], lambda op: op.startswith("aten::"))
    aten[family[owner >= 0][by_aten]] = True
    return aten


_EXCHANGE = frozenset(word for pair in PAIRS for word in pair)


def _most_blocks(core: Core, rows: Rows, family: Codes, wanted: Codes) -> Codes:
    """Number of blocks of the kernels of some families, as far as the longest of each show; 0 where not recorded.

    Sizes of grids stay in the file, so that few kernels are looked at.
    """
    position = np.flatnonzero(np.isin(family, wanted))
    position = position[np.lexsort((-core.columns.dur_ns[rows[position]], family[position]))]
    order = family[position]
    position = position[np.arange(len(order)) - np.searchsorted(order, order) < _EXAMPLES]
    most = np.zeros(len(wanted), np.int64)
    np.maximum.at(most, np.searchsorted(wanted, family[position]), thread_blocks(core, rows[position]))
    return most


def _smallest(core: Core) -> int:
    """How many multiprocessors the smallest device has; 0 where it is not recorded."""
    return min(multiprocessors(core).values(), default=0)
