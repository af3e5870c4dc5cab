"""The event simulation: its collectives begin when all have come, and its causes cost what they should."""

from __future__ import annotations

from pathlib import Path

import pytest
from simulated_jobs import Cause, Job, simulated, trace_of, write


def test_nobody_leaves_a_collective_before_all_have_come() -> None:
    ranks = simulated(Job(ranks=16, tensor=2, pipeline=4, per_host=4, steps=2))
    meetings: dict[tuple[object, ...], list[tuple[float, float]]] = {}
    for rank in ranks:
        for one in rank.events:
            if one["cat"] == "kernel" and (args := one["args"]).get("Seq"):
                key = (args["Process Group Name"], args["Seq"], args.get("Src Rank"), args.get("Dst Rank"))
                meetings.setdefault(key, []).append((one["ts"], one["ts"] + one["dur"]))
    assert len(meetings) > 100
    for parts in meetings.values():
        assert len(parts) > 1
        assert max(start for start, _ in parts) < min(end for _, end in parts)


@pytest.mark.parametrize("style", ["ddp", "fsdp", "moe"])
def test_a_cause_costs_its_time(style: str) -> None:
    sound = simulated(Job(ranks=4, style=style))[0].now
    late = simulated(Job(ranks=4, style=style, causes=(Cause("data_loader", (2,), us=3000),)))[0].now
    assert 4 * 2900 < late - sound < 5.2 * 3050


def test_what_files_hold(tmp_path: Path) -> None:
    job = Job(ranks=4, missing=(1,), cut=(2,), begins={3: 2}, lost={0: 3})
    assert sorted(path.name for path in write(job, tmp_path).iterdir()) == [f"rank{at}.json.gz" for at in (0, 2, 3)]
    traces = [trace_of(rank) for rank in simulated(job)]
    collectives = [sum(one["name"].startswith("nccl") for one in trace["traceEvents"]) for trace in traces]
    assert collectives == [7, 10, 10, 6]
