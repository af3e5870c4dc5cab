"""Programs run with PyTorch on a CPU: what they print, write, restore, shrink, and say of errors."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from recording import record
from replay_plans import mm, scaled

from tracelens_graph.loading.one import load_core
from tracelens_graph.replay.devices import compared_results
from tracelens_graph.replay.planning import plan_call
from tracelens_graph.replay.program import kernel
from tracelens_graph.replay.program_text import program
from tracelens_graph.replay.replay_plan import Argument, Fill, ReplayPlan, TensorValue
from tracelens_graph.replay.schemas import parse, schemas_of
from tracelens_graph.replay.verify.verify import outermost_ops

QUICK = ("--device", "cpu", "--iterations", "3", "--warmup", "1")


OLD = os.environ.get("TORCH_OLD", "")
"""A Python with an older PyTorch."""


def run(folder: Path, source: str, *options: str) -> subprocess.CompletedProcess[str]:
    (folder / "program.py").write_text(source)
    quick = QUICK if "--warmup" in source else QUICK[:4]  # short programs warm up by themselves
    command = [sys.executable, "program.py", *quick, *options]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=False)


def results(folder: Path, source: str, *options: str) -> list[dict[str, Any]]:
    ended = run(folder, source, "--json", "results.json", *options)
    assert ended.returncode == 0, ended.stderr
    found: list[dict[str, Any]] = json.loads((folder / "results.json").read_text())
    return found


@pytest.mark.parametrize("full", [False, True])
def test_a_device_that_is_not_there_is_one_line(full: bool, tmp_path: Path) -> None:
    for name in ("banana", "cuda:99", "cpu:0"):
        ended = run(tmp_path, mm().script(full=full), "--device", name)
        assert ended.returncode == 2
        assert f"invalid choice: '{name}'" in ended.stderr.splitlines()[-1]


def test_a_kernel_is_launched_on_its_arguments_in_its_grid(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that defines kernels, by name and as the only one; launches are recorded."""
    with pytest.raises(RuntimeError, match="Triton kernels run on GPUs"):
        kernel.launcher("f", "f_source.py", (2, 1, 1))
    monkeypatch.setattr(kernel, "device", lambda name: torch.device("cuda"))
    monkeypatch.setattr(kernel, "__file__", str(tmp_path / "program.py"))
    with pytest.raises(RuntimeError, match=f"defines f .* into {tmp_path}/f_source.py; .* cache as c.py"):
        kernel.launcher("f", "f_source.py", (2, 1, 1), file="c.py")
    source = tmp_path / "f_source.py"
    source.write_text(
        "LAUNCHED = []\nclass Kernel:\n    def __init__(self): self.fn = self.run = None\n"
        "    def __getitem__(self, grid):\n"
        "        return lambda *given, **options: LAUNCHED.append((grid, given, options))\nother = Kernel()\n"
    )
    kernel.launcher("f", "f_source.py", (2, 1, 1), {"num_warps": 4})(1, XBLOCK=16)
    assert sys.modules["f_source"].LAUNCHED == [((2, 1, 1), (1,), {"XBLOCK": 16, "num_warps": 4})]
    source.write_text(source.read_text() + "another = Kernel()\n")
    with pytest.raises(ImportError, match="defines 2 kernels, and none of them is called f"):
        kernel.launcher("f", "f_source.py", (2, 1, 1))


def test_a_result_and_two_traces(tmp_path: Path) -> None:
    (result,) = results(tmp_path, mm().script(full=True), "--profile", "p.json.gz", "--execution-trace", "et.json")
    assert (result["op"], result["device"], result["iterations"]) == ("aten::mm", "cpu", 3)
    assert result["signature"]["dims"] == [[64, 32], [32, 16]]
    assert result["median_us"] > 0
    assert result["tflops"] == pytest.approx(2 * 64 * 32 * 16 / result["median_us"] / 1e6)
    assert result["traced_us"] == 104
    assert (result["ratio_to_traced"], result["percent_of_roof"]) == (None, None)
    assert result["kernels_as_traced"] is None
    core = load_core(tmp_path / "p.json.gz")
    assert [core.names[core.columns.name[row]] for row in outermost_ops(core)] == ["aten::mm"]
    assert "aten::mm" in (tmp_path / "et.json").read_text()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["et.json", "p.json.gz", "program.py", "results.json"]


def test_what_is_printed(tmp_path: Path) -> None:
    """Numbers have units; a CPU is not held against the GPU of the trace."""
    lines = run(tmp_path, mm().script(full=True)).stdout.splitlines()
    assert [line.split()[0] for line in lines] == ["operation", "median", "spread", "computes", "moves", "traced"]
    units = [
        "us a call (3 calls)",
        "us in half of the calls",
        "TFLOP/s",
        "TB/s",
        "us a call on the traced GPU, the median of 12 calls",
    ]
    for line, unit in zip(lines[1:], units, strict=True):
        assert line.endswith(f" {unit}")


def test_few_calls_are_timed_on_a_cpu(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(mm().script(full=True))
    command = [sys.executable, "program.py", "--device", "cpu", "--json", "results.json"]
    subprocess.run(command, cwd=tmp_path, capture_output=True, timeout=120, check=True)
    assert json.loads((tmp_path / "results.json").read_text())[0]["iterations"] == 10


def test_sizes_are_shrunk_alike(tmp_path: Path) -> None:
    (result,) = results(tmp_path, mm(rows=1 << 20).script(full=True), "--cap-bytes", "100000")
    assert 1 < result["largest_size"] < 1 << 20
    assert result["tflops"] is None
    assert result["ratio_to_traced"] is None
    assert results(tmp_path, mm().script(full=True), "--cap-bytes", "100000")[0]["largest_size"] is None


def test_what_an_operation_writes_comes_back(tmp_path: Path) -> None:
    """A tensor whose dimensions are dropped in place has them again before the next call, and its contents, too."""
    squeeze = "aten::squeeze_.dim(Tensor(a!) self, int dim) -> Tensor(a!)"
    tensor = TensorValue((1, 4), "float32", fill=Fill("constant", {"value": 2.0}))
    arguments = (Argument("self", "Tensor", tensor), Argument("dim", "int", 0))
    source = ReplayPlan("aten::squeeze_", "dim", squeeze, arguments).script(full=True)
    seen = "\n            print(positional[0].shape, positional[0].sum().item())\n            return call()"
    watched = source.replace(
        "        return measure_call(called(plan, positional, keyword)",
        "        call = called(plan, positional, keyword)\n\n"
        f"        def watched():{seen}\n\n        return measure_call(watched",
    )
    assert watched != source
    shapes = [line for line in run(tmp_path, watched).stdout.splitlines() if line.startswith("torch.Size")]
    assert shapes == ["torch.Size([1, 4]) 8.0"] * 4


def sparse(layout: str) -> ReplayPlan:
    fill = Fill("normal", {"entries": 3000})
    tensor = TensorValue((300, 200), "float32", layout=layout, fill=fill)
    schema = "aten::mul_.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!)"
    number = TensorValue((), "float32")
    return ReplayPlan("aten::mul_", "Tensor", schema, (Argument("self", "Tensor(a!)", tensor),
                                                       Argument("other", "Tensor", number)))  # fmt: skip


@pytest.mark.parametrize("layout", ["sparse_coo", "sparse_csr"])
def test_sparse_tensors_come_back_and_are_shrunk(layout: str, tmp_path: Path) -> None:
    assert results(tmp_path, sparse(layout).script())[0]["largest_size"] is None
    (result,) = results(tmp_path, sparse(layout).script(), "--cap-bytes", "2000")
    assert 1 < result["largest_size"] < 200


def test_lists_are_restored(tmp_path: Path) -> None:
    assert results(tmp_path, scaled((2, 3), (4,)).script(full=True))[0]["op"] == "aten::_foreach_mul_"


def wrong() -> ReplayPlan:
    plan = mm()
    odd = Argument("mat2", "Tensor", TensorValue((5, 5), "bfloat16"))
    return ReplayPlan(plan.op, "", plan.schema, (plan.positional[0], odd))


def on_gpus_only() -> ReplayPlan:
    schema = (
        "aten::miopen_convolution(Tensor input, Tensor weight, Tensor? bias, SymInt[] padding, SymInt[] stride, "
        "SymInt[] dilation, SymInt groups, bool benchmark, bool deterministic) -> Tensor"
    )
    values = (TensorValue((1, 3, 8, 8), "float32"), TensorValue((4, 3, 3, 3), "float32"), None, (0, 0), (1, 1), (1, 1),
              1, False, False)  # fmt: skip
    named = zip(parse(schema).parameters, values, strict=True)
    return ReplayPlan(
        "aten::miopen_convolution", "", schema, tuple(Argument(one.name, one.type, value) for one, value in named)
    )


@pytest.mark.parametrize(
    ("source", "options", "message"),
    [
        (wrong().script(full=True), (), "aten::mm: mat1 and mat2 shapes cannot be multiplied"),
        (
            mm().script(full=True).replace('"op": "aten::mm"', '"op": "aten::nn"'),
            (),
            "aten::nn: '_OpNamespace' 'aten' object",
        ),
        (
            mm().script(full=True).replace('"op": "aten::mm"', '"op": "aten::mm", "overload": "name"'),
            (),
            "aten::mm: The underlying op of 'aten.mm' has no",
        ),
        (mm().script(full=True), ("--json", "no/such/folder.json"), "program.py: error: --json"),
        (
            on_gpus_only().script(full=True),
            (),
            "aten::miopen_convolution: has no CPU kernel in this PyTorch; run it on a GPU",
        ),
    ],
    ids=["sizes", "no operation", "no overload", "no folder", "no kernel"],
)
def test_errors_are_one_line(source: str, options: tuple[str, ...], message: str, tmp_path: Path) -> None:
    ended = run(tmp_path, source, *options)
    assert ended.returncode == (2 if options else 1)  # of the options, or of the operation
    told = [line for line in ended.stderr.splitlines() if line.startswith(("aten::", "program.py: "))]
    assert len(told) == 1
    assert told[0].startswith(message[:8])
    assert message.partition(": ")[2] in told[0]
    assert "Traceback" not in ended.stderr


def test_one_failure_does_not_stop_the_others(tmp_path: Path) -> None:
    source = program("full", "many", [one.json() for one in (mm(), wrong(), scaled((3,)))])
    ended = run(tmp_path, source, "--json", "results.json")
    assert ended.returncode == 1
    assert "2 of 3 operations ran" in ended.stdout
    found = json.loads((tmp_path / "results.json").read_text())
    assert [(one["op"], one["count"], "error" in one) for one in found] == [
        ("aten::mm", 12, False), ("aten::mm", 1, True), ("aten::_foreach_mul_", 1, False),
    ]  # fmt: skip


@pytest.mark.parametrize("text", ["", "[", "{}", '[{"plan": {}}]', "[1]"])
def test_a_list_that_is_none(text: str, tmp_path: Path) -> None:
    (tmp_path / "operations.json").write_text(text)
    ended = run(tmp_path, program("full", "", []), "operations.json")
    assert ended.returncode in (0, 1)
    assert "Traceback" not in ended.stderr


# --- short programs --------------------------------------------------------------------------------------------------


def test_the_result_of_a_short_program_is_that_of_the_one_in_full(tmp_path: Path) -> None:
    (short,), (full,) = (results(tmp_path, mm().script(full=one)) for one in (False, True))
    assert {key: short[key] for key in ("op", "signature", "device", "torch", "traced_us")} == {
        key: full[key] for key in ("op", "signature", "device", "torch", "traced_us")
    }
    assert short["tflops"] == pytest.approx(2 * 64 * 32 * 16 / short["median_us"] / 1e6)
    for name, result in (("a.json", short), ("b.json", full)):
        (tmp_path / name).write_text(json.dumps([result]))
    assert [row["op"] for row in compared_results(tmp_path / "a.json", tmp_path / "b.json").results.records()] == [
        "aten::mm"
    ]


def test_what_a_short_program_writes_comes_back(tmp_path: Path) -> None:
    source = scaled((2, 3)).script()
    watched = source.replace("lambda: ", "lambda: print(input[0].isinf().any().item()) or ")
    assert watched != source
    assert {"True", "False"} & set(run(tmp_path, watched).stdout.splitlines()) == {"False"}


def test_more_memory_than_there_is_is_not_asked_for(tmp_path: Path) -> None:
    ended = run(tmp_path, mm(rows=1 << 40).script(full=True))
    assert ended.returncode == 1
    assert "its tensors need 70,368.7 GB, and cpu has" in ended.stderr


@pytest.mark.skipif(not OLD, reason="TORCH_OLD names no Python with an older PyTorch")
@pytest.mark.parametrize("full", [False, True])
def test_what_was_recorded_with_this_version_runs_with_an_older_one(full: bool, tmp_path: Path) -> None:
    """Arguments that it does not know have their defaults, and are not passed."""
    heads = torch.randn(2, 4, 16, 8)
    many = [torch.randn(3, 4), torch.randn(5)]

    def step() -> None:
        torch.nn.functional.scaled_dot_product_attention(heads, heads, heads, is_causal=True)
        torch._foreach_norm(many)
        torch._foreach_add_(many, 1.0)
        torch.nn.functional.layer_norm(heads, (8,)).softmax(-1).sum((0, 1)).std(0)
        torch.nn.functional.conv2d(heads, torch.randn(3, 4, 3, 3), padding=1).clamp(0).argmax(1)

    core = load_core(record(step, tmp_path, "new"))
    for number, row in enumerate(outermost_ops(core)):
        plan = plan_call(core, int(row))
        program = tmp_path / f"{number}.py"
        program.write_text(plan.script(full))
        ended = subprocess.run([OLD, str(program)], capture_output=True, text=True, timeout=300, check=False)
        assert ended.returncode == 0, f"{plan.op}: {ended.stderr}"
    assert number >= 10


@pytest.mark.skipif(not OLD, reason="TORCH_OLD names no Python with an older PyTorch")
def test_an_older_version_knows_all_that_is_passed_to_a_kernel_of_gpus(tmp_path: Path) -> None:
    schema = next(one for one in schemas_of("aten::_flash_attention_forward") if "seqused_k" in one.names)
    tensors = dict.fromkeys(("query", "key", "value"), TensorValue((2, 16, 4, 8), "float16"))
    given = {**tensors, "max_q": 16, "max_k": 16, "dropout_p": 0.0, "is_causal": True, "return_debug_mask": False}
    arguments = [Argument(one.name, one.declared, given.get(one.name)) for one in schema.parameters]
    keyword = {one.name for one in schema.parameters if one.is_keyword}
    plan = ReplayPlan(
        schema.op, schema.overload, schema.text, tuple(one for one in arguments if one.name not in keyword),
        tuple(one for one in arguments if one.name in keyword),
    )  # fmt: skip
    for full in (False, True):
        (tmp_path / "program.py").write_text(plan.script(full))
        ended = subprocess.run(
            [OLD, "program.py"], cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False
        )
        assert ended.returncode == 1
        assert "Could not run 'aten::_flash_attention_forward'" in ended.stderr or "has no CPU kernel" in ended.stderr
