"""Measuring whole processes: time from exec to exit, and peak memory summed over the process tree."""

from __future__ import annotations

import json
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

SAMPLE_EVERY_S = 0.004
PSS = re.compile(rb"^Pss:\s+(\d+) kB", re.MULTILINE)


def elapsed(command: list[str]) -> float:
    """Seconds from exec to exit of a command that must succeed; its output is thrown away."""
    start = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


def printed(snippet: str, *arguments: str) -> Any:
    """The JSON value that a snippet of Python prints, run in a process of its own."""
    command = [sys.executable, "-c", snippet, *arguments]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)


def peak_pss(command: list[str]) -> int:
    """Largest sum, in bytes, of the proportional set sizes of a command and its descendants (Linux only).

    Sampling costs the command some time, so time it in another run.
    """
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    peak = 0
    while process.poll() is None:
        peak = max(peak, sum(map(_pss, _tree(process.pid))))
        time.sleep(SAMPLE_EVERY_S)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    return peak


def _tree(pid: int) -> Iterable[int]:
    yield pid
    try:
        threads = list(Path(f"/proc/{pid}/task").iterdir())
    except FileNotFoundError:  # it ended between two looks
        return
    for thread in threads:
        for child in _read(thread / "children").split():
            yield from _tree(int(child))


def _pss(pid: int) -> int:
    found = PSS.search(_read(Path(f"/proc/{pid}/smaps_rollup")))
    return 1024 * int(found[1]) if found else 0


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except (FileNotFoundError, ProcessLookupError):  # it ended between two looks
        return b""


def interleaved(runs: int, measures: Mapping[str, Callable[[], float]]) -> dict[str, list[float]]:
    """Every measure `runs` times, taking turns, so that a busy moment of the machine hits all alike."""
    samples: dict[str, list[float]] = {name: [] for name in measures}
    for _ in range(runs):
        for name, measure in measures.items():
            samples[name].append(measure())
    return samples


def medians(samples: Mapping[str, list[float]]) -> dict[str, float]:
    """The median of each measure."""
    return {name: statistics.median(values) for name, values in samples.items()}
