"""Names that would run, colour, break out or blow up: every writer keeps them harmless, CSV as they are."""

from __future__ import annotations

import csv
import io
import json
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import github_markdown
import numpy as np
import openpyxl
import pytest
from handmade import span

from tracelens_graph.analyses.ops.top_ops import top_ops
from tracelens_graph.analyses.report.report_tables import ReportOptions, report_tables
from tracelens_graph.graph.core import Core
from tracelens_graph.loading.one import load_core
from tracelens_graph.registry import HOMES
from tracelens_graph.reports.comment import ROOM, report_comment
from tracelens_graph.reports.csv import MOST, write_csv, write_folder
from tracelens_graph.reports.document import facts, report_json, table_json
from tracelens_graph.reports.markdown import table_markdown
from tracelens_graph.reports.xlsx import MAX_CELL, workbook
from tracelens_graph.tables.table import Table
from tracelens_graph.tables.terminal import LONGEST_CELL
from tracelens_graph.utils.texts import width_of

NAMES = [
    "=cmd|' /C calc'!A0",
    "@SUM(1+1)*cmd|' /C calc'!A0",
    "+1+1", "-1+1", "{=1+1}", "\t=1+1", "\r=1+1",
    "<script>alert(1)</script>",
    "<r><t>x</t></r></is></c><c><f>1+1</f></c><r></r>",
    "https://example.org/?steal", "file:///etc/passwd", "mailto:a@example.org", "internal:Sheet1!A1",
    "[click](javascript:alert(1))", "![x](https://example.org/x.png)", "`a` | b ``",
    "a \"quoted\" 'name', with; separators", "two\nlines", "carriage\rreturn", "both\r\nof them", "tab\there",
    "\x1b[2J\x1b[31mred", "\x9b31m", "\x07bell", "\u202egnp.exe", "_x000D_", "&amp;&#0;",
    "../../etc/passwd", "C:\\Windows\\system32", "/dev/null", "nul", "a/b:c*[d]?",
    "\x00nul", "nan", "NULL", "", " ", "1e5", "TRUE", "📈" * 50, "ﷺ\u0301\ufeff\ufffe",
    "x" * 2**20, "\n" * 2**20,
]  # fmt: skip
SURROGATE = "half \ud83d a pair"
CONTROL = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2028\u2029\ud800-\udfff]")
"""What may be in no text for people; a line feed may."""


@pytest.fixture(scope="module", autouse=True)
def _long_fields() -> Iterator[None]:
    before = csv.field_size_limit(2**24)
    yield
    csv.field_size_limit(before)


def hostile_table(names: list[str]) -> Table:
    lists = [[name[:99], {name[:99]: float("nan")}] for name in names]
    return Table("hostile", {"name": names, "n": np.arange(len(names)), "list": lists}, title=names[0], notes=names[:9])


def hostile_trace() -> dict[str, Any]:
    """Each name is that of a module, an op, its launch and its kernel; also of processes, groups and devices."""
    events: list[dict[str, Any]] = []
    for i, name in enumerate(NAMES):
        at = 1000.0 + 100 * i
        events += [
            {"ph": "M", "name": "process_name", "pid": i, "tid": 0, "args": {"name": name}},
            span("user_annotation", name, at, 90, pid=i),
            span("python_function", f"nn.Module: {name}", at + 1, 80, pid=i),
            span("cpu_op", name, at + 2, 70, pid=i, Input_Dims=[[i, 2]], Input_type=[name[:99]], External_id=i + 1),
            span("cuda_runtime", name, at + 3, 5, pid=i, External_id=i + 1, correlation=i + 1),
            span("kernel", name, at + 20, 10, 0, 7, device=0, stream=7, External_id=i + 1, correlation=i + 1,
                 Collective_name=name[:99], Process_Group_Name=name[:99], dtype="Float", In_msg_nelems=8),
        ]  # fmt: skip
    return {"deviceProperties": [{"id": 0, "name": NAMES[0]}], "traceEvents": events}


@pytest.fixture(scope="module")
def core() -> Core:
    return load_core(hostile_trace())


@pytest.fixture(scope="module")
def tables(core: Core) -> dict[str, Table]:
    options = ReportOptions(short_kernels_us=50, call_stack=True, overlap=True, by_module=True)
    return dict(report_tables(core, options)) | {"hostile": hostile_table([*NAMES, SURROGATE])}


def test_trace_carries_the_names(tables: dict[str, Table]) -> None:
    assert set(NAMES) - {""} <= set(tables["ops_summary"]["name"])
    assert set(NAMES) - {""} <= set(tables["kernel_summary"]["Kernel name"])


def test_csv_is_verbatim() -> None:
    file = io.StringIO(newline="")
    table = hostile_table([*NAMES, SURROGATE])
    write_csv(table, file)
    rows = list(csv.reader(io.StringIO(file.getvalue(), newline="")))
    for row, name in zip(rows[1:], table["name"], strict=True):  # no spreadsheet takes a longer cell whole
        cut = len(name) > MOST
        assert len(row[0]) <= MOST
        assert row[0].endswith(f"[cut: {len(name):,} characters]") if cut else row[0] == name
    assert [json.loads(row[2], parse_constant=pytest.fail)[0] for row in rows[1:-1]] == [name[:99] for name in NAMES]


def test_folder_holds_every_name_and_no_other_file(tables: dict[str, Table], tmp_path: Path) -> None:
    paths = write_folder(tables, tmp_path / "report")
    assert sorted(tmp_path.rglob("*.csv")) == sorted(paths)
    assert {path.stem for path in paths} == set(tables)
    with (tmp_path / "report" / "ops_summary.csv").open(encoding="utf-8", newline="") as file:
        names = [row["name"] for row in csv.DictReader(file)]
    assert [name[:9_999] for name in names] == [name[:9_999] for name in tables["ops_summary"]["name"]]


def test_xlsx_holds_texts_and_nothing_that_runs(tables: dict[str, Table]) -> None:
    file = io.BytesIO()
    file.write(workbook(tables))
    book = openpyxl.load_workbook(file)
    assert book.sheetnames == [*tables, "about"]
    for sheet in book:
        for row in sheet.iter_rows():
            for cell in row:
                assert cell.data_type in "snb", cell.value
                assert cell.hyperlink is None
                assert not isinstance(cell.value, str) or not CONTROL.search(cell.value)
                assert not isinstance(cell.value, str) or len(cell.value.encode("utf-16-le")) <= 2 * MAX_CELL
    with zipfile.ZipFile(file) as parts:
        for part in parts.namelist():
            assert not re.search(rb"<f[ >]|hyperlink|<script", parts.read(part)), part
    shown = [row[0] for row in book["hostile"].iter_rows(min_row=2, values_only=True)]
    assert shown[0] == "=cmd|' /C calc'!A0"
    assert shown[-1] == "half \\ud83d a pair"
    assert any(text.endswith("[cut: 1,048,576 characters]") for text in shown if text)


def test_json_is_strict(core: Core, tables: dict[str, Table]) -> None:
    for text in (*map(table_json, tables.values()), report_json([], tables, facts(core))):
        assert text.isascii()
        assert not CONTROL.search(text)
        text.encode()
        json.loads(text, parse_constant=pytest.fail)
        assert "\\ud83d a" not in text.replace("\\\\", "")
    back = json.loads(report_json([], tables, facts(core)))["tables"]
    for row, name in zip(back["hostile"]["rows"], NAMES, strict=False):
        cut = f"{name[:LONGEST_CELL]}... [cut: {len(name):,} characters]"
        assert row["name"] == (name if len(name) <= LONGEST_CELL else cut)
    assert back["hostile"]["rows"][-1]["name"] == "half \\ud83d a pair"


def test_markdown_is_text_only(core: Core, tables: dict[str, Table]) -> None:
    largest = top_ops(core, top=len(NAMES))
    comment = report_comment(core, [], largest, [""] * len(largest), tables, facts(core), str)
    assert len(comment.encode()) <= ROOM
    for page in (*map(table_markdown, tables.values()), comment):
        assert not CONTROL.search(page)
        seen = github_markdown.read(page)
        assert (seen.links, seen.depth) == ([], 0)
    for page in map(table_markdown, tables.values()):
        # Nothing that opens a tag, a link, an image or code, and no bar that splits a cell, without a backslash.
        plain = re.sub(r"\\.|^\| .*?---.* \|$", "", page, flags=re.MULTILINE)
        assert not re.search(r"[<>`\[\]~]|://", plain)
    rows = table_markdown(hostile_table(NAMES)).splitlines()
    unescaped = [len(re.findall(r"(?<!\\)(?:\\\\)*\|", row)) for row in rows if row.startswith("| ")]
    assert unescaped == [4] * (len(NAMES) + 2)


def test_terminal_obeys_nothing(tables: dict[str, Table]) -> None:
    for table in tables.values():
        for width in (None, 100):
            text = table.text(width)
            assert not CONTROL.search(text)
            if width:
                assert max(map(width_of, text.splitlines())) <= width
                continue
            # A row is a line, whatever its cells hold: title, header, rule, rows, notes.
            assert text.count("\n") == bool(table.title) + (2 + len(table) if len(table) else 0) + len(table.notes)


def test_names_of_tables_are_ours(tables: dict[str, Table]) -> None:
    assert set(tables) - {"hostile"} <= set(HOMES)
