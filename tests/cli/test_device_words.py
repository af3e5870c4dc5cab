"""Screens, Markdown and pages of traces of other accelerators do not say GPU; files for programs stay as they are."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from hashlib import sha256
from pathlib import Path

import pytest
from handmade import Run, span

from tracelens_graph.tables.column import Column
from tracelens_graph.tables.table import Table
from tracelens_graph.utils.texts import DEVICE_WORD, in_device_words


@pytest.fixture
def mtia(tmp_path: Path) -> Path:
    events = [span("user_annotation", "ProfilerStep#1", 0, 1000), span("python_function", "nn.Module: Net_0", 0, 900)]
    for i in range(4):
        ts = 10 + 40 * i
        events += [
            span("cpu_op", "aten::mm", ts, 30, Input_Dims=[[64, 64], [64, 64]], Input_type=["float", "float"]),
            span("mtia_runtime", "runFunction", ts + 5, 5, correlation=i + 1),
            span("mtia_ccp_events", "GPU::mm", ts + 20, 25, 0, 7, device=0, stream=7, correlation=i + 1),
        ]
    path = tmp_path / "mtia.json"
    path.write_text(json.dumps({"traceEvents": events}))
    return path


COMMANDS = ("report", "report --all", "info", "timeline", "modules", "tree --gpu-time", "attribution", "roofline",
            "ask idle_causes", "ask step_summary", "diff", "diff --by-name", "replay", "report --format md",
            "ask kernel_summary --format md")  # fmt: skip


@pytest.mark.parametrize("command", COMMANDS)
def test_screens(run: Run, mtia: Path, command: str) -> None:
    name, *rest = command.split()
    traces = [mtia, mtia] if name == "diff" else [mtia]
    _, out, err = run(name, *rest, *traces) if name == "ask" else run(name, *traces, *rest)
    said = [line for line in (out + err).splitlines() if re.search(r"\bGPU(?!::)", line)]
    assert [line for line in said if "is no GPU" not in line] == []
    assert "MTIA" in out or command in ("roofline", "ask step_summary", "ask idle_causes")


def test_an_overview_of_several(run: Run, mtia: Path, trace_file: Path) -> None:
    same = mtia.with_name("other.json")
    same.write_bytes(mtia.read_bytes())
    _, out, _ = run("report", mtia, same)
    assert "MTIA" in out
    assert not re.search(r"(?<!is no )\bGPU(?!::)", out)
    _, out, _ = run("report", mtia, trace_file)
    assert "GPU" in out


def test_pages(run: Run, mtia: Path, tmp_path: Path) -> None:
    for name, traces in (("report", [mtia]), ("diff", [mtia, mtia])):
        run(name, *traces, "-o", tmp_path / f"{name}.html")
        page = (tmp_path / f"{name}.html").read_text()
        assert "MTIA time" in page
        assert not re.search(r"\bGPU (?:time|event|work|timeline)", page)
        script = page.rpartition("<script>")[2].partition("</script>")[0]
        assert b64encode(sha256(script.encode()).digest()).decode() in page


def test_headings_are_as_wide_as_their_columns() -> None:
    token = DEVICE_WORD.set("PrivateUse1")
    try:
        about = {"gpu_ms": Column("time", "ms", heading="GPU ms")}
        lines = Table("t", {"op": ["aten::mm"], "gpu_ms": [1.2], "calls": [3]}, about).text().splitlines()
        assert len({len(line) for line in lines}) == 1
        assert "PrivateUse1 ms" in lines[0]
    finally:
        DEVICE_WORD.reset(token)


def test_documents_and_gpus(run: Run, mtia: Path, trace_file: Path) -> None:
    _, out, _ = run("report", mtia, "-f", "json")
    assert "GPU" in out
    _, out, _ = run("report", trace_file)
    assert "GPU" in out
    assert "MTIA" not in out


def test_columns_keep_their_places() -> None:
    token = DEVICE_WORD.set("MTIA")
    try:
        assert in_device_words("op      GPU ms  of GPUs, GPU::mm") == "op     MTIA ms  of MTIAs, GPU::mm"
        assert in_device_words("that is no GPU") == "that is no GPU"
    finally:
        DEVICE_WORD.reset(token)
