"""What tensors of a call must hold so that it can run: indices in bounds, probabilities, cumulative lengths ...

A table of rules: patterns of the op's name and of the argument's, the kind of dtype, and a function that makes the
fill from the other arguments. The first rule that applies counts; without one, what the dtype alone suggests.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod
from typing import NamedTuple

from tracelens_graph.replay.arguments import Fill, TensorValue, Value
from tracelens_graph.replay.dtypes import INTEGRAL

_PACKED = re.compile(r"bits|float4|u?int[1-7]$")
_MODEST = 100
"""Whole numbers of which nothing is known are below this: it fits every dtype."""


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


class Rule(NamedTuple):
    """A rule.

    Attributes:
        op, argument: patterns of the whole names.
        make: the fill, from the site; None where the rule does not apply after all.
        dtypes: `integers`, `bool`, `floats` or `any`.
    """

    op: str
    argument: str
    make: Maker
    dtypes: str = "integers"


def _below(count: Callable[[Site], int]) -> Maker:
    return lambda site: Fill("integers", {"high": max(count(site), 1)})


def _is(rule: str, **options: int | float | bool) -> Maker:
    return lambda site: Fill(rule, options)


def _along(*tensors: str) -> Callable[[Site], int]:
    """Size of a tensor along the argument `dim`."""

    def size(site: Site) -> int:
        shape, dim = site.shape(*tensors) or site.sizes("self_sizes"), site.whole("dim")
        return shape[dim] if -len(shape) <= dim < len(shape) else 1

    return size


def _at(dim: int, *tensors: str) -> Callable[[Site], int]:
    """Size of a dimension of a tensor."""

    def size(site: Site) -> int:
        shape = site.shape(*tensors)
        return shape[dim] if -len(shape) <= dim < len(shape) else 1

    return size


def _numel(*tensors: str) -> Callable[[Site], int]:
    return lambda site: prod(site.shape(*tensors))


def _number(*names: str) -> Callable[[Site], int]:
    return lambda site: site.whole(*names)


def _classes(site: Site) -> int:
    """Classes of a loss: the second dimension, or the only one."""
    shape = site.shape("self", "input")
    return shape[1] if len(shape) > 1 else shape[0] if shape else 1


def _indexed(site: Site) -> Fill | None:
    """Index tensors of `index` and the like: each is for a dimension, a mask for as many as it has."""
    listed, shape = site.others.get("indices"), site.shape("self")
    if site.tensor.dtype in ("bool", "uint8") or not isinstance(listed, tuple):
        return None
    dim = 0
    for one in listed[: site.place]:
        is_mask = isinstance(one, TensorValue) and one.dtype in ("bool", "uint8")
        dim += len(one.shape) if is_mask and isinstance(one, TensorValue) else 1
    return Fill("integers", {"high": max(shape[dim], 1) if dim < len(shape) else 1})


def _pooled(dims: int) -> Callable[[Site], int]:
    return lambda site: prod(site.sizes("output_size")[-dims:] or site.shape("self")[-dims:])


def _windows(site: Site) -> int:
    """Places that indices of a pooling can have: those of its input."""
    shape = site.shape("self", "input")
    dims = 3 if "3d" in site.op else 2
    return prod(shape[-dims:])


def _cumulated(site: Site) -> Fill:
    """Cumulative lengths of sequences: 0 first, all tokens last."""
    is_key = re.search(r"k|kv", site.argument.replace("seqlens", "").replace("seqstart", "").replace("seq", ""))
    shape = site.shape(*(("key", "k") if is_key else ("query", "q", "grad_out")))
    tokens = shape[1] if len(shape) == 4 and shape[0] == 1 else shape[0] if len(shape) == 3 else prod(shape[:2])
    return Fill("rising", {"high": tokens})


def _lengths(site: Site) -> Fill:
    """Lengths that fall, the longest as long as the batch: of packed sequences."""
    shape, is_first = site.shape("input"), site.others.get("batch_first") is True
    return Fill("constant", {"value": (shape[1] if is_first else shape[0]) if len(shape) > 1 else 1})


def _packed(site: Site) -> Fill:
    """Batch sizes of packed sequences: they fall, and their sum is the number of rows."""
    rows = site.shape("data", "input", "grad")
    total = rows[0] if rows else site.elements
    batch = _batch(site)
    return Fill("falling", {"total": total, "most": batch}) if batch else Fill("parts", {"total": total})


def _batch(site: Site) -> int:
    """Sequences of a packed batch, as the hidden state tells; 0 where it does not."""
    state = site.others.get("hx")
    state = state[0] if isinstance(state, tuple) and state else state
    return state.shape[-2] if isinstance(state, TensorValue) and len(state.shape) > 1 else 0


def _square(definite: bool) -> Maker:
    def make(site: Site) -> Fill | None:
        shape = site.tensor.shape
        if len(shape) < 2 or shape[-1] != shape[-2] or 0 in shape:
            return None
        return Fill("matrices", {"size": shape[-1], **({"definite": True} if definite else {})})

    return make


def _masked_source(site: Site) -> Fill | None:
    """A mask with no more places than there are values for them."""
    source, shape = site.shape("source"), site.shape("self")
    share = max(prod(shape) // max(site.elements, 1), 1)
    return Fill("first", {"count": prod(source) // share})


def _repeats(site: Site) -> Fill:
    total = site.whole("output_size")
    return Fill("parts", {"total": total}) if total else Fill("constant", {"value": 1})


def _segments(site: Site) -> Fill:
    shape, axis = site.shape("data"), site.whole("axis")
    total = shape[axis] if -len(shape) <= axis < len(shape) else site.elements
    return Fill("parts", {"total": total})


def _compressed(site: Site) -> Fill:
    """Begins of the rows of a compressed sparse tensor, anew in each batch."""
    places = site.shape("col_indices", "row_indices", "plain_indices", "values")
    return Fill("rising", {"high": places[-1] if places else site.elements, "row": site.row})


def _sparse_places(site: Site) -> Fill:
    size = site.sizes("size")
    return Fill("integers", {"high": max(min(size[: site.tensor.shape[0]] or (1,)), 1)})


_INDEXED = r"_?(unsafe_)?index(_put)?(_impl)?"
_SCATTERED = (
    r"scatter(_add|_reduce)?|gather|take_along_dim|index_(add|copy|fill|reduce|select)|_?gather_sparse_backward"
)
_POOLS = r"(adaptive_|fractional_)?max_(un)?pool[23]d(_with_indices)?(_backward)?"
_DIVIDING = r"(true_|floor_)?div(ide)?|remainder|fmod|__(r|i)?(floor|true)?div__"
_VARLEN = r"_?(flash|efficient|cudnn)_attention.*|_scaled_dot_product.*|_fill_mem_eff.*|_jagged_.*"
_LAPACK = (
    r"(linalg_)?(inv|inv_ex|solve|solve_ex|_solve_ex|det|slogdet|lu_factor|lu_factor_ex|lu|lu_solve|ldl_solve|"
    r"solve_triangular|tensorinv)|inverse|_linalg_(det|slogdet|solve_ex)|triangular_solve|cholesky_(inverse|solve)|"
    r"logdet|linalg_matrix_power|matrix_power|linalg_cond|_cholesky_solve_helper|lu_unpack"
)

RULES = (
    # --- indices
    Rule(_INDEXED, "indices", _indexed),
    Rule("_unsafe_masked_index.*", "indices", _indexed),
    Rule(_SCATTERED, "index", _below(_along("self"))),
    Rule("gather_backward|index_select_backward|value_selecting_reduction_backward", "ind(ex|ices)", _below(_along("self"))),
    Rule("take|put|take_backward", "index", _below(_numel("self"))),
    Rule("embedding(_renorm)?|embedding_bag|_embedding_bag(_forward_only)?", "indices", _below(_at(0, "weight", "self"))),
    Rule("_?embedding.*backward", "indices|maximum_indices", _below(_number("num_weights"))),
    Rule("_?embedding_bag.*", "offset2bag", lambda site: Fill("starts", {"high": _bags(site)})),
    Rule("_?embedding_bag.*", "bag_size", _is("constant", value=1)),
    Rule("_?embedding_bag.*", "offsets", lambda site: _bag_offsets(site)),
    Rule("nll_loss.*|cross_entropy_loss|multi_margin_loss.*|multilabel_margin_loss.*|linear_cross_entropy",
         "target|labels", _below(_classes)),
    Rule("one_hot", "self", _below(lambda site: site.whole("num_classes") if site.whole("num_classes") > 0 else 10)),
    Rule("max_unpool[23]d", "indices", _below(lambda site: prod(site.sizes("output_size")))),
    Rule(_POOLS, "indices", _below(_windows)),
    Rule("narrow", "start", _is("zeros")),
    Rule("bincount", "self", _is("integers", high=_MODEST)),
    Rule("searchsorted", "sorter", lambda site: Fill("counted", {"row": site.row})),
    # --- integers that are no indices
    Rule(_DIVIDING, "other|self", _is("integers", low=1, high=_MODEST)),
    Rule(r"(__)?(i|r)?(l|r)shift(__)?|bitwise_(left|right)_shift", "other", _is("integers", high=4)),
    Rule("pow|float_power|__r?pow__", "exponent|other", _is("integers", high=4)),
    Rule("repeat_interleave", "repeats|self", lambda site: _repeats(site) if _is_repeats(site) else None),
    Rule("_?segment_reduce.*", "lengths", _segments),
    Rule("_?segment_reduce.*", "offsets", lambda site: Fill("rising", {"high": sum(site.shape("data")[:1])})),
    Rule("_ctc_loss.*|ctc_loss", "targets", lambda site: Fill("integers", {"low": 1, "high": max(_at(-1, "log_probs")(site), 2)})),
    Rule("_ctc_loss.*|ctc_loss", "input_lengths", lambda site: Fill("constant", {"value": _at(0, "log_probs")(site)})),
    Rule("_ctc_loss.*|ctc_loss", "target_lengths", lambda site: _target_lengths(site)),
    Rule("_pack_padded_sequence", "lengths", _lengths),
    Rule("_pad_packed_sequence|_pack_padded_sequence_backward|lstm|gru|rnn_(tanh|relu)", "batch_sizes", _packed),
    Rule("_linalg_check_errors", "info", _is("zeros")),
    Rule(".*lu.*|.*ldl.*", "(LU_)?pivots", lambda site: Fill("counted", {"row": site.row, "start": 1})),
    Rule("batch_norm_(backward_elemt|gather_stats_with_counts)", "counts?", _is("constant", value=2), "any"),
    Rule("tensor_split", "tensor_indices_or_sections", lambda site: Fill("constant", {"value": 1}) if not site.tensor.shape else Fill("rising", {"high": _along("self")(site)})),
    # --- attention
    Rule(_VARLEN, "cum_seq.*|cu_?seqlens.*|seqstart.*|offsets|cumulative_sequence_length.*", _cumulated),
    Rule(_VARLEN, "seqused_k|seqlen_k", lambda site: Fill("constant", {"value": max(site.whole("max_k", "max_seqlen_k"), 1)})),
    Rule(_VARLEN, "block_table|page_table", _below(_at(0, "key", "k"))),
    Rule("_?(scaled_)?grouped_mm.*", "offs", lambda site: _group_ends(site)),
    # --- sparse
    Rule("_?(validate_)?sparse_(compressed|csr|bsr|csc|bsc).*|_convert_indices_from_csr_to_coo", "c(row|col|compressed)_?indices|compressed_indices", _compressed),
    Rule("_?(validate_)?sparse_(compressed|csr|bsr|csc|bsc).*", "(col|row|plain)_indices", lambda site: Fill("counted", {"row": _entries_a_row(site)})),
    Rule("_convert_indices_from_coo_to_csr", "self", lambda site: Fill("starts", {"high": max(site.whole("size"), 1)})),
    Rule("_?(validate_)?sparse_coo_tensor.*", "indices", _sparse_places),
    # --- numbers in a range
    Rule("bernoulli", "self|p", _is("uniform"), "floats"),
    Rule("multinomial", "self", _is("uniform", low=0.1, high=1.0), "floats"),
    Rule("binary_cross_entropy(_backward)?", "self|target", _is("uniform", low=0.01, high=0.99), "floats"),
    Rule("binomial", "count", _is("constant", value=10), "floats"),
    Rule("binomial", "prob", _is("uniform"), "floats"),
    Rule("poisson|_standard_gamma.*|_sample_dirichlet|_dirichlet_grad", ".*", _is("uniform", low=0.1, high=2.0), "floats"),
    Rule("normal", "std", _is("uniform", low=0.1, high=1.0), "floats"),
    Rule("n?an?quantile", "q", _is("uniform"), "floats"),
    Rule("fractional_max_pool.*", "random_samples", _is("uniform"), "floats"),
    Rule("grid_sampler.*|_grid_sampler.*|grid_sample", "grid", _is("uniform", low=-1.0, high=1.0), "floats"),
    Rule(".*batch_norm.*|.*layer_norm.*|.*group_norm.*|.*instance_norm.*", "running_var|save_var|save_invstd|invstd|rstd|var|inv_std", _is("uniform", low=0.5, high=1.5), "floats"),
    Rule("(_fused|_foreach)?.*(adam|amsgrad).*", "(max_)?exp_avg_sqs?", _is("uniform", low=0.1, high=1.0), "floats"),
    Rule("_fused.*", "state_steps|lr", _is("constant", value=1.0), "floats"),
    Rule(".*", "found_inf", _is("zeros"), "floats"),
    Rule("_scaled.*mm.*", "scale.*", _is("uniform", low=0.5, high=1.0), "floats"),
    Rule(".*fake_quant.*|.*quantize.*", "scales?", _is("uniform", low=0.05, high=0.1), "floats"),
    Rule(".*fake_quant.*|.*quantize.*", "zero_points?", _is("zeros"), "any"),
    Rule("bucketize|searchsorted", "boundaries|sorted_sequence", lambda site: Fill("rising", {"high": 1.0, "row": site.row}), "floats"),
    Rule("bucketize|searchsorted", "boundaries|sorted_sequence", lambda site: Fill("rising", {"high": _MODEST, "row": site.row})),
    Rule("_?histogram.*", "bins", lambda site: Fill("rising", {"high": 1.0, "row": site.row}), "floats"),
    Rule("_assert_async", "self", _is("constant", value=1), "any"),
    Rule(_SCATTERED.replace("|gather", ""), "index", _below(_along("self"))),
    # --- masks
    Rule("masked_scatter", "mask", _masked_source, "bool"),
    Rule("masked_select_backward", "mask", lambda site: Fill("first", {"count": prod(site.shape("grad"))}), "bool"),
    Rule("_?(scaled_dot_product|efficient).*", "attn_(mask|bias)|bias", _is("zeros"), "floats"),
    # --- matrices
    Rule("(linalg_)?cholesky(_ex)?|linalg_cholesky_ex", "self|input|A", _square(True), "floats"),
    Rule(_LAPACK, "self|A|input|input2|LU|LU_data|LD", _square(False), "floats"),
)  # fmt: skip


def _bags(site: Site) -> int:
    shape = site.shape("bag_size", "grad", "offsets")
    return shape[0] if shape else 1


def _bag_offsets(site: Site) -> Fill:
    count = prod(site.shape("indices"))
    if site.others.get("include_last_offset") is True:
        return Fill("rising", {"high": count})
    return Fill("starts", {"high": count})


def _is_repeats(site: Site) -> bool:
    return site.argument == "repeats" or "repeats" not in site.others


def _target_lengths(site: Site) -> Fill:
    shape, batch = site.shape("targets"), max(site.elements, 1)
    most = shape[-1] if len(shape) > 1 else prod(shape) // batch
    return Fill("constant", {"value": most})


def _group_ends(site: Site) -> Fill:
    """Where groups of rows end."""
    first, second = site.shape("self", "mat_a"), site.shape("mat2", "mat_b")
    total = first[0] if len(first) == 2 and len(second) == 3 else second[-1] if len(first) == 3 else first[-1]
    return Fill("starts", {"high": total, "skip": 1})


def _entries_a_row(site: Site) -> int:
    begins = site.shape("crow_indices", "ccol_indices", "compressed_indices")
    return max(site.row // max((begins[-1] if begins else 2) - 1, 1), 1)


_KINDS: dict[str, Callable[[str], bool]] = {
    "integers": lambda dtype: dtype in INTEGRAL,
    "bool": lambda dtype: dtype == "bool",
    "floats": lambda dtype: dtype not in INTEGRAL and dtype != "bool",
    "any": lambda dtype: True,
}

_ALL = tuple((re.compile(one.op), re.compile(one.argument), one) for one in RULES)
_BY_OP: dict[str, tuple[tuple[re.Pattern[str], Rule], ...]] = {}


def fill(site: Site) -> Fill:
    """What a tensor holds."""
    if _PACKED.match(site.tensor.dtype):
        return Fill("raw")
    if site.op not in _BY_OP:
        _BY_OP[site.op] = tuple((argument, rule) for op, argument, rule in _ALL if op.fullmatch(site.op))
    for argument, rule in _BY_OP[site.op]:
        if argument.fullmatch(site.argument) and _KINDS[rule.dtypes](site.tensor.dtype):
            found = rule.make(site)
            if found is not None:
                return found
    if site.tensor.dtype == "bool":
        return Fill("mask")
    return Fill("integers", {"high": _MODEST}) if site.tensor.dtype in INTEGRAL else Fill()
