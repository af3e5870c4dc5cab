"""A folder of CSV files."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from tracelens_graph.errors import OutputError
from tracelens_graph.reports.csv import MOST, write_folder
from tracelens_graph.tables.table import Table

ONE = Table("one", {"name": ["a,b", "µ"], "n": np.array([1, 2])})
TWO = Table("two", {"n": np.array([0.5])})


def test_one_file_per_table(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "report"
    paths = write_folder({"one": ONE, "two": TWO}, folder)
    assert paths == [folder / "one.csv", folder / "two.csv"]
    assert paths[0].read_bytes() == 'name,n\n"a,b",1\nµ,2\n'.encode()
    assert sorted(folder.glob("*.csv")) == paths


def test_files_are_replaced_and_others_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine.csv").write_text("mine")
    (tmp_path / "one.csv").write_text("old")
    write_folder({"one": TWO}, tmp_path)
    assert (tmp_path / "mine.csv").read_text() == "mine"
    assert (tmp_path / "one.csv").read_text() == "n\n0.5\n"


def test_file_in_the_way(tmp_path: Path) -> None:
    (tmp_path / "report").write_text("")
    with pytest.raises(OutputError, match="report: is a file; name a folder"):
        write_folder({"one": ONE}, tmp_path / "report")
    with pytest.raises(OutputError, match="below: cannot be written: not a directory"):
        write_folder({"one": ONE}, tmp_path / "report" / "below")


def test_folder_where_a_file_would_stand(tmp_path: Path) -> None:
    (tmp_path / "one.csv").mkdir()
    with pytest.raises(OutputError, match=r"one.csv: is a folder or device; name a file"):
        write_folder({"one": ONE}, tmp_path)


@pytest.mark.parametrize("name", ["../up", "a/b", "", ".hidden", "a\nb", "a\\b"])
def test_no_name_leads_out_of_the_folder(tmp_path: Path, name: str) -> None:
    with pytest.raises(OutputError, match="cannot be the name of a table's file"):
        write_folder({name: ONE}, tmp_path / "report")
    assert list(tmp_path.rglob("*.csv")) == []


def test_a_table_that_fails_leaves_the_old_file(tmp_path: Path) -> None:
    (tmp_path / "one.csv").write_text("old")
    uneven = Table("one", {"a": [1, 2], "b": [1]})
    with pytest.raises(ValueError, match="shorter"):
        write_folder({"one": uneven}, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["one.csv"]
    assert (tmp_path / "one.csv").read_text() == "old"


def test_half_of_a_surrogate_pair_becomes_visible(tmp_path: Path) -> None:
    (path,) = write_folder({"t": Table("t", {"name": ["a\ud800b"]})}, tmp_path)
    with path.open(encoding="utf-8", newline="") as file:
        assert list(csv.reader(file)) == [["name"], ["a\\ud800b"]]


def cells(tmp_path: Path, values: list[object]) -> list[str]:
    (path,) = write_folder({"one": Table("one", {"x": values})}, tmp_path)
    csv.field_size_limit(1 << 30)
    with path.open(newline="") as file:
        return [row[0] for row in csv.reader(file)][1:]


@pytest.mark.parametrize("part", ["a", '"' * 9, "x" * 500, 12345, [1, 2], "\u00b5" * 40], ids=repr)
@pytest.mark.parametrize("count", [10, 4000, 40_000])
def test_lists_are_cut_so_that_a_spreadsheet_holds_them(part: object, count: int, tmp_path: Path) -> None:
    (cell,) = cells(tmp_path, [[part] * count])
    assert len(cell) <= MOST
    found = json.loads(cell)
    if found[-1] == part:
        assert len(found) == count
    else:
        assert found[:-1] == [part] * (len(found) - 1)
        assert found[-1] == f"... [cut: {count - len(found) + 1:,} more of {count:,}]"
        assert len(json.dumps([part] * len(found))) > MOST - 60


def test_texts_and_maps_are_cut_and_short_ones_are_not(tmp_path: Path) -> None:
    exact, long = "x" * MOST, "y" * (MOST + 1)
    whole, cut, of_map = cells(tmp_path, [exact, long, {"a": long}])
    assert whole == exact
    assert (cut[:100], cut[-28:], len(cut) <= MOST) == ("y" * 100, f"... [cut: {MOST + 1:,} characters]", True)
    assert of_map.startswith('{"a"')
    assert len(of_map) <= MOST
