"""Temporary files and folders that outlive a killed process: how the next run finds those that nobody uses any more.

Whoever writes one holds a lock on it, which the system drops when the process ends, however it ends. Its name tells
the machine, as a lock may not be seen from another one; what another machine made is left alone for a day.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import stat
import sys
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

if sys.platform != "win32":  # which deletes no file that is open
    import fcntl

_LOCK = ".lock"
"""File in a temporary folder that its user holds a lock on."""

_TOKEN = r"(?P<machine>[0-9a-f]{8})[0-9a-f]{8}"
_ABANDONED_S = 86_400
"""Age from which nobody is taken to use what has no lock that this machine sees."""


def token() -> str:
    """Part of the name of something temporary, which no other has."""
    return f"{_machine()}{secrets.token_hex(4)}"


def hold(descriptor: int) -> bool:
    """Take the lock on a file that was made just now.

    Returns:
        Whether the file is still there: another process may have taken it for a leftover before it was locked.
    """
    if sys.platform != "win32":
        with suppress(OSError):  # a file system without locks
            fcntl.flock(descriptor, fcntl.LOCK_EX)
    return os.fstat(descriptor).st_nlink > 0


class TemporaryFolder:
    """A folder for this process and user alone, which is gone when the block ends.

    Attributes:
        path: the folder.
    """

    def __init__(self, parent: Path, before: str, after: str = "") -> None:
        """Make one; leftovers of its kind go first.

        Args:
            parent: where to.
            before, after: what stands in its name before and after a token.

        Raises:
            OSError: it cannot be made.
        """
        remove_leftovers(parent, before, after)
        while True:
            self.path = parent / f"{before}{token()}{after}"
            self.path.mkdir(mode=0o700)
            try:
                self._lock = open(self.path / _LOCK, "wb")  # noqa: SIM115
            except BaseException:
                shutil.rmtree(self.path, ignore_errors=True)
                raise
            if hold(self._lock.fileno()):
                return
            self._lock.close()

    def remove(self) -> None:
        """Delete it with all that is in it; what cannot be deleted is left to the next run."""
        shutil.rmtree(self.path, ignore_errors=True)
        self._lock.close()

    def __enter__(self) -> Path:
        return self.path

    def __exit__(self, *_: object) -> None:
        self.remove()


def remove_leftovers(parent: Path, before: str, after: str) -> None:
    """Delete what killed processes of this user left in a folder.

    Args:
        parent: the folder.
        before, after: what stands in their names before and after a token.
    """
    name = re.compile(re.escape(before) + _TOKEN + re.escape(after))
    with suppress(OSError), os.scandir(parent) as entries:
        for entry in entries:
            if found := name.fullmatch(entry.name):
                with suppress(OSError):  # another process may delete it meanwhile
                    _remove_if_abandoned(Path(entry.path), found["machine"] == _machine())


def _remove_if_abandoned(path: Path, is_of_this_machine: bool) -> None:
    state = path.lstat()
    is_folder = stat.S_ISDIR(state.st_mode)
    if not (is_folder or stat.S_ISREG(state.st_mode)) or (hasattr(os, "getuid") and state.st_uid != os.getuid()):
        return
    is_old = state.st_mtime < time.time() - _ABANDONED_S
    with _lock_of(path / _LOCK if is_folder else path) as is_free:
        if is_free is not False and ((is_free and is_of_this_machine) or is_old):
            if is_folder:
                shutil.rmtree(path)
            else:
                path.unlink()


@contextmanager
def _lock_of(path: Path) -> Iterator[bool | None]:
    """Try to take a lock for a moment: whether it was free; None where that cannot be known."""
    if sys.platform == "win32":
        yield None
        return
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW)
    except OSError:  # a folder whose lock is not made yet, for one
        yield None
        return
    is_free: bool | None = True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        is_free = False
    except OSError:
        is_free = None
    try:
        yield is_free
    finally:
        os.close(descriptor)


def _machine() -> str:
    name = os.uname().nodename if hasattr(os, "uname") else os.environ.get("COMPUTERNAME", "")
    return f"{zlib.crc32(name.encode()):08x}"
