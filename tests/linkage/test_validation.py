"""All ops at once: the steps that make it fast give what plain loops give, and every real pair round-trips."""

from __future__ import annotations

import random
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpus import CHECKOUT, CORPUS, cases, kineto_traces, loaded, parametrize
from tracelens_graph.graph.core import Core
from tracelens_graph.linkage import get_gpu_op_identifier, kernel_metadata_scrape, kernel_to_op_tracing
from tracelens_graph.linkage.traces import row_of_identifier, shared_identifiers
from tracelens_graph.linkage.tracing import events_of_op
from tracelens_graph.linkage.validation import RETURNS, Validation, preorder
from tracelens_graph.loading.one import load_core
from tracelens_graph.simulate import simulate


@given(st.lists(st.integers(-1, 30), max_size=30))
def test_preorder_nests_like_the_parents(drawn: list[int]) -> None:
    parent = np.array([min(above, row - 1) for row, above in enumerate(drawn)], np.int64)
    first, last = preorder(SimpleNamespace(parent=parent))  # type: ignore[arg-type]
    assert sorted(first.tolist()) == list(range(len(parent)))

    def above(row: int) -> set[int]:
        return {row} | (above(int(parent[row])) if parent[row] >= 0 else set())

    for row in range(len(parent)):
        inside = {other for other in range(len(parent)) if first[row] <= first[other] <= last[row]}
        assert inside == {other for other in range(len(parent)) if row in above(other)}


def real_pairs() -> list[tuple[str, Path, Path]]:
    """Name, execution trace and profiler's trace of each pair of the corpus."""
    if not CORPUS:
        return []
    dlrm = CORPUS / "dlrm-8-ranks"
    pairs = [
        ("simple-add", CORPUS / "linkage/simple-add/execution-trace", CORPUS / "linkage/simple-add/kineto"),
        ("resnet-ddp", CORPUS / "linkage/resnet-ddp/execution-trace-1.0.3", CORPUS / "hta/resnet-ddp-nccl-args"),
        *((f"dlrm-{rank}", dlrm / f"execution-trace/rank{rank}", dlrm / f"kineto/rank{rank}") for rank in range(8)),
    ]
    return [(name, Path(f"{et}.json.gz"), Path(f"{trace}.json.gz")) for name, et, trace in pairs]


@pytest.mark.parametrize(("et", "trace"), cases(real_pairs(), width=2))
def test_every_op_with_gpu_work_round_trips(et: Path, trace: Path) -> None:
    core = load_core(trace, et=et)
    assert core.link is not None
    found = Validation(core, core.link)
    assert len(found.ops)
    assert (found.verdict == RETURNS).all()
    launched = core.columns.parent[core.gpu_rows] >= 0
    assert (found.origins.row[launched] >= 0).all()
    _agrees_with_the_functions(core, found)


def _agrees_with_the_functions(core: Core, found: Validation, most: int = 40) -> None:
    """Op by op through the six functions, for some ops: the same as all at once."""
    assert core.link is not None
    execution = core.link.execution
    picked = random.Random(1).sample(range(len(found.ops)), min(most, len(found.ops)))
    for at in picked:
        row = int(found.ops[at])
        node = int(core.link.node_of_row[row])
        kernels = [
            event
            for category in ("kernel", "gpu_memcpy", "gpu_memset")
            for event in events_of_op(core, core.link, int(execution.id[node]))["events"][category]
        ]
        assert kernels
        leads = []
        for event in kernels:
            identifier = get_gpu_op_identifier(event)
            assert kernel_metadata_scrape(identifier, core)["uid"] == event["uid"]
            above = execution.row(kernel_to_op_tracing(identifier, core, core)["cpu_op_id"])
            while above >= 0 and above != node:
                above = int(execution.parent[above])
            leads.append(above == node)
        assert all(leads) == (found.verdict[at] == RETURNS)


def test_simulated_pairs_round_trip() -> None:
    rank = simulate(ranks=1, steps=1, layers=1).ranks[0]
    core = load_core(rank.trace, et=rank.execution_trace)
    assert core.link is not None
    found = Validation(core, core.link)
    assert len(found.ops)
    assert (found.verdict == RETURNS).all()
    _agrees_with_the_functions(core, found)


def test_a_pair_without_gpu_work_says_so() -> None:
    folder = CHECKOUT / "examples/traces"
    et = folder / "tiny-transformer-cpu.execution-trace.json.gz"
    core = load_core(folder / "tiny-transformer-cpu.json.gz", et=et)
    assert core.link is not None
    counts = {row["what"]: row for row in Validation(core, core.link).counts.records()}
    assert (counts["linked"]["count"], counts["linked"]["percent"]) == (3828, 100)
    assert counts["round_trip"]["of"] == 0
    assert np.isnan(counts["round_trip"]["percent"])


@parametrize("path", kineto_traces())
def test_identifiers_are_unique_and_lead_to_their_event(path: Path) -> None:
    core = loaded(path)
    assert not shared_identifiers(core).any()
    rows = core.gpu_rows[:: max(1, len(core.gpu_rows) // 50)].tolist()
    nodes = core.nodes_at(rows)
    events = core.details.events([node.uid for node in nodes])
    for node in nodes:
        of_event = get_gpu_op_identifier(events[node.uid])
        assert of_event == get_gpu_op_identifier(node)
        assert row_of_identifier(core, of_event) == node.row
