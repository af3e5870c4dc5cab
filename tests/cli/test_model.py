"""The command `model`: each formula's sizes reach it, answers are right, wrong sizes are refused in one line."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tracelens_graph.cli.app import app
from tracelens_graph.cli.model import FORMULAS
from tracelens_graph.perf.cost import Cost
from tracelens_graph.perf.families.attention import attention
from tracelens_graph.perf.families.convolution import Geometry, convolution
from tracelens_graph.perf.families.gemm import gemm

# The least that each formula needs.
LEAST = {
    "gemm": "m=64 n=32 k=16",
    "grouped-gemm": "m=64 n=32 k=16 groups=4",
    "convolution": "x=2,8,16,16 w=4,8,3,3",
    "convolution-backward": "x=2,8,16,16 w=4,8,3,3",
    "attention": "batch=2 n_q=16 n_kv=16 heads_q=4 dim_qk=8",
    "norm": "source=2,8,16 channels=16",
    "rms-norm": "source=2,8,16 channels=16",
    "moe": "tokens=16 hidden=32 inter=8 experts=4 topk=2",
    "unary": "source=2,8",
    "binary": "first=2,8 second=2,8",
    "reduce": "source=2,8",
    "softmax": "source=2,8",
    "cross-entropy": "logits=8,32 targets=int64:8",
    "embedding": "table=100,16 indices=int64:8",
    "causal-conv1d": "batch=2 channels=8 length=16 taps=4",
    "mamba2": "batch=2 length=64 heads=4 head_dim=8 groups=1 state=16 chunk=32 taps=4",
}


def run(arguments: str) -> tuple[int, str, str]:
    """Exit code, standard output, standard error."""
    result = CliRunner(env={"COLUMNS": "200"}).invoke(app, ["model", *arguments.split()])
    assert isinstance(result.exception, SystemExit | None)
    return result.exit_code, result.stdout, result.stderr


def only_row(arguments: str) -> dict[str, Any]:
    code, out, err = run(f"{arguments} --format json")
    assert (code, err) == (0, "")
    (row,) = json.loads(out)["rows"]
    assert isinstance(row, dict)
    return row


def shown(cost: Cost) -> dict[str, Any]:
    """A cost as the command shows it."""
    assert cost.bytes is not None
    return {
        "GFLOPS": cost.flops / 1e9,
        "Data Moved (MB)": cost.bytes / 2**20,
        "FLOPS/Byte": cost.intensity,
        "Compute Spec": cost.compute_spec,
    }


def test_every_formula_has_its_least() -> None:
    assert LEAST.keys() == FORMULAS.keys()


@pytest.mark.parametrize("name", LEAST)
def test_every_formula_gives_a_cost_and_a_roof(name: str) -> None:
    row = only_row(f"{name} {LEAST[name]} --arch h100-sxm")
    assert row["Data Moved (MB)"] > 0
    assert (row["GFLOPS"] > 0) == (row["Roofline Time (µs)"] is not None) == (name != "embedding")


@pytest.mark.parametrize("name", LEAST)
@pytest.mark.parametrize("size", ["0", "9" * 18])
def test_extreme_sizes_end_in_a_result_or_one_line(name: str, size: str) -> None:
    code, out, err = run(f"{name} {re.sub('[0-9]+(?=[ ,]|$)', size, LEAST[name])} --arch h100-sxm")
    assert (code, bool(out), bool(err)) in ((0, True, False), (2, False, True))


@pytest.mark.parametrize("name", FORMULAS)
def test_a_formula_alone_lists_its_sizes(name: str) -> None:
    code, out, _ = run(f"{name} --format json")
    assert code == 0
    required = {row["size"] for row in json.loads(out)["rows"] if row["default"] == "required"}
    assert required == {word.partition("=")[0] for word in LEAST[name].split()}


def test_large_product_on_a_device() -> None:
    """2 * 4096^3 FLOPs at 989.4e12 per second."""
    row = only_row("gemm m=4096 n=4096 k=4096 dtype=bf16 --arch h100-sxm --measured 0.2ms")
    assert row["GFLOPS"] == 137.438953472
    assert row["Data Moved (MB)"] == 96
    assert row["Roofline Time (µs)"] == pytest.approx(138.911, abs=1e-3)
    assert row["Roofline Bound"] == "COMPUTE_BOUND"
    assert row["Pct Roofline"] == pytest.approx(138.911 / 2, abs=1e-3)


def test_table_for_people() -> None:
    code, out, _ = run("gemm m=4096 n=4096 k=4096 --arch h100-sxm --arch mi300x")
    assert code == 0
    title, head, _, h100, mi300x, note = out.splitlines()
    assert title.startswith("gemm: M 4096, N 4096, K 4096, bias False")
    assert head.split()[:2] == ["device", "GFLOP"]
    assert (h100.split()[0], mi300x.split()[0]) == ("h100-sxm", "mi300x")
    assert h100.split()[-1] == "COMPUTE_BOUND"
    assert note == "not yet checked against the vendor's document: the rates of h100-sxm, mi300x"


@pytest.mark.parametrize(
    ("arguments", "cost"),
    [
        ("gemm m=3 n=5 k=7 batch=2 bias=yes dtype=fp32", gemm(3, 5, 7, batch=2, bias=True, dtype="fp32")),
        (
            "convolution x=2,8,16,16 w=4,4,3,3 stride=2 padding=1,1 groups=2 bias=yes dtype=fp16",
            convolution(
                Geometry((2, 8, 16, 16), (4, 4, 3, 3), stride=(2,), padding=(1, 1), groups=2), bias=True, dtype="fp16"
            ),
        ),
        (
            "attention batch=2 n_q=16 n_kv=16 heads_q=4 dim_qk=8 heads_kv=2 causal=yes alignment=top-left",
            attention(2, 16, 16, 4, 8, heads_kv=2, causal=True, alignment="top-left"),
        ),
    ],
)
def test_sizes_reach_the_formula(arguments: str, cost: Cost) -> None:
    assert only_row(arguments) == shown(cost)


def test_device_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text("[[figures]]\nmemory_bandwidth_gbps = 1000\nmatrix_bf16 = 100\n")
    row = only_row(f"gemm m=1024 n=1024 k=1024 --arch {path}")
    assert row["Architecture"] == "mine"
    assert row["Roofline Time (µs)"] == pytest.approx(2 * 1024**3 / 1e8)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ("gemm n=1 k=1", "gemm needs m="),
        ("gemm m=-1 n=1 k=1", "m: -1 is below 0"),
        ("gemm m=1.5 n=1 k=1", "m: '1.5' is no whole number"),
        ("gemm m=1 n=1 k=1 depth=1", "gemm has no size 'depth'; there are m, n, k"),
        ("gemm m=1 n=1 k=1 bias=perhaps", "bias: 'perhaps' is not one of yes"),
        ("gemm m=1 n=1 k", "'k' is no size such as m=4096"),
        ("gemm m=1 n=1 k=1 dtype=bf61", "dtype: element type 'bf61' is not known"),
        ("gemm m=1 n=1 k=1 --measured 5us", "--measured needs --arch"),
        ("gemm m=1 n=1 k=1 --measured soon --arch l4", "--measured: 'soon' is no time"),
        (f"gemm m=1 n=1 k=1{'0' * 320}", "nothing can be computed of these sizes"),
        ("convolution x=2,8,16,16 w=4,7,3,3", "the channels of the input are not those of the filters"),
        ("convolution x=-2,8,16,16 w=4,8,3,3", "a size is below 0"),
        ("unary source=2,x", "source: '2,x' is no list of sizes such as 32,64,56,56"),
        ("unary source=1,1,1,1,1,1,1,1,1", "is no list of sizes"),
        (f"unary source={'9' * 5000}", "is no list of sizes"),
        ("unary source=foo:2", "source: element type 'foo' is not known"),
        ("reduce source=2,8 dims=5", "dimension"),
        ("attention batch=1 n_q=1 n_kv=1 heads_q=1 dim_qk=1 alignment=left", "alignment: 'left' is not one of"),
        ("winograd", "there is no formula 'winograd'"),
    ],
)
def test_wrong_usage_ends_with_2_and_says_why(arguments: str, says: str) -> None:
    code, out, err = run(arguments)
    assert (code, out) == (2, "")
    assert says in " ".join(err.replace("│", " ").split())


@pytest.mark.parametrize("arguments", [f"gemm {LEAST['gemm']} --arch h100", "architectures h100"])
def test_unknown_device_is_an_error_with_a_hint(arguments: str) -> None:
    code, _, err = run(arguments)
    assert code == 1
    assert "did you mean h100-nvl, h100-pcie or h100-sxm?" in err


def test_list_of_devices() -> None:
    code, out, _ = run("architectures --format csv")
    assert code == 0
    assert out.startswith("architecture,device,memory_gb,")
    assert "\nmi300x,AMD Instinct MI300X,192" in out


def test_one_device() -> None:
    code, out, _ = run("architectures H200 --format json")
    assert code == 0
    figures = {row["figure"]: row for row in json.loads(out)["rows"]}
    assert figures["memory_bandwidth_gbps"]["value"] == 4800
    assert figures["matrix_bf16"]["document"] == "NVIDIA H200 Tensor Core GPU (data sheet)"
    assert figures["matrix_bf16"]["confirmed"] is False


def test_formulas_are_imported_when_they_are_asked_for() -> None:
    code = "import sys, tracelens_graph.cli.model; print([name for name in sys.modules if '.perf.' in name])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "[]\n"
