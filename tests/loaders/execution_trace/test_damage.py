"""Execution traces that are broken or hostile: what can be read is kept, all else is counted, nothing hangs."""

from __future__ import annotations

import gzip
import json
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_execution import THREAD, Op, made, node, process, special, tensor, trace

from corpus import CHECKOUT
from tracelens_graph.errors import TraceError
from tracelens_graph.execution.trace import ExecutionTrace
from tracelens_graph.graph.core import Core
from tracelens_graph.loaders.execution_trace.loader import load_execution_trace
from tracelens_graph.loaders.kineto import chunks
from tracelens_graph.loaders.sources import open_source
from tracelens_graph.loading.one import load_core
from tracelens_graph.schema import REPAIR_MEANING

pytestmark = pytest.mark.proof

EXAMPLE = CHECKOUT / "examples/traces/tiny-transformer-cpu.execution-trace.json.gz"


def loaded(data: Any) -> ExecutionTrace:
    return load_execution_trace(open_source(data))


def names(found: ExecutionTrace) -> list[str]:
    return [found.names[code] for code in found.name[found.is_op].tolist()]


def with_nodes(*nodes: Any) -> bytes:
    return json.dumps(made([special(), *nodes, process()])).encode()


@pytest.mark.parametrize(
    ("ops", "repairs"),
    [
        ([Op("4", parent="3"), Op("3", parent="2")], {}),
        ([Op("b", parent="a"), Op("a", parent=2)], {"odd_id": 2, "no_parent": 1}),
        ([Op(2**70, parent=3), Op(3)], {"odd_id": 1}),
        ([Op(-4, parent=-5), Op(-5)], {"no_parent": 1}),
        ([Op(4.0, parent=3.0), Op(3)], {}),
        ([Op(4, parent=[3, 2]), Op(3)], {}),
        ([Op(4, parent=999), Op(3)], {"no_parent": 1}),
        ([Op(3, parent=4), Op(4, parent=3)], {"no_parent": 1}),
        ([Op(3, parent=3), Op(4)], {"no_parent": 1}),
        ([Op(3, parent=None), Op(4)], {"no_parent": 1}),
    ],
    ids=["text", "names", "huge", "negative", "floats", "lists", "parent absent", "circle", "itself", "no parent"],
)
def test_odd_ids_and_parents(ops: list[Op], repairs: dict[str, int]) -> None:
    found = loaded(trace(ops))
    assert len(names(found)) == 2
    assert found.info.repairs == repairs
    assert (found.parent < range(len(found))).all()


def test_of_nodes_with_one_id_the_first_is_kept() -> None:
    found = loaded(trace([Op(3, "first"), Op(3, "second"), Op(4)]))
    assert names(found) == ["first", "aten::add"]
    assert found.info.left_out == {"id of another node": 1}
    assert found.info.repairs == {"id_twice": 1}
    assert load_core(trace([Op(3, "first"), Op(3, "second"), Op(4)])).info.damage


def test_attributes_of_wrong_types() -> None:
    attributes = [
        3, {"name": 4}, {"name": "rf_id", "value": [1]}, {"name": "tid", "value": "1"},
        {"name": "seq_id", "value": 2.0}, {"name": "scope", "value": 2**80}, {"name": "op_schema", "value": 7},
    ]  # fmt: skip
    found = loaded(with_nodes({**node(Op(3)), "attrs": attributes}, {**node(Op(4)), "attrs": 3}, node(Op(5))))
    assert names(found) == ["aten::add"] * 3
    assert found.info.repairs == {"bad_value": 3}
    assert (found.sequence[2], found.tid[2], found.rf_id[2], found.scope[2]) == (2, 1, 0, 0)
    far = loaded(with_nodes(node(Op(3, facts={"rf_id": 2**63 + 1}))))
    assert (far.info.repairs, far.rf_id[2]) == ({"bad_value": 1}, 0)


def test_arguments_of_wrong_types_are_no_arguments() -> None:
    odd = [{"values": 3}, {"values": [1, 2], "types": "x", "shapes": {}}, 7, "x", None, []]
    core = load_core(with_nodes(*({**node(Op(3 + i)), "inputs": one} for i, one in enumerate(odd))))
    assert len(core.columns) == len(odd)
    assert core.link is not None
    assert [len(side.decoded()) for side in core.link.execution.inputs][2:] == [0, 2, 0, 0, 0, 0]
    assert (core.columns.argset == -1).all()


def test_names_with_quotes_are_mended() -> None:
    data = trace([Op(4, 'my "op" here', 3), Op(5, 'f("a", "b"): {"x": 1}', 3), Op(3)]).replace(b'\\"', b'"')
    found = loaded(data)
    assert names(found) == ["aten::add", 'my "op" here', 'f("a", "b"): {"x": 1}']
    assert found.info.repairs == {"quote": 2}


def test_bare_numbers_that_json_does_not_know() -> None:
    data = with_nodes(node(Op(3, inputs=[(0.5, [], "Double", [])])), node(Op(4))).replace(b"0.5", b"nan")
    found = loaded(data)
    assert names(found) == ["aten::add"] * 2
    assert found.info.repairs == {"non_finite": 1}


@pytest.mark.parametrize("share", [0.05, 0.3, 0.6, 0.9, 0.99])
@pytest.mark.parametrize("packed", [False, True])
def test_what_stands_before_a_cut_is_kept(share: float, packed: bool) -> None:
    whole = gzip.decompress(EXAMPLE.read_bytes())
    total = loaded(whole)
    data = EXAMPLE.read_bytes() if packed else whole
    core = load_core(data[: int(len(data) * share)])
    assert core.info.ends_early
    assert "the end of the file is missing" in core.info.damage
    assert core.link is not None
    kept = core.link.execution
    assert len(kept) > (0.5 if packed else 0.9) * share * len(total)
    # Nodes are written when they end, so of every node that is left all that it called is left, too.
    same = total.id[total.place.argsort()][: kept.info.entries - kept.info.lost_nodes]
    assert sorted(kept.id.tolist()) == sorted(same.tolist())


def test_a_hole_loses_no_more_than_is_in_it() -> None:
    data = trace([Op(i, f"op{i}") for i in range(3, 60)])
    found = loaded(data[:4000] + b"\0" * 700 + data[4700:])
    assert len(names(found)) >= 57 - 4
    assert found.info.lost_nodes >= 1
    assert found.info.lost_bytes >= 700


def test_deep_calls_cost_no_recursion() -> None:
    depth = 100_000
    core = load_core(trace([Op(i, parent=i - 1) for i in range(depth + 2, 2, -1)]))
    assert core.columns.depth.max() == depth - 1
    assert (core.columns.last == depth - 1).all()
    assert core.info.damage == ""


def test_deep_json_is_lost_alone() -> None:
    deep = b'{"id": 4, "parent": 2, "inputs": ' + b"[" * 200_000 + b"]" * 200_000 + b"}"
    found = loaded(b'{"schema": "1.0.1", "nodes": [' + json.dumps(node(Op(3, "kept"))).encode() + b"," + deep + b"]}")
    assert names(found) == ["kept"]
    assert found.info.lost_nodes == 1
    assert found.info.lost_bytes >= 400_000
    assert not found.info.cut_short


def test_only_the_first_of_two_traces_is_read() -> None:
    data = trace([Op(3), Op(4)])
    found = loaded(data + data)
    assert len(names(found)) == 2
    assert found.info.repairs == {"second_trace": 1}


def one_line(data: bytes) -> Core | None:
    """The graph, or None where the file is refused, which must be in one line."""
    try:
        core = load_core(data)
    except TraceError as error:
        message = str(error)
    else:
        assert set(core.info.repairs) <= set(REPAIR_MEANING)
        return core
    assert "\n" not in message
    return None


@pytest.mark.parametrize("seed", range(40))
def test_damage_anywhere(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(seed)
    monkeypatch.setattr(chunks, "BLOCK", 3000)
    ops = [Op(i, f"op {i}", max(i - 1 - i % 3, THREAD), [tensor(i + 500)]) for i in range(3, 80)]
    data = bytearray(trace(ops))
    for _ in range(chance.randint(1, 6)):
        at, count = chance.randrange(len(data)), chance.randint(1, 300)
        how = chance.choice(("zeros", "cut", "noise", "quote", "double"))
        if how == "zeros":
            data[at : at + count] = b"\0" * len(data[at : at + count])
        elif how == "cut":
            del data[at : at + count]
        elif how == "noise":
            data[at : at + count] = chance.randbytes(len(data[at : at + count]))
        elif how == "quote":
            data[at:at] = chance.choice((b'"', b"{", b"]", b"\\", b"}, {"))
        else:
            data[at:at] = data[at : at + count]
    core = one_line(bytes(data))
    if core is not None:
        there = len(core.columns) + sum(core.info.left_out.values()) + core.info.lost_events
        assert there == core.info.events
        known = {f"op {i}" for i in range(3, 80)}
        intact = [node.name for node in core.nodes_at(range(len(core.columns))) if node.name in known]
        assert len(intact) >= 20 or core.info.damage


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)  # fmt: skip
_KEYS = ("id", "name", "ctrl_deps", "parent", "inputs", "outputs", "attrs", "rf_id", "tid", "seq_id", "op_schema")


@given(st.lists(st.dictionaries(st.sampled_from(_KEYS), _JSON, max_size=8), min_size=1, max_size=8))
def test_any_json_in_the_place_of_nodes(nodes: list[dict[str, Any]]) -> None:
    core = one_line(json.dumps(made(nodes)).encode())
    if core is not None:
        assert len(core.columns) + sum(core.info.left_out.values()) + core.info.lost_events == len(nodes)
        core.details.events(core.columns.uid.tolist())
