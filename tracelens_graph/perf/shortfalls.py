"""What keeps an operation below its roof, by its sizes: a table of rules.

A trace shows no counters, so nothing here is measured. A rule compares sizes with how devices do such work: in tiles of
the result that multiprocessors take one by one, in rows of 16 bytes, for some time that a launch takes at least.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import ceil, prod
from typing import Any, NamedTuple

import numpy as np

from tracelens_graph.perf.cost import CannotModel
from tracelens_graph.perf.families.convolution import Geometry
from tracelens_graph.perf.occupancy import Occupancy
from tracelens_graph.perf.scalar_types import known

USUAL_TILE = (128, 128)
"""Tile of a product where the name of its kernel shows none: what libraries take for large ones."""
FEWEST_UNITS = 58
"""Multiprocessors of the smallest device that is known here (NVIDIA L4), for traces that describe none."""
POOR_LAST_WAVE = 0.8
"""Share of all waves' tiles that is filled at least, where the last wave is no reason."""
POOR_EDGE = 0.85
"""Share of all tiles' elements that belong to the result at least, where partial tiles are no reason."""
ALIGNED_BYTES = 16
"""What a thread loads at once: rows of other lengths are loaded in smaller pieces, and by other kernels."""
FEW_ROWS = 64
"""Rows of a product below which it moves the other matrix for little work."""
SKINNY = 16
"""How many times one side of a result is the other, or the depth of a product both, where it is skinny."""
WIDE_TILE = 256
"""The side of the largest tiles: a result that is wider is not skinny, however tall."""
SMALL_HEAD = 64
"""Width of attention heads below which tiles are not full; libraries are tuned for 64 and 128."""
SHORT_SEQUENCE = 512
"""Queries below which a block of attention ends before its start and softmax are paid back."""
FEW_CHANNELS = 16
"""Channels below which a reduction over filters fills no step of a tile."""
SMALL_DEPTH = 64
"""Depth of a product that is one or two steps of a tile: loading and writing it takes as long as computing."""
SHORT_CALL_US = 10.0
"""What a kernel takes however little it does, its way to all units and back; and a launch."""
SMALL_CALL_BYTES = 8e6
"""Bytes that a device with 3 TB/s moves in less than 3 us, mostly latency."""
LOW_OCCUPANCY_PERCENT = 50.0
"""Share of a multiprocessor's threads that can be resident, from which on more of them hide no more of the latency."""

_SETTINGS = ("stride", "padding", "dilation", "output_padding")
"""Settings of a convolution, as its model names them."""


@dataclass(frozen=True)
class Work:
    """Calls of one operation with equal arguments.

    Attributes:
        name, category: of the operation.
        dims, types, strides: of its inputs, as recorded; those of scalars are empty.
        params: the sizes that its model found; empty without a model.
        tile: rows and columns of the result that a block makes, by the name of a kernel.
        us: mean GPU time of a call.
        bytes: that a call moves at least; None where not known.
        units: multiprocessors or compute units of the device; None where not known.
        blocks: thread blocks that calls were launched with for half of their time, at most; None where not recorded.
        kernel: name of that kernel.
        made_for: architecture that the kernel was written for, by its name; empty where that does not show it.
        occupancy: what of it a multiprocessor can hold at a time; None where not known.
        capability: architecture of the device, `sm90` or `gfx94`; empty where not known.
        memory_bound: whether memory bounds it at its roof.
    """

    name: str
    category: str
    dims: Sequence[Sequence[int]]
    types: Sequence[str]
    strides: Sequence[Sequence[int]] = ()
    params: Mapping[str, Any] = field(default_factory=dict)
    tile: tuple[int, int] = USUAL_TILE
    us: float = 0.0
    bytes: float | None = None
    units: int | None = None
    blocks: int | None = None
    kernel: str = ""
    made_for: str = ""
    occupancy: Occupancy | None = None
    capability: str = ""
    memory_bound: bool = False

    @cached_property
    def aligned(self) -> int:
        """Elements of `ALIGNED_BYTES`."""
        size = next((known(name).bits for name in self.types if name not in ("", "Scalar")), 0)
        return max(8 * ALIGNED_BYTES // size, 1) if size else 1

    @property
    def is_forward_convolution(self) -> bool:
        """Whether it is a convolution, and none of the gradients of one."""
        return self.category == "Convolution" and "backward" not in self.name.lower()

    @property
    def is_batch_norm(self) -> bool:
        """Whether it is a batch norm: its kernels take a block or some for each channel, however large the batch."""
        return "batch_norm" in self.name.lower()

    @cached_property
    def geometry(self) -> Geometry | None:
        """The convolution that it is."""
        p = self.params
        x, w = (_sizes(p.get(one)) for one in ("input_shape", "filter_shape"))
        if x and w:
            stride, padding, dilation, extra = (_sizes(p.get(one), 0) for one in _SETTINGS)
            groups = _sizes([p.get("groups") or 1])
            if not groups or not 3 <= len(x) == len(w):
                return None
            return Geometry(x, w, stride, padding, dilation, extra, bool(p.get("transposed_conv")), groups[0])
        # Backward ops take gradients among their inputs, in orders of their own.
        x, w = (_sizes(self.dims[at]) if len(self.dims) > 1 else () for at in range(2))
        return Geometry(x, w) if self.is_forward_convolution and 3 <= len(x) == len(w) else None

    @cached_property
    def product(self) -> Product | None:
        """The product that it is, or that a convolution is made of: filters by places of the result."""
        p, geometry = self.params, self.geometry
        if sides := _sizes([p.get(side) for side in "MNK"]):
            return Product(*sides, *(_sizes([p.get("B")]) or (1,)))
        if geometry is None or "filter_shape" not in p:
            return None
        try:
            out = geometry.out
        except CannotModel:
            return None
        inside, filters = (geometry.w[0], out[1]) if geometry.transposed else (geometry.w[1], geometry.w[0])
        sides = (out[0] * prod(out[2:]), filters // geometry.groups, inside * prod(geometry.w[2:]), geometry.groups)
        return Product(*sides) if min(sides) > 0 else None

    @cached_property
    def attention(self) -> Attention | None:
        """The attention that it is: of requests of several lengths, as many of the usual length.

        Queries and keys of serving engines are sums over requests. Requests of equal length have q² / Σq² of it; of
        those of both kinds, prompts and answers, the kind with most pairs of queries and keys counts.
        """
        p = self.params
        sizes = _sizes([p.get(one) for one in ("B", "H_Q", "N_Q", "N_KV", "d_h_qk")])
        kinds = [found for kind in "cg" if (found := _sizes([p.get(f"{kind}_{one}") for one in _OF_REQUESTS]))]
        if not sizes or not kinds:
            return Attention(*sizes) if sizes else None
        tokens, keys, squares, _ = max(kinds, key=lambda one: one[-1])
        length = max(squares // tokens, 1)
        requests = max(tokens // length, 1)
        return Attention(requests, sizes[1], length, max(keys // requests, 1), sizes[4])

    @cached_property
    def experts(self) -> Experts | None:
        """The mixture of experts that it is."""
        if sizes := _sizes([self.params.get(one) for one in ("num_tokens", "num_experts", "topk")]):
            return Experts(*sizes)
        known_dims = [sizes for one in self.dims if (sizes := _sizes(one))]
        weights = [one for one in known_dims if len(one) == 3]
        pairs = [one for one in known_dims if len(one) == 2]
        routed = [one[1] for one in pairs[1:] if weights and one[0] == pairs[0][0] and one[1] <= weights[0][0]]
        return Experts(pairs[0][0], weights[0][0], min(routed)) if routed and "moe" in self.name.lower() else None

    @property
    def tiles(self) -> tuple[int, int] | None:
        """Pieces of work that go to units one by one, at least and at most: tiles of a product, blocks of queries.

        Libraries for matrices in columns compute the transpose, so that a tile may lie either way.
        """
        if one := self.product:
            tall, wide = self.tile
            least, most = sorted(ceil(one.m / a) * ceil(one.n / b) for a, b in ((tall, wide), (wide, tall)))
            return one.batch * least, one.batch * most
        if heads := self.attention:
            return (heads.batch * heads.heads * ceil(heads.queries / self.tile[0]),) * 2
        return None


def _sizes(values: Any, least: int = 1) -> tuple[int, ...]:
    """Sizes as they were found, if all of them can be; else none."""
    found = tuple(values) if isinstance(values, list | tuple) else ()
    return found if all(isinstance(one, int) and least <= one < _BEYOND for one in found) else ()


_OF_REQUESTS = ("sq", "sk", "sqsq", "sqsk")
"""Sums over requests among the parameters of attention of serving engines, each behind `c_` or `g_`."""

_BEYOND = 2**40
"""A size from which on nothing is believed."""


class Attention(NamedTuple):
    """Sizes of attention."""

    batch: int
    heads: int
    queries: int
    keys: int
    width: int


class Product(NamedTuple):
    """Sizes of a matrix product: m x n results, each a sum over k, `batch` times."""

    m: int
    n: int
    k: int
    batch: int


class Experts(NamedTuple):
    """Sizes of a mixture of experts: each token goes to `topk` of them."""

    tokens: int
    experts: int
    topk: int

    @property
    def rows(self) -> float:
        """Rows of an expert's products, in the mean."""
        return self.tokens * self.topk / self.experts


class Reason(NamedTuple):
    """What keeps an operation below its roof.

    Attributes:
        name: of the rule.
        text: it in words, with the sizes.
        advice: what to try.
    """

    name: str
    text: str
    advice: str


def reasons(work: Work) -> Iterator[Reason]:
    """What in its sizes keeps an operation below its roof, in the order of the rules."""
    for name, rule in RULES.items():
        if text := rule.find(work):
            advice = rule.advice
            if advice == "more_tiles" and not work.product:  # it has no depth that could be split
                advice = "" if work.is_batch_norm else "more_rows"
            yield Reason(name, text, advice)


def _few_blocks(work: Work) -> str:
    # Attention may split the keys, too: its blocks are counted only where the launch does not show them.
    is_counted = work.attention is not None and work.blocks
    tiles, units = None if is_counted else work.tiles and work.tiles[1], work.units or FEWEST_UNITS
    of_device = f"for {units:,} units" if work.units else f"where the smallest known device has {units} units"
    if tiles is not None and 0 < tiles < units:
        what = f"{'tile' if work.product else 'block'}{'s'[: tiles > 1]}{'' if work.product else ' of queries'}"
        size = "x".join(map(str, work.tile)) if work.product else str(work.tile[0])
        return f"only {tiles:,} {what} of {size} {of_device}"
    if work.blocks and work.blocks < units:
        is_by_channel = work.is_batch_norm and work.dims and tuple(work.dims[0])[1:2] == (work.blocks,)
        each = ", one a channel," if is_by_channel else ""
        return f"only {work.blocks:,} thread block{'s'[: work.blocks > 1]}{each} {of_device}"
    return ""


def _last_wave(work: Work) -> str:
    if not work.units or not work.product or not work.tiles or work.tiles[0] < work.units:
        return ""
    tiles = work.tiles[0]  # the way in which fewest tiles lie beyond the result
    waves = tiles / work.units
    filled = waves / ceil(waves)
    if filled >= POOR_LAST_WAVE:
        return ""
    idle = 100 * (1 - filled)
    return f"{tiles:,} tiles on {work.units:,} units are {waves:.2f} waves: {idle:.0f} % of the units' time is idle"


def _misaligned(work: Work) -> str:
    if not (one := work.product) or work.geometry:
        return ""
    odd = {side: size for side, size in zip("MNK", one[:3], strict=True) if size > 1 and size % work.aligned}
    if not odd:
        return ""
    named = ", ".join(f"{side} = {size:,}" for side, size in odd.items())
    return f"{named}: no multiple of {work.aligned} ({ALIGNED_BYTES} bytes)"


def _partial_tiles(work: Work) -> str:
    if not (one := work.product) or min(one.m, one.n) < FEW_ROWS:
        return ""
    tall, wide = work.tile
    full = max(
        one.m * one.n / (ceil(one.m / a) * a * ceil(one.n / b) * b) for a, b in ((tall, wide), (wide, tall))
    )  # fmt: skip
    return (
        f"{100 * (1 - full):.0f} % of the tiles lie beyond the result of {one.m:,}x{one.n:,}"
        if full < POOR_EDGE
        else ""
    )


def _few_rows(work: Work) -> str:
    if not (one := work.product) or work.geometry or min(one.m, one.n) >= FEW_ROWS:
        return ""
    few = min(one.m, one.n)
    return f"{few:,} row{'s'[: few > 1]} only: the matrix of {max(one.m, one.n):,}x{one.k:,} is moved for little work"


def _skinny(work: Work) -> str:
    if not (one := work.product) or work.geometry:
        return ""
    small, large = sorted((one.m, one.n))
    if one.k >= SKINNY * large:
        return f"a small result of {one.m:,}x{one.n:,} over a depth of {one.k:,}: its tiles are few and long"
    if FEW_ROWS <= small <= WIDE_TILE and large >= SKINNY * small:
        return f"tall and skinny: {large:,} by {small:,}"
    return ""


def _small_depth(work: Work) -> str:
    one = work.product
    if not one or work.geometry or one.k >= SMALL_DEPTH:
        return ""
    return f"a depth of {one.k:,} only: writing the result takes longer than the sums"


def _small_products(work: Work) -> str:
    one = work.product
    if not one or work.geometry or one.batch < 2 or max(one.m, one.n) > max(work.tile):
        return ""
    return f"{one.batch:,} small products of {one.m:,}x{one.n:,}x{one.k:,}, each a tile or less"


def _head_size(work: Work) -> str:
    first = _sizes(work.dims[0]) if work.category.startswith("Flash Attention") and work.dims else ()
    width = work.attention.width if work.attention else first[-1] if len(first) == 4 else 0
    if 0 < width < SMALL_HEAD:
        return f"a head of {width} only: tiles of {SMALL_HEAD} and more are not full"
    padded = next((size for size in (64, 96, 128, 192, 256) if size >= width), width)
    return f"a head of {width}, which kernels pad to {padded}" if width % 32 else ""


def _short_sequence(work: Work) -> str:
    if not (one := work.attention):
        return ""
    if one.queries < 16 < one.keys:
        queries = "1 query" if one.queries == 1 else f"{one.queries} queries"
        return f"{queries} to {one.keys:,} keys: these are moved for little work"
    if one.queries < SHORT_SEQUENCE:
        return f"a short sequence of {one.queries:,}: a block ends soon after its start"
    return ""


def _depthwise(work: Work) -> str:
    if not (one := work.geometry) or one.groups < 2 or one.x[1] > one.groups:
        return ""
    return f"depthwise, {one.groups:,} groups of one channel: no product, each number is used by one filter only"


def _few_channels(work: Work) -> str:
    if not (one := work.geometry) or _depthwise(work):
        return ""
    inside, outside = max(one.x[1] // one.groups, 1), one.w[1] * one.groups if one.transposed else one.w[0]
    if inside < FEW_CHANNELS:
        into = f" in each of {one.groups:,} groups" if one.groups > 1 else ""
        depth = inside * prod(one.w[2:])
        return (
            f"{inside} channel{'s'[: inside > 1]}{into} into {outside:,}: sums over {depth:,} fill few steps of a tile"
        )
    if inside % work.aligned:
        return f"{inside:,} channels are not a multiple of {work.aligned} ({ALIGNED_BYTES} bytes)"
    return ""


def _odd_filter(work: Work) -> str:
    if not (one := work.geometry):
        return ""
    sizes = "x".join(map(str, one.w[2:]))
    if one.transposed:
        return "transposed: it runs as the backward pass of its input, which scatters"
    if len(set(one.w[2:])) > 1:
        return f"a filter of {sizes}, for which libraries have no kernel of its own"
    if max(one.dilation, default=1) > 1:
        return f"dilated by {'x'.join(map(str, one.dilation))}: neighbours in the filter are not neighbours in memory"
    return f"a large filter of {sizes}" if max(one.w[2:]) >= 7 else ""


def _few_tokens(work: Work) -> str:
    one = work.experts
    if one is None or one.rows >= USUAL_TILE[0]:
        return ""
    return (
        f"{one.tokens:,} tokens to {one.topk} of {one.experts:,} experts: {one.rows:.3g} rows an expert, where a tile"
        f" holds {USUAL_TILE[0]}"
    )


def _strided(work: Work) -> str:
    """Inputs of one shape whose elements lie in different orders, or with holes."""
    if work.product or work.geometry or work.attention or work.experts:
        return ""
    pairs = ((_sizes(d), _sizes(s)) for d, s in zip(work.dims, work.strides, strict=False))
    inputs = [(d, s) for d, s in pairs if len(d) == len(s) > 1]
    if any(sum((size - 1) * step for size, step in zip(d, s, strict=True)) >= prod(d) for d, s in inputs):
        return "an input with holes between its elements: lines of memory are read for a part of them"
    # The step along a dimension of size 1 is never taken.
    taken = [[step for size, step in zip(d, s, strict=True) if size > 1] for d, s in inputs]
    orders = {tuple(np.argsort(steps, kind="stable").tolist()) for steps in taken}
    if len({d for d, _ in inputs}) == 1 and len(orders) > 1:
        return "inputs whose elements lie in different orders: one is read across its lines"
    return ""


def _small_call(work: Work) -> str:
    if work.bytes is None or work.bytes >= SMALL_CALL_BYTES:
        return f"calls of {work.us:.3g} us, as long as their launch" if 0 < work.us < SHORT_CALL_US else ""
    size = f"{work.bytes / 1e6:.3g} MB" if work.bytes >= 1e5 else f"{work.bytes / 1e3:.3g} kB"
    return f"{size} a call, which is moved before all units are at work"


_VECTOR_UNITS = re.compile(r"(?:^|_|::)[sh](?:gemm|cudnn)|simt|ffma|convolve_sgemm|winograd\w{0,20}_fp32")
"""Names of kernels of products and convolutions that compute without tensor cores: cuBLAS's and cuDNN's, CUTLASS's."""
_GENERATIONS: Mapping[str, int] = {
    "maxwell": 5, "pascal": 6, "volta": 7, "turing": 7, "ampere": 8, "ada": 8, "hopper": 9,
}  # fmt: skip
_SM = re.compile(r"sm(\d{1,2})\d[a-z]?$")
_GFX = re.compile(r"gfx(?:(\d{1,2})([0-9a-f])[0-9a-f]|(\d)([0-9a-f]))$")
"""Generation, a digit within it, and the stepping, which names of several devices lack."""
_WITH_TF32, _WITH_TENSOR_CORES = 8, 7
"""Generations of NVIDIA's devices from which on tensor cores take float32 rounded to TF32, and half precision."""
_OLD_INSTRUCTIONS = 12
"""The generation of NVIDIA's devices whose tensor cores are used by the instructions of generation 8."""
GENERIC = "gfx000"
"""What Tensile's kernels are called that are for any device, without its matrix instructions."""


def generation(arch: str) -> tuple[int, ...]:
    """Generation of an architecture in kernels' names: of `sm90` and `hopper` (9,), of `gfx942` (9, 4); () if unknown.

    >>> generation("ampere"), generation("sm100"), generation("gfx90a"), generation("gfx942"), generation("gfx94")
    ((8,), (10,), (9, 0), (9, 4), (9, 4))
    """
    if arch in _GENERATIONS:
        return (_GENERATIONS[arch],)
    if found := _SM.match(arch):
        return (int(found[1]),)
    found = _GFX.match(arch)
    return (int(found[1] or found[3]), int(found[2] or found[4], 16)) if found else ()


def _no_tensor_cores(work: Work) -> str:
    dtype = next((known(name).precision for name in work.types if name not in ("", "Scalar")), "")
    is_product = work.product or work.geometry or work.category in ("GEMM", "Convolution")
    device = generation(work.capability)
    least = {"fp32": _WITH_TF32, "fp16": _WITH_TENSOR_CORES, "bf16": _WITH_TF32}.get(dtype)
    if not is_product or work.memory_bound or least is None or len(device) != 1 or device[0] < least:
        return ""
    return f"{dtype} on vector units, not on tensor cores" if on_vector_units(work.kernel) else ""


def on_vector_units(kernel: str) -> bool:
    """Whether a kernel of a product or convolution computes without tensor cores, by its name."""
    return bool(_VECTOR_UNITS.search(kernel))


def _older_kernel(work: Work) -> str:
    if not is_older(work.made_for, work.capability) or on_vector_units(work.kernel):
        return ""  # vector units did not change
    if work.made_for == GENERIC:
        return "a kernel for any device, without its matrix instructions"
    return f"a kernel for {work.made_for}, on a device of {work.capability}"


def is_older(made_for: str, capability: str) -> bool:
    """Whether an architecture is older than a device's, and not the one whose instructions the device has."""
    first, device = generation(made_for), generation(capability)
    has_its_instructions = device == (_OLD_INSTRUCTIONS,) and first == (_WITH_TF32,)
    return bool(first) and len(first) == len(device) and first < device and not has_its_instructions


def _low_occupancy(work: Work) -> str:
    one = work.occupancy
    if work.product or work.attention or work.experts:  # their tiles leave room for few blocks, and need no more
        return ""
    if one is None or not work.memory_bound or one.percent >= LOW_OCCUPANCY_PERCENT or one.is_filled is False:
        return ""
    blocks = "1 block" if one.blocks == 1 else f"{one.blocks} blocks"
    return f"an occupancy of {one.percent:.0f} % at most: {' and '.join(one.limited_by)} allow {blocks} at a time"


class Rule(NamedTuple):
    """A rule.

    Attributes:
        find: the reason in words, with the sizes; empty where there is none.
        advice: what to try; empty for nothing.
        source: where its reasoning and its threshold come from.
    """

    find: Callable[[Work], str]
    advice: str
    source: str


_MATRIX = "https://docs.nvidia.com/deeplearning/performance/dl-performance-matrix-multiplication/"
_CONVOLUTION = "https://docs.nvidia.com/deeplearning/performance/dl-performance-convolutional/"
_MEMORY = "https://docs.nvidia.com/deeplearning/performance/dl-performance-memory-limited/"
_ATTENTION = "https://arxiv.org/abs/2307.08691"
_OCCUPANCY = "https://docs.nvidia.com/cuda/cuda-c-best-practices-guide/#occupancy"
_TF32 = "https://docs.pytorch.org/docs/stable/notes/cuda.html#tensorfloat-32-tf32-on-ampere-and-later-devices"
_HOPPER = "https://docs.nvidia.com/cuda/hopper-tuning-guide/"
_MOE = "https://arxiv.org/abs/2211.15841"

RULES: Mapping[str, Rule] = {
    "no_tensor_cores": Rule(_no_tensor_cores, "tensor_cores", _TF32),
    "few_tokens": Rule(_few_tokens, "more_rows", _MOE),
    "few_blocks": Rule(_few_blocks, "more_tiles", _MATRIX),
    "last_wave": Rule(_last_wave, "more_tiles", _MATRIX),
    "skinny": Rule(_skinny, "more_tiles", _MATRIX),
    "few_rows": Rule(_few_rows, "more_rows", _MATRIX),
    "small_products": Rule(_small_products, "more_rows", _MATRIX),
    "misaligned": Rule(_misaligned, "pad_sizes", _MATRIX),
    "partial_tiles": Rule(_partial_tiles, "pad_sizes", _MATRIX),
    "small_depth": Rule(_small_depth, "", _MATRIX),
    "head_size": Rule(_head_size, "pad_sizes", _ATTENTION),
    "short_sequence": Rule(_short_sequence, "more_rows", _ATTENTION),
    "depthwise": Rule(_depthwise, "", _CONVOLUTION),
    "few_channels": Rule(_few_channels, "pad_sizes", _CONVOLUTION),
    "odd_filter": Rule(_odd_filter, "", _CONVOLUTION),
    "older_kernel": Rule(_older_kernel, "newer_kernels", _HOPPER),
    "strided": Rule(_strided, "", _MEMORY),
    "low_occupancy": Rule(_low_occupancy, "occupancy", _OCCUPANCY),
    "small_call": Rule(_small_call, "more_rows", _MEMORY),
}
"""Every rule by name, in the order in which reasons are given."""
