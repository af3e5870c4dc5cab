"""What-if edits held against the same simulated jobs without what was edited away."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from simulated_jobs import Cause, Job, write

import tracelens_graph as tlg
from corpus import CORPUS, needs_corpus
from tracelens_graph.errors import AnalysisError

PYTHON = Job(ranks=4, pipeline=4, causes=(Cause("python", (2,), us=6000),))
LOADER = Job(ranks=8, causes=(Cause("data_loader", (3,), us=8000),))
KERNELS = Job(ranks=4, causes=(Cause("slower_kernels", (0, 1, 2, 3), factor=2.0),))
HOST = Job(ranks=16, per_host=4, causes=(Cause("slow_host", (4, 5, 6, 7), factor=8.0),))
NETWORK = Job(ranks=4, style="fsdp", gb_s=20.0)
ALL_KERNELS = dict.fromkeys(("gemm", "vectorized*", "multi_tensor", "memcpy"), 0.5)


@pytest.mark.parametrize(
    ("job", "changed", "edit"),
    [
        (PYTHON, replace(PYTHON, causes=()), {"remove": "gc.py(12)"}),
        (PYTHON, replace(PYTHON, causes=()), {"repair": 2}),
        (PYTHON, replace(PYTHON, causes=()), {"repair": "stage2"}),
        (LOADER, replace(LOADER, causes=()), {"remove": "__next__"}),
        (LOADER, replace(LOADER, causes=()), {"repair": "all"}),
        (KERNELS, replace(KERNELS, causes=()), {"scale": ALL_KERNELS}),
        (HOST, replace(HOST, causes=()), {"repair": "host1"}),
        (NETWORK, replace(NETWORK, gb_s=40.0), {"bandwidth": {"all": 2.0}}),
    ],
    ids=[
        "function",
        "rank",
        "stage",
        "loader",
        "all",
        "kernels",
        "host",
        "bandwidth",
    ],
)
def test_edits_against_the_changed_job(job: Job, changed: Job, edit: Mapping[str, Any], tmp_path: Path) -> None:
    before, after = (tlg.load_set(write(one, tmp_path / name)) for name, one in (("a", job), ("b", changed)))
    found = tlg.what_if(before, **edit)
    truth = tlg.critical_path(after).length_ns
    assert found.changed_ns == pytest.approx(truth, rel=0.025)
    assert found.changed_durations > 0
    assert abs(found.changed_ns - truth) < 0.2 * abs(found.path.length_ns - truth)


@pytest.mark.parametrize(("elements", "saved_ns"), [(16_383, 0), (16_384, 45_000)])
def test_a_message_below_64_kib_is_latency_whatever_the_bandwidth(elements: int, saved_ns: int, tmp_path: Path) -> None:
    for rank in (0, 1):
        (tmp_path / f"rank{rank}.json").write_text(json.dumps(one_stream(rank, elements)))
    found = tlg.what_if(tlg.load_set(tmp_path), bandwidth={"all": 10.0})
    assert (found.saved_ns, found.error_ns) == (saved_ns, 0)
    assert (found.changed_durations == 0) == any("below 64 KiB" in note for note in found.notes) == (saved_ns == 0)


def test_computation_that_waits_for_no_collective(tmp_path: Path) -> None:
    ranks = tlg.load_set(write(replace(NETWORK, gb_s=5.0), tmp_path))
    overlapped = tlg.what_if(ranks, overlap="_allgather_base")
    free = tlg.what_if(ranks, bandwidth={"_allgather_base": 1e6})
    assert overlapped.saved_ns > 0.1 * overlapped.path.length_ns
    assert overlapped.changed_ns == pytest.approx(free.changed_ns, rel=0.1)


def test_what_comes_behind_a_collective_on_its_stream_still_waits_for_what_is_before(tmp_path: Path) -> None:
    """300 us of work, an all-reduce of 50 us and 100 us of work on one stream take 400 us at least."""
    for rank in (0, 1):
        (tmp_path / f"rank{rank}.json").write_text(json.dumps(one_stream(rank)))
    found = tlg.what_if(tlg.load_set(tmp_path), overlap="allreduce")
    assert (found.path.length_ns, found.changed_ns) == (456_000, 406_000)


def one_stream(rank: int, elements: int = 1000) -> dict[str, Any]:
    """A rank whose all-reduce runs between two kernels on the stream of these."""
    sizes = {"In msg nelems": elements, "Out msg nelems": elements, "dtype": "Float"}
    group = {"Group size": 2, "Process Group Name": "0", "Process Group Ranks": "[0, 1]", "Seq": 1}
    kernels = (
        ("a", 8, 300, {}),
        ("ncclDevKernel_AllReduce_Sum_f32_RING_LL", 308, 50, {"Collective name": "allreduce", **sizes, **group}),
        ("b", 358, 100, {}),
    )
    events = []
    for at, (name, start, duration, args) in enumerate(kernels, 1):
        launch = {"cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1, "ts": 2 * at, "dur": 1}
        kernel = {"cat": "kernel", "name": name, "pid": 0, "tid": 7, "ts": start, "dur": duration}
        events += [
            {"ph": "X", **launch, "args": {"correlation": at}},
            {"ph": "X", **kernel, "args": {"correlation": at, "device": 0, "stream": 7, **args}},
        ]
    return {"distributedInfo": {"rank": rank, "world_size": 2}, "traceEvents": events}


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        ({"scale": {"gem": 0.0}}, "a factor is a number above 0"),
        ({"scale": {"no such kernel": 2.0}}, "no kernel is called 'no such kernel'"),
        ({"remove": "no such function"}, "no function of the host is called"),
        ({"bandwidth": {"no group": 2.0}}, "'no group'"),
        ({"overlap": "broadcast"}, "no computation waits for a collective 'broadcast'"),
        ({"repair": "stage9"}, "there is no rank stage9"),
    ],
)
def test_what_is_not_there(edit: Mapping[str, Any], message: str, tmp_path: Path) -> None:
    ranks = tlg.load_set(write(Job(ranks=2, steps=2, layers=1), tmp_path))
    with pytest.raises(AnalysisError, match=message):
        tlg.what_if(ranks, **edit)


@needs_corpus
def test_loader_workers() -> None:
    """The same training with 0 and with 4 workers that load: without the loader's calls a step is 6.5 % too short."""
    folder = CORPUS / "external" / "kineto-resnet50-2021"
    before, after = (tlg.load(path) for path in sorted(folder.glob("*.json.gz")))
    steps = range(5, 11)
    predicted = sorted(tlg.what_if(before, step, remove="DataLoader").changed_ns for step in steps)
    truth = sorted(tlg.critical_path(after, step).length_ns for step in steps)
    recorded = sorted(tlg.critical_path(before, step).length_ns for step in steps)
    assert predicted[3] == pytest.approx(truth[3], rel=0.08)
    assert recorded[3] > 1.35 * truth[3]
