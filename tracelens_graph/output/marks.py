"""How the tool knows the files that it wrote: by a mark in them, or by a list beside those that have no room for one.

Saved graphs have their magic. Pages, pictures, workbooks, Parquet, GraphML, Markdown and JSON say in the place that
the format has for it that tracelens_graph made them. CSV and what Neo4j Browser takes have no such place: `LIST` in
their folder names them with the hash of what was written, so that a file of the same name from elsewhere, or one that
was edited since, is told from ours.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable, Set
from hashlib import file_digest
from pathlib import Path

from tracelens_graph._version import __version__

TOOL = "tracelens_graph"
GENERATOR = f"{TOOL} {__version__}"
"""What a file says it was made by."""

COMMENT = f"<!-- generator: {GENERATOR} -->\n"
"""The mark in XML and Markdown."""

GRAPH_MAGIC = b"TLGRAPH1"
"""First bytes of a saved graph."""

LIST = ".tracelens_graph.sums"
"""File in a folder that lists the files that have no place for a mark: `hash  name`."""

_LIST_HEAD = f"# generator: {GENERATOR}\n"
_BROKEN = "# incomplete: files are being replaced, or that was broken off\n"
"""Second line of the list of a folder whose files may be of two runs."""

_HEAD = re.compile(
    rb"\A%s" % GRAPH_MAGIC
    + rb"|\A# generator: tracelens_graph "
    + rb"|\A(?:<\?xml[^>]*>\s*)?<!-- generator: tracelens_graph "
    + rb'|<meta name="generator" content="tracelens_graph '
    + rb'|\A\{"(?:generator|exporter)":"tracelens_graph '
    + rb'|\A\{\s*"schema_version": \d+,\s*"tool": \{\s*"name": "tracelens_graph"'
    + rb"|\A\x89PNG.*tEXtSoftware\0tracelens_graph ",
    re.DOTALL,
)
_HEAD_SIZE = 4096
_TAIL_SIZE = 65536


def is_ours(path: Path) -> bool:
    """Whether the tool wrote the file that stands there.

    Raises:
        OSError: it cannot be read.
    """
    with open(path, "rb") as file:
        head = file.read(_HEAD_SIZE)
        if head.startswith(b"\x1f\x8b"):
            head = _inflated(head)
        if _HEAD.search(head):
            return True
        if head.startswith(b"PAR1"):
            file.seek(-min(_TAIL_SIZE, path.stat().st_size), 2)
            return b"tracelens_graph " in file.read()
    return (head.startswith(b"PK\x03\x04") and _is_our_workbook(path)) or _is_listed(path)


def sums(files: Iterable[Path]) -> set[tuple[str, str]]:
    """Names and hashes of files, for `enlisted`."""
    return {(path.name, _hash(path)) for path in files}


def enlisted(folder: Path, written: Set[tuple[str, str]], *, is_whole: bool = True) -> bytes:
    """The list of a folder with files that were written just now.

    Args:
        folder: the folder that they are for.
        written: their names and hashes.
        is_whole: whether they are all in the folder; else the list keeps also what it says of those before them.
    """
    names = {name for name, _ in written} if is_whole else ()
    listed = sorted(written | {one for one in _listed(folder) if one[0] not in names})
    return (_LIST_HEAD + ("" if is_whole else _BROKEN) + "".join(f"{d}  {name}\n" for name, d in listed)).encode()


def is_broken(folder: Path) -> bool:
    """Whether files were being moved into a folder when the program was killed, so that they may be of two runs."""
    return _BROKEN in _list_of(folder)


def _inflated(head: bytes) -> bytes:
    try:
        return zlib.decompressobj(wbits=31).decompress(head, _HEAD_SIZE)
    except zlib.error:
        return b""


def _is_our_workbook(path: Path) -> bool:
    from zipfile import BadZipFile, ZipFile

    try:
        with ZipFile(path) as book, book.open("docProps/core.xml") as core:
            return b"<dc:creator>tracelens_graph " in core.read(_HEAD_SIZE)
    except (BadZipFile, KeyError, NotImplementedError, RuntimeError, ValueError, zlib.error, EOFError):
        return False


def _is_listed(path: Path) -> bool:
    known = {digest for name, digest in _listed(path.parent) if name == path.name}
    return bool(known) and _hash(path) in known


def _listed(folder: Path) -> set[tuple[str, str]]:
    """Names and hashes, as the list of a folder says; nothing without one."""
    lines = (line.partition("  ") for line in _list_of(folder).splitlines()[1:])
    return {(name, digest) for digest, _, name in lines if name}


def _list_of(folder: Path) -> str:
    try:
        text = (folder / LIST).read_text("utf-8", "replace")
    except OSError:
        return ""
    return text if text.startswith("# generator: tracelens_graph ") else ""


def _hash(path: Path) -> str:
    with open(path, "rb") as file:
        return file_digest(file, "sha256").hexdigest()
