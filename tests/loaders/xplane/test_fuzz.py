"""Whatever stands in a profile: a graph comes of it, or an error of one line. Bytes, fields and programs are drawn."""

from __future__ import annotations

import struct
from functools import cache
from typing import Any

import plain_xplane as plain
import pytest
from handmade_jax import F32, computation, instruction, program, shape, training_profile, tuple_of
from hypothesis import given
from hypothesis import strategies as st
from plain_xplane import Plane, block, number, varint
from profiles import examples

from tracelens_graph.analyses.report.inventory import inventory
from tracelens_graph.analyses.report.report_tables import report_tables
from tracelens_graph.errors import TraceError
from tracelens_graph.graph.core import Core
from tracelens_graph.loading.one import load_core

pytestmark = pytest.mark.proof


@cache
def whole() -> bytes:
    return training_profile()


def check(content: bytes, reports: bool = False) -> Core | None:
    """The graph of a profile, sound in itself; None if an error says in one line that there is none."""
    try:
        core = load_core(content)
    except TraceError as error:
        if "\n" in str(error):
            raise
        return None
    c = core.columns
    assert (c.dur_ns >= 0).all()
    assert (c.start_ns >= 0).all()
    assert len(set(c.uid.tolist())) == len(c)
    assert sum(core.info.left_out.values()) + core.info.lost_events + len(c) == core.info.events
    core.details.events(c.uid.tolist())
    inventory(core)
    if reports:
        report_tables(core)
    return core


@given(st.binary(max_size=300))
def test_any_bytes(content: bytes) -> None:
    check(content)
    check(block(1, block(2, "/host:CPU") + content))
    check(block(1, block(2, "/device:GPU:0") + block(3, content)))
    check(whole() + content)


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """The profile with stretches replaced, doubled, or missing."""
    content = whole()
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(content)))
        end = min(at + draw(st.sampled_from((0, 1, 2, 9, 60))), len(content))
        put = draw(st.one_of(st.binary(max_size=12), st.just(content[at:end] * 2)))
        content = content[:at] + put + content[end:]
    return content


@examples(200)
@given(damaged())
def test_damaged_stretches(content: bytes) -> None:
    check(content, reports=True)


HUGE = (0, 1, 2**31, 2**32 - 1, 2**53, 2**62, 2**63 - 1, 2**63, 2**64 - 1)
numbers = st.one_of(st.integers(0, 9), st.sampled_from(HUGE))
TOO_LONG = b"\xff" * 10 + b"\x01"
"""A varint of eleven bytes."""


@st.composite
def field(draw: st.DrawFn, inner: st.SearchStrategy[bytes]) -> bytes:
    """A field of any number, wire type and content, whose length may lie."""
    which = draw(st.one_of(st.integers(1, 11), st.sampled_from((0, 14, 15, 16, 17, 30, 35, 36, 38, 43, 87, 2**29))))
    wire = draw(st.sampled_from((0, 0, 2, 2, 2, 2, 1, 3, 4, 5, 6, 7)))
    tag = varint(which << 3 | wire)
    if wire == 0:
        return tag + draw(st.one_of(numbers.map(varint), st.just(TOO_LONG)))
    if wire == 2:
        content = draw(inner)
        lie = draw(st.sampled_from((0, 0, 0, 0, 1, -1, 2**31, 2**63)))
        return tag + varint(len(content) + lie) + content
    return tag + (struct.pack("<d", draw(st.floats())) if wire == 1 else b"\x00" * (4 * (wire == 5)))


messages = st.recursive(
    st.one_of(st.binary(max_size=8), st.sampled_from([b"/host:CPU", b"/device:GPU:0", b"hlo_op", b"dot.3"])),
    lambda inner: st.lists(field(inner), max_size=4).map(b"".join), max_leaves=12,
)  # fmt: skip


@examples(200)
@given(st.lists(messages, max_size=3), st.lists(messages, max_size=3), messages)
def test_fields_of_any_kind(lines: list[bytes], events: list[bytes], proto: bytes) -> None:
    plane, host = Plane("/device:GPU:0"), Plane("/host:CPU")
    plane.program(3, "jit_f(3)", proto)
    sound = plane.event("k", 10**6, 10**6, correlation_id=1, hlo_op="&dot.3", program_id=3)
    plane.line(7, "Stream #7", 1, *events, sound, *events)
    host.lines += lines
    host.line(1, "python", 0, host.event("call", 0, 10**6, correlation_id=1), *events)
    check(plain.written(plane, host))


@examples(60)
@given(st.dictionaries(st.sampled_from(("correlation_id", "program_id", "step_num", "run_id", "device_ordinal")),
                       st.one_of(numbers, st.floats(), st.just("text"), st.binary(max_size=3)), max_size=5),
       numbers, numbers)  # fmt: skip
def test_numbers_of_any_size(stats: dict[str, Any], start: int, duration: int) -> None:
    host, device = Plane("/host:CPU"), Plane("/device:GPU:0")
    for plane in (host, device):
        plane.line(1, "python", 2**62 if start == 1 else 0, plane.event("e", start, duration, **stats))
    check(plain.written(host, device), reports=True)


def test_deep_nesting_ends() -> None:
    deep = b""
    for _ in range(3000):
        deep = block(4, deep)
    check(block(1, block(2, "/host:CPU") + block(3, deep)))
    parts = shape(F32, 4)
    for _ in range(300):
        parts = tuple_of(parts)
    one = instruction(1, "dot.3", "dot", parts, [1])
    device = Plane("/device:GPU:0")
    device.program(3, "p", program("p", 1, computation(1, "main", 1, one)))
    device.line(1, "s", 0, device.event("k", 0, 10**6, hlo_op="&dot.3", program_id=3))
    core = check(plain.written(device))
    assert core is not None
    assert len(core.gpu_rows) == 1


@pytest.mark.parametrize("dims", [(2**62, 2**62), (2**63 - 1,), (1,) * 3000])
def test_shapes_beyond_all_measure(dims: tuple[int, ...]) -> None:
    device, host, programs = (Plane(f"/{name}") for name in ("device:GPU:0", "host:CPU", "host:metadata"))
    main = computation(
        1, "main", 3, instruction(1, "a", "parameter", shape(F32, *dims)),
        instruction(3, "dot.3", "dot", shape(F32, *dims), [1, 1]),
    )  # fmt: skip
    programs.program(3, "p", program("p", 1, main))
    told = {"hlo_op": "&dot.3", "program_id": 3}
    device.line(1, "s", 0, device.event("k", 20, 10**6, correlation_id=1, **told))
    host.line(1, "python", 0, host.event("launch", 0, 10, correlation_id=1))
    core = check(plain.written(programs, device, host), reports=True)
    assert core is not None
    assert len(core.find("Op")) == 1
    said = "instructions about which their program says nothing sound, such as dot.3 of p(3) (1)"
    assert (said in core.info.damage) == (max(dims) > 1)
    assert len(core.argsets) == (max(dims) == 1)


def test_lengths_that_lie_lose_what_they_cover_and_say_so() -> None:
    host = Plane("/host:CPU")
    good = host.event("good", 0, 10**6)
    host.line(1, "python", 0, good)
    line = number(1, 2) + block(2, "other") + varint(4 << 3 | 2) + varint(2**40) + good
    host.lines.append(line)
    core = check(plain.written(host))
    assert core is not None
    assert len(core.columns) == 1
    assert core.info.lost_bytes > 0
    assert "bytes lost" in core.info.damage
