"""Files into which several ranks were fused are read as a set of ranks."""

from __future__ import annotations

import copy
import gzip
import json
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest
from handmade import span

from tracelens_graph import load, load_set
from tracelens_graph.analyses.critical_path.critical_path import critical_path
from tracelens_graph.analyses.critical_path.what_if import what_if
from tracelens_graph.analyses.questions import QUESTIONS
from tracelens_graph.analyses.ranks.job import Job
from tracelens_graph.cli.hints import Call
from tracelens_graph.errors import TraceError
from tracelens_graph.loading.fused import _first_events, is_fused, with_ranks_apart
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
        [span("cpu_op", "a", 0, 1, rank="zero"), span("cpu_op", "b", 1, 1, rank="one")],
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


def written(folder: Path, trace: Any, damage: tuple[bytes, bytes] = (b"", b""), name: str = "job.json") -> str:
    """A file with a trace, in which the first of some bytes are replaced."""
    file = folder / name
    file.write_bytes(json.dumps(trace, indent=1).encode().replace(*damage, 1))
    return str(file)


def names(file: str) -> dict[str, list[str]]:
    """The names of the events in each part of a fused file."""
    parts = {Path(part).name: msgspec.json.decode(Path(part).read_bytes()) for part in with_ranks_apart([file])}
    return {name: [event["name"] for event in part["traceEvents"]] for name, part in parts.items()}


@pytest.mark.parametrize("pid", [1, [1], {"a": 1}, "host", None, 1.5])
def test_ranks_are_apart_whatever_their_process_is(pid: Any, tmp_path: Path) -> None:
    events = [
        {"ph": "M", "name": "process_name", "pid": pid, "args": {"name": "python"}},
        *({"ph": "X", "name": name, "cat": "cpu_op", "pid": pid, "tid": 1, "ts": 1, "dur": 1, "args": {"rank": rank}}
          for name, rank in (("a", 0), ("b", 1), ("c", "1"))),
    ]  # fmt: skip
    found = names(written(tmp_path, {"traceEvents": events}))
    assert found == {"job-rank0.json": ["process_name", "a"], "job-rank1.json": ["process_name", "b", "c"]}


def test_events_of_no_rank_are_counted(ranks: list[dict[str, Any]], tmp_path: Path) -> None:
    trace = fused(ranks[:2])
    trace["traceEvents"].append({**span("cpu_op", "lost", 0, 1), "pid": "nobody"})
    told: list[str] = []
    with_ranks_apart([file := written(tmp_path, trace)], told.append)
    assert told == [f"{file}: left out, as they name no rank: 1 events with a duration"]


@pytest.mark.parametrize(
    ("damage", "words"),
    [((b'"dur": ', b'"dur": NaN, "x": '), "nan"), ((b"aten::", b"\xe9ten::"), "UTF-8"), ((b"},", b"}"), "comma")],
)
def test_a_broken_file_is_repaired_as_others_are(
    damage: tuple[bytes, bytes], words: str, ranks: list[dict[str, Any]], tmp_path: Path
) -> None:
    told: list[str] = []
    file = written(tmp_path, fused(ranks), damage)
    assert len(with_ranks_apart([file], told.append)) == 3
    assert len(told) == 1
    assert words in told[0]


def test_a_file_without_its_end_keeps_what_is_there(ranks: list[dict[str, Any]], tmp_path: Path) -> None:
    Path(file := written(tmp_path, fused(ranks))).write_bytes(Path(file).read_bytes()[:-3000])
    told: list[str] = []
    assert len(with_ranks_apart([file], told.append)) == 3
    assert "the end of the file is missing" in told[0]


@pytest.mark.parametrize("info", [None, {"rank": 0, "world_size": 8, "backend": "nccl"}])
def test_the_size_of_the_job_is_what_the_file_says(info: Any, ranks: list[dict[str, Any]], tmp_path: Path) -> None:
    file = written(tmp_path, {**fused(ranks), **({"distributedInfo": info} if info else {})})
    for number, part in enumerate(with_ranks_apart([file])):
        assert json.loads(Path(part).read_bytes())["distributedInfo"] == {**(info or {}), "rank": number}


def test_a_fused_job_has_the_answers_of_its_files(ranks: list[dict[str, Any]], tmp_path: Path) -> None:
    """Screen, path and what-if; the clocks of ranks are one, as TraceFuse leaves them."""
    for number, rank in enumerate(ranks):
        kept = [event for event in rank["traceEvents"] if event.get("cat") != "python_function"]
        (tmp_path / f"rank{number}.json").write_text(json.dumps({**rank, "traceEvents": kept}))
    apart = load_set([tmp_path / f"rank{number}.json" for number in range(len(ranks))])
    found = load_set(written(tmp_path, fused(ranks)))
    screens = [Job(one, whole=one) for one in (found, apart)]
    assert len(screens[0].matched) == len(screens[1].matched) > 0
    kinds = [one.table("collective_kinds") for one in screens]
    lines = [[one[name] for name in ("kind", "count", "latency_ms", "wait_ms", "last_rank")] for one in kinds]
    assert lines[0] == lines[1]
    assert critical_path(found).ns_by_class == critical_path(apart).ns_by_class
    lengths = [what_if(one, scale={"gemm": 0.5}).changed_ns for one in (found, apart)]
    assert lengths[0] == lengths[1]


def test_one_trace_is_no_fused_file(ranks: list[dict[str, Any]], tmp_path: Path) -> None:
    file = written(tmp_path, fused(ranks))
    with pytest.raises(TraceError, match=r"3 ranks \(0, 1, 2\) are fused"):
        load(file)
    with pytest.raises(TraceError, match="fused"):
        load(fused(ranks))
    assert len(load(fused(ranks[:1])).nodes) > 0
    assert len(load(with_ranks_apart([file])[1]).nodes) > 0


def test_hints_name_no_file_that_vanishes(ranks: list[dict[str, Any]], tmp_path: Path) -> None:
    part = with_ranks_apart([written(tmp_path, fused(ranks))])[0]
    for call in (Call(part), Call(part).without_folders()):
        assert call.cut(1) == "tracelens-graph cut rank0.tlg --uid 1 -o event-1.json.gz"


@pytest.mark.parametrize("element", ["{}", "0", '{"ph":"M"}'])
def test_the_beginning_is_read_once(element: str) -> None:
    """A text of 256 KiB of small elements was copied for each of them: 22 s."""
    begin = time.process_time()
    assert not list(_first_events(f"{element}," * ((1 << 18) // len(element))))
    assert time.process_time() - begin < 5


def test_a_file_called_as_standard_input_is_let_alone(
    ranks: list[dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(tmp_path, fused(ranks), name="-")
    monkeypatch.chdir(tmp_path)
    assert with_ranks_apart(["-"]) == ["-"]
