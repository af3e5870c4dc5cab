"""What the page of a report costs: writing it, its size, opening it, and drawing its timeline while it moves.

    .venv/bin/python benchmarks/page.py --tiles 7 69 --width 1920

Sizes of copies flatter: they compress ten times better than a long recording. So a page's columns are packed again
with times that are warped: each gap between end points times a random factor. Needs Chromium or Chrome, and playwright.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from run import CORPUS

from tile import tile
from tracelens_graph.graph.columns import Columns
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.graph import changed
from tracelens_graph.loading.one import load_core
from tracelens_graph.reports.html.names import Names
from tracelens_graph.reports.html.shell import packed
from tracelens_graph.reports.html.timeline import DRAWN_KINDS, columns, drawn

TRACE = "tracelens/h100/qwen1.5-0.5b.json.gz"
DRAW_MS, OPEN_MS, FRAMES, PER_EVENT = 16, 2000, 3, 6
"""Bars: p95 of drawing at 1920 px; opening; p95 of frames as a multiple of an empty page's; bytes per event."""

MOVING = """(moves) => new Promise((done) => {
  const found = [];
  let last = 0, n = 0;
  const step = (at) => {
    if (last) found.push(at - last);
    last = at;
    if (moves) tracelensGraph.timeline.pan(n % 60 < 30 ? 0.01 : -0.01);
    if (++n < 240) requestAnimationFrame(step); else done(found);
  };
  requestAnimationFrame(step);
})"""


@dataclass
class Opened:
    """What a browser took: ms, and for drawing and frames the medians and 95th percentiles."""

    ready: float
    draw: tuple[float, float]
    frames: tuple[float, float]
    empty: tuple[float, float]


def quantiles(values: list[float]) -> tuple[float, float]:
    """Median and 95th percentile."""
    return float(np.percentile(values, 50)), float(np.percentile(values, 95))


def opened(path: Path, width: int) -> Opened:
    """Open a page, and move its timeline."""
    from playwright.sync_api import sync_playwright

    program = shutil.which("chromium") or shutil.which("google-chrome")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page(viewport={"width": width, "height": 1080})
        empty = quantiles(page.evaluate(MOVING, False))
        page.goto(path.as_uri())
        while not page.evaluate("document.documentElement.dataset.ready"):
            time.sleep(0.02)
        ready: float = page.evaluate("tracelensGraph.readyMs")
        page.evaluate("tracelensGraph.go('timeline')")
        page.wait_for_timeout(300)
        page.evaluate("tracelensGraph.timeline.drawTimes = []")
        frames = quantiles(page.evaluate(MOVING, True))
        draw = quantiles(page.evaluate("tracelensGraph.timeline.drawTimes"))
        browser.close()
    return Opened(ready, draw, frames, empty)


def warped(core: Core) -> Core:
    """The graph with other times in the same order."""
    c = core.columns
    instants, place = np.unique(np.concatenate((c.start_ns, c.end_ns)), return_inverse=True)
    gaps = np.diff(instants, prepend=0) * np.random.default_rng(1).lognormal(0, 0.6, len(instants))
    times = np.cumsum(np.maximum(gaps.astype(np.int64), 1))
    start, end = times[place[: len(c)]], times[place[len(c) :]]
    return changed(core, columns=Columns({**dict(c), "start_ns": start, "dur_ns": end - start}))


def bytes_per_event(core: Core) -> tuple[int, float]:
    """Events that are drawn, and what each takes in the file."""
    w = core.everything
    d = drawn(w)
    _, text = packed(columns(w, d, Names(w, DRAWN_KINDS)))
    return d.events, len(text) / d.events


def seconds(*words: str) -> float:
    """The processor time that a command takes: a busy machine gives nearly the same as a quiet one."""
    program = "from tracelens_graph.cli import main; main()"
    measured = (
        "import resource, subprocess, sys\n"
        "subprocess.run([sys.executable, '-c', *sys.argv[1:]], check=True, stdout=subprocess.DEVNULL)\n"
        "used = resource.getrusage(resource.RUSAGE_CHILDREN)\n"
        "print(used.ru_utime + used.ru_stime)"
    )
    command = [sys.executable, "-c", measured, program, *words]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def main() -> None:
    """Measure, and print a line per size."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tiles", type=int, nargs="+", default=[7, 69], metavar="N")
    parser.add_argument("--width", type=int, default=1920)
    options = parser.parse_args()
    print(f"bars: {PER_EVENT} B/event, report + 2 s, {OPEN_MS} ms, {DRAW_MS} ms, {FRAMES} x an empty page's frames")
    print("copies     events  B/event  report s  with page s  opens ms     draw ms    frame ms    empty ms")
    with tempfile.TemporaryDirectory() as folder:
        for copies in options.tiles:
            trace, page = Path(folder, f"{copies}.json"), Path(folder, f"{copies}.html")
            with trace.open("wb") as target:
                tile(CORPUS / TRACE, target, copies)
            plain = seconds("report", str(trace), "-o", str(page.with_suffix(".md")))
            whole = seconds("report", str(trace), "-o", str(page))
            events, size = bytes_per_event(warped(load_core(trace)))
            found = opened(page, options.width)
            pairs = (f"{low:5.1f} /{high:5.1f}" for low, high in (found.draw, found.frames, found.empty))
            print(
                f"{copies:6}  {events:9,}  {size:7.2f}  {plain:8.2f}  {whole:11.2f}  {found.ready:8.0f}",
                *pairs,
                flush=True,
            )


if __name__ == "__main__":
    main()
