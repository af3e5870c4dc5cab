"""Who waits for whom in a collective, where it is recorded and where only times tell."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from simulated_jobs import simulated_job

from tracelens_graph.analyses.critical_path.collective_points import Said, awaited_parts, waits_partly

KINDS = ("broadcast", "reduce", "gather", "scatter", "send", "all_to_all", "all_to_allv")


@pytest.mark.parametrize("nothing_recorded", [False, True])
def test_against_the_simulator(nothing_recorded: bool) -> None:
    """With what PyTorch records all is right; without a root, times tell it but for a few collectives."""
    job = simulated_job(
        ranks=4, steps=3, program="loop", step_collectives=KINDS, collective_mb=(1.0, 32.0), slow_rank=2
    )
    right = total = 0
    for one in job.truth[0]["collectives"]:
        kind = "send" if one["kind"] == "send_recv" else one["kind"]
        if not waits_partly(kind):
            continue
        nodes = []
        for rank, uid in zip(one["ranks"], one["kernels"], strict=True):
            found = job.traces[rank].core.collectives
            nodes.append(Said(found.nodes[found.of_row[job.traces[rank].core.row(uid)]], job.traces[rank]))
        if nothing_recorded and kind not in ("send", "all_to_all", "all_to_allv"):
            nodes = [Said(said.node, job.traces[0]) for said in nodes]  # nobody is the root then
        awaited, guess = awaited_parts(kind, nodes, np.array(one["start_ns"]), np.array(one["end_ns"]))
        assert guess == (nothing_recorded and kind in ("broadcast", "reduce", "gather", "scatter"))
        whole = np.ones((len(nodes), len(nodes)), bool)
        expected = np.array([[awaits is None or rank in awaits for rank in one["ranks"]] for awaits in one["awaits"]])
        # Whom a part need not have waited for, because they came before it, no time can tell.
        start = np.array(one["start_ns"])
        came = [np.where(np.array(rows), start, 0).max(axis=1).clip(min=start)
                for rows in (whole if awaited is None else awaited, expected)]  # fmt: skip
        right += bool((came[0] == came[1]).all())
        total += 1
    assert total > 40
    assert right == total if not nothing_recorded else right >= 0.9 * total


@given(st.data())
def test_a_root_by_times(data: st.DataObject) -> None:
    """Whoever comes last is the root of a broadcast if all others end together after it."""
    count = data.draw(st.integers(3, 8))
    start = np.array(data.draw(st.lists(st.integers(0, 1000), min_size=count, max_size=count, unique=True)))
    root = int(start.argmax())
    awaited, guess = awaited_parts("broadcast", _strangers(count), start, np.full(count, int(start.max()) + 50))
    assert guess
    assert awaited is not None
    assert awaited[:, root].all()


def _strangers(count: int) -> list[Said]:
    """Parts of a collective whose rank is not known."""
    job = simulated_job(ranks=2, steps=1, program="loop", collective_args="none")
    return [Said(job.traces[0].core.collectives.nodes[0], job.traces[0])] * count
