"""The page in a browser: every view of real traces is clicked through, and its figures are those of the tables."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from handmade import small_trace, span
from html_pages import NAMELESS, NAMES, Opened, hostile_page, page_of, searched, show, tabs, until

from corpus import loaded, parametrize, traces_named
from tracelens_graph.analyses.ops.ops import ops_summary
from tracelens_graph.analyses.ops.top_ops import top_ops
from tracelens_graph.analyses.places.host_times import host_times
from tracelens_graph.analyses.places.modules import module_times, modules
from tracelens_graph.graph.core import Core
from tracelens_graph.loading.one import load_core
from tracelens_graph.simulate import simulate

if TYPE_CHECKING:
    from playwright.sync_api import Browser

TRACES = traces_named(
    "tracelens/h100/qwen1.5-0.5b", "tracelens/mi300/resnet-ddp-checkpointing", "tracelens/mi300/normalization-layers",
    "tracelens/mi300/torch-compile-triton", "tracelens/inference/vllm-decode/graph-replay", "tracelens/mi210/gpu-only",
    "hta/critical-path/event-sync-multi-stream", "hta/cpu-only/rank-34",
)  # fmt: skip
QWEN = TRACES[:1]
VIEWS = ("overview", "timeline", "flame", "tables", "roofline", "memory")
SUMS = """(() => {
  const { flame } = tracelensGraph, found = [];
  for (const view of flame ? [...flame.views.options].map((one) => one.value) : []) {
    for (const isInverted of [false, true]) {
      flame.set({ view, isInverted });
      const { made } = flame;
      const add = (values) => [...values].reduce((sum, value) => sum + value, 0);
      found.push([flame.measure, made.sum, add(made.own), add([...made.kids(-1)].map((frame) => made.total[frame]))]);
    }
  }
  return found;
})()"""
"""For each way to draw the flame graph its measure, its sum, that of own times, and that of the outermost ones."""

ROWS = """tracelensGraph.trace.body.tables.filter((table) => table.rows).map((table) => {
  document.querySelector(`[data-table="${table.name}"]`).click();
  return [table.rows, document.querySelectorAll("#view-tables tbody tr:not(.spacer)").length];
})"""
"""For each table with rows their number, and that of those in sight."""


def gpu_ns(core: Core) -> int:
    return int(core.columns.dur_ns[core.gpu_rows].sum())


@parametrize("path", TRACES)
def test_every_view_of_a_real_trace(path: Path, opened: Opened) -> None:
    core = loaded(path)
    page = opened(page_of(core))
    whole = gpu_ns(core)
    assert page.inner_text(".headline h2")
    views = tabs(page)
    assert {"overview", "timeline", "tables"} <= set(views) <= set(VIEWS)
    assert "flame" in views
    for view in views:
        show(page, view)
    show(page, "timeline")
    until(page, "tracelensGraph.timeline.drawTimes.length")
    page.click("text=Events in view")
    assert page.evaluate("tracelensGraph.timeline.grid.order.length") > 0
    sums = page.evaluate(SUMS)
    host = sum(host_times(core, "thread")["self_ms"])
    for measure, *same in sums:
        assert len(set(same)) == 1
        assert same[0] == whole if measure == "GPU time" else same[0] <= 1e6 * host + 1
    assert sums
    show(page, "tables")
    rows = page.evaluate(ROWS)
    assert rows
    assert all(shown > 0 for _, shown in rows)


@parametrize("path", TRACES[:3])
def test_figures_are_those_of_the_tables(path: Path, opened: Opened) -> None:
    core = loaded(path)
    page = opened(page_of(core))
    page.evaluate("tracelensGraph.flame.set({view: 'kernels', isInverted: true})")
    by_op = page.evaluate(
        "(() => { const f = tracelensGraph.flame, t = tracelensGraph.trace; return Object.fromEntries("
        "[...f.made.kids(-1)].map((k) => [t.body.names[f.made.name[k]], f.made.total[k]])) })()"
    )
    table = ops_summary(core)
    for name, ms in zip(table["name"], table["total_direct_kernel_time_ms"], strict=True):
        if name in by_op:
            assert by_op[name] == pytest.approx(1e6 * float(ms), abs=0.5), name
    assert len(by_op) >= len(table) - 2
    drawn = (
        "(() => { const t = tracelensGraph.trace; let sum = 0;"
        "for (let e = t.first.gpu; e < t.first.idle; e++) sum += t.dur[e]; return sum })()"
    )
    assert page.evaluate(drawn) == gpu_ns(core)


@parametrize("path", QWEN)
def test_from_the_report_to_module_and_line_in_three_clicks(path: Path, opened: Opened) -> None:
    core = loaded(path)
    page = opened(page_of(core))
    page.click("text=show uid 16411")
    page.wait_for_selector("#view-timeline", state="visible")  # the link's own address changes before the view
    until(page, "location.hash.includes('uid=16411')")
    said = page.inner_text("#selected .what")
    assert "at modeling_qwen2.py:68 apply_rotary_pos_emb" in said
    assert re.search(r"Qwen2Model_0 . Qwen2DecoderLayer_17 . Qwen2Attention_17", said)
    page.click("#selected .path >> text=Qwen2Attention_17")
    until(page, "document.querySelector('#selected b').textContent === 'nn.Module: Qwen2Attention_17'")
    page.click("#selected >> text=Flame graph")
    page.wait_for_selector("#view-flame")
    assert page.locator(".crumbs button").last.inner_text().startswith("Qwen2Attention_17")
    (row,) = (one for one in module_times(core).records() if one["module"] == "Qwen2Attention_17")
    shown_ns = page.evaluate("tracelensGraph.flame.made.total[tracelensGraph.flame.zoomed]")
    assert shown_ns == pytest.approx(1e3 * row["total_us"], abs=0.5)
    first = page.locator("#view-flame tbody tr").first
    assert first.inner_text().split("\t") == [
        "Qwen2Attention_17", f"{row['total_us'] / 1e3:.3f}", "0.000", f"{row['percent']:.2f}", "23", "16459",
        "forward \u203a Qwen2Model_0 \u203a Qwen2DecoderLayer_17",
    ]  # fmt: skip


@parametrize("path", QWEN)
def test_the_frame_of_a_kernel_is_that_of_its_module(path: Path, opened: Opened) -> None:
    page = opened(page_of(loaded(path)), hash="#view=flame&uid=16411")
    assert page.locator(".crumbs button").last.inner_text().startswith("Qwen2Attention_17")
    assert page.evaluate("tracelensGraph.flame.made.uid[tracelensGraph.flame.marked]") == 16411


@parametrize("path", QWEN)
def test_hover_click_keys_and_search_on_the_timeline(path: Path, opened: Opened) -> None:
    core = loaded(path)
    page = opened(page_of(core))
    show(page, "timeline")
    until(page, "tracelensGraph.timeline.sheet")
    kernel = int(core.columns.uid[core.everything.linked_gpu_rows[40]])
    page.evaluate(f"tracelensGraph.timeline.zoomTo(tracelensGraph.trace.ofUid({kernel}))")
    place = (
        "(uid) => { const t = tracelensGraph.timeline, e = t.trace.ofUid(uid), b = t.canvas.getBoundingClientRect();"
        "return [b.x + t.x(t.trace.start[e] + t.trace.dur[e] / 2), b.y + t.lanes.placeOf(e).y + 6] }"
    )
    page.mouse.move(*page.evaluate(place, kernel))
    assert f"uid {kernel}" in page.inner_text("#tip")
    page.mouse.click(*page.evaluate(place, kernel))  # lanes may have moved in a browser that is busy
    until(page, f"location.hash.includes('uid={kernel}')")
    span = "tracelensGraph.timeline.view.to - tracelensGraph.timeline.view.from"
    before = page.evaluate(span)
    page.keyboard.press("w")
    assert page.evaluate(span) < before
    page.keyboard.press("s")
    page.keyboard.press("d")
    assert (
        page.evaluate("tracelensGraph.timeline.view.from")
        > page.evaluate(f"tracelensGraph.trace.start[tracelensGraph.trace.ofUid({kernel})]") - before
    )
    page.keyboard.press(".")
    until(page, f"!location.hash.includes('uid={kernel}')")
    page.keyboard.press("/")
    page.keyboard.type("aten::mm$")
    searched(page)
    count = int((core.columns.name == core.names.index("aten::mm")).sum())
    assert page.inner_text("#found").startswith(f"{count} found")
    page.keyboard.press("Enter")
    assert page.inner_text("#found") == f"{page.evaluate('tracelensGraph.place') + 1} of {count}"
    assert page.evaluate("tracelensGraph.trace.text(tracelensGraph.selection)") == "aten::mm"
    assert page.evaluate("tracelensGraph.trace.launched(tracelensGraph.selection).length") > 0
    page.mouse.wheel(0, -400)
    show(page, "flame")
    matched = page.evaluate("tracelensGraph.flame.matchedNs")
    mm = {row["name"]: row["total_direct_kernel_time_ms"] for row in ops_summary(core).records()}["aten::mm"]
    assert matched == pytest.approx(1e6 * mm, abs=0.5)
    page.keyboard.press("Escape")
    assert page.is_hidden("#selected")


@parametrize("path", QWEN)
def test_hit_test_finds_every_gpu_event(path: Path, opened: Opened) -> None:
    page = opened(page_of(loaded(path)))
    show(page, "timeline")
    until(page, "tracelensGraph.timeline.sheet")
    missed = page.evaluate(
        "(() => { const l = tracelensGraph.timeline, t = l.trace; let missed = 0;"
        "for (let e = t.first.gpu; e < t.first.idle; e += 7) { l.view = { from: t.start[e] - 2e4, to: t.end(e) + 2e4 };"
        "if (l.at(l.x(t.start[e] + t.dur[e] / 2), l.lanes.placeOf(e).y + 5) !== e) missed++ } return missed })()"
    )
    assert missed == 0


@parametrize("path", QWEN)
def test_levels_keep_the_time_of_every_track(path: Path, opened: Opened) -> None:
    page = opened(page_of(loaded(path)))
    sums = page.evaluate(
        "tracelensGraph.trace.levels.map((l) => { let s = 0, n = l.event.length;"
        "for (let i = 0; i < n; i++) s += l.isEvent ? l.end[i] - l.start[i] : l.sum[i]; return [n, s] })"
    )
    assert len(sums) > 1
    assert len({total for _, total in sums}) == 1
    counts = [count for count, _ in sums]
    assert counts == sorted(counts, reverse=True)


@parametrize("path", QWEN)
def test_tables_sort_filter_choose_and_copy(path: Path, opened: Opened) -> None:
    page = opened(page_of(loaded(path)))
    show(page, "tables")
    page.click('[data-table="ops_summary"]')
    page.click("#view-tables th >> text=calls")
    calls = page.locator("#view-tables tbody tr:not(.spacer)").nth(0).inner_text()
    assert calls.startswith("(no launch in trace)")
    page.fill("#view-tables input[type=search]", "^aten::mm$|rsqrt")
    assert page.locator("#view-tables tbody tr:not(.spacer)").count() == 2
    page.click("#view-tables >> text=Copy TSV")
    first, *rows = until(page, "tracelensGraph.tables.grid.copied").split("\n")
    assert first.split("\t")[0] == "op"
    assert {row.split("\t")[0] for row in rows} == {"aten::mm", "aten::rsqrt"}
    page.click("#view-tables summary")
    columns = page.locator("#view-tables th").count()
    page.click("#view-tables .choices label >> nth=1")
    assert page.locator("#view-tables th").count() != columns
    page.click("#view-tables td button >> text=aten::mm")
    assert page.evaluate("tracelensGraph.trace.lit.reduce((a, b) => a + b, 0)") >= 1
    page.click('[data-table="kernel_summary"]')
    page.fill("#view-tables input[type=search]", "")
    page.click("#view-tables tbody a >> nth=0")
    page.wait_for_selector("#selected")


def test_hostile_names_are_text_in_every_view(opened: Opened) -> None:
    page = opened(hostile_page())
    for view in tabs(page):
        show(page, view)
        until(page, "document.title !== 'owned' || 1")
    show(page, "timeline")
    until(page, "tracelensGraph.timeline.sheet")
    page.click("text=Events in view")
    for name in NAMES:
        page.evaluate("(name) => tracelensGraph.search(name.slice(0, 300))", name.encode("utf-8", "replace").decode())
        page.evaluate("tracelensGraph.next(1)")
    page.evaluate(
        "(() => { for (let e = 0; e < tracelensGraph.trace.first.idle; e += 3) { tracelensGraph.select(e, 'key');"
        "$dom.Tip.at({ clientX: 9, clientY: 9 }, tracelensGraph.trace.says(e)) } })()"
    )
    page.evaluate("tracelensGraph.search('')")
    show(page, "flame")
    for view in ("modules", "ops", "python", "kernels"):
        page.evaluate(f"tracelensGraph.flame.set({{view: '{view}'}})")
        page.mouse.move(200, 130)
    show(page, "memory")
    until(page, "tracelensGraph.memory.devices[0].plot")
    page.evaluate(
        "(() => { const m = tracelensGraph.memory, [device] = m.devices; m.listMoments();"
        "for (const way of m.holders.ways) m.holders.by(way);"
        "device.time.forEach((then, change) => $dom.Tip.at({ clientX: 9, clientY: 9 },"
        "m.says(device, { time: device.time[change], change, then: change }))) })()"
    )
    show(page, "tables")
    for table in page.evaluate("tracelensGraph.trace.body.tables.map((t) => t.name)"):
        page.evaluate("(name) => tracelensGraph.tables.open(name)", table)
    assert page.evaluate("document.title") != "owned"
    # Scripts are those that the file has; the other elements are those that the page makes, none of them a name's.
    assert page.evaluate("document.scripts.length") == 5
    assert (
        page.evaluate(
            "document.querySelectorAll('img, iframe, object, embed, link, base, style:not(head style)').length"
        )
        == 0
    )
    assert "<script>" in page.evaluate("tracelensGraph.trace.body.names.join(' ')")


def test_the_policy_stops_scripts_of_others(browser: Browser, tmp_path: Path) -> None:
    text = page_of(load_core(small_trace())).replace("<main", "<img src=x onerror=\"document.title = 'owned'\"><main")
    (tmp_path / "page.html").write_text(text.replace("<main", "<script>document.title = 'owned'</script><main"))
    page = browser.new_page()
    page.goto((tmp_path / "page.html").as_uri())
    until(page, "document.documentElement.dataset.ready")
    assert page.title() != "owned"
    page.close()


def test_without_a_worker_the_page_unpacks_itself(opened: Opened) -> None:
    page = opened(
        page_of(load_core(small_trace())), before="Worker = class { constructor() { throw new Error('no') } }"
    )
    assert page.evaluate("tracelensGraph.trace.n") == 13


def test_absurd_times_are_drawn(opened: Opened) -> None:
    events = [
        span("cpu_op", "a", 0, 10), span("cpu_op", "b", 9e12, 9e12), span("kernel", "k", 4e12, 1, 0, 7),
        span("kernel", "l", 4e12 + 1, 0, 0, 7), span("kernel", "m", 9e12, 5e12, 0, 7),
    ]  # fmt: skip
    page = opened(page_of(load_core(events)))
    show(page, "timeline")
    until(page, "tracelensGraph.timeline.drawTimes.length")
    for e in range(page.evaluate("tracelensGraph.trace.n")):
        page.evaluate(f"tracelensGraph.timeline.zoomTo({e})")
        page.evaluate("tracelensGraph.timeline.draw()")
    assert page.evaluate("tracelensGraph.flame.made.sum") == 5e15 + 1e3


def test_a_link_selects_a_node_and_a_view(opened: Opened) -> None:
    page = opened(page_of(load_core(small_trace())), hash="#view=flame&uid=9")
    page.wait_for_selector("#view-flame")
    assert "gemm" in page.inner_text("#selected")
    page.evaluate("location.hash = '#uid=7'")
    until(page, "document.getElementById('selected').textContent.includes('cudaLaunchKernel')")
    assert page.evaluate("tracelensGraph.timeline.trace.launched(tracelensGraph.selection).length") == 1
    page.evaluate("location.hash = '#uid=12345'")
    until(page, "document.getElementById('found').textContent === 'uid 12345 is not drawn on this page'")


@pytest.mark.parametrize("view", ["overview", "timeline", "tables", "memory"])
def test_a_link_to_a_view_and_a_node_stays_what_it_is(view: str, opened: Opened) -> None:
    page = opened(page_of(load_core(small_trace())), hash=f"#view={view}&uid=9")
    page.wait_for_selector(f"#view-{view}")
    assert page.evaluate("location.hash") == f"#view={view}&uid=9"


def test_enter_leaves_the_search_to_the_keys(opened: Opened) -> None:
    page = opened(page_of(load_core(small_trace())))
    page.keyboard.press("/")
    page.keyboard.type("a")
    searched(page)
    count = page.evaluate("tracelensGraph.matches.length")
    assert count > 4
    places = []
    for key in ("Enter", "n", "Enter", "N"):
        page.keyboard.press(key)
        places.append(int(page.inner_text("#found").split()[0]))
    assert [place - places[0] for place in places] == [0, 1, 2, 1]
    assert page.input_value("#search") == "a"
    page.keyboard.press("3")
    page.wait_for_selector("#view-flame")
    page.focus("#view-flame input[type=search]")
    page.keyboard.press("Escape")
    page.keyboard.press("1")
    page.wait_for_selector("#view-overview")


@parametrize("path", QWEN)
def test_the_overview_names_the_modules_of_operations_and_the_peak_of_memory(path: Path, opened: Opened) -> None:
    core = loaded(path)
    page = opened(page_of(core))
    rows = page.locator("#view-overview table tbody tr").all_inner_texts()
    largest = top_ops(core).records()
    assert len(rows) == len(largest)
    for shown, row in zip(rows, largest, strict=True):
        assert shown.split("\t")[0] == row["name"]
        assert row["mostly_in"] in shown
        assert f"{row['total_ms']:,.3f}" in shown
    assert "1.95 of 2.45 GiB" in page.inner_text("#view-overview .peak")
    page.click("text=show memory")
    until(page, "!document.getElementById('view-memory').hidden")


def test_an_op_says_where_it_is_called_and_what_autograd_launched_says_so(opened: Opened) -> None:
    (one,) = simulate(layers=1).ranks
    core = load_core(one.trace)
    page = opened(page_of(core))
    says = "(e) => tracelensGraph.trace.says(e).map(([, text]) => text)"
    ops = [
        e
        for e in range(page.evaluate("tracelensGraph.trace.first.note"))
        if page.evaluate(
            "(e) => tracelensGraph.trace.className(e) === 'op' && tracelensGraph.trace.launched(e).length > 0", e
        )
    ]
    told = [page.evaluate(says, e) for e in ops]
    placed = [any(line.startswith("at ") for line in lines) for lines in told]
    launched = ["no line recorded: launched by autograd" in lines for lines in told]
    assert sum(placed) > 5
    assert sum(launched) > 5
    assert not any(both == (True, True) for both in zip(placed, launched, strict=True))
    assert any("launches 1 GPU event, " in line for lines in told for line in lines)


@parametrize("path", QWEN)
def test_equal_frames_stand_in_the_order_of_time_and_classes_of_modules_are_one(path: Path, opened: Opened) -> None:
    core = loaded(path)
    page = opened(page_of(core), hash="#view=flame")
    assert page.input_value("#view-flame select >> nth=0") == "classes"
    page.select_option("#view-flame select >> nth=0", "modules")
    shown = (
        "tracelensGraph.flame.boxes.flatMap(({ chain, x }) => chain.map((frame) =>"
        "[tracelensGraph.trace.shortName(tracelensGraph.flame.made.name[frame]), x]))"
    )
    layers = [(x, name) for name, x in page.evaluate(shown) if name.startswith("Qwen2DecoderLayer_")]
    assert [name for _, name in sorted(layers)] == [f"Qwen2DecoderLayer_{number}" for number in range(24)]
    page.select_option("#view-flame select >> nth=0", "classes")
    assert page.evaluate("tracelensGraph.flame.boxes.length") < len(layers) * 4
    row = page.locator("#view-flame tbody tr", has_text="Qwen2DecoderLayer").first.inner_text().split("\t")
    layer = next(one for one in modules(core, by="class").records() if one["path"].endswith("/Qwen2DecoderLayer"))
    assert row[:2] == ["Qwen2DecoderLayer x 24", f"{layer['total_us'] / 1e3:.3f}"]
    assert row[-1] == "forward \u203a Qwen2Model"


def test_everything_that_acts_has_a_name(opened: Opened) -> None:
    page = opened(page_of(load_core(small_trace())))
    for view in tabs(page):
        show(page, view)
        assert page.evaluate(NAMELESS) == 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_light_and_dark_differ_and_nothing_overflows(scheme: str, opened: Opened) -> None:
    page = opened(page_of(load_core(small_trace())), hash="#view=overview&uid=9", width=1100, color_scheme=scheme)
    boxes = "['.list', '.one'].map((one) => document.querySelector(`#view-tables ${one}`).getBoundingClientRect().left)"
    show(page, "tables")
    left, right = page.evaluate(boxes)
    assert right > left + 100  # side by side
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert background == {"light": "rgb(255, 255, 255)", "dark": "rgb(20, 23, 26)"}[scheme]
    for view in tabs(page):
        show(page, view)
        assert page.evaluate("document.documentElement.scrollWidth") <= 1100
        assert page.evaluate("document.querySelector('#help').getBoundingClientRect().right") <= 1100
    page.click("#theme")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != background


@parametrize("path", QWEN)
def test_every_view_prints(path: Path, opened: Opened) -> None:
    page = opened(page_of(loaded(path)))
    for view in VIEWS:
        show(page, view)
        page.evaluate("dispatchEvent(new Event('beforeprint'))")
        page.emulate_media(media="print")
        height = page.evaluate(f"document.getElementById('view-{view}').getBoundingClientRect().height")
        assert height > 400, view
        assert page.is_hidden("#search")
        page.emulate_media(media="screen")
        page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert page.pdf().startswith(b"%PDF")


def test_arrows_go_from_tab_to_tab(opened: Opened) -> None:
    page = opened(page_of(load_core(small_trace())))
    page.focus("#tab-overview")
    page.keyboard.press("ArrowRight")
    page.wait_for_selector("#view-timeline")
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    page.wait_for_selector("#view-memory")
    assert page.evaluate("document.activeElement.id") == "tab-memory"
    assert page.evaluate("[...document.querySelectorAll('[role=tab]')].filter((tab) => tab.tabIndex === 0).length") == 1
