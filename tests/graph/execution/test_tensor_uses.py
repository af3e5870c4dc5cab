"""Uses of tensors in an execution trace: every form that arguments take, and those that they should not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
from execution_nodes import Node, execution_of

from tracelens_graph.graph.execution.sides import Sides
from tracelens_graph.graph.execution.tensor_uses import TensorUses, describe, tensor_uses

ONE, TWO = [10, 11, 0, 6, 4, "cpu"], [20, 21, 3, 2, 2, "cuda:0"]


def uses(values: Any, shapes: Any = (), types: Any = (), strides: Any = ()) -> TensorUses:
    sides = {"values": values, "shapes": shapes, "types": types, "strides": strides}
    return tensor_uses(execution_of(Node("op", inputs=sides)))


def test_columns_of_a_tensor() -> None:
    found = uses([1, ONE, TWO], [[], [2, 3], [2]], ["Int", "Tensor(float)", "Tensor(c10::Half)"], [[], [3, 1], [1]])
    assert (found.position.tolist(), found.element.tolist()) == ([1, 2], [-1, -1])
    assert (found.tensor.tolist(), found.storage.tolist(), found.offset.tolist()) == ([10, 20], [11, 21], [0, 3])
    assert (found.elements.tolist(), found.itemsize.tolist()) == ([6, 2], [4, 2])
    assert [found.devices[code] for code in found.device] == ["cpu", "cuda:0"]
    assert [found.dtypes[code] for code in found.dtype] == ["float", "c10::Half"]
    assert [found.shapes[code] for code in found.shape] == [(2, 3), (2,)]
    assert [found.all_strides[code] for code in found.strides] == [(3, 1), (1,)]
    assert found.malformed == 0


def test_lists_in_lists() -> None:
    types = ["GenericList[Tensor(float),None,Tuple[Int,Tensor(c10::Half)]]"]
    found = uses([[ONE, "<None>", [7, TWO]]], [[[2, 3], [], [[], [2]]]], types)
    assert (found.tensor.tolist(), found.position.tolist(), found.element.tolist()) == ([10, 20], [0, 0], [0, 3])
    assert [found.shapes[code] for code in found.shape] == [(2, 3), (2,)]
    assert [found.all_strides[code] for code in found.strides] == [None, None]


def test_tensors_that_were_not_given_are_no_uses() -> None:
    nothing = [527, 0, 0, 0, 0, ""]
    found = uses([nothing, [nothing, ONE]], [[], [[], [6]]], [
        "Tensor(nullptr (uninitialized))", "GenericList[Tensor(nullptr (uninitialized)),Tensor(float)]",
    ])  # fmt: skip
    assert found.tensor.tolist() == [10]
    assert found.malformed == 0


def test_values_of_wrong_form_are_counted() -> None:
    wrong: list[Any] = [
        "tensor", None, [1, 2, 3], [1, 2, 3, 4, 5, 6], [1.5, 2, 3, 4, 5, "cpu"], [2**70, 2, 3, 4, 5, "cpu"], {}, [ONE],
    ]  # fmt: skip
    found = uses([*wrong, ONE], [], ["Tensor(float)"] * (len(wrong) + 2))
    assert found.tensor.tolist() == [10]
    assert found.malformed == len(wrong) + 1
    assert found.position.tolist() == [len(wrong)]


def test_lists_of_unequal_length() -> None:
    found = uses([ONE, 3, [TWO]], [[2, 3]], ["Tensor(float)"])
    assert found.tensor.tolist() == [10, 20], "without a type the form tells"
    assert [found.shapes[code] for code in found.shape] == [(2, 3), ()]


def test_no_json_at_all() -> None:
    execution = execution_of(Node("op"))
    for text in (b"", b"null", b"[", b"7", b"[" * 100_000):
        broken = [side._replace(values=text, types=msgspec.json.encode(["Tensor(float)"])) for side in execution.inputs]
        found = tensor_uses(replace(execution, inputs=Sides.of(broken)))
        assert len(found) == 0
        assert found.malformed == len(execution)


def test_deep_types_end() -> None:
    deep = "GenericList[" * 10_000 + "Tensor(float)" + "]" * 10_000
    assert len(uses([[]], [[]], [deep])) == 0


def test_description() -> None:
    assert describe((16384, 4096), "float") == "float32[16384,4096]"
    assert describe((), "c10::BFloat16") == "bfloat16[]"
    assert describe((3,), "QInt8") == "QInt8[3]"
