"""Files into which several ranks were fused are read as a set of ranks."""

from __future__ import annotations

import copy
import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from handmade import span

from tracelens_graph import load_set
from tracelens_graph.analyses.questions import QUESTIONS
from tracelens_graph.loading.fused import is_fused, with_ranks_apart
from tracelens_graph.simulate import simulate

Event = dict[str, Any]


def fused(traces: list[dict[str, Any]]) -> dict[str, Any]:
    """What TraceFuse makes of the traces of ranks: their ranks noted, processes and ids moved apart, names anew."""
    every: list[Event] = []
    for rank, trace in enumerate(traces):
        for event in copy.deepcopy(trace["traceEvents"]):
            if event.get("ph") == "M" or event.get("cat") in ("Trace", "python_function"):
                continue
            args = event.setdefault("args", {}) if event.get("ph") == "X" else event.get("args", {})
            if event.get("ph") == "X":
                args["rank"] = rank
            for held, key in ((event, "pid"), (event, "id"), (args, "correlation"), (args, "External id")):
                if isinstance(held.get(key), int):
                    held[key] += rank * 10**7
            every.append(event)
    names = [{"ph": "M", "name": "process_name", "pid": pid, "args": {"name": f"RANK {pid // 10**7}"}}
             for pid in sorted({event["pid"] for event in every if isinstance(event["pid"], int)})]  # fmt: skip
    return {"traceEvents": [*every, *names]}


@pytest.fixture
def ranks() -> list[dict[str, Any]]:
    return [rank.trace for rank in simulate(ranks=3, steps=1, layers=1, seed=3).ranks]


def test_a_fused_file_is_a_set_of_its_ranks(ranks: list[dict[str, Any]], tmp_path: Path) -> None:
    file = tmp_path / "job.json.gz"
    file.write_bytes(gzip.compress(json.dumps(fused(ranks), indent=4).encode()))
    found = load_set(file)
    assert [(member.name, member.rank) for member in found] == [(f"job-rank{rank}", rank) for rank in range(3)]
    for number, rank in enumerate(ranks):
        kept = [event for event in rank["traceEvents"] if event.get("cat") != "python_function"]
        (tmp_path / f"alone{number}.json").write_text(json.dumps({**rank, "traceEvents": kept}))
    apart = load_set([tmp_path / f"alone{number}.json" for number in range(len(ranks))])
    for member, alone in zip(found, (one.graph for one in apart), strict=True):
        for question in ("ops_summary", "kernel_summary", "coll_analysis", "step_summary"):
            theirs, ours = QUESTIONS[question](alone), QUESTIONS[question](member.graph)
            times = [name for name in theirs.columns if "time" in name or name in ("name", "pid")]
            assert [theirs[name] for name in times if isinstance(theirs[name], list)] == [
                ours[name] for name in times if isinstance(theirs[name], list)
            ]
            assert len(theirs) == len(ours)
    assert len(QUESTIONS["rank_collectives"](found)) == len(QUESTIONS["rank_collectives"](apart)) > 0


@pytest.mark.parametrize(
    "events",
    [
        [span("cpu_op", "a", 0, 1), span("cpu_op", "b", 1, 1)],
        [span("cpu_op", "a", 0, 1, rank=0), span("cpu_op", "b", 1, 1)],
        [span("cpu_op", "a", 0, 1, rank="0"), span("cpu_op", "b", 1, 1, rank="1")],
        [span("cpu_op", "a", 0, 1, rank=0), span("cpu_op", "b", 1, 1, rank=0)],
        [],
    ],
)
def test_other_files_are_left_as_they_are(events: list[Event], tmp_path: Path) -> None:
    file = tmp_path / "one.json"
    file.write_text(json.dumps({"traceEvents": events}))
    assert with_ranks_apart([str(file)]) == [str(file)]


def test_a_bare_list_and_files_without_events(tmp_path: Path) -> None:
    bare, empty, cut = (tmp_path / name for name in ("bare.json", "empty.json", "cut.json.gz"))
    bare.write_text(json.dumps([span("cpu_op", "a", rank, 1, rank * 1000, rank=rank) for rank in (0, 1)]))
    empty.write_text("")
    cut.write_bytes(gzip.compress(b"{" * 1000)[:20])
    assert [Path(file).name for file in with_ranks_apart([str(bare)])] == ["bare-rank0.json", "bare-rank1.json"]
    assert not is_fused(str(empty))
    assert not is_fused(str(cut))
    assert not is_fused(str(tmp_path))
