"""Searches in a browser: whatever is typed, the page answers."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest
from handmade import small_trace, span
from html_pages import Opened, page_of, show, until

from tracelens_graph.loading.one import load_core

if TYPE_CHECKING:
    from playwright.sync_api import Page

ENDLESS = r"(\w+)+!"
"""Tries every way to part a word of letters, which are as many as 2 to the power of its length."""
TOO_LONG = "as text: this pattern would take too long"
NOT_HERE = "as text: such a pattern cannot be tried here"
NO_WORKER = "window.Worker = class { constructor() { throw new Error('forbidden'); } };"
SAID = "document.getElementById('found').textContent"


@pytest.fixture
def text() -> str:
    work = [span("cpu_op", name, 1000 + at, 5) for at, name in enumerate(["q" * 60, ENDLESS, "aten::mm"])]
    return page_of(load_core([*small_trace()["traceEvents"], *work]))


def answers(page: Page) -> None:
    begun = time.monotonic()
    assert page.evaluate("1") == 1
    assert time.monotonic() - begun < 1


@pytest.mark.parametrize(("before", "why"), [("", TOO_LONG), (NO_WORKER, NOT_HERE)])
def test_a_pattern_without_end_is_searched_as_text(before: str, why: str, text: str, opened: Opened) -> None:
    page = opened(text, before)
    page.fill("#search", ENDLESS)
    answers(page)
    until(page, f"{SAID}.includes('found')")
    assert page.inner_text("#found") == f"1 found, {why}"
    page.keyboard.press("Enter")
    assert page.inner_text("#found") == "1 of 1"


def test_groups_and_several_repetitions_are_patterns(text: str, opened: Opened) -> None:
    page = opened(text)
    page.fill("#search", "(aten|q).*(q|::m.*)$")
    page.focus("#search")
    page.keyboard.press("Enter")  # before the search has ended: goes to the first when it has
    until(page, f"{SAID}.startsWith('1 of ')")
    assert page.evaluate("tracelensGraph.trace.text(tracelensGraph.selection)") in ("aten::mm", "q" * 60)
    page.fill("#search", ENDLESS)
    page.fill("#search", "aten::mm")  # ends the search before
    assert page.inner_text("#found") == "1 found"
    assert not page.evaluate("tracelensGraph.matching.isBusy")
    page.fill("#search", ENDLESS)
    page.fill("#search", "")
    assert page.inner_text("#found") == ""


def test_filters_of_tables_answer_too(text: str, opened: Opened) -> None:
    page = opened(text)
    show(page, "tables")
    for pattern in (ENDLESS, "(a+)+$", "^.*a.*z$"):
        page.fill("#view-tables input[type=search]", pattern)
        answers(page)
        until(page, "document.querySelector('#view-tables .bar .dim').textContent.includes('row')")


def test_only_simple_patterns_run_on_the_page(text: str, opened: Opened) -> None:
    page = opened(text)
    simple = ["aten::mm", "^gemm|conv$", r"a\.b+", "[(+*)]+", r"\(a\)", "void.*float"]
    others = [ENDLESS, "a*a*b", r"(a)\1", r"\1", "(a|a)(a|a)", "a{1,9}b?", r"\k<a>", "a.*b.*c"]
    found = page.evaluate("(all) => all.map((one) => $matching.Matching.isSimple(one))", simple + others)
    assert found == [True] * len(simple) + [False] * len(others)


@pytest.mark.parametrize("name", ["constructor", "__proto__", "nothing"])
def test_a_link_to_no_view_leaves_the_first(name: str, text: str, opened: Opened) -> None:
    page = opened(text, hash=f"#view={name}")
    page.wait_for_selector("#view-overview")
    page.evaluate(f"location.hash = '#view={name}&uid=9'")
    until(page, "tracelensGraph.selection >= 0")
    page.wait_for_selector("#view-overview")
