"""ranks --path and --what-if: screens, files, conditions, and what leads to them."""

from __future__ import annotations

import csv
import json
import shlex
from pathlib import Path

import pytest
from handmade import Run

from corpus import CHECKOUT, CORPUS, needs_corpus
from tracelens_graph.simulate import simulate, write

TABLES = {
    "critical_path", "critical_path_classes", "critical_path_ranks", "critical_path_names", "critical_path_steps",
    "critical_path_ties", "critical_path_slack",
}  # fmt: skip
WIDE = {"COLUMNS": "300"}


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with three ranks of which the second is late."""
    folder = tmp_path_factory.mktemp("job")
    write(simulate(ranks=3, steps=2, layers=1, dataloader_rank=1, dataloader_us=20_000), folder, traces_only=True)
    return folder


def asked_next(out: str) -> list[list[str]]:
    """The arguments of the commands that are suggested."""
    lines = [line.removeprefix("ask next: ") for line in out.splitlines() if line.startswith("ask next: ")]
    return [shlex.split(line)[1:] for line in lines]


def test_a_step_is_found_beside_files_of_other_kinds(run: Run, tmp_path: Path) -> None:
    write(simulate(ranks=3, steps=2, layers=1), tmp_path)  # with execution traces and truths: more than eight files
    for path in ([], ["--path"]):
        assert run("ranks", tmp_path, *path, "--step", "4")[0] == 0
        code, _, err = run("ranks", tmp_path, *path, "--step", "9")
        assert (code, "no step 9" in err) == (1, True)


def test_every_command_that_is_suggested_answers(run: Run, job: Path, tmp_path: Path) -> None:
    waiting, seen = [["ranks", str(job), "--step", "4"]], set()
    while waiting:
        command = waiting.pop()
        seen.add(" ".join(command))
        if command[0] == "cut":
            command = [*command[:-1], str(tmp_path / command[-1])]
        code, out, err = run(*command)
        assert (code, "error" in err) == (0, False), command
        assert command[0] == "cut" or command[2:4] == ["--step", "4"]
        waiting += [one for one in asked_next(out) if " ".join(one) not in seen]
    assert sum("--what-if repair=1" in one for one in seen) >= 1
    assert any(one.startswith("cut ") for one in seen)
    assert len(seen) >= 6


def test_the_late_rank_leads_to_what_repairing_it_is_worth(run: Run, job: Path) -> None:
    _, out, _ = run("ranks", job)
    assert ["ranks", str(job), "--what-if", "repair=1"] in asked_next(out)
    code, out, _ = run("ranks", job, "--step", "4", "--what-if", "repair=1", env=WIDE)
    assert code == 0
    said, extent, blank, *table = out.splitlines()
    assert said.startswith("With rank 1 as its median peer, path step 4 takes ")
    assert (
        extent == "Path step 4 lasts from the last GPU end of the steps before to its own last GPU end, over all ranks"
    )
    assert blank == ""
    assert table[0].startswith("What if: rank 1 as its median peer")
    _, out, _ = run("ranks", job, "--step", "4", "--what-if", "repair=1", "--format", "json")
    (row,) = json.loads(out)["tables"]["what_if"]["rows"]
    assert f"takes {row['changed_ms']:,.3f} instead of {row['recorded_ms']:,.3f} ms" in said
    assert f"(saves {row['saved_ms']:,.3f} ms, {row['saved_percent']:.1f} %)" in said
    assert row["saved_ms"] > 15
    bound_us = 1e3 * max(row["most_ms"] - row["changed_ms"], row["changed_ms"] - row["least_ms"])
    bounds = f"{bound_us:,.1f} us more or less", f"between {row['least_ms']:,.3f} and {row['most_ms']:,.3f} ms"
    assert any(f"{one} by what is not recorded" in said for one in bounds)


def test_nobody_is_late_and_nothing_is_to_be_repaired(run: Run, tmp_path: Path) -> None:
    write(simulate(ranks=2, steps=2, layers=1), tmp_path, traces_only=True)
    _, out, _ = run("ranks", tmp_path)
    assert "--path" in out
    assert "--what-if" not in out


@needs_corpus
def test_a_rank_that_was_late_before_its_recording_is_not_to_be_repaired(run: Run) -> None:
    """What made it late is not in the traces, so that no change of them would tell what it is worth."""
    assert CORPUS
    _, out, _ = run("ranks", CORPUS / "dlrm-8-ranks" / "kineto", env=WIDE)
    assert "it began its recording 4.52 ms later than rank5: the reason lies before the recording" in out
    assert "--what-if repair=7" not in out
    _, out, _ = run("ranks", CORPUS / "dlrm-8-ranks" / "kineto", "--what-if", "repair=7", env=WIDE)
    assert out.startswith("With rank 7 as its median peer, the recording takes 13.195 instead of 13.210 ms ")


@needs_corpus
def test_ranks_that_are_late_together_are_repaired_together(run: Run) -> None:
    assert CORPUS
    _, out, _ = run("ranks", CORPUS / "dlrm-8-ranks" / "kineto", env=WIDE)
    assert "repair of ranks 4 and 5 saves 789 us" in out
    both = next(words for words in asked_next(out) if "--what-if" in words)
    assert both[-1] == "repair=4,5"
    assert "(saves 0.789 ms," in run(*both, env=WIDE)[1]


def test_the_tables_of_a_path_are_written(run: Run, job: Path, tmp_path: Path) -> None:
    names = ("tables", "path.json", "path.md", "path.xlsx")
    folder, document, page, book = (tmp_path / name for name in names)
    files = ("--csv", folder, "-o", document, "-o", page, "-o", book)
    code, out, _ = run("ranks", job, "--path", "--step", "4", *files)
    assert code == 0
    assert "Critical path" not in out
    assert {path.stem for path in folder.glob("*.csv")} == TABLES
    found = json.loads(document.read_text())
    assert set(found["tables"]) == TABLES
    assert found["step"] == 4
    assert found["headline"].startswith("Critical path of step 4, 3 ranks: ")
    assert found["headline"] in page.read_text()
    _, out, _ = run("ranks", job, "--path", "--step", "4", "--table", "critical_path_classes", "--format", "csv")
    written = (folder / "critical_path_classes.csv").read_text()
    assert list(csv.reader(written.splitlines())) == list(csv.reader(out.splitlines()))
    assert book.stat().st_size > 5_000


def test_what_a_change_gains_is_written(run: Run, job: Path, tmp_path: Path) -> None:
    document, page, folder = tmp_path / "w.json", tmp_path / "w.md", tmp_path / "w"
    changes = ("--what-if", "repair=1", "--what-if", "collectives=2")
    code, out, _ = run("ranks", job, *changes, "-o", document, "-o", page, "--csv", folder)
    assert code == 0
    assert "takes" not in out
    found = json.loads(document.read_text())
    assert [line.split(",")[0] for line in found["headline"]] == [
        "With rank 1 as its median peer", "With collectives 2 times as fast"
    ]  # fmt: skip
    assert len(found["tables"]["what_if"]["rows"]) == 2
    assert all(line in page.read_text() for line in found["headline"])
    assert [path.name for path in folder.glob("*.csv")] == ["what_if.csv"]


@pytest.mark.parametrize(
    ("condition", "fails"),
    [
        ("path_ms > 10", True),
        ("path_ms > 1e6", False),
        ("host_percent > 50", True),
        ("copy_percent > 50", False),
        ("rank:1:percent > 50", True),
        ("rank:rank1:ms < 1", False),
    ],
)
def test_conditions_on_a_path(run: Run, job: Path, condition: str, fails: bool) -> None:
    code, out, err = run("ranks", job, "--path", "--fail-if", condition)
    assert (code, err.count("failed: "), "note: " in err) == ((3, 1, False) if fails else (0, 0, False))
    assert out.startswith("Critical path, 3 ranks: ")


def test_conditions_on_a_change(run: Run, job: Path) -> None:
    for limit, code in ((5, 3), (99, 0)):
        assert run("ranks", job, "--what-if", "repair=1", "--fail-if", f"saved_percent > {limit}")[0] == code


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--path", "-o", "r.svg"], "no svg: a critical path"),
        (["--what-if", "repair=1", "-o", "r.svg"], "no svg: a critical path"),
        (["--path", "--layout", "tracelens", "--csv", "x"], "TraceLens has no tables of a critical path"),
        (["--path", "--fail-if", "hots_ms > 1"], "there is no figure 'hots_ms'; did you mean host_ms?"),
        (["--path", "--fail-if", "waiting_ms > 1"], "there is no figure 'waiting_ms'"),
        (["--what-if", "repair=1", "--what-if", "repair=2", "--fail-if", "saved_ms > 1"], "judges one change"),
        (["--what-if", "repair="], "repair=RANK"),
        (["--what-if", "collectives=rank1"], "repair=RANK"),
    ],
)
def test_what_there_is_not_is_refused_in_one_line(
    run: Run, job: Path, arguments: list[str], said: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pytest.importorskip("matplotlib")
    monkeypatch.chdir(tmp_path)
    code, out, err = run("ranks", job, *arguments)
    assert (code, out) == (2, "")
    assert said in err
    assert err.startswith("error: ")
    assert len(err.splitlines()) == 1
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("asked", [["--path"], ["--what-if", "repair=1"], ["--table", "critical_path"]])
def test_without_gpu_work_there_is_no_path(run: Run, asked: list[str]) -> None:
    folder = CHECKOUT / "examples/traces/gloo-2-ranks"
    code, out, err = run("ranks", folder, *asked)
    assert (code, out) == (1, "")
    assert len(err.splitlines()) == 1
    assert "no GPU work is recorded, and a critical path leads over GPU work; ask next: " in err
    suggested = shlex.split(err.partition("ask next: ")[2])[1:]
    assert suggested == ["ranks", str(folder), "--table", "late_ranks"]
    assert run(*suggested)[0] == 0


def test_without_gpu_work_computation_is_not_known(run: Run) -> None:
    folder = CHECKOUT / "examples/traces/gloo-2-ranks"
    _, out, _ = run("ranks", folder, env=WIDE)
    assert "% of it is communication: " in out
    assert "--path" not in out
    assert "--what-if" not in out
    assert next(line for line in out.splitlines() if line.startswith("computing")).strip() == "computing"
    for table, column in (("rank_balance", "computing_ms"), ("rank_balance", "bubble_ms"),
                          ("rank_collectives", "overlapped_us")):  # fmt: skip
        _, out, _ = run("ranks", folder, "--table", table, "--format", "json")
        assert {row[column] for row in json.loads(out)["rows"]} == {None}
    code, _, err = run("ranks", folder, "--fail-if", "computing_ms > 1e9")
    assert code == 3
    assert "computing_ms is not known" in err


def test_a_path_on_recorded_clocks(run: Run, tmp_path: Path) -> None:
    job = simulate(ranks=4, steps=2, layers=2, nodes=2, clock_offset_us=20_000.0)
    write(job, tmp_path, traces_only=True)
    _, corrected, _ = run("ranks", tmp_path, "--path", env=WIDE)
    _, recorded, _ = run("ranks", tmp_path, "--path", "--recorded-clocks", env=WIDE)
    assert "by the ends of collectives: corrected" in corrected
    assert "by the ends of collectives: not corrected" in recorded
    assert recorded.splitlines()[0] != corrected.splitlines()[0]


def test_a_step_that_begins_elsewhere_with_the_change_says_so(run: Run, job: Path) -> None:
    """Changes are made in all steps, so the end of the step before moves, too."""
    _, out, _ = run("ranks", job, "--step", "4", "--what-if", "repair=1", env=WIDE)
    _, written, _ = run("ranks", job, "--step", "4", "--what-if", "repair=1", "--format", "json")
    (row,) = json.loads(written)["tables"]["what_if"]["rows"]
    assert row["begins_earlier_ms"] > 10
    moved = f"and ends {row['begins_earlier_ms']:,.3f} ms earlier, which is where this one begins"
    assert out.splitlines()[0].endswith(f"; the step before is changed, too, {moved}")
    _, out, _ = run("ranks", job, "--step", "3", "--what-if", "repair=1", env=WIDE)
    assert "the step before" not in out.splitlines()[0]
    _, written, _ = run("ranks", job, "--what-if", "repair=1", "--format", "json")
    assert json.loads(written)["tables"]["what_if"]["rows"][0]["begins_earlier_ms"] is None


@pytest.mark.parametrize("asked", [("--path",), ("--what-if", "repair=all"), ("--table", "critical_path")])
def test_published_operations_have_no_path(run: Run, tmp_path: Path, asked: tuple[str, ...]) -> None:
    (tmp_path / "job.parquet").write_bytes(b"PAR1")
    code, out, err = run("ranks", tmp_path / "job.parquet", *asked)
    assert (code, out) == (2, "")
    assert "operations have no path" in err
    assert err.count("\n") == 1


def test_a_trace_of_another_run_is_on_no_path(run: Run, tmp_path: Path) -> None:
    (tmp_path / "job").mkdir()
    write(simulate(ranks=3, steps=2, layers=2), tmp_path / "job", traces_only=True)
    _, path, _ = run("ranks", tmp_path / "job", "--path", "--format", "json")
    (tmp_path / "other").mkdir()
    write(simulate(ranks=1, steps=3, layers=4), tmp_path / "other", traces_only=True)
    next((tmp_path / "other").iterdir()).rename(tmp_path / "job" / "single.json.gz")
    _, beside, _ = run("ranks", tmp_path / "job", "--path", "--format", "json")
    assert json.loads(beside)["headline"] == json.loads(path)["headline"]
    assert any(note.startswith("single is left out") for note in json.loads(beside)["notes"])
