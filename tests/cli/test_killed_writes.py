"""A process that is killed while it writes a cached or a saved graph leaves nothing that anybody takes for whole."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from handmade import Run, small_trace

from tracelens_graph.loading.one import load_core
from tracelens_graph.stores.graph_file import read_graph

pytestmark = [
    pytest.mark.proof,
    pytest.mark.skipif(sys.platform == "win32", reason="there is no such signal"),
]

POINTS = {
    "opened": "patch(sections.SectionWriter, '__init__', 1)",
    "first section": "patch(sections.SectionWriter, 'array', 2)",
    "half-way": "patch(sections.SectionWriter, 'array', 12)",
    "last section": "patch(sections.SectionWriter, 'finish', 1)",
    "index": "patch(sections, 'crc32', 'magic')",
    "whole, not in place": "patch(os, 'replace', 1)",
    "in place": "patch(cache, 'make_room', 1); patch(outputs, 'size_of', 1)",
}
"""Where the process is killed: at the nth call of a function, before it does anything."""

PROGRAM = """
import os, signal, sys
from tracelens_graph.cli import outputs
from tracelens_graph.output.files import GRAPH_MAGIC
from tracelens_graph.stores import cache, graph_file, sections

def kill():
    os.kill(os.getpid(), signal.SIGKILL)

def patch(owner, name, when):
    whole, calls = getattr(owner, name), []
    def patched(*arguments, **options):
        calls.append(1)
        file = getattr(arguments[0], "_file", None)
        if file is not None and not file.closed:
            file.flush()  # as much as there is reaches the disk
        if len(calls) == when or when == "magic" and bytes(arguments[0])[:8] == GRAPH_MAGIC:
            kill()
        return whole(*arguments, **options)
    setattr(owner, name, patched)

exec(sys.argv.pop(1))
from tracelens_graph.cli import main
main()
"""


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    path = tmp_path / "trace.json"
    path.write_text(json.dumps(small_trace()))
    return path


def killed(point: str, *words: object) -> None:
    """Run a command that is killed at a point."""
    command = [sys.executable, "-c", PROGRAM, POINTS[point], *map(str, words)]
    done = subprocess.run(command, capture_output=True, check=False, timeout=120)
    assert done.returncode == -signal.SIGKILL, done.stderr


@pytest.mark.parametrize("point", POINTS)
def test_a_cache_write_that_is_killed(
    trace: Path, tmp_path: Path, run: Run, point: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "cache"
    monkeypatch.setenv("TRACELENS_GRAPH_CACHE", str(folder))
    right = run("timeline", trace)
    killed(point, "timeline", trace, "--cache")
    entries = list(folder.glob("*.tlg"))
    assert len(entries) == (point == "in place")
    for _ in range(2):
        assert run("timeline", trace, "--cache") == right
    [entry] = folder.glob("*.tlg")
    assert entries in ([], [entry])
    for part in folder.glob(".*.part"):
        os.utime(part, (time.time() - 7200,) * 2)
    trace.write_text(json.dumps(small_trace()) + "\n")
    assert run("timeline", trace, "--cache") == right
    assert [path.suffix for path in folder.iterdir()] == [".tlg"]


@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("older", [False, True])
def test_a_save_that_is_killed(trace: Path, tmp_path: Path, run: Run, point: str, older: bool) -> None:
    place = tmp_path / "graph.tlg"
    if older:
        other = tmp_path / "other.json"
        other.write_text(json.dumps({"traceEvents": small_trace()["traceEvents"][:9]}))
        assert run("save", other, "-o", place)[0] == 0
    before = place.read_bytes() if older else None
    killed(point, "save", trace, "-o", place)
    if point != "in place":
        assert (place.read_bytes() if place.exists() else None) == before
    assert run("save", trace, "-o", place)[0] == 0
    assert read_graph(place).equals(load_core(trace))
