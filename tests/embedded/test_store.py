"""What is kept of a graph for statements: filled as they ask, kept for the user, made anew when it is damaged."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest
from handmade import small_trace

from tracelens_graph import TraceGraphSet, load, load_set
from tracelens_graph.embedded import asking
from tracelens_graph.embedded.store import Contents, Store
from tracelens_graph.graph.trace_set import TraceSet

pytest.importorskip("ladybug")

COUNT = "MATCH (k:Kernel) RETURN count(*)"


class Loads:
    """Loads a file, and counts how often."""

    def __init__(self, *files: Path) -> None:
        self.files, self.times = files, 0

    def __call__(self) -> TraceSet:
        self.times += 1
        return TraceSet.of([load(file) for file in self.files])

    def ask(self, statement: str, **parameters: Any) -> list[list[Any]]:
        store = asking.of_files([str(file) for file in self.files], "", self)
        return store.ask(statement, parameters, 60)[1]


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TRACELENS_GRAPH_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def written(path: Path, **changes: Any) -> Path:
    path.write_text(json.dumps(small_trace() | changes))
    return path


def described(cache: Path) -> Contents:
    (file,) = cache.glob("*.json")
    return Contents(**json.loads(file.read_text()))


def test_only_what_a_statement_names_is_filled_in(cache: Path, tmp_path: Path) -> None:
    loads = Loads(written(tmp_path / "a.json"))
    loads.ask(COUNT)
    assert (described(cache).nodes, described(cache).edges) == (["Kernel"], [])
    loads.ask("MATCH (k:Kernel)-[:CHARGED_TO]->(o) RETURN o")
    assert described(cache).nodes == ["Kernel", "Op"]
    assert described(cache).edges == [["CHARGED_TO", "Kernel", "Op"]]
    loads.ask("MATCH (k)-[:CHARGED_TO]->(o) RETURN o")
    assert described(cache).edges == [["CHARGED_TO", "Kernel", "Op"], ["CHARGED_TO", "Memcpy", "Op"]]


def test_what_is_kept_needs_no_trace(cache: Path, tmp_path: Path) -> None:
    file = written(tmp_path / "a.json")
    first, second = Loads(file), Loads(file)
    assert first.ask(COUNT) == second.ask(COUNT) == [[2]]
    assert (first.times, second.times) == (1, 0)
    assert [stat.S_IMODE(path.stat().st_mode) for path in cache.iterdir()] == [0o600, 0o600]


def test_a_trace_that_changes_is_another_one(cache: Path, tmp_path: Path) -> None:
    file = written(tmp_path / "a.json")
    assert Loads(file).ask(COUNT) == [[2]]
    events = [event for event in small_trace()["traceEvents"] if event.get("name") != "gemm"]
    written(file, traceEvents=events)
    assert Loads(file).ask(COUNT) == [[1]]
    assert len(list(cache.glob("*.lbug"))) == 1


@pytest.mark.parametrize("suffix", [".lbug", ".json"])
@pytest.mark.parametrize("damage", [b"", b"\x00" * 4096, None], ids=["empty", "zeros", "absent"])
def test_a_damaged_entry_is_made_anew(cache: Path, tmp_path: Path, suffix: str, damage: bytes | None) -> None:
    file = written(tmp_path / "a.json")
    Loads(file).ask(COUNT)
    (entry,) = cache.glob(f"*{suffix}")
    if damage is None:
        entry.unlink()
    else:
        entry.write_bytes(damage)
    loads = Loads(file)
    assert loads.ask(COUNT) == [[2]]
    assert loads.times == 1


def test_entries_of_graphs_and_of_statements_stand_side_by_side(cache: Path, tmp_path: Path) -> None:
    from tracelens_graph.loading.one import load_core
    from tracelens_graph.stores.cache import cached_core

    file = written(tmp_path / "a.json")
    Loads(file).ask(COUNT)
    cached_core(file, lambda: load_core(file))
    Loads(file).ask("MATCH (o:Op) RETURN count(*)")
    assert sorted(path.suffix for path in cache.iterdir()) == [".json", ".lbug", ".tlg"]


def test_the_cache_has_a_limit(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = [written(tmp_path / f"{name}.json", trace_id=name) for name in "abc"]
    for number, file in enumerate(files):
        Loads(file).ask(COUNT)
        for entry in cache.iterdir():
            os.utime(entry, (number, number)) if entry.stat().st_mtime > 100 else None
    monkeypatch.setattr("tracelens_graph.stores.cache.LIMIT_BYTES", 1)
    Loads(files[0]).ask("MATCH (o:Op) RETURN count(*)")
    assert len(list(cache.glob("*.lbug"))) == 1


def test_several_traces_are_told_apart_and_share_what_is_known(tmp_path: Path) -> None:
    events = [event for event in small_trace()["traceEvents"] if event.get("name") != "gemm"]
    a = written(tmp_path / "a.json", distributedInfo={})
    traces = load_set(a, written(tmp_path / "b.json", distributedInfo={}, traceEvents=events))
    assert isinstance(traces, TraceGraphSet)
    rows = traces.cypher("MATCH (t:Trace) MATCH (k:Kernel {trace: t.id}) RETURN t.name AS t, count(*) AS n ORDER BY t")
    assert rows.records() == [{"t": "a", "n": 2}, {"t": "b", "n": 1}]
    shared = (
        "MATCH (k:Kernel)-[:NAMED]->(n:KernelName) "
        "RETURN count(DISTINCT k.trace) AS traces, n.name = 'gemm' AS g ORDER BY g"
    )
    assert traces.cypher(shared).records() == [{"traces": 2, "g": False}, {"traces": 1, "g": True}]
    assert traces.cypher("MATCH (r:Run) RETURN count(*) AS n").records() == [{"n": 2}]
    assert traces.cypher("MATCH (t:Trace)-[:OF_RUN]->(r) RETURN r.name, count(*) AS n", run="x").records() == [
        {"r.name": "x", "n": 2}
    ]


def test_a_trace_that_is_there_twice_is_one(tmp_path: Path) -> None:
    traces = TraceSet.of([load(written(tmp_path / "a.json")), load(written(tmp_path / "b.json"))])
    assert asking.cypher(traces, COUNT).records() == [{"count(*)": 2}]


def test_folders_of_graphs_go_with_them(tmp_path: Path) -> None:
    graph = load(small_trace())
    graph.cypher(COUNT)
    store = graph.once(asking._of_graph)
    assert isinstance(store, Store)
    folder = store.path.parent
    assert folder.is_dir()
    del store, graph
    import gc

    gc.collect()
    assert not folder.exists()
