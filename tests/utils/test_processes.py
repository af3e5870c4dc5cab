"""Work in several processes: order, errors, and that none is left behind however things end."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
import warnings
from pathlib import Path
from typing import Any

import pytest

from tracelens_graph.errors import MissingExtraError, TraceError, TraceLensGraphError
from tracelens_graph.utils.processes import map_in_processes


def squared(number: int) -> tuple[int, int]:
    time.sleep(0.02 * (number % 3))
    return number * number, os.getpid()


def failing(number: int) -> int:
    if number == 1:
        raise TraceError("no trace")
    if number == 2:
        raise MissingExtraError("zstandard", "zstd")  # does not survive pickling
    return number


def killed(number: int) -> int:
    if number == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return number


@pytest.mark.parametrize("processes", [1, 2, 5, None])
def test_results_come_in_order(processes: int | None) -> None:
    found = list(map_in_processes(squared, range(8), processes))
    assert [square for square, _ in found] == [number**2 for number in range(8)]
    assert ({os.getpid()} == {pid for _, pid in found}) == (processes == 1 or (processes is None and _one_core()))
    assert not multiprocessing.active_children()


def test_threads_of_others_are_no_matter() -> None:
    """Python 3.12 and later warn when a process with threads forks; that is only seen where warnings are recorded."""
    done = threading.Event()
    other = threading.Thread(target=done.wait)
    other.start()
    try:
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            assert [square for square, _ in map_in_processes(squared, range(3), 2)] == [0, 1, 4]
        assert not warned
    finally:
        done.set()
        other.join()


def _one_core() -> bool:
    return len(os.sched_getaffinity(0)) == 1


@pytest.mark.parametrize("processes", [1, 2])
def test_errors_are_raised_here(processes: int) -> None:
    with pytest.raises(TraceError, match="no trace"):
        list(map_in_processes(failing, [0, 1, 3], processes))
    with pytest.raises(TraceLensGraphError, match="zstandard is not installed"):
        list(map_in_processes(failing, [0, 2], processes))
    assert not multiprocessing.active_children()


def killed_once(given: tuple[int, Path]) -> int:
    number, mark = given
    if number == 3 and not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def test_what_a_killed_process_worked_on_is_done_again(tmp_path: Path) -> None:
    mark = tmp_path / "killed"
    assert list(map_in_processes(killed_once, [(number, mark) for number in range(8)], 2)) == list(range(8))
    assert mark.exists()
    assert not multiprocessing.active_children()


def killed_elsewhere(given: tuple[int, int]) -> int:
    number, parent = given
    if number == 3 and os.getpid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def test_the_last_item_alone_is_done_again_in_another_process() -> None:
    """What kills a process must not be tried in this one."""
    results = map_in_processes(killed_elsewhere, [(number, os.getpid()) for number in range(4)], 2)
    with pytest.raises(TraceError, match="3.*: the process that worked on it was killed"):
        list(results)
    assert not multiprocessing.active_children()


def test_a_process_that_is_killed_is_told_by_what_it_worked_on() -> None:
    results = map_in_processes(killed, range(6), 2, name=lambda number: f"item {number}")
    with pytest.raises(TraceError, match="item 3.*: the process that worked on .* was killed"):
        list(results)
    assert not multiprocessing.active_children()


def test_who_takes_no_more_leaves_no_process(capfd: pytest.CaptureFixture[str]) -> None:
    results = map_in_processes(squared, range(100), 2)
    next(results)
    results.close()  # type: ignore[attr-defined]
    assert not multiprocessing.active_children()
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("allowed", [0, 1])
def test_where_no_process_can_be_started_all_is_done_here(monkeypatch: pytest.MonkeyPatch, allowed: int) -> None:
    started: list[int] = []
    fork = os.fork

    def limited() -> int:
        if len(started) == allowed:
            raise OSError(11, "Resource temporarily unavailable")
        started.append(0)
        return fork()

    monkeypatch.setattr(os, "fork", limited)
    found = list(map_in_processes(squared, range(4), 3))
    assert [square for square, _ in found] == [0, 1, 4, 9]
    assert {pid for _, pid in found} == {os.getpid()}
    assert not multiprocessing.active_children()


PARENT = """
import sys, time
from tracelens_graph.utils.processes import map_in_processes
def work(folder):
    import os
    open(f"{folder}/{os.getpid()}", "w").close()
    time.sleep(60)
list(map_in_processes(work, [sys.argv[1]] * 2, 2))
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_processes_end_with_their_parent(tmp_path: Path, number: signal.Signals) -> None:
    parent = subprocess.Popen([sys.executable, "-c", PARENT, str(tmp_path)], stderr=subprocess.DEVNULL)
    until(lambda: len(list(tmp_path.iterdir())) == 2)
    parent.send_signal(number)
    parent.wait(20)
    workers = [int(file.name) for file in tmp_path.iterdir()]
    until(lambda: not any(map(is_running, workers)))


def until(condition: Any, seconds: float = 30) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False
