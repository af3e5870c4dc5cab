"""Short programs: at most 40 lines for a product, literals alone, and nothing that is at its default.

What they do with PyTorch is proved in `tests/torch_proof`.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from msgspec.structs import replace
from recorded_calls import NOTHING, call, listed, scalar, tensor, tensors
from replay_plans import converted, mm, plans, scaled

from corpus import kineto_traces, loaded, parametrize, trace_id
from tracelens_graph.graph.window import window_of
from tracelens_graph.replay.planned import Estimates, Plans, complete
from tracelens_graph.replay.planning import plan_of
from tracelens_graph.replay.program.report import parsed
from tracelens_graph.replay.replay_plan import Argument, Fill, ReplayPlan, TensorValue, is_default
from tracelens_graph.replay.results import read_results
from tracelens_graph.replay.schemas import parse
from tracelens_graph.replay.short_program import short_program
from tracelens_graph.replay.signatures import charge_all, signatures

DENSE = {"mm", "addmm", "bmm", "baddbmm", "linear", "matmul", "conv2d", "convolution"}
SPARSE = TensorValue((4, 4), "float32", layout="sparse_coo", fill=Fill("normal", {"entries": 3}))


def making(source: str) -> ast.FunctionDef:
    """The function of a program that makes its tensors and returns its call."""
    return next(one for one in ast.parse(source).body if isinstance(one, ast.FunctionDef) and one.name == "made")


def body(source: str, name: str = "call") -> str:
    """The statements of a function that a program makes."""
    statements = making(source).body
    for one in statements:
        if isinstance(one, ast.FunctionDef) and one.name == name:
            return "\n".join(ast.unparse(one) for one in one.body)
    last = statements[-1]
    assert isinstance(last, ast.Return)
    assert isinstance(last.value, ast.Tuple)
    assert isinstance(last.value.elts[1], ast.Lambda)
    return f"return {ast.unparse(last.value.elts[1].body)}"


def assigned(source: str) -> dict[str, str]:
    """What stands behind the names of tensors of a program."""
    return {
        ast.unparse(one.targets[0]): ast.unparse(one.value)
        for one in making(source).body
        if isinstance(one, ast.Assign)
    }


def test_a_product() -> None:
    source = mm().script()
    assert len(source.splitlines()) <= 40
    assert max(map(len, source.splitlines())) <= 120
    assert body(source) == "return torch.mm(input, mat2)"
    held = assigned(source)
    assert held["input"] == "torch.randn((64, 32), dtype=torch.bfloat16, device=device)"
    assert held["mat2"] == "torch.randn((16, 32), dtype=torch.bfloat16, device=device).t()"
    heading = ast.get_docstring(ast.parse(source)) or ""
    assert "12 calls, 1,250.4 us of GPU time in all, median 104.00 us a call, on NVIDIA H100" in heading
    assert "kernel     gemm_kernel" in heading


def test_several_kernels_are_named_in_short() -> None:
    kernels = ("void at::native::fill<4, at::F>(int)", "void at::native::fill<2, at::F>(int)", "attn_fwd")
    plan = mm()
    assert "kernel     fill; attn_fwd" in replace(plan, traced=replace(plan.traced, kernels=kernels)).script()


def test_its_result_names_the_arguments_as_recorded() -> None:
    """So that results of short programs and of those in full are of one operation."""
    main = ast.parse(mm().script()).body[-1]
    assert isinstance(main, ast.If)
    result = next(one for one in main.body if isinstance(one, ast.Assign) and ast.unparse(one.targets[0]) == "result")
    assert isinstance(result.value, ast.Call)
    signature = next(one.value for one in result.value.keywords if one.arg == "signature")
    assert isinstance(signature, ast.Call)
    recorded = {str(one.arg): eval(ast.unparse(one.value), {"__builtins__": {}}) for one in signature.keywords}
    assert recorded == json.loads(json.dumps(mm().json()["recorded"]))


REFUSED = [
    (["--json", "absent/of.json"], "absent/of.json"),
    (["--json", "."], "--json"),
    (["--iterations", "0"], "--iterations"),
    (["--iterations", "-4"], "--iterations"),
]


TORCH = """
class cuda:
    device_count = staticmethod(lambda: 2)
xpu, cpu, manual_seed = cuda, cuda, int
"""
MEASURING = """
class Tensor:
    t = lambda self: self
    zero_ = str
class cuda:
    device_count = staticmethod(lambda: 0)
class version:
    hip, cuda = None, "13"
xpu, cpu, manual_seed, int8, bfloat16, __version__ = cuda, cuda, int, 0, 0, "2"
randn = empty = mm = lambda *given, **named: Tensor()
"""
"""Of PyTorch what a program of a product names: without tensors, and with such as it never looks into."""


def run_mm(folder: Path, torch: str, words: list[str], **more: str) -> subprocess.CompletedProcess[str]:
    (folder / "torch.py").write_text(torch)
    (folder / "mm.py").write_text(mm().script())
    environment = {**os.environ, "PYTHONPATH": str(folder), **more}
    command = [sys.executable, "mm.py", *words]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)


@pytest.mark.parametrize(("words", "named"), [*REFUSED, (["--device", ""], "--device"), (["--device", "c"], "'c'")])
def test_what_it_could_not_do_is_refused_before_it_measures(words: list[str], named: str, tmp_path: Path) -> None:
    """The program stops before it makes its first tensor, which this module could not."""
    found = run_mm(tmp_path, TORCH, words)
    last = found.stderr.splitlines()[-1]
    assert found.returncode == 2
    assert "error" in last
    assert named in last


def test_a_program_that_fails_leaves_no_results(tmp_path: Path) -> None:
    assert run_mm(tmp_path, TORCH, ["--json", "of.json"]).returncode == 1
    assert not (tmp_path / "of.json").exists()


@pytest.mark.parametrize("iterations", [1, 2, 5])
def test_as_many_calls_are_measured_as_are_asked_for(iterations: int, tmp_path: Path) -> None:
    found = run_mm(tmp_path, MEASURING, ["--iterations", str(iterations), "--json", "of.json"])
    (result,) = json.loads((tmp_path / "of.json").read_text())
    assert result["iterations"] == iterations
    assert f"of {iterations} calls" in found.stdout
    assert result["spread_us"][0] <= round(result["median_us"], 2) <= result["spread_us"][1]


@pytest.mark.skipif(sys.platform == "win32", reason="no shell of Unix")
def test_its_result_has_the_version_of_the_driver_and_the_clock(tmp_path: Path) -> None:
    (tmp_path / "nvidia-smi").write_text(
        '#!/bin/sh\n[ "$2" = "--format=csv,noheader" ] && echo "580.65.06, 1980 MHz"\n'
    )
    (tmp_path / "nvidia-smi").chmod(0o755)
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    found = run_mm(tmp_path, MEASURING, ["--iterations", "2", "--json", "of.json"], PATH=path)
    (result,) = read_results(tmp_path / "of.json")[0]
    assert (found.stderr, result.driver, result.clock_mhz) == ("", "580.65.06, 1980 MHz", None)
    result.device = "NVIDIA H100 80GB HBM3"
    assert result.clock_mhz == 1980


@pytest.mark.parametrize(("words", "named"), REFUSED)
def test_programs_in_full_refuse_the_same(
    words: list[str], named: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--json")
    parser.add_argument("--iterations", type=int)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["mm.py", *words])
    with pytest.raises(SystemExit):
        parsed(parser)
    assert named in capsys.readouterr().err
    monkeypatch.setattr(sys, "argv", ["mm.py", "--json", "of.json", "--iterations", "1"])
    assert parsed(parser).iterations == 1


def test_settings_are_made_and_written_into_the_result() -> None:
    source = replace(mm(), modes=("cuda.matmul.allow_tf32=True", "autocast bfloat16")).script()
    assert "\n    torch.backends.cuda.matmul.allow_tf32 = True" in source
    assert '"cuda.matmul.allow_tf32": torch.backends.cuda.matmul.allow_tf32, "autocast bfloat16": True' in source
    assert body(source).startswith(f"{AUTOCAST}\n    return torch.mm")
    assert "settings={}" in mm().script()


def test_large_tensors_are_not_made_where_they_do_not_fit() -> None:
    source = mm(rows=1 << 24).script()
    needed = 2 * 32 * (1 << 24) + 2 * 32 * 16
    assert source.index(f"free < {needed} and sys.exit(") < source.index("input = torch.randn")
    assert "free <" not in mm().script()


@pytest.mark.parametrize(
    ("made", "text"),
    [
        (call("addmm", tensor(4), tensor(2, 3), tensor(3, 4), scalar("1"), scalar("1")),
         "torch.addmm(input, mat1, mat2)"),
        (call("addmm", tensor(4), tensor(2, 3), tensor(3, 4), scalar("0"), scalar("1")),
         "torch.addmm(input, mat1, mat2, beta=0)"),
        (call("softmax", tensor(4, 5), scalar("-1"), NOTHING), "torch.softmax(input, dim=-1)"),
        (call("cat", tensors((2, 3), (4, 3), (5, 3)), scalar("0")), "torch.cat(tensors)"),
        (call("add_", tensor(4), tensor(4), scalar("1")), "input.add_(other)"),
        (call("mul", tensor(4), tensor(dtype="double")), "torch.mul(input, 2.0)"),
        (call("linear", tensor(2, 3), tensor(4, 3), NOTHING), "torch.nn.functional.linear(input, weight)"),
        (call("constant_pad_nd", tensor(2, 3), listed("[1, 1]"), scalar("0")),
         "torch.ops.aten.constant_pad_nd.default(input, pad=[1, 1])"),
        (call("masked_fill_", tensor(4), tensor(4, dtype="bool"), scalar("-inf")),
         "input.masked_fill_(mask, float('-inf'))"),
    ],
)  # fmt: skip
def test_calls_as_one_would_write_them(made: Any, text: str) -> None:
    assert body(plan_of(made).script()) == f"return {text}"


@pytest.mark.parametrize(
    ("tensor", "text"),
    [
        (TensorValue((2, 3, 4), "float32", (12, 1, 3)), "torch.randn((2, 4, 3), dtype=torch.float32, device=device)"
         ".transpose(1, 2)"),
        (TensorValue((2, 3, 4, 5), "float32", (60, 1, 15, 3)),
         "torch.randn((2, 4, 5, 3), dtype=torch.float32, device=device).permute(0, 3, 1, 2)"),
        (TensorValue((4, 3), "float32", (0, 1)),
         "torch.randn((3,), dtype=torch.float32, device=device).as_strided((4, 3), (0, 1))"),
        (TensorValue((4,), "float32", offset=8, reach=20),
         "torch.randn((20,), dtype=torch.float32, device=device).as_strided((4,), (1,), 8)"),
        (TensorValue((4,), "float8_e4m3fn"), "torch.randn((4,), device=device).to(torch.float8_e4m3fn)"),
        (TensorValue((4,), "int64", fill=Fill("integers", {"high": 50})),
         "torch.randint(0, 50, (4,), dtype=torch.int64, device=device)"),
        (TensorValue((5,), "int32", fill=Fill("rising", {"high": 20})),
         "(torch.arange(5, device=device) * 20 // 4).to(torch.int32)"),
        (TensorValue((2, 3), "bool", fill=Fill("mask")), "torch.rand((2, 3), device=device).lt(0.5)"),
        (TensorValue((2, 3), "float32", on_cpu=True, grad=True),
         "torch.randn((2, 3), dtype=torch.float32, device='cpu').requires_grad_()"),
    ],
)  # fmt: skip
def test_tensors_as_one_would_make_them(tensor: TensorValue, text: str) -> None:
    schema = "aten::relu(Tensor self) -> Tensor"
    source = ReplayPlan("aten::relu", "", schema, (Argument("self", "Tensor", tensor),)).script()
    assert assigned(source)["input"] == ast.unparse(ast.parse(text))


def test_lists_of_tensors_and_what_is_restored() -> None:
    same, varied, few = (
        assigned(scaled(*shapes).script()) for shapes in (((2, 3),) * 5, ((2,), (3, 4), (5,)), ((2,), (3,)))
    )
    assert same["input"] == "[torch.randn((2, 3), dtype=torch.float32, device=device) for _ in range(5)]"
    assert varied["input"].endswith("for shape in [[2], [3, 4], [5]]]")
    assert few["input"].count("torch.randn") == 2
    assert "\n    return [*input], lambda: " in scaled((2, 3)).script()
    assert "\n    return [], lambda: " in mm().script()


def test_tensors_in_one_memory() -> None:
    left, right = (TensorValue((4,), "float32", (1,), storage=0, offset=offset) for offset in (0, 2))
    schema = "aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor"
    arguments = (Argument("self", "Tensor", left), Argument("other", "Tensor", right))
    held = assigned(ReplayPlan("aten::add", "Tensor", schema, arguments).script())
    assert held["memory_0"] == "torch.randn((6,), dtype=torch.float32, device=device)"
    assert (held["input"], held["other"]) == ("memory_0.as_strided((4,), (1,))", "memory_0.as_strided((4,), (1,), 2)")
    same = (arguments[0], Argument("other", "Tensor", left))
    assert body(ReplayPlan("aten::add", "Tensor", schema, same).script()) == "return torch.add(input, input)"


def test_modes_and_values_by_name() -> None:
    plan = replace(mm(), modes=("autocast bfloat16", "no_grad"))
    assert f"{AUTOCAST}\n            with torch.no_grad():" in plan.script()
    assert body(converted().script()).startswith(
        "return torch.ops.aten.to.dtype_layout(input, dtype=torch.float16, layout=torch.strided, device=device"
    )


@pytest.mark.parametrize(
    ("op", "schema", "tensor"),
    [
        ("aten::relu", "aten::relu(Tensor self) -> Tensor", SPARSE),
        ("aten::relu", "aten::relu(Tensor self) -> Tensor", TensorValue((4, 4), "quint8")),
        ("aten::relu_", "aten::relu_(Tensor(a!) self) -> Tensor(a!)", TensorValue((4, 4), "float32", grad=True)),
        ("aten::t_", "aten::t_(Tensor(a!) self) -> Tensor(a!)", TensorValue((4, 4), "float32")),
    ],
)  # fmt: skip
def test_what_it_has_no_words_for_is_written_in_full(op: str, schema: str, tensor: TensorValue) -> None:
    kind = schema.partition("(")[2].partition(" self")[0]
    plan = ReplayPlan(op, "", schema, (Argument("self", kind, tensor),))
    assert short_program(plan) == ""
    assert plan.script() == plan.script(full=True) != ""


@given(plans())
def test_hostile_text_stays_text(plan: ReplayPlan) -> None:
    source = short_program(plan)
    assert source.isascii()
    if source:
        names = {one.id for one in ast.walk(ast.parse(source)) if isinstance(one, ast.Name)}
        assert names <= KNOWN


AUTOCAST = "with torch.autocast(torch.device(device).type, dtype=torch.bfloat16):"
KNOWN = {
    "add", "argparse", "options", "__doc__", "asked", "seed", "ready", "device", "gpu", "torch", "getattr", "input",
    "mat2", "call", "calls", "seconds", "timeit", "max", "events", "range", "_", "int", "begin", "end", "__name__",
    "us", "low", "median", "high", "result", "dict", "len", "statistics", "round", "print", "sys", "open", "json",
    "float", "os", "free", "complex", "shape", "memory_0", "memory_1", "memory_2", "memory_3", "memory_0_of_host",
    "memory_1_of_host", "memory_2_of_host", "memory_3_of_host", "devices", "kind", "n", "next", "d", "of",
    "to", "made", "written", "cache", "before", "one", "was", "zip",
}  # fmt: skip
"""Names of a program of a product of two arguments."""


@parametrize("path", [path for path in kineto_traces() if trace_id(path).startswith("tracelens/")])
def test_programs_of_traces(path: Path) -> None:
    """They are Python, those of dense operations are short, and no default is passed in them or in their plans."""
    core = loaded(path)
    every = Plans(signatures(charge_all(window_of(core))))
    for place, name in enumerate(every.signatures.names):
        plan = complete(every, place, Estimates(every.signatures.window)).plan
        if not isinstance(plan, ReplayPlan):
            continue
        source = plan.script()
        compile(source, name, "exec")
        is_short = source == short_program(plan)
        if plan.op.removeprefix("aten::") in DENSE:
            assert is_short
            assert len(source.splitlines()) <= 40
        if plan.op.endswith("attention"):
            assert len(source.splitlines()) <= 40 + bool(plan.gradient)
        parameters = {one.name: one for one in parse(plan.schema).parameters}
        passed = plan.json()["positional"].keys() | plan.json().get("keyword", {}).keys()
        assert not [
            one.name for one in plan.arguments if one.name in passed and is_default(one.value, parameters[one.name])
        ]
        if is_short:
            called = ast.unparse(ast.parse(body(source)))
            lacking = parameters.keys() - passed
            assert not [one for one in lacking if f"{one}=" in called]
