"""Writing files so that nobody ever sees half of one; what a trace is called by its file."""

from __future__ import annotations

import os
import secrets
import stat
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from tracelens_graph.errors import OutputError

_SUFFIXES = (".json", ".gz", ".zst", ".zip", ".tlg", ".trace", ".pt")
"""What names of trace files end with, one behind the other."""


def stem(name: str) -> str:
    """The name of a trace file without what all are called: `worker0.123` of `worker0.123.pt.trace.json.gz`."""
    path = Path(name)
    while path.suffix in _SUFFIXES and path.stem:
        path = Path(path.stem)
    return path.name


def distinct_names(files: Sequence[str]) -> list[str]:
    """A name for each trace file: without suffixes, and with as many folders as tell it from the others.

    Files that are one and the same have one name.
    """
    parts = {file: ("stdin",) if file == "-" else _parts(file) for file in files}
    lengths = dict.fromkeys(files, 1)
    while True:
        names = {file: "/".join(part[-lengths[file] :]) for file, part in parts.items()}
        count = Counter(names[file] for file in parts)
        alike = [file for file, part in parts.items() if count[names[file]] > 1 and lengths[file] < len(part)]
        if not alike:
            return [names[file] for file in files]
        for file in alike:
            lengths[file] += 1


def _parts(file: str) -> tuple[str, ...]:
    path = Path(file).absolute()
    return (*path.parts[1:-1], stem(path.name))


@contextmanager
def replacing(path: str | os.PathLike[str], mode: int = 0o666) -> Iterator[BinaryIO]:
    """A new file that takes the place of `path` when the block ends well, and vanishes when it does not.

    Args:
        path: the file.
        mode: its permissions, of which the process's umask takes away.

    Raises:
        OutputError: it cannot be written, or something that is no ordinary file stands there.
    """
    target = Path(path).resolve()
    # Asked once: another process may put a file there, or delete it, at any moment.
    with suppress(OSError):
        kind = target.stat().st_mode
        if not stat.S_ISREG(kind):
            raise OutputError(f"{path}: is {'a folder' if stat.S_ISDIR(kind) else 'no ordinary file'}; name a file")
    part = target.with_name(f".{target.name}.{secrets.token_hex(4)}.part")
    try:
        with open(part, "xb", opener=lambda name, flags: os.open(name, flags, mode)) as file:
            yield file
        os.replace(part, target)
    except OSError as error:
        raise OutputError(f"{path}: cannot be written: {(error.strerror or str(error)).lower()}") from None
    finally:
        part.unlink(missing_ok=True)
