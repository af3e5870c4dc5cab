"""Pages of reports: made as the command makes them, read without a browser, and opened in one."""

from __future__ import annotations

import json
import re
import time
import zlib
from base64 import b64decode
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html.parser import HTMLParser
from typing import TYPE_CHECKING, Any

import numpy as np
from handmade import span

from tracelens_graph.analyses.alignment.difference import Diff, diff
from tracelens_graph.analyses.alignment.tables import places_table, totals_table
from tracelens_graph.analyses.alignment.times import times_table
from tracelens_graph.analyses.diagnosis.verdict import verdict
from tracelens_graph.analyses.report.report_tables import ReportOptions, report_tables
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.window import Window, window_of
from tracelens_graph.loading.one import load_core
from tracelens_graph.perf.devices import Architecture, detect
from tracelens_graph.reports.document import facts
from tracelens_graph.reports.html.diff import Commands, diff_page
from tracelens_graph.reports.html.report import report_page

if TYPE_CHECKING:
    from playwright.sync_api import Frame, Page

NAMES = [
    "<script>document.title = 'owned'</script>", "</script><script>document.title = 'owned'</script>",
    "<img src=x onerror=\"document.title = 'owned'\">", "</style></title><!-- ", "\u2028line\nfeed\x1b[31m\u202e\x00",
    "half \ud83d a pair", "__proto__", "constructor", "<" * 20_000, "y" * 1_000_000,
]  # fmt: skip
"""Names that a browser might obey, and some that are too long."""


def page_of(g: Core | Window) -> str:
    """The page of a graph, or of a window of it."""
    w = window_of(g)
    found = detect(w.core.info.metadata.get("deviceProperties"))
    arch = found if isinstance(found, Architecture) else None
    tables = report_tables(w, ReportOptions(arch=arch))
    return report_page(w, verdict(w), {name: tables[name] for name in tables}, facts(w), lambda command: command, arch)


def diff_page_of(difference: Diff, said: Sequence[str] = (), commands: Commands = lambda number: ()) -> str:
    """The page of a comparison."""
    tables = {table.name: table for make in (totals_table, times_table, places_table) if (table := make(difference))}
    return diff_page(difference, tables, said, commands)


@dataclass
class Read:
    """What a page holds.

    Attributes:
        head: what is there at once.
        body: what is unpacked.
        columns: its columns.
    """

    head: dict[str, Any]
    body: dict[str, Any]
    columns: dict[str, np.ndarray]


def read(page: str) -> Read:
    """What a page holds, by the description of its format and not by the code that wrote it."""
    parts = dict(re.findall(r'<script type="[^"]*" id="(head|body|planes)">(.*?)</script>', page, re.DOTALL))
    head = json.loads(parts["head"])
    return Read(
        head,
        json.loads(zlib.decompress(b64decode(parts["body"]))),
        unpacked(head["columns"], zlib.decompress(b64decode(parts["planes"]))),
    )


def unpacked(described: list[dict[str, Any]], planes: bytes) -> dict[str, np.ndarray]:
    """Columns from byte planes."""
    found, at = {}, 0
    for column in described:
        n = column["n"]
        values = [0] * n
        for plane in range(column["planes"]):
            values = [value + (byte << 8 * plane) for value, byte in zip(values, planes[at : at + n], strict=True)]
            at += n
        if column["delta"]:
            changes, total, values = values, 0, []
            for change in changes:
                total += -(change + 1) // 2 if change % 2 else change // 2
                values.append(total)
        found[column["name"]] = np.array(values, np.int64)
    assert at == len(planes)
    return found


class Tags(HTMLParser):
    """The tags of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Take note of one."""
        self.found.append((tag, dict(attrs)))


def policy_of(page: str) -> dict[str, str]:
    """Directives of a page's policy."""
    (told,) = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]*)"', page)
    return {name: value for name, _, value in (part.strip().partition(" ") for part in told.split(";"))}


def hostile_page() -> str:
    """A page of names that nobody should obey."""
    return page_of(hostile_graph())


def hostile_diff() -> Diff:
    """A comparison of two graphs with such names, of which each has kernels that the other has not."""
    return diff(hostile_graph(NAMES), hostile_graph([f"{name[:300]}!" for name in NAMES]), (NAMES[0], NAMES[1]))


def hostile_graph(names: Sequence[str] = NAMES) -> Core:
    """Ops, kernels, frames, annotations and threads of these names; each op allocates."""
    gpu = {"device": 0, "stream": 7}
    events = [{"ph": "M", "name": "thread_name", "pid": 100, "tid": 100, "args": {"name": NAMES[1]}}]
    for number, name in enumerate(names, 1):
        at = 1000.0 * number
        events += [
            span("user_annotation", name, at, 900),
            span("python_function", f"{name}.py(3): {name}", at + 1, 800),
            span("python_function", f"nn.Module: {name}", at + 2, 700),
            span("cpu_op", name, at + 3, 600, Input_Dims=[[name[:50]]], Input_type=[name[:50]]),
            span("cuda_runtime", "cudaLaunchKernel", at + 4, 5, correlation=number),
            span("kernel", name, at + 50, 500, 0, 7, correlation=number, **gpu),
            {"ph": "i", "cat": "cpu_instant_event", "name": "[memory]", "pid": 100, "tid": 100, "ts": at + 20,
             "args": {"Bytes": 1024 * number, "Addr": number, "Device Id": 0, "Device Type": 1}},
        ]  # fmt: skip
    return load_core(events)


PATIENCE_S = 30

Opened = Callable[..., "Page"]
"""The fixture that opens a page, of its text."""


NAMELESS = (
    "[...document.querySelectorAll('button, a, input, select, canvas, svg[role=img], [role=tabpanel]')]"
    ".filter((one) => !(one.textContent.trim() || one.getAttribute('aria-label') ||"
    "one.closest('label')?.textContent.trim())).length"
)
"""Number of elements of a page that act or show something, and have no name for those who do not see them."""


def until(page: Page | Frame, expression: str) -> Any:
    """The value of an expression once it is true; the page's policy forbids what playwright would wait with."""
    end = time.monotonic() + PATIENCE_S
    while not (found := page.evaluate(expression)) and time.monotonic() < end:
        time.sleep(0.02)
    assert found, expression
    return found


def searched(page: Page | Frame) -> None:
    """Wait for the answer of a search: where the machine has much to do, a worker gives it."""
    until(page, "!(tracelensGraph.matching ?? tracelensGraph.collectives.grid.matching).isBusy")


def show(page: Page, view: str) -> None:
    """Go to a view by its tab."""
    page.click(f"#tab-{view}")
    page.wait_for_selector(f"#view-{view}")
    assert page.get_attribute(f"#tab-{view}", "aria-selected") == "true"


def tabs(page: Page) -> list[str]:
    """The views that a page has."""
    found: list[str] = page.evaluate("[...document.querySelectorAll('[role=tab]')].map((tab) => tab.id.slice(4))")
    return found


COLORS = """(() => {
  const canvas = document.querySelector("canvas");
  const copy = new OffscreenCanvas(canvas.width, canvas.height).getContext("2d", { willReadFrequently: true });
  copy.drawImage(canvas, 0, 0);
  return new Set(new Uint32Array(copy.getImageData(0, 0, canvas.width, canvas.height).data.buffer)).size;
})()"""
"""Number of colours on a canvas: few until it is drawn."""
