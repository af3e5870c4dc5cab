"""What tensors of a call must hold so that it can run: indices in bounds, probabilities, cumulative lengths ...

A table of rules: patterns of the op's name and of the argument's, the kind of dtype, and a function that makes the
fill from the other arguments. The first rule that applies counts; without one, what the dtype alone suggests.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from math import prod
from typing import NamedTuple

from tracelens_graph.perf.scalar_types import INTEGRAL
from tracelens_graph.replay.arguments import Fill
from tracelens_graph.replay.contents import (
    Maker,
    Site,
    along,
    always,
    at,
    bag_offsets,
    bags,
    below,
    classes,
    compressed,
    cumulated,
    entries_a_row,
    group_ends,
    indexed,
    is_repeats,
    lengths,
    masked_places,
    masked_source,
    number,
    numel,
    packed,
    repeats,
    segments,
    sparse_places,
    square,
    target_lengths,
    windows,
)

_PACKED = re.compile(r"bits|float4|u?int[1-7]$")
_MODEST = 100
"""Whole numbers of which nothing is known are below this: it fits every dtype."""


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
    Rule(_INDEXED, "indices", indexed),
    Rule(_INDEXED, "indices", masked_places, "bool"),
    Rule("_unsafe_masked_index.*", "indices", indexed),
    Rule(_SCATTERED, "index", below(along("self"))),
    Rule(
        "gather_backward|index_select_backward|value_selecting_reduction_backward", "ind(ex|ices)", below(along("self"))
    ),
    Rule("take|put|take_backward", "index", below(numel("self"))),
    Rule("embedding(_renorm)?|embedding_bag|_embedding_bag(_forward_only)?", "indices", below(at(0, "weight", "self"))),
    Rule("_?embedding.*backward", "indices|maximum_indices", below(number("num_weights"))),
    Rule("_?embedding_bag.*", "offset2bag", lambda site: Fill("starts", {"high": bags(site)})),
    Rule("_?embedding_bag.*", "bag_size", always("constant", value=1)),
    Rule("_?embedding_bag.*", "offsets", lambda site: bag_offsets(site)),
    Rule(
        "nll_loss.*|cross_entropy_loss|multi_margin_loss.*|multilabel_margin_loss.*|linear_cross_entropy",
        "target|labels",
        below(classes),
    ),
    Rule("one_hot", "self", below(lambda site: site.whole("num_classes") if site.whole("num_classes") > 0 else 10)),
    Rule("max_unpool[23]d", "indices", below(lambda site: prod(site.sizes("output_size")))),
    Rule(_POOLS, "indices", below(windows)),
    Rule("narrow", "start", always("zeros")),
    Rule("bincount", "self", always("integers", high=_MODEST)),
    Rule("searchsorted", "sorter", lambda site: Fill("counted", {"row": site.row})),
    # --- integers that are no indices
    Rule(_DIVIDING, "other|self", always("integers", low=1, high=_MODEST)),
    Rule(r"(__)?(i|r)?(l|r)shift(__)?|bitwise_(left|right)_shift", "other", always("integers", high=4)),
    Rule("pow|float_power|__r?pow__", "exponent|other", always("integers", high=4)),
    Rule("repeat_interleave", "repeats|self", lambda site: repeats(site) if is_repeats(site) else None),
    Rule("_?segment_reduce.*", "lengths", segments),
    Rule("_?segment_reduce.*", "offsets", lambda site: Fill("rising", {"high": sum(site.shape("data")[:1])})),
    Rule(
        "_ctc_loss.*|ctc_loss",
        "targets",
        lambda site: Fill("integers", {"low": 1, "high": max(at(-1, "log_probs")(site), 2)}),
    ),
    Rule("_ctc_loss.*|ctc_loss", "input_lengths", lambda site: Fill("constant", {"value": at(0, "log_probs")(site)})),
    Rule("_ctc_loss.*|ctc_loss", "target_lengths", lambda site: target_lengths(site)),
    Rule("_pack_padded_sequence", "lengths", lengths),
    Rule("_pad_packed_sequence|_pack_padded_sequence_backward|lstm|gru|rnn_(tanh|relu)", "batch_sizes", packed),
    Rule("_linalg_check_errors", "info", always("zeros")),
    Rule(".*lu.*|.*ldl.*", "(LU_)?pivots", lambda site: Fill("counted", {"row": site.row, "start": 1})),
    Rule("batch_norm_(backward_elemt|gather_stats_with_counts)", "counts?", always("constant", value=2), "any"),
    Rule(
        "tensor_split",
        "tensor_indices_or_sections",
        lambda site: (
            Fill("constant", {"value": 1}) if not site.tensor.shape else Fill("rising", {"high": along("self")(site)})
        ),
    ),
    # --- attention
    Rule(_VARLEN, "cum_seq.*|cu_?seqlens.*|seqstart.*|offsets|cumulative_sequence_length.*", cumulated),
    Rule(
        _VARLEN,
        "seqused_k|seqlen_k",
        lambda site: Fill("constant", {"value": max(site.whole("max_k", "max_seqlen_k"), 1)}),
    ),
    Rule(_VARLEN, "block_table|page_table", below(at(0, "key", "k"))),
    Rule("_?(scaled_)?grouped_mm.*", "offs", lambda site: group_ends(site)),
    # --- sparse
    Rule(
        "_?(validate_)?sparse_(compressed|csr|bsr|csc|bsc).*|_convert_indices_from_csr_to_coo",
        "c(row|col|compressed)_?indices|compressed_indices",
        compressed,
    ),
    Rule(
        "_?(validate_)?sparse_(compressed|csr|bsr|csc|bsc).*",
        "(col|row|plain)_indices",
        lambda site: Fill("counted", {"row": entries_a_row(site)}),
    ),
    Rule("_convert_indices_from_coo_to_csr", "self", lambda site: Fill("starts", {"high": max(site.whole("size"), 1)})),
    Rule("_?(validate_)?sparse_coo_tensor.*", "indices", sparse_places),
    # --- numbers in a range
    Rule("bernoulli", "self|p", always("uniform"), "floats"),
    Rule("multinomial", "self", always("uniform", low=0.1, high=1.0), "floats"),
    Rule("binary_cross_entropy(_backward)?", "self|target", always("uniform", low=0.01, high=0.99), "floats"),
    Rule("binomial", "count", always("constant", value=10), "floats"),
    Rule("binomial", "prob", always("uniform"), "floats"),
    Rule(
        "poisson|_standard_gamma.*|_sample_dirichlet|_dirichlet_grad",
        ".*",
        always("uniform", low=0.1, high=2.0),
        "floats",
    ),
    Rule("normal", "std", always("uniform", low=0.1, high=1.0), "floats"),
    Rule("n?an?quantile", "q", always("uniform"), "floats"),
    Rule("fractional_max_pool.*", "random_samples", always("uniform"), "floats"),
    Rule("grid_sampler.*|_grid_sampler.*|grid_sample", "grid", always("uniform", low=-1.0, high=1.0), "floats"),
    Rule(
        ".*batch_norm.*|.*layer_norm.*|.*group_norm.*|.*instance_norm.*",
        "running_var|save_var|save_invstd|invstd|rstd|var|inv_std",
        always("uniform", low=0.5, high=1.5),
        "floats",
    ),
    Rule("(_fused|_foreach)?.*(adam|amsgrad).*", "(max_)?exp_avg_sqs?", always("uniform", low=0.1, high=1.0), "floats"),
    Rule("_fused.*", "state_steps|lr", always("constant", value=1.0), "floats"),
    Rule(".*", "found_inf", always("zeros"), "floats"),
    Rule("_scaled.*mm.*", "scale.*", always("uniform", low=0.5, high=1.0), "floats"),
    Rule(".*fake_quant.*|.*quantize.*", "scales?", always("uniform", low=0.05, high=0.1), "floats"),
    Rule(".*fake_quant.*|.*quantize.*", "zero_points?", always("zeros"), "any"),
    Rule(
        "bucketize|searchsorted",
        "boundaries|sorted_sequence",
        lambda site: Fill("rising", {"high": 1.0, "row": site.row}),
        "floats",
    ),
    Rule(
        "bucketize|searchsorted",
        "boundaries|sorted_sequence",
        lambda site: Fill("rising", {"high": _MODEST, "row": site.row}),
    ),
    Rule("_?histogram.*", "bins", lambda site: Fill("rising", {"high": 1.0, "row": site.row}), "floats"),
    Rule("_assert_async", "self", always("constant", value=1), "any"),
    Rule(_SCATTERED.replace("|gather", ""), "index", below(along("self"))),
    # --- masks
    Rule("masked_scatter", "mask", masked_source, "bool"),
    Rule("masked_select_backward", "mask", lambda site: Fill("first", {"count": prod(site.shape("grad"))}), "bool"),
    Rule("_?(scaled_dot_product|efficient).*", "attn_(mask|bias)|bias", always("zeros"), "floats"),
    # --- matrices
    Rule("(linalg_)?cholesky(_ex)?|linalg_cholesky_ex", "self|input|A", square(True), "floats"),
    Rule(_LAPACK, "self|A|input|input2|LU|LU_data|LD", square(False), "floats"),
)

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
