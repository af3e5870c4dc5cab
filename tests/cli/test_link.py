"""The command link: what it prints and writes, and what it refuses."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path
from typing import Any

import many_launches
import mm_pair
import pytest
from handmade import HOSTILE, Run

from tracelens_graph.utils.texts import width_of


def _written(folder: Path, made: Any) -> list[str]:
    et, trace = folder / "et.json", folder / "kineto.json"
    et.write_text(json.dumps(made.execution_trace()))
    trace.write_text(json.dumps(made.kineto()))
    return ["link", "--et", str(et), str(trace)]


@pytest.fixture(scope="module")
def mm(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The command on the pair of one product."""
    return _written(tmp_path_factory.mktemp("mm"), mm_pair)


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The command on the pair with GPU work of every kind."""
    return _written(tmp_path_factory.mktemp("many"), many_launches)


def test_answers_first(run: Run, mm: list[str]) -> None:
    code, out, err = run(*mm)
    assert (code, err) == (0, "")
    first, *rest = out.splitlines()
    assert first == "2 of 2 nodes link; 1 of 1 ops with GPU work round-trip (100 %)"
    assert " ".join(" ".join(rest[:3]).split()) == (
        "et.json (execution trace): 2 ops and ranges; kineto.json: 2 ops and ranges, 1 GPU event; 1 of them leads "
        "to an op joined by: Record function id = rf_id; 100 % of the names are equal"
    )


@pytest.mark.parametrize("width", [80, 100])
def test_fits_the_terminal(run: Run, mm: list[str], many: list[str], width: int) -> None:
    for command in (mm, many):
        _, out, _ = run(*command, env={"COLUMNS": str(width)})
        assert max(map(width_of, out.splitlines())) <= width


def test_names_and_ids_choose_ops(run: Run, many: list[str]) -> None:
    code, out, _ = run(*many, "--op", "aten::zero_", "--op", "6")
    assert code == 0
    assert re.findall(r"^(\S+), node (\d+), event", out, re.MULTILINE) == [("aten::zero_", "5"), ("replay", "6")]


@pytest.mark.parametrize(
    ("op", "message"),
    [
        ("aten::mm2", "no op that is in both traces is called 'aten::mm2'; did you mean aten::mm?"),
        ("zzz", "no op that is in both traces is called 'zzz'; most GPU time have aten::mm"),
        ("99", "no node has id 99; ids go from 1 to 5, with gaps"),
        ("9" * 5000, "..., with gaps"),
        ("2", "has no event of node 2"),
        ("", "is called ''"),
        (HOSTILE, "no op that is in both traces"),
    ],
)
def test_ops_that_are_not_there(run: Run, mm: list[str], op: str, message: str) -> None:
    code, out, err = run(*mm, "--op", op)
    assert code not in (0, 3)
    assert out == ""
    assert message.removeprefix("...") in err
    assert len(err.splitlines()) == 1
    assert "\x1b" not in err


def test_tables_for_programs(run: Run, many: list[str]) -> None:
    _, out, _ = run(*many, "--format", "csv")
    assert next(csv.DictReader(io.StringIO(out)))["name"] == "AddBackward0"
    _, out, _ = run(*many, "--table", "link_counts", "--format", "json")
    counts = {row["what"]: row["count"] for row in json.loads(out)["rows"]}
    assert counts["traced_gpu_events"] == 8


def test_files(run: Run, many: list[str], tmp_path: Path) -> None:
    files = ["-o", tmp_path / "l.json", "--csv", tmp_path / "csv", "-o", tmp_path / "l.md"]
    code, out, err = run(*many, *files)
    assert (code, err) == (0, "")
    assert len(out.splitlines()) == 3
    chakra = ["-f", "chakra", "-o", tmp_path / "chakra.json"]
    code, out, err = run(*many, *chakra)
    assert (code, err) == (0, "note: GPU events that lead to no op and are left out: 2\n")
    assert len(out.splitlines()) == 1
    document = json.loads((tmp_path / "l.json").read_text())
    assert document["tables"].keys() == {"link_counts", "link_ways", "link_ops"}
    assert document["ops"][0]["tracing"]["events"]["kernel"][0]["name"] == "backward"
    assert sorted(path.stem for path in (tmp_path / "csv").glob("*.csv")) == ["link_counts", "link_ops", "link_ways"]
    page = (tmp_path / "l.md").read_text()
    assert "**5 of 6 nodes link; 4 of 4 ops with GPU work round-trip (100 %)**" in page
    assert len(json.loads((tmp_path / "chakra.json").read_text())["nodes"]) == 9 + 8
    # what the tool wrote it replaces, and nothing else
    assert run(*many, *files)[0] == run(*many, *chakra)[0] == 0
    code, _, err = run(*many, "-f", "chakra", "-o", many[2], "--force")
    assert code not in (0, 3)
    assert json.loads(Path(many[2]).read_text()) == many_launches.execution_trace()


def test_conditions(run: Run, many: list[str]) -> None:
    assert run(*many, "--table", "link_counts", "--fail-if", "round_trip_percent < 100")[0] == 0
    code, _, err = run(*many, "--table", "link_counts", "--fail-if", "linked_percent < 100")
    assert (code, err) == (3, "failed: linked_percent is 83.3333, which is < 100\n")
    code, _, err = run(*many, "--fail-if", "foo < 1")
    assert code == 2
    assert "there is no figure 'foo'" in err


def test_what_does_not_go_together(run: Run, mm: list[str], tmp_path: Path) -> None:
    assert "--op goes with the screen" in run(*mm, "--op", "5", "--table", "link_ops")[2]
    assert "--op goes with the screen" in run(*mm, "--op", "5", "-f", "chakra", "-o", tmp_path / "c.json")[2]
    assert "did you mean link_ops?" in run(*mm, "--table", "link_op")[2]
    both = run("link", "--et", mm[3], mm[3])
    assert both[0] != 0
    assert "execution trace" in both[2]
    both = run("link", "--et", mm[2], mm[2])
    assert "is a PyTorch execution trace" in both[2]


def test_two_programs_are_refused(run: Run, mm: list[str], many: list[str]) -> None:
    code, out, err = run("link", "--et", mm[2], many[3])
    assert (code != 0, out) == (True, "")
    assert "% of the names are equal" in err


def test_hostile_names_stay_text(run: Run, tmp_path: Path) -> None:
    trace, execution = many_launches.kineto(), many_launches.execution_trace()
    for event in trace["traceEvents"]:
        event["name"] = HOSTILE if event["cat"] == "cpu_op" else event["name"] + HOSTILE
    for node in execution["nodes"]:
        if node["attrs"][0]["value"] not in (0, 31, 40):
            node["name"] = HOSTILE
            node["attrs"][6]["value"] = HOSTILE
    execution["nodes"][4]["name"] += HOSTILE
    (tmp_path / "et.json").write_text(json.dumps(execution))
    (tmp_path / "k.json").write_text(json.dumps(trace))
    command = ["link", "--et", tmp_path / "et.json", tmp_path / "k.json"]
    code, out, err = run(*command)
    assert (code, err) == (0, "")
    assert "\x1b" not in out
    assert "evil\\x1b[31m" in out
    code, page, _ = run(*command, "-f", "md", "-o", "-")
    assert code == 0
    assert "\x1b" not in page
    outside_of_code = re.sub(r"````text\n.*?\n````|`` .*? ``", "", page, flags=re.DOTALL)
    assert "|`<b>" not in outside_of_code
