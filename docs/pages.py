"""What the scripts of this folder share: where the pages are, and writing them or checking that they are current."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

DOCS = Path(__file__).resolve().parent
CHECKOUT = DOCS.parent
PAGES = [CHECKOUT / "README.md", *sorted(DOCS.glob("*.md"))]


def publish(texts: Mapping[Path, str]) -> int:
    """Write each text to its file; with `--check` among the arguments only say which files differ.

    Returns:
        The exit status: 1 if files differ and were not to be written.
    """
    stale = [path for path, text in texts.items() if not path.exists() or path.read_text() != text]
    check = "--check" in sys.argv[1:]
    for path in stale:
        print(f"{path.relative_to(CHECKOUT)}: {'out of date' if check else 'written'}")
        if not check:
            path.write_text(texts[path])
    return 1 if stale and check else 0
