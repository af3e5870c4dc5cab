"""What was saved comes back the same, from whatever it is read."""

from __future__ import annotations

import gzip
import io
import json
import os
import pickle
import random
import shutil
import stat
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from graph_damage import index_of, span_of
from hypothesis import given
from made_traces import traces

from corpus import kineto_traces, parametrize_all
from tracelens_graph.errors import ChangedTraceError, OutputError, TraceError
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.edges import edge_rows
from tracelens_graph.loading.one import load_core
from tracelens_graph.schema import EVENT_EDGES
from tracelens_graph.stores import graph_file
from tracelens_graph.stores.graph_file import read_graph, write_graph

TRACE = {
    "deviceProperties": [{"id": 0, "name": "GPU"}],
    "traceEvents": [
        {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": "t", "ts": 1.5, "dur": 9,
         "args": {"External id": 4, "Input Dims": [[2, 3], [3, 4]], "Collective name": "broadcast"}},
        {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": "t", "ts": 2, "dur": 1,
         "args": {"correlation": 7}},
        {"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": 5, "dur": 2.25,
         "args": {"correlation": 7, "device": 0, "stream": 7, "grid": [1, 2, 3]}},
        {"ph": "s", "cat": "fwdbwd", "name": "fwdbwd", "id": 3, "pid": 1, "tid": "t", "ts": 1.5},
    ],
}  # fmt: skip


def assert_same(one: Core, other: Core) -> None:
    assert one.equals(other)
    assert other.equals(one)
    assert one.trace_id == other.trace_id
    assert one.info == other.info
    for edge in EVENT_EDGES:
        for a, b in zip(edge_rows(one, edge.name), edge_rows(other, edge.name), strict=True):
            assert np.array_equal(a, b)


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    write_graph(load_core(TRACE), tmp_path / "trace.tlg")
    return tmp_path / "trace.tlg"


@parametrize_all("path", kineto_traces())
def test_real_graphs_come_back_with_all_their_events(path: Path, tmp_path: Path) -> None:
    trace = tmp_path / path.name
    shutil.copyfile(path, trace)
    core = load_core(trace)
    uids = core.columns.uid.tolist()
    chosen = sorted(random.Random(path.name).sample(uids, min(25, len(uids))))
    original = {uid: core.node(uid).event for uid in chosen}
    write_graph(core, tmp_path / "trace.tlg")
    trace.unlink()
    again = load_core(tmp_path / "trace.tlg")
    assert_same(core, again)
    assert {uid: again.node(uid).event for uid in chosen} == original
    assert [again.node(uid).attributes() for uid in chosen] == [core.node(uid).attributes() for uid in chosen]


@given(trace=traces())
def test_made_graphs_come_back(trace: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> None:
    file = tmp_path_factory.getbasetemp() / "made.tlg"
    core = load_core(trace)
    write_graph(core, file)
    again = load_core(file)
    assert_same(core, again)
    assert again.details.events(range(core.info.events)) == core.details.events(range(core.info.events))


def test_every_source_gives_the_graph(saved: Path) -> None:
    core = load_core(TRACE)
    data = saved.read_bytes()
    with saved.open("rb") as file:
        for source in (saved, str(saved), data, bytearray(data), io.BytesIO(data), file):
            assert_same(core, load_core(source))
    assert read_graph(saved).node(2).args["grid"] == [1, 2, 3]


def test_columns_are_the_mapped_file(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graph_file, "MAPPED_FROM", 0)
    for name, column in read_graph(saved).columns:
        assert not column.flags.writeable, name
        assert not column.flags.owndata, name


def test_saving_a_saved_graph_gives_the_same_file(saved: Path, tmp_path: Path) -> None:
    write_graph(read_graph(saved), tmp_path / "second.tlg")
    assert (tmp_path / "second.tlg").read_bytes() == saved.read_bytes()


def test_a_mapped_file_can_be_replaced_by_itself(saved: Path) -> None:
    core = read_graph(saved)
    write_graph(core, saved)
    assert_same(core, read_graph(saved))
    assert core.node(2).args["grid"] == [1, 2, 3]


def test_original_events_outlive_the_graph_file(saved: Path) -> None:
    core = read_graph(saved)
    saved.unlink()
    assert core.node(0).event == TRACE["traceEvents"][0]


def test_lone_surrogates_and_odd_metadata_survive(tmp_path: Path) -> None:
    core = load_core(TRACE)
    core.names[:] = ["\ud800", "\udc00\x00", *core.names[2:]]
    core.info.metadata |= {"trace_id": "\udfff", "big": 2**70, "float": 1e-300}
    write_graph(core, tmp_path / "odd.tlg")
    assert_same(core, read_graph(tmp_path / "odd.tlg"))


def test_a_read_graph_can_be_pickled(saved: Path) -> None:
    core = read_graph(saved)
    again = pickle.loads(pickle.dumps(core))
    assert_same(core, again)
    assert again.node(2).event == TRACE["traceEvents"][2]


def test_a_changed_trace_is_not_saved_and_leaves_what_was_there(tmp_path: Path) -> None:
    trace, target = tmp_path / "trace.json.gz", tmp_path / "trace.tlg"
    trace.write_bytes(gzip.compress(json.dumps(TRACE).encode()))
    target.write_bytes(b"precious")
    core = load_core(trace)
    trace.write_bytes(gzip.compress(json.dumps(TRACE).encode() + b" "))
    with pytest.raises(ChangedTraceError, match="changed since it was loaded"):
        write_graph(core, target)
    assert target.read_bytes() == b"precious"
    assert sorted(tmp_path.iterdir()) == [trace, target]


def test_what_cannot_be_written_is_said_in_one_line(tmp_path: Path) -> None:
    core = load_core(TRACE)
    with pytest.raises(OutputError, match=r"^\S+/none/x.tlg: cannot be written: there is no folder \S+/none$"):
        write_graph(core, tmp_path / "none" / "x.tlg")
    with pytest.raises(OutputError, match=r"is a folder; name a file$"):
        write_graph(core, tmp_path)


def test_devices_and_pipes_take_a_graph_and_stay(tmp_path: Path) -> None:
    write_graph(load_core(TRACE), "/dev/null")
    assert Path("/dev/null").is_char_device()
    pipe, copy = tmp_path / "pipe", tmp_path / "copy.tlg"
    os.mkfifo(pipe)
    with subprocess.Popen(f"cat {pipe} > {copy}", shell=True):
        write_graph(load_core(TRACE), pipe)
    assert pipe.is_fifo()
    assert_same(load_core(TRACE), read_graph(copy))


def test_a_link_keeps_leading_to_the_file(saved: Path, tmp_path: Path) -> None:
    link = tmp_path / "link.tlg"
    link.symlink_to(saved)
    write_graph(load_core(TRACE), link)
    assert link.is_symlink()
    assert_same(load_core(TRACE), read_graph(link))


@pytest.mark.skipif(os.name != "posix", reason="permissions are those of POSIX")
@pytest.mark.parametrize("mode", [None, 0o644, 0o600, 0o666])
def test_nobody_else_may_read_it(tmp_path: Path, mode: int | None) -> None:
    place = tmp_path / "x.tlg"
    if mode is not None:
        place.write_bytes(b"older")
        place.chmod(mode)
    umask = os.umask(0)
    try:
        write_graph(load_core(TRACE), place)
    finally:
        os.umask(umask)
    assert stat.S_IMODE(place.stat().st_mode) == 0o600


def test_columns_are_read_when_they_are_looked_at(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graph_file, "MAPPED_FROM", 0)
    data = saved.read_bytes()
    core = read_graph(saved)
    begin, end = span_of(index_of(data)[1], "columns.owner")
    with saved.open("r+b") as file:
        file.seek(begin)
        file.write(b"\x77" * (end - begin))
    assert core.columns.parent.tolist() == load_core(TRACE).columns.parent.tolist()
    for _ in range(2):
        with pytest.raises(TraceError, match=r"is damaged \(columns.owner\); save it again from the trace$"):
            len(core.columns.owner)


def test_a_small_file_may_be_overwritten_while_it_is_open(saved: Path) -> None:
    core = read_graph(saved)
    saved.write_bytes(b"")
    assert_same(core, load_core(TRACE))


def test_a_mapped_file_that_became_shorter_is_an_error(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graph_file, "MAPPED_FROM", 0)
    core = read_graph(saved)
    os.truncate(saved, saved.stat().st_size - 1)
    with pytest.raises(TraceError, match=r"was overwritten while it was open; open it again$"):
        len(core.columns.owner)
