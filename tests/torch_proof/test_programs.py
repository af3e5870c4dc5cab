"""Programs run with PyTorch on a CPU: what they print, write, restore, shrink, and say of errors."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from replay_plans import mm, scaled

from tracelens_graph.loading.one import load_core
from tracelens_graph.replay.replay_plan import Argument, Fill, TensorValue
from tracelens_graph.replay.program_text import program
from tracelens_graph.replay.replay_plan import ReplayPlan
from tracelens_graph.replay.schemas import parse
from tracelens_graph.replay.verify.verify import outermost_ops

QUICK = ("--device", "cpu", "--iterations", "3", "--warmup", "1")


def run(folder: Path, source: str, *options: str) -> subprocess.CompletedProcess[str]:
    (folder / "program.py").write_text(source)
    command = [sys.executable, "program.py", *QUICK, *options]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=False)


def results(folder: Path, source: str, *options: str) -> list[dict[str, Any]]:
    ended = run(folder, source, "--json", "results.json", *options)
    assert ended.returncode == 0, ended.stderr
    found: list[dict[str, Any]] = json.loads((folder / "results.json").read_text())
    return found


def test_a_result_and_two_traces(tmp_path: Path) -> None:
    (result,) = results(tmp_path, mm().script(), "--profile", "p.json.gz", "--execution-trace", "et.json")
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
    lines = run(tmp_path, mm().script()).stdout.splitlines()
    assert [line.split()[0] for line in lines] == ["operation", "median", "spread", "computes", "moves", "traced"]
    units = [
        "us a call (3 calls)",
        "us in 80 % of the calls",
        "TFLOPS",
        "TB/s",
        "us a call on the traced GPU, the median",
    ]
    for line, unit in zip(lines[1:], units, strict=True):
        assert line.endswith(f" {unit}")


def test_a_slow_call_is_not_repeated_on_a_cpu(tmp_path: Path) -> None:
    source = mm().script().replace("lambda: call(*positional, **keyword)", "lambda: time.sleep(1.1)")
    (tmp_path / "program.py").write_text(source)
    command = [sys.executable, "program.py", "--device", "cpu", "--json", "results.json"]
    subprocess.run(command, cwd=tmp_path, capture_output=True, timeout=120, check=True)
    assert json.loads((tmp_path / "results.json").read_text())[0]["iterations"] == 2


def test_sizes_are_shrunk_alike(tmp_path: Path) -> None:
    (result,) = results(tmp_path, mm(rows=1 << 20).script(), "--cap-bytes", "100000")
    assert 1 < result["largest_size"] < 1 << 20
    assert result["tflops"] is None
    assert result["ratio_to_traced"] is None
    assert results(tmp_path, mm().script(), "--cap-bytes", "100000")[0]["largest_size"] is None


def test_what_an_operation_writes_comes_back(tmp_path: Path) -> None:
    """A tensor whose dimensions are dropped in place has them again before the next call, and its contents, too."""
    squeeze = "aten::squeeze_.dim(Tensor(a!) self, int dim) -> Tensor(a!)"
    tensor = TensorValue((1, 4), "float32", fill=Fill("constant", {"value": 2.0}))
    arguments = (Argument("self", "Tensor", tensor), Argument("dim", "int", 0))
    source = ReplayPlan("aten::squeeze_", "dim", squeeze, arguments).script()
    seen = (
        "\n            print(positional[0].shape, positional[0].sum().item())"
        "\n            return call(*positional, **keyword)"
    )
    watched = source.replace(
        "        return measure_call(lambda: call(*positional, **keyword)",
        f"        def watched():{seen}\n\n        return measure_call(watched",
    )
    assert watched != source
    shapes = [line for line in run(tmp_path, watched).stdout.splitlines() if line.startswith("torch.Size")]
    assert shapes == ["torch.Size([1, 4]) 8.0"] * 4


def test_lists_are_restored(tmp_path: Path) -> None:
    assert results(tmp_path, scaled((2, 3), (4,)).script())[0]["op"] == "aten::_foreach_mul_"


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
        (wrong().script(), (), "aten::mm: mat1 and mat2 shapes cannot be multiplied"),
        (
            mm().script().replace('"op": "aten::mm"', '"op": "aten::nn"'),
            (),
            "aten::nn: '_OpNamespace' 'aten' object",
        ),
        (
            mm().script().replace('"op": "aten::mm"', '"op": "aten::mm", "overload": "name"'),
            (),
            "aten::mm: The underlying op of 'aten.mm' has no",
        ),
        (mm().script(), ("--json", "no/such/folder.json"), "program.py: FileNotFoundError: [Errno 2]"),
        (on_gpus_only().script(), (), "aten::miopen_convolution: has no CPU kernel in this PyTorch; run it on a GPU"),
    ],
    ids=["sizes", "no operation", "no overload", "no folder", "no kernel"],
)
def test_errors_are_one_line(source: str, options: tuple[str, ...], message: str, tmp_path: Path) -> None:
    ended = run(tmp_path, source, *options)
    assert ended.returncode == 1
    told = [line for line in ended.stderr.splitlines() if line.startswith(("aten::", "program.py: "))]
    assert len(told) == 1
    assert told[0].startswith(message[:8])
    assert message.partition(": ")[2] in told[0]
    assert "Traceback" not in ended.stderr


def test_one_failure_does_not_stop_the_others(tmp_path: Path) -> None:
    source = program("batch", "many", [one.json() for one in (mm(), wrong(), scaled((3,)))])
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
    ended = run(tmp_path, program("batch", "", []), "operations.json")
    assert ended.returncode in (0, 1)
    assert "Traceback" not in ended.stderr
