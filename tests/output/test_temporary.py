"""What killed processes leave behind goes with the next run; what somebody still writes stays."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tracelens_graph.output.files import replacing
from tracelens_graph.output.temporary import TemporaryFolder

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="no file that is open can be deleted there")

_LONG_AGO = time.time() - 2 * 86_400


def killed_while(code: str, *arguments: object) -> None:
    """Run code that kills its own process."""
    done = subprocess.run(
        [sys.executable, "-c", f"import os, signal, sys\nfrom pathlib import Path\n{code}", *map(str, arguments)],
        timeout=60, check=False, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == -signal.SIGKILL, done.stderr


HALF_A_FILE = """
from tracelens_graph.output.files import replacing
with replacing(sys.argv[1]) as file:
    file.write(b"half")
    file.flush()
    os.kill(os.getpid(), signal.SIGKILL)
"""
HALF_A_FOLDER = """
from tracelens_graph.output.temporary import TemporaryFolder
with TemporaryFolder(Path(sys.argv[1]), "kind-") as folder:
    (folder / "inside").touch()
    os.kill(os.getpid(), signal.SIGKILL)
"""


def in_hidden(folder: Path) -> list[Path]:
    return [path for path in folder.iterdir() if path.name.endswith(".part")]


@pytest.mark.parametrize("name", ["x.json", "x", "ä" * 100])
def test_the_next_run_of_an_output_removes_what_a_kill_left(tmp_path: Path, name: str) -> None:
    place = tmp_path / name
    killed_while(HALF_A_FILE, place)
    killed_while(HALF_A_FILE, place)
    assert len(in_hidden(tmp_path)) == 1, "a run removes what the one before it left"
    assert not place.exists()
    with replacing(place) as file:
        file.write(b"whole")
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_other_outputs_keep_what_is_theirs(tmp_path: Path) -> None:
    killed_while(HALF_A_FILE, tmp_path / "x.json.gz")
    with replacing(tmp_path / "x.json") as file:
        file.write(b"whole")
    with replacing(tmp_path / "json.gz") as file:
        file.write(b"whole")
    assert len(in_hidden(tmp_path)) == 1


def test_two_writers_of_one_file_leave_each_other_alone(tmp_path: Path) -> None:
    place = tmp_path / "x"
    with replacing(place) as first:
        first.write(b"first")
        with replacing(place) as second:
            second.write(b"second")
        assert place.read_bytes() == b"second"
    assert place.read_bytes() == b"first"


def test_a_temporary_folder_goes_with_the_next_one(tmp_path: Path) -> None:
    killed_while(HALF_A_FOLDER, tmp_path)
    (left,) = tmp_path.iterdir()
    with TemporaryFolder(tmp_path, "other-"):
        assert left.exists()
    with TemporaryFolder(tmp_path, "kind-") as folder:
        assert list(tmp_path.iterdir()) == [folder]
        assert folder.stat().st_mode & 0o777 == 0o700
        with TemporaryFolder(tmp_path, "kind-") as another:
            assert {*tmp_path.iterdir()} == {folder, another}
    assert not list(tmp_path.iterdir())


def elsewhere(path: Path) -> None:
    """As if another machine had made it, whose locks cannot be seen."""
    machine = path.name.split(".")[-2][:8]
    path.rename(path.with_name(path.name.replace(machine, f"{int(machine, 16) ^ 1:08x}")))


def kept(path: Path) -> None:
    """As it is."""


@pytest.mark.parametrize(
    ("made", "is_old", "goes"),
    [(kept, False, True), (elsewhere, False, False), (elsewhere, True, True)],
)  # fmt: skip
def test_what_another_machine_may_write_is_left_alone_for_a_day(
    tmp_path: Path, made: Callable[[Path], None], is_old: bool, goes: bool
) -> None:
    killed_while(HALF_A_FILE, tmp_path / "x")
    made(*in_hidden(tmp_path))
    if is_old:
        os.utime(*in_hidden(tmp_path), (_LONG_AGO, _LONG_AGO))
    with replacing(tmp_path / "x") as file:
        file.write(b"whole")
    assert (in_hidden(tmp_path) == []) == goes


def test_where_nothing_can_be_locked_age_tells(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import fcntl

    def refused(*_: object) -> None:
        raise OSError(45, "Operation not supported")

    killed_while(HALF_A_FILE, tmp_path / "x")
    monkeypatch.setattr(fcntl, "flock", refused)
    with replacing(tmp_path / "x") as file:
        file.write(b"whole")
    assert in_hidden(tmp_path)
    os.utime(*in_hidden(tmp_path), (_LONG_AGO, _LONG_AGO))
    with replacing(tmp_path / "x") as file:
        file.write(b"whole")
    assert not in_hidden(tmp_path)


def test_a_file_that_was_taken_for_a_leftover_before_it_was_locked_is_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tracelens_graph.output import files

    whole, calls = files.hold, []

    def late(descriptor: int) -> bool:
        if not calls:
            in_hidden(tmp_path)[0].unlink()
        calls.append(descriptor)
        return whole(descriptor)

    monkeypatch.setattr(files, "hold", late)
    with replacing(tmp_path / "x") as file:
        file.write(b"whole")
    assert len(calls) == 2
    assert (tmp_path / "x").read_bytes() == b"whole"


def test_nothing_but_files_and_folders_of_this_user_goes(tmp_path: Path) -> None:
    killed_while(HALF_A_FILE, tmp_path / "x")
    (left,) = in_hidden(tmp_path)
    precious = tmp_path / "precious"
    left.rename(precious)
    left.symlink_to(precious)
    with replacing(tmp_path / "x") as file:
        file.write(b"whole")
    assert precious.read_bytes() == b"half"
    assert left.is_symlink()
