"""The picture of the roofline: what is drawn where, and that names from a trace stay texts."""

from __future__ import annotations

import io
import json
import math
import re
import subprocess
import sys
from collections.abc import Mapping
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from extended import with_models
from handmade import span

from tracelens_graph.analyses.performance.perf_tables import unified_perf_summary
from tracelens_graph.analyses.performance.roofline_summary import roofline_summary, unmodelled
from tracelens_graph.errors import MissingExtraError
from tracelens_graph.graph.core import Core
from tracelens_graph.loading.one import load_core
from tracelens_graph.perf.cost import Cost
from tracelens_graph.perf.devices import Architecture, Figure, Source
from tracelens_graph.perf.model import OpModel
from tracelens_graph.reports import roofline_html as module
from tracelens_graph.reports.page import drawing_library
from tracelens_graph.reports.picture import FORMATS
from tracelens_graph.reports.roofline_html import roofline_html
from tracelens_graph.reports.roofline_picture import write_roofline_picture

pytest.importorskip("plotly")

FIGURES = {"matrix_bf16": 10.0, "matrix_fp16": 10.0, "vector_fp32": 8.0, "memory_bandwidth_gbps": 1000.0}
TOY = Architecture("toy", "Toy <b>", "", {name: Figure(value, Source()) for name, value in FIGURES.items()})

HOSTILE = [
    "<script>document.title = 'owned'</script>",
    "</script><script>document.title = 'owned'</script>",
    "<img src=x onerror=\"document.title = 'owned'\">",
    "<a href='javascript:alert(1)'>click</a>",
    "</title></table></td><!-- ",
    "%{x} $\\alpha$ &lt;b&gt; ` ${1} \\u003cb\\u003e",
    "\u2028line\nfeed\x1b[31m\u202e\x00",
    "half \ud83d a pair",
    "y" * 100_000,
]


def always(cost: Cost) -> OpModel:
    return OpModel(lambda arguments, context: cost, "GEMM")


MODELS: Mapping[str, OpModel] = {
    "product": always(Cost(4_000_000_000, 40_000_000, "matrix", "bf16")),
    "half product": always(Cost(4_000_000_000, 400_000_000, "matrix", "fp16")),
    "sum": always(Cost(10_000_000, 40_000_000, "vector", "fp32")),
    "no rate": always(Cost(10_000_000, 40_000_000, "vector", "")),
    "copy": always(Cost(0, 40_000_000, "vector", "fp32")),
    "bytes unknown": always(Cost(10_000_000, None, "vector", "fp32")),
    **{name: always(Cost(10_000_000, 40_000_000, "vector", "fp32")) for name in HOSTILE},
}


def trace(names: list[str], dims: list[Any] | None = None) -> Core:
    """Calls of ops, one after the other, each with a kernel of 1 ms."""
    events = []
    for number, name in enumerate(names, 1):
        at, place = number * 2000.0, {"device": 0, "stream": 7}
        events += [
            span("cpu_op", name, at, 100, Input_Dims=dims or [[8, 16]], Input_type=["c10::BFloat16"]),
            span("cuda_runtime", "cudaLaunchKernel", at + 1, 5, correlation=number),
            span("kernel", name, at + 50, 1000, 0, 7, correlation=number, **place),
        ]
    return load_core(events)


def page(core: Core, arch: Architecture = TOY, source: str = "t.json") -> str:
    w = with_models(core, MODELS)
    ops = unified_perf_summary(w, arch=arch)
    return roofline_html(ops, roofline_summary(w, arch), unmodelled(w), arch, source)


def figure(text: str) -> dict[str, Any]:
    """What is drawn, as plotly.js is told."""
    found = re.search(r"^(?:<script>)?const figures = (.*);$", text, re.MULTILINE)
    assert found
    drawn: dict[str, Any] = json.loads(found[1])["roofline"]
    return drawn


def marks(text: str) -> list[tuple[float, float, str]]:
    return [
        mark
        for data in figure(text)["data"]
        if data["mode"] == "markers"
        for mark in zip(data["x"], data["y"], data["hovertext"], strict=True)
    ]


class Reader(HTMLParser):
    """The tags of a page, its texts, and its scripts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def without_library(text: str) -> str:
    """The page without plotly.js, which is none of ours to read."""
    assert text.count(drawing_library()) == 1
    return text.replace(drawing_library(), "")


def test_marks_stand_where_they_should() -> None:
    text = page(trace(["product", "half product", "half product", "sum", "no rate"]))
    found = {hover.partition("</b>")[0].removeprefix("<b>"): (x, y) for x, y, hover in marks(text)}
    assert found == {
        "product": pytest.approx((100, 4)),
        "half product": pytest.approx((10, 4)),
        "sum": pytest.approx((0.25, 0.01)),
        "no rate": pytest.approx((0.25, 0.01)),
    }
    hover = next(hover for *_, hover in marks(text) if "half" in hover)
    assert hover.split("<br>") == [
        "<b>half product</b>", "[8, 16]", "BFloat16, matrix_fp16", "calls: 2, 2.000 ms (40.00 %)",
        "10.00 FLOPs per byte, 4.000 TFLOPS/s", "40.0 % of the roof; compute bounds",
    ]  # fmt: skip
    assert next(hover for *_, hover in marks(text) if "no rate" in hover).endswith("<br>no roof")


def test_areas_are_shares_of_time() -> None:
    drawn = [
        data for data in figure(page(trace(["product", "sum", "sum", "sum"])))["data"] if data["mode"] == "markers"
    ]
    sizes = {y: size for data in drawn for y, size in zip(data["hovertext"], data["marker"]["size"], strict=True)}
    assert {text[3:6]: size for text, size in sizes.items()} == {"pro": pytest.approx(25), "sum": pytest.approx(75)}
    assert {data["marker"]["sizemode"] for data in drawn} == {"area"}
    assert len({data["marker"]["sizeref"] for data in drawn}) == 1


def test_roofs_are_those_of_the_precisions_that_occur() -> None:
    text = page(trace(["product", "half product", "sum"]))
    lines = [data for data in figure(text)["data"] if "lines" in data["mode"]]
    memory, *levels = lines
    for x, y in zip(memory["x"], memory["y"], strict=True):
        assert y == pytest.approx(x * 1.0)  # 1 TB/s
    assert memory["x"][1] == pytest.approx(10)
    # Equal rates share a line; a level begins on the slope of the memory.
    assert [(level["x"][0], level["y"]) for level in levels] == [(10.0, [10.0, 10.0]), (8.0, [8.0, 8.0])]
    labels = figure(text)["layout"]["annotations"]
    assert [label["text"] for label in labels] == [
        "memory 1.00 TB/s",
        "matrix_bf16, matrix_fp16<br>10.0 TFLOPS/s, ridge 10.0",
        "vector_fp32<br>8.0 TFLOPS/s, ridge 8.0",
    ]
    assert labels[1]["yshift"] == 0
    assert labels[2]["yshift"] < 0  # they are too near for two labels
    only = page(trace(["sum"]))
    assert [label["text"] for label in figure(only)["layout"]["annotations"]][1:] == [
        "vector_fp32<br>8.0 TFLOPS/s, ridge 8.0"
    ]


def test_everything_is_inside_of_the_axes() -> None:
    drawn = figure(page(trace(["product", "sum"])))
    for data in drawn["data"]:
        for axis in "xy":
            low, high = drawn["layout"][f"{axis}axis"]["range"]
            assert all(low - 1e-9 <= math.log10(value) <= high + 1e-9 for value in data[axis])


def test_what_is_not_drawn_is_said() -> None:
    text = page(trace(["sum", "copy", "bytes unknown", "unheard of"]))
    assert [hover.partition("</b>")[0] for *_, hover in marks(text)] == ["<b>sum"]
    words = " ".join(Reader(without_library(text)).text)
    assert "1 operations with a model are not drawn" in words
    copies = words[words.index("Operations that move data and compute nothing") :]
    assert re.search(r"copy\s*\[8, 16\]\s*1\s*1\.000\s*0\.040\s*4\.0\s", copies)
    assert "unheard of" in copies
    assert "no model for this operation" in copies


def test_most_could_be_won_comes_first() -> None:
    words = " ".join(Reader(without_library(page(trace(["product", "sum", "sum"])))).text)
    table = words[words.index("Where most could be won") :]
    # 2 ms less twice 40 us; 1 ms less 400 us
    assert re.search(
        r"sum .*?2\.000\s*1\.920\s*4\.0\s*memory\s.*product .*?1\.000\s*0\.600\s*40\.0\s*compute", table, re.S
    )


def test_operations_beyond_number_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_MARKS", 2)
    text = page(trace(["sum", "product", "half product"]))
    assert len(marks(text)) == 2
    assert "1 more operations are not drawn" in text


@pytest.mark.parametrize("names", [[], ["unheard of"], ["copy"]])
def test_without_marks(names: list[str]) -> None:
    text = page(trace(names))
    assert marks(text) == []
    assert "no operation with a model computes anything" in text


def test_a_device_without_figures_has_no_roofs() -> None:
    text = page(trace(["sum", "copy"]), Architecture("bare", "Bare", "", {}))
    assert len(figure(text)["data"]) == len(marks(text)) == 1


def test_names_stay_texts() -> None:
    text = page(trace(HOSTILE, dims=[["<script>alert(1)</script>"]]), source="<script>alert(1)</script>.json")
    plain = page(trace(["sum"] * len(HOSTILE)))
    tags = [tag for tag, _ in Reader(without_library(text)).tags]
    assert set(tags) == {tag for tag, _ in Reader(without_library(plain)).tags}
    assert tags.count("script") == 2
    assert all(set(attributes) <= {"lang", "charset", "http-equiv", "name", "content", "class", "id", "style"}
               for _, attributes in Reader(without_library(text)).tags)  # fmt: skip
    assert len(without_library(text)) < 100_000
    for *_, hover in marks(text):
        assert set(re.findall(r"<[^>]*>", hover)) == {"<b>", "</b>", "<br>"}
        assert hover.replace("<br>", "").isprintable()
    text.encode()


@pytest.mark.parametrize("form", FORMATS)
def test_names_stay_texts_in_a_picture(form: str) -> None:
    pytest.importorskip("matplotlib")
    core = trace([*HOSTILE, "product"])
    ops = unified_perf_summary(with_models(core, MODELS), arch=TOY)
    drawn = io.BytesIO()
    write_roofline_picture(ops, TOY, "<script>$\\alpha$</script>.json", form, drawn)
    assert is_ours_in_head(drawn.getvalue())
    if form == "svg":
        root = ElementTree.fromstring(drawn.getvalue())
        assert not [element for element in root.iter() if element.tag.rpartition("}")[2] in ("script", "a", "image")]
        texts = "".join(root.itertext())
        assert "<script>$\\alpha$</script>.json" in texts
        assert "memory 1.00 TB/s" in texts


def is_ours_in_head(content: bytes) -> bool:
    return b"tracelens_graph " in content[:4096]


def test_the_page_allows_its_own_scripts_only() -> None:
    from base64 import b64encode
    from hashlib import sha256

    text = page(trace(["sum"]))
    (policy,) = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]*)"', without_library(text))
    assert "default-src 'none'" in policy
    assert "unsafe-inline" not in policy[policy.index("script-src") : policy.index("style-src")]
    drawing = text[text.index("const figures") : text.rindex("</script>")]
    for script in (drawing_library(), drawing):
        assert f"'sha256-{b64encode(sha256(script.encode()).digest()).decode()}'" in policy
    assert not re.search(r"(?:src|href)\s*=", without_library(text))
    assert "http" not in without_library(text).replace("http-equiv", "")


def test_in_a_browser(chromium: str, tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    text = page(trace(["product", *HOSTILE]))
    path.write_text(text)
    options = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}"]
    run = subprocess.run(
        [chromium, *options, "--virtual-time-budget=5000", "--dump-dom", path.as_uri()],
        capture_output=True,
        text=True,
        timeout=60,
    )
    dom = without_library(run.stdout)
    assert "<title>Roofline of t.json on Toy &lt;b&gt;</title>" in dom
    assert len(marks(text)) >= len(HOSTILE)
    assert dom.count('<path class="point"') == len(marks(text)) + 2 * 2  # and the ends of two roofs
    assert "memory 1.00 TB/s" in dom


def test_the_same_page_twice() -> None:
    assert page(trace(["product", "sum"])) == page(trace(["product", "sum"]))


def test_without_plotly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "plotly.offline", None)
    with pytest.raises(
        MissingExtraError, match=re.escape("plotly is not installed: pip install 'tracelens_graph[plot]'")
    ):
        page(trace(["sum"]))
