"""What is recomputed under activation checkpointing, and which forward op it repeats."""

from __future__ import annotations

import csv
import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from call_trees import BACKWARD, FORWARD, Call, frame, launch, load, op, run, uid_pairs

from corpus import loaded
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.intervals import union_length
from tracelens_graph.loading.one import load_core
from tracelens_graph.schema import Kind
from tracelens_graph.simulate import simulate

CHECKPOINTED = "tracelens/mi300/resnet-ddp-checkpointing"
RECOMPUTE = "torch/utils/checkpoint.py(1500): recompute_fn"


def layer(first: int | None = None, *names: str) -> list[Call]:
    """Ops of a layer, each with a kernel; numbered from `first` on, if autograd is on."""
    names = names or ("aten::addmm", "aten::relu")
    return [op(n, launch(), seq=None if first is None else first + i) for i, n in enumerate(names)]


def recomputed(core: Core) -> set[int]:
    return set(core.columns.uid[core.recompute].tolist())


def uids(*calls: Call) -> set[int]:
    """Uids of calls, of what they call, and of their kernels."""
    found = {call.uid for call in calls} | {call.kernel_uid for call in calls if call.kernel}
    return found | {uid for call in calls for uid in uids(*call.calls)}


class NonReentrant:
    """Two layers; the backward pass of the second recomputes it inside of its last op."""

    def __init__(self, stacks: bool, noop: bool = True, again: tuple[str, ...] = ()) -> None:
        start = [op("_NoopSaveInputs", seq=2)] if noop else []
        self.first, self.second = layer(0), layer(3)
        self.again = layer(50, *again)
        plumbing = frame(RECOMPUTE, *self.again)
        self.region = [frame("torch/utils/checkpoint.py(1111): unpack_hook", plumbing)] if stacks else self.again
        self.marked = [plumbing] if stacks else self.again
        relu = run("ReluBackward0", *self.region, op("aten::threshold_backward", launch()), seq=4)
        self.backward = [relu, run("AddmmBackward0", seq=3), run("ReluBackward0", seq=1), run("AddmmBackward0", seq=0)]
        self.core = load({FORWARD: [*self.first, *start, *self.second], BACKWARD: self.backward})

    def pairs(self, twins: bool) -> set[tuple[int, int]]:
        engine = [back.calls[0].uid for back in self.backward]
        found = {(self.second[1].uid, engine[0]), (self.second[0].uid, engine[1])}
        found |= {(self.first[1].uid, engine[2]), (self.first[0].uid, engine[3])}
        return found | ({(self.again[1].uid, engine[0]), (self.again[0].uid, engine[1])} if twins else set())


@pytest.mark.parametrize("stacks", [True, False])
def test_non_reentrant(stacks: bool) -> None:
    job = NonReentrant(stacks)
    assert recomputed(job.core) == uids(*job.marked)
    # Both layers look alike, but the region begins where the checkpoint saved its inputs.
    assert uid_pairs(job.core) == job.pairs(twins=True)


def test_a_region_that_begins_nowhere_is_not_guessed() -> None:
    # A layer of two ops between equal ones: the run of names fits twice around the op.
    first, second = layer(0), layer(2, "aten::relu", "aten::relu", "aten::relu")
    again = layer(50, "aten::relu", "aten::relu")
    back = run("ReluBackward0", frame(RECOMPUTE, *again), seq=3)
    core = load({FORWARD: [*first, *second], BACKWARD: [back]})
    assert uid_pairs(core) == {(second[1].uid, back.calls[0].uid)}
    assert recomputed(core) == uids(back.calls[0].calls[0])


def test_of_equal_runs_the_one_at_the_beginning_of_a_region_counts() -> None:
    region, after = layer(1, "aten::relu", "aten::relu"), layer(3, "aten::relu")
    again = layer(50, "aten::relu", "aten::relu")
    last = run("ReluBackward0", frame(RECOMPUTE, *again), seq=2)
    first = run("ReluBackward0", seq=1)
    core = load({FORWARD: [op("_NoopSaveInputs", seq=0), *region, *after], BACKWARD: [last, first]})
    engine = first.calls[0].uid, last.calls[0].uid
    assert uid_pairs(core) == {*zip((one.uid for one in region), engine, strict=True),
                               *zip((one.uid for one in again), engine, strict=True)}  # fmt: skip


def test_a_backward_op_that_is_itself_differentiated_recomputes_nothing() -> None:
    # With create_graph=True the ops of the backward pass have numbers, too.
    forward = [op("_NoopSaveInputs", seq=0), *layer(1, "aten::add", "aten::mul")]
    core = load({FORWARD: forward, BACKWARD: [run("MulBackward0", *layer(50, "aten::mul"), seq=2)]})
    assert recomputed(core) == set()
    assert len(uid_pairs(core)) == 1


def test_a_region_known_by_its_names_alone() -> None:
    job = NonReentrant(stacks=True, noop=False)
    assert uid_pairs(job.core) == job.pairs(twins=True)


@pytest.mark.parametrize("stacks", [True, False])
def test_other_ops_than_in_the_original_are_no_twins(stacks: bool) -> None:
    job = NonReentrant(stacks, again=("aten::gelu", "aten::relu"))
    assert uid_pairs(job.core) == job.pairs(twins=False)
    # The frame says that it is recomputed; without it nothing does.
    assert recomputed(job.core) == (uids(*job.marked) if stacks else set())


def test_a_recomputation_that_stops_early() -> None:
    noop, ops = op("_NoopSaveInputs", seq=0), layer(1, "aten::mm", "aten::relu", "aten::add")
    again = layer(50, "aten::mm", "aten::relu")
    add = run("AddBackward0", seq=3)  # needs no saved tensor
    relu, mm = run("ReluBackward0", frame(RECOMPUTE, *again), seq=2), run("MmBackward0", seq=1)
    core = load({FORWARD: [noop, *ops], BACKWARD: [add, relu, mm]})
    assert {pair for pair in uid_pairs(core) if pair[0] in uids(*again)} == {
        (again[0].uid, mm.calls[0].uid),
        (again[1].uid, relu.calls[0].uid),
    }


def test_the_last_number_of_a_thread_may_have_gone_to_no_node() -> None:
    job_ops, noop = layer(1, "aten::mm", "aten::relu"), op("_NoopSaveInputs", seq=0)
    again = layer(50, "aten::mm", "aten::relu", "aten::clone")
    relu, mm = run("ReluBackward0", frame(RECOMPUTE, *again), seq=2), run("MmBackward0", seq=1)
    core = load({FORWARD: [noop, *job_ops], BACKWARD: [relu, mm]})
    assert {forward for forward, _ in uid_pairs(core)} == {job_ops[0].uid, job_ops[1].uid, again[0].uid, again[1].uid}


@pytest.mark.parametrize("stacks", [True, False])
@pytest.mark.parametrize("same", [True, False])
def test_reentrant(stacks: bool, same: bool) -> None:
    original = layer()
    checkpoint = op("CheckpointFunction", *original, seq=0)
    again = layer(0, *(("aten::addmm", "aten::relu") if same else ("aten::addmm", "aten::gelu")))
    module = [frame("nn.Module: Block_0", *again)] if stacks else again
    inner = [run("ReluBackward0", op("aten::threshold_backward", launch()), seq=1, fwd=2)]
    inner.append(run("AddmmBackward0", op("aten::mm", launch()), seq=0, fwd=2))
    detach = op("aten::detach", launch())
    engine = [frame("torch/autograd/__init__.py(285): backward", *inner)] if stacks else inner
    body = [detach, *module, *engine]
    if stacks:
        body = [frame("torch/utils/checkpoint.py(281): backward", *body)]
    back = run("CheckpointFunctionBackward", *body, seq=0)
    core = load({FORWARD: [checkpoint], BACKWARD: [back]})

    assert recomputed(core) == uids(*module)
    twins = [again] + ([original] if same else [original[:0]])
    expected = {(checkpoint.uid, back.calls[0].uid)}
    for ops in twins:
        expected |= {(one.uid, run_.calls[0].uid) for one, run_ in zip(ops, inner[::-1], strict=False)}
    assert uid_pairs(core) == expected


def test_reentrant_inside_reentrant() -> None:
    def once(seq: int | None) -> tuple[Call, Call, Call]:
        add = op("aten::add", launch())
        inner = op("CheckpointFunction", add, seq=None if seq is None else seq + 1)
        return op("aten::mul", launch(), seq=seq), inner, add

    mul, inner, add = once(None)
    outer = op("CheckpointFunction", mul, inner, seq=0)
    mul_again, inner_again, add_again = once(10)
    add_third = op("aten::add", launch(), seq=12)
    back_add, back_mul = run("AddBackward0", seq=12, fwd=2), run("MulBackward0", seq=10, fwd=2)
    back_inner = run("CheckpointFunctionBackward", add_third, back_add, seq=11, fwd=2)
    back_outer = run("CheckpointFunctionBackward", mul_again, inner_again, back_inner, back_mul, seq=0)
    core = load({FORWARD: [outer], BACKWARD: [back_outer]})

    assert recomputed(core) == uids(mul_again, inner_again, add_third)
    repeats = {
        back_outer: [outer], back_inner: [inner, inner_again], back_mul: [mul, mul_again],
        back_add: [add, add_again, add_third],
    }  # fmt: skip
    assert uid_pairs(core) == {(one.uid, back.calls[0].uid) for back, ops in repeats.items() for one in ops}


def test_recomputing_frames_without_any_backward_op() -> None:
    again = layer(3)
    root = frame(RECOMPUTE, *again)
    core = load({FORWARD: [root]})
    assert recomputed(core) == uids(root)
    assert uid_pairs(core) == set()


@pytest.mark.parametrize("recompute", ["none", "non_reentrant", "reentrant"])
@pytest.mark.parametrize("stacks", [True, False], ids=["stacks", "no stacks"])
def test_simulated_recomputation(recompute: str, stacks: bool) -> None:
    [rank] = simulate(steps=2, seed=5, recompute=recompute, python_stacks=stacks).ranks
    core = load_core(rank.trace)
    known: set[int] = set()
    for part in ("host_events", "gpu_events"):
        marks = rank.truth[part]
        known |= {uid for uid, again in zip(marks["uid"], marks["recompute"], strict=True) if again}
    assert bool(known) == (recompute != "none")
    assert recomputed(core) == known


def test_real_recomputation_is_what_the_frame_calls(corpus: Path) -> None:
    core = loaded(corpus / f"{CHECKPOINTED}.json.gz")
    c = core.columns
    roots = [row for row in range(len(c)) if "recompute_fn" in core.names[c.name[row]]]
    expected = np.zeros(len(c), bool)
    for root in roots:
        expected[root : c.last[root] + 1] = True
    assert len(roots) == 12
    assert np.array_equal(core.recompute, expected)


def test_real_gpu_time_of_recomputation(corpus: Path, goldens: Path) -> None:
    core = loaded(corpus / f"{CHECKPOINTED}.json.gz")
    with (goldens / "full" / CHECKPOINTED.removeprefix("tracelens/") / "gpu_timeline.csv").open() as file:
        golden = {row["type"]: float(row["time ms"]) for row in csv.DictReader(file) if row["is_recompute"] == "True"}
    c = core.columns
    # The golden lacks the fills: of these the trace has no arrows from their launches.
    rows = np.flatnonzero(core.recompute & np.isin(c.kind, (Kind.Kernel, Kind.Memcpy)))
    assert union_length(c.start_ns[rows], c.end_ns[rows]) / 1e6 == pytest.approx(golden["busy_time"], abs=1e-4)
    assert np.count_nonzero(core.recompute & (c.kind == Kind.Memset)) == 24


def test_real_twins_share_their_backward_op(corpus: Path) -> None:
    core = loaded(corpus / f"{CHECKPOINTED}.json.gz")
    found, c = core.autograd, core.columns
    backward, count = np.unique(found.backward, return_counts=True)
    assert set(count.tolist()) == {1, 2}
    # 12 regions of 16 nodes; early stop leaves out the last two of every fourth region.
    assert (count == 2).sum() == 12 * 16 - 3 * 2
    for row in backward[count == 2].tolist():
        first, second = found.forward_of(row)
        assert c.name[first] == c.name[second]
        assert {bool(core.recompute[first]), bool(core.recompute[second])} == {True, False}


def test_real_recomputation_without_its_stacks(corpus: Path) -> None:
    def kernels(parsed: dict[str, Any]) -> set[tuple[int, int]]:
        core = load_core(parsed)
        c = core.columns
        rows = np.flatnonzero(core.recompute & (c.kind == Kind.Kernel))
        return set(zip(c.correlation[rows].tolist(), c.dur_ns[rows].tolist(), strict=True))

    parsed = json.loads(gzip.decompress((corpus / f"{CHECKPOINTED}.json.gz").read_bytes()))
    with_stacks = kernels(parsed)
    parsed["traceEvents"] = [event for event in parsed["traceEvents"] if event.get("cat") != "python_function"]
    assert len(with_stacks) > 500
    assert kernels(parsed) == with_stacks
