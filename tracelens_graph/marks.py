"""How the tool knows the files that it wrote: by a mark in them, or by a list beside those that have no room for one.

Saved graphs have their magic. Pages, pictures, workbooks, Parquet, GraphML, Markdown and JSON say in the place that
the format has for it that tracelens_graph made them. CSV and what Neo4j Browser takes have no such place: `LIST` in
their folder names them with the hash of what was written, so that a file of the same name from elsewhere, or one that
was edited since, is told from ours.
"""

from __future__ import annotations

import re
import zlib
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
_HEAD = re.compile(
    rb"\A%s" % GRAPH_MAGIC
    + rb"|\A# generator: tracelens_graph "
    + rb"|\A(?:<\?xml[^>]*>\s*)?<!-- generator: tracelens_graph "
    + rb'|<meta name="generator" content="tracelens_graph '
    + rb'|\A\{"generator":"tracelens_graph '
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


def enlisted(path: Path) -> bytes:
    """The list of a folder with a file that was written just now."""
    listed = {**_listed(path.parent), path.name: _hash(path)}
    return (_LIST_HEAD + "".join(f"{digest}  {name}\n" for name, digest in sorted(listed.items()))).encode()


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
    digest = _listed(path.parent).get(path.name)
    return digest is not None and digest == _hash(path)


def _listed(folder: Path) -> dict[str, str]:
    """Name -> hash, as the list of a folder says; nothing without one."""
    try:
        text = (folder / LIST).read_text("utf-8", "replace")
    except OSError:
        return {}
    if not text.startswith("# generator: tracelens_graph "):
        return {}
    lines = (line.partition("  ") for line in text.splitlines()[1:])
    return {name: digest for digest, _, name in lines if name}


def _hash(path: Path) -> str:
    with open(path, "rb") as file:
        return file_digest(file, "sha256").hexdigest()
