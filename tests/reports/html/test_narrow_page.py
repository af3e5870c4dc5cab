"""Pages where there is little room: nothing but what scrolls by itself is wider than the window."""

from __future__ import annotations

import pytest
from handmade import small_trace
from html_pages import Opened, diff_page_of, page_of
from memory_traces import training
from to_draw import late_job, small_diff

from tracelens_graph.loading.one import load_core
from tracelens_graph.reports.html.ranks import ranks_page
from tracelens_graph.simulate import simulate

WIDTHS = "[document.documentElement, ...document.querySelectorAll('#main > section')].map((one) => one.scrollWidth)"


def texts(kind: str) -> str:
    if kind == "report":
        return page_of(load_core(simulate(steps=2, layers=1).ranks[0].trace))
    if kind == "memory":
        return page_of(load_core([*small_trace()["traceEvents"], *training()]))
    return ranks_page(late_job(), "job") if kind == "ranks" else diff_page_of(small_diff())


@pytest.mark.proof
@pytest.mark.parametrize("kind", ["report", "memory", "diff", "ranks"])
def test_nothing_is_wider_than_a_small_window(kind: str, opened: Opened) -> None:
    page = opened(texts(kind), width=300)
    tabs = page.evaluate("[...document.querySelectorAll('[role=tab]')].map((one) => one.id)")
    assert len(tabs) > 3
    for tab in tabs:
        page.click(f"#{tab}")
        assert max(page.evaluate(WIDTHS)) <= 300, tab
    assert page.evaluate("document.getElementById('main').clientHeight") > 300
    for part in ("search", "next", "theme", "help"):
        assert page.evaluate(f"document.getElementById('{part}').getBoundingClientRect().right") <= 300
