"""Graphs that were loaded before, kept for the user so that the next command on the same trace is instant.

An entry is a graph file whose original events stay in the trace. Its name holds the trace's path, what of the file is
read (one rank or all, with or without events of unknown tools), what the file was when it was loaded (size, times,
inode), and the version of this program: whatever differs is another entry, so no entry is ever out of date. Entries
are written beside and moved into place, hence whole or absent for every other process. Only their owner may read them:
a trace may hold secrets.

An entry is verified whole when it is opened, and one that is damaged is made anew without a word.

The folder is `folders.cache_folder()`. It may be deleted at any time.
"""

from __future__ import annotations

import os
import re
import shutil
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cached_property, partial
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np

from tracelens_graph._version import __version__
from tracelens_graph.errors import OutputError, TraceError
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.details import NO_TEXT, Details, source_id
from tracelens_graph.graph.graph import Graph
from tracelens_graph.loaders.kineto.details import FileDetails
from tracelens_graph.loaders.parts import is_part, rank_of
from tracelens_graph.loaders.sources import GENERIC, Source
from tracelens_graph.output.files import replacing, unwritable
from tracelens_graph.schema import SCHEMA_VERSION
from tracelens_graph.stores.folders import cache_folder
from tracelens_graph.stores.graph_file import read_graph, write_without_events
from tracelens_graph.utils.arrays import Rows

LIMIT_BYTES = 10 * 1024**3
"""Size of all entries together; those used longest ago go first."""

_ENTRY = re.compile(r"[0-9a-f]{32}-[0-9a-f]{32}\.(tlg|lbug|json)")
_PART = re.compile(r"\.[0-9a-f]{32}-[0-9a-f]{32}\.(tlg|lbug)\.\w+\.part")

_ABANDONED_S = 3600
"""Age at which a half-written entry has nobody left who writes it."""


def cached_core(
    path: str | os.PathLike[str], load: Callable[[], Graph], warn: Callable[[str], Any] = warnings.warn
) -> Graph:
    """The graph of a trace, from the cache if it is there, else loaded and kept.

    Standard input, pipes, saved graphs and files that vanish with this process are loaded and not kept.

    Args:
        warn: called with one line if the cache cannot be written.

    Raises:
        Whatever `load` raises.
    """
    if os.fspath(path) == "-" or not Path(path).is_file():
        return load()
    source = Source(str(path), path=Path(path).absolute())
    if source.packing == "graph" or not is_lasting(path):
        return load()
    try:
        entry = entry_of([path])
    except (OSError, OutputError) as error:  # no home folder, for one
        warn(f"the cache is not used: {error}")
        return load()

    core = _read(entry, source, load)
    if core is None:
        core = load()
        _keep(core, entry, source, warn)
    return core


def is_lasting(path: str | os.PathLike[str]) -> bool:
    """Whether a file outlives this process, so that what is kept of it can be found again."""
    return not is_part(os.path.realpath(path))


def entry_of(paths: Sequence[str | os.PathLike[str]], suffix: str = ".tlg", about: Any = None) -> Path:
    """The file of the cache for what is made of traces as their files are now.

    Args:
        paths: the traces; a link to one rank of a report stands for that rank.
        suffix: what kind of file it is; without one the graph of a trace.
        about: what else it depends on.

    Raises:
        OSError: a file cannot be read.
        OutputError: the user's home folder is not known.
    """
    read = [(os.path.realpath(path), rank_of(path)) for path in paths]
    of_what = suffix, bool(os.environ.get(GENERIC)), read
    states = [_state(Path(file)) for file, _ in read]
    return cache_folder() / f"{_digest(of_what)}-{_digest((states, about))}{suffix}"


def _state(path: Path) -> tuple[Any, ...]:
    stat = path.stat()
    return stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino, __version__, SCHEMA_VERSION


def _digest(about: Any) -> str:
    return blake2b(repr(about).encode(), digest_size=16).hexdigest()


class _Reloaded(Details):
    """Events of a trace that holds none of them as text: the first one that is asked for loads the trace again."""

    def __init__(self, source: Source, load: Callable[[], Graph], first: np.ndarray, count: np.ndarray) -> None:
        super().__init__(first, count)
        self._source, self._load = source, load
        source.is_loaded = True

    @cached_property
    def _loaded(self) -> Details:
        return self._load().details

    def texts(self, blocks: Iterable[int]) -> Iterator[bytes]:
        """The texts that the loaded trace gives."""
        wanted = list(blocks)
        if not wanted:
            return
        for text in self._loaded.texts(wanted):
            self._source.check_unchanged()  # what was read of another file is not passed on
            yield text

    def identity(self) -> str:
        """Hash of the decompressed bytes."""
        return source_id(self._source)


def _events(source: Source, load: Callable[[], Graph], first: np.ndarray, count: np.ndarray, places: Rows) -> Details:
    """The original events of an entry, by the places of their blocks."""
    if (places[:, 2] == NO_TEXT).any():
        return _Reloaded(source, load, first, count)
    return FileDetails.at(source, first, count, places)


def _read(entry: Path, source: Source, load: Callable[[], Graph]) -> Graph | None:
    """The graph of an entry; None if it is absent, damaged or somebody else's."""
    try:
        if hasattr(os, "getuid") and entry.stat().st_uid != os.getuid():
            return None
        core = read_graph(entry, partial(_events, source, load), verified=True)
        source.check_unchanged()
    except (OSError, TraceError):
        return None
    with suppress(OSError):
        os.utime(entry)
    core.info.source = source.name
    return core


def _keep(core: Core, entry: Path, source: Source, warn: Callable[[str], Any]) -> None:
    places = core.details.places()
    if places is None or core.columns.nbytes > LIMIT_BYTES:
        return
    try:
        if source.path is None or entry_of([source.path]) != entry:  # the trace was written to while it was loaded
            return
        entry.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with replacing(entry, private=True) as file:
            write_without_events(core, file, places)
        make_room(entry)
    except (OSError, OutputError) as error:
        why = unwritable(entry.parent, error) if isinstance(error, OSError) else error
        warn(f"the graph is not kept for the next command: {why}")


def make_room(newest: Path) -> None:
    """Delete earlier states of the newest entry's trace, what was left half-written, and all beyond the limit."""
    trace = newest.name.partition("-")[0]
    total = 0
    for written, size, path in sorted(_files(newest.parent), reverse=True):
        if _PART.fullmatch(path.name):
            superfluous = written < time.time() - _ABANDONED_S
        else:
            total += size
            superfluous = path.stem != newest.stem and (total > LIMIT_BYTES or path.name.startswith(trace))
        if superfluous:
            with suppress(OSError):
                shutil.rmtree(path) if path.is_dir() else path.unlink()


def _files(folder: Path) -> Iterator[tuple[float, int, Path]]:
    """Time of the last use, size and path of the cache's files; other files in the folder are left alone."""
    for path in folder.iterdir():
        if _ENTRY.fullmatch(path.name) or _PART.fullmatch(path.name):
            with suppress(OSError):  # another process may delete it meanwhile
                stat = path.stat()
                yield stat.st_mtime, stat.st_size, path
