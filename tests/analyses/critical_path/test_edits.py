"""What-if edits held against the same simulated jobs without what was edited away."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from simulated_jobs import Cause, Job, simulated, write

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


FASTER = ("gemm", "vectorized*", "multi_tensor", "memcpy")
PIPELINE = Job(ranks=4, steps=2, layers=2, pipeline=2, microbatches=3)
SCALED: Mapping[str, Job] = {
    "two_stages": PIPELINE,
    "four_stages": replace(PIPELINE, pipeline=4),
    "one_micro_batch": replace(PIPELINE, layers=1, microbatches=1, jitter=0.0),
    "interleaved": replace(PIPELINE, virtual=2, layers=1),
    "ddp": Job(ranks=4, steps=2, gb_s=60.0),
    "ddp_of_one_step": Job(ranks=4, steps=1, gb_s=30.0),
    "fsdp": Job(ranks=4, steps=2, style="fsdp", gb_s=40.0),
    "tensor": Job(ranks=4, steps=2, tensor=4),
    "experts": Job(ranks=4, steps=2, layers=3, style="moe", gb_s=40.0),
}
"""Jobs of two threads, on whose gradients the optimizer waits."""


@pytest.mark.parametrize("sync", [True, False])
@pytest.mark.parametrize("name", SCALED)
def test_kernels_scaled_against_the_job_run_again(name: str, sync: bool, tmp_path: Path) -> None:
    """Threads that call in turns are joined, and nothing overtakes a collective that did not hold it up as recorded."""
    job = replace(SCALED[name], sync=sync)
    ranks = tlg.load_set(write(job, tmp_path / "recorded"))
    for factor in (0.5, 0.8, 2.0):
        causes = (Cause("slower_kernels", tuple(range(job.ranks)), factor=factor),)
        truth = _length_us(replace(job, causes=causes)) * 1e3
        found = tlg.what_if(ranks, scale=dict.fromkeys(FASTER, factor))
        assert found.changed_ns == pytest.approx(truth, rel=0.002)
        assert found.least_ns * 0.998 < truth < found.most_ns * 1.002


def _length_us(job: Job) -> float:
    """From the first event of a simulated job to its last GPU end, by the simulation alone."""
    events = [one for rank in simulated(job) for one in rank.events]
    first = min(one["ts"] for one in events)
    return float(max(one["ts"] + one["dur"] for one in events if "device" in one["args"]) - first)


def test_a_wait_that_nothing_shows_is_within_the_bounds(tmp_path: Path) -> None:
    """Work b begins behind an all-reduce of another stream that ended long before: with a shorter a it may wait."""
    kernels = [("a", 7, 8, 480, 0), ("", 20, 8, 325, 1000), ("b", 7, 488, 100, 0)]
    for rank in (0, 1):
        (tmp_path / f"rank{rank}.json").write_text(json.dumps(rank_of(rank, kernels)))
    found = tlg.what_if(tlg.load_set(tmp_path), scale={"a": 0.5})
    assert (found.path.length_ns, found.changed_ns, found.least_ns) == (586_000, 346_000, 346_000)
    assert found.most_ns == 431_000  # b begins at 333


@pytest.mark.parametrize(
    ("sizes", "saved_us"),
    [
        (((16_383, 50),), (0, 0, 0)),  # 64 KiB and less are latency
        (((16_384, 50),), (0, 50 - 8.4 - 2 * 3.4, 50)),  # as NCCL reckons for two steps of a ring
        (((1 << 20, 110), (1 << 21, 210)), (300, 300, 300)),  # 10 us and 100 us a MiB
        (((1 << 20, 110), (1 << 21, 210), (1, 12)), (296, 296, 296)),  # 12 us
    ],
)
def test_latency_stays_whatever_the_bandwidth(
    sizes: Sequence[tuple[int, int]], saved_us: tuple[float, ...], tmp_path: Path
) -> None:
    for rank in (0, 1):
        (tmp_path / f"rank{rank}.json").write_text(json.dumps(in_a_row(rank, sizes)))
    found = tlg.what_if(tlg.load_set(tmp_path), bandwidth={"all": 1e9})
    length = found.path.length_ns
    saved = [(length - ns) / 1e3 for ns in (found.most_ns, found.changed_ns, found.least_ns)]
    assert saved == pytest.approx(saved_us, abs=0.2)


BANDWIDTHS: Mapping[str, Job] = {
    "ddp": Job(ranks=4, steps=2, gb_s=20.0),
    "fsdp": Job(ranks=4, steps=2, style="fsdp", gb_s=20.0),
    "tensor": Job(ranks=4, steps=2, tensor=4, gb_s=40.0),
    "experts": Job(ranks=4, steps=2, layers=3, style="moe", jitter=0.0),
    "pipeline": replace(PIPELINE, gb_s=20.0),
    "ring": Job(ranks=4, steps=2, style="ring", gb_s=40.0),
}


@pytest.mark.parametrize("name", BANDWIDTHS)
def test_bandwidth_against_the_job_run_again(name: str, tmp_path: Path) -> None:
    job = BANDWIDTHS[name]
    ranks = tlg.load_set(write(job, tmp_path / "recorded"))
    for factor in (0.5, 2.0, 10.0):
        truth = 1e3 * _length_us(replace(job, gb_s=factor * job.gb_s))
        found = tlg.what_if(ranks, bandwidth={"all": factor})
        assert found.changed_ns == pytest.approx(truth, rel=0.01)
        assert abs(found.changed_ns - truth) < 0.35 * abs(found.path.length_ns - truth)
        assert found.least_ns * 0.998 < truth < found.most_ns * 1.002


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


def one_stream(rank: int) -> dict[str, Any]:
    """A rank whose all-reduce runs between two kernels on the stream of these."""
    return rank_of(rank, [("a", 7, 8, 300, 0), ("", 7, 308, 50, 1000), ("b", 7, 358, 100, 0)])


def in_a_row(rank: int, sizes: Sequence[tuple[int, int]]) -> dict[str, Any]:
    """A rank of all-reduces, one behind the other: elements and us of each."""
    kernels, at = [], 50
    for elements, duration in sizes:
        kernels.append(("", 7, at, duration, elements))
        at += duration
    return rank_of(rank, kernels)


def rank_of(rank: int, kernels: Sequence[tuple[str, int, int, int, int]]) -> dict[str, Any]:
    """A rank of kernels: name, stream, start and duration in us, and elements of all-reduces, which are called so."""
    group = {"Group size": 2, "Process Group Name": "0", "Process Group Ranks": "[0, 1]", "dtype": "Float"}
    events = []
    for at, (name, stream, start, duration, elements) in enumerate(kernels, 1):
        of_group = {"Collective name": "allreduce", "Seq": at, **group} if elements else {}
        args = {"In msg nelems": elements, "Out msg nelems": elements, **of_group} if elements else {}
        launch = {"cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1, "ts": 2 * at, "dur": 1}
        kernel = {"cat": "kernel", "name": name or "ncclDevKernel_AllReduce_Sum_f32_RING_LL", "pid": 0, "tid": stream,
                  "ts": start, "dur": duration}  # fmt: skip
        events += [
            {"ph": "X", **launch, "args": {"correlation": at}},
            {"ph": "X", **kernel, "args": {"correlation": at, "device": 0, "stream": stream, **args}},
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


@pytest.mark.parametrize("factor", [1.04, 1.1])
def test_a_rank_whose_kernels_are_all_a_little_slower_is_repaired(factor: float, tmp_path: Path) -> None:
    """No kernel is longer than on each of the others beyond what it varies; all together are."""
    job = Job(ranks=8, steps=3, causes=(Cause("slower_kernels", (4,), factor=factor),))
    before = tlg.load_set(write(job, tmp_path / "a"))
    truth = tlg.critical_path(tlg.load_set(write(replace(job, causes=()), tmp_path / "b"))).length_ns
    found = tlg.what_if(before, repair=4)
    assert abs(found.changed_ns - truth) < 0.1 * (found.path.length_ns - truth)
    assert tlg.what_if(before, repair=3).changed_durations < 10
