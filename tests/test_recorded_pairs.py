"""Traces join the execution traces of their runs as a second, independent implementation joins them.

The pairs that `examples/record_pairs.py` records are also checked for what they are there for; with `--pairs FOLDER`
those in another folder are, freshly recorded.
"""

from __future__ import annotations

import copy
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import recorded_pairs
from recorded_pairs import OF_CORPUS, RECORDED, Pair, document, linked, parametrize_real

from corpus import needs_corpus
from tracelens_graph.errors import LinkError
from tracelens_graph.graph.core import Core
from tracelens_graph.loading.one import load_core
from tracelens_graph.simulate import simulate

METHODS = {
    "record id": "Record function id = rf_id",
    "external id": "External id = rf_id",
    "order": "names in order, by thread",
}
"""What the second implementation calls a way to join -> what the package calls it."""


@pytest.fixture(params=RECORDED)
def recorded(request: pytest.FixtureRequest, pairs_folder: Path) -> Pair:
    return linked(pairs_folder, request.param)


def joined(core: Core) -> set[tuple[int, int]]:
    """Pairs of a node's id and an event's position by the graph's link."""
    link = core.link
    assert link is not None
    rows = np.flatnonzero(link.node_of_row >= 0)
    nodes = link.node_of_row[rows]
    assert link.row_of_node[nodes].tolist() == rows.tolist()
    return set(zip(link.execution.id[nodes].tolist(), core.columns.uid[rows].tolist(), strict=True))


def check(trace: Any, execution_trace: Any) -> tuple[str, set[tuple[int, int]]]:
    """Join in both ways, and give what both say."""
    method, expected = recorded_pairs.join(trace, execution_trace)
    core = load_core(trace, et=execution_trace)
    assert joined(core) == expected
    assert core.link is not None
    assert core.link.method == METHODS[method]
    return method, expected


@parametrize_real()
def test_real_pairs_join_as_the_second_implementation_joins_them(pair: Pair) -> None:
    trace, execution_trace = pair.documents()
    method, pairs = check(trace, execution_trace)
    nodes = recorded_pairs.nodes_of(execution_trace)
    if method == "order":
        assert len(nodes) - 4 <= len(pairs) <= len(nodes)
    else:
        assert len(pairs) == len(nodes) == len(recorded_pairs.events_of(trace))


@needs_corpus
def test_counts_are_the_published_ones() -> None:
    counts = {name: len(recorded_pairs.join(*pair.documents())[1]) for name, pair in OF_CORPUS.items()}
    assert counts.pop("simple-add") == 36
    assert counts.pop("resnet-ddp") == 14_388
    assert len(counts) == 8
    assert all(1_668 <= count <= 1_672 for count in counts.values())


def test_recorded_pairs_join_as_the_second_implementation_joins_them(recorded: Pair) -> None:
    trace, execution_trace = recorded.documents()
    method, pairs = check(trace, execution_trace)
    assert method == "record id"
    assert len(pairs) == len(recorded_pairs.nodes_of(execution_trace))


def test_simulated_pairs_join_as_the_second_implementation_joins_them() -> None:
    for rank in simulate(ranks=2, steps=1, layers=1).ranks:
        method, pairs = check(rank.trace, rank.execution_trace)
        assert method == "record id"
        assert len(pairs) == len(recorded_pairs.nodes_of(rank.execution_trace))


def without_ids(trace: Any) -> Any:
    """The trace as one whose ids tell nothing."""
    stripped = copy.deepcopy(trace)
    for event in stripped["traceEvents"]:
        for key in ("Record function id", "External id"):
            event.get("args", {}).pop(key, None)
    return stripped


def test_order_joins_the_same_as_ids(recorded: Pair) -> None:
    trace, execution_trace = recorded.documents()
    by_id = recorded_pairs.join(trace, execution_trace)[1]
    core = load_core(without_ids(trace), et=execution_trace)
    assert core.link is not None
    assert core.link.method.startswith(METHODS["order"])
    assert joined(core) == by_id


def test_shifted_ids_join_the_same(recorded: Pair) -> None:
    trace, execution_trace = recorded.documents()
    shifted = copy.deepcopy(trace)
    for event in shifted["traceEvents"]:
        if "Record function id" in event.get("args", {}):
            event["args"]["Record function id"] += 17
    method, pairs = recorded_pairs.join(shifted, execution_trace)
    assert method == "offset"
    assert pairs == recorded_pairs.join(trace, execution_trace)[1]
    core = load_core(shifted, et=execution_trace)
    assert core.link is not None
    assert core.link.method == "Record function id = rf_id + 17"
    assert joined(core) == pairs


def test_other_programs_do_not_join(pairs_folder: Path) -> None:
    for name in RECORDED:
        for other in RECORDED:
            trace, execution_trace = linked(pairs_folder, name).trace, linked(pairs_folder, other).execution_trace
            if name != other:
                assert recorded_pairs.join(document(trace), document(execution_trace)) == ("none", set())
                with pytest.raises(LinkError, match="not from one run"):
                    load_core(trace, et=execution_trace)


# -- what each recorded pair is there for


def nodes(folder: Path, name: str) -> list[dict[str, Any]]:
    """Nodes of an execution trace with their attributes as keys."""
    found = document(linked(folder, name).execution_trace)["nodes"]
    return [node | {one["name"]: one["value"] for one in node["attrs"]} for node in found]


def test_threads_have_work_of_several_threads(pairs_folder: Path) -> None:
    forward_of: dict[int, set[int]] = {}
    for node in nodes(pairs_folder, "threads"):
        if node["fw_tid"]:
            forward_of.setdefault(node["tid"], set()).add(node["fw_tid"])
    assert len(forward_of) == 4
    assert sorted(map(len, forward_of.values())) == [1, 1, 1, 4]  # the main thread goes backward for all


def test_compiled_has_compiled_kernels_and_backward(pairs_folder: Path) -> None:
    names = [node["name"] for node in nodes(pairs_folder, "compiled")]
    assert names.count("CompiledFunctionBackward") == 2
    assert any("cpp_fused" in name for name in names)


def test_one_step_is_the_third_of_five(pairs_folder: Path) -> None:
    pair = linked(pairs_folder, "one-step")
    steps = [event["name"] for event in document(pair.trace)["traceEvents"] if event.get("name", "").startswith("## ")]
    assert sorted(steps) == [f"## step {number} ##" for number in range(5)]
    assert [node["name"] for node in nodes(pairs_folder, "one-step") if node["name"].startswith("## ")] == [
        "## step 2 ##"
    ]


def test_recordings_tell_nothing_of_the_machine(recorded: Pair) -> None:
    for path in recorded:
        text = str(document(path))
        assert not re.search(r"/(home|root|tmp|usr|work|Users)/", text)
        assert not any(f"'{key}'" in text for key in ("host_name", "hostname"))
