"""Take the picture of the notebook of views in JupyterLab: docs/pictures/jupyter.png.

    python docs/make_jupyter_picture.py

Needs JupyterLab, which the extra `dev` has, and Chromium or Chrome.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from tempfile import TemporaryDirectory

import lab
import run_notebook
from make_browser_pictures import browser
from pages import CHECKOUT, DOCS

_SIZE = {"width": 1200, "height": 1000}
_SHOWN = "GPU time by module"
_DRAWN_MS = 5000
"""Until a frame is drawn."""


def main() -> None:
    """Run the notebook, show it, and take the picture of its flame graph."""
    program = shutil.which("chromium") or shutil.which("google-chrome")
    with TemporaryDirectory(prefix="tracelens_graph-lab-", ignore_cleanup_errors=True) as folder:
        notebooks = Path(folder, "examples")
        notebooks.mkdir()
        text = run_notebook.with_outputs((CHECKOUT / "examples/views.ipynb").read_text(), notebooks, str)
        (notebooks / "views.ipynb").write_text(text)
        with lab.running(notebooks, Path(folder), "views.ipynb") as address, browser(program) as page:
            page.set_viewport_size(_SIZE)
            page.goto(f"{address}/doc/tree/views.ipynb")
            shown = page.locator(".jp-OutputArea-output", has_text=_SHOWN).first
            shown.wait_for(timeout=1000 * lab.PATIENCE_S)
            shown.evaluate("(output) => output.closest('.jp-Cell').scrollIntoView()")
            page.wait_for_timeout(_DRAWN_MS)
            page.screenshot(path=DOCS / "pictures/jupyter.png")


if __name__ == "__main__":
    main()
