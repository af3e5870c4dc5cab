"""Replayers that come along, run by their references: against formulas of others, and as the traces record them."""

from __future__ import annotations

import json
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from recorded_calls import NOTHING, scalar, tensor
from recording import record
from torch.nn import functional

from corpus import CORPUS
from tracelens_graph.loading.one import load_core
from tracelens_graph.replay.calls import Call, recorded_at
from tracelens_graph.replay.custom.lookup import SHIPPED
from tracelens_graph.replay.custom.planning import plan_custom
from tracelens_graph.replay.program import references
from tracelens_graph.replay.program_text import program
from tracelens_graph.replay.replay_plan import Recorded, ReplayPlan
from tracelens_graph.replay.verify.verify import outermost_ops

HALF, FP8, INT = "c10::BFloat16", "c10::Float8_e4m3fn", "long int"
ROWS, POSITIONS, CACHE = tensor(6, 64, dtype=HALF), tensor(6, dtype=INT), tensor(128, 16, dtype=HALF)
SLOTS = tensor(5, 4, 2, 16, dtype="unsigned char")
EPSILON, LENGTHS = scalar("1e-06"), tensor(4, dtype="int")
NORM, ADD = (ROWS, ROWS, tensor(64, dtype=HALF), EPSILON), (*(ROWS,) * 4, tensor(64, dtype=HALF), EPSILON)
QKV = tensor(2, 8, 4, 16, dtype=HALF), *(tensor(2, 8, 2, 16, dtype=HALF),) * 2
PACKED = tensor(12, 4, 16, dtype=HALF), *(tensor(12, 2, 16, dtype=HALF),) * 2, LENGTHS, LENGTHS
PAGES = tensor(30, 1, 2, 16, dtype=HALF)

CALLS: dict[str, tuple[Any, ...]] = {
    "_C::rms_norm": NORM, "aiter::rmsnorm": NORM, "aiter::rms_norm_cu": NORM,
    "_C::fused_add_rms_norm": NORM, "aiter::fused_add_rms_norm_cu": NORM,
    "sgl_kernel::rmsnorm": (*NORM, scalar("False")),
    "sgl_kernel::fused_add_rmsnorm": (*NORM, scalar("False")),
    "aiter::add_rmsnorm": ADD, "aiter::rmsnorm2d_fwd_with_add": (*ADD, scalar("0")),
    "aiter::rmsnorm2d_fwd_with_add_ck": (*ADD, scalar("0")),
    **dict.fromkeys(("aiter::rms_norm", "aiter::rmsnorm2d_fwd", "aiter::rmsnorm2d_fwd_ck"), (*NORM[1:], scalar("0"))),
    **dict.fromkeys(
        ("_C::rotary_embedding", "sgl_kernel::rotary_embedding"),
        (POSITIONS, ROWS, tensor(6, 32, dtype=HALF), scalar("16"), CACHE, scalar("True")),
    ),
    **dict.fromkeys(
        [f"{of}::{name}_and_mul" for of in ("_C", "sgl_kernel") for name in ("silu", "gelu", "gelu_tanh")]
        + ["aiter::silu_and_mul", "aiter::gelu_and_mul"],
        (ROWS, tensor(6, 128, dtype=HALF)),
    ),
    "_C::static_scaled_fp8_quant": (tensor(6, 64, dtype=FP8), ROWS, tensor(1)),
    "_C::dynamic_scaled_fp8_quant": (tensor(6, 64, dtype=FP8), ROWS, tensor(1)),
    "_C::dynamic_per_token_scaled_fp8_quant": (tensor(6, 64, dtype=FP8), ROWS, tensor(6, 1), NOTHING),
    "_C::cutlass_scaled_mm": (
        tensor(6, 8, dtype=HALF), tensor(6, 64, dtype=FP8), tensor(64, 8, dtype=FP8, strides=(1, 64)), tensor(6, 1),
        tensor(1, 8), NOTHING,
    ),
    **{
        f"sgl_kernel::{kind}_scaled_mm": (
            tensor(6, 64, dtype=of), tensor(64, 8, dtype=of, strides=(1, 64)), tensor(6, 1), tensor(8, 1), scalar("15"),
            NOTHING,
        )
        for kind, of in (("fp8", FP8), ("int8", "signed char"))
    },
    "_C_cache_ops::reshape_and_cache_flash": (
        *(tensor(6, 2, 16, dtype=HALF),) * 2, SLOTS, SLOTS, POSITIONS, NOTHING, tensor(1), tensor(1),
    ),
    "_moe_C::topk_softmax": (
        tensor(6, 2), tensor(6, 2, dtype="int"), tensor(6, 2, dtype="int"), tensor(6, 8), scalar("True"),
    ),
    **dict.fromkeys(("_moe_C::moe_sum", "aiter::moe_sum"), (tensor(6, 2, 64, dtype=HALF), ROWS)),
    "vllm::rocm_aiter_fused_moe": (
        ROWS, tensor(8, 32, 64, dtype=HALF), tensor(8, 64, 16, dtype=HALF), tensor(6, 2), tensor(6, 2, dtype="int"),
        NOTHING, scalar("0"), scalar("0"), scalar("False"), NOTHING, NOTHING, NOTHING, NOTHING,
    ),
    "sglang::store_cache": (
        *(tensor(6, 32, dtype=HALF),) * 2, *(tensor(20, 32, dtype=HALF),) * 2, POSITIONS, scalar("64"), scalar("0"),
    ),
    "sglang_profiler::attention_paged_attention_ragged": (
        tensor(3, 4, 16, dtype=HALF), tensor(10_000, dtype="unsigned char"), tensor(3, 4, 16, dtype=HALF), PAGES, PAGES,
        LENGTHS, tensor(5000, dtype="int"), tensor(3, dtype="int"), NOTHING, tensor(1), tensor(1), NOTHING,
    ),
    "flash_attn::_flash_attn_forward": (
        *QKV, scalar("0."), scalar("0.25"), scalar("True"), scalar("-1"), scalar("-1"), scalar("0."), NOTHING,
        scalar("False"),
    ),
    "flash_attn::_flash_attn_varlen_forward": (
        *PACKED, scalar("4"), scalar("4"), scalar("0."), scalar("0.25"), scalar("True"), scalar("-1"), scalar("-1"),
        scalar("0."), NOTHING, scalar("False"), NOTHING, NOTHING, NOTHING, scalar("False"),
    ),
}  # fmt: skip
"""A small call of each."""

OTHER: list[tuple[str, tuple[Any, ...]]] = [
    ("_C::static_scaled_fp8_quant", (*CALLS["_C::static_scaled_fp8_quant"], NOTHING)),
    ("_moe_C::topk_softmax", CALLS["_moe_C::topk_softmax"][:4]),
    ("_moe_C::topk_softmax", (*CALLS["_moe_C::topk_softmax"], NOTHING)),
    ("_moe_C::topk_softmax", (*CALLS["_moe_C::topk_softmax"], NOTHING, NOTHING)),
    ("vllm::rocm_aiter_fused_moe", (*CALLS["vllm::rocm_aiter_fused_moe"], NOTHING, NOTHING)),
    ("vllm::rocm_aiter_fused_moe", (*CALLS["vllm::rocm_aiter_fused_moe"], NOTHING, NOTHING, scalar("0"), scalar("0"),
                                    NOTHING, NOTHING)),
    ("sglang::store_cache", (*CALLS["sglang::store_cache"], scalar("0"))),
    ("aiter::rmsnorm2d_fwd_with_add", (*ADD, scalar("False"), scalar("0"))),
    ("aiter::rmsnorm", (*NORM, scalar("False"))),
]  # fmt: skip
"""Calls of other versions of the libraries."""


pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")


def run(folder: Path, source: str, *options: str) -> list[dict[str, Any]]:
    """The results of a program that runs references, in a process of its own."""
    (folder / "program.py").write_text(source)
    command = [sys.executable, "program.py", "--reference", "--json", "results.json", *options]
    ended = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=500, check=False)
    assert ended.returncode == 0, ended.stdout[-3000:] + ended.stderr[-3000:]
    found: list[dict[str, Any]] = json.loads((folder / "results.json").read_text())
    return found


def plan(op: str, call: tuple[Any, ...] = ()) -> ReplayPlan:
    return plan_custom(Call(op, Recorded(*zip(*(call or CALLS[op]), strict=True))), SHIPPED[op])


def test_there_is_a_call_of_each() -> None:
    assert CALLS.keys() == SHIPPED.keys()


@pytest.mark.parametrize("op", SHIPPED)
def test_the_short_program_runs_and_is_recorded_as_the_call(op: str, tmp_path: Path) -> None:
    made, file, results = plan(op), tmp_path / "program.py", tmp_path / "results.json"
    file.write_text(made.script())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["program.py", "--reference", "--json", str(results)])
        found = runpy.run_path(str(file), run_name="__main__")
    (result,) = json.loads(results.read_text())
    assert (result["op"], result["signature"]["types"]) == (f"{op} (reference)", list(made.recorded.types))
    core = load_core(record(found["call"], tmp_path, "profile"))
    (row,) = outermost_ops(core)
    seen = recorded_at(core, int(row))
    assert core.names[core.columns.name[row]] == op
    assert (seen.dims, seen.types) == (made.recorded.dims, made.recorded.types)


def test_programs_in_full_run(tmp_path: Path) -> None:
    """All in one process, in which an operation's library is not missed."""
    source = program("full", "All of them.", [plan(op).json() for op in SHIPPED])
    results = run(tmp_path, source, "--iterations", "2", "--warmup", "1")
    assert [one["op"] for one in results] == [f"{op} (reference)" for op in SHIPPED]
    assert not [one for one in results if "error" in one]


@pytest.mark.parametrize(("op", "call"), OTHER)
def test_calls_of_other_versions_run(op: str, call: tuple[Any, ...], tmp_path: Path) -> None:
    (result,) = run(tmp_path, plan(op, call).script())
    assert result["signature"]["types"] == [one[1] for one in call]


def test_without_its_library_a_program_says_so_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(plan("_C::rms_norm").script())
    ended = subprocess.run([sys.executable, "program.py"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    assert ended.stderr == "No module named 'vllm'; --reference runs plain torch in its place\n"


@pytest.mark.skipif(not CORPUS, reason="no folder of real traces")
@pytest.mark.parametrize(
    ("trace", "capture"),
    [
        ("tracelens/b200/eager-serving", ""),
        ("tracelens/inference/sglang-decode/graph-replay", "tracelens/inference/sglang-decode/capture"),
        ("tracelens/inference/vllm-decode/graph-replay", "tracelens/inference/vllm-decode/capture"),
    ],
)
def test_argument_sets_of_traces_run(trace: str, capture: str, tmp_path: Path) -> None:
    """All of them, with sizes cut so that a CPU has room."""
    assert CORPUS
    command = [sys.executable, "-m", "tracelens_graph", "replay", str(CORPUS / f"{trace}.json.gz"), "--batch",
               "--op", "/^(?!aten|triton)/", "-o", str(tmp_path / "batch"), "--top", "0"]  # fmt: skip
    command += ["--capture", str(CORPUS / capture)] if capture else []
    subprocess.run(command, check=True, capture_output=True, timeout=300)
    source = (tmp_path / "batch" / "run.py").read_text()
    results = run(tmp_path, source, "--cap-bytes", "4000000", "--iterations", "1", "--warmup", "1")
    assert results
    assert not [one for one in results if "error" in one]


# --- what the references compute -----------------------------------------------------------------------------------

Tensor = torch.Tensor


def drawn(*shape: int, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)), dtype=torch.float64).to(dtype)


def near(found: Tensor, wanted: Tensor, tolerance: float = 1e-5) -> None:
    torch.testing.assert_close(found.double(), wanted.double(), rtol=tolerance, atol=tolerance)


def test_norms() -> None:
    x, residual, weight, out, after = drawn(5, 32), drawn(5, 32) + 1, drawn(32), torch.empty(5, 32), torch.empty(5, 32)
    references.rms_norm(out, x, weight, 1e-3)
    near(out, functional.rms_norm(x, [32], weight, 1e-3))
    near(references.rms_norm_result(x, weight, 1e-3), functional.rms_norm(x, [32], weight, 1e-3))
    references.rms_norm(out, x, weight, 1e-3, True)
    near(out, functional.rms_norm(x, [32], weight + 1, 1e-3))
    references.add_rms_norm(out, x, residual, after, weight, 1e-3)
    near(after, x + residual)
    near(out, functional.rms_norm(x + residual, [32], weight, 1e-3))
    changed, of = x.clone(), residual.clone()
    references.fused_add_rms_norm(changed, of, weight, 1e-3)
    near(of, x + residual)
    near(changed, functional.rms_norm(x + residual, [32], weight, 1e-3))


@pytest.mark.parametrize("is_neox", [True, False])
@pytest.mark.parametrize("turned", [8, 12])
def test_rotations_are_products_of_complex_numbers(is_neox: bool, turned: int) -> None:
    positions, angles = torch.tensor([3, 0, 7]), drawn(9, turned // 2)
    cache, query, key = torch.cat([angles.cos(), angles.sin()], 1), drawn(3, 24), drawn(3, 12)
    wanted = []
    for heads in (query, key):
        x = heads.clone().view(3, -1, 12)
        part = x[..., :turned]
        pairs = part.unflatten(-1, (2, -1)).transpose(-1, -2) if is_neox else part.unflatten(-1, (-1, 2))
        spun = (
            torch.view_as_complex(pairs.contiguous()) * torch.polar(torch.ones_like(angles), angles)[positions][:, None]
        )
        back = torch.view_as_real(spun)
        x[..., :turned] = (back.transpose(-1, -2) if is_neox else back).flatten(-2)
        wanted.append(x.view(3, -1))
    references.rotary_embedding(positions, query, key, 12, cache, is_neox)
    near(query, wanted[0])
    near(key, wanted[1])


def test_gated_activations() -> None:
    x, out = drawn(4, 20), torch.empty(4, 10)
    for function, gate in (
        (references.silu_and_mul, x[:, :10] * x[:, :10].sigmoid()),
        (references.gelu_and_mul, x[:, :10] * 0.5 * (1 + torch.erf(x[:, :10] / 2**0.5))),
        (references.gelu_tanh_and_mul, functional.gelu(x[:, :10], approximate="tanh")),
    ):
        function(out, x)
        near(out, gate * x[:, 10:])


def test_quantisation_gives_the_values_back() -> None:
    x = drawn(4, 64)
    for function, shape in ((references.quantised_whole, (1,)), (references.quantised_by_row, (4, 1))):
        out, scale = torch.empty(4, 64, dtype=torch.float8_e4m3fn), torch.empty(shape)
        function(out, x, scale)
        near(out.double() * scale, x, 0.07)
        assert out.float().abs().max() == 448
    out = torch.empty(4, 64, dtype=torch.float8_e4m3fn)
    references.quantised(out, x * 1e6, torch.tensor([0.5]))
    assert out.float().abs().max() == 448


def test_scaled_products() -> None:
    a, b, of_rows, of_columns, bias = drawn(4, 8), drawn(8, 6), drawn(4, 1), drawn(1, 6), drawn(6)
    out = torch.empty(4, 6, dtype=torch.float64)
    references.scaled_mm(out, a, b, of_rows, of_columns, bias)
    near(out, (a * of_rows) @ (b * of_columns) + bias)
    near(references.scaled_mm_result(a, b, torch.tensor([2.0]), torch.tensor([3.0]), torch.float64, None), 6 * a @ b)


def test_caches() -> None:
    key, value, slots = drawn(3, 2, 4), drawn(3, 2, 4), torch.tensor([5, 0, 11])
    caches = torch.zeros(2, 4, 3, 2, 4)
    references.store_in_blocks(key, value, caches[0], caches[1], slots, "auto", *torch.ones(2))
    near(caches[0].flatten(0, 1)[slots], key)
    near(caches[1].flatten(0, 1)[slots], value)
    assert caches.count_nonzero() == 48
    bytes_ = torch.zeros(2, 4, 3, 2, 4, dtype=torch.uint8)
    references.store_in_blocks(key, value, bytes_[0], bytes_[1], slots, "fp8", *torch.full((2,), 0.5))
    near(bytes_[0].view(torch.float8_e4m3fn).flatten(0, 1)[slots].double() / 2, key, 0.07)
    rows = torch.zeros(2, 12, 8, dtype=torch.float64)
    references.store_in_rows(key.flatten(1), value.flatten(1), rows[0], rows[1], slots, 64, num_split=0)
    near(rows[1][slots], value.flatten(1))


def test_experts() -> None:
    x, w1, w2, gating = drawn(5, 16), drawn(4, 24, 16), drawn(4, 16, 12), drawn(5, 4)
    weights, chosen, places = (
        torch.empty(5, 2),
        torch.empty(5, 2, dtype=torch.int32),
        torch.empty(5, 2, dtype=torch.int32),
    )
    references.topk_softmax(weights, chosen, places, gating, True)
    near(weights.sum(1), torch.ones(5))
    assert chosen.tolist() == gating.argsort(1, descending=True)[:, :2].tolist()
    assert places.t().flatten().tolist() == list(range(10))
    bias = torch.tensor([0.0, 9.0, 0.0, 0.0])
    references.topk_softmax(weights, chosen, places, gating, False, bias)  # chooses by the bias, weighs without it
    assert (chosen[:, 0] == 1).all()
    near(weights[:, 0], gating.softmax(1)[:, 1])
    references.topk_softmax(weights, chosen, places, gating, True)
    every = torch.stack(
        [functional.silu((x @ w.t())[:, :12]) * (x @ w.t())[:, 12:] @ torch.eye(12).double() for w in w1]
    )
    down = torch.einsum("eti,eoi->teo", every, w2)
    wanted = sum(weights[:, at, None] * down[torch.arange(5), chosen[:, at].long()] for at in range(2))
    near(references.fused_moe(x, w1, w2, weights, chosen), wanted, 1e-4)
    out = torch.empty(5, 16)
    references.moe_sum(down[:, :2], out)
    near(out, down[:, 0] + down[:, 1])


@pytest.mark.parametrize("causal", [True, False])
def test_attention(causal: bool) -> None:
    q, k, v = drawn(2, 6, 4, 8), drawn(2, 6, 2, 8), drawn(2, 6, 2, 8) + 1
    heads = [one.transpose(1, 2) for one in (q, k.repeat_interleave(2, 2), v.repeat_interleave(2, 2))]
    wanted = functional.scaled_dot_product_attention(*heads, is_causal=causal).transpose(1, 2)
    out, sums, *_ = references.flash_attention(q, k, v, 0.0, 8**-0.5, causal, -1, -1, 0.0, None, False)
    near(out, wanted)
    assert sums.shape == (2, 4, 6)
    starts = torch.tensor([0, 6, 12])
    packed = references.flash_attention_packed(
        *(one.flatten(0, 1) for one in (q, k, v)), starts, starts, 6, 6, 0.0, 8**-0.5, causal
    )
    near(packed[0], wanted.flatten(0, 1))
    near(packed[1], sums.transpose(0, 1).flatten(1))


def test_a_window_hides_what_is_further_away() -> None:
    q, k, v = drawn(1, 6, 1, 8), drawn(1, 6, 1, 8), drawn(1, 6, 1, 8)
    place = torch.arange(6)
    seen = (place[None] - place[:, None] <= 0) & (place[None] - place[:, None] >= -2)
    wanted = functional.scaled_dot_product_attention(*(one.transpose(1, 2) for one in (q, k, v)), attn_mask=seen)
    near(references.flash_attention(q, k, v, 0.0, 8**-0.5, True, 2, 0)[0], wanted.transpose(1, 2))


def test_paged_attention() -> None:
    query, caches, pages = drawn(2, 4, 8), drawn(2, 9, 3, 2, 8), torch.tensor([4, 1, 7, 0, 2], dtype=torch.int32)
    starts, last, out = torch.tensor([0, 2, 5]), torch.tensor([1, 3]), torch.empty(2, 4, 8, dtype=torch.float64)
    references.paged_attention(out, query, query, caches[0], caches[1], starts, pages, last)
    for at, (of, tokens) in enumerate((([4, 1], 4), ([7, 0, 2], 9))):
        k, v = (one[of].flatten(0, 1)[:tokens].repeat_interleave(2, 1).transpose(0, 1) for one in caches)
        near(out[at], functional.scaled_dot_product_attention(query[at][:, None], k, v)[:, 0])
