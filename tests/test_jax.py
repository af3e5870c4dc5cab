"""A profile of JAX through what takes graphs: networkx, windows, files, tables, commands."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from handmade_jax import KERNELS, training_profile
from typer.testing import CliRunner

import tracelens_graph as tlg
from corpus import loaded, parametrize, xplane_files
from tracelens_graph.analyses.report.report_tables import report_tables
from tracelens_graph.cli.app import app
from tracelens_graph.graph.core import Core
from tracelens_graph.loading.one import load_core
from tracelens_graph.schema import FOREST_KINDS, Kind
from tracelens_graph.stores.cut import piece_between, write_piece
from tracelens_graph.stores.graph_file import write_graph

MODULE = "nn.Module: "
"""What marks a module in traces of PyTorch, and so in a piece that is cut out."""


@pytest.fixture
def profile(tmp_path: Path) -> Path:
    path = tmp_path / "step.xplane.pb"
    path.write_bytes(training_profile())
    return path


def calls(core: Core) -> Counter[tuple[str, str | None, int, int, str | None]]:
    """What is in a call forest: kinds, names, starts, durations, callers."""
    c = core.columns
    begin = core.info.start_epoch_ns

    def name(row: int) -> str | None:
        return core.names[c.name[row]].removeprefix(MODULE) if row >= 0 else None

    return Counter(
        (Kind(int(c.kind[row])).name, name(row), int(c.start_ns[row]) + begin, int(c.dur_ns[row]), name(c.parent[row]))
        for row in range(len(c))
        if c.kind[row] in FOREST_KINDS
    )


def owners(core: Core) -> Counter[tuple[str, str | None]]:
    c = core.columns
    names = ((row, int(c.owner[row])) for row in core.gpu_rows.tolist())
    return Counter((core.names[c.name[row]], core.names[c.name[owner]] if owner >= 0 else None) for row, owner in names)


def test_the_networkx_graph_sums_the_time_below_nodes(profile: Path) -> None:
    g = tlg.load(profile)
    assert sum(g.nodes[node]["dur_ns"] for node in g if g.nodes[node]["kind"] in ("Kernel", "Memcpy", "Memset")) == (
        2 * 1000 * (sum(duration for *_, duration in KERNELS) + 2 + 1)
    )
    assert [one.gpu_time.sum for one in g.find("Module", "mlp")] == [25_000, 25_000]
    for backward in g.find("Op", "dot.5"):
        assert backward.gpu_time.sum == 33_000
        assert [one.name for one in backward.forward] == ["dot.3"]
        assert [one.name for one in backward.kernels] == ["gemm_b", "split_k"]
    assert {"mlp"} < {data["name"] for _, data in g.full.nodes(data=True) if data["kind"] == "ModulePath"}


def test_what_is_saved_and_what_is_cut_is_the_same_graph(profile: Path, tmp_path: Path) -> None:
    core = load_core(profile)
    write_graph(core, tmp_path / "saved.tlg")
    saved = load_core(tmp_path / "saved.tlg")
    assert saved.equals(core)
    assert saved.framework.compiles_programs
    uids = core.columns.uid.tolist()
    assert saved.details.events(uids) == core.details.events(uids)
    assert_cut_alike(core, tmp_path / "cut.json")


@parametrize("path", xplane_files())
def test_real_profiles_are_cut_to_traces_with_the_same_calls(path: Path, tmp_path: Path) -> None:
    assert_cut_alike(loaded(path), tmp_path / "cut.json")


def assert_cut_alike(core: Core, target: Path) -> None:
    with target.open("wb") as file:
        write_piece(piece_between(core, 0, 2**60), file, packed=False)
    cut = load_core(target)
    assert owners(cut) == owners(core)
    assert calls(cut) == calls(core)
    assert {tuple(argset) for argset in cut.argsets} >= {
        tuple(core.argsets[code]) for code in set(core.columns.argset.tolist()) if code >= 0
    }


def test_a_window_of_a_step_holds_its_share(profile: Path) -> None:
    core = load_core(profile)
    whole, step = (report_tables(one) for one in (core, core.window(step=1)))
    times = [
        dict(zip(one["gpu_timeline"]["type"], one["gpu_timeline"]["time ms"], strict=True)) for one in (whole, step)
    ]
    assert times[0]["busy_time"] == pytest.approx(2 * times[1]["busy_time"])
    assert len(core.window(step=1).gpu_rows) == len(KERNELS) + 2


@pytest.mark.parametrize(
    ("command", "told"),
    [
        (["report"], "Operations with most GPU time"),
        (["timeline", "--step", "1"], "total_memcpy_time"),
        (["modules"], "mlp"),
        (["tree", "--name", "mlp"], "fusion.4"),
        (["attribution", "--level", "op"], "dot.5"),
        (["ask", "steps"], "train#1"),
        (["ask", "forward_backward"], "dot.3"),
    ],
)
def test_commands_take_it_from_the_file_and_from_the_cache(
    command: list[str], told: str, profile: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRACELENS_GRAPH_CACHE", str(tmp_path / "cache"))
    name, *rest = command
    asked = [name, *rest[:1], str(profile)] if name == "ask" else [name, str(profile), *rest]
    plain, kept, again = (CliRunner().invoke(app, asked + more) for more in ([], ["--cache"], ["--cache"]))
    assert told in plain.output
    assert plain.exit_code == 0
    assert plain.output == kept.output == again.output
    assert list((tmp_path / "cache").iterdir())


def test_a_cut_of_a_step_is_a_trace_of_that_step(profile: Path, tmp_path: Path) -> None:
    done = CliRunner().invoke(
        app, ["cut", str(profile), "--step", "1", "--around", "5us", "-o", str(tmp_path / "step.json")]
    )
    assert done.exit_code == 0, done.output
    cut = load_core(tmp_path / "step.json")
    assert Counter(name for name, _ in owners(cut)) == Counter(
        [name for name, *_ in KERNELS] + ["CopyH2D", "fillBuffer"]
    )
    assert [one.name for one in cut.find(Kind.Step)] == ["ProfilerStep#1"]
    assert json.loads((tmp_path / "step.json").read_text())["traceEvents"]
