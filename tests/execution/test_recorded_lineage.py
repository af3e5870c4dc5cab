"""Lineage of a real recording against what the program wrote down of its tensors while they lived.

The program is `lineage` of `examples/record_pairs.py`, what it wrote down is explained in `examples/ledger.py`.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from recorded_pairs import document, linked

from tracelens_graph.execution.lineage import Lineage
from tracelens_graph.execution.link import tensors_of
from tracelens_graph.loading.one import load_core

Json = dict[str, Any]
DTYPES = {"float": "float32", "double": "float64", "c10::BFloat16": "bfloat16", "long int": "int64"}


@dataclass
class Told:
    """The lineage beside the truth.

    Attributes:
        lineage: what is checked.
        variables: facts of the program's variables, by their names.
        steps: its operators in order, without the releases.
        used_again: which variable took the place of which freed one.
        row: row of the operator of each step, by the step's range; of several operators that of the range.
        arguments, results: uses of that operator in the order of its arguments; none of several.
    """

    lineage: Lineage
    variables: dict[str, Json]
    steps: list[Json]
    used_again: list[Json]
    row: dict[str, int]
    arguments: dict[str, list[int]]
    results: dict[str, list[int]]

    def uses(self, step: Json) -> list[tuple[str, int]]:
        """Variables and uses of a step that belong together: arguments, then results."""
        if step["op"] is None:
            return []
        arguments, results = self.arguments[step["range"]], self.results[step["range"]]
        schema = self.lineage.execution.schemas[self.lineage.execution.schema[self.row[step["range"]]]]
        is_first_written = "(a!) self" in schema or "(a!)[] self" in schema
        named = step["writes"] + step["reads"] if is_first_written else step["reads"] + step["writes"]
        pairs = [*zip(named, arguments, strict=False), *zip(step["makes"] or step["writes"], results, strict=False)]
        assert len(arguments) >= len(named)
        for use in arguments[len(named) :]:  # numbers are tensors without dimensions
            assert self.lineage.uses.shapes[self.lineage.uses.shape[use]] == ()
        return pairs

    def tensor(self, name: str) -> int:
        """The one tensor that a variable is."""
        (found,) = {int(self.lineage.tensor[use]) for step in self.steps for one, use in self.uses(step) if one == name}
        return found


@pytest.fixture(scope="module")
def told(pairs_folder: Path) -> Told:
    pair = linked(pairs_folder, "lineage")
    truth = document(pairs_folder / "lineage.truth.json.gz")
    tensors = tensors_of(load_core(pair.trace, et=pair.execution_trace))
    assert tensors is not None
    lineage = tensors.lineage
    nodes, uses = lineage.execution, lineage.uses
    steps = {step["range"]: step for step in truth["steps"] if "range" in step}
    row = {}
    for node, parent in enumerate(nodes.parent.tolist()):
        step = steps.get(nodes.names[nodes.name[parent]])
        if step:
            row[step["range"]] = parent if step["op"] is None else node
    order = np.lexsort((uses.element, uses.position))
    sides: list[dict[int, list[int]]] = [defaultdict(list), defaultdict(list)]
    for use in order.tolist():
        sides[int(uses.is_output[use])][int(uses.node[use])].append(use)
    return Told(
        lineage=lineage,
        variables=truth["tensors"],
        steps=list(steps.values()),
        used_again=truth["used_again"],
        row=row,
        arguments={label: sides[0][node] for label, node in row.items()},
        results={label: sides[1][node] for label, node in row.items()},
    )


def test_every_step_is_an_operator_of_the_recording(told: Told) -> None:
    names = told.lineage.execution.names
    assert {step["range"]: step["op"] or step["range"] for step in told.steps} == {
        label: names[told.lineage.execution.name[node]] for label, node in told.row.items()
    }


def test_a_variable_is_one_tensor_and_no_other_variable_is(told: Told) -> None:
    variables: dict[int, set[str]] = defaultdict(set)
    for name, facts in told.variables.items():
        variables[told.tensor(name)].add(facts["same_as"] or name)
    assert all(len(names) == 1 for names in variables.values())
    assert len(variables) == sum(facts["same_as"] is None for facts in told.variables.values())


def test_tensors_have_the_form_that_they_had(told: Told) -> None:
    uses = told.lineage.uses
    for name, facts in told.variables.items():
        use = int(told.lineage.tensors.first_use[told.tensor(name)])
        assert uses.shapes[uses.shape[use]] == tuple(facts["shape"])
        assert uses.all_strides[uses.strides[use]] == tuple(facts["strides"])
        assert uses.offset[use] == facts["offset"]
        assert DTYPES[uses.dtypes[uses.dtype[use]]] == facts["dtype"]


def test_operators_read_write_and_make_what_the_program_says(told: Told) -> None:
    lineage = told.lineage
    for step in told.steps:
        for name, use in told.uses(step):
            if not lineage.uses.is_output[use]:
                assert lineage.writes[use] == (name in step["writes"]), (step, name)
                assert lineage.reads[use] or name in step["writes"], (step, name)
        node = told.row[step["range"]]
        inside = range(node, int(lineage.execution.last[node]) + 1)
        for name in (*step["makes"], *step["writes"]):
            made = name in step["makes"] and told.variables[name]["same_as"] is None
            assert (lineage.tensors.producer[told.tensor(name)] in inside) == made, (step, name)


def test_what_was_there_before_has_no_producer(told: Told) -> None:
    makers = {name for step in told.steps for name in step["makes"]}
    before = told.variables.keys() - makers
    assert before == {"before", "batch", "weight1", "weight2"}
    assert all(told.lineage.tensors.producer[told.tensor(name)] == -1 for name in before)


def test_views_are_views_of_what_they_view(told: Told) -> None:
    view_of, producer = told.lineage.tensors.view_of, told.lineage.tensors.producer
    node_of = {name: told.row[step["range"]] for step in told.steps for name in step["makes"]}
    for name, facts in told.variables.items():
        if facts["same_as"] or name not in node_of or 0 in facts["shape"]:
            continue
        viewed = [told.tensor(name)]
        while view_of[viewed[-1]] >= 0:
            viewed.append(int(view_of[viewed[-1]]))
        if facts["view_of"]:
            assert told.tensor(facts["view_of"]) in viewed[1:], name
        else:  # a view at most of what its operator made inside
            last = told.lineage.execution.last[node_of[name]]
            assert all(node_of[name] <= producer[one] <= last for one in viewed), name


def test_storages_are_those_of_the_program(told: Told) -> None:
    lineage = told.lineage
    storages: dict[int, set[int]] = defaultdict(set)
    for name, facts in told.variables.items():
        storage = int(lineage.tensors.storage[told.tensor(name)])
        if 0 in facts["shape"]:
            assert storage == -1
        else:
            storages[facts["storage"]].add(storage)
            assert lineage.storages.bytes[storage] == facts["storage_bytes"], name
    assert all(len(found) == 1 for found in storages.values())
    assert len(set.union(*storages.values())) == len(storages)


def test_what_takes_a_freed_tensors_place_is_another_one(told: Told) -> None:
    tensors, storages = told.lineage.tensors, told.lineage.storages
    assert {tuple(one["facts"]) for one in told.used_again} == {
        ("object", "memory"),
        ("object", "storage"),
        ("object",),
    }
    for one in told.used_again:
        new, old = told.tensor(one["tensor"]), told.tensor(one["freed"])
        assert tensors.id[new] == tensors.id[old]
        assert tensors.version[new] > tensors.version[old]
        assert tensors.last[old] < tensors.first[new]
        same_storage = "storage" in one["facts"]
        assert (tensors.storage[new] == tensors.storage[old]) == same_storage
        if "memory" in one["facts"]:
            assert storages.id[tensors.storage[new]] == storages.id[tensors.storage[old]]


def test_the_observer_gives_ids_to_objects_and_to_memory(told: Told) -> None:
    """What lineage rests on: an id stands for an address of a tensor, or of the first byte of its storage."""
    uses = told.lineage.uses
    for fact, ids in (("object", uses.tensor), ("memory", uses.storage)):
        id_of: dict[int, set[int]] = defaultdict(set)
        for step in told.steps:
            for name, use in told.uses(step):
                if name in step["makes"]:
                    id_of[told.variables[name][fact]].add(int(ids[use]))
        assert all(len(found) == 1 for found in id_of.values())
        assert len(set.union(*id_of.values())) == len(id_of)
