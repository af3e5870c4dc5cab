"""Lines of Python that instructions of XLA come from: charged where no frame of Python is above a launch."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import plain_xplane as plain
import pytest
from made_hlo import mlp
from plain_xplane import Plane

from corpus import loaded, parametrize, xplane_files
from tracelens_graph.analyses.diagnosis.verdict import verdict
from tracelens_graph.analyses.places.python_lines import NO_LINE, python_lines
from tracelens_graph.errors import TraceError
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.programs import CompiledProgram, CompiledPrograms
from tracelens_graph.loading.one import load_core
from tracelens_graph.stores.graph_file import read_graph, write_graph
from tracelens_graph.tables.table import Table

US = 1_000_000


def recorded(frame: str = "") -> Core:
    """Two runs of a product that comes from model.py:7, and one of a fusion of which no line is told."""
    known, gpu, host = Plane("/host:metadata"), Plane("/device:GPU:0"), Plane("/host:CPU")
    known.program(3, "jit_f(3)", mlp())
    calls = [host.event(frame, 0, 900 * US)] if frame else []
    work = []
    for at, (name, duration) in enumerate((("dot.3", 20), ("fusion.4", 5), ("dot.3", 30)), 1):
        told = {"hlo_op": f"&{name}", "program_id": 3}
        calls += [
            host.event(name, at * 100 * US, 50 * US, **told),
            host.event("hipLaunchKernel", at * 100 * US + US, US, correlation_id=at),
        ]
        work.append(gpu.event(f"k{at}", at * 100 * US + 10 * US, duration * US, correlation_id=at, **told))
    gpu.line(7, "Stream #7", 1000, *work)
    host.line(11, "python", 1000, *calls)
    return load_core(plain.written(known, gpu, host))


def lines(table: Table) -> list[tuple[object, ...]]:
    return [(row["name"], row["frames"], row["gpu_events"], row["gpu_sum_us"]) for row in table.records()]


def test_an_instruction_tells_its_line() -> None:
    found = python_lines(recorded())
    assert lines(found) == [("model.py:7", 2, 2, 50.0), (NO_LINE, 0, 1, 5.0)]
    core = recorded()
    uid = int(found["uid"][0])
    assert core.names[core.columns.name[core.row(uid)]] == "dot.3"
    assert found["uid"][1] is None


def test_a_frame_of_python_counts_before_it() -> None:
    assert lines(python_lines(recorded("$train.py:3 main"))) == [("train.py(3): main", 1, 3, 55.0)]
    assert lines(python_lines(recorded("$train.py:3 main"), without="train")) == lines(python_lines(recorded()))


def test_lines_that_are_not_wanted_are_passed_over() -> None:
    assert lines(python_lines(recorded(), without="model.py")) == [(NO_LINE, 0, 3, 55.0)]


def test_saved_graphs_keep_lines(tmp_path: Path) -> None:
    core = recorded()
    write_graph(core, tmp_path / "one.tlg")
    again = read_graph(tmp_path / "one.tlg")
    assert again.programs == core.programs
    assert lines(python_lines(again)) == lines(python_lines(core))


@pytest.mark.parametrize("source", [np.full(3, 2, np.uint8), np.ones(4, np.uint8)])
def test_damaged_lines_are_told(tmp_path: Path, source: np.ndarray) -> None:
    core = recorded()
    core.programs = CompiledPrograms((CompiledProgram("f", "x"),), np.full(3, 3, np.uint8), ("a.py:1",), source)
    write_graph(core, tmp_path / "one.tlg")
    with pytest.raises(TraceError, match="damaged"):
        read_graph(tmp_path / "one.tlg")


def test_graphs_with_other_lines_differ() -> None:
    code, of = np.full(2, 3, np.uint8), np.array([1, 2], np.uint8)
    one = CompiledPrograms((), code, ("a.py:1", "b.py:2"), of)
    assert one == CompiledPrograms((), code, ("b.py:2", "a.py:1"), of[::-1])
    assert one != CompiledPrograms((), code, ("b.py:2", "a.py:1"), of)
    assert one != CompiledPrograms((), code)


@parametrize("path", xplane_files())
def test_real_profiles(path: Path) -> None:
    found = python_lines(loaded(path))
    told = sum(row["percent"] for row in found.records() if ".py:" in row["name"])
    assert told > (90 if "te-" in path.name else 40)
    assert sum(found["gpu_sum_us"]) == pytest.approx(loaded(path).columns.dur_ns[loaded(path).gpu_rows].sum() / 1000)


@parametrize("path", [path for path in xplane_files() if "te-" in path.name])
def test_a_report_names_the_line_of_the_dearest_kernel(path: Path) -> None:
    (attention, *_) = [one for one in verdict(loaded(path)) if one.topic == "kernels"]
    assert attention.text.endswith(", of te_fused_attn_backward_ffi.18, attention.py:1110]")
    assert str(attention.evidence["line"]).endswith("/jax/attention.py:1110")
