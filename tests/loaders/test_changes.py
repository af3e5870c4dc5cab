"""A file that changes while it is loaded, or after: one error that says so, and never an answer about half of it."""

from __future__ import annotations

import gzip
import json
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tracelens_graph.errors import ChangedTraceError
from tracelens_graph.loaders.kineto import loader
from tracelens_graph.loaders.kineto.chunks import Walker
from tracelens_graph.loaders.sources import open_source
from tracelens_graph.loading.many import load_core_set
from tracelens_graph.loading.one import load_core
from tracelens_graph.simulate import simulate, write

pytestmark = pytest.mark.proof


def grow(path: Path) -> None:
    with path.open("ab") as file:
        file.write(b"\n")


def shrink(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def empty(path: Path) -> None:
    os.truncate(path, 0)


def replace(path: Path) -> None:
    other = path.with_name("other")
    other.write_bytes(path.read_bytes())
    os.replace(other, path)


def delete(path: Path) -> None:
    path.unlink()


def touch(path: Path) -> None:
    os.utime(path, (1, 1))


CHANGES = [grow, shrink, empty, replace, delete, touch]


@pytest.fixture(params=["plain", "gzip"])
def trace(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    (packed,) = write(simulate(ranks=1, steps=2, layers=1), tmp_path / "simulated")
    path = tmp_path / "trace"
    path.write_bytes(packed.read_bytes() if request.param == "gzip" else gzip.decompress(packed.read_bytes()))
    return path


def words(change: Callable[[Path], None], when: str) -> str:
    if change is delete:
        return (
            "trace: the file was deleted while it was loaded$" if when == "while" else "trace: the file is gone since"
        )
    return f"trace: the file changed {when} it was loaded; load it again$"


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("stage", ["opened", "read", "built"])
def test_a_change_while_loading_is_told(
    trace: Path, change: Callable[[Path], None], stage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def changing(whole: Callable[..., object]) -> Callable[..., object]:
        def call(*arguments: object, **options: object) -> object:
            change(trace)
            monkeypatch.undo()
            return whole(*arguments, **options)

        return call

    place, name = {"opened": (Walker, "read_head"), "read": (Walker, "walk"), "built": (loader, "build_core")}[stage]
    monkeypatch.setattr(place, name, changing(getattr(place, name)))
    with pytest.raises(ChangedTraceError, match=words(change, "while")):
        load_core(str(trace), processes=1)


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_between_the_load_and_a_look_at_details_is_told(trace: Path, change: Callable[[Path], None]) -> None:
    core = load_core(str(trace))
    change(trace)
    for look in (lambda: list(core.details.texts([0])), core.details.identity):
        with pytest.raises(ChangedTraceError, match=words(change, "since")):
            look()


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_while_details_are_read_is_told(trace: Path, change: Callable[[Path], None]) -> None:
    core = load_core(str(trace))
    source = core.details.source
    whole = source.open

    def opened() -> object:
        stream = whole()
        change(trace)
        return stream

    source.open = opened
    with pytest.raises(ChangedTraceError, match=words(change, "since")):
        list(core.details.texts(range(len(core.details.first))))
    source.open = whole


@pytest.mark.parametrize("change", [grow, shrink, replace, delete])
@pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="no second process")
def test_a_change_while_two_processes_load_is_told(
    trace: Path, change: Callable[[Path], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loader, "_may_fork", lambda *_: True)
    start = loader._Helper.start

    def changed(*arguments: object) -> object:
        helper = start(*arguments)
        time.sleep(0.1)
        change(trace)
        return helper

    monkeypatch.setattr(loader._Helper, "start", changed)
    with pytest.raises(ChangedTraceError, match=words(change, "while")):
        load_core(str(trace))


def test_a_change_of_a_set_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also one between the moment when its process has read it, and the one when its graph is fetched."""
    files = [str(path) for path in write(simulate(ranks=2, steps=2, layers=1), tmp_path)]
    from tracelens_graph.loading import many as set_loading

    whole = set_loading.fetched

    def fetched(*arguments: object, **options: object) -> object:
        grow(Path(files[0]))
        return whole(*arguments, **options)

    monkeypatch.setattr(set_loading, "fetched", fetched)
    traces = load_core_set(files)
    with pytest.raises(ChangedTraceError, match="changed since it was loaded"):
        traces[0].core.details.identity()


def test_a_saved_graph_that_is_replaced_while_it_is_opened_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tracelens_graph.stores import graph_file

    (packed,) = write(simulate(ranks=1, steps=1, layers=1), tmp_path / "simulated")
    saved = tmp_path / "trace"
    graph_file.write_graph(load_core(str(packed)), saved)
    whole = graph_file._core

    def changed(*arguments: object) -> object:
        replace(saved)
        return whole(*arguments)

    monkeypatch.setattr(graph_file, "_core", changed)
    with pytest.raises(ChangedTraceError, match=words(replace, "while")):
        load_core(str(saved))


def test_a_file_that_is_replaced_between_two_looks_is_never_read_in_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The descriptor tells what is read, not the name: between the check of the name and the opening time passes."""
    trace = tmp_path / "trace"
    trace.write_text(json.dumps({"traceEvents": []}))
    source = open_source(str(trace))
    monkeypatch.setattr(type(source), "check_unchanged", lambda self: replace(trace))
    with pytest.raises(ChangedTraceError):
        source.open()
