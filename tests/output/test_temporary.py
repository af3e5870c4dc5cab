"""What killed processes leave behind goes with a run a day later; what somebody still writes stays."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tracelens_graph.output.files import remove_abandoned, replacing, temporary_folder

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there is no such signal")

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
from tracelens_graph.output.files import temporary_folder
with temporary_folder(sys.argv[1], "kind-") as folder:
    Path(folder, "inside").touch()
    os.kill(os.getpid(), signal.SIGKILL)
"""


def in_hidden(folder: Path) -> list[Path]:
    return [path for path in folder.iterdir() if path.name.endswith(".part")]


@pytest.mark.parametrize("name", ["x.json", "x", "ä" * 100])
def test_what_a_kill_left_goes_a_day_later(tmp_path: Path, name: str) -> None:
    place = tmp_path / name
    killed_while(HALF_A_FILE, place)
    (left,) = in_hidden(tmp_path)
    assert not place.exists()
    for age, stays in ((time.time(), True), (_LONG_AGO, False)):
        os.utime(left, (age, age))
        with replacing(place) as file:
            file.write(b"whole")
        assert left.exists() == stays
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_two_writers_of_one_file_leave_each_other_alone(tmp_path: Path) -> None:
    place = tmp_path / "x"
    with replacing(place) as first:
        first.write(b"first")
        with replacing(place) as second:
            second.write(b"second")
        assert place.read_bytes() == b"second"
    assert place.read_bytes() == b"first"


def test_a_temporary_folder_goes_with_one_of_its_kind(tmp_path: Path) -> None:
    killed_while(HALF_A_FOLDER, tmp_path)
    (left,) = tmp_path.iterdir()
    os.utime(left, (_LONG_AGO, _LONG_AGO))
    with temporary_folder(str(tmp_path), "other-"):
        assert left.exists()
    with temporary_folder(str(tmp_path), "kind-") as folder:
        assert list(tmp_path.iterdir()) == [Path(folder)]
        assert Path(folder).stat().st_mode & 0o777 == 0o700
    assert not list(tmp_path.iterdir())


def test_of_a_link_the_link_alone_goes(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    link = tmp_path / "kind-0"
    link.symlink_to(precious)
    os.utime(link, (_LONG_AGO, _LONG_AGO), follow_symlinks=False)
    remove_abandoned(tmp_path, "kind-")
    assert list(tmp_path.iterdir()) == [precious]
