"""The program as a user runs it: exit codes, streams, start-up."""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
from pathlib import Path

import pytest
from handmade import Run

import tracelens_graph
from corpus import parametrize, xplane_files
from tracelens_graph.cli.app import QUESTIONS

PROGRAM = [sys.executable, "-c", "from tracelens_graph.cli import main; main()"]


def program(*arguments: object, **options: object) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "COLUMNS": "200", "NO_COLOR": "1"}
    command = [*PROGRAM, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, env=environment, **options)  # type: ignore[call-overload, no-any-return]


def test_version() -> None:
    done = program("--version")
    assert (done.returncode, done.stdout) == (0, f"tracelens-graph {tracelens_graph.__version__}\n")


def test_hostile_file_name_is_one_harmless_line() -> None:
    done = program("info", "/nowhere/\x1b[31m\nred")
    assert done.returncode == 1
    assert done.stderr == "error: /nowhere/\\x1b[31m red: no such file or directory\n"


def test_debug_shows_the_traceback_wherever_it_stands() -> None:
    for arguments in (["--debug", "info", "/nowhere"], ["info", "/nowhere", "--debug"]):
        done = program(*arguments)
        assert done.returncode == 1
        assert done.stderr.startswith("Traceback")
        assert done.stderr.rstrip().endswith("TraceError: /nowhere: no such file or directory")


def test_standard_input(trace_file: Path) -> None:
    packed = gzip.compress(trace_file.read_bytes())
    done = subprocess.run([*PROGRAM, "timeline", "-", "-f", "csv"], input=packed, capture_output=True, check=True)
    assert done.stdout.decode() == program("timeline", trace_file, "-f", "csv").stdout


CLOSED_PIPE = [["tree", "{}"], ["report", "{}", "-f", "html", "-o", "-"], ["diff", "{}", "{}", "-f", "html", "-o", "-"],
               ["export", "{}", "-f", "perfetto", "-o", "-"], ["save", "{}", "-o", "-"]]  # fmt: skip


@pytest.mark.parametrize("words", CLOSED_PIPE, ids=" ".join)
def test_closed_pipe_is_quiet(words: list[str], trace_file: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb") as closed:
        command = [*PROGRAM, *(word.format(trace_file) for word in words)]
        done = subprocess.run(command, stdout=closed, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (141, "")


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_reader_may_leave_in_the_middle(unbuffered: str, trace_file: Path) -> None:
    """A write that a pipe took in part is told from a whole one, whether Python buffers standard output or not."""
    environment = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
    command = [*PROGRAM, "report", str(trace_file), "-f", "html", "-o", "-"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment) as running:
        assert running.stdout is not None
        assert running.stderr is not None
        assert running.stdout.read(10) == b"<!DOCTYPE "
        running.stdout.close()
        assert running.stderr.read() == b""
    assert running.returncode == 141


def test_files_of_other_kinds_are_named(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "t.pftrace"
    path.write_bytes(b"\x0a\x04\x40\xff\x01\xff")
    code, out, err = run("info", path)
    assert (code, out) == (1, "")
    (line,) = err.splitlines()
    assert line.startswith(f"error: {path}: is a")
    assert "protocol buffer" in line


@parametrize("path", xplane_files())
def test_profiles_of_jax_have_a_report(run: Run, path: Path) -> None:
    code, out, err = run("report", path)
    assert (code, err) == (0, "")
    assert "Operations with most GPU time" in out


def test_csv_imports_nothing_it_does_not_need(trace_file: Path) -> None:
    snippet = (
        "import atexit, sys\n"
        "atexit.register(lambda: print(*sys.modules, sep='\\n', file=sys.stderr))\n"
        "from tracelens_graph.cli import main\n"
        "main()\n"
    )
    command = [sys.executable, "-c", snippet, "timeline", str(trace_file), "--format", "csv"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("type,time ms,percent\n")
    assert {"pandas", "networkx", "neo4j", "rich.table"}.isdisjoint(done.stderr.split())


@pytest.mark.parametrize("command", ["report", "info", "tree"])
def test_an_empty_name_is_said_to_be_empty(run: Run, command: str) -> None:
    assert run(command, "") == (2, "", "error: the name is empty; name a trace\n")


def test_the_help_says_which_command_answers_what(run: Run, trace_file: Path, tmp_path: Path) -> None:
    code, out, _ = run("--help")
    assert code == 0
    assert out.index("Start here") < out.index(" ask ") < out.index("More") < out.index("I want to know")
    assert run("db", "--help")[1].count("More") == 0
    stands_for = dict.fromkeys(("TRACE", "BEFORE", "AFTER"), trace_file) | {"N": 1}
    for command in QUESTIONS.values():
        folder = trace_file.parent if command == "ranks FOLDER" else tmp_path / "folder"
        words = [{**stands_for, "FOLDER": folder}.get(word, word) for word in command.split()]
        code, _, error = run(*words)
        assert code < 2, error
