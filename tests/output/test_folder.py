"""Several files of one output: all of them or none, and only files that are ours are replaced."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tracelens_graph.errors import OutputError
from tracelens_graph.output.files import Protection, protecting
from tracelens_graph.output.folder import writing_folder
from tracelens_graph.simulate import simulate, write

PROGRAM = [sys.executable, "-c", "from tracelens_graph.cli import main; main()"]


def write_two(folder: Path, text: bytes, **given: Any) -> None:
    with protecting(Protection()), writing_folder(folder, ["a.csv", "b.csv"], **given) as output:
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


@pytest.mark.parametrize("is_there", [False, True])
def test_a_run_that_is_killed_leaves_the_folder_as_it_was(tmp_path: Path, is_there: bool) -> None:
    folder = tmp_path / "tables"
    if is_there:
        write_two(folder, b"older")
    before = content(folder) if is_there else {}
    snippet = """
import os, signal, sys
from tracelens_graph.output.folder import writing_folder
with writing_folder(sys.argv[1], ["a.csv", "b.csv"]) as output:
    with output.file("a.csv") as file:
        file.write(b"newer")
    os.kill(os.getpid(), signal.SIGKILL)
"""
    assert subprocess.run([sys.executable, "-c", snippet, folder], check=False).returncode == -signal.SIGKILL
    (left,) = (path for path in folder.iterdir() if path.is_dir())
    assert {name: text for name, text in content(folder).items() if left.name not in name} == before
    os.utime(left, (0, 0))  # nobody uses it any more
    write_two(folder, b"newest")
    assert content(folder) == {"a.csv": b"newest", "b.csv": b"newest"}


def test_files_are_replaced_where_nothing_but_files_of_their_kind_is(tmp_path: Path) -> None:
    write_two(tmp_path, b"older")
    (tmp_path / "c.csv").write_bytes(b"of another command")
    with pytest.raises(OutputError, match=r"a.csv: was not written by"):
        write_two(tmp_path, b"newer")
    assert (tmp_path / "a.csv").read_bytes() == b"older"
    write_two(tmp_path, b"newer", is_known=lambda path: path.name in ("a.csv", "b.csv"))
    assert (tmp_path / "a.csv").read_bytes() == b"newer"
    (tmp_path / "a.csv").unlink()
    (tmp_path / "b.csv").unlink()
    write_two(tmp_path, b"newest")  # nothing is in the way
    assert content(tmp_path) == {"a.csv": b"newest", "b.csv": b"newest", "c.csv": b"of another command"}


@pytest.mark.parametrize(
    "words",
    [
        "report TRACE --csv PLACE", "diff --by-name TRACE TRACE --names a,b --csv PLACE",
        "export TRACE -f csv -o PLACE",
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
