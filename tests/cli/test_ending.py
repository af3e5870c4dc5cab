"""How the program ends: signals, closed streams, too little memory or descriptors."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tracelens_graph.simulate import simulate, write

pytestmark = pytest.mark.proof

PROGRAM = f"{shlex.quote(sys.executable)} -m tracelens_graph"


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The traces of three ranks, and some room for temporary files."""
    folder = tmp_path_factory.mktemp("job")
    for path in write(simulate(ranks=3, steps=2, layers=1), tmp_path_factory.mktemp("simulated")):
        shutil.copy(path, folder)
    return folder


def shell(command: str, temporary: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-c", command], capture_output=True, text=True, env={**os.environ, "TMPDIR": str(temporary)},
        timeout=120, check=False,
    )  # fmt: skip


@pytest.mark.parametrize(
    "command", ["ask slowest_ranks {}", "report {}", "info {}/rank0.json.gz", "--version", "--help"]
)
def test_closed_streams(job: Path, tmp_path: Path, command: str) -> None:
    command = f"{PROGRAM} {command.format(job)}"
    usual = shell(command, tmp_path)
    assert usual.returncode == 0
    silent = shell(f"{command} 2>&-", tmp_path)
    assert (silent.returncode, silent.stdout) == (0, usual.stdout)
    closed = shell(f"{command} >&-", tmp_path)
    assert (closed.returncode, closed.stdout, closed.stderr) == (0, "", usual.stderr)
    assert shell(f"{command} >&- 2>&-", tmp_path).returncode == 0
    nothing_in = shell(f"{PROGRAM} info - <&-", tmp_path)
    assert (nothing_in.returncode, nothing_in.stderr) == (
        1,
        "error: <stdin>: is closed: name a file, or pipe a trace in\n",
    )
    empty = shell(f"{PROGRAM} info - </dev/null", tmp_path)
    assert (empty.returncode, empty.stderr) == (1, "error: <stdin>: is empty, not a trace\n")


@pytest.mark.parametrize("closed", [">&-", ">&- 2>&-", ">&- 2>&- <&-", "2>&- <&-"])
@pytest.mark.parametrize(
    ("command", "written"),
    [
        ("report {trace} --no-models --csv {out}", "gpu_timeline.csv"),
        ("report {trace} --no-models -f json -o {out}", ""),
        ("diff --by-name {trace} {trace} --names a,b --csv {out}", "gpu_timeline.csv"),
        ("save {trace} -o {out}", ""),
        ("export {trace} -f csv -o {out}", "nodes.csv"),
        ("cut {trace} --step 3 -o {out}.json", ""),
        ("db export {out} {trace}", "import.args"),
        ("db queries --save {out}", "queries.zip"),
    ],
)
def test_files_are_written_also_where_streams_are_closed(
    job: Path, tmp_path: Path, command: str, written: str, closed: str
) -> None:
    out = tmp_path / "out"
    found = shell(f"{PROGRAM} {command.format(trace=job / 'rank0.json.gz', out=out)} {closed}", tmp_path)
    assert found.returncode == 0
    assert not found.stderr or found.stderr.startswith("wrote 6 tables")  # compare says it there
    assert (out / written if written else next(tmp_path.glob("out*"))).stat().st_size


def test_exit_codes_stay_what_they_are_where_standard_output_is_closed(job: Path, tmp_path: Path) -> None:
    trace = job / "rank0.json.gz"
    assert shell(f"{PROGRAM} timeline {trace} --no-such-option >&-", tmp_path).returncode == 2
    found = shell(f"{PROGRAM} report {trace} --no-models --fail-if 'idle_percent >= 0' >&-", tmp_path)
    assert found.returncode == 3


def test_descriptors_of_closed_streams_are_not_taken_by_files(job: Path, tmp_path: Path) -> None:
    """What a library writes to descriptor 1 must not end up in a file that happens to have it."""
    script = """
import os, sys
from pathlib import Path
from tracelens_graph.output import files
from tracelens_graph.cli.ending import open_standard_streams
open_standard_streams()
with files.replacing(sys.argv[1]) as file:
    file.write(b"ours")
    os.write(1, b"noise")
    os.write(2, b"noise")
"""
    out = tmp_path / "out"
    command = [sys.executable, "-c", script, str(out)]
    assert shell(f"{shlex.join(command)} >&- 2>&- <&-", tmp_path).returncode == 0
    assert out.read_bytes() == b"ours"


@pytest.mark.parametrize("module", ["app", "report"])
def test_an_interrupt_while_the_program_imports_itself_ends_it_without_a_word(
    job: Path, tmp_path: Path, module: str
) -> None:
    """Interrupted where the program is imported, or its command."""
    script = f"""
import os, signal, sys, types
class Interrupt:
    def find_spec(self, name, *_):
        if name == "tracelens_graph.cli.{module}":
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Interrupt())
from tracelens_graph.cli import main
main()
"""
    found = shell(shlex.join([sys.executable, "-c", script, "report", str(job)]), tmp_path)
    assert (found.returncode, found.stdout, found.stderr) == (130, "", "")


def test_an_interrupt_at_work_still_unwinds(tmp_path: Path) -> None:
    script = """
import os, signal
from tracelens_graph.cli import app, main, tables, traces
def interrupted(*_):
    try:
        os.kill(os.getpid(), signal.SIGINT)
    finally:
        print("cleaned up")
traces._one_file = interrupted
main()
"""
    found = shell(shlex.join([sys.executable, "-c", script, "info", "x.json"]), tmp_path)
    assert (found.returncode, found.stdout, found.stderr) == (130, "cleaned up\n", "")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_leaves_no_temporary_files(job: Path, tmp_path: Path, number: signal.Signals) -> None:
    pipe = job.with_name("never.json")
    if not pipe.exists():
        os.mkfifo(pipe)
    program = subprocess.Popen(
        [sys.executable, "-m", "tracelens_graph", "ask", "slowest_ranks", str(job), str(pipe)],
        env={**os.environ, "TMPDIR": str(tmp_path)}, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    end = time.monotonic() + 60
    while not list(tmp_path.iterdir()):  # it waits for the pipe, with its folder made
        assert time.monotonic() < end
        time.sleep(0.05)
    program.send_signal(number)
    assert program.communicate(timeout=60)[1] == ""
    assert program.returncode == 128 + number
    assert not list(tmp_path.iterdir())


def test_a_terminal_that_closes_sends_two_signals() -> None:
    script = """
import os, signal
from tracelens_graph.cli.ending import ending_on_signals
with ending_on_signals():
    try:
        os.kill(os.getpid(), signal.SIGHUP)
    finally:
        os.kill(os.getpid(), signal.SIGHUP)
        print("cleaned up")
"""
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert (found.returncode, found.stdout) == (128 + signal.SIGHUP, "cleaned up\n")


@pytest.mark.parametrize("limit", ["-v 130000", "-n 8", "-n 12"])
def test_limits_end_in_a_line_or_an_answer(job: Path, tmp_path: Path, limit: str) -> None:
    for command in ("report", "ask slowest_ranks"):
        found = shell(f"ulimit {limit}; {PROGRAM} {command} {job}", tmp_path)
        assert (found.returncode == 0) != found.stderr.startswith("error: ")
        assert len(found.stderr.splitlines()) == (0 if found.returncode == 0 else 1)
        assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("swallowed", [False, True])
def test_a_signal_gives_its_exit_code_even_where_its_exception_is_lost(swallowed: bool) -> None:
    """Python drops an exception that is raised while an object is taken away."""
    script = f"""
import os, signal, sys
from contextlib import suppress
from tracelens_graph.cli.ending import ending_on_signals
with ending_on_signals():
    with suppress(BaseException) if {swallowed} else open(os.devnull):
        os.kill(os.getpid(), signal.SIGTERM)
    sys.exit(3)
"""
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert (found.returncode, found.stderr) == (128 + signal.SIGTERM, "")
