"""Folders as `jax.profiler` writes them."""

from __future__ import annotations

from pathlib import Path

import pytest
from plain_xplane import Plane, written

from tracelens_graph.errors import NotATraceError
from tracelens_graph.loaders.xplane.files import profiles_in
from tracelens_graph.loading.files import trace_files
from tracelens_graph.loading.many import load_core_set
from tracelens_graph.loading.one import load_core


def profile(name: str = "f") -> bytes:
    host = Plane("/host:CPU")
    host.line(1, "python", 0, host.event(f"PjitFunction({name})", 10, 10_000_000))
    return written(host)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    folder = tmp_path / "log/plugins/profile/2026_01_02_00_00_00"
    earlier = folder.with_name("2026_01_01_00_00_00")
    for one in (folder, earlier, folder.with_name("2026_01_03_00_00_00")):  # the last one is empty
        one.mkdir(parents=True)
    (earlier / "a.xplane.pb").write_bytes(profile())
    (folder / "a.xplane.pb").write_bytes(profile("g"))
    (folder / "a.trace.json.gz").write_bytes(b"")
    return folder


@pytest.mark.parametrize("up", range(4))
def test_the_last_run_is_taken_from_wherever_it_is_looked_for(run: Path, up: int) -> None:
    folder = [run, *run.parents][up]
    assert profiles_in(folder) == [str(run / "a.xplane.pb")]
    assert trace_files([str(folder)]) == [str(run / "a.xplane.pb")]
    assert [node.name for node in load_core(folder).find("RuntimeCall")] == ["PjitFunction(g)"]


def test_several_hosts_are_a_set(run: Path) -> None:
    for name in ("a10", "a9"):
        (run / f"{name}.xplane.pb").write_bytes(profile(name))
    assert [Path(one).name for one in profiles_in(run)] == ["a.xplane.pb", "a9.xplane.pb", "a10.xplane.pb"]
    with pytest.raises(NotATraceError, match="holds the profiles of 3 hosts"):
        load_core(run)
    assert len(load_core_set(trace_files([str(run)]), processes=1)) == 3


def test_other_files_beside_runs_are_none_of_them(run: Path) -> None:
    log = run.parents[2]
    (log / "settings.json").write_text("{}")
    assert trace_files([str(log)]) == [str(run / "a.xplane.pb")]


def test_of_a_last_run_that_is_empty_the_one_before_is_named(run: Path) -> None:
    (run / "a.xplane.pb").write_bytes(b"")
    with pytest.raises(
        NotATraceError, match=rf"is empty, not a trace; an earlier run is in \S*{'2026_01_01_00_00_00'}$"
    ):
        load_core(run)
    (run.with_name("2026_01_01_00_00_00") / "a.xplane.pb").write_bytes(b"")
    with pytest.raises(NotATraceError, match="is empty, not a trace$"):
        load_core(run)
