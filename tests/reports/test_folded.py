"""Folded stacks: the lines of a small trace, what names cannot break, and that real ones add up to the GPU time."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pytest
from handmade import small_trace, span

from corpus import chosen_traces, loaded, parametrize
from tracelens_graph.errors import AnalysisError
from tracelens_graph.loading.one import load_core
from tracelens_graph.reports import folded as module
from tracelens_graph.reports.folded import folded, write_folded

LINE = re.compile(r"(?P<stack>[^\n]+) (?P<value>\d+)")
"""A line as flamegraph.pl and speedscope read it."""


def test_lines_of_a_small_trace() -> None:
    file = io.BytesIO()
    assert write_folded(load_core(small_trace()).everything, file) == 3
    assert file.getvalue().decode().splitlines() == [
        "(no launch in trace);evil\\x1b[31m|`<b>\\n=1+1 30000",
        "forward;Linear_0;aten::addmm;Memcpy DtoH 20000",
        "forward;Linear_0;aten::addmm;gemm 50250",
    ]


def test_names_break_no_line() -> None:
    names = ["a;b", "c\nd 7", "\ud800", " ", "0" * 1000 + "x", "0" * 1000 + "y", "é\u2028"]
    events = [
        span("kernel", name, 100.0 * at, 10 + at, 0, 7, device=0, stream=7, correlation=at)
        for at, name in enumerate(names, 1)
    ]
    file = io.BytesIO()
    write_folded(load_core(events).everything, file)
    lines = file.getvalue().decode().splitlines()
    assert all(LINE.fullmatch(line) for line in lines)
    assert sum(int(line.rsplit(" ", 1)[1]) for line in lines) == sum(1000 * (10 + at) for at in range(1, 8))
    assert {line.count(";") for line in lines} == {1}
    assert "(no launch in trace);a:b 11000" in lines
    assert len(lines) == 6  # two names that are alike as far as they are written


def test_the_middle_of_a_deep_stack_gives_way(monkeypatch: pytest.MonkeyPatch) -> None:
    events = [span("python_function", f"nn.Module: M_{at}", 10 + at, 1000 - 2 * at) for at in range(20)]
    events += [
        span("cuda_runtime", "cudaLaunchKernel", 100, 5, correlation=1),
        span("kernel", "k", 200, 3, 0, 7, correlation=1, device=0, stream=7),
    ]
    monkeypatch.setattr(module, "DEEPEST", 6)
    (stack,) = folded(load_core(events).everything)
    assert stack == "forward;M_0;M_1;... (18 frames);(no op);k"


def test_without_gpu_events_there_are_no_stacks() -> None:
    with pytest.raises(AnalysisError, match="there are no GPU events"):
        folded(load_core([span("cpu_op", "aten::mm", 1, 2)]).everything)


@parametrize("path", chosen_traces())
def test_lines_add_up_to_the_gpu_time(path: Path) -> None:
    core = loaded(path)
    file = io.BytesIO()
    if not len(core.gpu_rows):
        with pytest.raises(AnalysisError):
            write_folded(core.everything, file)
        return
    write_folded(core.everything, file)
    values = [LINE.fullmatch(line) for line in file.getvalue().decode().split("\n")[:-1]]
    assert sum(int(found["value"]) for found in values if found) == int(core.columns.dur_ns[core.gpu_rows].sum())
    assert len({found["stack"] for found in values if found}) == len(values)
