"""What every page is put together from: its policy, style, data and script, all in the one file.

Names come from a trace, so nothing on a page may obey them: scripts set them as text only, and the page's policy lets
a browser run the script that it was written with, load nothing, and send nothing. No module can be loaded then, so a
page has the modules of its entry as one script, in the order of their imports.

Columns of whole numbers take few bytes as byte planes, one behind the other, compressed together: a column's lowest
bytes come first, then all second bytes, and so on, as many as its greatest value needs. Bytes of one plane are alike,
so that they compress far better than numbers side by side.
"""

from __future__ import annotations

import json
import re
import zlib
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from hashlib import sha256
from html import escape
from importlib.resources import files
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracelens_graph.output.files import GENERATOR
from tracelens_graph.utils.texts import in_device_words

LEVEL = 6
"""Of zlib: higher ones take several times as long and save a few percent."""

STYLES = ("colors.css", "page.css", "views.css", "grid.css", "figures.css")
LAST_STYLES = ("narrow.css", "print.css")
"""Styles of every page, before and behind those of its own."""

_IMPORT = re.compile(r'^import (\{[\w\s,]*\}) from "\./([\w-]+)\.js";$', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:const|class) (\w+))", re.MULTILINE)
_COMMENT = re.compile(r"^[ \t]*(?://[^\n]*|/\*\*(?:(?!\*/).)*\*/[ \t]*)\n", re.MULTILINE | re.DOTALL)
"""Lines that are comments; what stands behind code stays."""


@dataclass(frozen=True)
class Packed:
    """A column to be packed.

    Attributes:
        values: whole numbers.
        is_delta: whether differences of neighbours are stored, for what mostly grows.
    """

    values: NDArray[np.integer[Any]]
    is_delta: bool = False


def zigzag(values: NDArray[np.int64]) -> NDArray[np.int64]:
    """Whole numbers as such that are not negative, small ones as small ones: 0, -1, 1, -2, ... as 0, 1, 2, 3, ..."""
    return np.asarray((values << 1) ^ (values >> 63))


def packed(columns: Mapping[str, Packed]) -> tuple[list[dict[str, Any]], str]:
    """Columns as text.

    Args:
        columns: name -> column; numbers that are not differences may not be negative.

    Returns:
        For each column its name, length `n`, number of `planes` and whether it holds differences (`delta`: of an even
        number the half is the difference, of an odd one the negative half of one more); and the compressed planes in
        base64.
    """
    described, pieces = [], []
    for name, column in columns.items():
        values = column.values.astype(np.int64)
        if column.is_delta:
            values = zigzag(np.diff(values, prepend=0))
        plain = values.view(np.uint64)
        planes = (int(plain.max(initial=0)).bit_length() + 7) // 8
        shifts = np.arange(planes, dtype=np.uint64) * np.uint64(8)
        pieces += [(plain >> shift).astype(np.uint8).tobytes() for shift in shifts]
        described.append({"name": name, "n": len(values), "planes": planes, "delta": column.is_delta})
    return described, _compressed(b"".join(pieces))


@dataclass(frozen=True)
class Code:
    """Files of `page/` that make a page.

    Attributes:
        entry: the module that draws it.
        styles: those of its own, before `LAST_STYLES`.
        last_styles: those behind these.
        worker: the module that unpacks beside the page; empty for none.
        vendored: scripts and styles of others, before all.
    """

    entry: str
    styles: Sequence[str] = ()
    last_styles: Sequence[str] = ()
    worker: str = ""
    vendored: Sequence[str] = ()

    @property
    def script(self) -> str:
        """All scripts, one behind the other."""
        others = "".join(asset(name) for name in self.vendored if not name.endswith(".css"))
        return f'"use strict";\n{others}{bundle(self.entry)}'

    @property
    def style(self) -> str:
        """All styles."""
        others = (name for name in self.vendored if name.endswith(".css"))
        return "".join(map(asset, (*others, *STYLES, *self.styles, *LAST_STYLES, *self.last_styles)))


def page(
    title: str, head: Mapping[str, Any], body: Mapping[str, Any], columns: Mapping[str, Packed], code: Code
) -> str:
    """A page.

    Args:
        title: what the browser calls it.
        head: what is there at once; the description of the columns joins it.
        body: what is unpacked while the first view stands.
        columns: what is unpacked, too.
        code: what draws it.
    """
    described, planes = packed(columns)
    words = partial(in_device_words, is_prose=False)
    script, style = words(code.script), code.style  # of the words that its data have
    policy = (
        f"default-src 'none'; script-src {_hash(script)}; style-src {_hash(style)}; worker-src blob:; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    plain = words(json.dumps({**head, "columns": described}, allow_nan=False)).replace("<", "\\u003c")
    packed_body = _compressed(words(json.dumps(body, allow_nan=False, separators=(",", ":"))).encode())
    return "\n".join(
        (
            "<!DOCTYPE html>",
            f'<html lang="en"><head><meta charset="utf-8"><meta name="generator" content="{GENERATOR}">',
            f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
            '<meta name="viewport" content="width=device-width">',
            f"<title>{escape(in_device_words(title))}</title><style>{style}</style></head>",
            f"<body>{asset('page.html')}",
            f'<script type="application/json" id="head">{plain}</script>',
            f'<script type="text/plain" id="body">{packed_body}</script>',
            f'<script type="text/plain" id="planes">{planes}</script>',
            f'<script type="text/plain" id="worker">{bundle(code.worker) if code.worker else ""}</script>',
            f"<script>{script}</script>",
            "</body></html>\n",
        )
    )


@cache
def asset(name: str) -> str:
    """A file of `page/`; a licence as a comment of a script."""
    text = (files("tracelens_graph.reports.html") / "page" / name).read_text("utf-8")
    return f"/*!\n{text}\n*/\n" if name.endswith(".LICENSE") else text


@cache
def bundle(entry: str, read: Callable[[str], str] = asset) -> str:
    """A module with all that it imports as one script: each once, in a scope of its own, without comment lines.

    Args:
        entry: file of the module. It and what it imports take names by `import { name } from "./file.js"`, and give
            them by `export` before a constant or a class.
        read: gives the text of a module.

    Raises:
        ValueError: modules import each other, or import and export in another way.
    """
    return "".join(_scoped(name, read(name)) for name in modules(entry, read))


def modules(entry: str, read: Callable[[str], str] = asset) -> list[str]:
    """Files of a module and of all that it imports, each behind what it imports itself."""
    order: dict[str, None] = {}

    def visit(name: str, above: tuple[str, ...]) -> None:
        if name in above:
            raise ValueError(f"modules import each other: {' -> '.join((*above, name))}")
        if name not in order:
            for _, imported in _IMPORT.findall(read(name)):
                visit(f"{imported}.js", (*above, name))
            order[name] = None

    visit(entry, ())
    return list(order)


def _scoped(name: str, text: str) -> str:
    """A module as a constant of a script: what it exports."""
    given = ", ".join(_EXPORT.findall(text))
    script = _EXPORT.sub("", _IMPORT.sub(lambda found: f"const {found[1]} = {_constant(found[2])};", text))
    script = _COMMENT.sub("", script)
    if line := re.search(r"^(?:import|export)\b.*", script, re.MULTILINE):
        raise ValueError(f"{name}: a page cannot have {line[0]!r}")
    return f"const {_constant(name.removesuffix('.js'))} = (() => {{\n{script}return {{ {given} }};\n}})();\n"


def _constant(name: str) -> str:
    """What a module is called in a script; the console of a browser knows it by that name."""
    return f"${name.replace('-', '_')}"


def _compressed(content: bytes) -> str:
    return b64encode(zlib.compress(content, LEVEL)).decode()


def _hash(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"
