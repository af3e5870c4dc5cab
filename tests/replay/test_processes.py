"""Scripts in processes of their own: results, errors, crashes, time limits, and nothing that stays behind."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import fake_torch
import pytest

from tracelens_graph.replay.verify.processes import Order, Ran, run_scripts

CRASH = "import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)\n"
PIDS = "import os, sys\nopen(sys.argv[1], 'a').write(f'{os.getpid()}\\n')\n"


@pytest.fixture
def torch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PYTHONPATH", str(fake_torch.install(tmp_path)))
    return tmp_path


def ran(folder: Path, *sources: str, arguments: Sequence[str] = (), timeout_s: float = 20) -> list[Ran]:
    scripts = []
    for at, source in enumerate(sources):
        path = folder / f"{at}.py"
        path.write_text(source)
        scripts.append(Order(str(path), tuple(arguments)))
    return list(run_scripts(scripts, sys.executable, folder, timeout_s))


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    stat = Path(f"/proc/{pid}/stat")
    return not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] != "Z"


def test_scripts_run_one_after_another_in_one_process(torch: Path) -> None:
    pids = torch / "pids"
    found = ran(torch, PIDS, PIDS + "print('noise')\n", PIDS, arguments=[str(pids)])
    assert [one.error for one in found] == [""] * 3
    assert all(one.device == "cpu" and 0 < one.seconds < 20 for one in found)
    assert len(set(pids.read_text().split())) == 1


@pytest.mark.parametrize(
    ("source", "error"),
    [
        ("1 / 0\n", "ZeroDivisionError: division by zero"),
        ("import sys\nprint('first\\nlast', file=sys.stderr)\nsys.exit(1)\n", "last"),
        ("import sys\nsys.exit('said')\n", "said"),
        ("import sys\nsys.exit(4)\n", "exit code 4"),
        ("import os\nos._exit(3)\n", "ended with exit code 3"),
        ("raise ValueError('x' * 999)\n", f"ValueError: {'x' * 285}..."),
        (CRASH, "was killed by SIGSEGV"),
    ],
)
def test_what_fails_is_told_and_lost_alone(torch: Path, source: str, error: str) -> None:
    before, failed, after = ran(torch, "", source, "")
    assert (before.error, failed.error, after.error) == ("", error, "")


def test_a_failure_on_a_gpu_ends_the_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(fake_torch.install(tmp_path, on_gpu=True)))
    pids = tmp_path / "pids"
    found = ran(tmp_path, PIDS, PIDS + "1 / 0\n", PIDS, arguments=[str(pids)])
    assert [one.device for one in found] == ["cuda"] * 3
    first, second, third = pids.read_text().split()
    assert first == second != third


def test_what_takes_too_long_is_killed_with_its_children(torch: Path) -> None:
    pid = torch / "pid"
    source = (
        "import subprocess, sys\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(99)'])\n"
        "open(sys.argv[1], 'w').write(str(child.pid))\nchild.wait()\n"
    )
    first, second = ran(torch, source, "", arguments=[str(pid)], timeout_s=3)
    assert (first.error, second.error) == ("took longer than 3 s", "")
    end = time.monotonic() + 60
    while is_alive(int(pid.read_text())) and time.monotonic() < end:
        time.sleep(0.02)
    assert not is_alive(int(pid.read_text()))


def test_processes_end_with_whoever_reads_their_results(torch: Path) -> None:
    pids = torch / "pids"
    (torch / "own.py").write_text(PIDS)
    results = run_scripts([Order(str(torch / "own.py"), (str(pids),))] * 3, sys.executable, torch, 20)
    next(results)
    results.close()
    assert not is_alive(int(pids.read_text()))
