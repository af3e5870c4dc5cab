"""Attention of serving engines, and the annotations that tell their batches."""

from __future__ import annotations

import ast
import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from op_costs import BF16, FP8, Family, Row, call, differing, golden_rows

from tracelens_graph.graph.batches import Batch, Requests
from tracelens_graph.perf.arguments import Arguments
from tracelens_graph.perf.cost import CannotModel, Cost
from tracelens_graph.perf.families.attention import Heads, attention
from tracelens_graph.perf.families.inference_attention import (
    batch_attention,
    gated_delta_net,
    read_batch,
    sparse_attention,
)
from tracelens_graph.perf.model import CallContext, OpModel

FAMILY = Family("inference_attention")

DECODE = "execute_32_context_0(sq0sk0sqsq0sqsk0)_generation_32(sq32sk55086sqsq32sqsk55086)"
MIXED = "execute_6147_context_2(sq6144sk7144sqsq20971520sqsk23019520)_generation_3(sq3sk6144sqsq3sqsk6144)"


def annotation(context: tuple[int, ...] = (0, 0, 0, 0, 0), generation: tuple[int, ...] = (0, 0, 0, 0, 0)) -> str:
    """The annotation of a batch: number, then the four sums of each kind."""
    c, g = ("{}(sq{}sk{}sqsq{}sqsk{})".format(*kind) for kind in (context, generation))
    return f"execute_1_context_{c}_generation_{g}"


def cost_of(name: str, *given: object, of: str = "") -> Cost:
    """What the model of an op says of a call under an annotation."""
    return FAMILY.models[name].estimate(call(*given), CallContext(annotation=of))


def _under_mixed(model: OpModel) -> OpModel:
    return replace(
        model,
        estimate=lambda args, context: model.estimate(args, replace(context, annotation=MIXED)),
        uses_context=True,
    )


QUERY, KEY = (BF16, (32, 64, 64)), (BF16, (32, 8, 64))
_PAGES, _INDICES, _LATENT = (FP8, (1000, 8, 8, 16, 8)), ("int", (70,)), (BF16, (5000, 1, 64))
_PACKED, _ENDS = (BF16, (10, 4, 8)), ("int", (4,))
KNOWN = [
    ("vllm::unified_attention_with_output", (QUERY, KEY, KEY, QUERY)),
    ("aiter::mha_varlen_fwd", (*[_PACKED] * 3, _ENDS, _ENDS, 6, 6, 0, 0.0, 0.25, 0.0, "False", "True", -1, -1)),
    ("aiter::mha_batch_prefill", (QUERY, (BF16, (100, 16, 8, 64)), (BF16, (100, 16, 8, 64)))),
    ("aiter::pa_decode_gluon", (QUERY, QUERY, _PAGES, _PAGES, *[None] * 15, 128)),
    ("sglang_profiler::attention_paged_attention_ragged", (QUERY, None, QUERY, KEY, KEY)),
    ("pseudo_mla_decode_fwd", (QUERY, _LATENT, (BF16, (32, 64, 48)))),
    ("pseudo_mla_prefill_fwd", (QUERY, QUERY, (BF16, (32, 64, 48)))),
    *[(f"pseudo_v4_paged_decode_{mode}", (QUERY,)) for mode in ("swa", "csa", "hca")],
    ("aiter::pa_sparse_prefill_opus_fwd", (QUERY, (FP8, (1000, 64)), _INDICES, _ENDS, (BF16, (10, 64)), _INDICES)),
    ("sglang_profiler::tilelang_kernel_tilelang_sparse_fwd", (QUERY, _LATENT, ("int", (32, 1, 256)), 0.1, 48)),
    ("vllm::gdn_attention_core", ((BF16, (12, 128)), (BF16, (12, 4)), (BF16, (12, 4)), (BF16, (12, 4, 16)))),
    ("sglang::store_cache", (KEY, KEY, _PAGES, _PAGES, _INDICES)),
]
test_hostile_without_annotation = FAMILY.hostile(KNOWN)
test_hostile = Family("inference_attention", changed=_under_mixed).hostile(KNOWN)


@pytest.mark.parametrize(
    ("inside", "bits"),
    [
        ({}, 16),
        ({"_rocm_C::paged_attention": call(*[None] * 4, QUERY, (FP8, (10, 8, 4, 16, 16)))}, 8),
        ({"_C_cache_ops::reshape_and_cache_flash": call(KEY, KEY, ("unsigned char", (10, 16, 8, 64)))}, 8),
        ({"_rocm_C::paged_attention": call(QUERY)}, 16),
    ],
)
def test_keys_of_the_past_are_of_the_type_of_the_cache(inside: dict[str, Arguments], bits: int) -> None:
    estimate = FAMILY.models["vllm::unified_attention_with_output"].estimate
    annotation = "execute_32_context_0(sq0sk0sqsq0sqsk0)_generation_32(sq32sk1000sqsq32sqsk1000)"
    cost = estimate(call(QUERY, KEY, KEY, QUERY), CallContext(annotation=annotation, inside=inside))
    assert cost.bytes == 2 * 32 * (64 + 8) * 128 + (1000 - 32) * 8 * 128 * bits // 8


@pytest.mark.parametrize(
    ("below", "keys"),
    [
        ({"_vllm_fa2_C::varlen_fwd": call(*[None] * 15, "True", 127, 0)}, 128),
        ({"_vllm_fa3_C::fwd": call(*[None] * 24, "True", 127, 0)}, 128),
        ({"_vllm_fa3_C::fwd": call(*[None] * 24, "True", -1, -1)}, None),
        ({"_vllm_fa3_C::fwd": call(*[None] * 24)}, None),
        ({}, None),
    ],
)
def test_a_window_that_an_op_below_has_counts(below: dict[str, Arguments], keys: int | None) -> None:
    estimate = FAMILY.models["vllm::unified_attention_with_output"].estimate
    cost = estimate(call(QUERY, KEY, KEY, QUERY), CallContext(annotation=DECODE, inside=below))
    assert cost.flops == 64 * 128 * 2 * (32 * keys if keys else 55086)
    assert cost.params.get("sliding_window") == keys


def test_a_window_among_the_arguments_counts() -> None:
    pages = (BF16, (100, 16, 8, 64))
    whole, near = (
        cost_of("aiter::mha_batch_prefill", QUERY, pages, pages, *[None] * 8, "False", "True", left, 0, of=DECODE)
        for left in (-1, 15)
    )
    assert whole.flops == 64 * 128 * 2 * 55086
    assert near.flops == 64 * 128 * 2 * 32 * 16
    assert (near.bytes or 0) < (whole.bytes or 0)


@pytest.mark.parametrize(("name", "arguments"), KNOWN)
def test_known_calls(name: str, arguments: tuple[object, ...]) -> None:
    cost = cost_of(name, *arguments, of=MIXED)
    assert cost.bytes
    assert (cost.flops > 0) == (name != "sglang::store_cache")


@pytest.mark.parametrize("row", golden_rows("InferenceAttention_fwd"))
def test_rows_of_tracelens(row: Row) -> None:
    recorded = (ast.literal_eval(row[f"Input {part}_first"]) for part in ("Dims", "type", "Strides"))
    arguments = Arguments(*map(json.dumps, (*recorded, ast.literal_eval(row["Concrete Inputs_first"]))))
    names = ("sq", "sk", "sqsq", "sqsk")
    sums = {kind: tuple(int(row.get(f"param: {kind}_{name}") or 0) for name in names) for kind in "cg"}
    text = annotation((sums["c"][0], *sums["c"]), (sums["g"][0], *sums["g"]))
    assert differing(FAMILY.models[row["name"]].estimate(arguments, CallContext(annotation=text)), row) == set()


def test_annotations() -> None:
    assert read_batch(DECODE).generation == Requests(32, 32, 55086, 32, 55086)
    assert read_batch("step[DECODE bs=32]\n" + DECODE) == read_batch(DECODE)
    with pytest.raises(CannotModel, match="contradict"):
        read_batch(annotation((2, 10, 3, 100, 30)))


@pytest.mark.parametrize(
    "text", ["", "ProfilerStep#3", "step[DECODE bs=32]", "execute_context_2(14721)_generation_0(0)", "x" * 10**6]
)
def test_annotations_that_do_not_tell(text: str) -> None:
    with pytest.raises(CannotModel, match="annotation around the call"):
        read_batch(text)


@given(st.text() | st.from_regex(r"(step|prefill|decode)\[.*\]") | st.sampled_from(["step[EXTEND " * 10**4]))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        batch = read_batch(text)
    except CannotModel:
        return
    assert batch.context.sq <= batch.context.sk
    assert batch.generation.sq <= batch.generation.sk


def test_paged_attention_by_hand() -> None:
    batch = Batch(Requests(1, 4, 10, 16, 40), Requests(2, 2, 14, 2, 14))
    cost = batch_attention(batch, Heads(8, 2, 16, 32), dtype="bf16", kv_dtype="fp8")
    assert cost.flops == 8 * 48 * (2 * 40 - 16 + 2 * 14)
    assert cost.bytes == 6 * (8 + 2) * 48 * 2 + (6 + 12) * 2 * 48 * 1
    assert cost.compute_spec == "matrix_bf16"
    assert cost.flops_range is None


def test_a_whole_prompt_costs_what_causal_attention_does() -> None:
    cost = batch_attention(Batch(Requests(1, 100, 100, 10000, 10000)), Heads(8, 2, 64, 64))
    whole = attention(1, 100, 100, 8, 64, heads_kv=2, causal=True)
    assert (cost.flops, cost.bytes) == (whole.flops, whole.bytes)


def test_speculative_tokens_do_not_see_one_another_ahead() -> None:
    # One request, 4 tokens, 100 keys: 97 + 98 + 99 + 100 pairs, not 400.
    cost = batch_attention(Batch(generation=Requests(1, 4, 100, 16, 400)), Heads(1, 1, 8, 8))
    assert cost.flops == 2 * 16 * (97 + 98 + 99 + 100)


def test_sliding_window() -> None:
    requests = Requests(2, 2, 300, 2, 300)
    heads = Heads(1, 1, 8, 8)
    cost = batch_attention(Batch(generation=requests), heads, window=128)
    assert cost.flops == 2 * 16 * 256  # both requests longer than the window
    assert cost.flops_range == (2 * 16 * 129, 2 * 16 * 256)  # or one of 1 key, one of 299
    assert cost.bytes == (2 * 2 * 16 + 254 * 16) * 2
    unbound = batch_attention(Batch(generation=requests), heads)
    assert batch_attention(Batch(generation=requests), heads, window=300).flops == unbound.flops


@given(st.lists(st.integers(1, 40), min_size=1, max_size=6), st.integers(1, 40))
def test_range_of_a_window_holds(keys: list[int], window: int) -> None:
    requests = Requests(len(keys), len(keys), sum(keys), len(keys), sum(keys))
    cost = batch_attention(Batch(generation=requests), Heads(1, 1, 1, 1), window=window)
    least, most = cost.flops_range or (cost.flops, cost.flops)
    assert least <= 4 * sum(min(one, window) for one in keys) <= most == cost.flops


def test_vllm_reads_the_width_of_values() -> None:
    cost = cost_of("vllm::unified_attention_with_output", QUERY, KEY, (BF16, (32, 8, 32)), of=DECODE)
    assert cost.flops == 64 * (64 + 32) * 2 * 55086
    assert cost.params["d_h_v"] == 32


def test_an_8_bit_cache_counts_8_bits() -> None:
    ragged = "sglang_profiler::attention_paged_attention_ragged"
    pages = (835, 1, 8, 64)
    wide, narrow = (
        cost_of(ragged, QUERY, ("unsigned char", (9,)), QUERY, (dtype, pages), (dtype, pages), of=DECODE)
        for dtype in (BF16, FP8)
    )
    assert (wide.bytes or 0) - (narrow.bytes or 0) == (55086 - 32) * 8 * 128
    assert narrow.params["N_KV"] == 55086


def test_decode_ops_leave_context_requests_out() -> None:
    pages = (FP8, (1000, 8, 8, 16, 8))
    given = [QUERY, QUERY, pages, pages, *[None] * 15]
    both = annotation((1, 10, 10, 100, 100), (32, 32, 55086, 32, 55086))
    full = cost_of("aiter::pa_decode_gluon", *given, -1, of=both)
    assert full.flops == 64 * 128 * 2 * 55086
    assert full.params["sliding_window"] == -1
    assert cost_of("aiter::pa_decode_gluon", *given, 128, of=both).flops == 64 * 128 * 2 * 32 * 128
    with pytest.raises(CannotModel, match="no tokens"):
        cost_of("aiter::pa_decode_gluon", *given, -1, of=annotation((1, 10, 10, 100, 100)))


def test_latent_attention_reads_its_cache_once() -> None:
    query, cache, out = (BF16, (32, 16, 576)), (FP8, (5000, 1, 576)), (BF16, (32, 16, 512))
    cost = cost_of("pseudo_mla_decode_fwd", query, cache, out, of=DECODE)
    assert cost.flops == 16 * (576 + 512) * 2 * 55086
    assert cost.bytes == 32 * (16 * (576 + 512) + 576) * 2 + (55086 - 32) * 576


def test_packed_prefill_without_annotation() -> None:
    q, ends = (BF16, (10, 4, 8)), ("int", (4,))
    given = (q, q, q, ends, ends, 6, 6, 0, 0.0, 0.25, 0.0, "False", "True", -1, -1)
    bounded = cost_of("aiter::fmha_v3_varlen_fwd", *given)
    assert bounded.flops_range is not None
    exact = cost_of("aiter::fmha_v3_varlen_fwd", *given, of=annotation((3, 10, 10, 44, 44)))
    assert exact.flops_range is None
    assert bounded.flops_range[0] <= exact.flops <= bounded.flops_range[1]


def test_sparse_attention_by_hand() -> None:
    cost = sparse_attention(100, 10, 60, Heads(4, 1, 16, 8))
    assert cost.flops == 2 * 100 * 4 * 24
    assert cost.bytes == 2 * (10 * 4 * 24 + 60 * 16)
    assert cost.bytes_range == (2 * (10 * 4 * 24 + 10 * 16), cost.bytes)


def test_sparse_ops() -> None:
    query, cache = (BF16, (10, 4, 512)), (FP8, (1000, 512))
    prefill = cost_of(
        "aiter::pa_sparse_prefill_opus_fwd",
        *(query, cache, ("int", (70,)), ("int", (11,)), (BF16, (10, 512)), ("int", (30,)), ("int", (11,))),
    )
    assert prefill.flops == 100 * 4 * 2 * 1024
    assert prefill.bytes == 2 * 10 * 4 * 512 * 2 + 80 * 512  # 70 of the cache, each of the 10 new ones once
    query, cache = (BF16, (2, 4, 576)), (BF16, (5000, 1, 576))
    operands = (query, cache, ("int", (2, 1, 2048)), 0.1, 512)
    name = "sglang_profiler::tilelang_kernel_tilelang_sparse_fwd"
    assert cost_of(name, *operands).flops == 2 * 2048 * 4 * 2 * (576 + 512)
    short = annotation(generation=(2, 2, 300, 2, 300))
    assert cost_of(name, *operands, of=short).flops == 300 * 4 * 2 * (576 + 512)


def test_paged_decode_of_deepseek_v4() -> None:
    query = (BF16, (2, 16, 512))
    long = annotation(generation=(2, 2, 20000, 2, 20000))
    unit = 16 * 2 * 1024
    assert cost_of("pseudo_v4_paged_decode_swa", query, of=long).flops == 256 * unit
    csa = cost_of("pseudo_v4_paged_decode_csa", query, of=long)
    assert (csa.flops, csa.flops_range) == ((256 + 1024) * unit, ((256 + 1024) * unit, (256 + 2048) * unit))
    assert cost_of("pseudo_v4_paged_decode_hca", query, of=long).flops == (256 + 157) * unit


def test_gated_delta_net() -> None:
    batch = Batch(Requests(1, 10, 10, 100, 100), Requests(2, 2, 30, 2, 30))
    cost = gated_delta_net(batch, 4, 2, 16, 16)
    assert cost.flops == 7 * 12 * 4 * 256
    assert cost.bytes == 2 * (12 * (2 * 2 * 16 + 4 * (2 * 16 + 2)) + (1 + 2 * 2) * 4 * 256)
    for heads_k in (2, 1):  # two and four value heads to a key head
        mixed = (BF16, (12, 2 * heads_k * 16 + 4 * 16))
        gate, out = (BF16, (12, 4)), (BF16, (12, 4, 16))
        of = annotation((1, 10, 10, 100, 100), (2, 2, 30, 2, 30))
        called = cost_of("vllm::gdn_attention_core", mixed, gate, gate, out, None, of=of)
        assert called.bytes == gated_delta_net(batch, 4, heads_k, 16, 16).bytes
        assert (called.params["H_K"], called.params["d_h_qk"]) == (heads_k, 16)


def test_stored_keys_are_written_in_the_type_of_the_cache() -> None:
    new, cache = (BF16, (32, 1024)), (FP8, (8000, 1024))
    cost = cost_of("sglang::store_cache", new, new, cache, cache, ("long int", (32,)))
    assert (cost.flops, cost.bytes, cost.compute_spec) == (0, 2 * 32 * 1024 * 3, "vector_bf16")
    latent, rope, cache = (BF16, (32, 512)), (BF16, (32, 64)), (FP8, (100, 16, 576))
    assert cost_of("_C_cache_ops::concat_and_cache_mla", latent, rope, cache).bytes == 32 * 576 * 3


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ([QUERY], "argument 1 is not a tensor"),
        ([(BF16, (32, 64)), KEY, KEY], "dimensions"),
        ([QUERY, (BF16, (32, 7, 64)), KEY], "do not fit together"),
        ([QUERY, (BF16, (8, 64)), KEY], "do not fit together"),
        ([("x", (32, 64, 64)), KEY, KEY], "not known"),
    ],
)
def test_reasons(given: list[object], reason: str) -> None:
    with pytest.raises(CannotModel, match=reason):
        cost_of("vllm::unified_attention_with_output", *given, of=DECODE)
    with pytest.raises(CannotModel, match="annotation around the call"):
        cost_of("vllm::unified_attention_with_output", *given)
