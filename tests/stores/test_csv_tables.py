"""Tables read back from CSV: ours, TraceLens's, and what only looks like one."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpus import GOLDENS, needs_goldens
from tracelens_graph.errors import TraceError
from tracelens_graph.reports.csv import write_csv
from tracelens_graph.stores.saved_reports import cell_value, csv_tables, read_table
from tracelens_graph.tables.table import Table


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", None),
        ("aten::mm", "aten::mm"),
        ("((8, 16), (), (32,))", [[8, 16], [], [32]]),
        ("[[8, 16], [], [32]]", [[8, 16], [], [32]]),
        ("('', '0.5', 'c10::BFloat16')", ["", "0.5", "c10::BFloat16"]),
        ('["", "0.5", "c10::BFloat16"]', ["", "0.5", "c10::BFloat16"]),
        ("[{'name': 'k', 'count': 2, 'mean': np.float64(1.5)}]", [{"name": "k", "count": 2, "mean": 1.5}]),
        ("[{'name': 'np.float64(3)', 'low': -1.5, 'of': None}]", [{"name": "np.float64(3)", "low": -1.5, "of": None}]),
        ("(np.int64(3), numpy.float32(0.5), True)", [3, 0.5, True]),
        (r"('a\d',)", ["a\\d"]),
        ("(anonymous namespace)::softmax(float)", "(anonymous namespace)::softmax(float)"),
        ("[memory]", "[memory]"),
        ("[", "["),
    ],
)
def test_cells(text: str, value: object) -> None:
    assert cell_value(text) == value


@pytest.mark.parametrize(
    "text",
    [
        "[__import__('os').getcwd()]",
        "[np.__import__('os')]",
        "[np.load('x')]",
        "[np.float64(1, 2)]",
        "[np.float64(x=1)]",
        "[os.float64(1)]",
        "[1 + 1]",
        "[-'a']",
        "[f'{1}']",
        "[x for x in (1, 2)]",
        "[lambda: 1]",
        "{1: 2}",
        "{**{}}",
        "[b'1']",
        "(" * 5000,
        "[" * 100_000,
        "(-" * 500 + "1" + ")" * 500,
    ],
)
def test_nothing_is_run_and_nothing_breaks(text: str) -> None:
    assert cell_value(text) == text


PARTS = st.recursive(
    st.one_of(st.text(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.none(), st.booleans()),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=12,
)


@given(st.lists(PARTS, max_size=5))
def test_lists_come_back_from_python_text(cells: list[Any]) -> None:
    assert cell_value(repr(cells)) == cells
    assert cell_value(repr(tuple(cells))) == cells


ROW = st.tuples(st.text(), st.integers(-(2**53), 2**53), st.floats(), st.lists(PARTS, min_size=1, max_size=3))


@given(st.lists(ROW, min_size=1, max_size=6))
def test_our_files_come_back(tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[Any, ...]]) -> None:
    names, counts, times, dims = map(list, zip(*rows, strict=True))
    file = tmp_path_factory.getbasetemp() / "ops_summary.csv"
    with file.open("w", newline="", encoding="utf-8") as out:
        write_csv(Table("ops", {"name": names, "count": counts, "time": np.array(times), "dims": dims}), out)
    table = read_table(file)
    assert list(table.columns) == ["name", "count", "time", "dims"]
    assert table["name"] == names
    assert list(table["count"]) == counts
    np.testing.assert_array_equal(table["time"], times)
    assert table["dims"] == dims


def written(folder: Path, text: str, name: str = "ops_summary.csv") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_names_stay_text_whatever_they_look_like(tmp_path: Path) -> None:
    file = written(
        tmp_path, "name,Count,percent,Categories\n12,1,0.5,['a']\nnan,,1e3,\n[memory],3,inf,\"('b', 'c')\"\n"
    )
    table = read_table(file)
    assert table["name"] == ["12", "nan", "[memory]"]
    np.testing.assert_array_equal(table["Count"], [1, math.nan, 3])
    np.testing.assert_array_equal(table["percent"], [0.5, 1000, math.inf])
    assert table["Categories"] == [["a"], None, ["b", "c"]]


def test_definitions_and_units_come_with_known_columns(tmp_path: Path) -> None:
    table = read_table(written(tmp_path, "type,time ms,other\nbusy_time,1.5,2\n", "gpu_timeline.csv"))
    assert table.about["time ms"].unit == "ms"
    assert "other" not in table.about


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"name,Count\na\n", "row 1 has 1 cells, the header 2"),
        (b"name,name\na,b\n", "two columns have one name"),
        (b"name\n\xff\xfe\n", "no table in CSV"),
    ],
)
def test_what_is_no_table_is_refused(tmp_path: Path, content: bytes, message: str) -> None:
    file = tmp_path / "ops.csv"
    file.write_bytes(content)
    with pytest.raises(TraceError, match=message):
        read_table(file)


def test_a_folder_reads_what_is_asked_for(tmp_path: Path) -> None:
    written(tmp_path, "name,Count\na,1\n")
    written(tmp_path, "name,Count\na\n", "broken.csv")
    tables = csv_tables(tmp_path)
    assert list(tables) == ["broken", "ops_summary"]
    assert "ops_summary" in tables
    assert tables["ops_summary"]["name"] == ["a"]
    with pytest.raises(TraceError):
        tables["broken"]


@needs_goldens
def test_reference_tables_have_lists_and_numbers() -> None:
    assert GOLDENS is not None
    table = csv_tables(GOLDENS / "default/h100/qwen1.5-0.5b")["ops_unique_args"]
    assert len(table) == 35
    first = table.records()[0]
    assert first["Input Dims"] == [[8944, 1024], [1024, 2816]]
    assert first["Concrete Inputs"] == ["", ""]
    assert first["kernel_details_summary"][0]["mean_duration_us"] == 0.828125
    others = GOLDENS / "hta"  # tables of another program, some with several lines of headings
    files = [file for file in sorted(GOLDENS.rglob("*.csv")) if not file.is_relative_to(others)]
    assert len(files) > 250
    for file in files:
        for name, values in read_table(file).columns.items():
            texts = [value for value in values if isinstance(value, str)]
            lists = [value for value in values if isinstance(value, list | dict)]
            assert not (texts and lists), (file, name)
