"""On simulated jobs the lineage of tensors equals what the simulator knows of them, however ids are re-used."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tracelens_graph.analyses.tensors.storages import peak_bytes_by_module
from tracelens_graph.execution.link import tensors_of
from tracelens_graph.graph.core import Core
from tracelens_graph.loading.one import load_core
from tracelens_graph.simulate import simulate

SMALL: dict[str, Any] = {"batch": 2, "tokens": 16, "width": 32, "heads": 2, "vocabulary": 64}


def uids(core: Core, rows: np.ndarray) -> list[int | None]:
    return [int(core.columns.uid[row]) if row >= 0 else None for row in rows.tolist()]


def known(truth: dict[str, Any]) -> Counter[Any]:
    """Each tensor with its storage, as plain values."""
    storages = [(one["bytes"], one["made_by"], one["start_ns"], one["end_ns"]) for one in truth["storages"]]
    return Counter(
        (
            one["made_by"], tuple(sorted(one["consumers"])), tuple(one["shape"]), one["dtype"],
            None if one["storage"] is None else storages[one["storage"]],
        )
        for one in truth["tensors"]
    )  # fmt: skip


def found(core: Core, zero: int) -> Counter[Any]:
    """The same from the graph; `zero` is its time 0 in the simulation."""
    tensors = tensors_of(core)
    assert tensors is not None
    told = tensors.lineage
    spans = tensors.storage_spans
    made, allocated = (uids(core, tensors.rows_of_nodes(of.producer)) for of in (told.tensors, told.storages))
    consumers: list[set[int]] = [set() for _ in made]
    for use in np.flatnonzero(~told.uses.is_output).tolist():
        consumers[told.tensor[use]].add(int(core.columns.uid[tensors.row[use]]))
    result: Counter[Any] = Counter()
    for number, maker in enumerate(made):
        use, storage = told.tensors.first_use[number], told.tensors.storage[number]
        memory = None
        if storage >= 0:
            start, end = (int(one[storage]) + zero for one in spans)
            size, allocator = int(told.storages.bytes[storage]), allocated[storage]
            memory = size, allocator, None if allocator is None else start, end
        shape, dtype = told.uses.shapes[told.uses.shape[use]], told.uses.dtypes[told.uses.dtype[use]]
        result[maker, tuple(sorted(consumers[number])), shape, dtype, memory] += 1
    return result


def peaks(truth: dict[str, Any], zero: int) -> dict[str, tuple[int, float]]:
    """Device -> most bytes alive, and the first moment with so many in us, by a walk over all starts and ends."""
    found = {}
    for device in {one["device"] for one in truth["storages"]}:
        changes = []
        for one in truth["storages"]:
            if one["device"] == device:
                start = 0 if one["start_ns"] is None else one["start_ns"] - zero
                changes += [(start, 1, one["bytes"]), (one["end_ns"] - zero, 0, -one["bytes"])]
        now, most, moment = 0, 0, 0
        for time, _, change in sorted(changes):
            now += change
            if now > most:
                most, moment = now, time
        found[device] = most, moment / 1e3
    return found


def check(**options: Any) -> None:
    for rank in simulate(**options).ranks:
        core = load_core(rank.trace, et=rank.execution_trace)
        truth = rank.truth
        first = min(zip(truth["host_events"]["start_ns"], truth["host_events"]["uid"], strict=True))
        zero = first[0] - int(core.columns.start_ns[core.row(first[1])])
        ours, theirs = found(core, zero), known(truth)
        assert ours - theirs == Counter()
        assert theirs - ours == Counter()
        assert tensors_of(core) is not None
        assert len(tensors_of(core).lineage.storages) == len(truth["storages"])
        held: dict[str, tuple[int, float]] = {}
        for row in peak_bytes_by_module(core).records():
            before, _ = held.get(row["device"], (0, 0.0))
            held[row["device"]] = before + row["bytes"], pytest.approx(row["at_us"] - core.info.lead_ns / 1e3)
        assert held == {device: peak for device, peak in peaks(truth, zero).items() if peak[0]}


@pytest.mark.parametrize("reuse_ids", [False, True])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"ranks": 2, "step_collectives": ("allreduce", "all_to_allv", "send", "barrier")},
        {"recompute": "non_reentrant"},
        {"recompute": "reentrant"},
        {"ranks": 4, "pipeline_parallel": 2, "micro_batches": 2, "batch": 4},
        {"ranks": 2, "tensor_parallel": 2},
        {"ranks": 2, "expert_parallel": 2},
    ],
    ids=lambda options: " ".join(options) or "plain",
)
def test_tensors_and_storages(options: dict[str, Any], reuse_ids: bool) -> None:
    check(**{**SMALL, "steps": 2, "layers": 2, **options}, reuse_ids=reuse_ids)


def test_ids_are_used_again() -> None:
    """Else the test above would prove little."""
    (rank,) = simulate(**SMALL, steps=2, reuse_ids=True).ranks
    core = load_core(rank.trace, et=rank.execution_trace)
    assert tensors_of(core) is not None
    told = tensors_of(core).lineage
    assert (told.tensors.version > 1).sum() > 100
    assert (told.storages.version > 1).sum() > 50


@settings(max_examples=15, deadline=None)
@given(
    seed=st.integers(0, 1000),
    layers=st.integers(1, 3),
    recompute=st.sampled_from(["none", "non_reentrant", "reentrant"]),
    program=st.sampled_from(["training", "loop"]),
    ranks=st.sampled_from([1, 2]),
    tiny_kernels=st.integers(0, 3),
    read_loss=st.booleans(),
    pageable=st.booleans(),
    python_stacks=st.booleans(),
    collective_args=st.sampled_from(["all", "without_sequence", "none"]),
)
def test_whatever_the_settings(**options: Any) -> None:
    check(**SMALL, **options, steps=2, reuse_ids=True)
