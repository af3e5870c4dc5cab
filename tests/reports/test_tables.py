"""Tables as text, CSV, JSON and Markdown."""

from __future__ import annotations

import csv
import io
import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracelens_graph.reports.csv import write_csv
from tracelens_graph.reports.document import table_json
from tracelens_graph.reports.markdown import table_markdown
from tracelens_graph.tables.table import Column, Role, Table
from tracelens_graph.utils.texts import printable, width_of


def table() -> Table:
    return Table(
        "demo",
        {
            "name": ["short", "a much longer name than that"],
            "time us": np.array([1234.5678, math.nan]),
            "percent": np.array([12.345, 0.1 + 0.2]),
            "count": np.array([1234567, 0]),
            "uid": np.array([1234567, 8]),
            "dims": [[[1, 2], []], None],
        },
        {"time us": Column("time", "us"), "percent": Column("share", "%"), "uid": Column("node", role=Role.uid)},
        "A demonstration",
        ["one note"],
    )


def test_text() -> None:
    assert table().text().splitlines() == [
        "A demonstration",
        "name                            time us  percent      count      uid  dims",
        "----------------------------  ---------  -------  ---------  -------  -----",
        "short                         1,234.568    12.35  1,234,567  1234567  [1,2]",
        "a much longer name than that                0.30          0        8",
        "one note",
    ]


def wide() -> Table:
    columns = {
        "name": ["void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>>(int)", "aten::mm"],
        "shapes": ["[1024,1024,1024,1024] [1024,1024,1024,1024]", "[8,8]"],
        "calls": np.array([1234567, 1]),
        "time us": np.array([1234.5678, 2]),
        "share of everything": np.array([1234.5678, 2]),
        "min us": np.array([1.5, 2]),
        "uid": [123456, 7],
        "ext id": [123456, 7],
    }
    about = {
        "name": Column("", role=Role.key), "shapes": Column("", role=Role.key), "calls": Column("", role=Role.count),
        "time us": Column("", "us", Role.sum), "share of everything": Column("", "%", Role.share),
        "min us": Column("", "us", Role.min), "uid": Column("", role=Role.uid),
        "ext id": Column("", role=Role.uid, drop_priority=6),
    }  # fmt: skip
    return Table("wide", columns, about, "Wide", [" ".join(["a note of many words"] * 10)])


@pytest.mark.parametrize("width", range(16, 200, 3))
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    lines = wide().text(width=width).splitlines()
    assert max(map(width_of, lines)) <= width
    if width > 60:
        assert any("1,234,567" in line and "1,234.568" in line for line in lines)


def test_ids_leave_first_then_minima_then_names_are_cut() -> None:
    def left_out(width: int) -> str:
        text = " ".join(wide().text(width=width).split())
        return text.partition("no space for: ")[2]

    assert [left_out(width) for width in (135, 125, 120)] == ["", "ext id", "ext id, uid"]
    assert "elementwise_kernel " in wide().text(width=110)
    assert "vect...ise_kernel " in wide().text(width=70)
    assert {left_out(width) for width in (110, 90, 70)} == {"ext id, uid, min us"}


def test_nodes_and_paths_begin_with_what_they_are_and_are_not_cut() -> None:
    kernel = {"labels": ["Kernel", "Event"], "dur_ns": 700, "uid": 5056, "name": "gemm<1>", "short_name": "gemm"}
    op = {"labels": ["Op", "Event"], "uid": 12, "name": "aten::mm", "short_name": "aten::mm", "flops": None}
    told = Table("t", {"k": [kernel, op]}).text()
    assert told.splitlines()[2:] == ["Kernel 5056 gemm, dur_ns: 700, name: gemm<1>", "Op 12 aten::mm"]
    assert Table("t", {"p": [[kernel, op]], "e": [{"type": "CALLS"}]}).text().splitlines()[2:] == [
        "Kernel 5056 gemm, Op 12 aten::mm  CALLS"
    ]
    assert Table("t", {"map": [{"a": 1, "b": [2]}]}).text().splitlines()[2:] == ["a: 1, b: [2]"]
    assert "".join(Table("t", {"k": [kernel]}).text(width=20).split()[2:]) == "Kernel5056gemm,dur_ns:700,name:gemm<1>"


def test_wide_characters_count_twice_and_combining_ones_not_at_all() -> None:
    columns = {"name": ["核" * 40, "e\u0301" * 40, "plain"], "n": [1, 2, 3]}
    for width in (30, 60, 100):
        lines = Table("t", columns, title="核 " * 40, notes=["核" * 70]).text(width=width).splitlines()
        assert max(map(width_of, lines)) <= width
        rows = [line for line in lines if line[-1:] in "123"]
        assert len({width_of(line) for line in rows}) == 1


def test_uids_have_no_commas_where_nothing_but_their_name_is_known() -> None:
    text = Table("t", {"uid": [1234567], "next_uid": [1234567], "n": [1234567]}).text()
    assert text.splitlines()[-1].split() == ["1234567", "1234567", "1,234,567"]


def test_empty_tables() -> None:
    empty = Table("demo", {"name": [], "time us": np.zeros(0)}, title="Nothing here")
    assert empty.text() == "Nothing here\n(nothing)\n"
    assert table_markdown(empty).splitlines()[2:] == ["| name | time us |", "| ---: | ---: |"]
    assert json.loads(table_json(empty))["rows"] == []


def test_color_only_where_asked_for() -> None:
    assert "\x1b[1m" in table().text(color=True)
    assert "\x1b" not in table().text()


def test_csv_keeps_every_digit() -> None:
    file = io.StringIO()
    write_csv(table(), file)
    rows = list(csv.DictReader(io.StringIO(file.getvalue())))
    assert rows[0] == {
        "name": "short", "time us": "1234.5678", "percent": "12.345", "count": "1234567", "uid": "1234567",
        "dims": "[[1, 2], []]",
    }  # fmt: skip
    assert rows[1]["percent"] == repr(0.1 + 0.2)
    assert (rows[1]["time us"], rows[1]["dims"]) == ("", "")


@given(st.lists(st.tuples(st.text(), st.floats(allow_nan=False), st.integers(), st.lists(st.integers())), min_size=1))
def test_csv_read_back_is_the_table(rows: list[tuple[str, float, int, list[int]]]) -> None:
    names, floats, integers, lists = map(list, zip(*rows, strict=True))
    file = io.StringIO(newline="")
    write_csv(Table("t", {"name": names, "float": np.array(floats), "int": integers, "list": lists}), file)
    back = list(csv.reader(io.StringIO(file.getvalue(), newline="")))
    assert back[0] == ["name", "float", "int", "list"]
    assert [(n, float(f), int(i), json.loads(x)) for n, f, i, x in back[1:]] == rows


def test_json_has_units_and_no_nan() -> None:
    parsed = json.loads(table_json(table()), parse_constant=pytest.fail)
    assert parsed["units"] == {"time us": "us", "percent": "%"}
    assert parsed["rows"][0]["dims"] == [[1, 2], []]
    assert parsed["rows"][1]["time us"] is None
    assert parsed["notes"] == ["one note"]


def test_markdown_escapes_what_would_be_markup() -> None:
    lines = table_markdown(Table("t", {"name": ["a|b<c>`*", "x\ny"], "n": [1, 2]})).splitlines()
    assert lines == [
        "| name | n |",
        "| --- | ---: |",
        r"| a\|b\<c\>\`\* | 1 |",
        r"| x\\ny | 2 |",
    ]


@given(st.text())
def test_printable_text_is_safe_on_a_terminal(text: str) -> None:
    safe = printable(text)
    assert safe.isprintable()
    assert safe == text or not text.isprintable()


def test_printable_shows_what_it_replaced() -> None:
    assert printable("a\x1b[2J\u202eb\x9b\n") == "a\\x1b[2J\\u202eb\\x9b\\n"
    assert printable("naïve 核") == "naïve 核"
