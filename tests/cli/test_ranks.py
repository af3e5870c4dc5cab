"""ranks: the screen, tables, files, conditions."""

from __future__ import annotations

import csv
import gzip
import json
import sys
from pathlib import Path

import pytest
from handmade import Run
from html_pages import read

from corpus import CORPUS, needs_corpus
from tracelens_graph.simulate import simulate, write


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with three ranks of which the second is late."""
    folder = tmp_path_factory.mktemp("job")
    write(simulate(ranks=3, steps=2, layers=1, dataloader_rank=1, dataloader_us=20_000), folder)
    for other in folder.glob("*.truth.json"):
        other.unlink()
    for other in folder.glob("*.execution-trace.json"):
        other.unlink()
    return folder


def test_the_screen(run: Run, job: Path) -> None:
    code, out, _ = run("ranks", job)
    assert code == 0
    lines = out.splitlines()
    assert lines[0] == "3 ranks on 1 host (NVIDIA H100 SXM5), 2 steps each, 8 collectives that ranks share"
    assert lines[2].startswith("A step takes ")
    assert "late: rank 1, by 18.9 ms a step, 37.9 ms" in out  # without the loader the job takes 37.92 ms less
    asked = ("--table late_ranks", "--what-if repair=1", "--path")
    assert lines[-3:] == [f"ask next: tracelens-graph ranks {job} {more}" for more in asked]
    assert len(lines) <= 40


@pytest.mark.parametrize("width", [60, 80, 100, 200])
def test_lines_fit(run: Run, job: Path, width: int) -> None:
    _, out, _ = run("ranks", job, env={"COLUMNS": str(width)})
    assert all(len(line) <= width for line in out.splitlines() if not line.startswith("ask next"))


def test_tables_for_programs(run: Run, job: Path, tmp_path: Path) -> None:
    code, out, _ = run("ranks", job, "--table", "rank_balance", "--format", "csv")
    assert code == 0
    rows = list(csv.DictReader(out.splitlines()))
    assert [row["rank"] for row in rows] == ["0", "1", "2"]
    assert max(rows, key=lambda row: float(row["held_up_ms"]))["rank"] == "1"
    _, out, _ = run("ranks", job, "--top", "0", "--format", "json")
    assert len(json.loads(out)["tables"]["rank_collectives"]["rows"]) == 8
    code, out, err = run("ranks", job, "--table", "rank_balances")
    assert (code, out) == (2, "")
    assert "there is no table 'rank_balances'; did you mean rank_balance" in err


def test_files(run: Run, job: Path, tmp_path: Path) -> None:
    names = ("tables", "ranks.json", "ranks.md", "ranks.xlsx")
    folder, document, page, book = (tmp_path / name for name in names)
    code, _, _ = run("ranks", job, "--csv", folder, "-o", document, "-o", page, "-o", book)
    assert code == 0
    found = json.loads(document.read_text())
    assert set(found["tables"]) == {path.stem for path in folder.glob("*.csv")}
    assert found["late"][0].startswith("late: rank 1, ")
    assert "data loader" in found["late"][0]
    assert found["headline"] in page.read_text()
    assert book.stat().st_size > 5_000
    code, _, err = run("ranks", job, "-o", job / "rank0.json.gz", "--force")
    assert code != 0
    assert "rank0.json.gz" in err


def test_conditions(run: Run, job: Path) -> None:
    code, _, err = run(
        "ranks", job, "--fail-if", "exposed_waiting_percent > 5", "--fail-if", "rank:rank1:held_up_ms > 9"
    )
    assert code == 3
    assert err.count("failed: ") == 2
    code, _, err = run("ranks", job, "--fail-if", "kind:allreduce:bus_gb_s < 1", "--fail-if", "waiting_ms > 1e9")
    assert (code, "failed" in err) == (0, False)
    code, _, err = run("ranks", job, "--fail-if", "waiting > 1")
    assert code == 2
    assert "there is no figure 'waiting'" in err


@pytest.mark.parametrize("name", ["1", "rank1"])
def test_a_rank_is_called_by_number_or_name(run: Run, job: Path, name: str) -> None:
    code, _, err = run("ranks", job, "--fail-if", f"rank:{name}:held_up_ms > 9")
    assert (code, err.count("failed: ")) == (3, 1)
    code, _, err = run("ranks", job, "--fail-if", f"rank:{name}:held_up_ms < 9")
    assert (code, err) == (0, "")
    code, out, _ = run("ranks", job, "--what-if", f"repair={name}", "--format", "json")
    assert code == 0
    (row,) = json.loads(out)["tables"]["what_if"]["rows"]
    assert row["change"] == "rank 1 as its median peer"
    assert row["saved_ms"] > 10


@pytest.mark.parametrize("name", ["7", "rank7", "1.5"])
def test_a_rank_that_is_not_there_is_told_in_one_line(run: Run, job: Path, name: str) -> None:
    there = "0 (rank0), 1 (rank1), 2 (rank2)"
    code, out, err = run("ranks", job, "--fail-if", f"rank:{name}:held_up_ms > 9")
    assert (code, out) == (1, "")
    assert err == f"error: --fail-if: rank:{name}:held_up_ms: there is no rank {name} among {there}\n"
    code, out, err = run("ranks", job, "--what-if", f"repair={name}")
    assert (code, out) == (1, "")
    assert err == f"error: what_if: repair: there is no rank {name} among {there}\n"


def test_a_window(run: Run, job: Path) -> None:
    documents = (run("ranks", job, *window, "--format", "json")[1] for window in (["--step", "3"], []))
    part, whole = (len(json.loads(one)["tables"]["rank_collectives"]["rows"]) for one in documents)
    assert 0 < part < whole


def test_why_a_rank_is_late_in_a_step_is_looked_for_before_the_step(run: Run, job: Path) -> None:
    """The data loader of a step runs before its first kernel."""
    code, out, _ = run("ranks", job, "--step", "4", env={"COLUMNS": "200"})
    assert code == 0
    assert "late: rank 1, by " in out
    assert "data loader" in out
    _, out, _ = run("ranks", job, "--step", "4", "--table", "late_arrivals", "--format", "json")
    of_step = json.loads(out)["rows"]
    _, out, _ = run("ranks", job, "--table", "late_arrivals", "--format", "json")
    whole = json.loads(out)["rows"]
    assert sorted(row["late_us"] for row in of_step) == sorted(row["late_us"] for row in whole if row["step"] == 4)


def test_one_trace_is_no_job(run: Run, job: Path) -> None:
    code, out, err = run("ranks", job / "rank0.json.gz")
    assert (code, out) == (1, "")
    assert err.startswith("error: ")
    assert "one trace alone" in err


def test_the_trace_that_is_left_is_named(run: Run, job: Path, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("hello")
    (tmp_path / "rank0.json.gz").write_bytes((job / "rank0.json.gz").read_bytes())
    assert f"error: {tmp_path / 'rank0.json.gz'}: one trace alone" in run("ranks", tmp_path)[2]


def test_files_of_one_rank_are_told(run: Run, job: Path, tmp_path: Path) -> None:
    for file in job.glob("*.json*"):
        (tmp_path / file.name).write_bytes(file.read_bytes())
    (tmp_path / "zz.json.gz").write_bytes((job / "rank1.json.gz").read_bytes())
    code, out, _ = run("ranks", tmp_path, env={"COLUMNS": "200"})
    assert code == 0
    assert "rank1 and zz are both rank 1" in out


@pytest.mark.parametrize("whole", [0, 3])
def test_broken_files_end_reports_and_ranks_alike(run: Run, job: Path, tmp_path: Path, whole: int) -> None:
    """One has no event left, one is cut before its GPU events, one is not a trace."""
    for file in sorted(job.glob("*.json*"))[:whole]:
        (tmp_path / file.name).write_bytes(file.read_bytes())
    (tmp_path / "rank7.json").write_text('{"traceEvents": [')
    event = '{"ph": "X", "cat": "cpu_op", "name": "mm", "ts": 1, "dur": 2}'
    (tmp_path / "rank8.json").write_text(f'{{"traceEvents": [{event}, ')
    (tmp_path / "rank9.json").write_text("junk")
    for command in (["report"], ["ranks"], ["ranks", "--path"]):
        code, out, err = run(*command, tmp_path)
        assert (code, bool(out)) == (1, bool(whole)), (command, err)
        assert all(f"rank{number}" in err for number in (7, 8, 9))


@pytest.mark.parametrize(("command", "figure"), [("ranks", "exposed_waiting_percent"), ("report", "idle_percent")])
def test_a_file_that_is_no_trace_fails_a_condition_alone(
    run: Run, job: Path, tmp_path: Path, command: str, figure: str
) -> None:
    for file in job.glob("*.json*"):
        (tmp_path / file.name).write_bytes(file.read_bytes())
    (tmp_path / "rank9.json").write_text("junk")
    assert run(command, tmp_path)[0] == 0
    assert run(command, tmp_path, "--fail-if", f"{figure} > 100")[0] == 1


def test_the_same_file_twice_is_no_job(run: Run, job: Path) -> None:
    file = job / "rank0.json.gz"
    assert run("ranks", file, file) == (
        1, "", f"error: {file}: one file, named 2 times; ranks are compared with one another, so name all of a job\n"
    )  # fmt: skip


def test_a_rank_of_another_job_is_told(run: Run, job: Path, tmp_path: Path) -> None:
    for file in job.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    other = simulate(ranks=2, steps=1, layers=1, seed=9).ranks[1].trace
    (tmp_path / "rank9.json.gz").write_bytes(gzip.compress(json.dumps(other).encode()))
    code, out, err = run("ranks", tmp_path)
    assert code == 0
    assert "rank9 is of a job of 2 ranks, the others of 3" in err
    assert "rank 1 is there more than once" in err
    assert "rank9 is left out, as it comes from another run" in out


def test_what_does_not_go_together(run: Run, job: Path) -> None:
    for arguments in (["--layout", "tracelens"], ["--lenient"],
                      ["--layout", "tracelens", "--csv", "x", "--table", "rank_times"]):  # fmt: skip
        code, _, err = run("ranks", job, *arguments)
        assert (code, err.count("error")) == (2, 1)


def test_draws(run: Run, job: Path, tmp_path: Path) -> None:
    page = tmp_path / "ranks.html"
    assert run("ranks", job, "-o", page) == (0, f"wrote {page}\n", "")
    held = read(page.read_text())
    assert held.head["title"] == f"Ranks of {job.name}"
    assert held.head["overview"]["late"][0].startswith("late: rank 1, by ")
    assert run("ranks", job, "-o", page, "--step", "3")[0] == 0
    _, out, _ = run("ranks", job, "--step", "3", "--table", "rank_steps", "--format", "csv")
    assert [row["step"] for row in csv.DictReader(out.splitlines()[:4])] == ["3"] * 3
    assert read(page.read_text()).body["step"]["step"] == 3


def test_draws_pictures(run: Run, job: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    for suffix, begin in (("png", b"\x89PNG\r\n"), ("svg", b"<?xml")):
        picture = tmp_path / f"r.{suffix}"
        code, out, err = run("ranks", job, "-o", picture)
        assert (code, out, err) == (0, f"wrote {picture}\n", "")
        assert picture.read_bytes().startswith(begin)
        assert run("ranks", job, "-o", picture)[0] == 0, "what the tool drew is replaced"


def test_what_is_not_drawn_is_refused_before_traces_are_read(
    run: Run, job: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, out, err = run("ranks", job, "-o", tmp_path / "r.pdf")
    assert (code, out) == (2, "")
    assert "name a file .html, .png, .svg, " in err
    (tmp_path / "mine.html").write_text("precious")
    code, _, err = run("ranks", job, "-o", tmp_path / "mine.html")
    assert code == 1
    assert "mine.html: was not written by" in err
    assert (tmp_path / "mine.html").read_text() == "precious"
    code, _, err = run("ranks", job, "-o", tmp_path / "r.html", "--layout", "tracelens", "--csv", tmp_path / "t")
    assert code == 2
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    code, _, err = run("ranks", tmp_path / "absent.json", "-o", tmp_path / "r.svg")
    assert code == 1
    assert "pip install '.[plot]'" in err
    code, _, err = run("ranks", job, "--path", "-o", tmp_path / "r.html")
    assert code == 2
    assert "no html: a critical path (--path, --what-if) is written as xlsx" in err
    assert not (tmp_path / "r.html").exists()


@needs_corpus
def test_eight_real_ranks(run: Run) -> None:
    assert CORPUS
    code, out, err = run("ranks", CORPUS / "dlrm-8-ranks" / "kineto")
    assert (code, err) == (0, "")
    assert "rank 7 came 4.67 ms later to the first all_to_all than the median rank, ranks 0, 2 and 6" in out


def _folder_of(job: Path, folder: Path) -> Path:
    for file in job.iterdir():
        (folder / file.name).write_bytes(file.read_bytes())
    return folder


@pytest.mark.parametrize("others", ["alone", "of two"])
def test_a_trace_of_another_run_enters_no_figure(run: Run, job: Path, tmp_path: Path, others: str) -> None:
    _, expected, _ = run("ranks", job, "--top", "0", "--format", "json")
    size = 1 if others == "alone" else 2
    other = simulate(ranks=size, steps=2, layers=3, seed=9).ranks[0].trace
    (_folder_of(job, tmp_path) / "single.json.gz").write_bytes(gzip.compress(json.dumps(other).encode()))
    code, out, _ = run("ranks", tmp_path, "--top", "0", "--format", "json")
    assert code == 0
    found, without = json.loads(out), json.loads(expected)
    assert found["headline"] == without["headline"]
    assert found["late"][0] == without["late"][0]
    assert [line for line in found["late"] if "single is left out" in line]
    for name in ("rank_times", "rank_balance", "rank_steps", "slowdown"):
        assert found["tables"][name]["rows"] == without["tables"][name]["rows"]


def test_a_rank_without_gpu_work_shortens_no_step(run: Run, job: Path, tmp_path: Path) -> None:
    file = _folder_of(job, tmp_path) / "rank2.json.gz"
    trace = json.loads(gzip.decompress(file.read_bytes()))
    gpu = ("kernel", "gpu_memcpy", "gpu_memset")
    trace["traceEvents"] = [one for one in trace["traceEvents"] if one.get("cat") not in gpu]
    file.write_bytes(gzip.compress(json.dumps(trace).encode()))
    _, out, _ = run("ranks", tmp_path, "--format", "json")
    found = json.loads(out)
    rows = found["tables"]["rank_times"]["rows"]
    (step,) = [row for row in rows if row["time"] == "step"]
    parts = [row["mean_ms"] for row in rows if row["time"] in ("computing", "exposed", "copying", "idle")]
    assert sum(parts) == pytest.approx(step["mean_ms"], rel=1e-6)
    steps = [row["device_step_ms"] for row in found["tables"]["rank_steps"]["rows"] if row["rank"] != 2]
    assert step["mean_ms"] == pytest.approx(sum(steps) / len(steps))
    assert [line for line in found["late"] if "rank 2" in line and "no GPU work" in line]
