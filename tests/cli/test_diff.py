"""diff: the screen, places, trees, several traces, files, conditions."""

from __future__ import annotations

import csv
import gzip
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from call_trees import FORWARD, launch, op, trace
from handmade import HOSTILE, Run, small_trace, span
from html_pages import read

from corpus import CORPUS, needs_corpus
from tracelens_graph.simulate import simulate, write

Change = Callable[[dict[str, Any]], None]
VIT = ("tracelens/h100/vit-nsfw.json.gz", "tracelens/mi300/vit-nsfw.json.gz")


def changed(tmp_path: Path, name: str, change: Change) -> Path:
    """The small trace with something changed in each of its events."""
    trace = small_trace()
    for event in trace["traceEvents"]:
        change(event)
    path = tmp_path / f"{name}.json"
    path.write_text(json.dumps(trace))
    return path


@pytest.fixture
def slower(tmp_path: Path) -> Path:
    """The small trace with a GEMM of another name that takes 70.25 us in place of 50.25."""

    def change(event: dict[str, Any]) -> None:
        if event["name"] == "gemm":
            event |= {"name": "Cijk_gemm", "dur": 70.25}

    return changed(tmp_path, "slower", change)


def test_a_data_loader_that_makes_the_step_longer_is_slower(run: Run, tmp_path: Path) -> None:
    """What lies before the first GPU event of a step is not part of the time from first to last GPU event."""
    a, b = (
        write(simulate(layers=2, steps=4, jitter=0.05, seed=seed, **more), tmp_path / name)[0]
        for name, seed, more in (("a", 1, {}), ("b", 2, {"dataloader_us": 9000}))
    )
    code, out, err = run("diff", a, b, "--fail-if", "slower_percent > 50", "--fail-if", "total_time_percent > 50")
    assert code == 3
    assert re.findall(r"failed: (\w+) is [^(]*\((\w+)\)", err) == [("slower_percent", "step_time")]
    assert "  whole step, host and GPU" in out
    assert run("diff", a, b, "--fail-if", "step_time_ms > 1")[0] == 3
    assert run("diff", b, b, "--fail-if", "slower_percent > 3")[0] == 0


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Four ranks of which the second is late."""
    return write(simulate(ranks=4, steps=2, layers=4, dataloader_rank=1, dataloader_us=20_000),
                 tmp_path_factory.mktemp("job"))  # fmt: skip


def table(run: Run, *arguments: object) -> dict[str, Any]:
    code, out, err = run("diff", *arguments, "--top", "0", "--format", "json")
    assert (code, err) == (0, "")
    found: dict[str, Any] = json.loads(out)
    return found


def test_the_screen_says_what_changed_and_where(run: Run, trace_file: Path, slower: Path) -> None:
    code, out, err = run("diff", trace_file, slower)
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0].startswith("A (small): small.json")
    assert lines[1].startswith("B (slower): slower.json")
    assert "GPU time 0.070 -> 0.090 ms: 0.020 ms more (+28.5 %)" in lines
    assert "The place with most of the change (100 % of all that became faster or slower)" in lines
    (place,) = (line for line in lines if line.startswith(" 1"))
    assert place.split() == ["1", "+0.020", "ms", "aten::addmm:", "0.070", "->", "0.090", "ms"]
    assert any(line.startswith("The step of each is compared: --from 0ms takes all") for line in lines)


def test_work_without_a_launch_is_a_place(run: Run, trace_file: Path, slower: Path) -> None:
    code, out, _ = run("diff", trace_file, slower, "--from", "0ms")
    assert code == 0
    assert "GPU time 0.100 -> 0.120 ms: 0.020 ms more (+20.0 %)" in out
    assert "small: 30 % of the GPU time has no launch in the trace" in " ".join(out.split())
    assert "\x1b" not in out
    rows = table(run, trace_file, slower, "--from", "0ms", "--points")["rows"]
    assert [row["op"] for row in rows if not row["module"]] == ["(no launch in trace)"]


def test_the_hint_of_the_screen_draws_the_place(run: Run, trace_file: Path, slower: Path) -> None:
    _, out, _ = run("diff", trace_file, slower)
    (hint,) = (line.removeprefix("ask next: ") for line in out.splitlines() if line.startswith("ask next: "))
    code, out, err = run(*shlex.split(hint)[1:])
    assert (code, err) == (0, "")
    lines = [line.rstrip() for line in out.splitlines()]
    assert "-    0.050 ms    gemm" in lines
    assert "+    0.070 ms    Cijk_gemm" in lines
    following = [line.partition(": ")[2] for line in lines if line.startswith(("ask next: ", "open in"))]
    assert len(following) == 4  # what the trace records of addmm is too little to call it again
    for command in following[:2]:
        code, out, err = run(*shlex.split(command)[1:])
        assert (code, err) == (0, "")
        assert "aten::addmm" in out


def test_a_trace_does_not_differ_from_itself(run: Run, trace_file: Path) -> None:
    code, out, _ = run("diff", trace_file, trace_file)
    assert code == 0
    assert "The GPU work is the same, event by event: 0.070 ms" in out
    assert "ask next" not in out
    code, out, _ = run("diff", trace_file, trace_file, "--tree", "--from", "0ms")
    assert out.count("the same") == 2  # the module's work, and that without a launch
    assert {row["change_ms"] for row in table(run, trace_file, trace_file, "--points")["rows"]} == {0.0}


def test_changes_of_places_add_up_and_mirror(run: Run, trace_file: Path, slower: Path) -> None:
    there = table(run, trace_file, slower, "--points")["rows"]
    back = table(run, slower, trace_file, "--points")["rows"]
    assert sum(row["change_ms"] for row in there) == pytest.approx(0.020, abs=1e-9)
    assert [row["change_ms"] for row in there] == [-row["change_ms"] for row in back]
    assert [(row["a_ms"], row["uid_a"], row["kernels_a"]) for row in there] == [
        (row["b_ms"], row["uid_b"], row["kernels_b"]) for row in back
    ]
    first = there[0]
    assert (first["place"], first["op"], first["module"], first["times"]) == (1, "aten::addmm", "Linear", 1)
    assert (first["line_a"], first["uid_a"]) == ("train.py(3): step", 6)


def test_names_from_a_trace_are_harmless(run: Run, trace_file: Path, tmp_path: Path) -> None:
    def rename(event: dict[str, Any]) -> None:
        if event["name"] == "aten::addmm":
            event["name"] = HOSTILE

    other = changed(tmp_path, "hostile", rename)
    for options in ([], ["--tree"], ["--points"], ["--point", "1"], ["--points", "-f", "md"], ["-f", "md", "-o", "-"]):
        code, out, err = run("diff", trace_file, other, *options)
        assert code == 0, err
        assert "\x1b" not in out
    assert "|`<b>" not in out  # the last one is a page


def test_both_trees_as_one(run: Run, trace_file: Path, slower: Path) -> None:
    code, out, err = run("diff", trace_file, slower, "--tree")
    assert (code, err) == (0, "")
    lines = [line.rstrip() for line in out.splitlines()]
    (top,) = (line for line in lines if "Linear" in line)
    assert top.split()[:3] == ["0.070", "0.090", "+0.020"]
    assert any(line.endswith("- gemm") for line in lines)
    assert any(line.endswith("+ Cijk_gemm") for line in lines)
    assert any(line.split()[-2:] == ["Memcpy", "DtoH"] for line in lines)


def test_several_traces_are_compared_with_the_first(run: Run, trace_file: Path, slower: Path) -> None:
    code, out, err = run("diff", trace_file, slower, trace_file, "--names", "old,new,again")
    assert (code, err) == (0, "")
    assert "All runs have one structure" in out
    assert "again: all GPU time as in the first" in out
    rows = table(run, trace_file, slower, trace_file)["rows"]
    assert [row["structure"] for row in rows] == [1, 1, 1]
    assert [round(row["change_ms"], 6) for row in rows] == [0, 0.02, 0]


def test_runs_of_other_structure_are_told_apart(run: Run, job: list[Path], tmp_path: Path) -> None:
    fewer = write(simulate(ranks=1, steps=2, layers=2), tmp_path / "two")[0]
    rows = table(run, job[0], fewer, job[2])["rows"]
    assert [row["structure"] for row in rows] == [1, 2, 1]
    code, out, _ = run("diff", job[0], fewer, job[2], "--names", "a,b,c")
    assert code == 0
    assert "Structure 1: a, c" in out.splitlines()


def test_the_odd_rank_is_found(run: Run, job: list[Path]) -> None:
    (row,) = table(run, "--within", *job)["rows"]
    assert (row["part"], row["name"], row["differs"], row["parts"]) == ("rank", "rank1", "time", 4)
    code, out, _ = run("diff", "--within", *job)
    assert code == 0
    assert "4 ranks: 1 odd" in out


def test_the_odd_layer_is_found(run: Run, job: list[Path], tmp_path: Path) -> None:
    trace = json.loads(gzip.decompress(job[0].read_bytes()))
    layers = [event for event in trace["traceEvents"] if event["name"] == "nn.Module: TransformerLayer_2"]
    launched = set()
    for layer in layers:
        for event in trace["traceEvents"]:
            inside = event.get("tid") == layer["tid"] and layer["ts"] <= event.get("ts", 0) < layer["ts"] + layer["dur"]
            if inside and "correlation" in event.get("args", {}):
                launched.add(event["args"]["correlation"])
    for event in trace["traceEvents"]:
        if event.get("cat") == "kernel" and event["args"].get("correlation") in launched:
            event["dur"] *= 3
    path = tmp_path / "odd.json"
    path.write_text(json.dumps(trace))
    rows = table(run, "--within", path)["rows"]
    odd = [row for row in rows if row["part"] == "layer"]
    assert [(row["name"], row["parts"], row["alike"], row["differs"]) for row in odd] == [
        ("TransformerLayer_2", 4, 4, "time")
    ]
    assert odd[0]["gpu_ms"] == pytest.approx(3 * odd[0]["usual_ms"], rel=0.1)
    code, out, err = run("diff", "--within", path)
    assert (code, err) == (0, "")
    hints = [line.removeprefix("ask next: ") for line in out.splitlines() if line.startswith("ask next: ")]
    assert [run(*shlex.split(hint)[1:])[0] for hint in hints] == [0, 0]


def test_files(run: Run, trace_file: Path, slower: Path, tmp_path: Path) -> None:
    folder, document, page = tmp_path / "tables", tmp_path / "diff.json", tmp_path / "diff.md"
    code, out, err = run(
        "diff", trace_file, slower, "--csv", folder, "-o", document, "-o", page
    )  # fmt: skip
    assert (code, err) == (0, "")
    assert len(out.splitlines()) == 3
    assert {path.name for path in folder.glob("*.csv")} == {"diff_totals.csv", "diff_times.csv", "diff_places.csv"}
    with (folder / "diff_places.csv").open(newline="") as file:
        assert next(csv.DictReader(file))["op"] == "aten::addmm"
    found = json.loads(document.read_text())
    assert (found["a"]["name"], found["b"]["name"]) == ("small", "slower")
    assert found["tables"]["diff_totals"]["rows"][0]["time"] == "gpu_time"
    text = page.read_text()
    assert "**GPU time 0.070 -\\> 0.090 ms: 0.020 ms more (+28.5 %)**" in text
    assert "aten::addmm" in text
    mine = tmp_path / "mine.md"
    mine.write_text("mine")
    code, _, err = run("diff", trace_file, slower, "-o", mine)
    assert code != 0
    assert mine.read_text() == "mine"


@pytest.mark.parametrize(
    ("condition", "code"),
    [
        ("gpu_time_percent > 28", 3), ("gpu_time_percent > 29", 0), ("place:aten::addmm:ms >= 0.02", 3),
        ("place:aten::mm:ms > 0", 0), ("slower_percent > 3", 3), ("idle_time_ms > 1", 0),
    ],
)  # fmt: skip
def test_conditions(run: Run, trace_file: Path, slower: Path, condition: str, code: int) -> None:
    found, _, err = run("diff", trace_file, slower, "--fail-if", condition)
    assert found == code
    assert ("failed: " in err) == (code == 3)
    if "aten::mm" in condition:
        assert "counts as 0" in err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["T"], "name at least two traces"),
        (["-", "-"], "standard input: a pipe gives one trace, once"),
        (["T", "T", "--points", "-f", "json", "-o", "-"], "--points goes to standard output as well: name a file"),
        (["T", "T", "--tree", "--min-percent", "nan"], "nan is no number"),
        (["T", "T", "T", "--tree"], "--tree takes two traces, not 3"),
        (["--within", "T", "--points"], "--points takes two traces, not --within"),
        (["T", "T", "T", "--fail-if", "slower_percent > 1"], "--fail-if takes two traces, not 3; several take -f json"),
        (["--within", "T", "T"], "two are compared by `diff A B`"),
        (["T", "T", "--tree", "--points"], "give one of them"),
        (["T", "T", "--tree", "-f", "csv"], "--format is for tables"),
        (["T", "T", "--point", "99"], "there are"),
        (["T", "T", "--fail-if", "busy_ms > 1"], "--by-name compares those"),
        (["T", "T", "--fail-if", "total_ms:pct > 5"], "--by-name compares those"),
        (["T", "T", "--fail-if", "bussy_ms > 1"], "there is no figure"),
        (["T", "T", "--names", "a"], "1 names for 2 runs"),
        (["T", "T", "--min-percent", "2"], "--min-percent goes with --tree"),
        (["T", "T", "--layout", "tracelens", "--csv", "x", "--step", "1"], "leave out the options of windows"),
    ],
)
def test_what_cannot_be_asked(run: Run, trace_file: Path, arguments: list[str], said: str) -> None:
    code, _, err = run("diff", *(str(trace_file) if one == "T" else one for one in arguments))
    assert code == 2
    assert said in " ".join(err.replace("│", " ").split())


def test_a_pipe_that_is_named_twice_is_refused_and_not_waited_for(run: Run, tmp_path: Path) -> None:
    os.mkfifo(pipe := tmp_path / "pipe")
    code, _, err = run("diff", pipe, pipe)
    assert code == 2
    assert "a pipe gives one trace, once" in " ".join(err.split())


def test_traces_of_which_hardly_any_gpu_work_is_in_the_steps_are_compared_whole(run: Run, tmp_path: Path) -> None:
    (path,) = write(simulate(1, steps=3), tmp_path)
    trace = json.loads(gzip.decompress(path.read_bytes()))
    trace["traceEvents"] = [event for event in trace["traceEvents"] if event.get("cat") != "ac2g"]
    for event in trace["traceEvents"]:
        for link in ("correlation", "External id"):
            event.get("args", {}).pop(link, None)
    unlinked = tmp_path / "unlinked.json"
    unlinked.write_text(json.dumps(trace))
    code, out, _ = run("diff", path, unlinked)
    assert code == 0
    assert "no change in all" in out
    assert "step" not in out.splitlines()[0]


def test_parts_of_a_trace_without_gpu_work_and_ops_are_refused(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "cpu.json"
    path.write_text(json.dumps({"traceEvents": [span("user_annotation", "step", 0.0, 5.0)]}))
    code, out, err = run("diff", "--within", path)
    assert (code, out) == (1, "")
    assert "holds no GPU events to compare" in err


def test_traces_without_gpu_work_are_compared_by_host_time(run: Run, tmp_path: Path) -> None:
    def traces(scale: int) -> Path:
        made = [span("cpu_op", "aten::linear", 40.0 * n, 4 + 6 * scale) for n in range(4)]
        made += [span("cpu_op", "aten::addmm", 40.0 * n + 2, 6 * scale) for n in range(4)]
        path = tmp_path / f"{scale}.json"
        path.write_text(json.dumps({"traceEvents": made}))
        return path

    paths = [traces(1), traces(2)]
    for words in ([], ["--points"], ["--point", "1"], ["--tree"], [paths[0]]):
        code, out, err = run("diff", *paths, *words)
        assert (code, err) == (0, "")
        assert "kernel" not in out
        assert "GPU" not in out
    code, out, err = run("diff", *paths)
    assert "These are host times" in out
    assert "Host time 0.040 -> 0.064 ms: 0.024 ms more (+60.0 %)" in out
    assert " 1    +0.024 ms  aten::addmm x 4: 0.024 -> 0.048 ms" in out
    assert run("diff", *paths, "--fail-if", "gpu_time_percent > 5")[0] == 3
    page = tmp_path / "diff.html"
    assert run("diff", *paths, "-o", page)[0] == 0
    assert len(read(page.read_text()).body["places"]) == 2
    assert "holds no GPU events" in run("diff", *paths, "--layout", "tracelens", "--csv", tmp_path / "t")[2]


def test_a_folder_stands_for_its_traces(run: Run, job: list[Path]) -> None:
    code, out, err = run("diff", "--within", job[0].parent)
    assert code == 0
    assert "4 ranks" in out
    assert "left out 8 files that are not traces" in err


def hints_of(out: str) -> list[str]:
    return [line.removeprefix("ask next: ") for line in out.splitlines() if line.startswith("ask next: ")]


def test_ranks_without_a_common_structure_are_not_called_alike(run: Run, tmp_path: Path) -> None:
    ranks = [write(simulate(ranks=1, steps=1, layers=layers), tmp_path / f"rank{layers}")[0] for layers in (1, 3, 6)]
    code, out, err = run("diff", "--within", *ranks)
    assert (code, err) == (0, "")
    said = " ".join(out.split())
    assert "alike" not in said
    assert "rank6 of 3: the slowest" in said
    assert "against rank1, the fastest" in said
    assert "3 structures, none of them in most" in said
    report, pair = hints_of(out)
    assert shlex.split(report) == ["tracelens-graph", "report", *map(str, ranks)]
    assert pair.split()[1:] == ["diff", str(ranks[0]), str(ranks[2])]
    (row,) = table(run, "--within", *ranks)["rows"]
    assert (row["differs"], row["usual"], row["name"]) == ("spread", "rank1", "rank6")
    assert [run(*shlex.split(hint)[1:])[0] for hint in (report, pair)] == [0, 0]


def test_more_of_the_same_work_leads_to_a_comparison_by_name(run: Run, tmp_path: Path) -> None:
    """A block takes 8 us of the host, so that three fewer and 24 us more are as long."""
    paths = []
    for blocks, waits in ((20, 0), (17, 12)):
        calls = [op("block", *(launch(f"k{n}", 2) for n in range(3))) for _ in range(blocks)]
        calls[-1:-1] = [op("wait") for _ in range(waits)]
        paths.append(tmp_path / f"{blocks}.json")
        paths[-1].write_text(json.dumps(trace([(FORWARD, calls)])))
    code, out, err = run("diff", *paths, "--from", "0ms")
    assert (code, err) == (0, "")
    assert "calls 0.85x" in out
    hint = hints_of(out)[-1]
    assert " --by-name" in hint
    assert run(*shlex.split(hint)[1:])[0] == 0


def test_only_places_that_differ_are_listed_for_people(run: Run, job: list[Path], tmp_path: Path) -> None:
    other = write(simulate(ranks=1, steps=2, layers=4, tiny_kernels=3), tmp_path / "other")[0]
    code, out, _ = run("diff", job[0], other, "--noise", "off")
    assert code == 0
    shown = len(re.findall(r"^ ?\d+ +[+-]", out, re.MULTILINE))
    more = re.search(r"^([\d,]+) more: ", out, re.MULTILINE)
    rows = table(run, job[0], other, "--points")["rows"]
    differ = [row for row in rows if row["reason"] != "same"]
    assert shown + (int(more[1].replace(",", "")) if more else 0) == len(differ)
    code, out, _ = run("diff", job[0], other, "--points", "--top", "0", "--noise", "off")
    assert len(re.findall(r"^ ?\d+ +-?\d", out, re.MULTILINE)) == len(differ)
    code, out, _ = run("diff", job[0], job[0], "--points")
    assert code == 0
    same = len(table(run, job[0], job[0], "--points")["rows"])
    assert "Nothing differs: the GPU work is the same, event by event" in out
    assert f"{same} places are the same on both sides, and not listed" in out


def test_hints_keep_names_and_need_files(run: Run, trace_file: Path, slower: Path) -> None:
    (hint,) = hints_of(run("diff", trace_file, slower, "--names", "old,new one")[1])
    assert shlex.split(hint)[-4:] == ["--names", "old,new one", "--point", "1"]
    assert run(*shlex.split(hint)[1:])[0] == 0
    for options in ([], ["--point", "1"]):
        command = [sys.executable, "-m", "tracelens_graph", "diff", str(trace_file), "-", *options]
        with slower.open("rb") as file:
            found = subprocess.run(command, stdin=file, capture_output=True, text=True, check=True)
        assert "aten::addmm" in found.stdout
        assert not hints_of(found.stdout)
        assert "open in Perfetto UI" not in found.stdout


def test_errors_name_the_trace(run: Run, trace_file: Path, slower: Path) -> None:
    for option, value, said in (
        ("--step", "99", "no step 99"), ("--under", "nothing", "nothing"), ("--annotation", "nothing", "nothing"),
        ("--device", "7", "only device 0"),
    ):  # fmt: skip
        code, _, err = run("diff", trace_file, slower, option, value)
        assert code == 1
        assert f"{trace_file}: " in err
        assert said in err


@needs_corpus
def test_the_convolution_is_drawn_as_two_branches(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    assert CORPUS
    monkeypatch.chdir(CORPUS)
    rows = table(run, *VIT, "--points")["rows"]
    (row,) = (row for row in rows if row["op"] == "aten::_convolution")
    assert (round(row["a_ms"], 3), round(row["b_ms"], 3)) == (0.126, 0.046)
    assert row["module"] == "ViTModel/ViTEmbeddings/ViTPatchEmbeddings/Conv2d"
    code, out, err = run("diff", *VIT, "--point", row["place"])
    assert (code, err) == (0, "")
    signs = [line[0] for line in out.splitlines() if line[:1] in "-+" and "ms  " in line]
    assert signs == ["-"] * row["events_a"] + ["+"] * row["events_b"]
    assert "-              aten::cudnn_convolution" in out
    assert "+              aten::miopen_convolution" in out


@needs_corpus
def test_the_screen_is_one_screen(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    assert CORPUS
    monkeypatch.chdir(CORPUS)
    for name in ("bert-small", "vit-nsfw", "qwen1.5-0.5b"):
        for width in ("80", "120"):
            code, out, _ = run("diff", *(f"tracelens/{gpu}/{name}.json.gz" for gpu in ("h100", "mi300")),
                               env={"COLUMNS": width})  # fmt: skip
            assert code == 0
            assert out.count("\n") <= 40
            assert out.splitlines()[0].startswith("A (h100): ")


def test_ranks_of_one_job_are_compared_in_the_same_step(run: Run, tmp_path: Path) -> None:
    write(simulate(ranks=2, steps=3, slow_rank=1, slow_factor=1.2, seed=3), tmp_path, traces_only=True)
    first, second = run("diff", *sorted(tmp_path.glob("*.gz")))[1].splitlines()[:2]
    (step,) = set(re.findall(r"only step \d+", first + second))
    assert first.endswith(step)


def test_what_changed_between_steps_of_servers_leads_to_their_phase(run: Run, tmp_path: Path) -> None:
    from tracelens_graph.simulate.serving import simulate as simulate_server

    traces = []
    for culprit in ("none", "sampling"):
        write(simulate_server(steps=20, sizes=(8, 16), culprit=culprit), tmp_path / culprit, traces_only=True)
        traces.append(tmp_path / culprit / "rank0.json.gz")
    out = run("diff", *traces)[1]
    asked, *_ = (line for line in out.splitlines() if line.startswith("ask next: "))
    assert asked.endswith("--phase decode")
    assert " ask idle_causes " in asked
    assert "sampling_hook" in run(*shlex.split(asked)[3:])[1]
    assert "--phase" not in run("diff", traces[0], traces[0])[1].splitlines()[-1]


def test_a_page_names_what_tells_the_paths_apart(run: Run, slower: Path, trace_file: Path, tmp_path: Path) -> None:
    (tmp_path / "new").mkdir()
    other = slower.rename(tmp_path / "new" / trace_file.name)
    page = tmp_path / "diff.html"
    assert run("diff", trace_file, other, "-o", page) == (0, f"wrote {page}\n", "")
    held = read(page.read_text())
    commands = [command for place in held.body["places"] for _, command in place["commands"]]
    first = f"{trace_file.parent.name}/{trace_file.name}"
    assert commands[0] == f"tracelens-graph diff {first} new/{trace_file.name} --point 1"
    assert any(command.startswith(f"tracelens-graph tree new/{trace_file.name} --uid ") for command in commands)
    assert str(tmp_path) not in json.dumps([held.head, held.body])
    code, _, err = run("diff", trace_file, other, trace_file, "-o", tmp_path / "other.html")
    assert (code, "no html: an answer on several traces is written as csv" in err) == (2, True)
