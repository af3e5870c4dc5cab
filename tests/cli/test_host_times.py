"""Reports and trees of host time."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from handmade import Run
from hypothesis import given
from hypothesis import strategies as st
from made_traces import traces

from tracelens_graph.loading.one import load_core
from tracelens_graph.reports.tree_text import HEADING, Choice, forest
from tracelens_graph.schema import GPU_KINDS, Kind

RECORDED = Path(__file__).parents[1] / "analyses" / "host_only.zip"


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """A recording without GPU events, with stacks."""
    path = tmp_path / "host.json"
    with zipfile.ZipFile(RECORDED) as files:
        path.write_bytes(files.read("stacks.json"))
    return path


def test_a_report_of_host_time(run: Run, trace: Path, tmp_path: Path) -> None:
    _, out, _ = run("report", trace)
    assert "Host time by op" in out
    assert "Host time by line" in out
    outputs = [str(tmp_path / f"report.{suffix}") for suffix in ("json", "md", "xlsx", "html")]
    run("report", trace, *(part for path in outputs for part in ("-o", path)), "--csv", str(tmp_path / "tables"))
    tables = {"host_times", "host_functions", "host_lines", "host_modules", "host_threads"}
    assert tables <= {path.stem for path in (tmp_path / "tables").glob("*.csv")}
    report = json.loads((tmp_path / "report.json").read_text())
    assert tables <= report["tables"].keys()
    assert "Host time by op" in (tmp_path / "report.md").read_text()


def test_a_tree_of_host_time(run: Run, trace: Path) -> None:
    _, out, _ = run("tree", trace, "--host-time", "--name", "/: train/", "--max-lines", 0)
    heads, first, *lines = out.splitlines()
    assert heads.split("  ") == ["host ms", "self ms"]
    assert first.endswith("train")
    beside = [float(line.split()[0]) for line in lines if line[20] in "├└"]
    assert len(beside) > 1
    assert beside == sorted(beside, reverse=True)
    assert not any("torch/nn/modules" in line for line in lines)
    _, pruned, _ = run("tree", trace, "--host-time")
    assert 3 < len(pruned.splitlines()) < len(lines)


def test_the_tree_has_one_measure(run: Run, trace: Path) -> None:
    code, _, error = run("tree", trace, "--host-time", "--gpu-time")
    assert code
    assert "two measures" in error


@given(events=traces(), depth=st.none() | st.integers(0, 3), kinds=st.sets(st.sampled_from(list(Kind))))
def test_calls_beside_each_other_are_sorted(events: list[dict[str, Any]], depth: int | None, kinds: set[Kind]) -> None:
    """As sorting the children of each drawn call, one by one, does."""
    core = load_core(events)
    c = core.columns
    drawn = ~np.isin(c.kind, list(kinds))
    choice = Choice(drawn, depth=depth, measure=c.dur_ns)
    ours = [row for row, _ in forest(core, choice) if row != HEADING]
    assert len(forest(core, choice)) == len(list(forest(core, choice)))
    fewer = Choice(
        drawn, depth=depth, measure=c.dur_ns, least=float(np.median(c.dur_ns)) if len(c) else 0, folds_chains=True
    )
    assert len(forest(core, fewer)) == len(list(forest(core, fewer)))
    plain = [row for row, _ in forest(core, Choice(drawn, depth=depth)) if row != HEADING]
    kids: dict[int, list[int]] = {}
    for row in plain:
        above = int(c.parent[row])
        while above >= 0 and not drawn[above]:
            above = int(c.parent[above])
        kids.setdefault(above, []).append(row)

    def below(row: int) -> list[int]:
        found = sorted(kids.get(row, ()), key=lambda one: (-int(c.dur_ns[one]), one))
        return [one for kid in found for one in (kid, *below(kid))]

    for thread in {int(c.thread[row]) for row in kids.get(-1, ())}:
        tops = {row for row in kids[-1] if int(c.thread[row]) == thread and c.kind[row] not in GPU_KINDS}
        whole = [row for row in below(-1) if outermost(c.parent, row, drawn) in tops]
        assert [row for row in ours if outermost(c.parent, row, drawn) in tops] == whole


def outermost(parent: Any, row: int, drawn: Any) -> int:
    found = row
    while (row := int(parent[row])) >= 0:
        found = row if drawn[row] else found
    return found
