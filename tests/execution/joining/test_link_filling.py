"""A linked graph takes arguments from its execution trace where its own trace has none, and nowhere else."""

from __future__ import annotations

from typing import Any

import pytest
from linked_pairs import Call, calls, execution_trace, kineto

import tracelens_graph as tlg
from corpus import CORPUS, needs_corpus
from tracelens_graph.graph.core import Core
from tracelens_graph.loading.one import load_core

MADE = [*calls(["aten::mm", "aten::relu", "user range"]), Call(4, 1, "record_param_comms")]
MATRICES = {
    "values": [[7, 8, 0, 6, 4, "cuda:0"], [9, 10, 0, 12, 4, "cuda:0"]],
    "shapes": [[2, 3], [3, 4]],
    "types": ["Tensor(float)", "Tensor(float)"],
    "strides": [[3, 1], [4, 1]],
}
WHOLE = ('[[2,3],[3,4]]', '["float","float"]', '[[3,1],[4,1]]', '["",""]')  # fmt: skip


def pair(args: dict[str, Any], comms: dict[str, Any] | None = None) -> Core:
    """The pair in which the product records some arguments, and the collective too."""
    trace, et = kineto(MADE), execution_trace(MADE)
    trace["traceEvents"][0]["args"] |= args
    trace["traceEvents"][3]["args"] |= comms or {}
    of_name = {node["name"]: node for node in et["nodes"]}
    of_name["aten::mm"]["inputs"] = MATRICES
    types = ["GenericList[Tensor(c10::BFloat16)]", "Int", "Tuple[String,String]", "Int", "String"]
    values = [[[9, 10, 0, 12, 2, "cuda:0"]], 5, ["1", "tp"], 1, "allreduce"]
    behind: list[Any] = [[], [], 2, 2, 4]
    kinds = ["GenericList[]", "GenericList[]", "Int", "Int", "Int"]
    collective = {"values": values + behind, "shapes": [[]] * 10, "types": types + kinds, "strides": [[]] * 10}
    of_name["record_param_comms"] |= {
        "inputs": collective,
        "outputs": {**MATRICES, "types": ["Tensor(c10::BFloat16)"] * 2},
    }
    return load_core(trace, et=et)


def argset(core: Core, uid: int) -> tuple[str, ...] | None:
    code = int(core.columns.argset[core.row(uid)])
    return core.argsets[code] if code >= 0 else None


@pytest.mark.parametrize(
    ("args", "found"),
    [
        ({}, WHOLE),
        ({"Input Dims": [[2, 3], [3, 4]], "Input type": ["float", "float"]}, WHOLE),
        ({"Input Dims": [[5, 3], [3, 4]], "Input type": ["float", "float"]}, ("[[5, 3], [3, 4]]", *WHOLE[1:])),
        ({"Input Dims": [[2, 3]], "Input type": ["float"]}, ("[[2,3]]", '["float"]', "", "")),
    ],
)
def test_arguments_that_lack(args: dict[str, Any], found: tuple[str, ...]) -> None:
    core = pair(args)
    told = argset(core, 0)
    assert told is not None
    assert [part.replace(" ", "") for part in told] == [part.replace(" ", "") for part in found]
    assert argset(core, 1) is None


def test_collectives_take_what_is_not_recorded() -> None:
    found = pair({}).collective_args[3]
    told = {key: found[key] for key in ("kind", "group", "group_description", "ranks", "group_size", "rank", "dtype")}
    assert told == {
        "kind": "allreduce",
        "group": "1",
        "group_description": "tp",
        "ranks": "[2, 4, 6, 8]",
        "group_size": 4,
        "rank": 1,
        "dtype": "BFloat16",
    }
    assert (found["in_elements"], found["out_elements"]) == (12, 18)


def test_what_the_trace_records_of_a_collective_stays() -> None:
    found = pair({}, {"Collective name": "_allgather_base", "In msg nelems": 7, "dtype": "Half"}).collective_args[3]
    assert (found["kind"], found["in_elements"], found["dtype"], found["group_size"]) == (
        "_allgather_base",
        7,
        "Half",
        4,
    )


def test_all_else_stays_as_it_was() -> None:
    trace, et = kineto(MADE), execution_trace(MADE)
    alone, linked = load_core(trace), load_core(trace, et=et)
    assert linked.equals(alone)
    assert alone.link is None
    assert linked.link is not None


@needs_corpus
def test_models_apply_to_a_trace_without_shapes() -> None:
    assert CORPUS
    trace = CORPUS / "hta/resnet-ddp-nccl-args.json.gz"
    alone = tlg.load(trace)
    linked = tlg.load(trace, et=CORPUS / "linkage/resnet-ddp/execution-trace-1.0.3.json.gz")
    modelled = [sum(flops is not None for flops in tlg.unified_perf_summary(g)["GFLOPS"]) for g in (alone, linked)]
    assert modelled[0] == 0
    assert modelled[1] > 100


@needs_corpus
def test_what_real_traces_record_stays() -> None:
    """What the traces record of dims and types stays."""
    assert CORPUS
    trace = CORPUS / "dlrm-8-ranks/kineto/rank0.json.gz"
    alone = load_core(trace)
    linked = load_core(trace, et=CORPUS / "dlrm-8-ranks/execution-trace/rank0.json.gz")
    for uid in alone.columns.uid.tolist():
        before, after = argset(alone, uid), argset(linked, uid)
        if before is not None:
            assert after is not None
            assert after[:2] == before[:2]
