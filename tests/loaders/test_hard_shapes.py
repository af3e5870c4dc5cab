"""What loading costs grows with the size of a file and no faster, whatever the file says."""

from __future__ import annotations

import gzip
import io
import json
import zipfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from growth import assert_growth, cost
from handmade import span
from hard_files import SHAPES

from tracelens_graph.errors import TraceError, TraceLensGraphError
from tracelens_graph.loaders.kineto import chunks, collect, repair, repair_text, times
from tracelens_graph.loading.one import load_core

pytestmark = pytest.mark.proof

READERS: tuple[ModuleType, ...] = (chunks, collect, repair, repair_text, times)
SIZE = 1 << 13


def op(name: str, ts: float, dur: float = 1, **args: Any) -> dict[str, Any]:
    return span("cpu_op", name, ts, dur, **args)


def loaded(text: bytes) -> object:
    try:
        return load_core(text)
    except TraceLensGraphError as error:
        return error


@pytest.fixture
def small_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Limits a thousandth of what they are, so that short texts meet them."""
    monkeypatch.setattr(chunks, "BLOCK", 512)
    monkeypatch.setattr(repair_text, "_LARGEST", 1 << 12)


@pytest.mark.parametrize("shape", SHAPES)
def test_cost_grows_with_the_size(shape: str, small_limits: None) -> None:
    assert_growth(lambda size: partial(loaded, SHAPES[shape](size)), SIZE, modules=READERS)


def test_arrows_that_share_nothing_are_held_in_columns() -> None:
    """They may be all that a file holds, each with its own id and thread."""
    count = 20_000
    arrows = ({"cat": "fwdbwd", "ph": "s", "id": f"{i}", "ts": 0, "pid": i, "tid": 0} for i in range(count))
    text = json.dumps({"traceEvents": [op("a", ts=1), *arrows]}).encode()
    loaded(text)
    assert cost(partial(loaded, text)).peak < 500 * count


def test_a_large_event_is_kept(small_limits: None) -> None:
    large = op("x" * 60_000, ts=2, **{"list": [{"a": [1, "}, {"]}] * 10})
    core = load_core({"traceEvents": [op("a", ts=1), large, op("c", ts=3)]})
    assert core.info.repairs == {}
    assert len(core.columns) == 3
    assert core.node(1).args == large["args"]


@pytest.mark.parametrize("where", ["before", "behind"])
@pytest.mark.parametrize(
    "value",
    ["x" * 200_000, [[]] * 50_000, {"a": [{"name": "b"}, {"name": "c"}] * 9000, "d": "]}"}, [[]]],
    ids=["text", "list", "events", "short"],
)
def test_keys_beside_the_events_may_be_of_any_size(where: str, value: Any, small_limits: None) -> None:
    beside = {"large": value, "schemaVersion": 1, "distributedInfo": {"rank": 3}}
    events = {"traceEvents": [op("a", ts=1), op("b", ts=2)]}
    core = load_core(json.dumps(beside | events if where == "before" else events | beside).encode())
    assert core.info.metadata == {"schemaVersion": 1, "distributedInfo": {"rank": 3}}
    assert len(core.columns) == 2
    assert core.info.lost_events == 0


@pytest.mark.parametrize("where", ["before", "behind"])
def test_keys_beside_the_events_may_have_any_depth(where: str) -> None:
    deep = b'"deep":' + b"[" * 100_000 + b"]" * 100_000 + b',"schemaVersion":1'
    events = b'"traceEvents":[%s]' % json.dumps(op("a", ts=1)).encode()
    core = load_core(b"{" + b",".join((deep, events) if where == "before" else (events, deep)) + b"}")
    assert core.info.metadata == {"schemaVersion": 1}
    assert core.info.repairs == {"metadata": 1}
    assert len(core.columns) == 1


# ---- numbers ----


@pytest.mark.parametrize("number", ["9" * 1_000_000, "1e999990", "1e99999999999999999999", "9" * 1000 + ".5"])
@pytest.mark.parametrize("key", ["ts", "dur"])
def test_numbers_of_any_length(number: str, key: str) -> None:
    text = json.dumps({"traceEvents": [op("a", ts=1), op("b", ts=1) | {key: "#"}]}).replace('"#"', number)
    core = load_core(text.encode())
    assert core.columns.uid.tolist() == [0]
    assert core.info.left_out == {"unreadable": 1}


@pytest.mark.parametrize(
    ("spelled", "ns"), [("1e-999990", 0), ("0e999990", 0), ("1e-99999999999999999999", 0), ("-1e999990", -(2**63))]
)
def test_times_with_large_exponents(spelled: str, ns: int) -> None:
    assert times.digits_to_ns([spelled.encode()]).tolist() == [ns]  # type: ignore[list-item]


# ---- packed files ----


def zipped(data: bytes) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("trace.json", data)
    return out.getvalue()


def zstandard(data: bytes) -> bytes:
    return pytest.importorskip("zstandard").ZstdCompressor().compress(data)  # type: ignore[no-any-return]


@pytest.mark.parametrize("pack", [gzip.compress, zipped, zstandard, lambda data: gzip.compress(data)[:-9]])
@pytest.mark.parametrize("how", ["path", "bytes", "stream"])
def test_a_file_that_unpacks_to_too_much_is_refused(
    pack: Callable[[bytes], bytes], how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = json.dumps({"traceEvents": [op("a", ts=1)]}).encode()
    packed = pack(data + b" " * 3_000_000)
    path = tmp_path / "trace.json"
    path.write_bytes(packed)

    def load() -> Any:
        return load_core(path if how == "path" else packed if how == "bytes" else io.BytesIO(packed))

    with pytest.raises(TraceError, match=r"more than 250 times its size .* TRACELENS_GRAPH_UNPACK_LIMIT") as caught:
        load()
    assert "\n" not in str(caught.value)
    for limit in ("100000", "0"):
        monkeypatch.setenv("TRACELENS_GRAPH_UNPACK_LIMIT", limit)
        assert len(load().columns) == 1
    monkeypatch.setenv("TRACELENS_GRAPH_UNPACK_LIMIT", "much")
    with pytest.raises(TraceError, match="UNPACK_LIMIT=much: is not a number"):
        load()
