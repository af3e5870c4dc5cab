"""What every page is put together from: its policy, style, data and script, all in the one file.

Names come from a trace, so nothing on a page may obey them: scripts set them as text only, and the page's policy lets
a browser run the scripts that it was written with, load nothing, and send nothing.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from html import escape
from importlib.resources import files
from typing import Any

from tracelens_graph.output.markers import GENERATOR
from tracelens_graph.reports.html.planes import base64


@dataclass(frozen=True)
class Code:
    """Files of `page/` that make a page.

    Attributes:
        scripts: one behind the other, the one that starts it last.
        styles: one behind the other.
        worker: scripts that run beside the page; they are among `scripts`, too, for where it may have no worker.
    """

    scripts: Sequence[str]
    styles: Sequence[str]
    worker: Sequence[str] = ()


def page(title: str, head: Mapping[str, Any], body: Mapping[str, Any], planes: str, code: Code) -> str:
    """A page.

    Args:
        title: what the browser calls it.
        head: what is there at once.
        body: what is unpacked while the first view stands.
        planes: columns, compressed.
        code: what draws it.
    """
    script, style = _joined(tuple(code.scripts), '"use strict";\n'), _joined(tuple(code.styles), "")
    policy = (
        f"default-src 'none'; script-src {_hash(script)}; style-src {_hash(style)}; worker-src blob:; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    told = json.dumps(head, allow_nan=False).replace("<", "\\u003c")
    packed = base64(json.dumps(body, allow_nan=False, separators=(",", ":")).encode())
    return "\n".join(
        (
            "<!DOCTYPE html>",
            f'<html lang="en"><head><meta charset="utf-8"><meta name="generator" content="{GENERATOR}">',
            f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
            '<meta name="viewport" content="width=device-width">',
            f"<title>{escape(title)}</title><style>{style}</style></head>",
            f"<body>{_asset('page.html')}",
            f'<script type="application/json" id="head">{told}</script>',
            f'<script type="text/plain" id="body">{packed}</script>',
            f'<script type="text/plain" id="planes">{planes}</script>',
            f'<script type="text/plain" id="worker">{_joined(tuple(code.worker), "")}</script>',
            f"<script>{script}</script>",
            "</body></html>\n",
        )
    )


@cache
def _joined(names: tuple[str, ...], before: str) -> str:
    return before + "".join(map(_asset, names))


@cache
def _asset(name: str) -> str:
    text = (files("tracelens_graph.reports.html") / "page" / name).read_text("utf-8")
    return f"/*!\n{text}\n*/\n" if name.endswith(".LICENSE") else text


def _hash(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"
