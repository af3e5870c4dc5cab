"""What keeps an operation below its roof: each rule on sizes that show it, and none on sizes that are good."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracelens_graph.perf.occupancy import Occupancy, theoretical_occupancy
from tracelens_graph.perf.shortfalls import RULES, Work, reasons
from tracelens_graph.simulate.kernels import DEVICE_PROPERTIES

BF16, FP32 = "c10::BFloat16", "float"


def mm(m: int, n: int, k: int, batch: int = 1, tile: tuple[int, int] = (128, 128), **more: Any) -> Work:
    params = {"M": m, "N": n, "K": k, "B": batch}
    types = [more.pop("dtype", BF16)] * 2
    return Work("aten::mm", "GEMM", [[m, k], [k, n]], types, params=params, tile=tile, **{"units": 304} | more)


def conv(x: list[int], w: list[int], dtype: str = BF16, **settings: Any) -> Work:
    launch = {"units": 304} | {name: settings.pop(name) for name in ("tile", "units") if name in settings}
    params = {"input_shape": tuple(x), "filter_shape": tuple(w), **settings}
    return Work("aten::convolution", "CONV_fwd", [x, w], [dtype] * 2, params=params, **launch)


def attention(batch: int, heads: int, queries: int, keys: int, width: int) -> Work:
    sizes = [batch, heads, queries, width]
    params = {"B": batch, "H_Q": heads, "N_Q": queries, "N_KV": keys, "d_h_qk": width}
    return Work("aten::_flash_attention_forward", "SDPA_fwd", [sizes] * 3, [BF16] * 3, params=params, units=132)


def moe(tokens: int, experts: int, topk: int) -> Work:
    dims = [[tokens, 4096], [experts, 22016, 4096], [experts, 4096, 11008], [tokens, topk]]
    return Work("vllm::rocm_aiter_fused_moe", "other", dims, [BF16] * 4, units=304)


def add(first: list[int], second: list[int], size: int = 8192, **more: Any) -> Work:
    return Work("aten::add", "elementwise", [[size, size]] * 2, [FP32] * 2, [first, second], us=400, bytes=8e8, **more)


AMPERE = "ampere_bf16_s16816gemm_bf16_128x256_ldg8_f2f_stages_64x3_tn"
SIMT = "ampere_sgemm_128x64_tn"
TF32 = "ampere_tf32_s1688gemm_fp32_128x128_ldg4_stages_32x3_tn"


def fits(registers: int, blocks: int = 100_000) -> Occupancy:
    found = theoretical_occupancy(DEVICE_PROPERTIES, 512, registers, 0, blocks)
    assert not isinstance(found, str)
    return found


CASES: dict[str, tuple[Work, set[str]]] = {
    "a square product": (mm(8192, 8192, 8192, tile=(256, 256), units=256), set()),
    "few tiles over a great depth": (mm(256, 512, 131072, tile=(256, 128)), {"few_blocks", "skinny"}),
    "few tiles, whichever way the tile lies": (mm(1024, 1024, 1024, tile=(256, 128)), {"few_blocks"}),
    "few tiles on a device that is not known": (mm(512, 512, 512, units=None), {"few_blocks"}),
    "enough tiles on such a device": (mm(1024, 1024, 1024, units=None), set()),
    "a last wave that is nearly empty": (mm(128 * 19, 128 * 17, 4096), {"last_wave"}),
    "sizes off by one": (mm(4097, 4097, 4097, tile=(256, 112)), {"last_wave", "misaligned"}),
    "a depth off by two": (mm(8192, 8192, 4098, tile=(256, 256), units=256), {"misaligned"}),
    "a result that leaves tiles empty": (mm(8192, 136, 8192, units=128), {"partial_tiles", "skinny"}),
    "few rows": (mm(8, 16384, 8192, units=128), {"few_rows"}),
    "one row": (mm(1, 65536, 8192, units=128), {"few_rows"}),
    "tall and skinny": (mm(131072, 128, 1024, units=128), {"skinny"}),
    "a small depth": (mm(16384, 16384, 32, units=128), {"small_depth"}),
    "many small products": (mm(64, 64, 64, batch=4096, units=128), {"small_products", "partial_tiles"}),
    "a usual convolution": (conv([64, 256, 56, 56], [256, 256, 3, 3], padding=(1, 1)), set()),
    "few channels, a large filter": (
        conv([1, 3, 2048, 2048], [64, 3, 7, 7]),
        {"few_channels", "odd_filter", "partial_tiles"},
    ),
    "a filter of one row": (conv([64, 256, 56, 56], [256, 256, 1, 7]), {"odd_filter"}),
    "a pointwise one of few places": (conv([4, 1024, 14, 14], [512, 1024, 1, 1]), {"few_blocks"}),
    "a transposed one": (
        conv([4, 512, 8, 8], [512, 256, 4, 4], stride=(2, 2), padding=(1, 1), transposed_conv=True),
        {"few_blocks", "odd_filter"},
    ),
    "a transposed one into few channels": (
        conv([1, 8, 64, 64], [8, 32, 4, 4], stride=(2, 2), transposed_conv=True, tile=(128, 64), units=200),
        {"few_channels", "odd_filter"},
    ),
    "a backward pass of which nothing but the inputs is known": (
        Work("aten::convolution_backward", "CONV_bwd", [[8, 64, 56, 56], [8, 32, 58, 58], [64, 32, 3, 3]], [BF16] * 3),
        set(),
    ),
    "a depthwise one": (conv([64, 512, 56, 56], [512, 1, 3, 3], groups=512), {"depthwise"}),
    "one in groups of few": (conv([64, 512, 56, 56], [512, 8, 3, 3], groups=64), {"few_channels"}),
    "a dilated one": (conv([64, 256, 56, 56], [256, 256, 3, 3], dilation=(2, 2)), {"odd_filter"}),
    "odd channels": (conv([64, 257, 56, 56], [256, 257, 3, 3], padding=(1, 1)), {"few_channels"}),
    "a convolution that does not fit": (conv([1, 3, 2, 2], [64, 3, 7, 7]), {"few_channels", "odd_filter"}),
    "a long sequence": (attention(1, 32, 32768, 32768, 128), set()),
    "a short one": (attention(16, 32, 128, 128, 128), {"short_sequence"}),
    "a small head": (attention(8, 32, 4096, 4096, 32), {"head_size"}),
    "a head between sizes": (attention(8, 32, 4096, 4096, 80), {"head_size"}),
    "a decoding step": (attention(1, 32, 1, 32768, 128), {"few_blocks", "short_sequence"}),
    "few heads": (attention(1, 2, 4096, 4096, 128), {"few_blocks"}),
    "few heads whose keys are split": (replace(attention(1, 2, 4096, 4096, 128), blocks=640), set()),
    "many experts, few tokens": (moe(16, 64, 2), {"few_tokens"}),
    "one expert for each token": (moe(512, 16, 1), {"few_tokens"}),
    "many tokens": (moe(4096, 8, 2), set()),
    "no experts": (moe(4, 0, 0), set()),
    "inputs in one order": (add([8192, 1], [8192, 1]), set()),
    "inputs in the other order": (add([1, 8192], [1, 8192]), set()),
    "inputs in two orders": (add([8192, 1], [1, 8192]), {"strided"}),
    "two orders along one channel": (
        Work("aten::add", "elementwise", [[64, 1, 56, 56]] * 2, [FP32] * 2, [[3136, 3136, 56, 1], [3136, 1, 56, 1]]),
        set(),
    ),
    "an input with holes": (add([16384, 2], [8192, 1]), {"strided"}),
    "an input that is repeated": (add([8192, 1], [0, 1]), set()),
    "few thread blocks": (add([8192, 1], [8192, 1], units=304, blocks=64), {"few_blocks"}),
    "a small call": (Work("aten::mul_", "elementwise", [[256, 1024]], [FP32], us=30, bytes=3e6), {"small_call"}),
    "a short call of unknown size": (Work("aten::x", "other", [], [], us=4), {"small_call"}),
    "float32 without tensor cores": (
        mm(8192, 8192, 8192, dtype=FP32, kernel=SIMT, made_for="ampere", capability="sm90", units=128),
        {"no_tensor_cores"},
    ),
    "float32 in TF32": (mm(8192, 8192, 8192, dtype=FP32, kernel=TF32, capability="sm80", units=128), set()),
    "float32 on a device without TF32": (
        mm(8192, 8192, 8192, dtype=FP32, kernel="volta_sgemm_128x64_tn", capability="sm70", units=128), set()
    ),
    "a kernel of the generation before": (
        mm(8192, 8192, 8192, kernel=AMPERE, made_for="ampere", capability="sm90", units=128), {"older_kernel"}
    ),
    "the same on its own generation": (
        mm(8192, 8192, 8192, kernel=AMPERE, made_for="ampere", capability="sm86", units=128), set()
    ),
    "the same where its instructions are the device's": (
        mm(8192, 8192, 8192, kernel=AMPERE, made_for="ampere", capability="sm120", units=128), set()
    ),
    "a kernel for any device of AMD": (
        mm(8192, 8192, 8192, made_for="gfx000", capability="gfx94", units=128), {"older_kernel"}
    ),
    "a kernel for an older device of AMD": (
        mm(8192, 8192, 8192, made_for="gfx908", capability="gfx94", units=128), {"older_kernel"}
    ),
    "a kernel for this device of AMD": (mm(8192, 8192, 8192, made_for="gfx942", capability="gfx94", units=128), set()),
    "many registers": (add([8192, 1], [8192, 1], occupancy=fits(registers=128), memory_bound=True), {"low_occupancy"}),
    "few registers": (add([8192, 1], [8192, 1], occupancy=fits(registers=32), memory_bound=True), set()),
    "many registers of a grid that fills no device": (
        add([8192, 1], [8192, 1], occupancy=fits(registers=128, blocks=100), memory_bound=True), set()
    ),
    "nothing known": (Work("aten::x", "other", [], []), set()),
    "empty sizes": (mm(0, 0, 0), set()),
}  # fmt: skip


@pytest.mark.parametrize(
    ("sums", "blocks", "expected"),
    [
        # 32 answers of a token each, 32 heads: 1,024 blocks for 304 units.
        ({"g": (32, 32_785, 32, 32_785)}, (1024, 1024), "1 query to 1,024 keys: these are moved for little work"),
        # Two of them fill no device.
        ({"g": (2, 2048, 2, 2048)}, (64, 64), "1 query to 1,024 keys: these are moved for little work"),
        # A prompt of 2,048 tokens beside 16 answers is what takes the time.
        ({"c": (2048, 2048, 2048**2, 2048**2), "g": (16, 16_000, 16, 16_000)}, (512, 512), ""),
        # Four prompts of 256.
        ({"c": (1024, 1024, 4 * 256**2, 4 * 256**2)}, (256, 256), "a short sequence of 256: a block ends soon after"),
    ],
)
def test_requests_of_attention_are_counted(
    sums: dict[str, tuple[int, ...]], blocks: tuple[int, int], expected: str
) -> None:
    kinds = {"c": (0,) * 4, "g": (0,) * 4} | sums
    params = {f"{kind}_{name}": of for kind, all_ in kinds.items()
              for name, of in zip(("sq", "sk", "sqsq", "sqsk"), all_, strict=True)}  # fmt: skip
    tokens, keys = (sum(one[at] for one in kinds.values()) for at in (0, 1))
    work = attention(1, 32, tokens, keys, 128)
    work = replace(work, params={**work.params, **params}, units=304)
    found = {one.name: one.text for one in reasons(work)}
    assert work.tiles == blocks
    assert ("few_blocks" in found) == (blocks[1] < 304)
    assert found.get("short_sequence", "").startswith(expected) if expected else "short_sequence" not in found


@pytest.mark.parametrize(("work", "expected"), CASES.values(), ids=CASES)
def test_rules(work: Work, expected: set[str]) -> None:
    assert {one.name for one in reasons(work)} == expected


def test_every_rule_is_met() -> None:
    assert set().union(*(expected for _, expected in CASES.values())) == RULES.keys()


SIZE = st.sampled_from([-1, 0, 1, 2, 7, 8, 64, 128, 4097, 10**400])
DIMS = st.lists(SIZE, max_size=5)
PARAMS = st.dictionaries(
    st.sampled_from([
        "M", "N", "K", "B", "N_Q", "H_Q", "N_KV", "d_h_qk", "num_tokens", "num_experts", "topk", "input_shape",
        "filter_shape", "stride", "dilation", "groups", "transposed_conv",
    ]),
    st.one_of(SIZE, st.none(), DIMS.map(tuple), st.just("x")),
)  # fmt: skip


@given(
    st.sampled_from(["GEMM", "CONV_fwd", "SDPA_fwd", "moe", "elementwise"]), st.lists(DIMS, max_size=5), PARAMS,
    st.lists(DIMS, max_size=5), st.one_of(st.none(), st.integers(1, 400)), st.one_of(st.none(), st.floats(0, 1e12)),
)  # fmt: skip
def test_odd_sizes_give_reasons_or_none(
    kind: str,
    dims: list[list[int]],
    params: dict[str, Any],
    strides: list[list[int]],
    units: int | None,
    moved: float | None,
) -> None:
    work = Work(kind, kind, dims, [BF16], strides, params, units=units, blocks=units, bytes=moved, us=1)
    assert all(one.text for one in reasons(work))


def test_a_larger_batch_is_no_advice_for_a_block_a_channel() -> None:
    dims = [[10, 64, 56, 56]] * 2
    norm = Work("aten::native_batch_norm_backward", "BN_bwd", dims, [BF16] * 2, us=85, bytes=1e8, units=304, blocks=64)
    (few,) = reasons(norm)
    assert (few.text, few.advice) == ("only 64 thread blocks, one a channel, for 304 units", "")
    (unknown,) = reasons(replace(norm, dims=[], blocks=128))
    assert (unknown.text, unknown.advice) == ("only 128 thread blocks for 304 units", "")
    (other,) = reasons(replace(norm, name="aten::add_"))
    assert (other.text, other.advice) == ("only 64 thread blocks for 304 units", "more_rows")


def test_the_sizes_stand_in_the_text() -> None:
    (tiles, *_) = reasons(CASES["few tiles over a great depth"][0])
    assert tiles.text == "only 4 tiles of 256x128 for 304 units"
    wave, odd = reasons(CASES["sizes off by one"][0])
    assert "629 tiles on 304 units are 2.07 waves: 31 %" in wave.text
    assert "K = 4,097: no multiple of 8 (16 bytes)" in odd.text
