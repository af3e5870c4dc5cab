"""Attribution: known answers, and sums that must add up at every level of every trace."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from corpus import chosen_traces, loaded, parametrize
from tracelens_graph.analyses.places.attribution import LEVELS, NO_LAUNCH, attribution
from tracelens_graph.errors import AnalysisError
from tracelens_graph.graph.core import Core
from tracelens_graph.loading.one import load_core


def event(cat: str, name: str, ts: float, dur: float, tid: int = 1, **args: Any) -> dict[str, Any]:
    device = cat == "kernel"
    return {
        "ph": "X", "cat": cat, "name": name, "pid": 0 if device else 1, "tid": tid, "ts": ts, "dur": dur, "args": args,
    }  # fmt: skip


def launch(ts: float, correlation: int, name: str = "cudaLaunchKernel") -> dict[str, Any]:
    return event("cuda_runtime", name, ts, 1, correlation=correlation)


def kernel(name: str, ts: float, dur: float, correlation: int, stream: int = 7) -> dict[str, Any]:
    return event("kernel", name, ts, dur, stream, correlation=correlation, stream=stream, device=0)


@pytest.fixture(scope="module")
def core() -> Core:
    return load_core(
        [
            event("python_function", "nn.Module: Net_0", 0, 100),  # 0
            event("cpu_op", "aten::linear", 1, 30),  # 1
            event("cpu_op", "aten::linear", 2, 20),  # 2: nested in its namesake
            launch(3, 1),
            launch(25, 2),  # in the outer linear only
            event("cpu_op", "aten::relu", 40, 5),  # 5
            launch(41, 3, "cuLaunchKernel"),
            launch(60, 4),  # in no op
            kernel("gemm", 200, 10, 1),
            kernel("gemm", 205, 10, 2, stream=8),  # overlaps the one before
            kernel("relu", 300, 4, 3),
            kernel("other", 310, 2, 4),
            kernel("early", 100, 5, 99),  # not launched here
            event("cpu_op", "aten::size", 70, 1),
        ]
    )


def rows(core: Core, level: str) -> dict[str, tuple[float, ...]]:
    names = ("count", "inclusive_sum_us", "inclusive_busy_us", "exclusive_sum_us", "exclusive_busy_us", "uid")
    return {row["name"]: tuple(row[name] for name in names) for row in attribution(core, level).records()}


@pytest.mark.parametrize(
    ("level", "expected"),
    [
        ("module", {"nn.Module: Net_0": (1, 26, 21, 26, 21, 0), NO_LAUNCH: (0, 5, 5, 5, 5, None)}),
        ("op", {
            "aten::linear": (2, 20, 15, 20, 15, 1), "aten::relu": (1, 4, 4, 4, 4, 5), "(no op)": (0, 2, 2, 2, 2, None),
            NO_LAUNCH: (0, 5, 5, 5, 5, None),
        }),
        ("root_op", {
            "aten::linear": (1, 20, 15, 20, 15, 1), "aten::relu": (1, 4, 4, 4, 4, 5), "(no op)": (0, 2, 2, 2, 2, None),
            NO_LAUNCH: (0, 5, 5, 5, 5, None),
        }),
        ("launcher", {
            "aten::linear": (2, 20, 15, 20, 15, 1), "aten::relu": (1, 4, 4, 4, 4, 5),
            "cudaLaunchKernel": (1, 2, 2, 2, 2, 7), NO_LAUNCH: (0, 5, 5, 5, 5, None),
        }),
        ("runtime", {
            "cudaLaunchKernel": (3, 22, 17, 22, 17, 3), "cuLaunchKernel": (1, 4, 4, 4, 4, 6),
            NO_LAUNCH: (0, 5, 5, 5, 5, None),
        }),
        ("kernel", {
            "gemm": (2, 20, 15, 20, 15, 8), "early": (1, 5, 5, 5, 5, 12), "relu": (1, 4, 4, 4, 4, 10),
            "other": (1, 2, 2, 2, 2, 11),
        }),
    ],
)  # fmt: skip
def test_known_answers(core: Core, level: str, expected: dict[str, tuple[float, ...]]) -> None:
    assert rows(core, level) == expected
    assert list(rows(core, level)) == list(expected), "largest first, what nobody is charged with last"


def test_one_name(core: Core) -> None:
    [row] = attribution(core, "op", "aten::linear").records()
    assert row["inclusive_sum_us"] == 20
    assert len(attribution(core, "op", re.compile("aten::"))) == 2
    assert len(attribution(core, "op", "aten::size")) == 0, "no GPU work"


def test_unknown_levels_are_said(core: Core) -> None:
    with pytest.raises(AnalysisError, match="no level 'layer'; there are module, root_op, op"):
        attribution(core, "layer")


@parametrize("path", chosen_traces())
def test_exclusive_times_add_up_to_all_gpu_time(path: Path) -> None:
    core = loaded(path)
    total = int(core.columns.dur_ns[core.gpu_rows].sum())
    unlinked = core.gpu_rows[core.columns.parent[core.gpu_rows] < 0]
    for level in LEVELS:
        table = attribution(core, level)
        exclusive = np.rint(np.asarray(table["exclusive_sum_us"]) * 1000).astype(np.int64)
        assert exclusive.sum() == total, level
        assert (np.asarray(table["inclusive_sum_us"]) >= np.asarray(table["exclusive_sum_us"])).all(), level
        assert (np.asarray(table["inclusive_busy_us"]) <= np.asarray(table["inclusive_sum_us"])).all(), level
        lone = [row["inclusive_sum_us"] for row in table.records() if row["name"] == NO_LAUNCH]
        assert (sum(lone) * 1000 == pytest.approx(core.columns.dur_ns[unlinked].sum())) or level == "kernel"


@parametrize("path", chosen_traces())
def test_inclusive_time_of_ops_equals_a_walk_over_the_tree(path: Path) -> None:
    core = loaded(path)
    walked: dict[str, int] = {}
    for row in core.gpu_rows.tolist():
        above = {node.name for node in core.nodes_at([row])[0].ancestors if node.kind.name == "Op"}
        for name in above:
            walked[name] = walked.get(name, 0) + int(core.columns.dur_ns[row])
    table = attribution(core, "op")
    found = {row["name"]: round(row["inclusive_sum_us"] * 1000) for row in table.records() if row["uid"] is not None}
    assert found == walked
