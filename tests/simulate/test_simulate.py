"""The simulator's traces hold together, its truth is what the traces say, and the same call gives the same run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter, defaultdict
from itertools import pairwise
from math import prod
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from profiles import examples
from simulate.jobs import GPU, HOST, SMALL, chain, length, of, parents, rows, span

from tracelens_graph.perf.occupancy import Occupancy, theoretical_occupancy
from tracelens_graph.simulate import PROBLEMS, RankTrace, Run, simulate

VARIANTS: dict[str, dict[str, Any]] = {
    "one rank": {},
    "three ranks": {"ranks": 3, "clock_offset_us": 250.5, "cuda_sync": True},
    "non-reentrant": {"recompute": True, "layers": 2},
    "reentrant": {"recompute": "reentrant", "layers": 2, "ranks": 2},
    "left over": {"unlaunched": 3, "memory": False},
    "synchronizing": {"sync_every_step": True, "pageable": True, "copy_mb": 1.0},
}


@pytest.fixture(scope="module", params=list(VARIANTS))
def run(request: pytest.FixtureRequest) -> Run:
    return simulate(**(SMALL | VARIANTS[request.param]))


# -- the trace -----------------------------------------------------------------------------------------


def test_host_events_nest_as_truth_says(run: Run) -> None:
    for rank in run.ranks:
        above = parents(of(rank.trace, *HOST))
        truth = {row["uid"]: row for row in rows(rank.truth["host_events"])}
        assert above == {uid: truth[uid]["parent"] for uid in above}
        assert set(truth) - set(above) == set(of(rank.trace, "user_annotation"))


def test_times_are_whole_nanoseconds_and_equal_in_both(run: Run) -> None:
    for rank in run.ranks:
        for kind, cats in (("gpu_events", GPU), ("host_events", (*HOST, "user_annotation"))):
            events = of(rank.trace, *cats)
            table = rows(rank.truth[kind])
            assert [row["uid"] for row in table] == list(events)
            for row in table:
                assert span(events[row["uid"]]) == (row["start_ns"], row["start_ns"] + row["duration_ns"])


def test_launches_owners_and_modules(run: Run) -> None:
    for rank in run.ranks:
        events = rank.trace["traceEvents"]
        hosts = of(rank.trace, *HOST)
        above = parents(hosts)
        by_correlation = {e["args"]["correlation"]: i for i, e in hosts.items() if "correlation" in e["args"]}
        for row in rows(rank.truth["gpu_events"]):
            event = events[row["uid"]]
            launch = by_correlation.get(event["args"]["correlation"])
            assert launch == row["launch"]
            up = chain(launch, above)
            assert row["owner"] == next((i for i in up if events[i]["cat"] == "cpu_op"), None)
            assert row["modules"] == [i for i in reversed(up) if events[i]["name"].startswith("nn.Module: ")]
            assert row["stream"] == event["tid"] == event["args"]["stream"]
            if launch is None:
                continue
            assert event["ts"] > events[launch]["ts"]
            if row["owner"] is not None:
                owner = events[row["owner"]]["args"]["External id"]
                assert event["args"]["External id"] == events[launch]["args"]["External id"] == owner


def test_unlaunched_work() -> None:
    for count in (0, 3):
        rank = simulate(**(SMALL | {"unlaunched": count})).ranks[0]
        assert rank.truth["gpu_events"]["launch"].count(None) == count
        missing = rank.truth["timeline"]["total"] - rank.truth["timeline_linked"]["total"]
        assert (missing > 0) == (count > 0)


def test_steps_and_annotations(run: Run) -> None:
    for rank in run.ranks:
        notes = of(rank.trace, "user_annotation")
        steps = [(span(e), int(e["name"].split("#")[1])) for e in notes.values() if "ProfilerStep" in e["name"]]
        assert len(steps) == run.options.steps
        pid = next(iter(notes.values()))["pid"]
        table = {row["uid"]: row for row in rows(rank.truth["host_events"])}
        for uid, event in of(rank.trace, *HOST, "user_annotation").items():
            start = span(event)[0]
            around = [n for (begin, end), n in steps if begin <= start < end and event["pid"] == pid]
            assert table[uid]["step"] == (around[0] if around else None)
            over = [
                i
                for i, note in notes.items()
                if i != uid and note["tid"] == event["tid"] and span(note)[0] <= start < span(note)[1]
            ]
            assert table[uid]["annotation"] == max(over, key=lambda i: notes[i]["ts"], default=None)
        for row in rows(rank.truth["gpu_events"]):
            launch = table.get(row["launch"], {"step": None, "annotation": None, "recompute": False})
            assert all(row[key] == launch[key] for key in ("step", "annotation", "recompute"))


def test_occupancies_are_those_that_grids_and_multiprocessors_allow() -> None:
    """A kernel of one block per multiprocessor fills no more than that, however many blocks it has."""
    (rank,) = simulate(steps=1, layers=1).ranks
    (device,) = rank.trace["deviceProperties"]
    limited = 0
    for event in of(rank.trace, "kernel").values():
        args, threads = event["args"], prod(event["args"]["block"])
        found = theoretical_occupancy(
            device, threads, args["registers per thread"], args["shared memory"], prod(args["grid"])
        )
        assert isinstance(found, Occupancy)
        assert args["est. achieved occupancy %"] == round(found.estimated_percent or 0)
        limited += found.blocks < args["blocks per SM"] and found.percent < 50
    assert limited


def test_streams_are_first_in_first_out(run: Run) -> None:
    for rank in run.ranks:
        streams: dict[int, list[tuple[int, int, int]]] = defaultdict(list)
        for event in of(rank.trace, *GPU).values():
            streams[event["tid"]].append((*span(event), event["args"]["correlation"]))
        for works in streams.values():
            works.sort()
            assert all(a[1] <= b[0] and a[2] < b[2] for a, b in pairwise(works))


def test_memory_adds_up(run: Run) -> None:
    for rank in run.ranks:
        instants = [e["args"] for e in rank.trace["traceEvents"] if e.get("cat") == "cpu_instant_event"]
        assert bool(instants) == run.options.memory
        total = 0
        live: set[int] = set()
        for args in instants:
            total += args["Bytes"]
            assert args["Total Allocated"] == total <= args["Total Reserved"]
            (live.add if args["Bytes"] >= 0 else live.remove)(args["Addr"])


# -- forward, backward, recomputation --------------------------------------------------------------------


def test_backward_operators_follow_their_forward(run: Run) -> None:
    for rank in run.ranks:
        events = rank.trace["traceEvents"]
        ends: dict[int, dict[str, tuple[Any, ...]]] = defaultdict(dict)
        for e in events:
            if e.get("cat") == "fwdbwd":
                ends[e["id"]][e["ph"]] = (e["pid"], e["tid"], e["ts"])
        drawn = Counter((flow["s"], flow["f"]) for flow in ends.values())
        place = {i: (e["pid"], e["tid"], e["ts"]) for i, e in of(rank.trace, "cpu_op").items()}
        known = Counter((place[n["forward"]], place[n["backward"]]) for n in rank.truth["autograd"])
        assert drawn == known
        numbers = {events[n["forward"]]["tid"]: events[n["backward"]]["args"] for n in rank.truth["autograd"]}
        assert len({args["Fwd thread id"] for args in numbers.values()}) == len(numbers)
        for node in rank.truth["autograd"]:
            forward, backward = events[node["forward"]], events[node["backward"]]
            assert backward["name"] == node["name"]
            assert events[node["evaluate"]]["name"].endswith(node["name"])
            assert forward["args"]["Sequence number"] == node["sequence"] == backward["args"]["Sequence number"]
            assert all(events[i]["args"]["Sequence number"] == node["sequence"] for i in node["enclosing"])
            assert span(backward)[0] >= span(forward)[1]


@pytest.mark.parametrize(("how", "frame"), [("non_reentrant", "recompute_fn"), ("reentrant", "backward")])
def test_recomputation(how: str, frame: str) -> None:
    rank = simulate(**(SMALL | {"recompute": how, "layers": 2})).ranks[0]
    events, above = rank.trace["traceEvents"], parents(of(rank.trace, *HOST))
    again = {row["uid"] for row in rows(rank.truth["host_events"]) if row["recompute"]}
    assert again
    for uid in again - set(of(rank.trace, "user_annotation")):
        line = [events[i]["name"] for i in (uid, *chain(uid, above))]
        assert any("torch/utils/checkpoint.py" in name and frame in name for name in line)
    if how == "non_reentrant":
        roots = {i for i in above if "checkpoint.py" in events[i]["name"] and "recompute_fn" in events[i]["name"]}
        assert len(roots) == 2 * 2  # once per layer and step
        assert again == {i for i in above if i in roots or roots & set(chain(i, above))}
    kernels = [row for row in rows(rank.truth["gpu_events"]) if row["recompute"]]
    assert {row["launch"] for row in kernels} <= again
    twins = [node for node in rank.truth["autograd"] if node["twin"] is not None]
    assert len(twins) > 20
    for node in twins:
        assert events[node["twin"]]["name"] == events[node["forward"]]["name"]
        assert (node["twin"] in again) != (node["forward"] in again)
        pair = [[node["forward"], node["backward"]], [node["twin"], node["backward"]]]
        assert all(list(p) in [list(q) for q in rank.truth["forward_backward"]] for p in pair)


# -- collectives and time ----------------------------------------------------------------------------------


def test_timeline_from_the_trace_alone(run: Run) -> None:
    for rank in run.ranks:
        kinds: dict[str, list[tuple[int, int]]] = {"comp": [], "comm": [], "copy": []}
        for event in of(rank.trace, *GPU).values():
            copy = "copy" if event["cat"] == "gpu_memcpy" else "comp"
            kinds["comm" if event["name"].startswith("nccl") else copy].append(span(event))
        comp, comm, copy = kinds.values()
        everything = comp + comm + copy
        total = max(end for _, end in everything) - min(start for start, _ in everything)
        assert rank.truth["timeline"] == {
            "computation": length(comp),
            "exposed_comm": length(comp + comm) - length(comp),
            "exposed_memcpy": length(everything) - length(comp + comm),
            "busy": length(everything),
            "idle": total - length(everything),
            "total": total,
            "total_comm": length(comm),
            "total_memcpy": length(copy),
        }


GROWS = {
    "data_loader": ("idle", 0, 18_000_000),
    "host_to_device_copy": ("exposed_memcpy", 0, 60_000_000),
    "synchronization": ("idle", 0, 3_000_000),
    "tiny_launches": ("idle", 0, 1_000_000),
    "python_bound": ("idle", 0, 40_000_000),
    "exposed_communication": ("exposed_comm", 0, 30_000_000),
    "late_rank": ("exposed_comm", 0, 24_000_000),
}
"""Problem: the part of the timeline it makes grow, on which rank, by at least how many nanoseconds."""


@pytest.mark.parametrize("problem", list(PROBLEMS))
def test_a_planted_problem_shows(problem: str) -> None:
    part, rank, least = GROWS[problem]
    sick = simulate(problem=problem)
    healthy = simulate(ranks=sick.options.ranks)
    growth = sick.ranks[rank].truth["timeline"][part] - healthy.ranks[rank].truth["timeline"][part]
    assert growth > least


# -- the execution trace -------------------------------------------------------------------------------------


def attributes(node: dict[str, Any]) -> dict[str, Any]:
    return {a["name"]: a["value"] for a in node["attrs"]}


def test_execution_trace_matches_by_record_id(run: Run) -> None:
    for rank in run.ranks:
        nodes = {node["id"]: node for node in rank.execution_trace["nodes"]}
        recorded = {e["args"]["Record function id"]: e for e in of(rank.trace, "cpu_op", "user_annotation").values()}
        by_record = {attributes(n)["rf_id"]: n for n in nodes.values() if attributes(n)["rf_id"]}
        assert by_record.keys() == recorded.keys()
        assert all(by_record[i]["name"] == recorded[i]["name"] for i in recorded)
        assert len(nodes) == len(rank.execution_trace["nodes"]) == len(recorded) + 3  # process and two threads
        written = {node["id"]: i for i, node in enumerate(rank.execution_trace["nodes"])}
        roots = [i for i, n in nodes.items() if n["name"].startswith("[pytorch|profiler|")]
        for i, node in nodes.items():
            parent = node["ctrl_deps"]
            assert parent in nodes
            assert i in roots or parent in roots or written[i] < written[parent]
            assert i in roots or parent < i
            for side in ("inputs", "outputs"):
                assert len({len(column) for column in node[side].values()}) == 1


# -- settings ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"ranks": 0}, "ranks must be at least 1"),
        ({"width": 100, "heads": 3}, "not a multiple"),
        ({"recompute": "sometimes"}, "recompute is none"),
        ({"problem": "gremlins"}, "unknown problem 'gremlins'"),
        ({"bus_gb_per_s": 0.0}, "must be positive"),
    ],
)
def test_nonsense_is_refused(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        simulate(**wrong)


# -- the same call gives the same run ------------------------------------------------------------------------


def content(rank: RankTrace) -> str:
    return json.dumps([rank.trace, rank.truth, rank.execution_trace])


def test_the_seed_decides() -> None:
    one, same, other = (simulate(**(SMALL | {"seed": seed})).ranks[0] for seed in (7, 7, 8))
    assert content(one) == content(same) != content(other)


def test_user_run_is_byte_identical(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tracelens_graph.simulate"]
    for name in ("a", "b"):
        done = subprocess.run(
            [*command, name, "--ranks", "2", "--seed", "7", "--steps", "1", "--recompute", "non_reentrant"],
            cwd=tmp_path,
            env=os.environ | {"PYTHONHASHSEED": "1" if name == "a" else "2"},
            check=True,
            capture_output=True,
            text=True,
        )
        assert f"{Path(name) / 'rank1.json.gz'}: " in done.stdout
    files = sorted(p.name for p in (tmp_path / "a").iterdir())
    assert files == sorted(f"rank{n}.{s}" for n in (0, 1) for s in ("json.gz", "truth.json", "execution-trace.json"))
    for name in files:
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
    direct = simulate(ranks=2, seed=7, steps=1, recompute=True)
    assert json.loads((tmp_path / "a" / "rank1.truth.json").read_text()) == json.loads(
        json.dumps(direct.ranks[1].truth)
    )


@examples(12)
@given(
    seed=st.integers(0, 2**32),
    ranks=st.integers(1, 3),
    steps=st.integers(1, 2),
    tiny=st.integers(0, 5),
    left=st.integers(0, 2),
    python=st.booleans(),
)
def test_any_run_holds_together(seed: int, ranks: int, steps: int, tiny: int, left: int, python: bool) -> None:
    wanted = {"seed": seed, "ranks": ranks, "steps": steps, "tiny_kernels": tiny, "unlaunched": left}
    run = simulate(**(SMALL | wanted | {"python_stacks": python}))
    for rank in run.ranks:
        time = rank.truth["timeline"]
        parts = ("computation", "exposed_comm", "exposed_memcpy", "idle")
        assert sum(time[part] for part in parts) == time["total"] == time["busy"] + time["idle"]
        above = parents(of(rank.trace, *HOST))
        truth = rank.truth["host_events"]
        table = dict(zip(truth["uid"], truth["parent"], strict=True))
        assert all(table[uid] == parent for uid, parent in above.items())
        assert rank.truth["gpu_events"]["launch"].count(None) == left
