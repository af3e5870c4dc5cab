"""Trees as text, against trees drawn here by plain recursion."""

from __future__ import annotations

import sys
from collections.abc import Callable
from itertools import islice
from typing import Any

import numpy as np
import pytest
from growth import assert_growth, calls
from handmade import small_trace, span
from shapes import trace

from corpus import chosen_traces, loaded, parametrize
from tracelens_graph.frameworks import PYTORCH
from tracelens_graph.graph import traversals
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.node import Node
from tracelens_graph.loading.one import load_core
from tracelens_graph.reports import tree_text
from tracelens_graph.reports.tree_text import (
    DEEPEST,
    HEADING,
    Choice,
    Labels,
    categories,
    fitted_line,
    forest,
    ladder,
    lines,
    short_category,
    subtree,
)
from tracelens_graph.schema import GPU_KINDS, Kind
from tracelens_graph.schema.categories import CATEGORY_OF_KIND


def drawn(core: Core, row: int, choice: Choice = Choice(), **labels: Any) -> list[str]:  # noqa: B008 (frozen)
    return list(lines(core, subtree(core, row, choice), Labels(short_category(core), short=True, **labels)))


def recursive(node: Node, kinds: set[Kind], prune: bool, depth: int) -> list[str]:
    """The same by recursion over nodes, with no regard for cost."""

    def visible(node: Node) -> list[Node]:
        found = []
        for child in node.children:
            if prune and not child.kernels:
                continue
            found += [child] if child.kind in kinds else visible(child)
        return found

    def draw(node: Node, prefix: str, connector: str, level: int) -> list[str]:
        name = node.name if len(node.name) <= 64 else node.name[:64] + "..."
        out = [f"{prefix}{connector}({PYTORCH.short_kinds[node.kind]}) {name}"]
        children = visible(node) if level < depth else []
        below = prefix + ("    " if connector == "└── " else "│   ")
        for child in children:
            out += draw(child, below, "└── " if child == children[-1] else "├── ", level + 1)
        return out

    return draw(node, "", "└── ", 0)


@parametrize("path", chosen_traces())
@pytest.mark.parametrize("prune", [False, True])
@pytest.mark.parametrize("kinds", [set(Kind), {Kind.Op, *GPU_KINDS}, {Kind.Module, Kind.RuntimeCall}])
def test_drawn_as_by_recursion(path: Any, prune: bool, kinds: set[Kind]) -> None:
    core = loaded(path)
    sizes = core.columns.last - np.arange(len(core.columns))
    only = np.isin(core.columns.kind, list(kinds))
    for row in np.flatnonzero((sizes > 3) & (sizes < 400))[:20].tolist():
        for depth in (2, 10_000):
            expected = recursive(Node(core, row), kinds, prune, depth)
            assert drawn(core, row, Choice(only, prune, depth)) == expected


def test_every_node_of_the_forest_is_drawn_once() -> None:
    core = load_core(small_trace())
    rows = [row for row, _ in forest(core, Choice()) if row != HEADING]
    assert rows == np.flatnonzero(core.columns.kind <= Kind.Memset).tolist()


def test_shapes_below_ops() -> None:
    core = load_core(small_trace())
    row = core.row(5)
    assert drawn(core, row, Choice(depth=1), fields=("Input type", "Input Dims", "Concrete Inputs")) == [
        "└── (cpu) aten::linear",
        "    |   Input type: ['float', 'float']",
        "    |   Input Dims: [[8, 16], [32, 16]]",
        "    └── (cpu) aten::addmm",
    ]


def forest_text(core: Core) -> int:
    return sum(map(len, lines(core, forest(core, Choice()), Labels(short_category(core), short=True, gpu_time=True))))


def ways_up_text(core: Core) -> int:
    places = tree_text.ladders(core, core.gpu_rows.tolist(), Choice(np.arange(len(core.columns)) % 2 == 0))
    return sum(map(len, tree_text.ladder_lines(core, places, Labels(short_category(core), gpu_time=True))))


def test_deeper_than_recursion_allows() -> None:
    depth = 3 * sys.getrecursionlimit()
    nested = [span("python_function", f"f{i}", float(i), 2.0 * depth - 2 * i) for i in range(depth)]
    core = load_core(nested)
    out = drawn(core, 0)
    assert out[-2:] == [
        "    " * DEEPEST + f"└── (python) f{DEEPEST}",
        "    " * (DEEPEST + 1) + f"└── ... {depth - DEEPEST - 1:,} more nodes below (go on from uid {DEEPEST})",
    ]
    more = f"└── ... {depth - DEEPEST - 1:,} more nodes below (go on from uid {DEEPEST})"
    assert fitted_line(out[-1], 80).endswith(f" {more}"), "cut in the branches, not in the words"
    assert len(fitted_line(out[-1], 80)) <= 80
    assert len(fitted_line(out[-1], 30)) <= 30
    *nodes, fold = ladder(core, depth - 1, Choice())
    assert [row for row, _ in nodes] == list(range(depth - 1, depth - DEEPEST - 2, -1))
    above = depth - DEEPEST - 1
    assert fold == (HEADING, f"... {above:,} more nodes above (go on up from uid {above - 1})")


@pytest.mark.parametrize("only", [slice(None), slice(0, None, 3)])
@pytest.mark.parametrize("depth", [None, 0, 5, DEEPEST + 50])
@pytest.mark.parametrize("shape", ["nested_launches", "children", "threads"])
def test_places_are_counted_before_they_are_made(shape: str, depth: int | None, only: slice) -> None:
    core = load_core(trace(shape, 300))
    mask = np.zeros(len(core.columns), bool)
    mask[only] = True
    choice = Choice(mask, depth=depth)
    ways_up = tree_text.ladders(core, range(0, len(core.columns), 50), choice)
    for places in (forest(core, choice), subtree(core, 0, choice), ways_up):
        assert len(places) == len(list(places))


@pytest.mark.parametrize("shape", ["nested_launches", "nested_frames", "children", "overlapping_ops", "threads"])
@pytest.mark.parametrize("draw", [forest_text, ways_up_text], ids=["down", "up"])
def test_drawing_grows_with_the_trace(
    shape: str, draw: Callable[[Core], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tree_text, "DEEPEST", 10)
    monkeypatch.setattr(traversals, "_EXPANDED", 4)

    def prepare(n: int) -> Callable[[], object]:
        core = load_core(trace(shape, n))
        return lambda: draw(core)

    assert_growth(prepare, 100)


def test_the_first_lines_of_a_large_tree_cost_little() -> None:
    core = load_core(trace("children", 5000))
    labels = Labels(short_category(core), short=True)
    assert calls(lambda: [*islice(lines(core, forest(core, Choice()), labels), 10)]) < 20_000


def test_a_way_up_can_be_cut() -> None:
    core = load_core(small_trace())
    steps = list(ladder(core, core.row(9), Choice(depth=2)))
    assert steps == [(core.row(9), "Node:"), (core.row(7), "1-up:"), (core.row(6), "2-up:")]


@parametrize("path", chosen_traces())
def test_categories_are_those_of_the_file(path: Any) -> None:
    import gzip
    import json

    core = loaded(path)
    events = json.loads(gzip.decompress(path.read_bytes()), strict=False)["traceEvents"]
    assert categories(core) == [events[uid]["cat"] for uid in core.columns.uid.tolist()]


def test_every_kind_has_words() -> None:
    assert set(PYTORCH.short_kinds) == set(CATEGORY_OF_KIND) == set(Kind)
