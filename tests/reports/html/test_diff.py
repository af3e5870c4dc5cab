"""The page of a comparison as a file: its data are those of the comparison, and no name is markup."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from handmade import small_trace
from html_pages import Tags, diff_page_of, hostile_diff, policy_of, read
from recorded_pairs import EXAMPLES
from to_draw import MODELS, pair_of, small_diff

from corpus import parametrize
from tracelens_graph.analyses.alignment.difference import diff
from tracelens_graph.analyses.alignment.host_work import comparable
from tracelens_graph.graph.window import whole_window
from tracelens_graph.loading.one import load_core
from tracelens_graph.reports.html.diff import diff_stacks
from tracelens_graph.reports.html.names import LONGEST


@parametrize("path", MODELS)
def test_frames_and_places_add_up_to_both_sides(path: Path) -> None:
    difference = pair_of(path)
    page = read(diff_page_of(difference))
    columns = {name.removeprefix("diff."): values for name, values in page.columns.items()}
    for k, whole in enumerate(difference.ns):
        mine = columns["side"] == k
        assert int(columns["ns"][mine].sum()) == whole
        assert int(columns["count"][mine].sum()) == len(difference.alignment.sides[k].events)
        by_place = np.bincount(columns["place"][mine], columns["ns"][mine], minlength=len(difference.places))
        assert by_place.tolist() == [place.ns[k] for place in difference.places]
    assert (columns["parent"] - 1 < np.arange(len(columns["parent"]))).all()
    assert [place["ns"] for place in page.body["places"]] == [list(place.ns) for place in difference.places]


def test_both_trees_are_one() -> None:
    difference = small_diff()
    stacks, called = diff_stacks(difference)
    names = np.array(called.texts)[stacks["name"]]
    sides: dict[str, set[int]] = {}
    for frame, side in zip(stacks["frame"].tolist(), stacks["side"].tolist(), strict=True):
        sides.setdefault(names[frame], set()).add(side)
    assert sides["gemm"] == {0}
    assert sides["Cijk_gemm"] == {1}
    assert sides["more_kernel"] == {1}
    gemm, other = (int(np.flatnonzero(names == name)[0]) for name in ("gemm", "Cijk_gemm"))
    assert stacks["parent"][gemm] == stacks["parent"][other]
    assert len(set(zip(stacks["parent"].tolist(), stacks["name"].tolist(), strict=True))) == len(names)


def test_the_overview_says_what_the_screen_says() -> None:
    difference = small_diff()
    head = read(diff_page_of(difference, said=["a note"])).head["overview"]
    assert head["headline"].startswith("GPU time ")
    assert "more (" in head["headline"]
    assert head["notes"] == ["a note"]
    reasons = sum(one["slower_ms"] - one["faster_ms"] for one in head["reasons"])
    assert reasons == pytest.approx((difference.ns[1] - difference.ns[0]) / 1e6)
    assert {label for label, *_ in head["facts"]} >= {"GPU events", "entries of the file"}


def test_what_is_the_same_is_no_reason() -> None:
    core = load_core(small_trace())
    page = read(diff_page_of(diff(core, core)))
    assert page.head["overview"]["reasons"] == []
    assert page.head["overview"]["headline"].startswith("The GPU work is the same")


def test_the_policy_is_strict_and_no_name_is_markup() -> None:
    plain, hostile = diff_page_of(small_diff()), diff_page_of(hostile_diff())
    assert policy_of(plain)["default-src"] == "'none'"
    assert "unsafe" not in policy_of(plain)["script-src"] + policy_of(plain)["style-src"]
    assert "://" not in re.sub(r"http://www\.w3\.org/2000/svg", "", plain)
    assert [tag for tag, _ in Tags(plain).found] == [tag for tag, _ in Tags(hostile).found]
    page = read(hostile)
    assert all(len(name) <= LONGEST + 3 and name.isprintable() for name in page.body["names"])
    assert len(page.body["texts"]) == len(set(page.body["texts"]))
    hostile.encode()


@parametrize("path", MODELS)
def test_a_page_is_small(path: Path) -> None:
    assert len(diff_page_of(pair_of(path))) < 300_000


def test_what_stands_for_own_time_of_the_host_has_no_number() -> None:
    path = EXAMPLES / "tiny-transformer-cpu.json.gz"
    of_host = comparable(*(whole_window(load_core(path)) for _ in "ab"))
    difference = diff(*of_host)
    parts = len(diff_stacks(difference)[0]["uid"])
    assert read(diff_page_of(difference)).columns["diff.uid"].tolist() == [-1] * parts
