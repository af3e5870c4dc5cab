"""What files say that they were made by, in the place that their format has for it; and whether a file says so.

CSV, folded stacks and single tables in Markdown have no such place, so a file of these that stands there is taken for
somebody else's.
"""

from __future__ import annotations

import re
import zlib
from pathlib import Path

from tracelens_graph._version import __version__

TOOL = "tracelens_graph"
GENERATOR = f"{TOOL} {__version__}"
"""What a file says it was made by."""

COMMENT = f"<!-- generator: {GENERATOR} -->\n"
"""The same in XML and Markdown."""

GRAPH_MAGIC = b"TLGRAPH1"
"""First bytes of a saved graph."""

_HEAD = re.compile(
    rb"\A%s" % GRAPH_MAGIC
    + rb"|\A# generator: tracelens_graph "
    + rb"|\A(?:<\?xml[^>]*>\s*)?<!-- generator: tracelens_graph "
    + rb'|<meta name="generator" content="tracelens_graph '
    + rb'|\A\{"(?:generator|exporter)":"tracelens_graph '
    + rb'|\A\{\s*"schema_version": \d+,\s*"tool": \{\s*"name": "tracelens_graph"'
    + rb'|\A\{\s*"table": "\w+",\s*"title": '
    + rb"|\A\x89PNG.*tEXtSoftware\0tracelens_graph ",
    re.DOTALL,
)
_HEAD_SIZE = 4096
_TAIL_SIZE = 65536


def is_ours(path: Path) -> bool:
    """Whether a file says that the tool wrote it.

    Raises:
        OSError: it cannot be read.
    """
    with open(path, "rb") as file:
        head = file.read(_HEAD_SIZE)
        if head.startswith(b"\x1f\x8b"):
            head = _inflated(head)
        if head.startswith(b"PAR1"):
            file.seek(-min(_TAIL_SIZE, path.stat().st_size), 2)
            return b"tracelens_graph " in file.read()
    return bool(_HEAD.search(head)) or (head.startswith(b"PK\x03\x04") and _is_our_workbook(path))


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
