"""Tables at the prompt and in notebooks."""

from __future__ import annotations

from html.parser import HTMLParser

import numpy as np
import pytest
from handmade import HOSTILE

from tracelens_graph.tables.column import Column, Role
from tracelens_graph.tables.table import Table

HOSTILE_HTML = "<script>alert(1)</script>\"'&"


def wide(rows: int = 25) -> Table:
    """Long names, many numbers: wider than any terminal."""
    columns: dict[str, object] = {"name": [f"at::native::kernel<{'x' * 300}>{row}" for row in range(rows)]}
    columns |= {f"number_{i}": np.arange(rows) * 1e6 for i in range(20)}
    about = {name: Column("", role=Role.key if name == "name" else Role.sum) for name in columns}
    about["number_1"] = Column("", role=Role.min)
    return Table("wide", columns, about, "Wide " * 100)  # type: ignore[arg-type]


@pytest.mark.parametrize("width", [60, 80, 100, 120])
def test_repr_fits_the_terminal(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    lines = repr(wide()).splitlines()
    assert max(map(len, lines)) <= width
    assert len(lines) <= 1 + 2 + 10 + 3
    header, rule = lines[1:-1], next(at for at, line in enumerate(lines) if line.startswith("---"))
    assert "number 0" in " ".join(header)
    assert "number 1 " not in " ".join(header)  # minima give way first
    below = " ".join(lines[rule + 11 :])
    assert below.startswith("15 more rows; ")
    assert "more columns: " in below


def test_what_fits_is_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    table = Table("t", {"name": ["a", "b"], "n": np.array([1, 2000]), "share": np.array([0.5, np.nan])}, {}, "Two")
    assert repr(table) == "Two\nname      n  share\n----  -----  -----\na         1  0.500\nb     2,000"
    assert repr(Table("t", {"name": list("abcdefghijk")})).endswith("\n1 more row")
    assert repr(Table("empty", {"name": []})) == "empty\nno rows"
    assert repr(Table("bare", {})) == "bare\nno rows"


def test_repr_obeys_no_name(monkeypatch: pytest.MonkeyPatch) -> None:
    table = Table("t", {HOSTILE: [HOSTILE] * 2} | {f"{i}{HOSTILE}": [HOSTILE] * 2 for i in range(20)}, {}, HOSTILE)
    assert "\x1b" not in repr(table)
    monkeypatch.setenv("COLUMNS", "60")
    assert "\x1b" not in repr(table)


class Tags(HTMLParser):
    """The tags of a document, and its text."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen += [tag, *(name for name, _ in attrs)]

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def read(html: str) -> Tags:
    tags = Tags()
    tags.feed(html)
    return tags


def test_html_holds_no_markup_of_the_trace() -> None:
    about = {HOSTILE_HTML: Column(HOSTILE_HTML, HOSTILE_HTML), "n": Column("")}
    table = Table("t", {HOSTILE_HTML: [HOSTILE_HTML, HOSTILE], "n": np.array([1, 2])}, about, HOSTILE_HTML)
    tags = read(table._repr_html_())
    assert set(tags.seen) == {"table", "caption", "thead", "tbody", "tr", "th", "td", "title", "style"}
    assert tags.text.count(HOSTILE_HTML) == 3  # caption, heading, cell
    assert "\x1b" not in table._repr_html_()


def test_html_is_short() -> None:
    html = wide(10_000)._repr_html_()
    assert len(html) < 20_000
    tags = read(html)
    assert tags.seen.count("tr") == 1 + 10
    assert tags.seen.count("th") == 12
    assert tags.text[-1].startswith("9,990 more rows; 9 more columns: number_1, ")


def test_html_of_numbers() -> None:
    about = {"share": Column("a share", "%"), "uid": Column("", role=Role.uid)}
    html = Table("t", {"share": np.array([12.345]), "uid": np.array([12345])}, about)._repr_html_()
    assert '<th style="text-align: right" title="a share (%)">share</th>' in html
    assert '<td style="text-align: right">12.35</td><td style="text-align: right">12345</td>' in html


def test_html_of_texts_stands_at_the_left() -> None:
    html = Table("t", {"name": ["a", "b"]}, {})._repr_html_()
    assert '<th style="text-align: left">name</th>' in html
    assert '<td style="text-align: left">b</td>' in html
