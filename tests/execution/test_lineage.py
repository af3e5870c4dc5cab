"""Lineage on execution traces made by hand, and what holds on every real one."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_execution import Node, T, execution_of

from corpus import CHECKOUT, CORPUS, needs_corpus
from tracelens_graph.execution.lineage import Lineage, lineage
from tracelens_graph.execution.op_schemas import Result, op_schema
from tracelens_graph.loaders.execution_trace.loader import load_execution_trace
from tracelens_graph.loaders.sources import open_source

ADD_ = "aten::add_.Tensor(Tensor(a!) self, Tensor other, *, Scalar alpha=1) -> Tensor(a!)"
COPY_ = "aten::copy_(Tensor(a!) self, Tensor src, bool non_blocking=False) -> Tensor(a!)"
EMPTY = "aten::empty.memory_format(SymInt[] size) -> Tensor"
INDEX_SELECT = "aten::index_select(Tensor self, int dim, Tensor index) -> Tensor"
INDEX_SELECT_OUT = "aten::index_select.out(Tensor self, int dim, Tensor index, *, Tensor(a!) out) -> Tensor(a!)"
MUL = "aten::mul.Tensor(Tensor self, Tensor other) -> Tensor"
MUL_OUT = "aten::mul.out(Tensor self, Tensor other, *, Tensor(a!) out) -> Tensor(a!)"
RECORD_STREAM = "aten::record_stream(Tensor(a!) self, Stream s) -> ()"
RESIZE_ = "aten::resize_(Tensor(a!) self, SymInt[] size) -> Tensor(a!)"
SET_ = "aten::set_.source_Storage(Tensor(a!) self, Storage source) -> Tensor(a!)"
VIEW = "aten::view(Tensor(a) self, SymInt[] size) -> Tensor(a)"


def empty(tensor: T) -> Node:
    return Node("aten::empty", [], [tensor], EMPTY)


def told(found: Lineage) -> list[tuple[str, str | None]]:
    """Name and maker of each tensor."""
    names, tensors = found.execution.names, found.tensors
    return [
        (f"{id}.{version}", None if row < 0 else names[found.execution.name[row]])
        for id, version, row in zip(
            tensors.id.tolist(), tensors.version.tolist(), tensors.producer.tolist(), strict=True
        )
    ]


def stores(found: Lineage) -> list[tuple[str, str | None, int]]:
    """Name, allocating op and size of each storage."""
    names, of = found.execution.names, found.storages
    return [
        (f"{id}.{version}", None if row < 0 else names[found.execution.name[row]], size)
        for id, version, row, size in zip(
            of.id.tolist(), of.version.tolist(), of.producer.tolist(), of.bytes.tolist(), strict=True
        )
    ]


def test_the_lowest_op_makes_it_and_those_around_pass_it_on() -> None:
    a, b, c = T(1, 2), T(3, 4), T(5, 6)
    found = lineage(execution_of(Node("outer", [a], [c], inside=[Node("aten::mul", [a, b], [c], MUL, [empty(c)])])))
    assert told(found) == [("1.1", None), ("3.1", None), ("5.1", "aten::empty")]
    assert stores(found) == [("2.1", None, 16), ("4.1", None, 16), ("6.1", "aten::empty", 16)]
    assert found.makes.sum() == 1


def test_in_place_writes() -> None:
    a, b = T(1, 2), T(3, 4)
    found = lineage(execution_of(Node("aten::add_", [a, b], [a], ADD_), Node("aten::copy_", [a, b], [a], COPY_)))
    assert told(found) == [("1.1", None), ("3.1", None)]
    inputs = ~found.uses.is_output
    assert found.writes[inputs].tolist() == [True, False, True, False]
    assert found.reads[inputs].tolist() == [True, True, False, True], "add_ reads what it writes, copy_ does not"


def test_out_is_written_and_not_made() -> None:
    a, out = T(1, 2), T(3, 4)
    found = lineage(execution_of(empty(out), Node("aten::mul", [a, a, out], [out], MUL_OUT)))
    assert told(found) == [("3.1", "aten::empty"), ("1.1", None)]
    assert (found.writes.tolist(), found.reads.tolist()) == (
        [False, False, False, True, False], [False, True, True, False, False],
    )  # fmt: skip


def test_record_stream_neither_reads_nor_writes() -> None:
    a = T(1, 2, device="cuda:0")
    found = lineage(execution_of(empty(a), Node("aten::record_stream", [a, 7], [], RECORD_STREAM)))
    assert told(found) == [("1.1", "aten::empty")]
    assert not found.writes.any()
    assert not found.reads.any()


def test_a_view_is_a_tensor_on_the_same_storage() -> None:
    a, b, c = T(1, 2, (4, 2)), T(3, 2, (8,)), T(5, 2, (2,), offset=6)
    found = lineage(execution_of(empty(a), Node("aten::view", [a], [b], VIEW), Node("aten::narrow", [b], [c], VIEW)))
    assert told(found) == [("1.1", "aten::empty"), ("3.1", "aten::view"), ("5.1", "aten::narrow")]
    assert found.tensors.view_of.tolist() == [-1, 0, 1]
    assert stores(found) == [("2.1", "aten::empty", 32)]


def test_ids_used_again() -> None:
    """A product is freed; the next one takes its place, and is equal in all but time."""
    a, c = T(1, 2), T(5, 6)
    read = Node("aten::sum", [c], [T(9, 10, ())], "aten::sum(Tensor self) -> Tensor")
    found = lineage(execution_of(Node("aten::mul", [a, a], [c], MUL), read, Node("aten::mul", [a, a], [c], MUL), read))
    assert told(found) == [
        ("1.1", None), ("5.1", "aten::mul"), ("9.1", "aten::sum"), ("5.2", "aten::mul"), ("9.2", "aten::sum"),
    ]  # fmt: skip
    assert [name for name, *_ in stores(found)] == ["2.1", "6.1", "10.1", "6.2", "10.2"]


def test_an_id_with_another_form_is_another_tensor() -> None:
    found = lineage(execution_of(Node("f", [T(1, 2)]), Node("f", [T(1, 2, (2, 2))]), Node("f", [T(1, 7, (2, 2))])))
    assert told(found) == [("1.1", None), ("1.2", None), ("1.3", None)]
    assert found.tensors.storage.tolist() == [0, 0, 1]


def test_tensors_on_a_storage_that_was_allocated_anew_are_gone() -> None:
    a, view, fresh = T(1, 2), T(3, 2, (2,)), T(5, 2)
    make_view = Node("aten::view", [a], [view], VIEW)
    found = lineage(execution_of(empty(a), make_view, empty(fresh), Node("f", [view]), Node("f", [fresh])))
    assert told(found) == [("1.1", "aten::empty"), ("3.1", "aten::view"), ("5.1", "aten::empty"), ("3.2", None)]
    assert found.tensors.storage.tolist() == [0, 0, 1, 1]


def test_resize_and_set_keep_the_tensor() -> None:
    a, grown, taken = T(1, 2, (0,)), T(1, 3, (100,)), T(1, 4, (5,))
    found = lineage(execution_of(
        empty(a), Node("aten::resize_", [a, [100]], [grown], RESIZE_), Node("f", [grown]), Node("f", [T(8, 4, (5,))]),
        Node("aten::set_", [grown, "<Storage>"], [taken], SET_), Node("f", [taken]),
    ))  # fmt: skip
    assert told(found) == [("1.1", "aten::empty"), ("8.1", None)]
    assert stores(found) == [("3.1", "aten::resize_", 400), ("4.1", None, 20)]


def test_a_result_resized_unseen_does_not_lie_on_what_was_freed_before() -> None:
    a, old, nothing = T(1, 2, (8,)), T(3, 4, (8,)), T(5, 29, (0,))
    rows, row = T(5, 4, (2, 3)), T(7, 4, (3,))
    select = Node("aten::select", [rows], [row], VIEW)
    inner = Node("aten::index_select", [a], [rows], INDEX_SELECT, [empty(nothing), select])
    found = lineage(execution_of(
        Node("aten::mul", [a, a], [old], MUL), Node("f", [old]), Node("aten::embedding", [a], [rows], "", [inner]),
        Node("f", [rows]),
    ))  # fmt: skip
    assert told(found) == [
        ("1.1", None), ("3.1", "aten::mul"), ("5.1", "aten::empty"), ("5.2", "aten::index_select"),
        ("7.1", "aten::select"),
    ]  # fmt: skip
    assert stores(found) == [("2.1", None, 32), ("4.1", "aten::mul", 32), ("4.2", "aten::index_select", 24)]
    assert found.tensors.view_of.tolist() == [-1, -1, -1, -1, 3]


def test_out_resized_unseen_stays_the_tensor_and_lies_on_new_memory() -> None:
    a, old, out, grown = T(1, 2, (8,)), T(3, 4, (8,)), T(5, 29, (0,)), T(5, 4, (2, 3))
    select = Node("aten::select", [grown], [T(7, 4, (3,))], VIEW)
    found = lineage(execution_of(
        Node("aten::mul", [a, a], [old], MUL), Node("f", [old]), empty(out),
        Node("aten::index_select", [a, 0, a, out], [grown], INDEX_SELECT_OUT, [select]), Node("f", [grown]),
    ))  # fmt: skip
    assert told(found) == [("1.1", None), ("3.1", "aten::mul"), ("5.1", "aten::empty"), ("7.1", "aten::select")]
    assert stores(found) == [("2.1", None, 32), ("4.1", "aten::mul", 32), ("4.2", "aten::index_select", 24)]


def test_out_that_stays_on_its_memory_is_no_new_storage() -> None:
    out, reshaped = T(5, 4, (8,)), T(5, 4, (2, 3))
    select = Node("aten::select", [reshaped], [T(7, 4, (3,))], VIEW)
    mul = Node("aten::mul", [T(1, 2), T(1, 2), out], [reshaped], MUL_OUT, [select])
    found = lineage(execution_of(empty(out), mul, Node("f", [reshaped])))
    assert told(found) == [("5.1", "aten::empty"), ("1.1", None), ("7.1", "aten::select")]
    assert stores(found) == [("4.1", "aten::empty", 32), ("2.1", None, 16)]


def test_lists() -> None:
    parts = [T(3, 2, (2,)), T(4, 2, (2,), offset=2)]
    split = Node("aten::split", [T(1, 2)], [parts], "aten::split.Tensor(Tensor(a -> *) self, SymInt n) -> Tensor(a)[]")
    cat = Node("aten::cat", [parts], [T(5, 6)], "aten::cat(Tensor[] tensors, int dim=0) -> Tensor")
    scale = Node("aten::_foreach_mul_", [parts, 2], [], "aten::_foreach_mul_.Scalar(Tensor(a!)[] self, Scalar s) -> ()")
    found = lineage(execution_of(split, cat, scale))
    assert told(found) == [("1.1", None), ("3.1", "aten::split"), ("4.1", "aten::split"), ("5.1", "aten::cat")]
    assert found.tensors.view_of.tolist() == [-1, 0, 0, -1]
    assert int(found.writes.sum()) == 2


def test_collectives_write_into_what_they_are_given() -> None:
    x, out = T(1, 2), T(3, 4, (8,))
    inner = Node("record_param_comms", [[x]], [[out]])
    found = lineage(execution_of(Node("c10d::_allgather_base_", [out, x], [out], inside=[inner]), Node("f", [out])))
    assert told(found) == [("3.1", None), ("1.1", None)]
    assert [name for name, *_ in stores(found)] == ["4.1", "2.1"]


def test_used_inside_before_it_is_given_out() -> None:
    a, c = T(1, 2), T(5, 6)
    fill = Node("aten::fill_", [c, 0], [c], "aten::fill_.Scalar(Tensor(a!) self, Scalar value) -> Tensor(a!)")
    sum_ = "aten::sum(Tensor self) -> Tensor"
    found = lineage(execution_of(*[Node("aten::sum", [a], [c], sum_, [fill])] * 2))
    assert told(found) == [("1.1", None), ("5.1", "aten::sum"), ("5.2", "aten::sum")]


def test_sizes_follow_strides() -> None:
    wide = T(1, 2, (32, 128), strides=(0, 1))
    transposed = T(3, 4, (2, 3), strides=(1, 4), offset=1)
    assert [size for *_, size in stores(lineage(execution_of(Node("f", [wide, transposed]))))] == [512, 4 * 11]


@pytest.mark.parametrize(("name", "schema", "written", "unread", "results"), [
    ("aten::add_", ADD_, {0}, set(), (Result.written,)),
    ("aten::copy_", COPY_, {0}, {0}, (Result.written,)),
    ("aten::mul", MUL_OUT, {2}, {2}, (Result.written,)),
    ("aten::view", VIEW, set(), set(), (Result.view,)),
    ("aten::norm", "aten::norm(Tensor input, Tensor? weight, Tensor(a!)? mean, float[] x=[0, 1], "
     "str s=\"a,(b\") -> (Tensor, Tensor, Tensor)", {2}, set(), (Result.fresh,) * 3),
    ("c10d::allreduce_", "c10d::allreduce_(Tensor[] tensors, int timeout) -> (Tensor[], __torch__.Work)", {0}, set(),
     (Result.fresh, Result.unknown)),
    ("aten::item", "aten::item(Tensor self) -> Scalar", set(), set(), (Result.unknown,)),
    ("MulBackward0", "", set(), set(), ()),
    ("aten::record_stream", RECORD_STREAM, set(), {0}, ()),
    ("add_", "", {0}, set(), ()),
    ("hostile", "aten::x(((((", set(), set(), ()),
    ("hostile", ")->(", set(), set(), None),
])  # fmt: skip
def test_what_schemas_say(
    name: str, schema: str, written: set[int], unread: set[int], results: tuple[Result, ...] | None
) -> None:
    found = op_schema(name, schema)
    assert (found.written, found.unread) == (written, unread)
    assert results is None or found.results == results


def check(found: Lineage) -> None:
    """What holds on every execution trace."""
    begin, end = found.execution.moments
    uses, tensors = found.uses, found.tensors
    assert (found.tensor >= 0).all()
    assert sorted(set(found.tensor.tolist())) == list(range(len(tensors)))
    made = np.bincount(found.tensor[found.makes], minlength=len(tensors))
    assert made.max(initial=0) <= 1, "a tensor has one maker at most"
    assert (made == (tensors.producer >= 0)).all()
    maker = tensors.producer[found.tensor]
    reads = (maker >= 0) & ~uses.is_output
    assert (begin[uses.node[reads]] > begin[maker[reads]]).all(), "nobody reads it before its maker began"
    assert (uses.tensor == tensors.id[found.tensor]).all()
    lies = found.storage >= 0
    assert (uses.storage[lies] == found.storages.id[found.storage[lies]]).all()
    assert len(set(zip(tensors.id.tolist(), tensors.version.tolist(), strict=True))) == len(tensors)
    assert (found.storages.first < found.storages.last).all()
    assert (end[uses.node] <= tensors.last[found.tensor]).all()
    view = tensors.view_of >= 0
    assert (tensors.storage[view] >= 0).all()


PAIRS = ("linkage/simple-add/execution-trace", "linkage/resnet-ddp/execution-trace-1.0.3",
         *(f"dlrm-8-ranks/execution-trace/rank{rank}" for rank in range(8)))  # fmt: skip


@needs_corpus
@pytest.mark.parametrize("name", PAIRS)
def test_real_execution_traces(name: str) -> None:
    assert CORPUS is not None
    check(lineage(load_execution_trace(open_source(Path(CORPUS) / f"{name}.json.gz"))))


def test_the_recorded_example() -> None:
    path = CHECKOUT / "examples/traces/tiny-transformer-cpu.execution-trace.json.gz"
    found = lineage(load_execution_trace(open_source(path)))
    check(found)
    assert found.uses.malformed == 0


LINKED = sorted((CHECKOUT / "examples/traces").rglob("*.execution-trace.json.gz"))


def tensors_in(values: Any) -> Iterator[list[Any]]:
    """Tensors among the values of one side of a node, those in lists among them."""
    if isinstance(values, list) and [type(one) for one in values] == [int] * 5 + [str]:
        yield values
    elif isinstance(values, list):
        for value in values:
            yield from tensors_in(value)


@pytest.mark.parametrize("path", LINKED, ids=lambda path: path.name.partition(".")[0])
def test_results_of_their_own_lie_on_memory_of_their_own(path: Path) -> None:
    """By a walk over the file: who gives out `-> Tensor` on memory that it was not given has allocated it."""
    nodes = {node["id"]: node for node in json.loads(gzip.decompress(path.read_bytes()))["nodes"]}
    found = lineage(load_execution_trace(open_source(path)))
    uses, ids = found.uses, found.execution.id
    checked = 0
    for use in np.flatnonzero(uses.is_output & (found.storage >= 0)).tolist():
        op = int(ids[uses.node[use]])
        schema = {one["name"]: one["value"] for one in nodes[op]["attrs"]}["op_schema"]
        given = {value[1] for value in tensors_in(nodes[op]["inputs"]["values"])}
        if not schema.endswith("-> Tensor") or int(uses.storage[use]) in given:
            continue
        at = int(ids[found.storages.producer[found.storage[use]]])
        while at != op and at > 2:
            at = nodes[at]["ctrl_deps"]
        assert at == op, f"{nodes[op]['name']}, node {op}"
        checked += 1
    assert checked > 10


tensors = st.builds(
    T, id=st.integers(1, 5), storage=st.integers(0, 4), shape=st.sampled_from([(4,), (2, 2), (0,), ()]),
    offset=st.integers(0, 1),
)  # fmt: skip
sides = st.lists(tensors | st.lists(tensors, max_size=2), max_size=3)
schemas = st.sampled_from(["", ADD_, MUL, MUL_OUT, VIEW, RESIZE_, SET_])
names = st.sampled_from(["f", "aten::set_", "aten::copy_", "record_param_comms", "Backward0"])
leaves = st.builds(Node, names, sides, sides, schemas, st.just([]), st.integers(1, 2))


def around(inside: Any) -> Any:
    return st.builds(Node, names, sides, sides, schemas, st.lists(inside, max_size=3), st.integers(1, 2))


@given(st.lists(st.recursive(leaves, around, max_leaves=8), max_size=6))
def test_whatever_is_recorded(nodes: list[Node]) -> None:
    check(lineage(execution_of(*nodes)))
