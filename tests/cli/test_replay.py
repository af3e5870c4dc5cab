"""`replay`: what it lists, writes and refuses."""

from __future__ import annotations

import ast
import csv
import io
import json
from pathlib import Path

import pytest
from handmade import HOSTILE, Run, span
from recorded_calls import calls

from corpus import CHECKOUT, needs_corpus, traces_named
from tracelens_graph.registry import schema_of
from tracelens_graph.replay.folder import INDEX, read_folder
from tracelens_graph.simulate import simulate, write

QWEN = "tracelens/h100/qwen1.5-0.5b"


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    path = tmp_path / "trace.json"
    path.write_text(json.dumps(calls()))
    return path


def rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_without_a_folder_it_lists(run: Run, trace: Path) -> None:
    code, out, err = run("replay", trace)
    assert (code, err) == (0, "")
    assert "Can be replayed: 26.7 % of the GPU time." in out
    assert "38.2 %  a captured graph launched it" in out
    assert out.splitlines()[-1] == f"ask next: tracelens-graph replay {trace} -o replay/"
    assert "--collectives -o collectives/" not in out  # the trace does not tell their group
    assert not (trace.parent / "replay").exists()


@pytest.mark.parametrize(
    ("options", "ops"),
    [
        ((), ["c10d::allreduce_", "aten::mm", "my::fused", "aten::mm", "aten::copy_"]),
        (("--top", "2"), ["c10d::allreduce_", "aten::mm"]),
        (("--op", "aten::mm"), ["aten::mm", "aten::mm"]),
        (("--op", "/m(at)?m/", "--top", "1"), ["aten::mm"]),
        (("--op", "aten::view"), ["aten::view"]),
        (("--uid", "3"), ["aten::mm"]),
        (("--uid", "0"), ["aten::matmul"]),
        (("--by", "below-roof", "--arch", "h100-sxm"), ["aten::mm", "aten::mm", "aten::copy_"]),
        (("--under", "10"), ["my::fused", "aten::copy_"]),
    ],
)
def test_operations_are_chosen(run: Run, trace: Path, options: tuple[str, ...], ops: list[str]) -> None:
    code, out, err = run("replay", trace, *options, "-f", "csv")
    assert (code, err) == (0, "")
    assert [row["op"] for row in rows(out)] == ops


def test_a_row_says_what_is_called_again(run: Run, trace: Path) -> None:
    row = rows(run("replay", trace, "--op", "aten::mm", "-f", "csv")[1])[0]
    assert (row["calls"], row["time_us"], row["median_us"], row["uid"]) == ("2", "40.0", "20.0", "4")
    assert (row["kernel"], row["plan"], row["why"], row["input_dims"]) == ("gemm", "yes", "", "[[8, 16], [16, 4]]")
    assert float(row["percent"]) == pytest.approx(100 * 40 / 262)


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        (("--op", "aten::mn"), 1, "did you mean aten::mm"),
        (("--uid", "25"), 1, "--under 25 takes the operations below it"),
        (("--uid", "20"), 1, "belongs to no operation"),
        (("--by", "below-roof"), 1, "name a device with --arch"),
        (("--op", "a", "--uid", "3"), 2, "--op and --uid"),
        (("--by", "below-roof", "--op", "a"), 2, "leave out --op and --uid"),
        (("--batch",), 2, "--batch needs -o DIR"),
        (("-o", "ops.csv"), 2, "names a folder for programs"),
        (("--collectives", "-o", "d", "--op", "a"), 2, "--collectives takes all of them"),
        (("--python", "p"), 2, "--python goes with --verify"),
        (("--verify", "--op", "a"), 2, "leave out --op"),
        (("--op", "/(/"), 2, "is no regular expression"),
        (("--op", "my::fused", "-o", "d"), 1, "nothing can be replayed: custom op"),
    ],
)
def test_what_cannot_be_is_said_in_one_line(
    run: Run, trace: Path, options: tuple[str, ...], code: int, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(trace.parent)
    ended, out, err = run("replay", trace, *options)
    assert (ended, out) == (code, "")
    assert said in " ".join(err.replace("│", " ").split())
    assert not (trace.parent / "d").exists()


def test_of_a_trace_without_gpu_work_the_longest_on_the_host_are_taken(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "cpu.json"
    events = [event for event in calls()["traceEvents"] if event["cat"] == "cpu_op"]
    path.write_text(json.dumps({"traceEvents": events}))
    code, out, err = run("replay", path, "--top", "1")
    assert (code, err) == (0, "")
    assert out.startswith("Operations to replay, the longest on the host first")
    assert "aten::matmul" in out
    assert "aten::copy_" not in out
    code, _, err = run("replay", path, "--by", "below-roof", "--arch", "h100-sxm")
    assert (code, err) == (1, "error: there is no GPU work to choose operations by; name one with --op or --uid\n")
    code, out, err = run("replay", path, "--op", "aten::mm")
    assert (code, err) == (0, "")
    assert out.count("aten::mm") >= 2


# --- files -----------------------------------------------------------------------------------------------------------


def test_a_program_per_signature_is_written(run: Run, trace: Path, tmp_path: Path) -> None:
    folder = tmp_path / "programs"
    code, out, err = run("replay", trace, "-o", folder)
    assert (code, err) == (0, "")
    files = sorted(path.name for path in folder.glob("*.py"))
    assert [name.rpartition("_")[0] for name in files] == ["001_aten_mm", "002_aten_mm", "003_aten_copy"]
    for name in files:
        ast.parse((folder / name).read_text("ascii"))
    assert f"wrote 3 programs and replay.json to {folder}, for 26.7 % of the GPU time" in out
    assert "left out: c10d::allreduce_: collective" in out
    assert f"run the first: python {folder / files[0]}" in out
    assert f"verify them: tracelens-graph replay --verify {folder} --python python" in out
    assert out.splitlines()[-1].endswith("tracelens-graph replay --compare FOLDER_A FOLDER_B")
    listed = read_folder(folder)
    assert [one.file for one in listed] == files
    (plan,) = listed[0].plans
    assert (plan.op, plan.traced.calls, plan.traced.uid, plan.traced.kernels) == ("aten::mm", 2, 4, ("gemm",))
    assert (plan.traced.kernel_us, plan.traced.median_us, plan.traced.gpu) == (30.0, 20.0, "GPU of tests")
    assert (plan.work.flops, plan.work.roof_us) == (2 * 8 * 16 * 4, None)


def test_a_second_run_supersedes_the_first_and_nothing_else(run: Run, trace: Path, tmp_path: Path) -> None:
    folder = tmp_path / "programs"
    run("replay", trace, "-o", folder)
    first = {path.name for path in folder.glob("*.py")}
    (folder / "mine.py").write_text("mine")
    edited = next(folder.glob("003*"))
    edited.write_text("edited")
    code, out, err = run("replay", trace, "--top", "1", "-o", folder)
    assert (code, err) == (0, "")
    assert out.startswith("removed 002_aten_mm_")
    left = {path.name for path in folder.glob("*.py")}
    assert left == {"mine.py", edited.name, *(name for name in first if name.startswith("001"))}
    assert len(read_folder(folder)) == 1


def test_programs_are_counted_that_can_be_written(run: Run, trace: Path, tmp_path: Path) -> None:
    code, out, err = run("replay", trace, "--top", "2", "-o", tmp_path / "programs")
    assert (code, err) == (0, "")
    files = sorted(path.name for path in (tmp_path / "programs").glob("*.py"))
    assert [name.rpartition("_")[0] for name in files] == ["001_aten_mm", "002_aten_mm"]
    assert "left out: c10d::allreduce_: collective" in out
    run("replay", trace, "--top", "2", "--batch", "-o", tmp_path / "batch")
    (listed,) = read_folder(tmp_path / "batch")
    assert [plan.traced.calls for plan in listed.plans] == [2, 1]


def test_programs_to_be_filled_in_are_counted_by_themselves(run: Run, tmp_path: Path) -> None:
    call = span("cpu_op", "triton_poi_fused_add_0", 0, 20, grid="grid(100,)")
    call["args"] |= {"Input Dims": [[8]], "Input type": ["float"], "Input Strides": [[1]], "Concrete Inputs": [""]}
    launch = span("cuda_runtime", "cuLaunchKernel", 5, 2, correlation=1)
    kernel = span("kernel", "triton_poi_fused_add_0", 30, 12.5, 0, 7, device=0, stream=7, correlation=1, grid=[2, 1, 1])
    (tmp_path / "triton.json").write_text(json.dumps({"schemaVersion": 1, "traceEvents": [call, launch, kernel]}))
    code, out, _ = run("replay", tmp_path / "triton.json", "-o", tmp_path / "programs")
    lines = out.splitlines()
    assert (code, lines[0].startswith("wrote 1 program ")) == (0, True)
    assert lines[1].startswith("1 operation of these, for 100.0 %")
    assert all("--kernel-source FILE" in line for line in (lines[1], lines[-4]))


def test_files_of_others_are_not_overwritten(run: Run, trace: Path, tmp_path: Path) -> None:
    folder = tmp_path / "programs"
    folder.mkdir()
    (folder / INDEX).write_text("mine")
    code, _, err = run("replay", trace, "-o", folder)
    assert code == 1
    assert "was not written by tracelens-graph" in err
    assert [path.name for path in folder.iterdir()] == [INDEX]
    assert run("replay", trace, "-o", folder, "--force")[0] == 0


def test_a_batch_is_one_program(run: Run, trace: Path, tmp_path: Path) -> None:
    folder = tmp_path / "batch"
    code, out, err = run("replay", trace, "--batch", "-o", folder)
    assert (code, err) == (0, "")
    assert f"run it: python {folder / 'run.py'}" in out
    (listed,) = read_folder(folder)
    assert (listed.kind, [plan.traced.calls for plan in listed.plans]) == ("full", [2, 1, 1])
    run("replay", trace, "-o", folder)
    assert not (folder / "run.py").exists()


def test_a_hostile_trace_writes_nothing_but_its_programs(run: Run, tmp_path: Path) -> None:
    trace = calls()
    for event in trace["traceEvents"]:
        if event["cat"] == "kernel":
            event["name"] = HOSTILE + '"""\n' + event["name"]
    for name in ("aten::../../x", "aten::mm\x00", "prims::" + "a" * 400):
        trace["traceEvents"][4]["name"] = name
        path = tmp_path / "hostile.json"
        path.write_text(json.dumps(trace))
        code, out, err = run("replay", path, "-o", tmp_path / "out")
        assert (code, err) == (0, "")
        assert "\x1b" not in out
        assert {one.name for one in tmp_path.iterdir()} == {"hostile.json", "out"}
        for file in (tmp_path / "out").glob("*.py"):
            ast.parse(file.read_text("ascii"))


@pytest.mark.parametrize("index", ["", "[]", "{}", '{"operations": [1]}', '{"operations": [{"file": "../x.py"}]}'])
def test_a_folder_that_is_none_is_refused(run: Run, tmp_path: Path, index: str) -> None:
    if index:
        (tmp_path / INDEX).write_text(index)
    code, out, err = run("replay", "--verify", tmp_path)
    assert (code, out) == (1, "")
    assert err.startswith(f"error: {tmp_path}")
    assert err.count("\n") == 1


def test_operations_below_a_node_are_one_program(run: Run, trace: Path, tmp_path: Path) -> None:
    folder = tmp_path / "sequence"
    _, screen, _ = run("replay", trace, "--under", "aten::matmul")
    assert "As one program: 1 operation\n" in screen
    assert screen.splitlines()[-1].endswith("-o replay/ --under aten::matmul")
    code, out, err = run("replay", trace, "--under", "aten::matmul", "-o", folder)
    assert (code, err) == (0, "")
    (listed,) = read_folder(folder)
    assert listed.kind == "sequence"
    assert [plan.op for plan in listed.plans] == ["aten::matmul"]
    ast.parse((folder / listed.file).read_text("ascii"))
    assert f"run it: python {folder / listed.file}" in out
    code, _, _ = run("replay", trace, "--under", "aten::matmul", "--top", "0", "-o", folder)
    assert (code, [one.kind for one in read_folder(folder)]) == (0, ["op"])


def test_what_is_below_a_node_may_not_be_one_program(run: Run, trace: Path) -> None:
    code, out, err = run("replay", trace, "--under", "my::fused")
    assert (code, err) == (0, "")
    assert "As one program: nothing below my::fused can be replayed" in out
    assert "-o replay/" in out  # the operations below it one by one
    assert out.splitlines()[-1].startswith("As one program")


def test_collectives_are_one_program(run: Run, tmp_path: Path) -> None:
    write(simulate(ranks=2, steps=1, layers=1), tmp_path)
    code, out, err = run("replay", tmp_path / "rank0.json.gz", "--collectives", "-o", tmp_path / "out")
    assert (code, err) == (0, "")
    assert "run it: torchrun --nproc-per-node 2 " in out
    assert "--collectives -o collectives/" in run("replay", tmp_path / "rank0.json.gz")[1]
    (listed,) = read_folder(tmp_path / "out")
    assert (listed.file, listed.kind) == ("collectives.py", "collectives")


@pytest.mark.parametrize("table", ["replay_signatures", "replay_coverage"])
def test_a_table_alone(run: Run, trace: Path, table: str) -> None:
    found = rows(run("replay", trace, "--table", table, "-f", "csv")[1])
    assert list(found[0]) == list(schema_of(table))
    code, out, _ = run("replay", trace, "--table", table, "--top", "2")
    assert code == 0
    assert "ask next" not in out
    code, _, err = run("replay", trace, "--table", "replay_covrage")
    assert (code, "did you mean replay_coverage?" in " ".join(err.split())) == (2, True)


def test_results_are_compared(run: Run, tmp_path: Path) -> None:
    for name, us in (("a", 10.0), ("b", 30.0)):
        signature = {"dims": [[8]], "types": ["float"], "strides": [[1]], "values": [""]}
        result = {"op": "aten::relu", "signature": signature, "device": f"GPU {name}", "torch": "2.9", "median_us": us,
                  "spread_us": [us, us], "iterations": 5, "traced_us": 9.0, "kernels": ["k"]}  # fmt: skip
        (tmp_path / f"{name}.json").write_text(json.dumps([result]))
    files = [tmp_path / "a.json", tmp_path / "b.json", tmp_path / "a.json"]
    code, out, err = run("replay", "--compare", *files, "-f", "csv")
    assert (code, err) == (0, "")
    (row,) = rows(out)
    assert (row["op"], row["device_B_ratio"], row["device_C_ratio"]) == ("aten::relu", "3.0", "1.0")
    code, out, _ = run("replay", "--compare", *files, "--table", "replay_devices", "-f", "csv")
    assert [(row["device"], row["sum_us"]) for row in rows(out)] == [("A", "10.0"), ("B", "30.0"), ("C", "10.0")]
    code, out, _ = run("replay", "--compare", *files)
    assert (code, "GPU b" in out, "aten::relu" in out) == (0, True, True)
    for wrong in (["--top", "3"], ["--verify"], ["--table", "replay_coverage"]):
        assert run("replay", "--compare", *files, *wrong)[0] == 2
    assert run("replay", *files)[0] == 2


def test_a_sweep_and_a_script_of_products(run: Run, trace: Path, tmp_path: Path) -> None:
    code, out, _ = run("replay", trace, "--op", "aten::mm", "--sweep", "batch=1,8", "-o", tmp_path / "sweep")
    assert (code, len(out.splitlines()), len(list((tmp_path / "sweep").glob("*.py")))) == (0, 6, 2)
    assert out.startswith("changes self.0 (8)\n")
    code, out, err = run("replay", trace, "--op", "aten::copy_", "--gemms", "cublas")
    assert (code, out, len(err.splitlines())) == (1, "", 1)
    code, out, _ = run("replay", trace, "--gemms", "hipblaslt", "--top", "0")
    assert (code, out.startswith("#!/bin/sh"), "hipblaslt-bench --function matmul -m 4 -n 8 -k 16" in out) == (
        0,
        True,
        True,
    )
    for wrong in (["--gemms", "rocblas"], ["--gemms", "cublas", "-o", "x"], ["--sweep", "batch=1"]):
        assert run("replay", trace, *wrong)[0] == 2
    assert run("replay", trace, "--sweep", "batch=0", "-o", tmp_path / "none")[0] == 1
    twice = ("--sweep", "batch=1", "--sweep", "16=2", "-o", tmp_path / "none")
    code, _, err = run("replay", trace, "--op", "aten::mm", *twice)
    assert (code, "--sweep" in err, (tmp_path / "none").exists()) == (2, True, False)


def test_traces_and_folders_are_told_where_they_go(run: Run, trace: Path, tmp_path: Path) -> None:
    code, _, err = run("replay", "--compare", trace, trace)
    assert (code, "tracelens-graph diff" in " ".join(err.split())) == (1, True)
    run("replay", trace, "-o", tmp_path / "programs")
    code, _, err = run("replay", tmp_path / "programs")
    assert (code, "replay --verify" in " ".join(err.split())) == (2, True)
    (tmp_path / "a.json").write_text("[]")
    code, _, err = run("replay", "--compare", tmp_path / "a.json", trace)
    assert (code, "holds no results" in " ".join(err.split())) == (1, True)


@pytest.mark.parametrize("categories", [(), ("kernel",)])
def test_why_nothing_is_written(run: Run, tmp_path: Path, categories: tuple[str, ...]) -> None:
    path = tmp_path / "part.json"
    path.write_text(
        json.dumps(calls() | {"traceEvents": [e for e in calls()["traceEvents"] if e["cat"] in categories]})
    )
    code, _, err = run("replay", path, "-o", tmp_path / "out")
    assert code == 1
    assert ("no operation launched the GPU work" if categories else "part.json: is empty") in err
    assert not (tmp_path / "out").exists()


def test_one_file_of_results_is_not_enough(run: Run, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(json.dumps([{"op": "x", "signature": None, "median_us": 1.0}]))
    code, _, err = run("replay", tmp_path / "a.json")
    assert (code, "--compare puts several such files side by side" in " ".join(err.replace("│", " ").split())) == (
        2,
        True,
    )


def test_nothing_compared_is_said(run: Run, tmp_path: Path) -> None:
    for name, entry in (("a", {"op": "x", "error": "no memory"}), ("b", {"op": "x", "median_us": 1.0}), ("c", [])):
        (tmp_path / f"{name}.json").write_text(json.dumps(entry))
    code, _, err = run("replay", "--compare", tmp_path / "a.json", tmp_path / "b.json")
    assert (code, "nothing was compared" in err) == (1, True)
    code, _, err = run("replay", "--compare", tmp_path / "b.json", tmp_path / "c.json")
    assert (code, "c.json: holds no results" in err) == (1, True)


def test_nothing_verified_is_said(run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "collectives"
    run("replay", CHECKOUT / "examples/traces/gloo-2-ranks/rank0.json.gz", "--collectives", "-o", folder)
    code, out, err = run("replay", "--verify", folder)
    assert (code, "needs ranks" in out, "nothing was verified" in err) == (1, True, True)


def test_without_torch_nothing_is_verified(run: Run, trace: Path, tmp_path: Path) -> None:
    folder = tmp_path / "programs"
    run("replay", trace, "--top", "2", "-o", folder)
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\nexit 1\n")
    python.chmod(0o755)
    code, out, _ = run("replay", "--verify", folder, "--python", python)
    assert (code, "no torch" in out) == (1, True)


# --- real traces -----------------------------------------------------------------------------------------------------


@needs_corpus
def test_nearly_all_time_under_operations_of_pytorch_has_a_plan(run: Run) -> None:
    (path,) = traces_named(QWEN)
    found = rows(run("replay", path, "--top", "0", "-f", "csv")[1])
    share = {state: sum(float(row["percent"]) for row in found if row["plan"] == state) for state in ("yes", "no")}
    assert share["no"] < 0.1
    assert sum(float(row["percent"]) for row in found) == pytest.approx(100.0)  # of the step, as `report` takes it
    whole = rows(run("replay", path, "--top", "0", "--from", "0ms", "-f", "csv")[1])
    assert sum(float(row["percent"]) for row in whole) == pytest.approx(69.9, abs=0.1)
