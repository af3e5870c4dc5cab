"""Tables as an Excel workbook, read back with another library."""

from __future__ import annotations

import datetime
import io
import math
import sys
import tempfile
import zipfile
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import openpyxl
import pytest
from growth import assert_growth
from hypothesis import given
from hypothesis import strategies as st
from profiles import examples

from tracelens_graph.errors import MissingExtraError, OutputError
from tracelens_graph.reports import xlsx
from tracelens_graph.reports.xlsx import MAX_CELL, workbook
from tracelens_graph.tables.table import Column, Table


def written(tables: Mapping[str, Table]) -> Any:
    file = io.BytesIO()
    file.write(workbook(tables))
    return openpyxl.load_workbook(file)


def cells(tables: Mapping[str, Table], sheet: str) -> list[tuple[Any, ...]]:
    return list(written(tables)[sheet].iter_rows(values_only=True))


def table() -> Table:
    return Table(
        "demo",
        {
            "name": ["aten::mm", "x"],
            "time us": np.array([1234.567891234567, math.nan]),
            "count": np.array([3, 0]),
            "id": [2**53, 2**53 + 1],
            "dims": [[[1, 2], [math.nan]], None],
            "flag": [True, False],
        },
        {"time us": Column("time of it", "us")},
        "A demonstration",
        ["one note"],
    )


def test_values_keep_their_types() -> None:
    assert cells({"demo": table()}, "demo") == [
        ("name", "time us", "count", "id", "dims", "flag"),
        ("aten::mm", 1234.567891234567, 3, 2**53, "[[1, 2], [null]]", True),
        ("x", None, 0, str(2**53 + 1), None, False),
    ]


def test_infinity_is_text() -> None:
    assert cells({"t": Table("t", {"n": np.array([math.inf, 1.0])})}, "t")[1:] == [("inf",), (1,)]


def test_header_is_bold_and_stays_and_filters() -> None:
    book = written({"demo": table(), "empty": Table("empty", {"name": []})})
    sheet = book["demo"]
    assert all(cell.font.bold for cell in sheet[1])
    assert (sheet.freeze_panes, sheet.auto_filter.ref) == ("A2", "A1:F3")
    assert not sheet["A2"].font.bold
    assert sheet["B2"].number_format == "#,##0.000"
    assert 8 <= sheet.column_dimensions["A"].width < 20
    assert list(book["empty"].iter_rows(values_only=True)) == [("name",)]


def test_about_holds_titles_notes_units_and_definitions() -> None:
    lines = cells({"demo": table()}, "about")
    assert lines[0] == ("sheet", "column", "unit", "meaning")
    assert ("demo", "(title)", None, "A demonstration") in lines
    assert ("demo", "(note)", None, "one note") in lines
    assert ("demo", "time us", "us", "time of it") in lines


def test_names_of_sheets_are_legal_and_unique() -> None:
    one = Table("t", {"n": [1]})
    names = ["a/b:c*[d]?\\'", "A_B_C__D____", "x" * 40, "x" * 41, "History", "", "µ", "about", "../up"]
    book = written(dict.fromkeys(names, one))
    assert len(book.sheetnames) == len(names) + 1
    assert len({name.lower() for name in book.sheetnames}) == len(names) + 1
    assert all(0 < len(name) <= 31 and not set(name) & set("[]:*?/\\'") for name in book.sheetnames)
    assert book.sheetnames[2] == "x" * 31
    assert book.sheetnames[-1] == "about_2"


def test_long_text_is_cut_where_the_cell_ends() -> None:
    texts = ["a" * MAX_CELL, "a" * (MAX_CELL + 1), "😀" * 20_000, "\x1b" * 10_000, "<r>" + "a" * (MAX_CELL - 3)]
    found = [row[0] for row in cells({"t": Table("t", {"name": texts})}, "t")[1:]]
    assert found[0] == texts[0]
    assert found[1].endswith("a... [cut: 32,768 characters]")
    assert found[2].endswith("😀... [cut: 20,000 characters]")
    assert found[3].endswith("... [cut: 10,000 characters]")
    assert all(len(text.encode("utf-16-le")) // 2 <= MAX_CELL for text in found)


def test_rows_beyond_the_sheet_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(xlsx, "MAX_ROWS", 4)
    tables = {"t": Table("t", {"n": np.arange(5)}), "fits": Table("fits", {"n": np.arange(3)})}
    assert [row[0] for row in cells(tables, "t")] == ["n", 0, 1, 2]
    notes = [line for line in cells(tables, "about") if line[1] == "(note)"]
    assert notes == [("t", "(note)", None, "a sheet cannot hold the last 2 rows")]


def test_text_is_never_markup_of_the_library() -> None:
    """XlsxWriter writes texts that look like its own rich strings as they are."""
    bad = "<r><t>a</t></r></is></c><c><f>1+1</f></c><r></r>"
    ((found,),) = cells({"t": Table("t", {"name": [bad]})}, "t")[1:]
    assert found == " " + bad


@examples(30)
@given(st.lists(st.text(min_size=1) | st.from_regex(r"[=+\-@].*|_x[0-9A-F]{4}_|https?://.*|\{=.*\}"), min_size=1))
def test_any_text_stays_a_text(texts: list[str]) -> None:
    file = io.BytesIO()
    file.write(workbook({"t": Table("t", {"name": texts})}))
    sheet = openpyxl.load_workbook(file)["t"]
    found = [row[0] for row in sheet.iter_rows(min_row=2)]
    for cell, text in zip(found, texts, strict=True):
        assert cell.data_type in "sn"
        assert cell.hyperlink is None
        if text.isprintable():
            # What looks like an escape of the format itself is written so that Excel shows it as it is.
            assert unescaped(cell.value) == text
    with zipfile.ZipFile(file) as parts:
        assert b"<f>" not in parts.read("xl/worksheets/sheet1.xml")
        assert b"hyperlink" not in parts.read("xl/worksheets/sheet1.xml")


def unescaped(text: str) -> str:
    return openpyxl.utils.escape.unescape(text)


def test_a_workbook_does_not_hold_when_it_was_made() -> None:
    assert written({"demo": table()}).properties.created == datetime.datetime(1980, 1, 1)


def test_without_the_library_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "xlsxwriter", None)
    with pytest.raises(MissingExtraError, match=r"pip install '\.\[xlsx\]'"):
        workbook({})


@pytest.mark.parametrize("rows", [0, 100_000])
def test_no_room_for_temporary_files_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, rows: int) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nowhere"))
    with pytest.raises(OutputError, match=r"nowhere \(temporary files\)"):
        workbook({"t": Table("t", {"n": np.arange(rows)})})


def test_work_grows_with_the_cells() -> None:
    def write(rows: int) -> None:
        columns: dict[str, Any] = {f"n{i}": np.arange(rows) / 7 for i in range(5)}
        columns |= {f"t{i}": [f"aten::op{row % 300}" for row in range(rows)] for i in range(2)}
        workbook({"t": Table("t", columns)})

    assert_growth(lambda rows: partial(write, rows), 100)
