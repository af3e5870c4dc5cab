"""One rank of a report of Nsight Systems that holds several: what commands below its report stand on."""

from __future__ import annotations

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
    _, _, command = next(line for line in out.splitlines() if line.startswith("TRACE stands")).partition(": ")
    saved = tmp_path / "one.tlg"
    assert run(*shlex.split(command)[1:-1], saved)[0] == 0
    uid = re.search(r"cut TRACE --uid (\d+)", out)
    assert uid is not None
    rank = int(shlex.split(command)[shlex.split(command).index("--rank") + 1])
    code, out, _ = run("tree", saved, "--uid", uid[1], "--up")
    assert (code, ("aten::mm", "aten::add")[rank] in out) == (0, True)
    assert run("ask", "opportunities", saved)[0] == 0


def test_what_takes_one_trace_says_how_to_have_one(run: Run, fused: Path, tmp_path: Path) -> None:
    for words in (("ask", "opportunities", fused), ("report", fused, "-o", tmp_path / "r.md")):
        code, _, err = run(*words)
        assert (code, f"save {fused} --rank N" in err.replace("\n", " ")) == (2, True), err
    assert run("save", fused, "--rank", "7", "-o", tmp_path / "x.tlg")[0] != 0
    (tmp_path / "one").mkdir()
    one = report(tmp_path / "one", {"CUPTI_ACTIVITY_KIND_KERNEL": [KERNEL]}, TEXTS)
    assert run("save", one, "--rank", "0", "-o", tmp_path / "x.tlg")[0] == 2
