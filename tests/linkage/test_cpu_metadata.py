"""Metadata of operators whose arguments are lists, in the order of the schema."""

from __future__ import annotations

from typing import Any

from made_execution import Node, T, execution_of

from tracelens_graph.linkage.metadata import metadata_of_row

NOTHING = ([527, 0, 0, 0, 0, ""], [], "Tensor(nullptr (uninitialized))", [])


def side(*arguments: Any) -> dict[str, list[Any]]:
    """Arguments as value, shape, type and strides; lists of such stand for lists of tensors."""
    rows = []
    for one in arguments:
        if isinstance(one, list):
            parts = list(zip(*one, strict=True))
            rows.append((list(parts[0]), list(parts[1]), f"GenericList[{','.join(parts[2])}]", list(parts[3])))
        else:
            rows.append(one)
    return {key: [row[i] for row in rows] for i, key in enumerate(("values", "shapes", "types", "strides"))}


def test_inputs_stand_in_the_order_of_the_schema() -> None:
    a, b, c = (T(id, id + 1).written for id in (10, 20, 30))
    found = metadata_of_row(execution_of(Node("aten::x", side([a, b], (7, [], "Int", []), c))), 1)
    assert [(one["argument"], one["item"], one["tensor_id"]) for one in found["inputs"]] == [
        (0, 0, 10), (0, 1, 20), (2, None, 30),
    ]  # fmt: skip
    assert found["values"] == [{"argument": 1, "item": None, "type": "Int", "value": 7}]


def test_tensors_that_were_not_given_keep_their_places_in_lists() -> None:
    a, b = T(10, 11).written, T(20, 21).written
    found = metadata_of_row(execution_of(Node("aten::index", side(b, [NOTHING, a, NOTHING], NOTHING))), 1)
    assert [(one["argument"], one["item"], one["tensor_id"]) for one in found["inputs"]] == [(0, None, 20), (1, 1, 10)]
    assert [(one["argument"], one["item"]) for one in found["values"]] == [(1, 0), (1, 2), (2, None)]
    assert {(one["type"], str(one["value"])) for one in found["values"]} == {(NOTHING[2], str(NOTHING[0]))}


def test_lists_of_lists_count_through() -> None:
    tensors = [T(10 * i, 10 * i + 1).written for i in range(1, 4)]
    values, shapes, types, strides = ([one[i] for one in tensors] for i in range(4))
    nested = {
        "values": [[values[:2], values[2:]]], "shapes": [[shapes[:2], shapes[2:]]],
        "types": [f"GenericList[GenericList[{','.join(types[:2])}],GenericList[{types[2]}]]"],
        "strides": [[strides[:2], strides[2:]]],
    }  # fmt: skip
    found = metadata_of_row(execution_of(Node("c10d::allgather_", nested)), 1)
    assert [(one["item"], one["tensor_id"], one["shape"]) for one in found["inputs"]] == [
        (0, 10, [4]), (1, 20, [4]), (2, 30, [4]),
    ]  # fmt: skip
