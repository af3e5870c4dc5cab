"""Queues of streams, bandwidth of copies, sequences of kernels: known answers, and what Holistic Trace Analysis says.

Of its answers those count that `goldens/hta/README.md` trusts; docs/from-hta.md lists where it is wrong, and why.
"""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from handmade import span

from tracelens_graph.analyses.launches.queues import queue_length, queues, queues_of
from tracelens_graph.analyses.opportunities.sequences import kernel_sequences
from tracelens_graph.analyses.shared.levels import Levels
from tracelens_graph.analyses.timeline.copy_bandwidth import bandwidths_of, copy_bandwidth
from tracelens_graph.errors import AnalysisError
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.window import whole_window
from tracelens_graph.loading.one import load_core

HTA = {
    "dlrm-8-ranks": "dlrm-8-ranks/kineto/rank0",
    "two-of-128-ranks/all-steps-exact": "hta/two-of-128-ranks/rank-0",
    "event-sync": "hta/critical-path/event-sync",
    "event-sync-multi-stream": "hta/critical-path/event-sync-multi-stream",
    "simple-add": "hta/critical-path/simple-add",
    "nanosecond-resolution/all-steps-exact": "hta/nanosecond-resolution",
    "queue-length-cuda-graph/all-steps-exact": "hta/queue-length-cuda-graph",
    "resnet-ddp-nccl-args/all-steps-exact": "hta/resnet-ddp-nccl-args",
    "amd-mi250-minitoy/all-steps-exact": "hta/amd/mi250-minitoy",
    "backward-thread": "hta/backward-thread",
    "triton-example/all-steps-exact": "hta/triton-example",
}
"""Folder of HTA's answers -> the trace."""

OURS = {("queue-length-cuda-graph", 7): (12_790, 994), ("event-sync-multi-stream", 28): (4, 1)}
"""Where HTA is wrong: it leaves out launches of graphs, and lets launches in before it lets starts out."""


def rows(path: Path) -> list[list[str]]:
    with path.open(newline="") as file:
        return list(csv.reader(file))


@pytest.fixture(scope="module", params=HTA)
def hta(request: pytest.FixtureRequest, corpus: Path, goldens: Path) -> tuple[Core, Path]:
    """A trace, and HTA's answers on it."""
    return load_core(corpus / f"{HTA[request.param]}.json.gz"), goldens / "hta" / request.param


def test_lengths_are_those_of_hta(hta: tuple[Core, Path]) -> None:
    core, folder = hta
    ours = {one.stream: (2 * len(one.waited), one.longest) for one in queues_of(whole_window(core))}
    theirs = {
        int(row[1]): (int(float(row[2])), int(float(row[-1])))
        for row in rows(folder / "queue_length_summary.csv")[3:] if row[0] == "0"
    }  # fmt: skip
    name = folder.parent.name if folder.name == "all-steps-exact" else folder.name
    assert ours == theirs | {stream: known for (of, stream), known in OURS.items() if of == name}


def changes(folder: Path) -> dict[int, list[tuple[float, int]]]:
    """Of each stream of rank 0 the moments, us, and lengths that HTA tells of; its list is cut."""
    found: dict[int, list[tuple[float, int]]] = {}
    for _, ts, _, _, stream, length in rows(folder / "queue_length_rank0.csv")[1:]:
        found.setdefault(int(stream), []).append((float(ts), int(float(length))))
    return found


def zero_us(core: Core, folder: Path) -> float:
    """When HTA's times are 0, in us of ours."""
    (stream, moments), *_ = changes(folder).items()
    (course,) = (one.course for one in queues_of(whole_window(core)) if one.stream == stream)
    return moments[0][0] - float(course.at[0]) / 1e3


def test_courses_are_those_of_hta(hta: tuple[Core, Path]) -> None:
    """Its times are floats of microseconds since 1970, a quarter of one apart."""
    core, folder = hta
    ours, zero = {one.stream: one.course for one in queues_of(whole_window(core))}, zero_us(core, folder)
    for stream, moments in changes(folder).items():
        if (folder.parent.name, stream) in OURS or (folder.name, stream) in OURS:
            continue
        at, level = ours[stream]
        # Of several changes at one moment HTA shows each.
        told: dict[float, set[int]] = {}
        for us, length in moments:
            told.setdefault(us, set()).add(length)
        for us, lengths in told.items():
            low, high = np.searchsorted(at, (np.array([us - 0.3, us + 0.3]) - zero) * 1e3, "right")
            assert lengths & set(level[max(low - 1, 0) : high].tolist())


def test_full_times_are_those_of_hta(hta: tuple[Core, Path]) -> None:
    """HTA tells of one stream of a rank alone, the last that was full."""
    core, folder = hta
    file = folder / "blocked_on_full_queue_max10.csv"
    told = [row for row in rows(file)[1:] if row[0] == "0"] if file.exists() else []
    table = queues(core, capacity=10)
    full = dict(zip(table["stream"], table["full_us"], strict=True))
    for _, stream, us, _ in told:
        assert full[int(stream)] == pytest.approx(float(us), abs=0.5)
    assert sum(us > 0 for us in full.values()) >= len(told)


def test_bandwidths_are_those_of_hta(hta: tuple[Core, Path]) -> None:
    """HTA reads the rate that is recorded; ours is bytes by duration, as exact as recorded durations are."""
    core, folder = hta
    file = folder / "memory_bw_rank0.csv"
    found = {one.direction: one for one in bandwidths_of(whole_window(core))}
    grain_ns = 1000 if (core.columns.start_ns % 1000 == 0).all() else 2
    zero = zero_us(core, folder)
    for _, ts, _, name, rate in rows(file)[1:] if file.exists() else []:
        one = found.get(name.removeprefix("Memcpy ").replace("Memset", "fill"))
        if one is None or float(rate) == 0:
            continue
        at = int(np.argmin(np.abs(one.rate.at - (float(ts) - zero) * 1e3)))
        ns = int(one.rate.at[at + 1] - one.rate.at[at])
        if one.running.level[at] == 1:
            assert ns * one.rate.level[at] / float(rate) == pytest.approx(ns, abs=grain_ns)


@pytest.mark.parametrize("op", ["aten::linear", "aten::add", "aten::conv2d", "aten::_foreach_add_"])
@pytest.mark.parametrize("folder", ["dlrm-8-ranks", "simple-add"])
def test_sequences_are_those_of_hta(corpus: Path, goldens: Path, folder: str, op: str) -> None:
    """HTA takes calls at the smallest depth of all, so ours may come more often; and waits of streams for kernels."""
    file = goldens / "hta" / folder / f"frequent_sequences_{op.replace('::', '_')}.csv"
    table = kernel_sequences(load_core(corpus / f"{HTA[folder]}.json.gz"), contains=op, min_kernels=1)
    ours = {
        "|".join([name, *kernels]): (count, gpu, host)
        for name, kernels, count, gpu, host in zip(
            *(table[name] for name in ("op", "sequence", "count", "gpu_time_us", "host_us")), strict=True
        )
    }
    for pattern, count, gpu_us, host_us in rows(file)[1:] if file.exists() else []:
        found = ours[pattern.replace("|Stream Wait Event", "")]
        assert found[0] >= int(count)
        if found[0] == int(count) and "Stream Wait Event" not in pattern:
            assert found[1:] == pytest.approx((float(gpu_us), float(host_us)))


# --- known answers ---------------------------------------------------------------------------------------------------


def call(start: float, number: int, dur: float = 1.0, name: str = "cudaLaunchKernel") -> dict[str, Any]:
    return span("cuda_runtime", name, start, dur, correlation=number)


def work(name: str, start: float, dur: float, number: int, stream: int = 7, cat: str = "kernel", **more: Any) -> Any:
    return span(cat, name, start, dur, 0, stream, device=0, stream=stream, correlation=number, **more)


def filled() -> Core:
    """Three launches one behind the other, whose kernels wait for the first; and one on another stream."""
    return load_core([
        span("cpu_op", "aten::add", 0, 8), call(0, 1), call(2, 2), call(4, 3, 20), call(30, 4),
        work("a", 5, 10, 1), work("b", 15, 10, 2), work("c", 25, 5, 3), work("d", 31, 4, 4, 8),
    ])  # fmt: skip


def test_a_queue_by_hand() -> None:
    table = queues(filled(), capacity=2)
    found = {name: list(table[name]) for name in table.columns}
    assert found["stream"] == [7, 8]
    assert found["max_length"] == [3, 1]
    assert found["max_us"] == [4.0, 30.0]
    assert found["mean_length"] == pytest.approx([(5 + 13 + 21) / 25, 1.0])
    assert found["full_us"] == [13.0, 0.0]  # from the second launch to the start of the second kernel
    assert found["full_percent"] == pytest.approx([52.0, 0.0])
    assert found["blocked_us"] == [12.0, 0.0]  # 1 of the second call, 11 of the third


def test_a_queue_over_time() -> None:
    table = queue_length(filled(), capacity=2, points=5)
    first = [row for row in zip(*(table[name] for name in table.columns), strict=True) if row[1] == 7]
    assert first[0] == (0, 7, 0.0, 6.2, pytest.approx((5 + 4.2 + 2.2) / 6.2), 3, pytest.approx(4.2))
    every = queue_length(filled(), points=0)
    assert [(row[2], row[5]) for row in zip(*(every[name] for name in every.columns), strict=True) if row[1] == 7] == [
        (0, 1), (2, 2), (4, 3), (5, 2), (15, 1)
    ]  # fmt: skip


def test_a_queue_that_stands_below_the_capacity_is_told() -> None:
    launches = [call(float(n), n + 1) for n in range(300)]
    kernels = [work("k", 1000.0 + 10 * n, 10, n + 1) for n in range(300)]
    launches += [call(1001.0 + 10 * n, 1000 + n) for n in range(600)]
    kernels += [work("k", 4000.0 + 10 * n, 10, 1000 + n) for n in range(600)]
    (note,) = queues(load_core([*launches, *kernels])).notes
    assert "-p capacity=297" in note


def test_an_event_before_its_launch_is_in_no_queue() -> None:
    core = load_core([call(10, 1), work("early", 9, 1, 1), call(20, 2), work("at once", 20, 1, 2)])
    (one,) = queues_of(whole_window(core))
    assert len(one.waited) == one.longest == 0
    assert list(queues(core)["max_us"]) == [None]
    assert not len(queue_length(core))


def test_copies_that_run_at_once_add_up() -> None:
    core = load_core([
        work("Memcpy HtoD (Pinned -> Device)", 0, 10, 1, 7, "gpu_memcpy", bytes=10_000),
        work("Memcpy HtoD (Pageable -> Device)", 5, 10, 2, 8, "gpu_memcpy", bytes=30_000),
        work("Memset (Device)", 0, 20, 3, 8, "gpu_memset", bytes=20_000),
        work("Memcpy DtoH (Device -> Pinned)", 0, 0, 4, 8, "gpu_memcpy", bytes=8),
    ])  # fmt: skip
    table = copy_bandwidth(core, points=0)
    found = list(zip(*(table[name] for name in ("direction", "start_us", "bytes", "gb_per_s")), strict=True))
    assert found == [
        ("HtoD", 0, 5_000, 1.0), ("HtoD", 5, 20_000, 4.0), ("HtoD", 10, 15_000, 3.0), ("fill", 0, 20_000, 1.0)
    ]  # fmt: skip
    table = copy_bandwidth(core, points=2)
    assert list(table["bytes"]) == [25_000, 15_000, 10_000, 10_000]
    assert list(table["busy_us"]) == [10, 5, 10, 10]
    assert list(table["max_gb_per_s"]) == [4, 3, 1, 1]
    assert table.notes == ["1 of 4 copies and fills have no rate: no bytes recorded, or 0 ns"]


@pytest.mark.parametrize("question", [queue_length, copy_bandwidth])
def test_points_and_capacities_are_numbers_of_something(question: Any) -> None:
    with pytest.raises(AnalysisError, match="points"):
        question(filled(), points=-1)
    with pytest.raises(AnalysisError, match="capacity"):
        queues(filled(), capacity=0)


def test_levels_change_at_moments() -> None:
    course = Levels.of(np.array([4, 0, 4, 2]), np.array([-1, 1, -2, 2]))
    assert [list(values) for values in course] == [[0, 2, 4], [1, 3, 0]]
    assert course.total_before(np.array([-1, 1, 3, 9])).tolist() == [0, 1, 5, 8]
    assert course.greatest(np.array([-1, 0, 1, 3, 5])).tolist() == [0, 1, 3, 3]


def layer(start: float, number: int, kernels: tuple[str, ...]) -> list[dict[str, Any]]:
    """An op whose kernels begin 10 us after one another and last 4 us."""
    launches = [call(start + k, number + k) for k in range(len(kernels))]
    ran = [work(name, start + 10 * k, 4, number + k) for k, name in enumerate(kernels)]
    return [span("cpu_op", "aten::layer", start, 9), span("cpu_op", "aten::inner", start, 8), *launches, *ran]


def test_sequences_by_hand() -> None:
    core = load_core([*layer(0, 1, ("a", "b")), *layer(100, 10, ("a", "b")), *layer(200, 20, ("b", "a", "a"))])
    table = kernel_sequences(core)
    columns = ("op", "sequence", "count", "gpu_time_us", "between_us", "saved_us")
    assert list(zip(*(table[name] for name in columns), strict=True)) == [
        ("aten::inner", ["a", "b"], 2, 16, 12, 12), ("aten::inner", ["b", "a", "a"], 1, 12, 12, 12)
    ]  # fmt: skip
    assert list(kernel_sequences(core, contains="aten")["op"]) == ["aten::layer"] * 2
    assert list(kernel_sequences(core, min_kernels=3)["count"]) == [1]
    assert not len(none := kernel_sequences(core, contains="conv"))
    assert len(none.notes) == 1
    with pytest.raises(AnalysisError, match="min_kernels"):
        kernel_sequences(core, min_kernels=0)


def test_what_communicates_is_not_fused() -> None:
    (saved,) = kernel_sequences(load_core(layer(0, 1, ("a", "ncclDevKernel_AllReduce"))))["saved_us"]
    assert saved == 0


def test_traffic_that_fusing_saves_is_that_of_chains() -> None:
    shapes = {"Input_Dims": [[1024, 1024], [1024, 1024]], "Input_type": ["float", "float"]}

    def pointwise(name: str, start: float, number: int) -> list[dict[str, Any]]:
        kernel = "void at::native::vectorized_elementwise_kernel<4>(int)"
        return [span("cpu_op", name, start, 4, **shapes), call(start + 1, number), work(kernel, start + 2, 4, number)]

    ops = [*pointwise("aten::mul", 0, 1), *pointwise("aten::add", 10, 2), *pointwise("aten::sub", 20, 3)]
    table = kernel_sequences(load_core([span("python_function", "nn.Module: Gate_3", 0, 30), *ops]))
    assert list(table["op"]) == ["nn.Module: Gate"]
    # Each reads two tensors and writes one; fused, four are read and one is written: 5 of 9.
    assert list(table["traffic_us"]) == pytest.approx([12 * 4 / 9])
