"""The program of collectives, run by torchrun over gloo with as many ranks as traced, with fewer, and with one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tracelens_graph.replay.collectives import CollectiveCall as Call
from tracelens_graph.replay.collectives import CollectivePlan

ALL = (0, 1, 2, 3)
CALLS = (
    Call("allreduce", "all_reduce", "bfloat16", 1000, 1000, ALL, traced_us=10.0),
    Call("allreduce_coalesced", "all_reduce_coalesced", "float32", 300, 300, ALL, parts=(100, 200)),
    Call("_allgather_base", "all_gather_into_tensor", "float16", 100, 400, ALL),
    Call("all_gather", "all_gather", "float32", 100, 400, ALL),
    Call("coalesced", "all_gather_into_tensor_coalesced", "float32", 100, 400, ALL, parts=(60, 40)),
    Call("coalesced", "reduce_scatter_tensor_coalesced", "float32", 400, 100, ALL, parts=(240, 160)),
    Call("_reduce_scatter_base", "reduce_scatter_tensor", "float32", 400, 100, ALL),
    Call("reduce_scatter", "reduce_scatter", "float32", 400, 100, ALL),
    Call("gather", "gather", "float32", 100, 400, ALL),
    Call("scatter", "scatter", "float32", 400, 100, ALL),
    Call("broadcast", "broadcast", "int64", 100, 100, ALL),
    Call("reduce", "reduce", "float64", 100, 100, ALL),
    Call("all_to_all", "all_to_all_single", "float32", 400, 400, ALL),
    Call(
        "all_to_allv", "all_to_all_single", "float32", 100, 70, ALL, 2, in_split=(10, 20, 30, 40),
        out_split=(10, 0, 30, 30),
    ),
    Call("send", "transfer", "float32", 100, 100, ALL, source=3, target=1),
    Call("send_recv", "ring", "float32", 100, 100, ALL),
    Call("barrier", "barrier", "", 0, 0, ALL),
    Call("allreduce", "all_reduce", "float32", 5000, 5000, (1, 3)),
    Call("allreduce", "all_reduce", "float8_e4m3fn", 8, 8, (1, 3)),
)  # fmt: skip
REFUSED = "float8_e4m3fn"
"""Gloo does not reduce it."""


@pytest.mark.parametrize("ranks", [4, 3, 1])
def test_collectives_run_and_groups_shrink_to_the_ranks_there_are(ranks: int, tmp_path: Path) -> None:
    program = tmp_path / "collectives.py"
    program.write_text(CollectivePlan(CALLS, (), 2, 4).script())
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(ranks), str(program)]
    command += ["--device", "cpu", "--iterations", "3", "--warmup", "1", "--json", "out.json"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, timeout=240, env=environment, check=False
    )
    assert done.returncode == 0, done.stderr
    results: list[dict[str, Any]] = json.loads((tmp_path / "out.json").read_text())
    assert max(map(len, done.stdout.splitlines())) <= 100
    by_call = dict(zip(CALLS, results, strict=True))
    failed = {call.kind if call.dtype != REFUSED else REFUSED for call, one in by_call.items() if "error" in one}
    assert failed == {REFUSED} if ranks > 1 else failed == {REFUSED, "send", "send_recv"}
    assert [len(one["ranks"]) for one in results[:2]] == [ranks, ranks]
    reduced, spread = results[0], results[2]
    assert reduced["bytes"] == 2000
    assert reduced["ratio_to_traced"] == pytest.approx(reduced["median_us"] / 10)
    bus = reduced["algorithm_gb_per_s"] * 2 * (ranks - 1) / ranks
    assert reduced["bus_gb_per_s"] == pytest.approx(bus)
    assert spread["bytes"] == 200 * ranks
    uneven = by_call[CALLS[13]]
    assert uneven["bytes"] == {4: 400, 3: 4 * (10 + 20 + 30), 1: 160}[ranks] if "error" not in uneven else False
    shrunk = [one for one in results if any("in place of" in note for note in one["notes"])]
    assert bool(shrunk) == (ranks < 4)


def test_started_without_torchrun_it_says_how(tmp_path: Path) -> None:
    program = tmp_path / "collectives.py"
    program.write_text(CollectivePlan(CALLS[:1], (), 0, 4).script())
    environment = {key: value for key, value in os.environ.items() if key != "RANK"}
    done = subprocess.run(
        [sys.executable, str(program)], capture_output=True, text=True, timeout=120, env=environment, check=False
    )
    assert done.returncode == 2
    assert "start it with torchrun: torchrun --nproc-per-node N collectives.py" in done.stderr
