"""The page of a job in a browser: every view is clicked through, and its figures are those of the tables."""

from __future__ import annotations

import numpy as np
import pytest
from html_pages import NAMELESS, Opened, searched, show, tabs, until
from to_draw import HOSTILE, hostile, late_job

from corpus import CORPUS, needs_corpus
from tracelens_graph.analyses.ranks.job import Job
from tracelens_graph.analyses.stragglers.slowdown import Slowdown
from tracelens_graph.analyses.stragglers.work import Work
from tracelens_graph.graph.trace_set import TraceSet
from tracelens_graph.loading.many import load_core_set
from tracelens_graph.loading.one import load_core
from tracelens_graph.reports.html.ranks import ranks_page, slowdown_page
from tracelens_graph.simulate import simulate

VIEWS = ("overview", "waits", "step", "bandwidth", "collectives", "tables")

MIDDLE = """(k) => {
  const { step } = tracelensGraph, { parts } = step, at = step.pane.canvas.getBoundingClientRect();
  return [at.x + step.x(parts.start[k] + parts.dur[k] / 2), at.y + step.below(parts.lane[k])];
}"""
"""Where the middle of a rank's part of a collective is in the window."""


@pytest.fixture(scope="module")
def late() -> Job:
    return late_job()


@pytest.fixture(scope="module")
def text(late: Job) -> str:
    return ranks_page(late, "job")


def test_every_view(text: str, late: Job, opened: Opened) -> None:
    page = opened(text)
    for view in VIEWS:
        show(page, view)
        assert page.evaluate(NAMELESS) == 0
    rows = {name: len(late.table(name)) for name in late.names}
    told = page.evaluate("Object.fromEntries(tracelensGraph.trace.body.tables.map((one) => [one.name, one.rows]))")
    assert told == rows


def test_waits_tell_rank_and_step(text: str, late: Job, opened: Opened) -> None:
    page = opened(text)
    show(page, "waits")
    row = next(one for one in late.table("rank_steps").records() if one["rank"] == 1)
    x, y = page.evaluate(
        "(() => { const w = tracelensGraph.waits, at = w.pane.canvas.getBoundingClientRect();"
        "const p = w.places(w.pane.width);"
        "return [at.x + p.left + p.cell / 2, at.y + w.top(1.5)] })()"
    )
    page.mouse.move(x, y)
    assert f"waits for other ranks: {row['exposed_wait_ms']:,.3f} ms" in page.inner_text("#tip")
    page.mouse.click(x, y)
    until(page, "location.hash === '#view=waits&rank=1'")
    assert page.inner_text("#selected b") == "rank 1"
    assert page.locator("#view-waits tr.marked").count() == 3
    show(page, "overview")
    page.click("#view-overview .balance a >> text=rank 1")
    until(page, "location.hash === '#view=waits&rank=1'")
    page.keyboard.press("Escape")
    assert page.is_hidden("#selected")


def test_a_collective_is_selected_in_every_view(text: str, late: Job, opened: Opened) -> None:
    page = opened(text)
    show(page, "step")
    number = page.evaluate("tracelensGraph.step.parts.collective[0] - 1")
    page.mouse.move(*page.evaluate(MIDDLE, 0))
    assert "waits" in page.inner_text("#tip")
    page.mouse.click(*page.evaluate(MIDDLE, 0))
    until(page, f"location.hash.includes('collective={number}')")
    page.click("#selected >> text=Collective")
    assert page.inner_text("#view-collectives tr.marked td >> nth=0") == str(number)
    row = next(one for one in late.table("rank_collectives").records() if one["collective"] == number)
    waits = page.evaluate(
        f"tracelensGraph.collectives.partsOf({number}).map((k) => tracelensGraph.collectives.split.wait[k])"
    )
    assert sum(waits) == round(1e3 * row["wait_us"])
    assert len(waits) == row["ranks"] == page.locator("#view-collectives .row").count()
    said = page.locator("#view-collectives .row .said").all_inner_texts()
    assert said == [f"waits {page.evaluate('(ns) => $show.Show.span(ns)', ns)}" for ns in waits]
    show(page, "bandwidth")
    assert page.locator("#view-bandwidth .chosen").count() == 1
    page.keyboard.press(".")
    until(page, f"!location.hash.includes('collective={number}')")
    page.evaluate("tracelensGraph.unselect()")
    page.evaluate("document.querySelector('#view-bandwidth .picture .point').dispatchEvent(new Event('click'))")
    until(page, "tracelensGraph.collective >= 0")


def test_the_step_zooms_and_moves(text: str, opened: Opened) -> None:
    page = opened(text)
    show(page, "step")
    span = "tracelensGraph.step.view.to - tracelensGraph.step.view.from"
    whole = page.evaluate(span)
    page.keyboard.press("w")
    near = page.evaluate(span)
    assert near < whole
    before = page.evaluate("tracelensGraph.step.view.from")
    page.keyboard.press("d")
    assert page.evaluate("tracelensGraph.step.view.from") > before
    page.mouse.move(600, 150)
    page.mouse.wheel(0, -300)
    until(page, f"{span} < {near}")
    page.keyboard.press("0")
    assert page.evaluate(span) == pytest.approx(whole)


def test_search_finds_collectives(text: str, late: Job, opened: Opened) -> None:
    page = opened(text)
    show(page, "collectives")
    page.keyboard.press("/")
    page.keyboard.type("allgather")
    searched(page)
    found = [one["collective"] for one in late.table("rank_collectives").records() if "allgather" in one["kind"]]
    assert page.evaluate("tracelensGraph.matches") == found
    page.keyboard.press("Enter")
    until(page, f"location.hash.includes('collective={found[0]}')")


def test_the_late_rank_is_a_click_away_from_its_reasons(opened: Opened) -> None:
    run = simulate(ranks=3, steps=2, layers=1, dataloader_us=9000, dataloader_rank=1)
    traces = TraceSet.of([load_core(one.trace) for one in run.ranks])
    page = opened(ranks_page(Job(traces, whole=traces), "job", ["tracelens-graph ranks job --path"]))
    page.wait_for_selector("text=tracelens-graph ranks job --path")
    assert page.locator("#view-overview tbody th").all_inner_texts()[-2:] == ["copying", "idle"]
    page.click("text=show rank 1, and why it is late")
    assert "data loader" in page.inner_text("#selected .why >> nth=0")
    page.click("#selected >> text=Reasons")
    assert page.inner_text("#view-tables h2") == "Late ranks"


def test_the_slowdown_of_operations_is_a_page_of_its_own(opened: Opened) -> None:
    recorded, ideal = np.array([10, 30]), np.array([20, 20])
    work = Work(
        [HOSTILE], [HOSTILE, "dp 1"], np.zeros(2, np.int64), np.arange(2), (recorded - ideal)[:, None],
        lambda kept: float(np.where(kept.reshape(2, -1)[:, 0], recorded, ideal).max()),
        lambda worker, kind: ("more_gpu_work", HOSTILE), edges=2,
    )  # fmt: skip
    page = opened(slowdown_page(Slowdown(work), "job"), width=700)
    assert page.locator(".heat-map td.number").all_inner_texts() == ["1.000", "1.500"]
    assert page.locator(".heat-map td.late").all_inner_texts() == ["1.500"]
    show(page, "tables")
    page.keyboard.press("/")
    page.keyboard.type("dp 1")
    until(page, "document.querySelectorAll('#view-tables tbody tr td.text').length < 9")
    assert page.evaluate("document.documentElement.scrollWidth") <= 700
    assert page.evaluate("document.title") != "owned"


def test_a_link_names_a_rank_and_a_collective(text: str, opened: Opened) -> None:
    page = opened(text, hash="#view=step&rank=2&collective=4")
    page.wait_for_selector("#view-step")
    assert page.evaluate("[tracelensGraph.rank, tracelensGraph.collective]") == [2, 4]
    page.evaluate("location.hash = '#collective=999'")
    until(page, "document.getElementById('found').textContent === 'collective 999 is not in the table'")


def test_hostile_names_are_text_in_every_view(opened: Opened) -> None:
    page = opened(ranks_page(Job(hostile(HOSTILE)), HOSTILE))
    for view in tabs(page):
        show(page, view)
    page.evaluate(
        "(() => { const app = tracelensGraph, tip = (lines) => $dom.Tip.at({ clientX: 9, clientY: 9 }, lines);"
        "for (const number of app.collectives.numbers) app.selectCollective(number);"
        "for (let part = 0; part < app.step.parts.lane.length; part++) tip(app.step.says({ part }));"
        "for (const mark of app.bandwidth?.points ?? []) tip(app.bandwidth.says(mark));"
        "app.search('script'); app.next(1) })()"
    )
    assert page.evaluate("document.title") != "owned"
    assert page.evaluate("document.scripts.length") == 5
    assert page.evaluate("document.querySelectorAll('img, iframe, object, embed, link, base').length") == 0


def test_jobs_without_collectives_or_ranks_that_share_none(late: Job, opened: Opened) -> None:
    page = opened(ranks_page(Job(late.matched.ranks[:1]), "job"))
    for view in tabs(page):
        show(page, view)
    assert "share no collective" in page.inner_text("#view-collectives")


@needs_corpus
def test_eight_real_ranks(opened: Opened) -> None:
    assert CORPUS
    files = [str(CORPUS / "dlrm-8-ranks" / "kineto" / f"rank{number}.json.gz") for number in range(8)]
    job = Job(load_core_set(files))
    page = opened(ranks_page(job, "dlrm"))
    for view in tabs(page):
        show(page, view)
    assert "PyTorch 2.2 and newer record with ops" in page.inner_text("#view-overview .notes")
    assert "bandwidth" not in tabs(page)
    sums = page.evaluate("[...tracelensGraph.collectives.split.wait].reduce((a, b) => a + b, 0)")
    assert sums == int(job.matched.wait_ns.sum())
