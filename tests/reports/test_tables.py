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
from tracelens_graph.reports.json import table_json
from tracelens_graph.reports.markdown import table_markdown
from tracelens_graph.table import Column, Role, Table
from tracelens_graph.texts import printable


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


def test_text_is_cut_to_the_terminal_where_columns_can_give() -> None:
    long = table().take(np.array([0, 1, 1]))
    long.columns["name"][1] = "a name that is longer than what a column of text keeps at any rate"
    assert max(map(len, long.text(width=100).splitlines())) == 100
    assert "a name that is longer than wh..." in long.text(width=20)
    # Numbers are never cut.
    assert "1,234.568" in table().text(width=20)


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
