"""Lineage of small hand-made execution traces whose answers are known, where ids and memory are used again."""

from __future__ import annotations

from typing import Any

from tracelens_graph.execution.lineage import Lineage, lineage
from tracelens_graph.loaders.execution_trace.loader import load_execution_trace
from tracelens_graph.loaders.sources import open_source

Json = dict[str, Any]
MM = "aten::mm(Tensor self, Tensor mat2) -> Tensor"
RESOLVE = "aten::resolve_conj(Tensor(a) self) -> Tensor(a)"
MUL = "aten::mul.Tensor(Tensor self, Tensor other) -> Tensor"
SUM = "aten::sum(Tensor self, *, ScalarType? dtype=None) -> Tensor"


def tensor(id: int, storage: int, *shape: int, dtype: str = "float") -> tuple[list[Any], list[int], str, list[int]]:
    """A contiguous tensor as value, shape, type and strides."""
    elements, strides = 1, []
    for size in reversed(shape):
        strides.insert(0, elements)
        elements *= size
    itemsize = 8 if dtype in ("long int", "double") else 4
    return [id, storage, 0, elements, itemsize, "cpu"], list(shape), f"Tensor({dtype})", strides


def node(id: int, parent: int, schema: str, inputs: list[Any], outputs: list[Any]) -> Json:
    def side(arguments: list[Any]) -> Json:
        return {key: [one[i] for one in arguments] for i, key in enumerate(("values", "shapes", "types", "strides"))}

    attributes = [("rf_id", id), ("tid", 1), ("op_schema", schema)]
    return {
        "id": id,
        "name": schema.partition("(")[0].partition(".")[0],
        "ctrl_deps": parent,
        "inputs": side(inputs),
        "outputs": side(outputs),
        "attrs": [{"name": name, "type": "", "value": value} for name, value in attributes],
    }


def told(*nodes: Json) -> Lineage:
    """The lineage of operators of one thread, given in the order in which they end."""
    roots = [
        node(1, 1, "[pytorch|profiler|execution_trace|process]", [], []),
        node(2, 1, "[pytorch|profiler|execution_trace|thread]", [], []),
    ]
    document = {"schema": "1.1.1-chakra.0.0.4", "pid": 1, "nodes": [*nodes, *reversed(roots)]}
    return lineage(load_execution_trace(open_source(document)))


def producers(found: Lineage, id: int) -> list[int]:
    """Ids of the nodes that made the tensors with an id, in order; -1 for one made out of sight."""
    made = found.tensors.producer[found.tensors.id == id].tolist()
    return [int(found.execution.id[row]) if row >= 0 else -1 for row in made]


def product(id: int, left: Any, right: Any, result: Any) -> list[Json]:
    """A product that its operator uses before it gives it out, as on CPUs."""
    return [node(id + 1, id, RESOLVE, [result], [result]), node(id, 2, MM, [left, right], [result])]


LEFT, RIGHT, RESULT = tensor(10, 11, 4, 3), tensor(12, 13, 3, 2), tensor(14, 15, 4, 2)


def test_a_result_used_inside_of_its_operator_is_made_by_it() -> None:
    found = told(*product(20, LEFT, RIGHT, RESULT))
    assert producers(found, 14) == [20]
    assert found.tensors.view_of[found.tensors.id == 14].tolist() == [-1]


def test_a_result_in_the_place_of_an_equal_one_is_another_tensor_on_another_storage() -> None:
    found = told(*product(20, LEFT, RIGHT, RESULT), *product(30, LEFT, RIGHT, RESULT))
    assert producers(found, 14) == [20, 30]
    assert found.tensors.version[found.tensors.id == 14].tolist() == [1, 2]
    assert found.tensors.view_of[found.tensors.id == 14].tolist() == [-1, -1]
    assert found.storages.version[found.storages.id == 15].tolist() == [1, 2]


def test_a_result_used_inside_takes_memory_that_was_another_tensors() -> None:
    other = tensor(16, 15, 4, 3)
    found = told(node(18, 2, MUL, [LEFT, LEFT], [other]), *product(20, LEFT, RIGHT, RESULT))
    assert producers(found, 14) == [20]
    assert found.storages.version[found.storages.id == 15].tolist() == [1, 2]
    assert found.storages.bytes[found.storages.id == 15].tolist() == [48, 32]


def test_a_number_on_freed_memory_has_a_storage_of_its_own() -> None:
    total, number = tensor(16, 17), tensor(18, 17, dtype="long int")
    found = told(node(20, 2, SUM, [LEFT], [total]), node(21, 2, MUL, [LEFT, number], [tensor(22, 23, 4, 3)]))
    assert producers(found, 18) == [-1]
    assert found.storages.version[found.storages.id == 17].tolist() == [1, 2]
    assert found.storages.bytes[found.storages.id == 17].tolist() == [4, 8]


def test_a_saved_result_that_comes_back_as_another_tensor_lies_on_its_storage() -> None:
    saved = tensor(30, 15, 4, 2)
    found = told(*product(20, LEFT, RIGHT, RESULT), node(31, 2, SUM, [saved], [tensor(32, 33)]))
    storage = {int(id): int(number) for id, number in zip(found.tensors.id, found.tensors.storage, strict=True)}
    assert storage[30] == storage[14]
    assert producers(found, 30) == [-1]
