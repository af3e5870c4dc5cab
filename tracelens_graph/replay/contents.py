"""Contents of one tensor of a call as the other arguments demand them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod

from tracelens_graph.replay.arguments import Fill, TensorValue, Value


@dataclass(frozen=True)
class Site:
    """A tensor among the arguments of a call.

    Attributes:
        op: name of the op without namespace, overload and, of in-place ops, the last underscore.
        argument: name of the argument.
        place: position in its list; 0 for no list.
        tensor: the tensor.
        others: all arguments by name.
        overload: overload of the op.
    """

    op: str
    argument: str
    place: int
    tensor: TensorValue
    others: Mapping[str, Value]
    overload: str = ""

    def shape(self, *names: str) -> tuple[int, ...]:
        """Sizes of the first of these arguments that is a tensor; empty if none is."""
        for name in names:
            found = self.others.get(name)
            if isinstance(found, TensorValue):
                return found.shape
        return ()

    def whole(self, *names: str, default: int = 0) -> int:
        """The first of these arguments that is a whole number."""
        return next((found for name in names if type(found := self.others.get(name)) is int), default)

    def sizes(self, name: str) -> tuple[int, ...]:
        """An argument that is a list of whole numbers; empty if it is none."""
        found = self.others.get(name)
        return tuple(one for one in found if type(one) is int) if isinstance(found, tuple) else ()

    @property
    def elements(self) -> int:
        """Number of elements of the tensor."""
        return prod(self.tensor.shape)

    @property
    def row(self) -> int:
        """Size of the last dimension of the tensor; 1 if it has none."""
        return self.tensor.shape[-1] if self.tensor.shape else 1


Maker = Callable[[Site], "Fill | None"]


def below(count: Callable[[Site], int]) -> Maker:
    """Indices below a number that the site tells."""
    return lambda site: Fill("integers", {"high": max(count(site), 1)})


def always(rule: str, **options: int | float | bool) -> Maker:
    """A fill that does not depend on the site."""
    return lambda site: Fill(rule, options)


def along(*tensors: str) -> Callable[[Site], int]:
    """Size of a tensor along the argument `dim`."""

    def size(site: Site) -> int:
        shape, dim = site.shape(*tensors) or site.sizes("self_sizes"), site.whole("dim")
        return shape[dim] if -len(shape) <= dim < len(shape) else 1

    return size


def at(dim: int, *tensors: str) -> Callable[[Site], int]:
    """Size of a dimension of a tensor."""

    def size(site: Site) -> int:
        shape = site.shape(*tensors)
        return shape[dim] if -len(shape) <= dim < len(shape) else 1

    return size


def numel(*tensors: str) -> Callable[[Site], int]:
    """Number of elements of a tensor."""
    return lambda site: prod(site.shape(*tensors))


def number(*names: str) -> Callable[[Site], int]:
    """An argument that is a whole number."""
    return lambda site: site.whole(*names)


def classes(site: Site) -> int:
    """Classes of a loss: the second dimension, or the only one."""
    shape = site.shape("self", "input")
    return shape[1] if len(shape) > 1 else shape[0] if shape else 1


def indexed(site: Site) -> Fill | None:
    """Index tensors of `index` and the like: each is for a dimension, a mask for as many as it has."""
    listed, shape = site.others.get("indices"), site.shape("self")
    if site.tensor.dtype in ("bool", "uint8") or not isinstance(listed, tuple):
        return None
    dim = 0
    for one in listed[: site.place]:
        is_mask = isinstance(one, TensorValue) and one.dtype in ("bool", "uint8")
        dim += len(one.shape) if is_mask and isinstance(one, TensorValue) else 1
    return Fill("integers", {"high": max(shape[dim], 1) if dim < len(shape) else 1})


def windows(site: Site) -> int:
    """Places that indices of a pooling can have: those of its input."""
    shape = site.shape("self", "input")
    dims = 3 if "3d" in site.op else 2
    return prod(shape[-dims:])


def cumulated(site: Site) -> Fill:
    """Cumulative lengths of sequences: 0 first, all tokens last."""
    is_key = re.search(r"k|kv", site.argument.replace("seqlens", "").replace("seqstart", "").replace("seq", ""))
    shape = site.shape(*(("key", "k") if is_key else ("query", "q", "grad_out")))
    tokens = shape[1] if len(shape) == 4 and shape[0] == 1 else shape[0] if len(shape) == 3 else prod(shape[:2])
    return Fill("rising", {"high": tokens})


def lengths(site: Site) -> Fill:
    """Lengths that fall, the longest as long as the batch: of packed sequences."""
    shape, is_first = site.shape("input"), site.others.get("batch_first") is True
    return Fill("constant", {"value": (shape[1] if is_first else shape[0]) if len(shape) > 1 else 1})


def packed(site: Site) -> Fill:
    """Batch sizes of packed sequences: they fall, and their sum is the number of rows."""
    rows = site.shape("data", "input", "grad")
    total = rows[0] if rows else site.elements
    most = batch(site)
    return Fill("falling", {"total": total, "most": most}) if most else Fill("parts", {"total": total})


def batch(site: Site) -> int:
    """Sequences of a packed batch, as the hidden state tells; 0 where it does not."""
    state = site.others.get("hx")
    state = state[0] if isinstance(state, tuple) and state else state
    return state.shape[-2] if isinstance(state, TensorValue) and len(state.shape) > 1 else 0


def square(definite: bool) -> Maker:
    """Matrices where the tensor holds such; positive definite ones at request."""

    def make(site: Site) -> Fill | None:
        shape = site.tensor.shape
        if len(shape) < 2 or shape[-1] != shape[-2] or 0 in shape:
            return None
        return Fill("matrices", {"size": shape[-1], **({"definite": True} if definite else {})})

    return make


def masked_places(site: Site) -> Fill | None:
    """A mask among indices with as many places as there are values for them."""
    values, rank = site.shape("values"), len(site.shape("self")) - len(site.tensor.shape) + 1
    return Fill("first", {"count": values[site.place]}) if len(values) == rank > site.place else None


def masked_source(site: Site) -> Fill | None:
    """A mask with no more places than there are values for them."""
    source, shape = site.shape("source"), site.shape("self")
    share = max(prod(shape) // max(site.elements, 1), 1)
    return Fill("first", {"count": prod(source) // share})


def repeats(site: Site) -> Fill:
    """How often each element is repeated; in all as often as the output is long."""
    total = site.whole("output_size")
    return Fill("parts", {"total": total}) if total else Fill("constant", {"value": 1})


def segments(site: Site) -> Fill:
    """Lengths of segments, in all those of the data."""
    shape, axis = site.shape("data"), site.whole("axis")
    total = shape[axis] if -len(shape) <= axis < len(shape) else site.elements
    return Fill("parts", {"total": total})


def compressed(site: Site) -> Fill:
    """Begins of the rows of a compressed sparse tensor, anew in each batch."""
    places = site.shape("col_indices", "row_indices", "plain_indices", "values")
    return Fill("rising", {"high": places[-1] if places else site.elements, "row": site.row})


def sparse_places(site: Site) -> Fill:
    """Indices of the entries of a sparse tensor."""
    size = site.sizes("size")
    return Fill("integers", {"high": max(min(size[: site.tensor.shape[0]] or (1,)), 1)})


def bags(site: Site) -> int:
    """Number of bags of an embedding bag."""
    shape = site.shape("bag_size", "grad", "offsets")
    return shape[0] if shape else 1


def bag_offsets(site: Site) -> Fill:
    """Where the bags of an embedding bag begin."""
    count = prod(site.shape("indices"))
    if site.others.get("include_last_offset") is True:
        return Fill("rising", {"high": count})
    return Fill("starts", {"high": count})


def is_repeats(site: Site) -> bool:
    """Whether the tensor tells how often others are repeated."""
    return site.argument == "repeats" or "repeats" not in site.others


def target_lengths(site: Site) -> Fill:
    """Lengths of the targets of a CTC loss: all of them."""
    shape, batch = site.shape("targets"), max(site.elements, 1)
    most = shape[-1] if len(shape) > 1 else prod(shape) // batch
    return Fill("constant", {"value": most})


def group_ends(site: Site) -> Fill:
    """Where groups of rows end."""
    first, second = site.shape("self", "mat_a"), site.shape("mat2", "mat_b")
    total = first[0] if len(first) == 2 and len(second) == 3 else second[-1] if len(first) == 3 else first[-1]
    return Fill("starts", {"high": total, "skip": 1})


def entries_a_row(site: Site) -> int:
    """Entries in each row of a compressed sparse tensor."""
    begins = site.shape("crow_indices", "ccol_indices", "compressed_indices")
    return max(site.row // max((begins[-1] if begins else 2) - 1, 1), 1)
