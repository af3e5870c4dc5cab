"""Broken JSON: what is whole comes back as it was, what is broken is mended or lost, and all of it is counted."""

from __future__ import annotations

import json
import time
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracelens_graph.loaders.kineto.repair import Repaired, repair_events, repair_object
from tracelens_graph.schema import REPAIR_MEANING, REPAIRS_OF_FILE

BEFORE = b'{"ph": "X", "name": "before", "pid": 1, "tid": 2, "args": {"stream": 7}}'
AFTER = b'{"ph": "X", "name": "after", "pid": 1, "tid": 2, "args": {"grid": [1, 2, 3]}}'


def values(repaired: Repaired) -> list[Any]:
    return [msgspec.json.decode(event) for event in repaired.events]


def mended(event: bytes) -> tuple[dict[str, Any], dict[str, int]]:
    """What becomes of a broken event between two sound ones."""
    repaired = repair_events(b",\n  ".join((BEFORE, event, AFTER)), last=False)
    assert repaired.events[0] == BEFORE
    assert repaired.events[-1] == AFTER
    assert repaired.positions == [0, 1, 2]
    assert (repaired.pieces, repaired.lost_events, repaired.lost_bytes) == (3, 0, 0)
    return values(repaired)[1], repaired.counts


# Names as real profilers wrote them.
NAMES = {
    '{"device": "cpu", "dtype": "float32"}(12): run': {"quote"},
    'lib = torch.library.Library("_inductor_test", "IMPL")\n(1): <module>': {"quote", "control"},
    'f("a", "b"': {"quote"},
    '"': {"quote"},
    'x"': {"quote"},
    '"quoted"': {"quote"},
    '{"a": {"b": "c"}}, [1, "d"]': {"quote"},
    "two\nlines": {"control"},
    "|||S\x01\t\x00\x1f": {"control"},
    "a, b: {c}": set(),
}


@pytest.mark.parametrize(("name", "faults"), NAMES.items(), ids=range(len(NAMES)))
@pytest.mark.parametrize(
    "layout",
    [
        '{"ph": "X", "cat": "python_function", "name": "%s", "pid": 3,\n    "args": {\n      "Ev Idx": 5\n  }}',
        '{"ph":"X","cat":"python_function","pid":3,"tid":4,"args":{"Ev Idx":5},"name":"%s"}',
        '{\n        "name": "%s",\n        "ph": "X",\n        "args": {\n            "Ev Idx": 5\n        }\n    }',
    ],
    ids=["kineto", "name-last", "name-first"],
)
def test_unescaped_name(name: str, faults: set[str], layout: str) -> None:
    event, counts = mended((layout % name).encode())
    assert event["name"] == name
    assert event["args"] == {"Ev Idx": 5}
    assert counts == dict.fromkeys(faults, 1)


ARGUMENTS = {
    b'"bandwidth": inf': (None, "non_finite"),
    b'"bandwidth": -inf': (None, "non_finite"),
    b'"bandwidth":nan': (None, "non_finite"),
    b'"bandwidth": -nan': (None, "non_finite"),
    b'"bandwidth": -nan(ind)': (None, "non_finite"),
    b'"bandwidth": 1.#INF': (None, "non_finite"),
    b'"bandwidth": Infinity': (None, "non_finite"),
    b'"bandwidth": -Infinity': (None, "non_finite"),
    b'"bandwidth": NaN': (None, "non_finite"),
    b'"bandwidth": INF': (None, "non_finite"),
    b'"bandwidth": 1e999': (None, "non_finite"),
    b'"bandwidth": [1.5, inf, "inf"]': ([1.5, None, "inf"], "non_finite"),
    b'"bandwidth": ': (None, "missing_value"),
    b'"bandwidth": True': (None, "bad_value"),
    b'"bandwidth": 007': (None, "bad_value"),
    b'"bandwidth": ' + b"1" * 5000: (None, "bad_value"),
    b'"bandwidth": [1, 2,]': ([1, 2], "trailing_comma"),
    b'"bandwidth": [1,, 2]': ([1, 2], "trailing_comma"),
    b'"bandwidth": {"a": 1, }': ({"a": 1}, "trailing_comma"),
    b'"bandwidth": 3,': (3, "trailing_comma"),
    b'"bandwidth": 3 "x": 4': (3, "missing_comma"),
    b'"bandwidth": "caf\xe9"': ("caf\ufffd", "bad_utf8"),
    b'"bandwidth": "\xed\xa0\x80"': ("\ufffd" * 3, "bad_utf8"),
    rb'"bandwidth": "\ud800 \ud83d\ude00 \udc00"': ("\ufffd \U0001f600 \ufffd", "bad_utf8"),
    rb'"bandwidth": "C:\users\x\u00e9"': ("C:\\users\\x\u00e9", "backslash"),
    rb'"bandwidth": "C:\new\x"': ("C:\new\\x", "backslash"),
    rb'"bandwidth": "torch\cuda\__init__.py"': ("torch\\cuda\\__init__.py", "backslash"),
    rb'"bandwidth": "C:\temp\"': ("C:\temp\\", "backslash"),
    rb'"bandwidth": ["C:\x\", "D:\y\"]': (["C:\\x\\", "D:\\y\\"], "backslash"),
    rb'"bandwidth": ["a"b", "c"]': (['a"b', "c"], "quote"),
    b'"bandwidth": "{"device": "cpu", "dtype": "x"}"': ('{"device": "cpu", "dtype": "x"}', "quote"),
    b'"bandwidth": "[{"a": 1}, {"b": 2}]"': ('[{"a": 1}, {"b": 2}]', "quote"),
    b'"bandwidth": "tab\there"': ("tab\there", "control"),
}


@pytest.mark.parametrize("style", ["last", "before more"])
@pytest.mark.parametrize("argument", ARGUMENTS, ids=lambda argument: ascii(argument[:40]))
def test_broken_argument(argument: bytes, style: str) -> None:
    value, fault = ARGUMENTS[argument]
    more = b', "stream": 7' if style == "before more" else b""
    if argument.endswith(b",") and more:
        more = more[1:]
        fault = ""  # the comma is where it belongs
    event, counts = mended(b'{"ph": "X", "args": {"correlation": 12, %s%s}, "ts": 1.5}' % (argument, more))
    assert event["args"]["bandwidth"] == value
    assert event["args"]["correlation"] == 12
    assert event["ts"] == 1.5
    assert ("stream" in event["args"]) == bool(more)
    assert set(event["args"]) <= {"correlation", "bandwidth", "stream", "x"}
    assert counts == ({fault: 1} if fault else {})


def test_all_faults_in_one_event() -> None:
    event, counts = mended(
        b'{"ph": "X", "name": "load("C:\\x", \xff)\n", "dur": , "args": {"bw": -inf, "list": [1,, 2], , "r": True, }}'
    )
    assert event == {
        "ph": "X",
        "name": 'load("C:\\x", \ufffd)\n',
        "dur": None,
        "args": {"bw": None, "list": [1, 2], "r": None},
    }
    assert counts == dict.fromkeys(
        ("quote", "backslash", "bad_utf8", "control", "missing_value", "non_finite", "trailing_comma", "bad_value"), 1
    )


def test_every_kind_of_repair_has_words() -> None:
    kinds = {fault for faults in NAMES.values() for fault in faults} | {fault for _, fault in ARGUMENTS.values()}
    of_execution_traces = {"id_twice", "odd_id", "no_parent", "bad_arguments"}
    known = kinds | {"damage", "metadata", "negative_duration"} | of_execution_traces | REPAIRS_OF_FILE
    assert known == set(REPAIR_MEANING)


@pytest.mark.parametrize(
    ("between", "lost", "counts"),
    [
        (b"", 0, {"missing_comma": 1}),
        (b",,", 0, {"trailing_comma": 1}),
        (b",\nWARNING: something {odd} happened\n", 0, {"damage": 1}),
        (b',\n[W 12:00 x.cpp:3] said "so"\n,', 0, {"damage": 1}),
        (b",\n" + b"\0" * 512, 0, {"damage": 1}),
        (b', ], {"a": [', 0, {"damage": 1}),
        (b", null,", 1, {}),
        (b', "text", [1, 2], 3.5,', 3, {}),
        (b', {"ph": "X", "name": "cut sho', 1, {}),
        (b', {"ph": "X", "args": {"a": 1},', 1, {}),
        (b', {"ph": "X", "args": {"a": [{"name": "b"}, ', 1, {}),
        (b', {"ph": "X", "list": [1, ', 1, {}),
        (b', {"ph": "X", "name": "no end}, ', 1, {}),
        (b', "ph": "X", "name": "no begin"},', 1, {}),
        (b', {"ph" "X"},', 1, {}),
        (b', {"ph": "X", "args": {"name": "a"}]},', 1, {}),
    ],
)
def test_text_between_events(between: bytes, lost: int, counts: dict[str, int]) -> None:
    repaired = repair_events(BEFORE + between + AFTER, last=False)
    assert repaired.events == [BEFORE, AFTER]
    assert repaired.positions == [0, 1 + lost]
    assert (repaired.pieces, repaired.lost_events) == (2 + lost, lost)
    assert repaired.counts == counts
    assert bool(repaired.lost_bytes) == bool(lost or "damage" in counts)
    assert 0 <= repaired.lost_bytes <= len(between)


@pytest.mark.parametrize(
    ("end", "tail", "counts"),
    [
        (b"]}", b"}", {}),
        (b'\n  ],\n  "traceName": "x"\n}\n', b',\n  "traceName": "x"\n}\n', {}),
        (b", ]", b"", {"trailing_comma": 1}),
        (
            b'],"distributedInfo":{"pg_config":[{"a":1},{"b":2}]}}',
            b',"distributedInfo":{"pg_config":[{"a":1},{"b":2}]}}',
            {},
        ),
        (b'], "trac', b', "trac', {}),
        (b"", None, {"truncated": 1}),
        (b",\n", None, {"truncated": 1}),
    ],
)
def test_end_of_the_list(end: bytes, tail: bytes | None, counts: dict[str, int]) -> None:
    repaired = repair_events(BEFORE + b", " + AFTER + end, last=True)
    assert repaired.events == [BEFORE, AFTER]
    assert repaired.tail == tail
    assert repaired.counts == counts
    assert repaired.lost_events == 0


@pytest.mark.parametrize("broken", [b', {"ph": "X", "name": "cut', b', {"ph": "X", "args": {"a": [{"b": 1}], "c": ]}}'])
def test_the_list_ends_behind_a_lost_event(broken: bytes) -> None:
    repaired = repair_events(BEFORE + broken + b' } ],\n "traceName": "x"}', last=True)
    assert repaired.events == [BEFORE]
    assert repaired.tail == b',\n "traceName": "x"}'
    assert repaired.lost_events == 1
    assert repaired.counts == {}


def test_a_stray_bracket_does_not_end_the_list() -> None:
    repaired = repair_events(BEFORE + b"]}, " + AFTER + b"]}", last=True)
    assert repaired.events == [BEFORE, AFTER]
    assert repaired.counts == {"damage": 1}
    assert repaired.tail == b"}"


def test_what_looks_like_the_end_and_is_not_is_passed_by() -> None:
    repaired = repair_events(b'x], "traceName": [{"a": 1, "ph": 1}', last=True)
    assert repaired.events == []
    assert repaired.counts == {"truncated": 1}


def test_every_cut_keeps_the_whole_events() -> None:
    text = BEFORE + b",\n" + AFTER + b"\n]}"
    ends = (len(BEFORE), len(BEFORE) + 2 + len(AFTER))
    for cut in range(len(text)):
        repaired = repair_events(text[:cut], last=True)
        assert repaired.events == [event for event, end in zip((BEFORE, AFTER), ends, strict=True) if end <= cut]
        closed = cut >= text.rindex(b"]}") + 1
        assert repaired.counts == ({} if closed else {"truncated": 1})
        whole = max((end for end in ends if end <= cut), default=0)
        assert repaired.lost_bytes == (0 if whole == ends[1] else len(text[whole:cut].lstrip(b",\n").rstrip(b", ")))
        assert repaired.lost_events == bool(repaired.lost_bytes)


# ---- any events, any place ----

SCALARS = (
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False, allow_infinity=False)
)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12) | st.sampled_from(
    [
        '{"device": "cpu", "dtype": "f"}(1): f',
        'Library("a", "b")',
        "C:\\new\\x",
        "void f<{lambda()#1}>(int [2])",
        "}, {",
    ]
)
KEYS = st.sampled_from(["name", "a", "External id", "grid", "dtype"]) | st.text("xyz", min_size=1, max_size=3)
ARGS = st.dictionaries(
    KEYS,
    st.recursive(
        SCALARS | TEXTS,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
        max_leaves=6,
    )
    | st.lists(st.dictionaries(KEYS, SCALARS | TEXTS, min_size=1, max_size=2), min_size=2, max_size=4),
    max_size=4,
)
PLACE = {"pid": 7, "tid": 7}
"""What every event names, so that one is known where something else than an event stands behind it."""
EVENTS = st.builds(
    lambda first, ph, name, ts, args: (
        {first: {"ph": ph, "name": name}[first]}
        | {"ph": ph, "cat": "cpu_op", "name": name, **PLACE, "ts": ts, "args": args}
    ),
    st.sampled_from(["ph", "name"]),
    st.sampled_from("XiMsf"),
    TEXTS,
    st.floats(0, 1e9),
    ARGS,
)


def kineto(event: dict[str, Any]) -> str:
    """An event in the layout of PyTorch's profiler."""
    members = {key: json.dumps(value) for key, value in event.items() if key != "args"}
    args = ", ".join(f"{json.dumps(key)}: {json.dumps(value)}" for key, value in event["args"].items())
    shown = ", ".join(f'"{key}": {value}' for key, value in members.items())
    return f'{{\n    {shown},\n    "args": {{\n      {args}\n    }}\n  }}'


STYLES = {
    "compact": (lambda event: json.dumps(event, separators=(",", ":"), ensure_ascii=False), ","),
    "kineto": (kineto, ",\n  "),
    "indented": (lambda event: json.dumps(event, indent=4).replace("\n", "\n    "), ",\n        "),
}


@st.composite
def traces(draw: st.DrawFn) -> tuple[list[bytes], bytes]:
    """Texts of events, and the text between them."""
    events = draw(st.lists(EVENTS, min_size=1, max_size=6))
    dump, separator = STYLES[draw(st.sampled_from(sorted(STYLES)))]
    return [dump(event).encode() for event in events], separator.encode()


def check_counts(repaired: Repaired) -> None:
    assert len(repaired.events) + repaired.lost_events == repaired.pieces
    assert len(repaired.positions) == len(repaired.events)
    assert repaired.positions == sorted(set(repaired.positions))
    assert all(0 <= position < repaired.pieces for position in repaired.positions)
    assert set(repaired.counts) <= set(REPAIR_MEANING)
    assert all(isinstance(value, dict) for value in values(repaired))


@given(traces(), st.booleans())
def test_sound_text_is_untouched(trace: tuple[list[bytes], bytes], last: bool) -> None:
    events, separator = trace
    repaired = repair_events(separator.join(events) + (b"]}" if last else b""), last=last)
    assert repaired.events == events
    assert repaired.positions == list(range(len(events)))
    assert (repaired.pieces, repaired.counts, repaired.lost_events, repaired.lost_bytes) == (len(events), {}, 0, 0)
    assert repaired.tail == (b"}" if last else None)


MARK = "@fault@"
FAULTS = {
    "non_finite": (f'"{MARK}"', "-inf", None),
    "missing_value": (f'"{MARK}"', "", None),
    "bad_value": (f'"{MARK}"', "0x1f", None),
    "quote": (MARK, 'a"b', 'a"b'),
    "backslash": (MARK, "\\x\\", None),
    "control": (MARK, "a\nb\0", "a\nb\0"),
    "bad_utf8": (MARK, "\udcff", "\ufffd"),
    "trailing_comma": (f'"{MARK}"', '"x",', "x"),
}


@given(traces(), st.data(), st.sampled_from(sorted(FAULTS)), st.booleans())
def test_one_fault_is_mended(trace: tuple[list[bytes], bytes], data: st.DataObject, fault: str, last: bool) -> None:
    events, separator = trace
    index = data.draw(st.integers(0, len(events) - 1))
    event = msgspec.json.decode(events[index])
    event["args"] = {**event["args"], "broken": MARK}
    dump, _ = next(style for style in STYLES.values() if style[1].encode() == separator)
    found, replacement, value = FAULTS[fault]
    texts = list(events)
    texts[index] = dump(event).replace(found, replacement).encode(errors="surrogateescape")
    event["args"]["broken"] = "\\x\\" if fault == "backslash" else value

    repaired = repair_events(separator.join(texts) + (b"]}" if last else b""), last=last)

    check_counts(repaired)
    assert values(repaired) == [msgspec.json.decode(text) for text in events[:index]] + [event] + [
        msgspec.json.decode(text) for text in events[index + 1 :]
    ]
    assert repaired.events[:index] == events[:index]
    assert repaired.events[index + 1 :] == events[index + 1 :]
    assert repaired.counts == {fault: 1}


@given(traces(), st.data())
def test_damage_stays_where_it_is(trace: tuple[list[bytes], bytes], data: st.DataObject) -> None:
    """A stretch of bytes is cut out, overwritten or pushed in: all events outside it come back, and no others."""
    events, separator = trace
    text = separator.join(events)
    begin = data.draw(st.integers(0, len(text)))
    end = min(len(text), begin + data.draw(st.integers(0, 40)))
    junk = data.draw(st.binary(max_size=8) | st.text('{}[]",:\\ 1a\n', max_size=8).map(str.encode))
    broken = text[:begin] + junk + text[end:]
    whole, at = [], 0
    for event in events:
        if at + len(event) <= begin or at >= end:
            whole.append(event)
        at += len(event) + len(separator)

    repaired = repair_events(broken, last=False)

    check_counts(repaired)
    remaining = list(repaired.events)
    for event in whole:
        assert event in remaining
        remaining.remove(event)
    assert sum(b'"ph"' in event for event in remaining) <= len(events) - len(whole)
    if begin < end or junk.strip(b" \n,"):
        # What a closing bracket cuts off is no event any more, but the end of the document, and is judged as such.
        told = repaired.counts or repaired.lost_bytes or repaired.tail
        assert repaired.events == events or told or len(remaining)


@given(traces(), st.data())
def test_a_cut_loses_only_what_it_cuts(trace: tuple[list[bytes], bytes], data: st.DataObject) -> None:
    events, separator = trace
    text = separator.join(events)
    cut = data.draw(st.integers(0, len(text) - 1))
    repaired = repair_events(text[:cut], last=True)
    check_counts(repaired)
    whole, at = [], 0
    for event in events:
        whole += [event] if at + len(event) <= cut else []
        at += len(event) + len(separator)
    assert repaired.events == whole
    assert repaired.counts == {"truncated": 1}


@given(st.binary(max_size=200) | st.text('{}[]",:\\ph1nae\n', max_size=200).map(str.encode), st.booleans())
def test_no_input_raises(text: bytes, last: bool) -> None:
    check_counts(repair_events(text, last=last))
    found = repair_object(text)
    assert found is None or isinstance(found[0], dict)


@pytest.mark.parametrize(
    "pattern",
    [
        b"[", b'{"a":', b'{"ph":', b'"', b"\\", b"\0", b" ", b",", b'}, {"ph": "X',
        b'{"ph": [{"b": 1}, ', b'{"name": [{"name": 1}, ', b'{"ph": "X", "x": "(x"y", "b": ', b'{"args": {"x": [1, ',
    ],
)  # fmt: skip
def test_time_grows_with_the_text(pattern: bytes) -> None:
    def seconds(size: int) -> float:
        begin = time.process_time()
        text = pattern * (size // len(pattern))
        assert repair_events(text, last=True).events == []
        repair_object(text)
        return time.process_time() - begin

    # Seconds of the processor, not of a clock. Quadratic work would take 64 times as long, and minutes.
    assert seconds(1 << 19) < 0.5 + 24 * seconds(1 << 16)


# ---- metadata ----


@pytest.mark.parametrize(
    ("text", "keys", "counts"),
    [
        (b'{"a": 1, "b": [2]}', {"a": 1, "b": [2]}, {}),
        (b" {}", {}, {}),
        (
            b'{"schemaVersion": 1, "INFO": ["event "event_id": 64, "stream": 7", "more"], "traceName": "x"}',
            {"schemaVersion": 1, "INFO": ['event "event_id": 64, "stream": 7', "more"], "traceName": "x"},
            {"quote": 1},
        ),
        (
            b'{"schemaVersion": 1, "INFO": ["a", {"b" 64}, "said" ], "traceName": "x"}',
            {"schemaVersion": 1, "traceName": "x"},
            {"metadata": 1},
        ),
        (
            b'{"a": 1,, "b": inf, "c": "\xff", }',
            {"a": 1, "b": None, "c": "\ufffd"},
            {"trailing_comma": 2, "non_finite": 1, "bad_utf8": 1},
        ),
        (b'{"a": 1, "b": 12 34, "c": 3}', {"a": 1, "c": 3}, {"metadata": 1}),
        (b'{"a": 1, "b": {"c": [1, 2', {"a": 1}, {"metadata": 1, "truncated": 1}),
        (b'{"a": 1', {"a": 1}, {"truncated": 1}),
        (b'{"a": 1, "b', {"a": 1}, {"metadata": 1}),
    ],
)
def test_metadata(text: bytes, keys: dict[str, Any], counts: dict[str, int]) -> None:
    assert repair_object(text) == (keys, counts)


@pytest.mark.parametrize("text", [b"", b"[]", b"null", b"log line", b'"a": 1}'])
def test_no_metadata(text: bytes) -> None:
    assert repair_object(text) is None
