"""DamagedBytesError gzip files: every fault is named for what it is, and everything before it is read."""

from __future__ import annotations

import gzip
import io
import json
import zlib
from pathlib import Path

import pytest

from tracelens_graph.loaders import damaged_gzip
from tracelens_graph.loaders.damaged_gzip import BEHIND, CHECKSUM, salvage
from tracelens_graph.loaders.kineto import loader
from tracelens_graph.loading.one import load_core
from tracelens_graph.schema import REPAIR_MEANING

pytestmark = pytest.mark.proof


def trace(ops: int = 3000) -> bytes:
    events = [
        {"ph": "X", "cat": "cpu_op", "name": f"aten::op{i * 7919 % 1000}", "ts": i, "dur": 1, "pid": 1, "tid": 1}
        for i in range(ops)
    ]
    return json.dumps({"schemaVersion": 1, "traceEvents": events, "traceName": "x.json"}).encode()


TEXT = trace()
PACKED = gzip.compress(TEXT)


def flipped(data: bytes, at: int) -> bytes:
    return data[:at] + bytes((data[at] ^ 1,)) + data[at + 1 :] if at >= 0 else flipped(data, len(data) + at)


def stored(text: bytes) -> bytes:
    """Packed without compression: a flipped byte stays one flipped byte."""
    return gzip.compress(text, 0)


@pytest.mark.parametrize("at", [-8, -5, -4, -1])
def test_a_wrong_checksum_costs_nothing_and_is_told(at: int) -> None:
    core = load_core(flipped(PACKED, at))
    assert core.info.repairs == {"checksum": 1}
    assert (core.info.events, core.info.cut_short, core.info.lost_bytes) == (3000, 0, 0)
    assert core.info.damage == REPAIR_MEANING["checksum"]


def test_a_wrong_letter_is_told_by_the_checksum() -> None:
    packed = stored(TEXT)
    core = load_core(flipped(packed, packed.index(b"aten::op919") + 2))
    assert core.info.repairs == {"checksum": 1}
    assert (core.info.events, core.info.cut_short) == (3000, 0)


def test_damage_within_the_data_is_told_and_what_follows_is_lost() -> None:
    engine = zlib.compressobj(wbits=31)
    first = engine.compress(TEXT[: len(TEXT) // 2]) + engine.flush(zlib.Z_FULL_FLUSH)
    second = engine.compress(TEXT[len(TEXT) // 2 :]) + engine.flush()
    core = load_core(first + b"\xff" + second[1:])  # no block is of this type
    assert core.info.repairs == {"checksum": 1, "truncated": 1}
    assert core.info.cut_short == len(TEXT) // 2
    assert core.info.events == TEXT[: len(TEXT) // 2].count(b'"ph"')
    assert REPAIR_MEANING["checksum"] in core.info.damage
    assert "cut short" in core.info.damage


@pytest.mark.parametrize("kept", [0.5, len(PACKED) - 8, len(PACKED) - 3])
def test_a_file_cut_short_is_not_called_damaged(kept: float) -> None:
    core = load_core(PACKED[: int(kept * len(PACKED)) if kept < 1 else int(kept)])
    assert core.info.cut_short
    assert set(core.info.repairs) <= {"truncated"}


@pytest.mark.parametrize("behind", [b"x\n", b"\0\0log line\n" * 5000])
def test_text_behind_the_packed_data_is_passed_over(behind: bytes) -> None:
    core = load_core(PACKED + behind)
    assert core.info.repairs == {"behind_packed": 1}
    assert (core.info.events, core.info.cut_short) == (3000, 0)


@pytest.mark.parametrize("zeros", [0, 1, 70_000])
def test_members_that_make_one_trace_are_one_trace(zeros: int) -> None:
    half = len(TEXT) // 2
    core = load_core(gzip.compress(TEXT[:half]) + gzip.compress(TEXT[half:]) + b"\0" * zeros)
    assert (core.info.events, core.info.damage) == (3000, "")


def test_what_follows_a_member_with_a_wrong_checksum_is_lost() -> None:
    half = len(TEXT) // 2
    core = load_core(flipped(gzip.compress(TEXT[:half]), -6) + gzip.compress(TEXT[half:]))
    assert core.info.repairs == {"checksum": 1, "truncated": 1}
    assert core.info.cut_short == half


def test_two_processes_tell_what_one_tells(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loader, "SPLIT_FROM", 0)
    monkeypatch.setattr(loader.threading, "active_count", lambda: 1)
    monkeypatch.setattr(loader.os, "sched_getaffinity", lambda pid: {0, 1})
    text = trace(40_000)
    file = tmp_path / "t.json.gz"
    file.write_bytes(gzip.compress(text, 1) + b"x")
    core = load_core(file)
    assert core.info.repairs == {"behind_packed": 1}
    assert core.info.events == 40_000


def header(flags: int, more: bytes) -> bytes:
    return b"\x1f\x8b\x08" + bytes((flags,)) + b"\0" * 6 + more


def test_a_damaged_header_is_damage() -> None:
    for packed in (b"\x1f\x8b\x07" + PACKED[3:], PACKED[:3] + b"\xff" + PACKED[4:]):
        assert salvage(io.BytesIO(packed), io.BytesIO(), 1 << 30) == (True, {CHECKSUM})
    assert salvage(io.BytesIO(PACKED + b"\x1f\x8b\x07" + bytes(20)), io.BytesIO(), 1 << 30) == (True, {CHECKSUM})


@pytest.mark.parametrize("bite", [1, 7, 4096])
def test_pieces_of_any_size_give_the_same(bite: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(damaged_gzip, "_BITE", bite)
    out = io.BytesIO()
    short = trace(50)
    packed = gzip.compress(short) + gzip.compress(short)
    assert salvage(io.BytesIO(packed + b"x"), out, 1 << 30) == (False, {BEHIND})
    assert out.getvalue() == short * 2


def test_all_output_before_a_fault_is_kept() -> None:
    text = trace(50)
    block = zlib.compressobj(wbits=-15)
    data = block.compress(text) + block.flush(zlib.Z_FULL_FLUSH)
    out = io.BytesIO()
    assert salvage(io.BytesIO(header(0, b"") + data + b"\xff" * 99), out, 1 << 30) == (True, {CHECKSUM})
    assert out.getvalue() == text
