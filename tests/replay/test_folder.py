"""A folder of programs: what stands in its index comes back, and nothing else is believed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from recorded_calls import calls

from tracelens_graph.errors import NotAPlanError, OutputError, TraceLensGraphError
from tracelens_graph.loading.one import load_core
from tracelens_graph.output.files import Protection, protecting
from tracelens_graph.replay.folder import INDEX, Program, read_folder, write_folder
from tracelens_graph.replay.planning import plan
from tracelens_graph.replay.replay_plan import ReplayPlan


@pytest.fixture(scope="module")
def mm() -> ReplayPlan:
    return plan(load_core(calls()).find("Op", "aten::mm")[0])


def test_what_is_written_is_read(mm: ReplayPlan, tmp_path: Path) -> None:
    programs = [
        Program.of(mm, "a.py"),
        Program("b.py", "sequence", "two", {"steps": [{"plan": mm.json()}, {"plan": mm.json()}]}),
        Program("c.py", "collectives", "none", {}),
    ]
    assert write_folder(tmp_path / "new", programs, "t.json", {"d.json": "{}"}).files == [
        tmp_path / "new" / one.file for one in programs
    ]
    read = read_folder(tmp_path / "new")
    assert [one.plans for one in read] == [(mm,), (mm, mm), ()]
    assert [one.source for one in read] == [one.source for one in programs]
    assert (tmp_path / "new" / "a.py").read_text() == mm.script() == read[0].source
    assert json.loads((tmp_path / "new" / INDEX).read_text())["trace"] == "t.json"


def test_files_of_an_earlier_run_go(mm: ReplayPlan, tmp_path: Path) -> None:
    write_folder(tmp_path, [Program("a.py", "full", "", [mm.json()])], "t", {"list.json": "[]"})
    (tmp_path / "mine.py").write_text("mine")
    assert write_folder(tmp_path, [Program.of(mm, "b.py")], "t").removed == ["a.py", "list.json"]
    assert {path.name for path in tmp_path.iterdir() if not path.name.startswith(".")} == {"b.py", INDEX, "mine.py"}


def test_a_program_that_was_edited_stays(mm: ReplayPlan, tmp_path: Path) -> None:
    write_folder(tmp_path, [Program.of(mm, "a.py"), Program.of(mm, "b.py")], "t")
    for name in ("a.py", "b.py"):
        (tmp_path / name).write_text("edited")
    with protecting(Protection()), pytest.raises(OutputError, match=r"b.py: was not written by"):
        write_folder(tmp_path, [Program.of(mm, "b.py")], "t")
    (tmp_path / "b.py").unlink()
    with protecting(Protection()):
        write_folder(tmp_path, [Program.of(mm, "b.py")], "t")
    assert {path.name for path in tmp_path.iterdir()} == {"a.py", "b.py", INDEX}


def test_an_index_cannot_have_files_elsewhere_removed(mm: ReplayPlan, tmp_path: Path) -> None:
    folder = tmp_path / "programs"
    write_folder(folder, [Program.of(mm, "a.py")], "t")
    write_folder(tmp_path, [Program.of(mm, "victim.py")], "t")
    index = json.loads((folder / INDEX).read_text())
    (folder / INDEX).write_text(json.dumps(index | {"files": ["../victim.py", "..", "", 3, "a.py\0"]}))
    write_folder(folder, [Program.of(mm, "b.py")], "t")
    assert (tmp_path / "victim.py").exists()


@pytest.mark.parametrize(
    "entry",
    [
        1, {}, {"file": "a.py"}, {"file": "../a.py", "kind": "op", "about": "", "plan": []},
        {"file": "", "kind": "op", "about": "", "plan": []}, {"file": "a.py", "kind": "other", "about": "", "plan": []},
        {"file": "a.py", "kind": "op", "about": 1, "plan": {}}, {"file": "a.py", "kind": [], "about": "", "plan": []},
        {"file": "\ud800.py", "kind": "op", "about": "", "plan": []},
        {"file": "a\x1b.py", "kind": "op", "about": "", "plan": []},
        {"file": "a" * 300, "kind": "op", "about": "", "plan": []},
    ],
)  # fmt: skip
def test_an_entry_that_is_none_is_refused(entry: object, tmp_path: Path) -> None:
    (tmp_path / INDEX).write_text(json.dumps({"operations": [entry]}))
    with pytest.raises(TraceLensGraphError):
        read_folder(tmp_path)


def test_a_plan_that_is_none_loses_its_program_alone(mm: ReplayPlan, tmp_path: Path) -> None:
    write_folder(tmp_path, [Program.of(mm, "a.py"), Program.of(mm, "b.py")], "t")
    index = json.loads((tmp_path / INDEX).read_text())
    index["operations"][0]["plan"]["recorded"]["dims"] = ["x"]
    (tmp_path / INDEX).write_text(json.dumps(index))
    first, second = read_folder(tmp_path)
    with pytest.raises(NotAPlanError, match="recorded.dims: is neither a number nor a list"):
        _ = first.plans
    assert second.plans == (mm,)
