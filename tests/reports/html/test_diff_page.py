"""The page of a comparison in a browser: every view is clicked through, and its figures are those of the comparison."""

from __future__ import annotations

from pathlib import Path

from html_pages import NAMELESS, NAMES, Opened, diff_page_of, hostile_diff, searched, show, until
from to_draw import MODELS, pair_of, small_diff

from corpus import parametrize
from tracelens_graph.analyses.alignment.tables import places_table

QWEN = MODELS[:1]
VIEWS = ("overview", "flame", "places", "tables")

SUMS = """(() => {
  const { flame } = tracelensGraph, add = (values) => [...values].reduce((sum, value) => sum + value, 0);
  return ["both", "b", "a"].map((width) => {
    flame.set({ width });
    return flame.sides.map((one) => [one.sum, add(one.own), add([...one.kids(-1)].map((frame) => one.total[frame]))]);
  });
})()"""
"""For each way to draw the flame graph its sums of A and of B, those of own time, and those of the outermost frames."""

CENTRE = """(text) => {
  const { flame } = tracelensGraph, { names } = tracelensGraph.trace.body;
  const box = flame.boxes.find(({ chain }) => chain.some((frame) => names[flame.made.name[frame]] === text));
  const at = flame.canvas.getBoundingClientRect();
  return [at.x + (box.x + box.width / 2) * flame.width, at.y + box.row * $flame_graph.FlameGraph.ROW + 8];
}"""
"""Where the box of a frame with a name is in the window."""


@parametrize("path", MODELS)
def test_sums_are_those_of_both_sides(path: Path, opened: Opened) -> None:
    difference = pair_of(path)
    page = opened(diff_page_of(difference))
    for view in VIEWS:
        show(page, view)
    assert page.evaluate(SUMS) == [[[ns] * 3 for ns in difference.ns]] * 3
    inside = "(() => { const f = tracelensGraph.flame; return [...f.made.kids(-1)].flatMap((k) => f.placesIn(k)) })()"
    sums = [0, 0]
    for one in page.evaluate(inside):
        sums = [sums[0] + one["ns"][0], sums[1] + one["ns"][1]]
    assert sums == list(difference.ns)


@parametrize("path", QWEN)
def test_a_place_is_selected_in_every_view(path: Path, opened: Opened) -> None:
    difference = pair_of(path)
    page = opened(diff_page_of(difference, commands=lambda number: [("ask next", f"diff A B --point {number}")]))
    rows = places_table(difference).records()
    page.click("#view-overview .causes a >> nth=1")
    until(page, "location.hash === '#view=places&place=2'")
    said = page.inner_text("#view-places .one")
    assert rows[1]["why"] in said
    assert "diff A B --point 2" in said
    assert page.get_attribute('[data-place="2"]', "aria-current") == "true"
    page.click("#view-places .one >> text=Flame graph")
    page.wait_for_selector("#view-flame")
    zoomed = page.evaluate("tracelensGraph.flame.zoomed")
    held = page.evaluate("[...tracelensGraph.flame.framesOf.get(1)].map((f) => tracelensGraph.flame.made.path(f))")
    assert all(zoomed == -1 or zoomed in way for way in held)
    assert "2. " in page.inner_text("#selected")
    assert page.locator("#view-flame tr.marked").count() == len(held)
    page.click("#selected >> text=Table")
    assert page.inner_text("#view-tables tr.marked").startswith("2")
    page.keyboard.press(".")
    until(page, "location.hash.includes('place=3')")
    assert page.inner_text("#view-tables tr.marked").startswith("3")
    page.keyboard.press("Escape")
    assert page.is_hidden("#selected")
    page.click("#view-tables tbody button >> text=/^5$/")
    until(page, "location.hash.includes('place=5')")


def test_a_frame_tells_both_times_and_its_places(opened: Opened) -> None:
    page = opened(diff_page_of(small_diff()))
    show(page, "flame")
    page.mouse.move(*page.evaluate(CENTRE, "Cijk_gemm"))
    assert "only in B" in page.inner_text("#tip")
    page.mouse.click(*page.evaluate(CENTRE, "gemm"))
    until(page, "location.hash.includes('frame=')")
    assert "only in A" in page.inner_text("#selected")
    page.click("#selected .around a")
    until(page, "location.hash.includes('view=places')")
    assert "Cijk_gemm" in page.inner_text("#view-places .one")
    only = "tracelensGraph.flame.grid.content.columns.find((one) => one.heading === 'only in').cells"
    page.evaluate("tracelensGraph.unselect(); tracelensGraph.flame.reveal(-1)")
    assert set(page.evaluate(only)) == {"", "A", "B"}


@parametrize("path", QWEN)
def test_search_tells_time_and_places(path: Path, opened: Opened) -> None:
    difference = pair_of(path)
    page = opened(diff_page_of(difference))
    show(page, "flame")
    page.keyboard.press("/")
    page.keyboard.type("^aten::mm$")
    searched(page)
    matched = page.evaluate("tracelensGraph.flame.matchedNs")
    places = page.evaluate("tracelensGraph.matches")
    assert sum(matched) > 0
    assert places == [row["place"] for row in places_table(difference).records() if row["op"] == "aten::mm"]
    page.keyboard.press("Enter")
    until(page, f"location.hash.includes('place={places[0]}')")


@parametrize("path", QWEN)
def test_tables_sort_and_copy(path: Path, opened: Opened) -> None:
    page = opened(diff_page_of(pair_of(path)))
    show(page, "tables")
    page.click('[data-table="diff_totals"]')
    page.click("#view-tables >> text=Copy TSV")
    _, *rows = until(page, "tracelensGraph.tables.grid.copied").split("\n")
    assert len(rows) == 7
    assert "gpu_time" in rows[0]
    page.click('[data-table="diff_places"]')
    page.fill("#view-tables input[type=search]", "^aten::mm$")
    assert 0 < page.evaluate("tracelensGraph.tables.grid.order.length") < 42


def test_a_link_names_a_place_or_a_frame(opened: Opened) -> None:
    page = opened(diff_page_of(small_diff()), hash="#view=flame&place=1")
    page.wait_for_selector("#view-flame")
    assert page.inner_text("#selected").startswith("1. ")
    page.evaluate("location.hash = '#frame=0'")
    until(page, "tracelensGraph.frame === 0")
    page.evaluate("location.hash = '#place=999'")
    until(page, "document.getElementById('found').textContent.startsWith('there are ')")


def test_hostile_names_are_text_in_every_view(opened: Opened) -> None:
    page = opened(diff_page_of(hostile_diff(), said=NAMES[:2], commands=lambda number: [(NAMES[0], NAMES[1])]))
    for view in VIEWS:
        show(page, view)
    for name in NAMES:
        page.evaluate("(name) => tracelensGraph.search(name.slice(0, 300))", name.encode("utf-8", "replace").decode())
        page.evaluate("tracelensGraph.next(1)")
    page.evaluate("tracelensGraph.search('')")
    page.evaluate(
        "(() => { const app = tracelensGraph; for (let k = 0; k < app.flame.made.n; k++) { app.selectFrame(k);"
        "$dom.Tip.at({ clientX: 9, clientY: 9 }, app.flame.says({ chain: [k] })) }"
        "for (let k = 1; k <= app.rows; k++) app.selectPlace(k) })()"
    )
    assert page.evaluate("document.title") != "owned"
    assert page.evaluate("document.scripts.length") == 5
    assert page.evaluate("document.querySelectorAll('img, iframe, object, embed, link, base').length") == 0
    assert "<script>" in page.evaluate("tracelensGraph.trace.body.names.join(' ')")


def test_everything_that_acts_has_a_name(opened: Opened) -> None:
    page = opened(diff_page_of(small_diff(), commands=lambda number: [("ask next", "diff A B")]))
    for view in VIEWS:
        show(page, view)
        assert page.evaluate(NAMELESS) == 0
