"""Uses of tensors in an execution trace: every form that arguments take, and those that they should not."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from made_execution import Node, execution_of

from tracelens_graph.execution.sides import Sides, elements
from tracelens_graph.execution.tensor_uses import TensorUses, tensor_uses
from tracelens_graph.loaders.execution_trace.loader import load_execution_trace
from tracelens_graph.loaders.sources import open_source

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


LONG = 60_000
NOT_GIVEN = "Tensor(nullptr (uninitialized))"


def long_list(spacing: str) -> bytes:
    """A node with a list too long to be decoded at once: every seventh tensor was not given; behind it another one."""
    values = [[527, 0, 0, 0, 0, ""] if i % 7 == 0 else [2 * i, 2 * i + 1, 0, i % 5, 4, "cuda:0"] for i in range(LONG)]
    kinds = [NOT_GIVEN if i % 7 == 0 else "Tensor(float)" for i in range(LONG)]
    sizes = [[] if i % 7 == 0 else [i % 5] for i in range(LONG)]
    strides = [[] if i % 7 == 0 else [1] for i in range(LONG)]
    inputs = {
        "values": [values, ONE], "shapes": [sizes, [2, 3]], "strides": [strides, [3, 1]],
        "types": [f"GenericList[{','.join(kinds)}]", "Tensor(c10::Half)"],
    }  # fmt: skip
    nothing: dict[str, list[Any]] = {"values": [], "shapes": [], "types": [], "strides": []}
    node = {"id": 2, "name": "aten::cat", "ctrl_deps": 1, "inputs": inputs, "outputs": nothing, "attrs": []}
    process = {"id": 1, "name": "[pytorch|profiler|execution_trace|process]", "ctrl_deps": 1, "inputs": nothing,
               "outputs": nothing, "attrs": []}  # fmt: skip
    trace = {"schema": "1.1.1-chakra.0.0.4", "pid": 1, "nodes": [node, process]}
    return json.dumps(trace, separators=(f",{spacing}", ":")).encode()


@pytest.mark.parametrize("spacing", ["", " ", "\n  "])
def test_a_long_list(spacing: str) -> None:
    found = tensor_uses(load_execution_trace(open_source(long_list(spacing))))
    given = [i for i in range(LONG) if i % 7]
    assert found.malformed == 0
    assert found.element.tolist() == [*given, -1]
    assert found.tensor.tolist() == [*(2 * i for i in given), 10]
    assert found.storage.tolist() == [*(2 * i + 1 for i in given), 11]
    assert [found.shapes[code] for code in found.shape.tolist()] == [*((i % 5,) for i in given), (2, 3)]
    assert {found.all_strides[code] for code in found.strides[:-1].tolist()} == {(1,)}
    assert [found.dtypes[code] for code in found.dtype[-2:].tolist()] == ["float", "c10::Half"]


def test_a_long_list_that_is_shorter_than_its_type() -> None:
    trace = json.loads(long_list(""))
    side = trace["nodes"][0]["inputs"]
    side["values"][0] = side["values"][0][: LONG - 3]
    side["values"].append([TWO])
    found = tensor_uses(load_execution_trace(open_source(json.dumps(trace).encode())))
    assert found.malformed == sum(i % 7 > 0 for i in range(LONG - 3, LONG))
    assert found.tensor.tolist()[-2:] == [10, 20]
    assert (found.position.tolist()[-1], found.element.tolist()[-1]) == (2, 0)


def test_elements_of_a_list_that_is_decoded_in_pieces() -> None:
    for values in (
        [[i, "],["] for i in range(60_000)],
        [[[i], [i]] for i in range(60_000)],
        [[i] for i in range(100_000)],
        [1, "a", {}, [[]]],
    ):
        assert list(elements(msgspec.json.encode(values))) == values
    for text in (b"", b"7", b"{}", b'{"a":[1]}', b"[[1],[2]", b"[1,"):
        assert list(elements(text)) == []
