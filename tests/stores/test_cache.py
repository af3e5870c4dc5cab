"""The second load of a trace comes from the cache, and never says anything else than the trace."""

from __future__ import annotations

import gzip
import io
import json
import os
import random
import stat
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from graph_damage import index_of, span_of, with_contents
from handmade import small_trace, span

from corpus import CHECKOUT, kineto_traces, parametrize
from tracelens_graph.errors import ChangedTraceError, NotATraceError, TraceError
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.details import NoDetails
from tracelens_graph.loaders.sources import GENERIC
from tracelens_graph.loading.fused import with_ranks_apart
from tracelens_graph.loading.one import load_core
from tracelens_graph.stores import cache
from tracelens_graph.stores.cache import cached_core
from tracelens_graph.stores.cut import piece_between, write_piece
from tracelens_graph.stores.graph_file import write_graph

needs_posix = pytest.mark.skipif(os.name != "posix", reason="permissions are those of POSIX")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache."""
    monkeypatch.setenv("TRACELENS_GRAPH_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    path = tmp_path / "trace.json"
    path.write_text(json.dumps(small_trace()))
    return path


def never() -> Core:
    raise AssertionError("loaded though it is in the cache")


def loading(path: str | Path) -> Callable[[], Core]:
    return lambda: load_core(path, processes=1)


def kept(path: str | Path) -> Core:
    """Load a trace with the cache, where it is not yet."""
    loads: list[int] = []

    def load() -> Core:
        loads.append(1)
        return load_core(path)

    core = cached_core(path, load)
    assert loads == [1]
    return core


def entries(folder: Path) -> list[Path]:
    return sorted(folder.iterdir()) if folder.exists() else []


def one_op(path: Path, name: str) -> Path:
    """A file with a trace of one op."""
    path.write_text(json.dumps({"traceEvents": [span("cpu_op", name, 1, 1)]}))
    return path


@parametrize("path", kineto_traces()[::3])
def test_real_graphs_come_back_whole(path: Path) -> None:
    core = kept(path)
    again = cached_core(path, never)
    assert core.equals(again)
    assert again.trace_id == core.trace_id
    uids = random.Random(path.name).sample(core.columns.uid.tolist(), min(40, len(core.columns)))
    assert again.details.events(uids) == core.details.events(uids)


def test_the_entry_leaves_the_events_in_the_trace(folder: Path, tmp_path: Path) -> None:
    events = [span("cpu_op", "op", i, 1, note=random.Random(i).randbytes(300).hex()) for i in range(2000)]
    path = tmp_path / "trace.json.gz"
    path.write_bytes(gzip.compress(json.dumps({"traceEvents": events}).encode()))
    kept(path)
    [entry] = entries(folder)
    assert entry.stat().st_size < path.stat().st_size / 3
    core = cached_core(path, never)
    assert core.node(1999).event == events[1999]
    path.write_bytes(b"{}")
    with pytest.raises(ChangedTraceError):
        core.details.events([0])
    with pytest.raises(TraceError, match="is a cached graph without its events; name the trace, with --cache$"):
        load_core(entry)


def test_a_repaired_trace_is_repaired_again_where_it_was(tmp_path: Path) -> None:
    text = json.dumps(small_trace()).replace('"name": "aten::addmm"', '"name": "aten::add\nmm"')
    path = tmp_path / "broken.json"
    path.write_text(text)
    core = kept(path)
    again = cached_core(path, never)
    assert core.info.damage == again.info.damage != ""
    assert again.node(6).event == core.node(6).event
    assert again.node(6).event["name"] == "aten::add\nmm"


def test_events_of_a_profile_that_is_no_text_are_read_by_loading_it_again(tmp_path: Path) -> None:
    path = tmp_path / "x.xplane.pb.gz"
    path.write_bytes((CHECKOUT / "examples/traces/tiny-transformer-jax-cpu.xplane.pb.gz").read_bytes())
    core, loads = kept(path), []

    def load() -> Core:
        loads.append(1)
        return load_core(path)

    again = cached_core(path, load)
    assert core.equals(again)
    assert again.trace_id == core.trace_id
    assert loads == []
    uids = core.columns.uid.tolist()
    assert again.details.events(uids[:9]) | again.details.events(uids[9:]) == core.details.events(uids)
    assert loads == [1]
    again = cached_core(path, load)
    path.write_bytes(gzip.compress(b"{}"))
    with pytest.raises(TraceError):
        again.details.events([0])


def test_what_is_written_from_a_cached_graph_is_the_same(trace: Path, tmp_path: Path) -> None:
    results = []
    for core in (kept(trace), cached_core(trace, never)):
        file = io.BytesIO()
        write_piece(piece_between(core, 0, 10**9), file, packed=False)
        write_graph(core, tmp_path / "saved.tlg")
        results.append((file.getvalue(), (tmp_path / "saved.tlg").read_bytes()))
    assert results[0] == results[1]


@pytest.mark.parametrize("same_time", [False, True])
def test_a_trace_that_changed_is_loaded_again(folder: Path, tmp_path: Path, same_time: bool) -> None:
    path = one_op(tmp_path / "a.json", "one")
    before = path.stat()
    kept(path)
    one_op(path, "two")  # as many bytes
    if same_time:
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert kept(path).names == ["two"]
    assert cached_core(path, never).names == ["two"]
    assert len(entries(folder)) == 1


def test_a_trace_written_to_while_it_is_loaded_is_not_kept(folder: Path, tmp_path: Path) -> None:
    path = one_op(tmp_path / "a.json", "one")

    def load() -> Core:
        core = load_core(path)
        one_op(path, "three")
        return core

    assert cached_core(path, load).names == ["one"]
    assert entries(folder) == []
    assert kept(path).names == ["three"]


def test_another_version_loads_again(trace: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept(trace)
    monkeypatch.setattr(cache, "SCHEMA_VERSION", 99)
    kept(trace)
    monkeypatch.setattr(cache, "__version__", "99")
    kept(trace)
    assert len(entries(folder)) == 1


@pytest.mark.parametrize("damage", ["cut", "empty", "header", "index", "text", "folder"])
def test_a_damaged_entry_is_replaced_in_silence(trace: Path, folder: Path, damage: str) -> None:
    whole = kept(trace)
    [entry] = entries(folder)
    data = entry.read_bytes()
    if damage == "folder":
        entry.unlink()
        entry.mkdir()
        assert cached_core(trace, loading(trace), warn=lambda _: None).equals(whole)
        return
    index = int.from_bytes(data[24:32], "little")
    place = {"cut": 0, "empty": 0, "header": 10, "index": index + 5, "text": data.index(b"aten::")}[damage]
    keep = {"cut": len(data) // 2, "empty": 0}.get(damage, len(data))
    entry.write_bytes((data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])[:keep])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert kept(trace).equals(whole)
    assert entry.read_bytes() == data
    assert cached_core(trace, never).equals(whole)


def broken_at(data: bytes, section: str) -> bytes:
    """An entry with one byte of a section changed."""
    begin, end = span_of(index_of(data)[1], section)
    place = (begin + end) // 2
    return data[:place] + bytes([data[place] ^ 0x55]) + data[place + 1 :]


def test_an_entry_with_damage_anywhere_is_made_anew(trace: Path, folder: Path) -> None:
    whole = kept(trace)
    [entry] = entries(folder)
    data = entry.read_bytes()
    sections = index_of(data)[1]["sections"]
    for section in [name for name in sections if len(set(span_of(index_of(data)[1], name))) == 2]:
        entry.write_bytes(broken_at(data, section))
        assert kept(trace).equals(whole), section
        assert entry.read_bytes() == data
    assert cached_core(trace, never).equals(whole)


@pytest.mark.parametrize("place", [(3, 40, 0), (0, 0, 0), (10**9, 10, 0)])
def test_places_that_are_wrong_from_the_start_are_told(trace: Path, folder: Path, place: tuple[int, int, int]) -> None:
    kept(trace)
    [entry] = entries(folder)
    entry.write_bytes(with_contents(entry.read_bytes(), "events.places", np.array([place], np.int64)))
    with pytest.raises(TraceError, match=r"^\S+: its events are not where its graph in the cache says"):
        cached_core(trace, never).node(9).event  # noqa: B018


def test_what_cannot_be_found_again_is_not_kept(trace: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    saved = trace.with_suffix(".tlg")
    write_graph(load_core(trace), saved)
    for _ in range(2):
        kept(saved)
    with trace.open("rb") as file:
        core = load_core(file)
    assert core.details.places() is None
    assert cached_core("-", lambda: core) is core
    assert cached_core(trace, lambda: core) is core  # from a spool, for whatever reason
    core.details = NoDetails()
    assert cached_core(trace, lambda: core) is core
    assert entries(folder) == []


def test_ranks_of_a_fused_trace_are_not_kept(tmp_path: Path, folder: Path) -> None:
    fused = tmp_path / "job.json"
    events = [span("cpu_op", "a", rank, 1, rank * 1000, rank=rank) for rank in (0, 1)]
    fused.write_text(json.dumps({"traceEvents": events}))
    parts = with_ranks_apart([str(fused)])
    assert [len(kept(part).columns) for part in [*parts, *parts]] == [1] * 4
    assert entries(folder) == []


def test_events_of_unknown_tools_are_another_entry(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "other.json"
    path.write_text(json.dumps({"traceEvents": [span("fee", "main", 1, 1)]}))
    monkeypatch.setenv(GENERIC, "1")
    kept(path)
    cached_core(path, never)
    monkeypatch.delenv(GENERIC)
    with pytest.raises(NotATraceError, match="of another tool"):
        cached_core(path, loading(path))
    assert len(entries(folder)) == 1


@needs_posix
def test_a_pipe_is_left_for_the_loader(tmp_path: Path, folder: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    core = load_core(small_trace())
    assert cached_core(pipe, lambda: core) is core
    assert entries(folder) == []


@pytest.mark.parametrize(
    ("content", "error", "words"),
    [(None, TraceError, "no such file"), (b"", NotATraceError, "is empty"), (b"%PDF-1.7", NotATraceError, "a PDF")],
)
def test_errors_are_those_of_loading(
    tmp_path: Path, folder: Path, content: bytes | None, error: type[Exception], words: str
) -> None:
    path = tmp_path / "x.json"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(error, match=words):
        cached_core(path, loading(path))
    assert entries(folder) == []


@needs_posix
def test_nobody_else_may_read_it(trace: Path, folder: Path) -> None:
    umask = os.umask(0)
    try:
        kept(trace)
    finally:
        os.umask(umask)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert [stat.S_IMODE(entry.stat().st_mode) for entry in entries(folder)] == [0o600]


@needs_posix
def test_an_entry_of_somebody_else_is_not_trusted(trace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept(trace)
    cached_core(trace, never)
    monkeypatch.setattr(os, "getuid", lambda: 12345)
    kept(trace)


@pytest.mark.parametrize("obstacle", ["file", "folder in the way", "full"])
def test_a_cache_that_cannot_be_written_is_a_warning(
    trace: Path, folder: Path, obstacle: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if obstacle == "file":
        folder.write_text("not a folder")
    elif obstacle == "folder in the way":
        kept(trace)
        [entry] = entries(folder)
        entry.unlink()
        entry.mkdir()
    else:

        def full(*_: object) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(cache, "write_without_events", full)
    said: list[str] = []
    core = cached_core(trace, loading(trace), warn=said.append)
    assert core.equals(load_core(trace))
    [line] = said
    assert line.startswith(f"the graph is not kept for the next command: {folder}")
    assert "[Errno" not in line
    assert "\n" not in line
    assert not [path for path in entries(folder) if path.suffix == ".part"] if folder.is_dir() else True
    with pytest.warns(UserWarning, match="is not kept"):
        cached_core(trace, loading(trace))


def test_entries_used_longest_ago_make_room(tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = [one_op(tmp_path / f"{n}.json", f"op {n}") for n in range(4)]
    for age, path in enumerate(paths[:3]):
        kept(path)
        newest = max(entries(folder), key=lambda entry: entry.stat().st_mtime)
        os.utime(newest, (time.time() - 100 + age,) * 2)
    size = max(entry.stat().st_size for entry in entries(folder))
    monkeypatch.setattr(cache, "LIMIT_BYTES", 3 * size)
    cached_core(paths[0], never)  # now the one used last
    kept(paths[3])
    assert len(entries(folder)) == 3
    cached_core(paths[0], never)
    cached_core(paths[2], never)
    cached_core(paths[3], never)
    kept(paths[1])


def test_a_graph_beyond_the_limit_is_not_kept(trace: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "LIMIT_BYTES", 100)
    for _ in range(2):
        kept(trace)
    assert entries(folder) == []


def test_files_that_are_no_entries_are_left_alone(
    trace: Path, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.mkdir(mode=0o755)
    strangers = [folder / name for name in ("mine.tlg", "notes.txt", ".x.tlg.12345678.part", "sub")]
    strangers[-1].mkdir()
    for path in strangers[:-1]:
        path.write_bytes(b"x" * 10_000)
    abandoned, fresh = (folder / f".{'0' * 32}-{'0' * 32}.tlg.{number}.part" for number in ("0000aaaa", "0000bbbb"))
    for path in (abandoned, fresh):
        path.write_bytes(b"half")
    os.utime(abandoned, (time.time() - 7200,) * 2)
    kept(trace)
    assert set(strangers) | {fresh} < set(entries(folder))
    assert abandoned not in entries(folder)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o755
    monkeypatch.setattr(cache, "LIMIT_BYTES", 8_000)
    kept(one_op(tmp_path / "other.json", "x"))
    assert set(strangers) < set(entries(folder))


def test_emptying_the_cache_does_no_harm(trace: Path, folder: Path) -> None:
    kept(trace)
    core = cached_core(trace, never)
    for entry in entries(folder):
        entry.unlink()
    folder.rmdir()
    assert core.equals(load_core(trace))
    kept(trace)
    cached_core(trace, never)


def test_many_at_once(tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads that load, keep, replace and make room at the same time all get the right graph."""
    paths = [one_op(tmp_path / f"{n}.json", f"op {n}") for n in range(4)]
    kept(paths[0])
    monkeypatch.setattr(cache, "LIMIT_BYTES", 2 * entries(folder)[0].stat().st_size)
    together = threading.Barrier(8)

    def work(number: int) -> list[str]:
        together.wait()
        found = []
        for turn in range(30):
            path = paths[(number + turn) % 4]
            found += cached_core(path, loading(path), warn=pytest.fail).names
        return found

    with ThreadPoolExecutor(8) as pool:
        for number, found in enumerate(pool.map(work, range(8))):
            assert found == [f"op {(number + turn) % 4}" for turn in range(30)]
    assert not [path for path in entries(folder) if path.suffix == ".part"]


def test_two_processes_at_once(trace: Path, folder: Path) -> None:
    program = (
        "import sys\n"
        "from tracelens_graph.loading.one import load_core\n"
        "from tracelens_graph.stores.cache import cached_core\n"
        "for _ in range(20): core = cached_core(sys.argv[1], lambda: load_core(sys.argv[1]), warn=sys.exit)\n"
        "print(core.trace_id, len(core.columns))"
    )
    command = [sys.executable, "-c", program, str(trace)]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    said = [process.communicate(timeout=60)[0] for process in running]
    core = load_core(trace)
    assert said == [f"{core.trace_id} {len(core.columns)}\n"] * 2
    assert len(entries(folder)) == 1
