"""export of the ranks of a job: one of them, or all in one file, with waits in collectives."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from handmade import Run

from tracelens_graph.analyses.critical_path.critical_path import critical_path
from tracelens_graph.analyses.ranks.matched_collectives import MatchedCollectives
from tracelens_graph.graph.trace_set import TraceSet
from tracelens_graph.loading.one import load_core
from tracelens_graph.reports.tracks import CATEGORY
from tracelens_graph.simulate import simulate, write

RANKS = 3
Json = dict[str, Any]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The traces of a simulated job with clocks that are 20 ms apart from rank to rank, and drift."""
    path = tmp_path_factory.mktemp("ranks")
    files = write(simulate(ranks=RANKS, steps=3, program="loop", clock_offset_us=20_000.0), path)
    for other in set(path.iterdir()) - set(files):
        other.unlink()
    return path


@pytest.fixture(scope="module")
def traces(folder: Path) -> TraceSet:
    return TraceSet.of([load_core(path) for path in sorted(folder.iterdir())])


def events_of(path: Path) -> list[Json]:
    found: list[Json] = json.loads(path.read_text())["traceEvents"]
    return found


def lanes(events: list[Json]) -> dict[tuple[str, str], list[Json]]:
    """Slices of our tracks, by the names of process and track."""
    process = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
    thread = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["name"] == "thread_name"}
    found = defaultdict(list)
    for one in events:
        if one.get("cat") == CATEGORY and one["ph"] == "X":
            found[process[one["pid"]], thread[one["pid"], one["tid"]]].append(one)
    return found


def assert_nested(slices: list[Json]) -> None:
    """Slices, in the order of the file, are within one another or apart."""
    ends: list[int] = []
    before = -(2**63)
    for one in slices:
        begin = round(1e3 * one["ts"])
        end = begin + round(1e3 * one["dur"])
        assert before <= begin <= end
        before = begin
        while ends and ends[-1] <= begin:
            ends.pop()
        assert not ends or end <= ends[-1]
        ends.append(end)


def spent(slices: list[Json]) -> Counter[str]:
    """ns by the first word of the names of slices."""
    found = Counter[str]()
    for one in slices:
        found[one["name"].split()[0]] += round(1e3 * one["args"].get("us", 0))
    return found


def test_all_ranks_side_by_side(run: Run, folder: Path, traces: TraceSet, tmp_path: Path) -> None:
    out = tmp_path / "all.json"
    code, said, err = run("export", folder, "-o", out)
    assert code == 0
    assert f"entries of {RANKS} ranks on one clock, with tracks of each and of the job" in said
    assert "clocks of" in err
    found = lanes(events_of(out))
    assert {process.partition(",")[0] for process, _ in found} == {
        "tracelens_graph: the job", *(f"rank {rank}" for rank in range(RANKS))
    }  # fmt: skip
    for slices in found.values():
        assert_nested(slices)
    matched, path = MatchedCollectives(traces), critical_path(traces)
    for rank in range(RANKS):
        own = matched.trace == rank
        of_rank = [
            one for (process, track), slices in found.items()
            if process.startswith(f"rank {rank},") and track.startswith("collectives") for one in slices
        ]  # fmt: skip
        assert spent(of_rank)["waiting"] == int(matched.wait_ns[own].sum())
        assert spent(of_rank)["communicating"] == int(matched.transfer_ns[own].sum())
    (job,) = [slices for (process, _), slices in found.items() if process == "tracelens_graph: the job"]
    assert sum(round(1e3 * one["dur"]) for one in job) == path.length_ns
    # Who waits does so until the last rank comes, on the clock of the file.
    until = {
        (one["args"]["collective"], round(1e3 * (one["ts"] + one["args"]["wait_us"])))
        for (_, track), slices in found.items() if track.startswith("collectives")
        for one in slices if "wait_us" in one["args"]
    }  # fmt: skip
    times = defaultdict(list)
    for number, ns in until:
        times[number].append(ns)
    assert max(max(of) - min(of) for of in times.values()) <= 2  # drift rounds


def test_all_ranks_loaded_again(run: Run, folder: Path, traces: TraceSet, tmp_path: Path) -> None:
    out = tmp_path / "all.json.gz"
    assert run("export", folder, "-o", out)[0] == 0
    again = load_core(out)
    c, gpu = again.columns, again.gpu_rows
    assert len(gpu) == sum(len(one.core.gpu_rows) for one in traces)
    assert (c.parent[gpu] >= 0).sum() == sum((one.core.columns.parent[one.core.gpu_rows] >= 0).sum() for one in traces)
    assert len(np.unique(c.device[gpu])) == RANKS
    before = Counter(int(ns) for one in traces for ns in one.core.columns.dur_ns[one.core.gpu_rows])
    shift = sum((Counter(c.dur_ns[gpu].tolist()) - before).values())
    assert shift < len(gpu) / 10  # a clock that drifts changes durations by a nanosecond
    assert again.info.left_out[f"category {CATEGORY}"] > 0


@pytest.mark.parametrize("rank", [0, 2])
def test_one_rank_with_what_the_others_tell(
    run: Run, folder: Path, traces: TraceSet, tmp_path: Path, rank: int
) -> None:
    out = tmp_path / "one.json"
    code, said, _ = run("export", folder, "-o", out, "--rank", rank)
    assert code == 0
    assert f"entries of rank {rank}, " in said
    before, after = traces[rank].core, load_core(out)
    for name in ("kind", "start_ns", "dur_ns", "device", "stream", "correlation", "parent", "owner", "thread"):
        assert np.array_equal(getattr(before.columns, name), getattr(after.columns, name)), name
    found = {track: slices for (_, track), slices in lanes(events_of(out)).items()}
    for slices in found.values():
        assert_nested(slices)
    matched = MatchedCollectives(traces)
    waits = [one for track, slices in found.items() if track.startswith("collectives") for one in slices]
    assert spent(waits)["waiting"] == int(matched.wait_ns[matched.trace == rank].sum())
    path = found["critical path of the job"]
    assert abs(sum(round(1e3 * one["dur"]) for one in path) - critical_path(traces).length_ns) < 100
    others = {name for one in path if (name := one["name"].partition(": ")[0]).startswith("rank ")}
    assert others <= {f"rank {other}" for other in range(RANKS) if other != rank}
    assert others


def test_a_lone_trace_stays_as_it_is(run: Run, folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "lone.json"
    code, _, err = run("export", folder / "rank1.json.gz", "-o", out)
    assert code == 0
    assert err == (
        "waits in collectives need the traces of the other ranks: name their folder, with --rank for one of them\n"
    )
    tracks = {track for _, track in lanes(events_of(out))}
    assert "critical path" in tracks
    assert not any("waiting" in one["name"] for slices in lanes(events_of(out)).values() for one in slices)


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        (["-o", "x.folded"], 2, "is a folder, and this command takes one trace"),
        (
            ["-o", "x.folded", "-o", "y.json"],
            2,
            "perfetto alone takes several traces; the others take one, not 3",
        ),
        (["-o", "y.json", "--rank", "9"], 1, "there is no rank 9 among 0 (rank0), 1 (rank1), 2 (rank2)"),
    ],
)
def test_what_does_not_go(
    run: Run, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: list[str], code: int, words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    found, out, err = run("export", folder, *options)
    assert (found, out) == (code, "")
    assert words in err
    assert not list(tmp_path.iterdir())


def test_a_rank_needs_others(run: Run, folder: Path, tmp_path: Path) -> None:
    code, _, err = run("export", folder / "rank1.json.gz", "-o", tmp_path / "x.json", "--rank", 1)
    assert code == 2
    assert "--rank takes the traces of all ranks" in err


def test_ranks_without_a_gpu(run: Run, tmp_path: Path) -> None:
    folder, out = Path(__file__).parents[2] / "examples/traces/gloo-4-ranks", tmp_path / "all.json"
    assert run("export", folder, "-o", out)[0] == 0
    found = lanes(events_of(out))
    assert {track.partition(",")[0] for _, track in found} == {"collectives"}
    assert any(one["name"].startswith("waiting for rank ") for slices in found.values() for one in slices)
    for slices in found.values():
        assert_nested(slices)
