"""Screens of traces of other accelerators do not say GPU; documents stay as they are."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from handmade import Run, span

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
            "ask idle_causes", "ask step_summary", "diff", "compare")  # fmt: skip


@pytest.mark.parametrize("command", COMMANDS)
def test_screens(run: Run, mtia: Path, command: str) -> None:
    name, *rest = command.split()
    traces = [mtia, mtia] if name in ("diff", "compare") else [mtia]
    _, out, err = run(name, *rest, *traces) if name == "ask" else run(name, *traces, *rest)
    said = [line for line in (out + err).splitlines() if re.search(r"\bGPU(?!::)", line)]
    assert [line for line in said if "is no GPU" not in line] == []
    assert "MTIA" in out or command in ("roofline", "ask step_summary", "ask idle_causes")


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
