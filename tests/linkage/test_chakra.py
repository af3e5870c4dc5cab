"""Linked pairs in the form of `chakra_trace_link`: its fields, and what it leaves out."""

from __future__ import annotations

import io
import json
from typing import Any

import many_launches
import mm_pair
import numpy as np
import pytest
from many_launches import BACKWARD, EPOCH, NAMES, STEP

from corpus import CORPUS, needs_corpus
from tracelens_graph.graph.core import Core
from tracelens_graph.linkage.chakra import exclusive_ns, write_chakra
from tracelens_graph.loaders.execution_trace.loader import load_execution_trace
from tracelens_graph.loaders.sources import open_source
from tracelens_graph.loading.one import load_core
from tracelens_graph.simulate import simulate

HOST = {"id", "name", "ctrl_deps", "inputs", "outputs", "attrs"}
TIMED = {"inclusive_dur", "exclusive_dur", "ts"}
GPU = HOST | TIMED | {"cat", "ph", "stream"}
ATTRIBUTES = {"rf_id", "fw_parent", "seq_id", "scope", "tid", "fw_tid", "op_schema"}


def written(core: Core) -> tuple[dict[str, Any], int]:
    """What is written, and how many GPU events are left out."""
    assert core.link is not None
    file = io.BytesIO()
    left_out = write_chakra(core, core.link, file)
    return json.loads(file.getvalue()), left_out


@pytest.fixture(scope="module")
def core() -> Core:
    return load_core(many_launches.kineto(), et=many_launches.execution_trace())


@pytest.fixture(scope="module")
def nodes(core: Core) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = written(core)[0]["nodes"]
    return found


def test_head() -> None:
    found, left_out = written(load_core(mm_pair.kineto(), et=mm_pair.execution_trace()))
    nodes = found.pop("nodes")
    assert found.pop("generator").startswith("tracelens_graph ")
    assert found == {
        "schema": "1.1.1-chakra.0.0.4", "pid": 100, "time": "2026-01-01 00:00:00", "start_ts": 1, "finish_ts": 2,
    }  # fmt: skip
    assert left_out == 0
    assert [node["name"] for node in nodes[2:]] == ["product", "aten::mm", mm_pair.KERNEL]
    kernel = nodes[-1]
    assert (kernel["ctrl_deps"], kernel["inputs"]) == (3, mm_pair.execution_trace()["nodes"][0]["inputs"])


def test_ids_are_dense_and_children_know_their_parent(nodes: list[dict[str, Any]]) -> None:
    assert [node["id"] for node in nodes] == list(range(len(nodes)))
    names = {node["name"]: nodes[node["ctrl_deps"]]["name"] for node in nodes[1:]}
    assert names["aten::copy_"] == "step"
    assert names["Memcpy HtoD"] == "aten::copy_"
    assert names["first of graph"] == names["second of graph"] == names["fill of graph"] == "replay"
    assert nodes[0]["ctrl_deps"] == 0


def test_fields(nodes: list[dict[str, Any]]) -> None:
    for node in nodes:
        keys = set(node)
        if "cat" in keys:
            assert keys == GPU
            assert node["ph"] == "X"
            assert node["cat"] in {"kernel", "gpu_memcpy", "gpu_memset"}
        else:
            is_timed = node["name"] in NAMES.values()
            assert keys == (HOST | TIMED | {"inter_thread_dep"} if is_timed else HOST)
        assert {attribute["name"] for attribute in node["attrs"]} >= ATTRIBUTES
        assert set(node["inputs"]) == set(node["outputs"]) == {"values", "shapes", "types", "strides"}


def test_what_chakra_trace_link_leaves_out_is_there(core: Core, nodes: list[dict[str, Any]]) -> None:
    gpu = {node["name"]: node for node in nodes if "cat" in node}
    assert written(core)[1] == 2
    assert gpu.keys() == {
        "Memcpy HtoD", "Memset", "first of graph", "second of graph", "fill of graph", "launched in the range",
        "backward", "known by its External id",
    }  # fmt: skip
    assert gpu["Memset"]["cat"] == "gpu_memset"
    # the begin on the device, not that of the launch
    assert gpu["Memcpy HtoD"]["ts"] == EPOCH + 40
    assert gpu["first of graph"]["inclusive_dur"] == gpu["first of graph"]["exclusive_dur"] == 10


def test_communication_names_its_process_group() -> None:
    rank = simulate(ranks=2, steps=1, layers=1).ranks[0]
    core = load_core(rank.trace, et=rank.execution_trace)
    groups = {args["group"] for args in core.collective_args.values()}
    named = {node["name"]: node["pg_name"] for node in written(core)[0]["nodes"] if "pg_name" in node}
    assert named
    assert set(named.values()) <= groups
    assert all("nccl" in name for name in named)


def test_durations_without_what_is_inside(nodes: list[dict[str, Any]]) -> None:
    step = next(node for node in nodes if node["name"] == NAMES[STEP])
    assert (step["inclusive_dur"], step["exclusive_dur"]) == (900, 900 - 50 - 50 - 100)


def test_stretches_of_a_thread_wait_for_the_last_op_of_others(nodes: list[dict[str, Any]]) -> None:
    by_name = {node["name"]: node for node in nodes}
    backward, replay = by_name[NAMES[BACKWARD]], by_name["replay"]
    assert backward["inter_thread_dep"] == replay["id"]
    assert by_name["step"]["inter_thread_dep"] is None


def test_exclusive_time_adds_up_on_each_thread(core: Core) -> None:
    own = exclusive_ns(core)
    ops = [node.row for node in core.find(("Op", "Annotation")) if node.tid == 100]
    assert own[ops].sum() == 900_000
    assert (own >= 0).all()


@needs_corpus
def test_a_real_pair_reads_as_an_execution_trace_again() -> None:
    assert CORPUS is not None
    job = CORPUS / "dlrm-8-ranks"
    core = load_core(job / "kineto/rank0.json.gz", et=job / "execution-trace/rank0.json.gz")
    assert core.link is not None
    found, left_out = written(core)
    assert left_out == 0
    gpu = [node for node in found["nodes"] if "cat" in node]
    assert len(gpu) == len(core.gpu_rows)
    assert sum(node["inclusive_dur"] for node in gpu) == pytest.approx(core.columns.dur_ns[core.gpu_rows].sum() / 1000)
    again, before = load_execution_trace(open_source(found)), core.link.execution
    host = np.array(["cat" not in node for node in found["nodes"]])
    assert [again.names[code] for code in again.name[host]] == [before.names[code] for code in before.name]
    assert again.rf_id[host].tolist() == before.rf_id.tolist()
    # ids are renumbered, so parents are compared by what they are
    old = np.cumsum(host) - 1
    parents = np.where(again.parent >= 0, old[again.parent], -1)[host]
    assert parents.tolist() == before.parent.tolist()
    for row, place in enumerate(np.flatnonzero(host)[:1000].tolist()):
        assert again.inputs[place].decoded() == before.inputs[row].decoded()
