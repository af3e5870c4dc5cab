"""How much a collective moves, and how fast: message sizes, algorithm bandwidth and bus bandwidth.

Sizes and factors are those of NVIDIA's NCCL tests (https://github.com/NVIDIA/nccl-tests, doc/PERFORMANCE.md). The
algorithm bandwidth is the size of the message over the time. The bus bandwidth multiplies it by a factor of kind and
number of ranks, so that it can be held against the rate of the link between GPUs, whatever the number of ranks. GB are
10^9 bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from tracelens_graph.graph.collective_kinds import kind_of
from tracelens_graph.graph.collectives import Collective


class Rule(NamedTuple):
    """What the message of a kind is, and how it counts.

    Attributes:
        message: `in`: what a rank puts in; `out`: what it gets out; `larger`: the larger of the two.
        factor: how often the links carry the message, for very many ranks.
        all_ranks: whether a rank keeps its own n-th part, so that the factor counts (n - 1) / n times.
    """

    message: str
    factor: float
    all_ranks: bool


RULES = {
    kind: rule
    for rule, kinds in {
        Rule("in", 1.0, True): ("reduce_scatter", "_reduce_scatter_base"),
        Rule("out", 1.0, True): ("all_gather", "_allgather_base"),
        # In these both sides are equal, so that one of them is enough.
        Rule("larger", 2.0, True): ("allreduce", "allreduce_coalesced"),
        Rule("larger", 1.0, False): ("broadcast", "reduce", "send", "recv", "send_recv"),
        # A link carries both ways at once: the busier one bounds an uneven exchange. Of a gather or scatter the root
        # alone has the whole: it gets it, or puts it in.
        Rule("larger", 1.0, True): ("all_to_all", "all_to_allv", "gather", "scatter"),
    }.items()
    for kind in kinds
}
"""Kind of a collective -> its rule. A barrier moves nothing, and what an unknown kind moves is not known."""

_BASE_NS, _HOP_NS = 8_400, 3_400
"""Latency of a ring with the protocol for large messages, and of each step of it over NVLink, as NCCL itself reckons
(`baseLat` and `hwLat` in src/graph/tuning.cc, https://github.com/NVIDIA/nccl)."""


def ring_steps(kind: str, ranks: int, is_pair: bool) -> int:
    """How many steps of a ring one after another a collective takes; a transfer between two ranks takes one."""
    return 1 if is_pair else max(ranks - 1, 1) * (2 if kind.startswith("allreduce") else 1)


def ring_latency_ns(steps: int | np.ndarray) -> Any:
    """Latency of so many steps of a ring, as NCCL reckons it."""
    return _BASE_NS + _HOP_NS * steps


def rule_of(kind: str) -> Rule | None:
    """The rule of a kind under any of PyTorch's names for it, coalesced forms included; None where there is none."""
    return RULES.get(kind_of(kind))


def message_bytes(kinds: Sequence[str], in_bytes: np.ndarray, out_bytes: np.ndarray) -> np.ndarray:
    """Size of the message of each collective, in bytes; NaN where it is not known.

    It is what `RULES` says: of an all-gather the output, of a reduce-scatter the input, else the larger side.

    Args:
        kinds: kind of each.
        in_bytes, out_bytes: what a rank puts in and gets out, NaN where not known.
    """
    into, out = np.asarray(in_bytes, float), np.asarray(out_bytes, float)
    by_message = {"in": into, "out": out, "larger": np.fmax(into, out)}
    found = np.full(len(kinds), np.nan)
    for rule, here in _by_rule(kinds):
        found[here] = by_message[rule.message][here]
    return found


def bus_factors(kinds: Sequence[str], group_sizes: np.ndarray) -> np.ndarray:
    """What to multiply algorithm bandwidths by; NaN where kind or number of ranks are not known.

    All-reduce 2 (n - 1) / n; reduce-scatter, all-gather, all-to-all, gather, scatter (n - 1) / n; broadcast, reduce,
    send, receive 1.

    Args:
        kinds: kind of each.
        group_sizes: ranks of the group of each, NaN where not known.
    """
    n = np.asarray(group_sizes, float)
    n = np.where(n >= 1, n, np.nan)
    found = np.full(len(kinds), np.nan)
    for rule, here in _by_rule(kinds):
        found[here] = rule.factor * (n[here] - 1) / n[here] if rule.all_ranks else rule.factor
    return found


def gb_per_s(size: np.ndarray, ns: np.ndarray) -> np.ndarray:
    """Bytes over ns, which are GB/s; NaN where nothing is known, or no time passed."""
    ns = np.asarray(ns, float)
    return np.asarray(size, float) / np.where(ns > 0, ns, np.nan)


class Messages(NamedTuple):
    """What some collectives move, one entry each; NaN where it is not known.

    Attributes:
        in_bytes, out_bytes: what this rank puts in and gets out.
        size: the message by the rule of the kind.
        factor: bus bandwidth / algorithm bandwidth.
    """

    in_bytes: np.ndarray
    out_bytes: np.ndarray
    size: np.ndarray
    factor: np.ndarray

    @classmethod
    def of(cls, nodes: Sequence[Collective]) -> Messages:
        """Those of collectives as one rank saw them."""
        kinds = [one.kind for one in nodes]
        into, out = (
            np.array([np.nan if size is None else size for size in sizes], float)
            for sizes in ([one.in_bytes for one in nodes], [one.out_bytes for one in nodes])
        )
        ranks = np.array([_ranks(one) for one in nodes], float)
        return cls(into, out, message_bytes(kinds, into, out), bus_factors(kinds, ranks))

    def algorithm_bandwidth(self, ns: np.ndarray) -> np.ndarray:
        """GB/s, if the collectives took so many ns."""
        return gb_per_s(self.size, ns)

    def bus_bandwidth(self, ns: np.ndarray) -> np.ndarray:
        """GB/s on the links, if the collectives took so many ns."""
        return self.algorithm_bandwidth(ns) * self.factor


def _ranks(node: Collective) -> float:
    """Number of ranks of the group; NaN where it is not known."""
    return float(node.group_size or len(node.ranks or ()) or np.nan)


def _by_rule(kinds: Sequence[str]) -> list[tuple[Rule, np.ndarray]]:
    names, code = np.unique(np.array(kinds, str), return_inverse=True)
    rules = [(number, rule_of(name)) for number, name in enumerate(names.tolist())]
    return [(rule, np.flatnonzero(code == number)) for number, rule in rules if rule]
