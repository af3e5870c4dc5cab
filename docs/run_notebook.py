"""Run the notebooks of examples/ and write what their cells give.

    python docs/run_notebook.py            run them and write their outputs
    python docs/run_notebook.py --check    change nothing; end with 1 if one is out of date

Cells hold plain Python, no magic commands. They run in this process, without a kernel: what a cell prints and what its
last expression gives is formatted as IPython formats it. Frames are not written: they hold the code of a page, and
would change whenever it does.
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
import os
import re
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pandas as pd
from IPython.core.formatters import DisplayFormatter
from pages import CHECKOUT, publish

NOTEBOOKS = sorted((CHECKOUT / "examples").glob("*.ipynb"))
_AS_IN_A_NOTEBOOK = ("display.max_columns", 20, "display.width", 80)
"""Without them pandas fits its tables to the terminal."""
_WIDTH = {"COLUMNS": "100"}
"""The terminal that other tables are fitted to."""


def without_frames(html: str) -> str:
    """HTML without the pages in it; nothing that stands in their text can look like an end of them."""
    return re.sub(r"<iframe [^<>]*></iframe>", "", html)


def with_outputs(text: str, folder: Path, kept: Callable[[str], str] = without_frames) -> str:
    """The text of a notebook with the outputs that its cells have now, run in a folder.

    Args:
        text: the notebook.
        folder: where its cells run.
        kept: what is kept of HTML that a cell gives.

    Raises:
        Exception: whatever a cell raises.
    """
    notebook = json.loads(text)
    namespace: dict[str, Any] = {"__name__": "__main__"}
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    with contextlib.chdir(folder), pd.option_context(*_AS_IN_A_NOTEBOOK), patch.dict(os.environ, _WIDTH):
        for number, cell in enumerate(code, 1):
            cell["execution_count"] = number
            cell["outputs"] = _outputs("".join(cell["source"]), namespace, number, kept)
    return json.dumps(notebook, indent=1, ensure_ascii=False, sort_keys=True) + "\n"


def _outputs(source: str, namespace: dict[str, Any], number: int, kept: Callable[[str], str]) -> list[dict[str, Any]]:
    """What a cell prints, then what its last expression gives."""
    tree = ast.parse(source)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    printed, value = io.StringIO(), None
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, f"<cell {number}>", "exec"), namespace)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), f"<cell {number}>", "eval"), namespace)
    outputs: list[dict[str, Any]] = []
    if printed.getvalue():
        outputs.append({"name": "stdout", "output_type": "stream", "text": _lines(printed.getvalue())})
    if value is not None:
        data, metadata = DisplayFormatter().format(value)
        data = {kind: _lines(kept(text) if kind == "text/html" else text) for kind, text in data.items()}
        result = {"data": data, "execution_count": number, "metadata": metadata, "output_type": "execute_result"}
        outputs.append(result)
    return outputs


def _lines(text: str) -> list[str]:
    """A text as notebooks store it."""
    return text.splitlines(keepends=True)


def main() -> int:
    """Renew the notebooks, or say which are out of date."""
    with tempfile.TemporaryDirectory(prefix="tracelens_graph-notebook-") as folder:
        beside = Path(folder, "examples")
        beside.mkdir()
        return publish({path: with_outputs(path.read_text(), beside) for path in NOTEBOOKS})


if __name__ == "__main__":
    sys.exit(main())
