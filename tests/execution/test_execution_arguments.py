"""Arguments of an execution trace are those that the profiler recorded of the same run."""

import math
import re

import msgspec
import numpy as np
import pytest

from corpus import CORPUS, needs_corpus
from tracelens_graph.execution.arguments import ArgumentSets, collective_arguments
from tracelens_graph.execution.sides import Arguments, Sides
from tracelens_graph.execution.trace import ExecutionTrace
from tracelens_graph.loaders.execution_trace.loader import load_execution_trace
from tracelens_graph.loaders.sources import open_source
from tracelens_graph.loading.one import load_core

EXAMPLE = "examples/traces/tiny-transformer-cpu"
_FLOAT = re.compile(r"-?\d+(?:\.\d*(?:e-?\d+)?|e-\d+)")


def few_digits(values: str) -> str:
    """Values with floats rounded, because few of their digits are what the observer writes."""
    return _FLOAT.sub(lambda found: f"{round(float(found[0]), 4):g}", values)


def by_record(execution: ExecutionTrace) -> dict[int, int]:
    return {record: row for row, record in enumerate(execution.rf_id.tolist()) if record}


def side(
    values: list[object], shapes: list[object], types: list[str], strides: list[object] | None = None
) -> Arguments:
    texts = (values, shapes, types, *([strides] if strides is not None else []))
    return Arguments(*map(msgspec.json.encode, texts))


def codes(sets: ArgumentSets, *made: Arguments) -> list[int]:
    return sets.codes(Sides.of(made), np.arange(len(made))).tolist()


def one(made: Arguments) -> tuple[str, str, str, str]:
    sets = ArgumentSets()
    (code,) = codes(sets, made)
    return sets.sets[code]


def test_argument_sets_are_those_of_the_profiler() -> None:
    execution = load_execution_trace(open_source(f"{EXAMPLE}.execution-trace.json.gz"))
    graph = load_core(f"{EXAMPLE}.json.gz")
    sets = ArgumentSets()
    code_of = sets.codes(execution.inputs, np.arange(len(execution)))
    row_of = by_record(execution)
    events = graph.details.events(graph.columns.uid.tolist())
    compared = 0
    for uid, argset in zip(graph.columns.uid.tolist(), graph.columns.argset.tolist(), strict=True):
        row = row_of.get(events[uid].get("args", {}).get("Record function id", 0), -1)
        if row < 0:
            continue
        assert (code_of[row] < 0) == (argset < 0)
        if argset >= 0:
            known, found = graph.argsets[argset], sets.sets[code_of[row]]
            assert found[:3] == known[:3]
            assert few_digits(found[3]) == few_digits(known[3])
            compared += 1
    assert compared > 3500


@needs_corpus
def test_arguments_of_collectives_are_those_of_the_profiler() -> None:
    """Two runs of one program, on one rank and on two: all agrees but the ranks."""
    execution = load_execution_trace(open_source(CORPUS / "linkage/resnet-ddp/execution-trace-1.0.3.json.gz"))
    graph = load_core(CORPUS / "hta/resnet-ddp-nccl-args.json.gz")
    found = collective_arguments(execution)
    row_of = by_record(execution)
    events = graph.details.events(graph.collective_args)
    compared = 0
    for uid, known in graph.collective_args.items():
        row = row_of.get(events[uid]["args"].get("Record function id", 0), -1)
        if row >= 0 and execution.names[execution.name[row]] == graph.node(uid).name:
            keys = ("kind", "group", "group_description", "dtype", "in_elements", "out_elements", "in_split")
            assert found[row]["kind"] == known["kind"]
            if known["kind"] != "wait":
                assert {key: found[row][key] for key in keys} == {key: known[key] for key in keys}
                compared += 1
    assert compared == 21


@needs_corpus
def test_collectives_of_an_old_schema() -> None:
    execution = load_execution_trace(open_source(CORPUS / "dlrm-8-ranks/execution-trace/rank3.json.gz"))
    found = [one for one in collective_arguments(execution).values() if one["kind"] != "wait"]
    kinds = [one["kind"] for one in found]
    assert sorted(set(kinds)) == ["all_to_all", "all_to_allv", "allreduce"]
    assert all(one["in_elements"] > 0 and one["out_elements"] > 0 for one in found)
    # The number of a process group is an address, which differs between ranks.
    assert all("group" not in one for one in found)
    split = next(one for one in found if one["kind"] == "all_to_allv")
    assert sum(msgspec.json.decode(split["in_split"])) == split["in_elements"]


@pytest.mark.parametrize(
    ("told", "value", "name", "text"),
    [
        ("Int", 3, "Scalar", "3"),
        ("Bool", True, "Scalar", "True"),
        ("Double", 1.0, "Scalar", "1."),
        ("Double", -0.0, "Scalar", "-0."),
        ("Double", 0.1, "Scalar", "0.10000000000000001"),
        ("Double", 2e10, "Scalar", "20000000000"),
        ("Double", "-inf", "Scalar", "-inf"),
        ("GenericList[Int,Int]", [1, 2], "ScalarList", "[1, 2]"),
        ("GenericList[]", [], "ScalarList", "[]"),
        ("GenericList[Int,Int,Int,Int,Int,Int,Int,Int,Int,Int,Int,Int,Int,Int,Int,Int,Int,Int,Int,Int,Int,Int,Int,Int,"
         "Int,Int,Int,Int,Int,Int,Int]", [1] * 31, "", ""),
        ("GenericList[String,String]", ["a", "b"], "", ""),
        ("String", "none", "", ""),
        ("Device", "cuda:0", "", ""),
        ("None", "<None>", "", ""),
        ("Tensor(nullptr (uninitialized))", [5, 0, 0, 0, 0, ""], "", ""),
    ],
)  # fmt: skip
def test_scalars_and_lists(told: str, value: object, name: str, text: str) -> None:
    dims, types, strides, values = one(side([value], [[]], [told], [[]]))
    assert (dims, strides) == ("[[]]", "[[]]")
    assert msgspec.json.decode(types) == [name]
    assert msgspec.json.decode(values) == [text]


def test_tensors_and_lists_of_tensors() -> None:
    tensor = [1, 2, 0, 6, 4, "cuda:0"]
    types = ["Tensor(c10::Half)", "GenericList[Tensor(float),Tensor(float)]", f"GenericList[{'Tensor(float),' * 31}]"]
    made = side(
        [tensor, [tensor, tensor], [tensor] * 31],
        [[2, 3], [[6], [2, 3]], [[6]] * 31],
        types,
        [[3, 1], [[1], [3, 1]], [[1]] * 31],
    )
    assert one(made) == (
        "[[2,3],[[6],[2,3]],[]]",
        '["c10::Half","TensorList","TensorList"]',
        "[[3,1],[[1],[3,1]],[]]",
        '["","",""]',
    )


def test_schemas_without_strides_have_none() -> None:
    assert one(side([7], [[]], ["Int"]))[2] == ""


def test_sets_are_shared_and_lists_may_be_short() -> None:
    sets = ArgumentSets()
    first = side([[1, 2, 0, 6, 4, "cpu"], 5], [[6], []], ["Tensor(float)", "Int"])
    again = side([[8, 9, 0, 6, 4, "cpu"], 5], [[6], []], ["Tensor(float)", "Int"])
    short = side([], [], ["Tensor(float)", "Int"])
    assert codes(sets, first, again, Arguments(), short) == [0, 0, -1, 1]
    assert sets.sets[1] == ("[[],[]]", '["float","Scalar"]', "", '["",""]')


@pytest.mark.parametrize("text", [b"{}", b"[", b"3", b"[[[[", b'"x"', b"\xff"])
def test_damaged_arguments_are_none(text: bytes) -> None:
    sets = ArgumentSets()
    assert codes(sets, Arguments(text, text, text, text)) == [-1]
    dims, types, _, values = one(Arguments(text, text, b'["Int",3,"Tensor(float)"]', text))
    assert (dims, types, values) == ("[[],[],[]]", '["Scalar","","float"]', '["","",""]')


def test_floats_print_as_pytorch_prints_them() -> None:
    assert one(side([math.pi], [[]], ["Double"]))[3] == '["3.1415926535897931"]'
