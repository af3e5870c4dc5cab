"""The module tree as text: its layout, line by line."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from handmade import HOSTILE
from handmade_jax import training_profile
from hypothesis import given
from hypothesis import strategies as st

from tracelens_graph.analyses.places.modules import module_times, modules
from tracelens_graph.frameworks import PYTORCH, XLA
from tracelens_graph.loading.one import load_core
from tracelens_graph.nxview.trace_graph import TraceGraph
from tracelens_graph.reports.module_text import module_text
from tracelens_graph.tables.table import Table

Row = tuple[int, str, int, int, float, float, int | None]
"""Depth, module, instances, calls, forward and backward_us, uid."""


def table(rows: list[Row], **options: Any) -> Table:
    depth, module, instances, calls, forward, backward, uid = (list(c) for c in zip(*rows, strict=True))
    times = {"forward_us": np.array(forward), "backward_us": np.array(backward)}
    times["total_us"] = times["forward_us"] + times["backward_us"]
    columns = {"depth": np.array(depth), "module": module, "instances": instances, "calls": calls} | times
    return Table("modules", columns | {"uid": uid}, **options)


FORWARD: list[Row] = [
    (0, "(all GPU events)", 0, 0, 1906.144, 0, None),
    (1, "Model_0", 1, 2, 1902.944, 0, 7),
    (2, "RMSNorm_8", 1, 1, 148.46, 0, 8),
    (3, "Identity_0", 1, 1, 148.46, 0, 9),
    (2, "Linear_1", 1, 1, 1754.484, 0, 12),
    (1, "(no launch in trace)", 0, 0, 3.2, 0, None),
]


def test_layout() -> None:
    assert list(module_text(table(FORWARD, title="The title", notes=["a note"]))) == [
        "The title",
        "                                  (GPU Time µs)",
        "(all GPU events) ................... (1,906.14)",
        "├── nn.Module: Model_0 [2 calls] ... (1,902.94)",
        "│   ├── nn.Module: RMSNorm_8 ......... (148.46)",
        "│   │   └── nn.Module: Identity_0 .... (148.46)",
        "│   └── nn.Module: Linear_1 ........ (1,754.48)",
        "└── (no launch in trace) ............... (3.20)",
        "a note",
    ]


def test_with_backward_work() -> None:
    rows: list[Row] = [(0, "(all GPU events)", 0, 0, 10.0, 1234.5, None), (1, "Linear", 3, 6, 9.0, 0.5, 7)]
    assert list(module_text(table(rows, title="T"))) == [
        "T",
        "                                                              (GPU Time µs)",
        "                                              (forward  backward     total)",
        "(all GPU events) .............................. (10.00  1,234.50  1,244.50)",
        "└── nn.Module: Linear [3 instances, 6 calls] ... (9.00      0.50      9.50)",
    ]


def test_what_is_in_no_module_and_not_backward_is_neither() -> None:
    outside = PYTORCH.outside_modules
    rows: list[Row] = [
        (0, "(all GPU events)", 0, 0, 16.0, 2.0, None), (1, "Net_0", 1, 1, 9.0, 2.0, 7),
        (2, outside, 0, 0, 9.0, 2.0, None), (1, outside, 0, 0, 4.0, 0.0, None),
        (1, "(no launch in trace)", 0, 0, 3.0, 0.0, None),
    ]  # fmt: skip
    assert [found for line in module_text(table(rows)) if (found := re.findall(r"\d+\.\d\d", line))] == [
        ["9.00", "2.00", "18.00"], ["9.00", "2.00", "11.00"], ["9.00", "2.00", "11.00"], ["0.00", "0.00", "4.00"],
        ["0.00", "0.00", "3.00"],
    ]  # fmt: skip


def test_narrow_terminals_cut_names_and_branches() -> None:
    deep = [(depth, "A_long_name_of_a_module_0", 1, 5, 1.0, 0.0, 1) for depth in range(12)]
    lines = list(module_text(table(deep, title="T"), 60))[2:]
    assert {len(line) for line in lines} == {60}
    assert lines[1] == "└── nn.Module: A_long_..._of_a_module_0 [5 calls] ... (1.00)"
    assert lines[-1].startswith("...")
    assert list(module_text(table(FORWARD), 0)) == list(module_text(table(FORWARD), 40))


def test_names_are_harmless_and_bounded() -> None:
    rows: list[Row] = [(0, HOSTILE, 1, 1, 1.0, 0.0, 3), (1, "long" * 250_000, 1, 1, 1.0, 0.0, 4)]
    text = "\n".join(module_text(table(rows, title=HOSTILE, notes=[HOSTILE])))
    assert "\x1b" not in text
    assert text.count("\n") == 4
    assert len(text) < 800
    assert "\\x1b[31m" in text


def test_bold_only_in_color() -> None:
    plain, color = (list(module_text(table(FORWARD, title="T"), color=color)) for color in (False, True))
    assert [re.sub(r"\x1b\[\d*m", "", line) for line in color] == plain != color


@st.composite
def depths(draw: st.DrawFn) -> list[int]:
    """Depths of a tree in pre-order, under one root."""
    found = [0]
    for _ in range(draw(st.integers(0, 12))):
        found.append(draw(st.integers(1, found[-1] + 1)))
    return found


def branches(tree: list[int], node: int) -> str:
    """What stands before a node, by looking at the whole tree."""

    def is_last(i: int) -> bool:
        after = next((depth for depth in tree[i + 1 :] if depth <= tree[i]), -1)
        return after != tree[i]

    above = [max(i for i in range(node) if tree[i] == depth) for depth in range(1, tree[node])]
    own = [] if tree[node] == 0 else ["└── " if is_last(node) else "├── "]
    return "".join(["    " if is_last(i) else "│   " for i in above] + own)


@given(depths(), st.integers(100, 200), st.data())
def test_every_tree_can_be_read_back(tree: list[int], width: int, data: st.DataObject) -> None:
    times = data.draw(st.lists(st.floats(0, 1e7), min_size=len(tree), max_size=len(tree)))
    text = list(module_text(table([(depth, f"M_{i}", 1, 1, times[i], 0.0, i) for i, depth in enumerate(tree)]), width))
    lines = text[2:]
    assert len({len(line) for line in text[1:]}) == 1
    assert len(text[1]) <= width
    assert [re.search("nn.Module: (.*?) ", line)[1] for line in lines] == [f"M_{i}" for i in range(len(tree))]  # type: ignore[index]
    assert [line.index("nn.Module") // 4 for line in lines] == tree
    assert [float(line[line.rindex("(") + 1 : -1].replace(",", "")) for line in lines] == [round(t, 2) for t in times]
    assert [line[: line.index("nn.Module")] for line in lines] == [branches(tree, i) for i in range(len(tree))]


def test_named_scopes_are_no_modules_of_pytorch() -> None:
    core = load_core(training_profile())
    text = "\n".join(module_text(modules(core), framework=XLA))
    assert "scope: mlp" in text
    assert "outside of these scopes" in text
    assert "nn.Module" not in text
    assert "outside of these scopes" in list(module_times(core)["module"])
    full = TraceGraph(core).full
    assert "outside of these scopes" in [told.get("name") for _, told in full.nodes(data=True)]
