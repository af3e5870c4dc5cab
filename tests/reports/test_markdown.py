"""Text in Markdown: it stays text, names nobody, and links to nothing."""

from __future__ import annotations

import pytest
from github_markdown import read
from handmade import HOSTILE
from hypothesis import given
from hypothesis import strategies as st

from tracelens_graph.reports.markdown import code, code_cell, escape, folded, pipe_table
from tracelens_graph.utils.texts import printable

NAMES = [
    "@torch", "a @user b", "mail@example.org", "@SUM(1+1)", "#1", "fixes #12", "owner/repo#3", "GH-7", "#1234567",
    "0123456789abcdef0123456789abcdef01234567", "commit abc1234", "deadbeef0", "https://example.org", "www.example.org",
    "[a](b)", "![a](b)", "<b>x</b>", "<!-- x -->", "</details>", "&copy; &#64;user", "`@user`", "``",
    "a|b", "a\\|b", "\\",
    "- x", "+ x", "= x", "---", "1. x", "12) x", "# x", "> x", "* x", "_x_ *y*", "~~x~~", "~~~", "```", ":+1:", "$x$",
    "C:\\Windows\\system32", HOSTILE, "a  b", "\\@user", "\\#1", "@@user", "##1", "@\u200buser",
]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_text_is_text(name: str) -> None:
    page = read(escape(name) + "\n")
    assert page.links == []
    assert page.paragraphs == [printable(name)]
    assert not page.headings


@pytest.mark.parametrize("name", NAMES)
def test_cells_hold_one_text(name: str) -> None:
    table = pipe_table(["name", "n"], [[escape(name), "1"], [code_cell(name), "2"]], [False, True])
    page = read(table + "\n")
    assert page.links == []
    assert page.tables == [[["name", "n"], [printable(name), "1"], [printable(name), "2"]]]


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1).filter(lambda text: text == text.strip()))
def test_any_text_is_text(name: str) -> None:
    page = read(f"x {escape(name)}\n\n{pipe_table(['a'], [[escape(name)], [code_cell(name)]], [False])}\n")
    shown = printable(name).replace("\u200b", "")
    assert page.links == []
    assert page.paragraphs == [f"x {shown}"]
    assert page.tables == [[["a"], [shown], [shown]]]


@pytest.mark.parametrize("name", [name for name in NAMES if name.strip()])
def test_what_unfolds(name: str) -> None:
    page = read(folded(name, "| a |\n| --- |\n| 1 |") + f"\n\n{code(name)}\n")
    assert (page.links, page.depth) == ([], 0)
    assert page.folds == [printable(name)]
    assert page.tables == [[["a"], ["1"]]]
    assert page.paragraphs == [printable(name)]


def test_numbers_and_names_of_ops_stay_as_they_are() -> None:
    assert (
        escape("aten::mm takes 1,234.5 ms (12 %), 1234567 bytes") == "aten::mm takes 1,234.5 ms (12 %), 1234567 bytes"
    )
    assert code_cell("aten::_foreach_mul_") == "`aten::_foreach_mul_`"
