"""The id of a trace is a hash of its bytes, however they are packed."""

from __future__ import annotations

import gzip
import io
import json
import zipfile
from hashlib import blake2b
from pathlib import Path
from typing import Any

import pytest
import zstandard

from tracelens_graph.errors import ChangedTraceError
from tracelens_graph.graph.build import EventTable, build_core
from tracelens_graph.graph.core import Core
from tracelens_graph.loading.one import load_core
from tracelens_graph.schema import STORED
from tracelens_graph.stores.graph_file import read_graph, write_graph

MIB = 1 << 20


def trace(events: int = 3) -> dict[str, Any]:
    return {
        "traceEvents": [
            {"ph": "X", "cat": "cpu_op", "name": f"op{i}", "pid": 1, "tid": 1, "ts": i, "dur": 1, "args": {}}
            for i in range(events)
        ]
    }


def compact(parsed: Any) -> bytes:
    return json.dumps(parsed, separators=(",", ":")).encode()


def expected(data: bytes) -> str:
    digests = [blake2b(data[at : at + MIB], digest_size=16).digest() for at in range(0, len(data), MIB)]
    return blake2b(b"".join(digests), digest_size=16).hexdigest()


def packed(data: bytes) -> dict[str, bytes]:
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("trace.json", data)
    return {
        "plain": data,
        "gzip": gzip.compress(data),
        "two gzip members": gzip.compress(data[:99]) + gzip.compress(data[99:]),
        "zstd": zstandard.compress(data),
        "zip": archive.getvalue(),
    }


@pytest.mark.parametrize("events", [3, pytest.param(40_000, marks=pytest.mark.slow)])
def test_packings_and_parsed_traces_share_the_id(events: int, tmp_path: Path) -> None:
    parsed = trace(events)
    data = compact(parsed)
    ids = {}
    for packing, content in packed(data).items():
        file = tmp_path / packing
        file.write_bytes(content)
        ids[packing] = load_core(file).trace_id
        ids[f"{packing} in memory"] = load_core(content).trace_id
    ids["parsed"] = load_core(parsed).trace_id
    ids["stream"] = load_core(io.BytesIO(data)).trace_id
    assert set(ids.values()) == {expected(data)}, ids


def test_a_repaired_trace_has_the_id_of_its_bytes_as_read(tmp_path: Path) -> None:
    data = compact(trace(100))[:-30]
    core = load_core(data)
    assert core.info.lost_events or core.info.repairs
    assert core.trace_id == expected(data)


def test_a_trace_that_changed_has_no_id(tmp_path: Path) -> None:
    file = tmp_path / "trace.json"
    file.write_bytes(compact(trace()))
    core = load_core(file)
    file.write_bytes(compact(trace(4)))
    with pytest.raises(ChangedTraceError, match=r"trace.json: the file changed since it was loaded"):
        _ = core.trace_id


def test_a_saved_graph_knows_the_id_of_its_trace(tmp_path: Path) -> None:
    trace_file, saved = tmp_path / "trace.json", tmp_path / "trace.tlg"
    trace_file.write_bytes(compact(trace()))
    core = load_core(trace_file)
    write_graph(core, saved)
    trace_file.unlink()
    assert read_graph(saved).trace_id == expected(compact(trace()))


def without_file(names: list[str]) -> Core:
    """A graph that was built and not loaded."""
    loaded = load_core(trace())
    columns = {prop.name: getattr(loaded.columns, prop.name).copy() for prop in STORED}
    return build_core(EventTable(columns, names, loaded.threads, loaded.argsets))


def test_a_graph_without_a_file_has_an_id_of_its_content(tmp_path: Path) -> None:
    core, other = without_file(["a", "b", "c"]), without_file(["a", "b", "d"])
    assert core.trace_id == without_file(["a", "b", "c"]).trace_id
    assert core.trace_id != other.trace_id
    assert core.node(0).event == {}
    write_graph(core, tmp_path / "built.tlg")
    again = read_graph(tmp_path / "built.tlg")
    assert again.trace_id == core.trace_id
    assert again.equals(core)
    assert again.node(0).event == {}
