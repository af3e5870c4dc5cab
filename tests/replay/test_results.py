"""Files of results."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from replay_results import result, written

from tracelens_graph.errors import ResultsError
from tracelens_graph.replay.results import read_results


def test_a_folder_of_results(tmp_path: Path) -> None:
    written(tmp_path / "b.json", result("x", 1.0))
    (tmp_path / "a.json").write_text(json.dumps(result("y", 1.0)))
    for name in ("operations.json", "replay.json", "x.trace.json"):
        (tmp_path / name).write_text("{}")
    assert [one.op for one in read_results(tmp_path)[0]] == ["y", "x"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is no JSON"),
        ('{"op": 1}', "holds no results: [0].op: expected `str`, got `int`"),
        ('[{"op": "x"}]', "holds no results: [0] has neither a median_us nor an error"),
        ('[{"op": "x", "median_us": -1}]', "[0].median_us: expected `float` > 0"),
        ('[{"op": "x", "median_us": 0}]', "[0].median_us: expected `float` > 0"),
        ('[{"op": "x", "median_us": 1, "percent": 400}]', "[0].percent: expected `float` <= 100"),
        ('[{"op": "x", "median_us": 1, "count": -3}]', "[0].count: expected `int` >= 0"),
        ('[{"op": "x", "median_us": 1, "tflops": -1}]', "[0].tflops: expected `float` >= 0"),
        ('[{"op": "x", "median_us": NaN}]', "is no JSON"),
        ("[" * 100000, "is no JSON"),
    ],
)
def test_files_that_hold_no_results(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text(text)
    with pytest.raises(ResultsError, match="a.json") as error:
        read_results(path)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_files_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(ResultsError, match="cannot be read: no such file"):
        read_results(tmp_path / "a.json")
    with pytest.raises(ResultsError, match="holds no results; write them with --json"):
        read_results(tmp_path)


@pytest.mark.parametrize("text", ["[]", "[[]]", "[null]"])
def test_a_file_that_lists_nothing(text: str, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(text)
    with pytest.raises(ResultsError, match="holds no results"):
        read_results(tmp_path / "a.json")
