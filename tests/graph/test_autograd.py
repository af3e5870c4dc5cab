"""Forward ops and their backward ops."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from call_trees import BACKWARD, FORWARD, annotation, load, op, run, trace, uid_pairs
from hypothesis import given
from made_traces import traces

from corpus import kineto_traces, loaded, parametrize
from tracelens_graph.graph.autograd import autograd_of
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.graph import changed
from tracelens_graph.loading.one import load_core
from tracelens_graph.schema import Kind
from tracelens_graph.simulate import simulate


def engine_op(evaluate: Any) -> Any:
    """The node's op inside of `evaluate_function`."""
    return evaluate.calls[0]


def test_a_number_belongs_to_the_forward_op_that_starts_last_and_to_the_inner_backward_op() -> None:
    add, mm = op("aten::addmm", seq=4), op("aten::mm")
    linear = op("aten::linear", op("aten::t", seq=3), add, mm, seq=3)
    relu = op("aten::relu", seq=5)
    back_relu, back_add = run("ReluBackward0", seq=5), run("AddmmBackward0", seq=4)
    core = load({FORWARD: [linear, relu], BACKWARD: [back_relu, back_add]})
    assert uid_pairs(core) == {(add.uid, engine_op(back_add).uid), (relu.uid, engine_op(back_relu).uid)}
    assert core.autograd.lost_arrows == 0
    assert not core.recompute.any()


def test_lookups_give_rows_in_both_directions() -> None:
    mul = op("aten::mul", seq=1)
    first, again = run("MulBackward0", seq=1), run("MulBackward0", seq=1)
    core = load({FORWARD: [mul], BACKWARD: [first, again]})
    runs = [core.row(engine_op(back).uid) for back in (first, again)]
    assert core.autograd.backward_of(core.row(mul.uid)) == runs
    assert [core.autograd.forward_of(row) for row in runs] == [[core.row(mul.uid)]] * 2
    assert core.autograd.forward_of(core.row(mul.uid)) == core.autograd.backward_of(runs[0]) == []


def test_forward_and_backward_on_one_thread() -> None:
    mul, back = op("aten::mul", seq=0), run("MulBackward0", seq=0)
    core = load({FORWARD: [mul, back]})
    assert uid_pairs(core) == {(mul.uid, engine_op(back).uid)}


def test_a_backward_op_that_the_recording_cut_is_its_evaluation() -> None:
    mul, back = op("aten::mul", seq=1), op("autograd::engine::evaluate_function: MulBackward0", seq=1, fwd=1)
    core = load({FORWARD: [mul], BACKWARD: [back]})
    assert uid_pairs(core) == {(mul.uid, back.uid)}


def test_minus_one_is_no_sequence_number() -> None:
    core = load({FORWARD: [op("aten::add_", seq=-1)], BACKWARD: [run("AccumulateGrad", seq=-1)]})
    assert uid_pairs(core) == set()


def test_no_op_is_the_backward_of_a_later_one() -> None:
    core = load({BACKWARD: [run("MulBackward0", seq=1)], FORWARD: [op("aten::mul", seq=1)]})
    assert uid_pairs(core) == set()


def test_numbers_count_within_their_process() -> None:
    ours, theirs = op("aten::mul", seq=1), op("aten::mul", seq=1)
    back, their_back = run("MulBackward0", seq=1), run("MulBackward0", seq=1)
    core = load({FORWARD: [ours], (9, 1): [theirs], BACKWARD: [back], (9, 2): [their_back]})
    assert uid_pairs(core) == {(ours.uid, engine_op(back).uid), (theirs.uid, engine_op(their_back).uid)}


def test_names_tell_forward_threads_apart_that_count_alike() -> None:
    mul, add = op("aten::mul", seq=1), op("aten::add", seq=1)
    back_add, back_mul = run("AddBackward0", seq=1, fwd=1), run("MulBackward0", seq=1, fwd=2)
    core = load({(1, 10): [mul], (1, 11): [add], BACKWARD: [back_add, back_mul]})
    assert uid_pairs(core) == {(mul.uid, engine_op(back_mul).uid), (add.uid, engine_op(back_add).uid)}


def replicas() -> tuple[list[Any], list[Any], dict[Any, Any]]:
    forward = [op("aten::mul", seq=1), op("aten::mul", seq=1)]
    backward = [run("MulBackward0", seq=1, fwd=number) for number in (2, 3)]
    return forward, backward, {(1, 10): forward[:1], (1, 11): forward[1:], BACKWARD: backward}


def test_threads_that_nothing_tells_apart_are_not_guessed() -> None:
    assert uid_pairs(load(replicas()[2])) == set()


def test_one_arrow_tells_the_thread_of_a_number() -> None:
    forward, backward, threads = replicas()
    late, back_late = op("aten::add", seq=2), run("AddBackward0", seq=2, fwd=3)
    threads = {(1, 10): [forward[0], late], (1, 11): [forward[1]], BACKWARD: [back_late, *backward]}
    core = load(threads, [(late, engine_op(back_late))])
    # Number 3 is the first thread by its arrow, so that number 2 is the other one.
    assert uid_pairs(core) == {
        (late.uid, engine_op(back_late).uid),
        (forward[0].uid, engine_op(backward[1]).uid),
        (forward[1].uid, engine_op(backward[0]).uid),
    }


def test_one_arrow_counts_more_than_names_that_fit() -> None:
    told, others = op("aten::add", seq=2), [op("aten::mul", seq=number) for number in (5, 6, 7)]
    back = run("AddBackward0", seq=2, fwd=3)
    before = [run("MulBackward0", seq=number, fwd=3) for number in (5, 6, 7)]
    core = load({(1, 10): [told], (1, 11): others, BACKWARD: [*before, back]}, [(told, engine_op(back))])
    assert uid_pairs(core) == {(told.uid, engine_op(back).uid)}


def test_arrows_win_over_numbers() -> None:
    told, numbered = op("aten::mul", seq=7), op("aten::mul", seq=1)
    back = run("MulBackward0", seq=1)
    core = load({FORWARD: [told, numbered], BACKWARD: [back]}, [(told, engine_op(back))])
    assert uid_pairs(core) == {(told.uid, engine_op(back).uid)}


def test_an_arrow_between_ops_without_numbers() -> None:
    mul, back = op("aten::mul"), op("MulBackward0")
    core = load({FORWARD: [mul], BACKWARD: [back]}, [(mul, back)])
    assert uid_pairs(core) == {(mul.uid, back.uid)}


def test_an_arrow_at_an_instant_of_several_ops_takes_the_one_with_the_number() -> None:
    made, other = op("aten::addmm", seq=4), op("aten::t", seq=3)
    outer = op("aten::linear", made, seq=3)
    back = run("AddmmBackward0", seq=4)
    parsed = trace([(FORWARD, [outer, other]), (BACKWARD, [back])], [(made, engine_op(back))])
    events = parsed["traceEvents"]
    for call in (outer, made, other):
        events[call.uid]["ts"] = 1.0
    events[engine_op(back).uid]["ts"] = events[back.uid]["ts"]
    for event in events[-2:]:
        event["ts"] = 1.0 if event["ph"] == "s" else events[back.uid]["ts"]
    core = load_core(parsed)
    assert uid_pairs(core) == {(made.uid, engine_op(back).uid)}


def test_a_clock_of_microseconds_cannot_hide_the_inner_op() -> None:
    inner = op("aten::view", seq=4)
    outer, back = op("aten::reshape", inner, seq=4), run("ViewBackward0", seq=4)
    parsed = trace([(FORWARD, [outer]), (BACKWARD, [back])])
    parsed["traceEvents"][inner.uid]["ts"] = parsed["traceEvents"][outer.uid]["ts"]
    assert uid_pairs(load_core(parsed)) == {(inner.uid, engine_op(back).uid)}


def test_arrows_that_end_on_no_op_are_counted() -> None:
    mul, back, note = op("aten::mul", seq=1), run("MulBackward0", seq=1), annotation("note")
    core = load({FORWARD: [note, mul], BACKWARD: [back]}, [(note, engine_op(back))])
    assert core.autograd.lost_arrows == 1
    assert uid_pairs(core) == {(mul.uid, engine_op(back).uid)}


def test_arrows_of_two_processes_may_share_an_id() -> None:
    ours, theirs = op("aten::mul"), op("aten::mul")
    back, their_back = op("MulBackward0"), op("MulBackward0")
    parsed = trace(
        [(FORWARD, [ours]), (BACKWARD, [back]), ((9, 1), [theirs]), ((9, 2), [their_back])],
        [(ours, back), (theirs, their_back)],
    )
    for event in parsed["traceEvents"]:
        if event["cat"] == "fwdbwd":
            event["id"] = 1
    assert uid_pairs(load_core(parsed)) == {(ours.uid, back.uid), (theirs.uid, their_back.uid)}


@pytest.mark.parametrize("calls", [[], [op("aten::mul")], [annotation("note")]])
def test_a_trace_without_numbers_has_no_links(calls: list[Any]) -> None:
    core = load({FORWARD: calls})
    assert uid_pairs(core) == set()
    assert len(core.recompute) == len(core.columns)


@given(traces())
def test_links_join_ops_whatever_the_trace(parsed: dict[str, Any]) -> None:
    core = load_core(parsed)
    found = core.autograd
    ends = np.concatenate((found.forward, found.backward))
    assert (core.columns.kind[ends] == Kind.Op).all()
    assert (found.forward != found.backward).all()
    assert len(uid_pairs(core)) == len(found.forward)


@pytest.mark.parametrize("arrows", [True, False], ids=["arrows", "numbers only"])
@pytest.mark.parametrize("recompute", ["none", "non_reentrant", "reentrant"])
@pytest.mark.parametrize("stacks", [True, False], ids=["stacks", "no stacks"])
def test_simulated_pairs(recompute: str, stacks: bool, arrows: bool) -> None:
    [rank] = simulate(steps=2, seed=5, recompute=recompute, python_stacks=stacks).ranks
    core = load_core(rank.trace)
    if not arrows:
        core.autograd_flows = []
    assert uid_pairs(core) == {tuple(pair) for pair in rank.truth["forward_backward"]}


def arrow_instants(core: Core) -> set[tuple[int, int, int, int]]:
    """(thread, start) of both ends of every whole arrow."""
    ends: dict[str, dict[Any, tuple[int, int]]] = {"s": {}, "f": {}}
    for phase, key, thread, time in core.autograd_flows:
        ends[phase][key] = (thread, time)
    return {(*ends["s"][key], *ends["f"][key]) for key in ends["s"].keys() & ends["f"].keys()}


def pair_instants(core: Core, forward: np.ndarray, backward: np.ndarray) -> set[tuple[int, int, int, int]]:
    c = core.columns
    parts = (c.thread[forward], c.start_ns[forward], c.thread[backward], c.start_ns[backward])
    return set(zip(*(part.tolist() for part in parts), strict=True))


@parametrize("path", kineto_traces())
def test_real_arrows_and_real_numbers_agree(path: Path) -> None:
    core = load_core(path)
    found = core.autograd
    arrows = arrow_instants(core)
    assert found.lost_arrows == 0
    assert arrows <= pair_instants(core, found.forward, found.backward)
    by_number = autograd_of(changed(core, autograd_flows=[]))
    if arrows:
        originals = ~by_number.recompute[by_number.forward]
        assert pair_instants(core, by_number.forward[originals], by_number.backward[originals]) == arrows


def test_real_traces_hold_arrows(corpus: Path) -> None:
    known = {
        "hta/resnet-ddp-nccl-args": 543, "hta/nanosecond-resolution": 905, "hta/amd/mi250-minitoy": 4,
        "tracelens/mi300/normalization-layers": 51, "tracelens/mi300/resnet-ddp-checkpointing": 213,
    }  # fmt: skip
    for name, count in known.items():
        assert len(arrow_instants(loaded(corpus / f"{name}.json.gz"))) == count
    numbered = load_core(corpus / "dlrm-8-ranks/kineto/rank0.json.gz")
    assert len(numbered.autograd.forward) == 38
