"""Windows on the command line: what is chosen, what is refused."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest
from handmade import Run
from typer import BadParameter

from tracelens_graph.cli.windows import numbers_of


def kernels(run: Run, trace: Path, *options: object) -> list[str]:
    code, out, err = run("report", trace, "--table", "kernel_summary", "--format", "csv", *options)
    assert (code, err) == (0, "")
    return [row["Kernel name"][:4] for row in csv.DictReader(io.StringIO(out, newline=""))]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ([], ["gemm", "evil"]),
        (["--step", "5"], ["gemm"]),
        (["--step", "5-5", "--device", "0", "--stream", "7"], ["gemm"]),
        (["--annotation", "ProfilerStep#5", "--all-threads"], ["gemm"]),
        (["--from", "50us"], ["gemm"]),
        (["--to", "0.05ms"], ["evil"]),
        (["--under", "6"], ["gemm"]),
        (["--under", "aten::addmm"], ["gemm"]),
        (["--under", "Linear_0"], ["gemm"]),
        (["--under", "/^aten::add/"], ["gemm"]),
        (["--annotation", "/Step#[5-9]/", "--all-threads"], ["gemm"]),
        (["--stream", "8"], []),
    ],
)
def test_windows(run: Run, trace_file: Path, options: list[str], expected: list[str]) -> None:
    assert kernels(run, trace_file, *options) == expected


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (["--step", "x"], 2, "no list of steps"),
        (["--step", "5-3"], 2, "no range of steps"),
        (["--step", "7"], 1, "the trace has no step 7; steps in it: 5"),
        (["--all-threads"], 2, "--all-threads needs --annotation"),
        (["--from", "soon"], 2, "--from: 'soon' is no time"),
        (["--under", "99"], 1, "no node has uid 99"),
        (["--under", "/(/"], 2, "--under: '(' is no regular expression"),
        (["--under", "/^mm$/"], 1, "no module, function, op or runtime call '/^mm$/'"),
        (["--annotation", "/(/"], 2, "--annotation: '(' is no regular expression"),
        (["--device", "4"], 1, "no GPU event is on device 4; there is only device 0"),
    ],
)
def test_what_is_refused(run: Run, trace_file: Path, options: list[str], code: int, message: str) -> None:
    found, out, err = run("timeline", trace_file, *options)
    assert (found, out) == (code, "")
    assert message in " ".join(err.replace("│", " ").split())


def test_lists_of_steps() -> None:
    assert numbers_of("3", "--step") == (3,)
    assert numbers_of("1, 4-6", "--step") == (1, 4, 5, 6)
    with pytest.raises(BadParameter):
        numbers_of("0-99999999999", "--step")
