"""Comparisons by structure as text: merged trees, places as branches, screens."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from handmade import span

from tracelens_graph.analyses.alignment.difference import Diff, diff
from tracelens_graph.analyses.alignment.merged import merged_tree
from tracelens_graph.analyses.alignment.several import odd_parts, runs_table
from tracelens_graph.analyses.alignment.tables import places_table, totals_table
from tracelens_graph.analyses.alignment.times import DIFF_TIMES, times_table
from tracelens_graph.loading.one import load_core
from tracelens_graph.reports.diff_text import (
    diff_json,
    diff_markdown,
    headline,
    place_lines,
    runs_text,
    screen,
    within_text,
)
from tracelens_graph.reports.diff_tree import point_lines, tree_lines
from tracelens_graph.tables.table import Table
from tracelens_graph.utils.texts import width_of

Op = tuple[str, str, float]
"""Name of an op, of its kernel, and how long that takes."""


def program(*layers: list[Op]) -> Any:
    """A model of layers, each a module with ops one after the other, each with one kernel."""
    events = []
    now, number = 10.0, 0
    for at, ops in enumerate(layers):
        begin = now
        for name, kernel, dur in ops:
            number += 1
            events += [
                span("cpu_op", name, now, 8.0, Input_Dims=[[8, 8]], Input_type=["float"]),
                span("cuda_runtime", "cudaLaunchKernel", now + 1, 5.0, correlation=number),
                span("kernel", kernel, 1000.0 + 100 * number, dur, 0, 7, device=0, stream=7, correlation=number),
            ]
            now += 10
        events.append(span("python_function", f"nn.Module: Layer_{at}", begin - 1, now - begin + 1))
        now += 10
    events.append(span("python_function", "nn.Module: Model_0", 1.0, now))
    return load_core({"traceEvents": events})


LAYER: list[Op] = [("aten::mm", "gemm", 20.0), ("aten::relu", "relu_kernel", 5.0)]
FASTER: list[Op] = [("aten::mm", "other_gemm", 10.0), ("aten::relu", "relu_kernel", 5.0)]
CAST: list[Op] = [("aten::mm", "gemm", 20.0), ("aten::to", "cast", 3.0), ("aten::relu", "relu_kernel", 5.0)]


def tree(difference: Diff, width: int = 100, min_percent: float = 0) -> list[str]:
    return [line.rstrip() for line in tree_lines(merged_tree(difference.alignment), width, False, min_percent)]


def test_equal_layers_are_one_branch_with_both_times() -> None:
    difference = diff(program(*[LAYER] * 3), program(*[FASTER] * 3))
    assert tree(difference) == [
        "      A ms      B ms    change",
        "     0.075     0.045    -0.030  └── Model",
        "     0.075     0.045    -0.030      └── 3 x Layer",
        "     0.060     0.030    -0.030          ├── aten::mm",
        "     0.060                              │     - 3 x gemm",
        "               0.030                    │     + 3 x other_gemm",
        "     0.015     0.015    +0.000          └── aten::relu, the same",
    ]  # fmt: skip


def test_what_one_side_alone_has_is_marked() -> None:
    difference = diff(program(LAYER, LAYER), program(LAYER, CAST, LAYER))
    lines = tree(difference)
    assert sum("+ Layer" in line or "+ aten::to" in line for line in lines) >= 1
    mirrored = tree(diff(program(LAYER, CAST, LAYER), program(LAYER, LAYER)))
    assert len(mirrored) == len(lines)
    for line, other in pairwise([*zip(lines[1:], mirrored[1:], strict=True)]):
        for one, two in (line, other):
            assert (" + " in one) == (" - " in two)


def test_times_of_a_merged_tree_add_up() -> None:
    for first, second in (([LAYER], [FASTER]), ([LAYER] * 2, [LAYER, CAST, FASTER]), ([CAST], [LAYER] * 4)):
        difference = diff(program(*first), program(*second))
        top = merged_tree(difference.alignment)
        assert tuple(sum(one.ns[k] for one in top) for k in range(2)) == difference.ns
        stack = list(top)
        while stack:
            one = stack.pop()
            own = [sum(ns for _, ns in kernels.values()) for kernels in one.kernels]
            assert one.ns == tuple(own[k] + sum(part.ns[k] for part in one.below) for k in range(2))
            assert one.changed >= abs(one.ns[1] - one.ns[0])
            assert one.differs or not one.changed
            stack += one.below


def test_what_changed_little_is_folded() -> None:
    many: list[Op] = [("aten::mm", "gemm", 1000.0), *((f"aten::small{i}", f"k{i}", 0.5) for i in range(5))]
    lines = tree(diff(program(many), program([("aten::mm", "gemm", 900.0), *many[1:]])), min_percent=1)
    assert lines[-1].endswith("└── 5 more")
    assert not any("small" in line for line in lines)


def test_a_place_is_drawn_as_two_branches() -> None:
    difference = diff(program(LAYER), program(FASTER))
    (place, *_) = difference.places
    lines = [line.rstrip() for line in point_lines(difference, place, 80)]
    assert lines[0] == "aten::mm (uid 0 and 0)"
    assert "    Input Dims: [[8, 8]]" in lines
    assert lines[-4:] == [
        "-              cudaLaunchKernel", "-    0.020 ms    gemm",
        "+              cudaLaunchKernel", "+    0.010 ms    other_gemm",
    ]  # fmt: skip


def test_places_without_a_change_that_run_other_work_come_first() -> None:
    difference = diff(program(LAYER), program([LAYER[0], ("aten::relu", "other_relu", 5.0)]))
    tables = {"diff_totals": totals_table(difference), "diff_places": places_table(difference),
              "diff_times": times_table(difference)}  # fmt: skip
    assert any(line.startswith(" 1    +0.000 ms  aten::relu") for line in screen(difference, tables, 100, False))


def test_the_end_of_a_reason_is_kept() -> None:
    row = {"place": 1, "a_ms": 1.0, "b_ms": 2.0, "change_ms": 1.0, "times": 36, "op": "aten::mm", "module": "",
           "proof": "", "why": "the same kernels, 1.03x as long, waiting for other ranks included; 1 of 36: layer 20 "
           "(Block_20), 2.00x as long, the others as before"}  # fmt: skip
    assert list(place_lines(row, 80, 1))[1].strip() == "the same ... 1 of 36: layer 20 (Block_20), 2.00x as long"


def test_figures_of_places_stand_apart() -> None:
    row = {
        "place": 12,
        "a_ms": 0.0,
        "b_ms": 9e9,
        "change_ms": 9e9,
        "times": 1,
        "op": "aten::mm",
        "module": "",
        "why": "",
        "proof": "",
    }
    for change, shown in ((9e9, "12 +9,000,000,000.000 ms"), (1.5, "12    +1.500 ms")):
        assert next(place_lines({**row, "change_ms": change}, 100)).startswith(f"{shown}  aten::mm: ")


@pytest.mark.parametrize("width", [60, 80, 100, 120])
def test_nothing_is_wider_than_the_terminal(width: int) -> None:
    long: list[Op] = [("aten::" + "very_long_name" * 8, "kernel" * 30, 20.0), *CAST]
    difference = diff(program(LAYER, long), program(long, FASTER), ("a name " * 9, "b"))
    tables = {"diff_totals": totals_table(difference), "diff_places": places_table(difference),
              "diff_times": times_table(difference)}  # fmt: skip
    lines = [*screen(difference, tables, width, False, ["a note " * 40]), *tree(difference, width)]
    for place in difference.places:
        lines += point_lines(difference, place, width)
    assert max(map(width_of, lines)) <= width


def shown_causes(lines: list[str], heading: str) -> list[float]:
    """The change of a line of the screen, then those of the causes below it."""
    at = next(i for i, line in enumerate(lines) if line.startswith(f"  {heading}"))
    found = [lines[at]]
    for line in lines[at + 1 :]:
        if not line.startswith("    "):
            break
        if not line.startswith("      ") and " ms " in line:
            found.append(line)
    return [float(line.partition(" ms ")[2].split()[0].replace(",", "")) for line in found]


@pytest.mark.parametrize("width", [80, 120])
def test_causes_add_up_to_the_change_of_idle_time(width: int) -> None:
    difference = diff(program(LAYER, LAYER), program(CAST, FASTER))
    tables = {"diff_totals": totals_table(difference), "diff_places": places_table(difference),
              "diff_times": made_times()}  # fmt: skip
    tables["diff_totals"]["change_ms"][list(tables["diff_totals"]["time"]).index("idle_time")] = 9.0
    lines = list(screen(difference, tables, width, False))
    assert shown_causes(lines, "around the GPU work") == [3.0, 4.0, -1.0]
    whole, *causes = shown_causes(lines, "idle")
    assert causes == [10.0, 4.0, -3.0, -2.0]
    assert sum(causes) == whole
    assert any(line.startswith("    3 more causes") for line in lines)
    explained = [line for line in lines if "word" in line]
    assert 1 < len(explained) <= 3
    assert explained[-1].endswith("word ...")
    assert max(map(width_of, lines)) <= width
    text = " ".join(" ".join(lines).split())
    assert "before the first and after the last GPU event of the step, not counted above" in text


def made_times() -> Table:
    """Idle time by cause that changes by 9 ms, and time around the GPU work that changes by 3 ms."""
    rows = [("idle", "queued", 10.0), ("idle", "launches", 4.0), ("idle", "python", -3.0), ("idle", "allocation", -1.0),
            ("idle", "profiler", -0.6), ("idle", "outside", -0.4), ("around", "data_loader", 4.0),
            ("around", "python", -1.0)]  # fmt: skip
    columns = {
        "part": [part for part, _, _ in rows], "cause": [cause for _, cause, _ in rows],
        "change_ms": [ms for _, _, ms in rows], "a_ms": [20.0] * len(rows), "b_ms": [20.0 + ms for _, _, ms in rows],
        "why": ["word " * 200 if cause == "queued" else "short" for _, cause, _ in rows],
    }  # fmt: skip
    return Table("diff_times", columns, DIFF_TIMES)


def on_streams(*streams: int) -> Any:
    """Two equal ops, one after the other on a stream, or beside each other on two."""
    events = []
    for at, stream in enumerate(streams):
        now = 10.0 + 20 * at
        events += [
            span("cpu_op", "aten::mm", now, 8.0, Input_Dims=[[8, 8]], Input_type=["float"]),
            span("cuda_runtime", "cudaLaunchKernel", now + 1, 5.0, correlation=at),
            span("kernel", "gemm", 1000 + (100 * at if stream == streams[0] else 0), 90.0, 0, stream, device=0,
                 stream=stream, correlation=at),
        ]  # fmt: skip
    return load_core({"traceEvents": events})


def test_work_beside_other_work_is_shown() -> None:
    difference = diff(on_streams(7, 7), on_streams(7, 9))
    tables = {"diff_totals": totals_table(difference), "diff_places": places_table(difference),
              "diff_times": times_table(difference)}  # fmt: skip
    lines = [" ".join(line.split()) for line in screen(difference, tables, 100, False)]
    at = lines.index("overlap with other work 0.000 -> 0.090 ms +0.090")
    assert lines[at - 1].startswith("computation 0.180 -> 0.090 ms -0.090")
    assert lines[at + 1] == "kernels and fills take 0.180 -> 0.180 ms in all, on 1 -> 2 streams"


def test_headlines() -> None:
    def said(first: list[Op], second: list[Op]) -> str:
        difference = diff(program(first), program(second))
        return headline(totals_table(difference), difference.ns[0] != difference.ns[1])

    assert said(LAYER, FASTER) == "GPU time 0.025 -> 0.015 ms: 0.010 ms less (-40.0 %)"
    assert said(FASTER, LAYER) == "GPU time 0.015 -> 0.025 ms: 0.010 ms more (+66.7 %)"
    assert said(LAYER, LAYER) == "The GPU work is the same, event by event: 0.025 ms"


def test_the_odd_one_of_equal_layers() -> None:
    table = odd_parts(program(LAYER, LAYER, CAST, LAYER, LAYER).window())
    (row,) = table.records()
    assert (row["name"], row["differs"], row["parts"], row["alike"]) == ("Layer_2", "structure", 5, 4)
    assert row["where"].startswith("+0.003 ms aten::to")
    assert "Layer_2 of 5: other structure" in "\n".join(within_text(table, 100))
    alike = odd_parts(program(*[LAYER] * 4).window())
    assert len(alike) == 0
    assert list(within_text(alike, 100))[-1] == "4 x Layer: all alike, usually 0.025 ms"
    assert "no three parts" in "\n".join(within_text(odd_parts(program(LAYER).window()), 100))


def test_runs_in_clusters() -> None:
    runs = {"a": program(LAYER), "b": program(CAST), "c": program(FASTER)}
    table = runs_table((name, core.window()) for name, core in runs.items())
    assert [row["structure"] for row in table.records()] == [1, 2, 1]
    text = "\n".join(runs_text(table, 100))
    assert "Structure 1: a, c" in text
    assert "b: +0.003 ms aten::to" in text


def test_documents_hold_everything() -> None:
    difference = diff(program(LAYER), program(FASTER), ("old|run", "new"))
    tables = {"diff_totals": totals_table(difference), "diff_places": places_table(difference),
              "diff_times": times_table(difference)}  # fmt: skip
    found = json.loads(diff_json(difference, tables, ["a note"]))
    assert (found["a"]["name"], found["notes"]) == ("old|run", ["a note"])
    assert found["tables"]["diff_places"]["rows"][0]["kernels_b"] == ["other_gemm"]
    page = diff_markdown(difference, tables, ["a note"])
    assert "new against old\\|run" in page
    assert "| -0.010 |  |  | 0.020 | 0.010 | 1 | aten::mm | Model/Layer |" in page
    assert "* A (old\\|run): \\<parsed trace\\>, 2 GPU events" in page
    long = replace(tables["diff_places"], columns=tables["diff_places"].columns | {"why": ["a reason " * 50] * 2})
    assert ("a reason " * 50).strip() in diff_markdown(difference, tables | {"diff_places": long}, [])
    assert "idle | queued | 20.000 | 30.000 | +10.000 |" in diff_markdown(
        difference, tables | {"diff_times": made_times()}, []
    )
