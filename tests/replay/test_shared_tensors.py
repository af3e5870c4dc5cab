"""Which tensors of a sequence are one, as an execution trace proves it."""

from __future__ import annotations

from made_execution import Node, T, linked_core

from tracelens_graph.graph.core import Core
from tracelens_graph.replay.planning import plan_call
from tracelens_graph.replay.replay_plan import Use
from tracelens_graph.replay.shared_tensors import LinkedCall, Sharing, link

RELU = "aten::relu(Tensor self) -> Tensor"
T_VIEW = "aten::t(Tensor(a) self) -> Tensor(a)"
ADD = "aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor"
ADD_IN_PLACE = "aten::add_.Tensor(Tensor(a!) self, Tensor other, *, Scalar alpha=1) -> Tensor(a!)"
UNBIND = "aten::unbind.int(Tensor(a -> *) self, int dim=0) -> Tensor(a)[]"
MAX = "aten::max.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)"


def linked(core: Core) -> Sharing:
    rows = [core.row(uid) for uid in range(len(core.columns)) if core.columns.parent[core.row(uid)] < 0]
    return link(core, rows, [plan_call(core, row) for row in rows])


def numbers(call: LinkedCall) -> list[int]:
    return [use.number for use in call.uses]


def add(left: T, right: T, result: T, in_place: bool = False) -> Node:
    return Node(f"aten::add{'_' * in_place}", [left, right, 1], [result], ADD_IN_PLACE if in_place else ADD)


def test_results_are_passed_on_and_freed_after_their_last_use() -> None:
    x, y, z, end = T(1, 11), T(2, 12), T(3, 13), T(4, 14)
    found = linked(
        linked_core(
            Node("aten::relu", [x], [y], RELU), Node("aten::relu", [y], [z], RELU), add(y, z, end), add(x, x, T(5, 15))
        )
    )
    first, second, third, fourth = found.calls
    [given], [passed] = numbers(first), numbers(second)
    assert first.makes == ((passed,),)
    assert numbers(third) == [passed, second.makes[0][0]]
    assert third.makes == ()
    assert numbers(fourth) == [given, given]
    assert [call.frees for call in found.calls] == [(), (), (passed, second.makes[0][0]), ()]
    assert found.written == ()


def test_an_id_that_is_used_again_is_another_tensor() -> None:
    x, y = T(1, 11), T(2, 12)
    found = linked(
        linked_core(
            Node("aten::relu", [x], [y], RELU), Node("aten::relu", [y], [T(1, 13)], RELU),
            Node("aten::relu", [T(1, 13)], [T(5, 15)], RELU),
        )
    )  # fmt: skip
    assert numbers(found.calls[0]) != numbers(found.calls[2])
    assert numbers(found.calls[2]) == [found.calls[1].makes[0][0]]


def test_results_in_lists_and_of_several() -> None:
    x, parts = T(1, 11, (2, 4)), [T(2, 11), T(3, 11, offset=4)]
    best, where = T(4, 14, (1,)), T(5, 15, (1,), "long int", 8)
    found = linked(
        linked_core(
            Node("aten::unbind", [x, 0], [parts], UNBIND),
            add(parts[0], parts[1], T(6, 16)),
            Node("aten::max", [T(6, 16), 0, False], [best, where], MAX),
            Node("aten::relu", [where], [T(7, 17, (1,), "long int", 8)], RELU),
        )
    )
    unbind, adding, taking, last = found.calls
    assert [one[1:] for one in unbind.makes] == [(0,), (1,)]
    assert numbers(adding) == [one[0] for one in unbind.makes]
    assert [one[1:] for one in taking.makes] == [(1,)]
    assert numbers(last) == [taking.makes[0][0]]


def test_a_view_that_no_call_made_is_one_of_the_result() -> None:
    x, y, seen = T(1, 11), T(2, 12), T(3, 12, (2, 2))
    found = linked(
        linked_core(Node("aten::relu", [x], [y], RELU), Node("aten::relu", [seen], [T(4, 14, (2, 2))], RELU))
    )
    first, second = found.calls
    [use] = second.uses
    assert (use.of, use.tensor.shape, use.tensor.strides) == (first.makes[0][0], (2, 2), (2, 1))
    assert second.frees == (use.of,)
    assert found.same_values[use.number] == found.same_values[first.makes[0][0]]


def test_given_tensors_in_one_storage_share_memory() -> None:
    whole, part, other = T(1, 11, (256,)), T(2, 11, (4,), offset=128), T(3, 13, offset=64)
    found = linked(linked_core(Node("aten::relu", [whole], [T(4, 14, (256,))], RELU), add(part, other, T(5, 15))))
    [one] = found.calls[0].uses
    two, three = found.calls[1].uses
    assert (one.tensor.storage, one.tensor.offset, one.tensor.reach) == (0, 0, 256)
    assert (two.tensor.storage, two.tensor.offset, two.tensor.reach) == (0, 128, 256)
    assert three.tensor.storage is None
    assert three.tensor.offset == 64


def test_what_is_written_is_restored_also_in_other_views_of_it() -> None:
    x, y, view = T(1, 11), T(2, 12), T(3, 11, (2,))
    found = linked(
        linked_core(
            Node("aten::relu", [view], [T(4, 14, (2,))], RELU), add(x, y, x, in_place=True),
            add(T(4, 14, (2,)), view, T(4, 14, (2,)), in_place=True),
        )
    )  # fmt: skip
    [seen] = numbers(found.calls[0])
    changed, read = numbers(found.calls[1])
    assert found.written == tuple(sorted((seen, changed)))
    assert found.calls[1].makes == ()
    assert read not in found.written
    # A result that is written is made anew in each run.
    assert numbers(found.calls[2])[0] == found.calls[0].makes[0][0]


def test_copies_and_views_hold_the_values_of_their_argument() -> None:
    x, y = T(1, 11, (2, 2)), T(2, 11, (2, 2), strides=(1, 2))
    copy = "aten::clone(Tensor self, *, MemoryFormat? memory_format=None) -> Tensor"
    found = linked(
        linked_core(
            Node("aten::t", [x], [y], T_VIEW), Node("aten::clone", [y, 0], [T(3, 13, (2, 2))], copy),
            Node("aten::relu", [T(3, 13, (2, 2))], [T(4, 14, (2, 2))], RELU),
            Node("aten::relu", [T(4, 14, (2, 2))], [T(5, 15, (2, 2))], RELU),
        )
    )  # fmt: skip
    of = found.same_values
    x_number, y_number = numbers(found.calls[0])[0], numbers(found.calls[1])[0]
    copied, changed = numbers(found.calls[2])[0], numbers(found.calls[3])[0]
    assert of[x_number] == of[y_number] == of[copied] != of[changed]


def test_a_number_that_is_a_result_stays_a_tensor() -> None:
    scalar = T(2, 12, (), "double", 8)
    made = Node(
        "aten::sum",
        [T(1, 11, dtype="double", size=8), 0],
        [scalar],
        "aten::sum(Tensor self, *, ScalarType? dtype=None) -> Tensor",
    )
    found = linked(
        linked_core(made, add(T(3, 13), scalar, T(4, 14)), add(T(3, 13), T(9, 19, (), "double", 8), T(5, 15)))
    )
    assert isinstance(found.calls[1].plan.positional[1].value, Use)
    assert numbers(found.calls[1])[1] == found.calls[0].makes[0][0]
    assert found.calls[2].plan.positional[1].value == 2.0


def test_without_an_execution_trace_arguments_are_their_own() -> None:
    core = linked_core(
        Node("aten::relu", [T(1, 11)], [T(2, 12)], RELU), Node("aten::relu", [T(2, 12)], [T(3, 13)], RELU)
    )
    rows = [core.row(0), core.row(1)]
    plans = [plan_call(core, row) for row in rows]
    core.link = None
    core.__dict__.pop("tensors", None)
    found = link(core, rows, plans)
    assert [numbers(call) for call in found.calls] == [[0], [1]]
    assert all(call.makes == () == call.frees for call in found.calls)
