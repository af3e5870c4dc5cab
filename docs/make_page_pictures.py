"""Take the pictures of pages that the tool draws: docs/pictures/roofline.png, ranks*.png, diff*.png and page-*.png,
readme.png and tutorial.png.

    python docs/make_page_pictures.py              # all
    python docs/make_page_pictures.py page-flame   # some

Traces are those of simulated jobs, or recordings of examples/traces. Needs the extra `plot`, and Chromium or Chrome.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from make_browser_pictures import browser
from pages import CHECKOUT, DOCS
from typer.testing import CliRunner

from tracelens_graph.cli.app import app
from tracelens_graph.simulate import simulate, write
from tracelens_graph.simulate.__main__ import main as simulate_server

_WIDTH = 1200
_DRAWN_MS = 3000
"""Until a page is drawn."""


class Picture(NamedTuple):
    """A picture of a page.

    Attributes:
        command: the words of the command; {job} stands for the folder of the traces, {other} for that of the other
            job, {examples} for examples/traces.
        job: arguments of the simulation; None for none.
        height: pixels from the top of the page.
        place: what of the page is shown, as it stands behind `#` in its address.
        before: what is done to it then.
        other: arguments of the simulation of another job; None for none.
        is_of_server: whether the job is a server.
    """

    command: str
    job: dict[str, Any] | None
    height: int
    place: str = ""
    before: str = ""
    other: dict[str, Any] | None = None
    is_of_server: bool = False


_TRAINING = {"ranks": 2, "steps": 2, "seed": 7, "read_loss": True}
_LAUNCHES = """() => {
  const {timeline, trace} = tracelensGraph;
  let found = trace.first.gpu;
  while (!trace.text(found).includes("_RING_LL")) found++;
  tracelensGraph.select(found, "key");
  timeline.show(trace.start[found] - 1.2e6, trace.start[found] + 8e5);
}"""


_WHERE = """() => {
  const uid = tracelensGraph.head.overview.findings[2].uid;
  tracelensGraph.selectUid(uid, "link");
  document.querySelectorAll("#selected .acts button")[2].click();
}"""
"""The second cause of the verdict is looked at, and then its place in the flame graph."""


def _report(place: str, before: str = "") -> Picture:
    return Picture("report {job}/rank0.json.gz --arch h100-sxm", _TRAINING, 800, place, before)


def _diff(place: str, height: int) -> Picture:
    other = {"recompute": "non_reentrant", "tiny_kernels": 20}
    command = "diff {job}/rank0.json.gz {other}/rank0.json.gz --names before,after"
    return Picture(command, {}, height, place, other=other)


_ALL = "() => tracelensGraph.timeline.show(tracelensGraph.trace.start[0], 5.4e8)"

_LATE = {
    "ranks": 8, "steps": 8, "late_rank": 5, "late_us": 4000,
    "step_collectives": ("_allgather_base", "allreduce"), "collective_mb": (1, 8, 64),
}  # fmt: skip

_RESNET = "{examples}/resnet50-v100/workers-0.json.gz"

PICTURES = {
    "readme": Picture("report {examples}/vit-h100.json.gz", None, 620, place="view=overview"),
    "tutorial": Picture(
        "report {examples}/resnet50-v100/workers-0.json.gz", None, 560, place="view=timeline", before=_ALL
    ),
    "page-overview": _report("view=overview"),
    "page-timeline": _report("view=timeline", _LAUNCHES),
    "page-flame": _report("view=flame"),
    "page-path": _report("view=overview", _WHERE),
    "page-memory": _report("view=memory"),
    "page-graph": Picture(
        "report {job}/rank0.json.gz --capture {job}/capture", None, 560, place="view=flame", is_of_server=True
    ),
    "roofline": Picture("roofline {job}/rank0.json.gz", _TRAINING, 750),
    "diff": _diff("view=flame", 480),
    "diff-places": _diff("view=places&place=1", 800),
    "ranks": Picture("ranks {job}", _LATE, 700, "view=step&rank=5"),
    "ranks-waits": Picture("ranks {job}", _LATE, 600, "view=waits"),
}
"""Name of a picture -> what it shows."""


def main() -> None:
    """Draw pages and take their pictures."""
    chosen = sys.argv[1:] or list(PICTURES)
    with TemporaryDirectory() as folder, browser(shutil.which("chromium") or shutil.which("google-chrome")) as page:
        for name in chosen:
            picture = PICTURES[name]
            job, drawn = Path(folder, name, "job"), Path(folder, f"{name}.html")
            taken = DOCS / "pictures" / f"{name}.png"
            other = job.parent / "other"
            for simulated, arguments in ((job, picture.job), (other, picture.other)):
                if picture.is_of_server:
                    simulate_server([str(job), "--serving", "--steps", "20"])
                elif arguments is not None:
                    write(simulate(**arguments), simulated, traces_only=True)
            places = {"job": job, "other": other, "examples": CHECKOUT / "examples/traces"}
            words = [word.format_map(places) for word in picture.command.split()]
            result = CliRunner().invoke(app, [*words, "-o", str(drawn)], catch_exceptions=False)
            if result.exit_code:
                raise SystemExit(result.stderr)
            page.set_viewport_size({"width": _WIDTH, "height": picture.height})
            page.goto(f"{drawn.as_uri()}#{picture.place}")
            page.wait_for_timeout(_DRAWN_MS)
            if picture.before:
                page.evaluate(picture.before)
                page.wait_for_timeout(_DRAWN_MS / 6)
            page.screenshot(path=taken)
            print(taken)


if __name__ == "__main__":
    main()
