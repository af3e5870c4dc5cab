"""Results of two machines, side by side."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tracelens_graph.errors import ResultsError
from tracelens_graph.replay.results import compared_results, read_results


def result(op: str, median_us: float, size: int = 8, **told: Any) -> dict[str, Any]:
    signature = {"dims": [[size]], "types": ["float"], "strides": [[1]], "values": [""]}
    return {"op": op, "signature": signature, "device": "A GPU", "torch": "2.15", "median_us": median_us} | told


def written(path: Path, *results: Any) -> Path:
    path.write_text(json.dumps(list(results)))
    return path


def test_those_that_differ_most_come_first(tmp_path: Path) -> None:
    a = written(tmp_path / "a.json", result("x", 10.0), result("y", 100.0, tflops=2.0), result("x", 5.0, size=9))
    b = written(tmp_path / "b.json", result("x", 9.0), result("x", 15.0, size=9), result("y", 50.0, device="B GPU"))
    table = compared_results(a, b)
    assert table["op"] == ["y", "x", "x"]
    assert table["input_dims"] == ["[[8]]", "[[9]]", "[[8]]"]
    assert table["median_us_a"] == [100.0, 5.0, 10.0]
    assert table["median_us_b"] == [50.0, 15.0, 9.0]
    assert table["difference_us"] == [-50.0, 10.0, -1.0]
    assert table["ratio"] == [0.5, 3.0, 0.9]
    assert table["tflops_a"] == [2.0, None, None]
    assert list(table.notes) == []
    assert table.title == "Results of a (A: A GPU, torch 2.15) and b (B: A GPU, torch 2.15; B GPU, torch 2.15)"


def test_what_only_one_has_is_told(tmp_path: Path) -> None:
    failed = {"op": "z", "error": "out of memory"}
    a = written(tmp_path / "a.json", result("x", 1.0), result("q", 1.0), failed)
    b = written(tmp_path / "b.json", result("x", 1.0, largest_size=4), result("q", 1.0), result("q", 2.0))
    table = compared_results(a, b)
    assert table["op"] == ["q"]
    assert table["median_us_b"] == [2.0]
    assert list(table.notes) == [
        "only in a: 1: x",
        "failed in a: 1: z (out of memory)",
        "only in b: 1: x",
        "in b 1 results are of an operation and arguments that a later one is of, too: the last counts",
    ]


def test_a_folder_of_results(tmp_path: Path) -> None:
    written(tmp_path / "b.json", result("x", 1.0))
    (tmp_path / "a.json").write_text(json.dumps(result("y", 1.0)))
    for name in ("operations.json", "replay.json", "x.trace.json"):
        (tmp_path / name).write_text("{}")
    assert [one.op for one in read_results(tmp_path)] == ["y", "x"]


def test_kernels(tmp_path: Path) -> None:
    sides = [("k", "k"), ("k", "other"), ("k", "")]
    a = written(tmp_path / "a.json", *(result("x", 1.0, n, kernels=[one]) for n, (one, _) in enumerate(sides)))
    b = written(tmp_path / "b.json", *(result("x", 1.0, n, kernels=[o] if o else []) for n, (_, o) in enumerate(sides)))
    assert compared_results(a, b)["same_kernels"] == [True, False, None]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is no JSON"),
        ('{"op": 1}', "holds no results: [0].op: expected `str`, got `int`"),
        ('[{"op": "x"}]', "holds no results: [0] has neither a median_us nor an error"),
        ('[{"op": "x", "median_us": -1}]', "[0].median_us: expected `float` >= 0"),
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


def test_sequences_have_no_signature(tmp_path: Path) -> None:
    a = written(tmp_path / "a.json", result("nn.Module: MLP_0", 2.0, signature=None, failed=[], steps=[]))
    b = written(tmp_path / "b.json", result("nn.Module: MLP_0", 3.0, signature=None))
    table = compared_results(a, b)
    assert (table["op"], table["ratio"], table["input_dims"]) == (["nn.Module: MLP_0"], [1.5], ["[]"])


def test_a_result_that_is_none_is_lost_alone_and_told(tmp_path: Path) -> None:
    a, b = tmp_path / "a", tmp_path / "b.json"
    a.mkdir()
    (a / "1.json").write_text("{")
    written(a / "2.json", result("x", 1.0), {"op": 3}, {"op": "y"})
    written(b, result("x", 2.0))
    table = compared_results(a, b)
    assert table["ratio"] == [2.0]
    (note,) = table.notes
    assert note.startswith(f"cannot be read: {a / '1.json'}: is no JSON")
    assert note.endswith(", and 2 more")


@pytest.mark.parametrize("text", ["[]", "[[]]", "[null]"])
def test_a_file_that_lists_nothing(text: str, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(text)
    with pytest.raises(ResultsError, match="holds no results"):
        read_results(tmp_path / "a.json")


def test_long_names_are_shortened(tmp_path: Path) -> None:
    a = written(tmp_path / "a.json", result("x" * 9999, 1.0), {"op": "y", "error": "z" * 9999})
    b = written(tmp_path / "b.json", result("x", 1.0))
    assert max(map(len, compared_results(a, b).notes)) < 300
