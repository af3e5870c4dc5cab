"""What tensors of a call must hold so that it can run: indices in bounds, probabilities, cumulative lengths ...

A table of rules: patterns of the op's name and of the argument's, what makes the fill from the other arguments, and
the kind of dtype. The first rule that applies counts; without one, what the dtype alone suggests.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from math import prod

from tracelens_graph.perf.scalar_types import INTEGRAL
from tracelens_graph.replay.replay_plan import NORMAL, Fill, TensorValue, Value

_PACKED = re.compile(r"bits|float4|u?int[1-7]$")
_MODEST = 100
"""Whole numbers without further facts are below this: it fits every dtype."""


@dataclass(frozen=True)
class Site:
    """A tensor among the arguments of a call.

    Attributes:
        op: name of the op without namespace, overload and, of in-place ops, the last underscore.
        argument: name of the argument.
        place: position in its list; 0 for no list.
        tensor: the tensor.
        others: all arguments by name.
    """

    op: str
    argument: str
    place: int
    tensor: TensorValue
    others: Mapping[str, Value]

    def shape(self, *names: str) -> tuple[int, ...]:
        """Sizes of the first of these arguments that is a tensor; empty if none is."""
        return next((found.shape for name in names if isinstance(found := self.others.get(name), TensorValue)), ())

    def size(self, dim: int, *names: str, default: int = 1) -> int:
        """Size of a dimension of the first of these arguments that is a tensor."""
        shape = self.shape(*names)
        return shape[dim] if -len(shape) <= dim < len(shape) else default

    def along(self, *names: str) -> int:
        """The same of the dimension that the argument `dim` says."""
        shape, dim = self.shape(*names) or self.sizes("self_sizes"), self.whole("dim")
        return shape[dim] if -len(shape) <= dim < len(shape) else 1

    def whole(self, *names: str) -> int:
        """The first of these arguments that is a whole number; 0 if none is."""
        return next((found for name in names if type(found := self.others.get(name)) is int), 0)

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


def _below(count: Callable[[Site], int]) -> Maker:
    """Indices below a number that the site has."""
    return lambda site: Fill("integers", {"high": max(count(site), 1)})


def _always(rule: str, **options: float) -> Maker:
    """A fill that does not depend on the site."""
    found = Fill(rule, options)
    return lambda site: found


def _with(rule: str, **options: Callable[[Site], int]) -> Maker:
    """A fill by a rule with options that the site has."""
    return lambda site: Fill(rule, {name: value(site) for name, value in options.items()})


def _classes(site: Site) -> int:
    """Classes of a loss: the second dimension, or the only one."""
    shape = site.shape("self", "input")
    return shape[1] if len(shape) > 1 else shape[0] if shape else 1


def _is_mask(value: Value) -> bool:
    return isinstance(value, TensorValue) and value.dtype in ("bool", "uint8")


def _indexed(site: Site) -> Fill | None:
    """Index tensors of `index` and the like: each is for a dimension, a mask for as many as it has."""
    listed, shape = site.others.get("indices"), site.shape("self")
    if _is_mask(site.tensor) or not isinstance(listed, tuple):
        return None
    before = listed[: site.place]
    dim = sum(len(one.shape) if _is_mask(one) and isinstance(one, TensorValue) else 1 for one in before)
    return Fill("integers", {"high": max(shape[dim], 1) if dim < len(shape) else 1})


def _cumulated(site: Site) -> Fill:
    """Cumulative lengths of sequences: 0 first, all tokens last."""
    is_key = re.search(r"k|kv", site.argument.replace("seqlens", "").replace("seqstart", "").replace("seq", ""))
    shape = site.shape(*(("key", "k") if is_key else ("query", "q", "grad_out")))
    tokens = shape[1] if len(shape) == 4 and shape[0] == 1 else shape[0] if len(shape) == 3 else prod(shape[:2])
    return Fill("rising", {"high": tokens})


def _packed(site: Site) -> Fill:
    """Batch sizes of packed sequences: they fall from that of the hidden state, and add up to the number of rows."""
    total = site.size(0, "data", "input", "grad", default=site.elements)
    state = site.others.get("hx")
    state = state[0] if isinstance(state, tuple) and state else state
    most = state.shape[-2] if isinstance(state, TensorValue) and len(state.shape) > 1 else 0
    return Fill("falling", {"total": total, "most": most}) if most else Fill("parts", {"total": total})


def _lengths(site: Site) -> int:
    """Lengths of sequences that are to be packed: all as long as the batch."""
    shape = site.shape("input")
    return (shape[1] if site.others.get("batch_first") is True else shape[0]) if len(shape) > 1 else 1


def _square(site: Site) -> Fill | None:
    """Matrices where the tensor holds such."""
    shape = site.tensor.shape
    is_square = len(shape) > 1 and shape[-1] == shape[-2] and 0 not in shape
    return Fill("matrices", {"size": shape[-1]}) if is_square else None


def _masked_places(site: Site) -> Fill | None:
    """A mask among indices with as many places as there are values for them."""
    values, rank = site.shape("values"), len(site.shape("self")) - len(site.tensor.shape) + 1
    return Fill("first", {"count": values[site.place]}) if len(values) == rank > site.place else None


def _masked_source(site: Site) -> int:
    """Places of a mask: no more than there are values for them."""
    share = max(prod(site.shape("self")) // max(site.elements, 1), 1)
    return prod(site.shape("source")) // share


def _repeats(site: Site) -> Fill | None:
    """How often each element is repeated; in all as often as the output is long."""
    if site.argument != "repeats" and "repeats" in site.others:
        return None
    total = site.whole("output_size")
    return Fill("parts", {"total": total}) if total else Fill("constant", {"value": 1})


def _segments(site: Site) -> int:
    """Length of all segments: that of the data."""
    return site.size(site.whole("axis"), "data", default=site.elements)


def _bag_offsets(site: Site) -> Fill:
    """Where the bags of an embedding bag begin."""
    rule = "rising" if site.others.get("include_last_offset") is True else "starts"
    return Fill(rule, {"high": prod(site.shape("indices"))})


def _target_lengths(site: Site) -> int:
    """Length of each target of a CTC loss: the longest that there can be."""
    shape = site.shape("targets")
    return shape[-1] if len(shape) > 1 else prod(shape) // max(site.elements, 1)


def _group_ends(site: Site) -> int:
    """Rows of all groups."""
    first, second = site.shape("self", "mat_a"), site.shape("mat2", "mat_b")
    return first[0] if len(first) == 2 and len(second) == 3 else second[-1] if len(first) == 3 else first[-1]


def _entries_a_row(site: Site) -> int:
    """Entries in each row of a compressed sparse tensor."""
    begins = site.size(-1, "crow_indices", "ccol_indices", "compressed_indices", default=2)
    return max(site.row // max(begins - 1, 1), 1)


def _compressed(site: Site) -> int:
    """Entries in each batch of a compressed sparse tensor."""
    return site.size(-1, "col_indices", "row_indices", "plain_indices", "values", default=site.elements)


def _windows(site: Site) -> int:
    """Places that indices of a pooling can have: those of its input."""
    return prod(site.shape("self", "input")[-3 if "3d" in site.op else -2 :])


_INDEXED = r"_?(unsafe_)?index(_put)?(_impl)?"
_SCATTERED = (
    r"scatter(_add|_reduce)?|gather|take_along_dim|index_(add|copy|fill|reduce|select)|_?gather_sparse_backward"
)
_POOLS = r"(adaptive_|fractional_)?max_(un)?pool[23]d(_with_indices)?(_backward)?"
_DIVIDING = r"(true_|floor_)?div(ide)?|remainder|fmod|__(r|i)?(floor|true)?div__"
_VARLEN = r"_?(flash|efficient|cudnn)_attention.*|_scaled_dot_product.*|_fill_mem_eff.*|_jagged_.*"
_LOSSES = "nll_loss.*|cross_entropy_loss|multi_margin_loss.*|multilabel_margin_loss.*|linear_cross_entropy"
_COMPRESSED = "_?(validate_)?sparse_(compressed|csr|bsr|csc|bsc).*"
_NORMS = ".*batch_norm.*|.*layer_norm.*|.*group_norm.*|.*instance_norm.*"
_QUANTIZED = ".*fake_quant.*|.*quantize.*"
_BUCKETS = "boundaries|sorted_sequence"
_LAPACK = (
    r"(linalg_)?(cholesky|cholesky_ex|inv|inv_ex|solve|solve_ex|_solve_ex|det|slogdet|lu_factor|lu_factor_ex|lu|lu_solve|ldl_solve|"
    r"solve_triangular|tensorinv)|inverse|_linalg_(det|slogdet|solve_ex)|triangular_solve|cholesky_(inverse|solve)|"
    r"logdet|linalg_matrix_power|matrix_power|linalg_cond|_cholesky_solve_helper|lu_unpack"
)
_INTEGERS, _BOOL, _FLOATS, _ANY = "integers", "bool", "floats", "any"

RULES: tuple[tuple[str, str, Maker] | tuple[str, str, Maker, str], ...] = (
    # --- indices
    (_INDEXED, "indices", _indexed),
    (_INDEXED, "indices", _masked_places, _BOOL),
    ("_unsafe_masked_index.*", "indices", _indexed),
    (_SCATTERED, "index", _below(lambda site: site.along("self"))),
    ("gather_backward|index_select_backward|value_selecting_reduction_backward", "ind(ex|ices)",
     _below(lambda site: site.along("self"))),
    ("take|put|take_backward", "index", _below(lambda site: prod(site.shape("self")))),
    ("embedding(_renorm)?|embedding_bag|_embedding_bag(_forward_only)?", "indices",
     _below(lambda site: site.size(0, "weight", "self"))),
    ("_?embedding.*backward", "indices|maximum_indices", _below(lambda site: site.whole("num_weights"))),
    ("_?embedding_bag.*", "offset2bag", _with("starts", high=lambda site: site.size(0, "bag_size", "grad", "offsets"))),
    ("_?embedding_bag.*", "bag_size", _always("constant", value=1)),
    ("_?embedding_bag.*", "offsets", _bag_offsets),
    (_LOSSES, "target|labels", _below(_classes)),
    ("one_hot", "self", _below(lambda site: site.whole("num_classes") if site.whole("num_classes") > 0 else 10)),
    ("max_unpool[23]d", "indices", _below(lambda site: prod(site.sizes("output_size")))),
    (_POOLS, "indices", _below(_windows)),
    ("narrow", "start", _always("zeros")),
    ("bincount", "self", _always("integers", high=_MODEST)),
    ("searchsorted", "sorter", _with("counted", row=lambda site: site.row)),
    # --- integers that are no indices
    (_DIVIDING, "other|self", _always("integers", low=1, high=_MODEST)),
    (r"(__)?(i|r)?(l|r)shift(__)?|bitwise_(left|right)_shift", "other", _always("integers", high=4)),
    ("pow|float_power|__r?pow__", "exponent|other", _always("integers", high=4)),
    ("repeat_interleave", "repeats|self", _repeats),
    ("_?segment_reduce.*", "lengths", _with("parts", total=_segments)),
    ("_?segment_reduce.*", "offsets", _with("rising", high=lambda site: site.size(0, "data", default=0))),
    ("_ctc_loss.*|ctc_loss", "targets",
     lambda site: Fill("integers", {"low": 1, "high": max(site.size(-1, "log_probs"), 2)})),
    ("_ctc_loss.*|ctc_loss", "input_lengths", _with("constant", value=lambda site: site.size(0, "log_probs"))),
    ("_ctc_loss.*|ctc_loss", "target_lengths", _with("constant", value=_target_lengths)),
    ("_pack_padded_sequence", "lengths", _with("constant", value=_lengths)),
    ("_pad_packed_sequence|_pack_padded_sequence_backward|lstm|gru|rnn_(tanh|relu)", "batch_sizes", _packed),
    ("_linalg_check_errors", "info", _always("zeros")),
    (".*lu.*|.*ldl.*", "(LU_)?pivots", lambda site: Fill("counted", {"row": site.row, "start": 1})),
    ("batch_norm_(backward_elemt|gather_stats_with_counts)", "counts?", _always("constant", value=2), _ANY),
    ("tensor_split", "tensor_indices_or_sections", lambda site: (
        Fill("rising", {"high": site.along("self")}) if site.tensor.shape else Fill("constant", {"value": 1}))),
    # --- attention
    (_VARLEN, "cum_seq.*|cu_?seqlens.*|seqstart.*|offsets|cumulative_sequence_length.*", _cumulated),
    (_VARLEN, "seqused_k|seqlen_k", _with("constant", value=lambda site: max(site.whole("max_k", "max_seqlen_k"), 1))),
    (_VARLEN, "block_table|page_table", _below(lambda site: site.size(0, "key", "k"))),
    ("_?(scaled_)?grouped_mm.*", "offs", lambda site: Fill("starts", {"high": _group_ends(site), "skip": 1})),
    # --- sparse
    (f"{_COMPRESSED}|_convert_indices_from_csr_to_coo", "c(row|col|compressed)_?indices|compressed_indices",
     _with("rising", high=_compressed, row=lambda site: site.row)),
    (_COMPRESSED, "(col|row|plain)_indices", _with("counted", row=_entries_a_row)),
    ("_convert_indices_from_coo_to_csr", "self", _with("starts", high=lambda site: max(site.whole("size"), 1))),
    ("_?(validate_)?sparse_coo_tensor.*", "indices",
     _below(lambda site: min(site.sizes("size")[: site.tensor.shape[0]] or (1,)))),
    # --- numbers in a range
    ("bernoulli", "self|p", _always("uniform"), _FLOATS),
    ("multinomial", "self", _always("uniform", low=0.1, high=1.0), _FLOATS),
    ("binary_cross_entropy(_backward)?", "self|target", _always("uniform", low=0.01, high=0.99), _FLOATS),
    ("binomial", "count", _always("constant", value=10), _FLOATS),
    ("binomial", "prob", _always("uniform"), _FLOATS),
    ("poisson|_standard_gamma.*|_sample_dirichlet|_dirichlet_grad", ".*", _always("uniform", low=0.1, high=2.0),
     _FLOATS),
    ("normal", "std", _always("uniform", low=0.1, high=1.0), _FLOATS),
    ("n?an?quantile", "q", _always("uniform"), _FLOATS),
    ("fractional_max_pool.*", "random_samples", _always("uniform"), _FLOATS),
    ("grid_sampler.*|_grid_sampler.*|grid_sample", "grid", _always("uniform", low=-1.0, high=1.0), _FLOATS),
    (_NORMS, "running_var|save_var|save_invstd|invstd|rstd|var|inv_std", _always("uniform", low=0.5, high=1.5),
     _FLOATS),
    ("(_fused|_foreach)?.*(adam|amsgrad).*", "(max_)?exp_avg_sqs?", _always("uniform", low=0.1, high=1.0), _FLOATS),
    ("_fused.*", "state_steps|lr", _always("constant", value=1.0), _FLOATS),
    (".*", "found_inf", _always("zeros"), _FLOATS),
    ("_scaled.*mm.*", "scale.*", _always("uniform", low=0.5, high=1.0), _FLOATS),
    (_QUANTIZED, "scales?", _always("uniform", low=0.05, high=0.1), _FLOATS),
    (_QUANTIZED, "zero_points?", _always("zeros"), _ANY),
    ("bucketize|searchsorted", _BUCKETS, lambda site: Fill("rising", {"high": 1.0, "row": site.row}), _FLOATS),
    ("bucketize|searchsorted", _BUCKETS, lambda site: Fill("rising", {"high": _MODEST, "row": site.row})),
    ("_?histogram.*", "bins", lambda site: Fill("rising", {"high": 1.0, "row": site.row}), _FLOATS),
    ("_assert_async", "self", _always("constant", value=1), _ANY),
    # --- masks
    ("masked_scatter", "mask", _with("first", count=_masked_source), _BOOL),
    ("masked_select_backward", "mask", _with("first", count=lambda site: prod(site.shape("grad"))), _BOOL),
    ("_?(scaled_dot_product|efficient).*", "attn_(mask|bias)|bias", _always("zeros"), _FLOATS),
    # --- matrices
    (_LAPACK, "self|A|input|input2|LU|LU_data|LD", _square, _FLOATS),
)  # fmt: skip
"""Patterns of the whole names of op and argument, what makes the fill (None where the rule does not apply after all),
and the kind of dtype: integers, unless another is named."""

_KINDS: dict[str, Callable[[str], bool]] = {
    _INTEGERS: lambda dtype: dtype in INTEGRAL,
    _BOOL: lambda dtype: dtype == "bool",
    _FLOATS: lambda dtype: dtype not in INTEGRAL and dtype != "bool",
    _ANY: lambda dtype: True,
}
_ALL = tuple((re.compile(op), re.compile(argument), make, [*kind, _INTEGERS][0]) for op, argument, make, *kind in RULES)


@lru_cache(maxsize=4096)
def _rules_of(op: str) -> list[tuple[re.Pattern[str], Maker, str]]:
    return [(argument, make, kind) for pattern, argument, make, kind in _ALL if pattern.fullmatch(op)]


def fill(site: Site) -> Fill:
    """What a tensor holds."""
    dtype = site.tensor.dtype
    if _PACKED.match(dtype):
        return Fill("raw")
    for argument, make, kind in _rules_of(site.op):
        if argument.fullmatch(site.argument) and _KINDS[kind](dtype) and (found := make(site)) is not None:
            return found
    if dtype == "bool":
        return Fill("mask")
    return Fill("integers", {"high": _MODEST}) if dtype in INTEGRAL else NORMAL
