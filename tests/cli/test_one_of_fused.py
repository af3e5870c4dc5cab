"""One rank of a report of Nsight Systems that holds several: what commands below its report stand on."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest
from nsys_reports import CALL, KERNEL, RANGE, SECOND, TEXTS, TID, report

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def fused(tmp_path: Path) -> Path:
    slow = KERNEL | {"globalPid": SECOND, "deviceId": 1, "end": 9_700_001}
    tables = {
        "CUPTI_ACTIVITY_KIND_KERNEL": [KERNEL, slow],
        "CUPTI_ACTIVITY_KIND_RUNTIME": [CALL, CALL | {"globalTid": SECOND | TID}],
        "NVTX_EVENTS": [RANGE, RANGE | {"globalTid": SECOND | TID, "text": "aten::add, op_id = 3"}],
    }
    return report(tmp_path, tables, TEXTS)


def test_a_rank_is_saved_with_the_uids_of_its_report(run: Run, fused: Path, tmp_path: Path) -> None:
    code, out, _ = run("report", fused, "--no-models")
    assert code == 0
    _, _, command = next(line for line in out.splitlines() if line.startswith("Commands below read")).partition(": ")
    saved = tmp_path / "one.tlg"
    assert run(*shlex.split(command)[1:-1], saved)[0] == 0
    uid = re.search(r"cut rank[01]\.tlg --uid (\d+)", out)
    assert uid is not None
    rank = int(shlex.split(command)[shlex.split(command).index("--rank") + 1])
    code, out, _ = run("tree", saved, "--uid", uid[1], "--up")
    assert (code, ("aten::mm", "aten::add")[rank] in out) == (0, True)
    assert run("ask", "opportunities", saved)[0] == 0


def test_what_takes_one_trace_takes_all_processes_of_a_recording(run: Run, fused: Path, tmp_path: Path) -> None:
    assert run("report", fused, "--no-models", "-o", tmp_path / "r.md", "-o", tmp_path / "r.html")[0] == 0
    code, out, _ = run("report", fused, "--device", "1")
    assert (code, "1 GPU event" in out) == (0, True)
    code, out, err = run("ask", "opportunities", fused, "--format", "csv")
    assert code == 0, err
    code, out, _ = run("tree", fused, "--name", "aten::add", "--uids")
    uid = re.search(r"UID: (\d+)", out)
    assert uid is not None, out
    piece = tmp_path / "piece.json.gz"
    assert run("cut", fused, "--uid", uid[1], "-o", piece)[0] == 0
    assert run("tree", piece)[0] == 0  # it names ranks, too


ASKED = ("report FILE --no-models", "ask gpu_timeline FILE", "ranks FILE", "ask kernel_summary FILE")


@pytest.mark.parametrize("step", [1, -1])
def test_the_cache_keeps_each_rank_and_all_as_one_apart(
    step: int, run: Run, fused: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRACELENS_GRAPH_CACHE", str(tmp_path / "cache"))
    commands = [shlex.split(asked.replace("FILE", str(fused))) for asked in ASKED]
    expected = [run(*command) for command in commands]
    assert [code for code, _, _ in expected] == [0] * len(ASKED)
    for _ in range(2):
        assert [run("--cache", *command) for command in commands[::step]] == expected[::step]
    assert len(list((tmp_path / "cache").iterdir())) == 3


def test_what_takes_one_trace_says_how_to_have_one(run: Run, fused: Path, tmp_path: Path) -> None:
    events = [
        {
            "ph": "X",
            "cat": "cpu_op",
            "name": "aten::mm",
            "pid": rank,
            "tid": 1,
            "ts": 1,
            "dur": 2,
            "args": {"rank": rank},
        }
        for rank in (0, 1)
    ]
    of_tracefuse = tmp_path / "fused.json"
    of_tracefuse.write_text(json.dumps({"traceEvents": events}))
    for words in (("ask", "opportunities", of_tracefuse), ("report", of_tracefuse, "-o", tmp_path / "r.md")):
        code, _, err = run(*words)
        assert (code, f"save {of_tracefuse} --rank N" in err.replace("\n", " ")) == (2, True), err
    assert run("save", fused, "--rank", "7", "-o", tmp_path / "x.tlg")[0] != 0
    (tmp_path / "one").mkdir()
    one = report(tmp_path / "one", {"CUPTI_ACTIVITY_KIND_KERNEL": [KERNEL]}, TEXTS)
    assert run("save", one, "--rank", "0", "-o", tmp_path / "x.tlg")[0] == 2
