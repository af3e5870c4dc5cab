"""A report as a comment on GitHub: what is seen first, what unfolds, and that it is short enough."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from github_markdown import Page, read
from handmade import HOSTILE, small_trace
from to_draw import Line

from corpus import chosen_traces, loaded, parametrize
from tracelens_graph.analyses.across.compare import compare
from tracelens_graph.analyses.diagnosis.families import op_advice
from tracelens_graph.analyses.diagnosis.verdict import verdict
from tracelens_graph.analyses.ops.ops import ops_summary, ops_summary_by_category
from tracelens_graph.analyses.ops.top_ops import top_ops
from tracelens_graph.analyses.report.report_tables import report_tables
from tracelens_graph.analyses.timeline.timeline import gpu_timeline
from tracelens_graph.graph.core import Core
from tracelens_graph.loading.one import load_core
from tracelens_graph.output.files import COMMENT
from tracelens_graph.reports.comment import ROOM, change_comment, report_comment
from tracelens_graph.reports.document import Facts, facts
from tracelens_graph.tables.table import Table

FINDINGS = [
    Line("headline", "The GPU stood idle for 43 % of the time"),
    Line("compute", "`gemm` took <most> of it", ask_next="timeline TRACE `x`"),
    Line("python", "Python between ops: 12 %", suggestions=("torch.compile", "less @python")),
]


@pytest.fixture(scope="module")
def core() -> Core:
    return load_core(small_trace())


def tables(core: Core) -> dict[str, Table]:
    found = [gpu_timeline(core), ops_summary_by_category(core), ops_summary(core)]
    return {table.name: table for table in found} | {"extra": Table("extra", {"n": np.array([1.5, 2.5])})}


def comment(core: Core, findings: Sequence[Line] = FINDINGS, **given: Any) -> str:
    largest = top_ops(core)
    given = {"advice": ["try this"] * len(largest), "tables": tables(core), "about": facts(core)} | given
    return report_comment(core, findings, largest, hint=lambda text: text.replace("TRACE", "x.json"), **given)


def slower(core: Core) -> str:
    """A run that takes twice the time, in which the op has another name."""
    runs = [{name: one for name, one in tables(core).items() if name != "extra"} for _ in range(2)]
    before, now = runs
    timeline, ops = now["gpu_timeline"], now["ops_summary"]
    twice = np.asarray(timeline["time ms"]) * 2
    now["gpu_timeline"] = replace(timeline, columns={**timeline.columns, "time ms": twice})
    names = [name.replace("addmm", "mm@2") for name in ops["name"]]
    now["ops_summary"] = replace(ops, columns={**ops.columns, "name": names})
    both = compare({"main": before, "pull#1": now})
    return change_comment(["main", "pull#1"], both, ["a note @all"], "diff a b", 10)


def test_the_peak_of_memory_stands_in_the_line_of_facts(core: Core) -> None:
    assert "; peak of memory cuda:0: 1.95 of 2.45 GiB reserved." in comment(
        core, memory=["cuda:0: 1.95 of 2.45 GiB reserved"]
    )
    assert "peak of memory" not in comment(core)
    assert "and 2 more devices" in comment(core, memory=[f"cuda:{at}: 1 B" for at in range(6)])


def test_what_is_seen_first(core: Core) -> None:
    text = comment(core)
    assert text.startswith(f"{COMMENT}## GPU report: ")
    page = read(text)
    assert page.headings == ["GPU report: <parsed trace>"]
    assert page.paragraphs[:3] == [
        "The GPU stood idle for 43 % of the time.",
        "Python between ops: 12 %. Try: torch.compile; less @python.",
        "18 entries, 3 GPU events; rank 3 of 8; GPU of tests.",
    ]
    largest = page.tables[0]
    assert largest[0] == ["operation", "mostly in", "GPU ms", "% of GPU time", "try"]
    assert largest[1] == ["aten::addmm", "Linear", "0.060", "66.7", "try this"]
    assert largest[2] == ["(no launch in trace)", "", "0.030", "33.3", "as with aten::addmm"]
    assert page.folds == [
        "Verdict, with what to try and commands that show more", "GPU timeline, 8 rows",
        "GPU time by category of operation, 2 rows", "GPU time by operation, 2 rows",
    ]  # fmt: skip
    assert "compute: `gemm` took <most> of it. More: timeline x.json `x`" in page.paragraphs
    assert (
        page.paragraphs[-1]
        == "Not shown: extra (2 rows). One table: tracelens-graph report x.json --table NAME --top 0"
    )
    assert (page.links, page.depth) == ([], 0)


def test_columns_without_cells_are_left_out(core: Core) -> None:
    (first, *_) = read(comment(core, advice=["", ""])).tables[0]
    assert "try" not in first


def test_change_against_a_baseline(core: Core) -> None:
    page = read(slower(core))
    assert "pull#1: GPU span 0.159 -> 0.318 ms (+100.0 %)" in page.paragraphs
    change = page.tables[0]
    assert change[0] == ["", "baseline ms", "now ms", "change ms", "%"]
    assert change[1] == ["GPU span", "0.159", "0.318", "+0.159", "+100.0 %"]
    assert "only in pull#1: 1 op, 0.060 ms: aten::mm@2 (0.060)" in page.paragraphs
    assert "a note @all" in page.paragraphs
    assert "All that changed: diff a b" in page.paragraphs
    assert any(fold.startswith("Change: GPU timeline") for fold in page.folds)
    assert page.links == []


def test_nothing_to_report(core: Core) -> None:
    assert "Nothing to report." in read(comment(core, findings=[])).paragraphs


def test_rows_are_cut_as_asked(core: Core) -> None:
    assert "1 more row (--top 0 shows all)" in comment(core, rows=1)
    assert "more row" not in comment(core, rows=0)


def test_tables_without_room_are_left_out_whole(core: Core) -> None:
    many = 2_000
    wide = Table("ops_unique_args", {"name": ["a" * 70] * many, "Count": [1] * many}, title="Wide")
    text = comment(core, tables={"ops_unique_args": wide, **tables(core)}, rows=0)
    assert len(text.encode()) <= ROOM
    page = read(text)
    assert (
        "Left out, as they do not fit into a comment: ops_unique_args. One table: tracelens-graph report"
        in text.replace("`", "")
    )
    assert "GPU timeline, 8 rows" in page.folds
    assert not any(fold.startswith("Wide") for fold in page.folds)


def test_whatever_a_trace_says_the_comment_fits(core: Core) -> None:
    odd = HOSTILE * 10_000 + " @user #1 https://example.org ![x](y)"
    table = Table("ops_summary", {"name": [odd, "@user"], "Count": [1, 1]}, title=odd, notes=[odd])
    about = Facts(odd, 1, 2, [odd, "a", "b", "c", "d"], 1, 1, 1, 0, {}, odd, odd)
    findings = [Line(odd, odd, suggestions=(odd,), ask_next=odd)] * 9
    names = {f"{place}{odd[:50]}": table for place in range(40)}
    change = change_comment([odd[:99], "b"], {}, [odd] * 5, odd, 10)
    report = comment(core, findings, tables={"ops_summary": table, **names}, about=about)
    for text, head in ((report, "GPU report"), (change, "GPU time against")):
        assert len(text.encode()) <= ROOM
        page = read(text)
        assert (page.links, page.depth) == ([], 0)
        assert [heading.split(":")[0].split(" evil")[0] for heading in page.headings] == [head]


def of_trace(core: Core) -> Page:
    w = core.everything
    findings, largest = verdict(w), top_ops(w)
    advice = op_advice(w, findings, largest["name"])
    text = report_comment(core, findings, largest, advice, report_tables(w), facts(w), lambda text: text)
    assert len(text.encode()) <= ROOM
    return read(text)


@parametrize("path", chosen_traces())
def test_real_traces(path: Any) -> None:
    core = loaded(path)
    page = of_trace(core)
    assert (page.links, page.depth) == ([], 0)
    assert page.paragraphs[0] == f"{verdict(core)[0].text}." or page.paragraphs[0].startswith(verdict(core)[0].text)
    if len(core.gpu_rows):
        assert 1 < len(page.tables[0]) <= 6
        assert "GPU timeline, 8 rows" in page.folds
