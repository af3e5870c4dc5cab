"""Folded stacks: the lines of a small trace, what names cannot break, and that real ones add up to the GPU time."""

from __future__ import annotations

import io
import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from handmade import small_trace, span

from corpus import chosen_traces, loaded, parametrize
from tracelens_graph.analyses.places.host_times import calls_among
from tracelens_graph.errors import AnalysisError
from tracelens_graph.graph.arrays import is_kind
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.user_code import shown_frames
from tracelens_graph.loading.one import load_core
from tracelens_graph.reports import folded as module
from tracelens_graph.reports.folded import folded, speedscope, write_folded, write_speedscope
from tracelens_graph.reports.html.stacks import ALL_VIEWS, HOST, VIEWS
from tracelens_graph.schema import Kind

LINE = re.compile(r"(?P<stack>[^\n]+) (?P<value>\d+)")
"""A line as flamegraph.pl and speedscope read it."""


def test_lines_of_a_small_trace() -> None:
    file = io.BytesIO()
    assert write_folded(load_core(small_trace()).everything, file) == 3
    assert file.getvalue().decode().splitlines() == [
        "(no launch in trace);evil\\x1b[31m|`<b>\\n=1+1 30000",
        "forward;Linear_0;aten::addmm;Memcpy DtoH 20000",
        "forward;Linear_0;aten::addmm;gemm 50250",
    ]


def test_names_break_no_line() -> None:
    names = ["a;b", "c\nd 7", "\ud800", " ", "0" * 1000 + "x", "0" * 1000 + "y", "é\u2028"]
    events = [
        span("kernel", name, 100.0 * at, 10 + at, 0, 7, device=0, stream=7, correlation=at)
        for at, name in enumerate(names, 1)
    ]
    file = io.BytesIO()
    write_folded(load_core(events).everything, file)
    lines = file.getvalue().decode().splitlines()
    assert all(LINE.fullmatch(line) for line in lines)
    assert sum(int(line.rsplit(" ", 1)[1]) for line in lines) == sum(1000 * (10 + at) for at in range(1, 8))
    assert {line.count(";") for line in lines} == {1}
    assert "(no launch in trace);a:b 11000" in lines
    assert len(lines) == 6  # two names that are alike as far as they are written


def test_the_middle_of_a_deep_stack_gives_way(monkeypatch: pytest.MonkeyPatch) -> None:
    events = [span("python_function", f"nn.Module: M_{at}", 10 + at, 1000 - 2 * at) for at in range(20)]
    events += [
        span("cuda_runtime", "cudaLaunchKernel", 100, 5, correlation=1),
        span("kernel", "k", 200, 3, 0, 7, correlation=1, device=0, stream=7),
    ]
    monkeypatch.setattr(module, "DEEPEST", 6)
    (stack,) = folded(load_core(events).everything)
    assert stack == "forward;M_0;M_1;... (18 frames);(no op);k"


def test_without_gpu_events_there_are_no_stacks() -> None:
    assert folded(load_core([span("cpu_op", "aten::mm", 1, 2)]).everything) == {"aten::mm": 2_000}  # of host time
    with pytest.raises(AnalysisError, match="there are no GPU events and no calls"):
        folded(load_core([span("user_annotation", "a", 1, 2)]).everything)


def whole_ns(core: Core, is_host: bool) -> int:
    """All GPU time, or host time of what is drawn."""
    c = core.columns
    if not is_host:
        return int(c.dur_ns[core.gpu_rows].sum())
    drawn = is_kind(c.kind, (Kind.Module, Kind.Op, Kind.RuntimeCall)) | shown_frames(core.everything)
    return int(calls_among(core, drawn).own().sum())


@parametrize("path", chosen_traces())
def test_lines_add_up_to_the_gpu_time(path: Path) -> None:
    core = loaded(path)
    file = io.BytesIO()
    write_folded(core.everything, file)
    values = [LINE.fullmatch(line) for line in file.getvalue().decode().split("\n")[:-1]]
    assert sum(int(found["value"]) for found in values if found) == whole_ns(core, not len(core.gpu_rows))
    assert len({found["stack"] for found in values if found}) == len(values)


SCHEMA = json.loads((Path(__file__).parent / "speedscope-1.25.0" / "file-format-schema.json").read_text())

TYPES = {"object": dict, "array": list, "string": str, "number": (int, float)}


def breaches(value: Any, rule: dict[str, Any], place: str = "") -> list[str]:
    """Where a value is not as a JSON schema asks, as far as the one of speedscope goes."""
    assert set(rule) <= {
        "$schema", "$ref", "definitions", "title", "type", "const", "enum", "anyOf", "items", "properties", "required",
    }  # fmt: skip
    found = []
    if "$ref" in rule:
        found += breaches(value, SCHEMA["definitions"][rule["$ref"].rsplit("/", 1)[1]], place)
    if "type" in rule and (not isinstance(value, TYPES[rule["type"]]) or isinstance(value, bool)):
        return [f"{place}: no {rule['type']}"]
    if value not in rule.get("enum", [value]) or value != rule.get("const", value):
        found.append(f"{place}: {value!r}")
    if "anyOf" in rule and all(breaches(value, one, place) for one in rule["anyOf"]):
        found.append(f"{place}: none of those that it may be")
    if isinstance(value, dict):
        found += [f"{place}: no {name}" for name in rule.get("required", []) if name not in value]
        known = rule.get("properties", {})
        found += [
            text for name in value.keys() & known for text in breaches(value[name], known[name], f"{place}.{name}")
        ]
    if isinstance(value, list) and "items" in rule:
        found += [text for at, one in enumerate(value) for text in breaches(one, rule["items"], f"{place}[{at}]")]
    return found


def told(file: dict[str, Any], profile: dict[str, Any]) -> dict[str, int]:
    """Stack -> its own time, found as the importer does: the frame that was opened last closes first."""
    frames = [one["name"] for one in file["shared"]["frames"]]
    stack: list[int] = []
    at, own = 0, Counter[str]()
    for event in profile["events"]:
        assert event["at"] >= at, "moments never go back"
        own[";".join(frames[one].replace(";", ":") for one in stack)] += event["at"] - at
        at = event["at"]
        if event["type"] == "O":
            stack.append(event["frame"])
        else:
            assert stack.pop() == event["frame"]
    assert not stack
    assert at == profile["endValue"]
    return {text: ns for text, ns in own.items() if ns}


def test_the_check_finds_what_is_wrong() -> None:
    right = speedscope(load_core(small_trace()).everything, "t")
    assert breaches(right, SCHEMA) == []
    for wrong in (
        {**right, "$schema": "other"},
        {**right, "profiles": [{**right["profiles"][0], "unit": "ns"}]},
        {**right, "profiles": [{**right["profiles"][0], "events": [{"type": "O", "frame": "0", "at": 1}]}]},
        {**right, "shared": {"frames": [{"file": "x"}]}},
        {name: value for name, value in right.items() if name != "shared"},
    ):
        assert breaches(wrong, SCHEMA)


def test_profiles_of_a_small_trace() -> None:
    file = io.BytesIO()
    frames = write_speedscope(load_core(small_trace()).everything, "title\x1b", file)
    found = json.loads(file.getvalue())
    assert file.getvalue().startswith(b'{"exporter":"tracelens_graph ')
    assert breaches(found, SCHEMA) == []
    assert found["name"] == "title\\x1b"
    assert [one["name"] for one in found["profiles"]] == [
        *(f"GPU time by {text}" for text in VIEWS.values()), ALL_VIEWS[HOST],
    ]  # fmt: skip
    assert frames == sum(len(one["events"]) for one in found["profiles"]) // 2
    assert {"name": "train.py(3): step", "file": "train.py", "line": 3} in found["shared"]["frames"]
    modules, ops = found["profiles"][:2]
    evil = "evil\\x1b[31m|`<b>\\n=1+1"
    assert told(found, modules) == folded(load_core(small_trace()).everything)
    assert told(found, ops) == {
        f"(no launch in trace);{evil}": 30_000,
        "aten::linear;aten::addmm;gemm": 50_250,
        "aten::linear;aten::addmm;Memcpy DtoH": 20_000,
    }
    names = [one["name"] for one in found["shared"]["frames"]]
    opened = [names[event["frame"]] for event in ops["events"] if event["type"] == "O"]
    assert opened[:2] == ["(no launch in trace)", evil]  # what began first comes first


def test_without_gpu_events_there_are_no_profiles() -> None:
    with pytest.raises(AnalysisError, match="there are no GPU events and no calls"):
        speedscope(load_core([]).everything, "t")


@parametrize("path", chosen_traces())
def test_profiles_of_real_traces_add_up_to_the_gpu_time(path: Path) -> None:
    core = loaded(path)
    found = json.loads(json.dumps(speedscope(core.everything, "t")))
    assert breaches(found, SCHEMA) == []
    for profile in found["profiles"]:
        assert sum(told(found, profile).values()) == whole_ns(core, profile["name"] == ALL_VIEWS[HOST])
    assert told(found, found["profiles"][0]) == {text: ns for text, ns in folded(core.everything).items() if ns}
