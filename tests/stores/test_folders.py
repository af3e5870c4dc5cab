"""Where caches and data are kept."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tracelens_graph.db.server.server import standard_folder
from tracelens_graph.errors import OutputError
from tracelens_graph.stores.folders import cache_folder, data_folder

on_linux = pytest.mark.skipif(sys.platform != "linux", reason="other platforms have other places")
FOLDERS = [(cache_folder, "XDG_CACHE_HOME", ".cache"), (data_folder, "XDG_DATA_HOME", ".local/share")]


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    for name in ("TRACELENS_GRAPH_CACHE", "XDG_CACHE_HOME", "XDG_DATA_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


@pytest.fixture
def no_home(monkeypatch: pytest.MonkeyPatch) -> None:
    """A user that the system does not know, as in some containers."""
    import pwd

    def unknown(uid: int) -> pwd.struct_passwd:
        raise KeyError(uid)

    monkeypatch.delenv("HOME")
    monkeypatch.setattr(pwd, "getpwuid", unknown)


@on_linux
@pytest.mark.parametrize(("folder", "variable", "below_home"), FOLDERS)
def test_folders_are_those_of_the_xdg_specification(
    folder: Callable[[], Path], variable: str, below_home: str, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert folder() == home / below_home / "tracelens_graph"
    monkeypatch.setenv(variable, "/var/elsewhere")
    assert folder() == Path("/var/elsewhere/tracelens_graph")
    for ignored in ("", "relative/folder", "~/folder"):
        monkeypatch.setenv(variable, ignored)
        assert folder() == home / below_home / "tracelens_graph"


def test_variable_of_the_cache_goes_first(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/var/caches")
    monkeypatch.setenv("TRACELENS_GRAPH_CACHE", "~/mine")
    assert cache_folder() == home / "mine"
    monkeypatch.setenv("TRACELENS_GRAPH_CACHE", "mine")
    monkeypatch.chdir(home)
    assert cache_folder() == home / "mine"


@pytest.mark.skipif(os.name != "posix", reason="Windows keeps folders in its registry")
@pytest.mark.usefixtures("no_home")
@pytest.mark.parametrize("cache", [None, "~/mine"])
def test_without_a_home_folder_it_is_an_error(cache: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    if cache:
        monkeypatch.setenv("TRACELENS_GRAPH_CACHE", cache)
    else:
        with pytest.raises(OutputError, match=r"^no folder to keep files in: .*home directory"):
            standard_folder()
    with pytest.raises(OutputError, match=r"^no folder to keep files in: .*home directory"):
        cache_folder()
