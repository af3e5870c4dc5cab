"""Ids of record functions are those of the events, however the trace is read."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from corpus import CORPUS, needs_corpus
from tracelens_graph.loaders.kineto.details import record_ids
from tracelens_graph.loading.one import load_core
from tracelens_graph.stores.graph_file import read_graph, write_graph


def op(place: int, **args: Any) -> dict[str, Any]:
    return {
        "ph": "X",
        "cat": "cpu_op",
        "name": f"op{place}",
        "pid": 1,
        "tid": 1,
        "ts": 10 * place,
        "dur": 5,
        "args": args,
    }


def trace(*told: Any) -> dict[str, Any]:
    """Ops with these ids; None for one without."""
    events = [op(place, **({} if one is None else {"Record function id": one})) for place, one in enumerate(told)]
    flow = {"ph": "s", "id": 1, "pid": 1, "tid": 1, "ts": 0, "cat": "ac2g", "name": "ac2g"}
    return {"traceEvents": [flow, *events, {"ph": "i", "name": "mark", "args": [1]}]}


def test_absent_and_odd_ids_are_none() -> None:
    core = load_core(trace(7, None, 0, -3, "x", 2**70, 1.5, [4], 2**63 - 1))
    assert record_ids(core).tolist() == [7, 0, 0, 0, 0, 0, 0, 0, 2**63 - 1]


@pytest.mark.parametrize("packed", [False, True])
def test_files_and_saved_graphs_tell_the_same(tmp_path: Path, packed: bool) -> None:
    document = json.dumps(trace(*range(1, 5000))).encode()
    path = tmp_path / "t.json"
    path.write_bytes(gzip.compress(document) if packed else document)
    core = load_core(path)
    assert record_ids(core).tolist() == [*range(1, 5000)]
    write_graph(core, tmp_path / "t.tlg")
    assert record_ids(read_graph(tmp_path / "t.tlg")).tolist() == [*range(1, 5000)]


def test_a_repaired_trace(tmp_path: Path) -> None:
    whole = json.dumps(trace(*range(1, 40)))
    text = whole.replace('"name": "op9"', '"name": "op9').replace('"dur": 5', '"dur": nan', 3)
    (tmp_path / "t.json").write_text(text)
    core = load_core(tmp_path / "t.json")
    assert core.info.repairs
    found = record_ids(core)
    starts = core.columns.start_ns // 10_000
    assert np.array_equal(found, starts - starts[0] + found[0])


@needs_corpus
def test_a_real_trace() -> None:
    assert CORPUS
    path = CORPUS / "hta/resnet-ddp-nccl-args.json.gz"
    core = load_core(path)
    events = json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]
    told = [events[uid].get("args", {}).get("Record function id", 0) for uid in core.columns.uid.tolist()]
    assert record_ids(core).tolist() == told
