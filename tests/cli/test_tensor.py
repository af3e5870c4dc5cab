"""tensor: the life of a tensor or a storage, versions of an id, and what there is not."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest
from handmade import Run

from corpus import CHECKOUT
from tracelens_graph.simulate import simulate, write

TRACE = CHECKOUT / "examples/traces/tiny-transformer-cpu.json.gz"
EXECUTION = CHECKOUT / "examples/traces/tiny-transformer-cpu.execution-trace.json.gz"


@pytest.fixture(scope="module")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("pair")
    small = {"batch": 2, "tokens": 16, "width": 32, "heads": 2, "vocabulary": 64}
    write(simulate(steps=1, seed=3, **small), folder)
    return folder / "rank0.json.gz", folder / "rank0.execution-trace.json"


def test_the_life_of_a_tensor(run: Run) -> None:
    code, out, err = run("tensor", TRACE, "--et", EXECUTION, "t7")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[:3] == [
        "t7: float32[2,17]".replace("float32", "int64")
        + ", 272 bytes on cpu, strides [17, 1], at element 0 of storage s8",
        "made by: aten::empty (node 6, uid 10)",
        "views: t13: int64[2,16], t495: int64[2,16]",
    ]
    assert lines[3].startswith("alive: ")
    assert any(line.startswith("written") and "aten::random_" in line for line in lines)


def test_as_a_table(run: Run) -> None:
    _, out, _ = run("tensor", TRACE, "--et", EXECUTION, "t7", "--format", "csv")
    rows = list(csv.DictReader(io.StringIO(out)))
    assert [(row["what"], row["op"], row["argument"]) for row in rows[:5]] == [
        ("made", "aten::empty", "result 0"), ("written", "aten::random_", "argument 0"),
        ("passed on", "aten::random_", "result 0"), ("passed on", "aten::randint", "result 0"),
        ("read", "aten::slice", "argument 0"),
    ]  # fmt: skip
    assert {row["tensor"] for row in rows} == {"t7"}
    assert all(row["uid"] and float(row["at_ms"]) > 0 for row in rows)
    assert "kernels" not in rows[0], "the trace has no GPU work"


def test_a_storage_has_the_uses_of_its_tensors(run: Run) -> None:
    code, out, _ = run("tensor", EXECUTION, "s8", "--format", "json")
    rows = json.loads(out)
    rows = rows if isinstance(rows, list) else rows["rows"]
    assert code == 0
    assert {row["tensor"] for row in rows} == {"t7", "t13", "t495"}
    assert {row["what"] for row in rows} == {"made", "viewed", "read", "written", "passed on"}


def test_kernels_modules_and_steps(run: Run, simulated: tuple[Path, Path]) -> None:
    trace, execution = simulated
    nodes = json.loads(execution.read_text())["nodes"]
    gelu = next(node for node in nodes if node["name"] == "aten::gelu")
    number = gelu["outputs"]["values"][0][0]
    _, out, _ = run("tensor", trace, "--et", execution, f"t{number}", "-f", "csv")
    first = next(csv.DictReader(io.StringIO(out)))
    assert (first["what"], first["op"], first["kernels"]) == ("made", "aten::gelu", "1")
    assert first["module"].startswith("nn.Module: GELU")
    assert first["step"].isdigit()
    assert "Gelu" in first["kernel"]
    assert float(first["gpu_time_us"]) > 0


def test_versions_of_an_id_that_was_used_again(run: Run) -> None:
    code, out, err = run("tensor", TRACE, "--et", EXECUTION, "56")
    assert (code, err) == (0, "")
    assert "t56#1  float32[32]" in out
    assert "t56#2  float32[2,16,32]" in out
    _, out, _ = run("tensor", TRACE, "--et", EXECUTION, "t56#2")
    assert out.startswith("t56#2: float32[2,16,32], 4,096 bytes on cpu")


@pytest.mark.parametrize(("asked", "message"), [
    ("t93", "there is no tensor 93; near it there is s93, t92 or t90"),
    ("t999999", "there is no tensor 999999; near it there is t"),
    ("99999999999999999999", "is not the id of a tensor"),
    ("9999999999999999999", "there is no tensor or storage 9999999999999999999; near it there is"),
    ("t56#9", "there is no t56#9; t56 has 2 versions"),
    ("x7", "'x7' is not the id of a tensor, such as 123, t123, s123 or t123#2"),
])  # fmt: skip
def test_what_there_is_not(run: Run, asked: str, message: str) -> None:
    code, out, err = run("tensor", EXECUTION, asked)
    assert (code, out) == (1, "")
    assert message in err
    assert len(err.splitlines()) == 1


def test_a_trace_alone_knows_no_tensors(run: Run) -> None:
    code, out, err = run("tensor", TRACE, "t7")
    assert (code, out) == (1, "")
    assert err == (
        f"error: {TRACE}: the trace is not linked with its execution trace, which alone names tensors: load it with "
        "et=, or give --et\n"
    )


LINEAGE = CHECKOUT / "examples/traces/linked/lineage"
PAIR = (f"{LINEAGE}.json.gz", "--et", f"{LINEAGE}.execution-trace.json.gz")


def test_link_and_tensor_name_tensors_alike(run: Run) -> None:
    _, out, _ = run("tensor", *PAIR, "t6#2")
    assert out.startswith("t6#2: float32[24,4], 384 bytes on cpu, ")
    _, out, _ = run("link", PAIR[0], "--et", PAIR[2], "--op", "317")
    assert "t6#2: float32[24,4], 384 bytes on cpu, storage s319" in " ".join(out.split())
    _, out, _ = run("link", PAIR[0], "--et", PAIR[2], "--op", "317", "-f", "json", "-o", "-")
    (output,) = json.loads(out)["ops"][0]["metadata"]["outputs"]
    assert (output["name"], output["form"], output["storage"]) == ("t6#2", "float32[24,4]", "s319")
    assert (output["tensor_id"], output["storage_id"], output["dtype"]) == (6, 319, "float")


def test_memory_that_was_there_before(run: Run, simulated: tuple[Path, Path]) -> None:
    trace, execution = simulated
    nodes = json.loads(execution.read_text())["nodes"]
    linear = min((node for node in nodes if node["name"] == "aten::linear"), key=lambda node: node["id"])
    weight, storage, *_ = linear["inputs"]["values"][1]
    for name in (f"t{weight}", f"s{storage}"):
        _, out, _ = run("tensor", trace, "--et", execution, name, env={"COLUMNS": "200"})
        (line,) = (line for line in out.splitlines() if line.startswith("alive: "))
        assert line.startswith("alive: from before the recording to ")
    _, out, _ = run("tensor", *PAIR, "t6#3", env={"COLUMNS": "200"})
    (line,) = (line for line in out.splitlines() if line.startswith("alive: "))
    assert line.startswith("alive: made out of sight, before ")
