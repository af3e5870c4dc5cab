"""Several files of one output: all of them or none, and the folder says so where neither could be done."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tracelens_graph.errors import OutputError, TraceError
from tracelens_graph.output.files import Protection, protecting
from tracelens_graph.output.folder import writing_folder
from tracelens_graph.output.marks import is_broken
from tracelens_graph.simulate import simulate, write
from tracelens_graph.stores.csv_tables import CsvTables

PROGRAM = [sys.executable, "-c", "from tracelens_graph.cli import main; main()"]


def write_two(folder: Path, text: bytes) -> None:
    with protecting(Protection()), writing_folder(folder, ["a.csv", "b.csv"]) as output:
        for name in ("a.csv", "b.csv"):
            with output.file(name) as file:
                file.write(text)


def content(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()
    }


@pytest.mark.parametrize("error", [KeyboardInterrupt(), OSError(28, "No space left on device")])
def test_a_folder_is_as_it_was_when_writing_fails(tmp_path: Path, error: BaseException) -> None:
    def fail(folder: Path) -> None:
        with writing_folder(folder, ["a.csv", "b.csv"]) as output:
            with output.file("a.csv") as file:
                file.write(b"newer")
            with output.file("b.csv") as file:
                file.write(b"half")
                raise error

    wanted = OutputError if isinstance(error, OSError) else KeyboardInterrupt
    with pytest.raises(wanted) as told:
        fail(tmp_path / "deep" / "new")
    if isinstance(error, OSError):
        assert str(told.value) == f"{tmp_path / 'deep' / 'new' / 'b.csv'}: cannot be written: no space left on device"
    assert not (tmp_path / "deep").exists(), "nothing is left"
    write_two(tmp_path / "old", b"older")
    before = content(tmp_path / "old")
    with pytest.raises(wanted):
        fail(tmp_path / "old")
    assert content(tmp_path / "old") == before


def test_files_broken_off_while_they_move_are_told_and_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_two(tmp_path, b"older")
    whole = os.replace

    def once(source: Path, target: Path) -> None:
        if target.name == "b.csv":
            raise OSError(5, "Input/output error")
        whole(source, target)

    with monkeypatch.context() as patched:
        patched.setattr(os, "replace", once)
        with pytest.raises(OutputError, match=r"b.csv: cannot be written: input/output error"):
            write_two(tmp_path, b"newer")
    assert (tmp_path / "a.csv").read_bytes() == b"newer"
    assert (tmp_path / "b.csv").read_bytes() == b"older"
    assert is_broken(tmp_path)
    with pytest.raises(TraceError, match="is incomplete: writing it was broken off"):
        CsvTables(tmp_path)
    write_two(tmp_path, b"newest")
    assert not is_broken(tmp_path)
    assert set(CsvTables(tmp_path)) == {"a", "b"}


@pytest.mark.parametrize("stage", ["writing", "moving"])
@pytest.mark.parametrize("is_there", [False, True])
def test_a_killed_run_is_told_or_replaced(tmp_path: Path, stage: str, is_there: bool) -> None:
    folder = tmp_path / "tables"
    if is_there:
        write_two(folder, b"older")
    before = content(folder) if is_there else {}
    snippet = f"""
import os, signal, sys
from pathlib import Path
from tracelens_graph.output import folder as output_folder
whole = os.replace
def killed(source, target):
    if target.name == "b.csv":
        os.kill(os.getpid(), signal.SIGKILL)
    whole(source, target)
if {stage == "moving"}:
    os.replace = killed
with output_folder.writing_folder(sys.argv[1], ["a.csv", "b.csv"]) as output:
    for name in ("a.csv", "b.csv"):
        with output.file(name) as file:
            file.write(b"newer")
            if {stage == "writing"} and name == "b.csv":
                os.kill(os.getpid(), signal.SIGKILL)
"""
    assert subprocess.run([sys.executable, "-c", snippet, folder], check=False).returncode == -signal.SIGKILL
    if stage == "writing":
        seen = {name: text for name, text in content(folder).items() if ".part/" not in name}
        assert seen == before, "what stood there is as it was"
    else:
        assert is_broken(folder)
    write_two(folder, b"newest")
    assert not is_broken(folder)
    assert {path.name for path in folder.iterdir()} == {"a.csv", "b.csv", ".tracelens_graph.sums"}
    assert (folder / "a.csv").read_bytes() == b"newest"


@pytest.mark.parametrize(
    "words",
    [
        "report TRACE --csv PLACE", "compare TRACE TRACE --names a,b --csv PLACE", "export TRACE -f csv -o PLACE",
        "export TRACE -f parquet -o PLACE", "db export PLACE TRACE",
    ],
)  # fmt: skip
def test_a_full_disk_leaves_nothing_and_names_the_file(tmp_path: Path, words: str) -> None:
    (trace,) = write(simulate(ranks=1, steps=2, layers=1), tmp_path / "traces")
    place = tmp_path / "deep" / "out"
    done = subprocess.run(
        [*PROGRAM, *(word.replace("TRACE", str(trace)).replace("PLACE", str(place)) for word in words.split())],
        capture_output=True, text=True, check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (2048, 2048)),
    )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr.startswith(f"error: {place}")
    assert done.stderr.endswith(": cannot be written: file too large\n")
    assert len(done.stderr.splitlines()) == 1
    assert ".part" not in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["traces"]


def test_standard_output_is_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(OutputError, match=r"-: is standard output, which takes one file"):
        write_two(Path("-"), b"")
    assert not list(tmp_path.iterdir())
