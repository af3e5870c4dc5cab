"""Files of several traces, of which the first is read; and files that do not begin as one."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tracelens_graph.errors import NotATraceError
from tracelens_graph.graph.core import Core
from tracelens_graph.loaders.kineto import loader
from tracelens_graph.loading.one import load_core
from tracelens_graph.schema import REPAIR_MEANING

pytestmark = pytest.mark.proof

HEAD = {
    "schemaVersion": 1,
    "deviceProperties": [{"id": 0, "name": "GPU", "totalGlobalMem": 7}, {"id": 1, "name": "GPU"}],
}


def events(count: int, name: str = "op") -> list[dict[str, object]]:
    return [
        {"ph": "X", "cat": "cpu_op", "name": f"aten::{name}{i}", "pid": 1, "tid": 1, "ts": 10 * i, "dur": 5, "args": {}}
        for i in range(count)
    ]


def trace(count: int = 200, name: str = "op", indent: int | None = None, **beside: object) -> bytes:
    return json.dumps({**HEAD, "traceEvents": events(count, name), "traceName": name, **beside}, indent=indent).encode()


def names(core: Core) -> list[str]:
    return [core.names[code] for code in core.columns.name.tolist()]


SIZES = [(1, 1), (3, 200), (200, 3), (9000, 9000), (9000, 2), (2, 9000)]


@pytest.mark.parametrize("between", [b"", b"\n", b"\r\n\0"], ids=["nothing", "line", "zero"])
@pytest.mark.parametrize(("first", "second"), SIZES)
@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
def test_of_two_traces_the_first_is_read(first: int, second: int, between: bytes, packed: bool) -> None:
    one, two = trace(first, "first"), trace(second, "second")
    data = gzip.compress(one) + gzip.compress(between + two) if packed else one + between + two
    core = load_core(data)
    assert names(core) == [f"aten::first{i}" for i in range(first)]
    assert core.info.events == first
    assert core.info.repairs.pop("second_trace") == 1
    assert set(core.info.repairs) <= {"metadata"}
    assert (core.info.lost_events, core.info.lost_bytes, core.info.doubtful_from) == (0, 0, None)
    assert len(core.details.events(core.columns.uid.tolist())) == first


def test_the_same_trace_three_times_with_its_keys_in_lines() -> None:
    core = load_core(b"\n".join([trace(300, indent=2)] * 3))
    assert core.info.events == 300
    assert core.info.repairs == {"second_trace": 1}
    assert core.info.damage == REPAIR_MEANING["second_trace"]


@pytest.mark.parametrize("cut", [0.5, 0.9])
def test_a_trace_behind_one_that_is_cut_short(cut: float) -> None:
    one = trace(200, "first")
    kept = one[: one.index(b'"args"', int(cut * len(one)))]
    core = load_core(kept.rstrip(b", ") + trace(200, "second"))
    assert set(core.info.repairs) == {"second_trace", "truncated"}
    assert core.info.lost_events == 1
    assert all(name.startswith("aten::first") for name in names(core))


def test_two_processes_stop_before_the_second_trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loader, "SPLIT_FROM", 0)
    monkeypatch.setattr(loader.threading, "active_count", lambda: 1)
    monkeypatch.setattr(loader.os, "sched_getaffinity", lambda pid: {0, 1})
    for first, second in ((9000, 9000), (3000, 20_000), (20_000, 3000)):
        file = tmp_path / f"{first}.json"
        file.write_bytes(trace(first, "first") + b"\n" + trace(second, "second"))
        core = load_core(file)
        assert core.info.events == first
        assert core.info.repairs == {"second_trace": 1}
        assert all(name.startswith("aten::first") for name in names(core))


def two_lists(first: int, second: int, indent: int | None = None) -> bytes:
    texts = {
        name: json.dumps(events(count, name), indent=indent) for name, count in (("first", first), ("second", second))
    }
    keys = [json.dumps(HEAD)[1:-1], f'"traceEvents": {texts["first"]}', '"between": {"traceEvents": [1]}']
    return ("{" + ", ".join([*keys, f'"traceEvents" : {texts["second"]}', '"displayTimeUnit": "ms"']) + "}").encode()


@pytest.mark.parametrize(("first", "second"), [*SIZES, (0, 4), (4, 0), (300, 30_000)])
@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gzip"])
def test_of_two_lists_the_last_is_read_as_by_json_readers(
    first: int, second: int, pack: Callable[[bytes], bytes], tmp_path: Path
) -> None:
    data = two_lists(first, second, 1 if second == 200 else None)
    expected = [event["name"] for event in json.loads(data)["traceEvents"]]
    core = load_core(pack(data))
    assert names(core) == expected
    assert core.info.repairs == {"second_list": 1}
    assert core.info.metadata["displayTimeUnit"] == "ms"
    assert [*core.details.events(core.columns.uid.tolist()).values()] == json.loads(data)["traceEvents"]


def test_two_processes_read_the_last_list(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loader, "SPLIT_FROM", 0)
    monkeypatch.setattr(loader.threading, "active_count", lambda: 1)
    monkeypatch.setattr(loader.os, "sched_getaffinity", lambda pid: {0, 1})
    for first, second in ((9000, 9000), (3000, 40_000), (40_000, 3000)):
        file = tmp_path / f"{first}.json"
        file.write_bytes(two_lists(first, second))
        core = load_core(file)
        assert names(core) == [f"aten::second{i}" for i in range(second)]
        assert core.info.repairs == {"second_list": 1}


def test_a_last_list_that_is_cut_short_is_read_as_far_as_it_goes() -> None:
    data = two_lists(50, 60)
    core = load_core(data[: data.index(b"second50")])
    assert names(core) == [f"aten::second{i}" for i in range(50)]
    assert set(core.info.repairs) == {"second_list", "truncated"}


def test_an_event_that_names_an_event_list_is_no_second_trace() -> None:
    odd = events(20)
    odd[7]["args"] = {"inner": {"traceEvents": [{"ph": "X"}]}, "list": [{"traceEvents": []}]}
    text = json.dumps({"traceEvents": odd}).encode().replace(b'"dur": 5', b'"dur": nan', 3)
    core = load_core(text)
    assert core.info.repairs == {"non_finite": 3}
    assert core.info.events == 20


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"import json\nprint(json.dumps({'traceEvents': []}))\n", "begins with 'import json'"),
        (b'log line with "ph": "X" in it\n' * 2, "begins with 'log line"),
        (bytes(70_000), "binary data"),
        (b'X"a": 1, "b": [1, 2]}', "begins with"),
    ],
)
def test_what_shows_no_trace_is_refused(content: bytes, words: str) -> None:
    with pytest.raises(NotATraceError, match=words):
        load_core(content)
