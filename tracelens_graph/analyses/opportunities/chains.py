"""Elementwise, normalising and reducing kernels in a row that one fused kernel could replace."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING
from zlib import crc32

import numpy as np

from tracelens_graph.analyses.diagnosis import thresholds as limits
from tracelens_graph.analyses.diagnosis.families import in_compiled
from tracelens_graph.analyses.opportunities.attention import in_attention
from tracelens_graph.analyses.opportunities.copies_around import copied_for
from tracelens_graph.analyses.opportunities.launched import Does, Launched, launched, modules_around, placed
from tracelens_graph.analyses.opportunities.opportunity import Opportunity
from tracelens_graph.analyses.opportunities.traffic import Chain, chains_in, traffic_of
from tracelens_graph.analyses.places.attribution import OPTIMIZER, of_optimizer
from tracelens_graph.graph.window import Window
from tracelens_graph.utils.arrays import Mask, Rows

if TYPE_CHECKING:
    from tracelens_graph.perf.devices import Architecture

_LONGEST = 64
"""Ops of a run that are looked at together; a longer run is several."""
_NAMED = 12
"""Ops of a chain that are named."""
FUSIBLE = (Does.POINTWISE, Does.REDUCE, Does.NORM, Does.SOFTMAX, Does.COPY)
"""What ops do that one kernel can do together."""


@dataclass
class _Chain:
    """Chains of one class of modules and one sequence of ops, added up.

    Attributes:
        module: class of the module; empty for none.
        backward: whether they are its backward work.
        ops: names of the ops.
        first: place of the first op of the most expensive ones among the launched ops.
        calls, kernels, ns: how many chains, kernels of them, and their time.
        won_ns: what fusing saves.
        saved: bytes that need not be moved.
    """

    module: str
    backward: bool
    ops: tuple[str, ...]
    first: int
    calls: int = 0
    kernels: int = 0
    ns: int = 0
    won_ns: float = 0.0
    saved: int = 0


def fusible_chains(w: Window, arch: Architecture | None) -> Iterator[Opportunity]:
    """Chains of ops that move the same elements again and again, by module class and names of ops.

    A chain is of ops whose kernels run one after another on a stream, with no product, copy to elsewhere or kernel of
    another library between them, in one step, in one module or in modules right below it, and each reads what one
    before it made.
    What fusing saves is by bytes: those by which results in between are written and read, at the rate that its kernels
    reach now.
    """
    work, c = launched(w), w.core.columns
    least = limits.MUCH_PERCENT / 100 * int(c.dur_ns[w.gpu_rows].sum())
    for one in _chains(work, np.concatenate((copied_for(w), in_attention(w)))):
        if one.won_ns >= least:
            yield _opportunity(work, one)


def _opportunity(work: Launched, one: _Chain) -> Opportunity:
    plain = [name.removeprefix("aten::") for name in one.ops]
    named = [f"{name} x{len(list(same))}" for name, same in groupby(plain)]
    names = ", ".join(name.removesuffix(" x1") for name in named[:_NAMED]) + ", ..." * (len(named) > _NAMED)
    where = placed(one.module, one.backward)
    what = (
        f"{where}{f'{one.calls:,} times ' if one.calls > 1 else ''}{len(plain)} elementwise ops in a row,"
        f" {one.kernels:,} kernels ({names}); fused, each time {len(plain) - 1} fewer kernels and"
        f" {_size(one.saved / one.calls)} less to move"
    )
    return Opportunity(
        "fusible-chain", what, one.ns, round(one.won_ns),
        "no other op reads the results in between",
        ("fused_optimizer" if one.module == OPTIMIZER else "fusion",), int(work.core.columns.uid[work.row[one.first]]),
        f"{where.replace(': ', ':')}{plain[0]}..{plain[-1]}x{len(plain)}-{crc32(','.join(plain).encode()):08x}",
        one.calls, one.module,
        {"ops": ", ".join(plain), "kernels": one.kernels, "saved_bytes": one.saved},
    )  # fmt: skip


def _size(count: float) -> str:
    unit, factor = next((one for one in (("GB", 1e9), ("MB", 1e6)) if count >= one[1]), ("kB", 1e3))
    return f"{count / factor:,.3g} {unit}"


def chains_of(work: Launched, run: Sequence[int], is_optimizer: bool) -> list[Chain]:
    """The chains in a run of ops, given by their places, that move less if they are fused."""
    found = chains_in([traffic_of(work, at) for at in run], is_optimizer)
    return [chain for chain in found if chain.needed < chain.moved]


def _chains(work: Launched, taken: Rows) -> Iterator[_Chain]:
    found: dict[tuple[str, bool, tuple[str, ...]], _Chain] = {}
    places, starts, ends, optimizer = _runs(work, taken)
    signature = work.signature[places].tolist()
    runs: dict[tuple[str, bool, tuple[int, ...]], list[int]] = defaultdict(list)
    modules = modules_around(work, places, starts, ends)
    for start, end, module, is_optimizer in zip(
        starts.tolist(), ends.tolist(), modules, optimizer.tolist(), strict=True
    ):
        runs[
            OPTIMIZER if is_optimizer else module, bool(work.backward[places[start]]), tuple(signature[start:end])
        ].append(start)
    for (module, backward, of_run), begins in runs.items():
        run = places[begins[0] : begins[0] + len(of_run)].tolist()
        for chain in chains_of(work, run, module == OPTIMIZER):
            if len(chain.places) < limits.CHAIN_OPS:
                continue
            inside = places[np.array(begins)[:, None] + np.array(chain.places)]
            ops = tuple(work.name(at) for at in inside[0].tolist())
            one = found.setdefault((module, backward, ops), _Chain(module, backward, ops, int(inside[0, 0])))
            ns = int(work.ns[inside].sum())
            one.calls += len(inside)
            one.kernels += int(work.kernels[inside].sum())
            one.ns += ns
            one.won_ns += ns * (1 - chain.needed / chain.moved)
            one.saved += (chain.moved - chain.needed) * len(inside)
    yield from found.values()


def _runs(work: Launched, taken: Rows) -> tuple[Rows, Rows, Rows, Mask]:
    """Places of fusible ops; where runs of them start and end that are of one scope, step and annotation, with nothing
    else between them; and whether each run is of an optimizer.

    Fills count as nothing, the ops `taken` have rules of their own, and what a compiler left apart is none. A run has
    one normalisation at most: each needs sums over what comes before it.
    """
    is_fusible = np.isin(work.does, FUSIBLE) & ~in_compiled(work.core, work.row)
    is_fusible[taken] = False
    places = np.flatnonzero(is_fusible)
    part = np.cumsum(~(is_fusible | (work.does == Does.FILL)))
    optimizer = of_optimizer(work.core, work.kernel[places])
    core, kernel = work.core, work.kernel
    annotation = np.where(work.row >= 0, core.annotation[work.row], -1) if len(work) else work.row
    keys = [
        optimizer,
        *(key[places] for key in (part, work.stream, work.scope, work.backward, core.gpu_step[kernel], annotation)),
    ]
    begins = np.ones(len(places), bool)
    begins[1:] = np.logical_or.reduce([key[1:] != key[:-1] for key in keys])
    whole = np.flatnonzero(begins)
    length = np.diff(np.append(whole, len(places)))
    within = np.arange(len(places)) - np.repeat(whole, length)
    norms = np.cumsum(work.does[places] == Does.NORM)
    before = norms - np.repeat(norms[whole] - (work.does[places[whole]] == Does.NORM), length)
    again = (work.does[places] == Does.NORM) & (before > 1)
    starts = np.flatnonzero((within % _LONGEST == 0) | again)
    ends = np.append(starts[1:], len(places))
    long = ends - starts >= limits.CHAIN_OPS
    return places, starts[long], ends[long], optimizer[starts[long]]
