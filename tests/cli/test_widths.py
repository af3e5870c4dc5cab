"""No command prints a line that is wider than the terminal, but for the commands of hints."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from handmade import Run, small_trace

from corpus import CORPUS, loaded, needs_corpus
from tracelens_graph.analyses.diagnosis.outside_steps import steps_alone
from tracelens_graph.analyses.diagnosis.verdict import verdict
from tracelens_graph.graph.window import narrow, whole_window
from tracelens_graph.simulate import simulate, write
from tracelens_graph.utils.texts import width_of

COMMANDS = (
    "report T", "report T --all", "report T --table kernel_summary", "report T --table unified_perf_summary",
    "report T --short-kernels 10 --add call-stack --add overlap --table ops_unique_args", "report T U", "info T",
    "timeline T",
    "attribution T", "attribution T --level kernel", "modules T", "modules T --format table --by class",
    "diff T U", "diff T U --points --top 0", "diff T U --tree", "diff T U --point 1", "diff T U U --names a,b,c",
    "diff T U --tree --min-percent 0", "diff --within T",
    "tree T --max-lines 300", "tree T --max-lines 50 --labels full --gpu-time --uids", "diff --by-name T U", "ask",
    "diff T U --table kernel_summary --names averyveryverylongname_of_a_run,b", "ask idle_causes", "db queries",
    "ask idle_gaps T", "ask idle_causes T", "ask short_kernels T", "ask python_lines T", "ask unlinked T",
    "ask steps T", "replay T", "replay T --op /./ --top 5", "model architectures", "model architectures h100-sxm",
    "model gemm m=4096 n=4096 k=4096 --arch h100-sxm --arch mi300x",
)  # fmt: skip
HINTS = (
    "open in Perfetto UI: ", "ask next: ", "see it: ", "event with uid N", "captures beside it say",
    "what is behind each finding", "ops and layers that its graphs ran",
)  # fmt: skip
TRACES = (
    "tracelens/h100/qwen1.5-0.5b", "tracelens/mi300/resnet-ddp-checkpointing",
    "tracelens/inference/vllm-decode/graph-replay", "dlrm-8-ranks/kineto/rank0",
)  # fmt: skip


def too_wide(text: str, width: int) -> list[str]:
    lines = text.splitlines()
    return [line for line in lines if width_of(line) > width and not line.strip().startswith(HINTS)]


def check(run: Run, command: str, trace: Path, other: Path, width: int | None) -> None:
    names = {"T": str(trace), "U": str(other)}
    words = [names.get(word, word) for word in command.split()]
    code, out, err = run(*words, env={"COLUMNS": str(width) if width else ""})
    assert code == 0, err
    assert out
    assert too_wide(out, width or 100) == []


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two ranks in a folder with a short name, for its path is printed."""
    folder = tmp_path_factory.mktemp("job")
    write(simulate(ranks=2, steps=2, layers=1), folder)
    here = Path.cwd()
    os.chdir(folder)
    yield [Path("rank0.json.gz"), Path("rank1.json.gz")]
    os.chdir(here)


@pytest.mark.parametrize(
    ("command", "width"),
    [
        (command, width)
        for at, command in enumerate([*COMMANDS, "roofline T --arch h100-sxm"])
        for width in (80, (100, 120, None)[at % 3])
    ],
)
def test_every_command_fits(run: Run, job: list[Path], command: str, width: int | None) -> None:
    check(run, command, *job, width)


@pytest.mark.proof
@needs_corpus
@pytest.mark.parametrize("width", [80, None])
@pytest.mark.parametrize("name", TRACES)
@pytest.mark.parametrize("command", COMMANDS)
def test_real_traces_fit(run: Run, command: str, name: str, width: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    assert CORPUS
    monkeypatch.chdir(CORPUS)
    if "T" in command.split():
        check(run, command, Path(f"{name}.json.gz"), Path("tracelens/mi300/torch-compile-triton.json.gz"), width)


@needs_corpus
@pytest.mark.parametrize("name", TRACES)
def test_the_first_screen_is_one_screen(run: Run, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert CORPUS
    monkeypatch.chdir(CORPUS)
    code, out, _ = run("report", f"{name}.json.gz")
    assert code == 0
    assert out.count("\n") <= 57
    assert " ".join(out.split()).count("--all prints all tables") == 1


@needs_corpus
@pytest.mark.parametrize("width", [80, 120, 200])
@pytest.mark.parametrize("name", TRACES)
def test_a_report_ends_with_its_page_behind_all_findings(
    run: Run, name: str, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert CORPUS
    monkeypatch.chdir(CORPUS)
    monkeypatch.setenv("COLUMNS", str(width))
    w = whole_window(loaded(CORPUS / f"{name}.json.gz"))
    alone = steps_alone(w)
    first = [*verdict(narrow(w, step=alone[0])), alone[1]] if alone else verdict(w)
    for options, findings in (((), first), (("--all",), verdict(w))):
        code, out, _ = run("report", f"{name}.json.gz", *options)
        assert code == 0
        lines = out.splitlines()
        assert lines[-1] == f"see it: tracelens-graph report {name}.json.gz -o report.html"
        assert sum(line.startswith("* ") for line in lines) == len(findings)
        assert sum("uid N" in line for line in lines) == ("uid" in out.replace("uid N", "").replace("--uid", ""))
        left_out = next((at for at, line in enumerate(lines) if line.startswith("Left out:")), len(lines))
        assert not any(line.startswith("* ") for line in lines[left_out:])


def test_the_last_line_can_be_pasted_into_a_shell(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my trace.json").write_text(json.dumps(small_trace()))
    monkeypatch.chdir(tmp_path)
    last = run("report", "my trace.json", "--step", "5")[1].splitlines()[-1]
    assert last.removeprefix("see it: ") == "tracelens-graph report 'my trace.json' -o report.html --step 5"
