"""Pages in a browser: opening one, waiting for what it does, going through its views."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from playwright.sync_api import Frame, Page

PATIENCE_S = 30

Opened = Callable[..., "Page"]
"""The fixture that opens a page, of its text."""


NAMELESS = (
    "[...document.querySelectorAll('button, a, input, select, canvas, svg[role=img], [role=tabpanel]')]"
    ".filter((one) => !(one.textContent.trim() || one.getAttribute('aria-label') ||"
    "one.closest('label')?.textContent.trim())).length"
)
"""Number of elements of a page that act or show something, and have no name for those who do not see them."""


def until(page: Page | Frame, expression: str) -> Any:
    """The value of an expression once it is true; the page's policy forbids what playwright would wait with."""
    end = time.monotonic() + PATIENCE_S
    while not (found := page.evaluate(expression)) and time.monotonic() < end:
        time.sleep(0.02)
    assert found, expression
    return found


def searched(page: Page | Frame) -> None:
    """Wait for the answer of a search: where the machine has much to do, a worker gives it."""
    until(page, "!(tracelensGraph.matching ?? tracelensGraph.collectives.grid.matching).isBusy")


def show(page: Page, view: str) -> None:
    """Go to a view by its tab."""
    page.click(f"#tab-{view}")
    assert page.is_visible(f"#view-{view}")
    assert page.get_attribute(f"#tab-{view}", "aria-selected") == "true"


COLORS = """(() => {
  const canvas = document.querySelector("canvas");
  const copy = new OffscreenCanvas(canvas.width, canvas.height).getContext("2d", { willReadFrequently: true });
  copy.drawImage(canvas, 0, 0);
  return new Set(new Uint32Array(copy.getImageData(0, 0, canvas.width, canvas.height).data.buffer)).size;
})()"""
"""Number of colours on a canvas: few until it is drawn."""
