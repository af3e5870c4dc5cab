"""Views in frames of another page, in a browser: what they draw, what the page around may forbid, what names may do."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from handmade import small_trace
from html_pages import COLORS, NAMES, Opened, hostile_graph, searched, until

from corpus import loaded, parametrize, traces_named
from tracelens_graph.analyses.kernels.kernels import kernel_summary
from tracelens_graph.analyses.report.report_tables import report_tables
from tracelens_graph.api import load
from tracelens_graph.graph.core import Core
from tracelens_graph.reports.html import inline
from tracelens_graph.reports.html.inline import Inline

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Frame, Page

QWEN = traces_named("tracelens/h100/qwen1.5-0.5b")
PAGES = {"module": "classes", "op": "ops", "line": "python", "kernel": "kernels", "host": "host_time"}
AROUND = "script-src 'unsafe-inline'; style-src 'unsafe-inline'; worker-src 'none'; img-src data:"
"""What a page around may forbid without harm."""


def host(*views: Inline, policy: str = "") -> str:
    """A page that shows views as a notebook does."""
    meta = f'<meta http-equiv="Content-Security-Policy" content="{policy}">' if policy else ""
    shown = "".join(view._repr_html_() for view in views)
    return f'<!DOCTYPE html><html data-ready="yes"><head><meta charset="utf-8">{meta}</head><body>{shown}</body></html>'


def frames(page: Page) -> list[Frame]:
    """The frames of a page, once each of them is drawn."""
    found = [element.content_frame() for element in page.query_selector_all("iframe")]
    for frame in found:
        frame.frame_element().scroll_into_view_if_needed()
        until(frame, "document.documentElement.dataset.ready")
        assert frame.evaluate("document.documentElement.dataset.ready") == "yes"
    return found


def views(g: Core) -> list[Inline]:
    flames = [inline.flame(g, by) for by in inline.FLAMES]
    return [*flames, inline.timeline(g), inline.roofline(g, arch="h100-sxm"), inline.grid(g)]


@parametrize("path", QWEN)
@pytest.mark.parametrize("policy", ["", AROUND])
def test_each_view_is_drawn_in_its_frame(path: Path, policy: str, opened: Opened) -> None:
    core = loaded(path)
    gpu_ns = int(core.columns.dur_ns[core.gpu_rows].sum())
    *flames, timeline, roofline, grid = frames(opened(host(*views(core), policy=policy)))
    for frame in (*flames, timeline):
        frame.frame_element().scroll_into_view_if_needed()  # what is out of sight is not drawn
        until(frame, f"{COLORS} > 5")
    for by, frame in zip(PAGES, flames, strict=True):
        assert frame.evaluate("tracelensGraph.flame.options.view") == PAGES[by]
        if by == "host":
            continue
        assert frame.evaluate("tracelensGraph.flame.made.sum") == gpu_ns
        assert {"GEMM", "Flash Attention Forward", "Elementwise"} <= set(
            frame.locator(".legend .key").all_inner_texts()
        )
    assert timeline.evaluate("tracelensGraph.trace.first.idle - tracelensGraph.trace.first.gpu") == len(core.gpu_rows)
    assert roofline.evaluate("document.querySelectorAll('circle').length") > 20
    assert grid.locator(".list button").count() == sum(len(table) > 0 for table in report_tables(core).values())
    for frame in (*flames, timeline, roofline, grid):
        assert frame.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert not frame.is_visible("header nav")


@parametrize("path", QWEN)
def test_clicks_stay_in_the_frame(path: Path, opened: Opened) -> None:
    core = loaded(path)
    page = opened(host(inline.timeline(core), inline.flame(core), inline.roofline(core)))
    timeline, flame, roofline = frames(page)
    kernel = int(core.columns.uid[core.everything.linked_gpu_rows[40]])
    timeline.evaluate(f"tracelensGraph.selectUid({kernel}, 'key')")
    assert f"uid {kernel}" in timeline.inner_text("#selected")
    assert timeline.locator("text=Flame graph").count() == timeline.locator("text=Copy link").count() == 0
    timeline.click("#selected .path a >> nth=0")
    selected = timeline.evaluate("tracelensGraph.trace.uid[tracelensGraph.selection]")
    assert selected == core.columns.uid[core.columns.parent[core.row(kernel)]]
    flame.click("canvas", position={"x": 40, "y": 45})
    assert flame.evaluate("tracelensGraph.flame.zoomed") >= 0
    assert flame.inner_text("#found").startswith("uid ")
    flame.fill("#search", "gemm")
    searched(flame)
    assert flame.inner_text(".matched").startswith("matched: ")
    assert flame.inner_text("#found") == ""
    roofline.locator("circle").last.click()
    assert roofline.inner_text("#found").startswith("uid ")
    for frame in (timeline, flame, roofline):
        assert frame.url == "about:srcdoc"
        assert frame.evaluate("(() => { try { return !!parent.document } catch { return false } })()") is False


@parametrize("path", QWEN)
def test_a_grid_sorts_filters_and_copies(path: Path, opened: Opened) -> None:
    core = loaded(path)
    table = kernel_summary(core)
    (frame,) = frames(opened(host(inline.grid(core, "kernel_summary"))))
    assert not frame.is_visible(".list")
    assert not frame.is_visible("#search")
    frame.click("th button:has-text('kernels')")
    counts = frame.evaluate("tracelensGraph.tables.grid.order.map((row) => tracelensGraph.tables.grid.content"
                            ".columns.find((one) => one.heading === 'kernels').cells[row])")  # fmt: skip
    assert counts == sorted(np.asarray(table["Kernel duration (µs)_count"]).tolist(), reverse=True)
    frame.fill(".tables input[type=search]", "flash")
    flash = sum("flash" in str(name) for name in table["Kernel name"])
    assert frame.evaluate("tracelensGraph.tables.grid.order.length") == flash > 0
    frame.click("text=Copy TSV")
    until(frame, "document.getElementById('announced').textContent")
    assert frame.inner_text("#announced") == "copied"
    assert frame.evaluate("tracelensGraph.tables.grid.copied").count("\n") == flash
    assert frame.locator("button.link").count() == 0


def test_without_scripts_the_table_is_what_stays(browser: Browser, tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text(host(*views(load(small_trace())), policy="script-src 'none'"))
    page = browser.new_page()
    page.goto((tmp_path / "page.html").as_uri())
    assert page.locator("table >> visible=true").count() == 8
    assert "gemm" in page.locator("table").nth(3).inner_text()
    frame = page.query_selector_all("iframe")[0].content_frame()
    assert frame.evaluate("document.documentElement.dataset.ready") is None
    assert "may not run" in frame.evaluate("getComputedStyle(document.querySelector('main'), '::before').content")
    page.close()


def test_hostile_names_are_text_in_frames_and_around(opened: Opened) -> None:
    page = opened(host(*views(hostile_graph())))
    assert page.locator("iframe").count() == 8
    found = frames(page)
    assert len(page.frames) == 9
    timeline = found[4]
    timeline.evaluate(
        "(() => { for (let e = 0; e < tracelensGraph.trace.first.idle; e += 3) { tracelensGraph.select(e, 'key');"
        "$dom.Tip.at({ clientX: 9, clientY: 9 }, tracelensGraph.trace.says(e)) } })()"
    )
    for name in NAMES:
        timeline.evaluate("(name) => tracelensGraph.search(name)", name[:300].encode("utf-8", "replace").decode())
    for frame in (page.main_frame, *found):
        assert frame.evaluate("document.title") != "owned"
        foreign = "img, object, embed, link, base, form" + (", iframe" if frame != page.main_frame else ", script")
        assert frame.evaluate(f"document.querySelectorAll('{foreign}').length") == 0
    assert "<script>" in timeline.evaluate("tracelensGraph.trace.body.names.join(' ')")


EVIL = '"></iframe><script>document.title="owned"</script>&quot; onload="document.title=\'owned\'" \'&#34;><img src=x>'


def test_names_that_end_attributes_and_frames_do_not(opened: Opened) -> None:
    trace = small_trace()
    trace["traceEvents"][9]["name"] = EVIL
    trace["traceEvents"][6]["name"] = EVIL
    page = opened(host(*views(load(trace))))
    assert page.title() == ""
    assert page.locator("iframe").count() == 8
    assert page.locator("img, script").count() == 0
    assert EVIL[:70] in page.locator("table").nth(1).inner_text()
    for frame in frames(page):
        assert frame.evaluate("document.title") != "owned"
    assert EVIL in frames(page)[4].evaluate("tracelensGraph.trace.body.names")


def test_what_is_saved_is_a_page_by_itself(opened: Opened, tmp_path: Path) -> None:
    g = load(small_trace())
    g.timeline().save(tmp_path / "timeline.html")
    page = opened((tmp_path / "timeline.html").read_text(), hash="#uid=9")
    assert "gemm" in page.inner_text("#selected")
    assert page.locator("text=Copy link").count() == 1
    assert page.title().startswith("Timeline: <parsed trace>")
