"""The page of the roofline: the picture first, then its tables, in a browser; names of a trace stay texts."""

from __future__ import annotations

from extended import HOSTILE, TOY, calls_of
from html_pages import Opened, show

from tracelens_graph.analyses.performance.perf_tables import unified_perf_summary
from tracelens_graph.analyses.performance.roofline_points import below_roof
from tracelens_graph.analyses.performance.roofline_summary import roofline_summary, unmodelled
from tracelens_graph.reports.html.report import roofline_page


def page(*names: str) -> str:
    w = calls_of(names)
    ops = unified_perf_summary(w, arch=TOY)
    tables = {"roofline_summary": roofline_summary(w, TOY), "below_roof": below_roof(ops), "unmodelled": unmodelled(w)}
    return roofline_page(w, ops, tables, TOY, "<script>t</script>.json")


def test_the_roofline_in_a_browser(opened: Opened) -> None:
    text = page("product", "copy", "unheard of", *HOSTILE)
    assert text == page("product", "copy", "unheard of", *HOSTILE)
    shown = opened(text)
    assert shown.title() == "Roofline of <script>t</script>.json on Toy <b>"
    assert shown.locator("circle.point").count() >= len(HOSTILE)
    assert "memory 1.00 TB/s" in shown.inner_text("#view-roofline")
    assert not shown.is_visible("#search")
    show(shown, "tables")
    words = shown.inner_text("#view-tables")
    for name in ("roofline summary", "below roof", "unmodelled", "unified perf summary"):
        assert name in words
    shown.click("text=unified perf summary")
    assert "copy" in shown.inner_text("#view-tables")


def test_without_operations_it_says_so(opened: Opened) -> None:
    assert "No roofline" in opened(page("copy")).inner_text("#view-roofline")
