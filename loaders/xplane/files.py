"""Profiles on disk: the folders in which JAX writes them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path

SUFFIXES = (".xplane.pb", ".xplane.pb.gz")
COPY = ".trace.json.gz"
"""End of the name of the smaller copy that is written beside each profile for a viewer."""

_RUNS = ("plugins/profile", "profile")
"""Where runs are, below the folder that was named."""


def profiles_in(folder: str | os.PathLike[str]) -> list[str]:
    """The profiles of a run, by name, numbers in it by size: those in a folder, else those of its last run.

    Args:
        folder: the folder of a run, of runs, or the one that was given to `jax.profiler`.

    Raises:
        OSError: it cannot be read.
    """
    return _profiles(Path(folder)) or runs_in(folder)


def runs_in(folder: str | os.PathLike[str]) -> list[str]:
    """As `profiles_in`, of runs below the folder only.

    Raises:
        OSError: it cannot be read.
    """
    path = Path(folder)
    runs = [path / part for part in _RUNS] + ([path] if path.name == "profile" else [])
    every = [one for run in runs if run.is_dir() for one in run.iterdir() if one.is_dir()]
    return next(filter(None, map(_profiles, sorted(every, key=lambda one: one.name, reverse=True))), [])


def run_before(file: str | os.PathLike[str]) -> str | None:
    """The folder of the last run before that of a profile in which no profile is empty; None without one."""
    run = Path(file).parent
    if run.parent.name != "profile" or not Path(file).name.endswith(SUFFIXES):
        return None
    try:
        earlier = sorted((one for one in run.parent.iterdir() if one.is_dir() and one.name < run.name), reverse=True)
        return next(
            (str(one) for one in earlier if (found := _profiles(one)) and all(map(os.path.getsize, found))), None
        )
    except OSError:
        return None


def viewer_copies(files: Iterable[str]) -> list[str]:
    """Names of the copies for viewers that stand beside some files, and are left out."""
    beside = (f"{file.partition('.xplane.pb')[0]}{COPY}" for file in files if file.endswith(SUFFIXES))
    return [os.path.basename(copy) for copy in beside if os.path.isfile(copy)]


def _profiles(folder: Path) -> list[str]:
    found = [str(one) for one in folder.iterdir() if one.name.endswith(SUFFIXES) and one.is_file()]
    return sorted(found, key=_by_host)


def _by_host(file: str) -> list[str | int]:
    host = os.path.basename(file).partition(".xplane.pb")[0]
    return [int(part) if place % 2 else part for place, part in enumerate(re.split(r"([0-9]+)", host))]
