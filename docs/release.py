"""Check that a tag is that of this version, and write its part of the changelog; say how to install from the index.

python docs/release.py v0.1.0 dist/NOTES.md
python docs/release.py --on-index            once, with the first release: all lines that install
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

CHECKOUT = Path(__file__).parents[1]


def notes_of(tag: str, version: str, changelog: str) -> str:
    """The section of a version in the changelog.

    Raises:
        SystemExit: the tag is not that of the version, or the changelog has no section of it.
    """
    if tag != f"v{version}":
        raise SystemExit(f"the tag {tag} is not v{version}, which tracelens_graph/_version.py has")
    found = re.search(rf"^## \[{re.escape(version)}\].*?\n(.*?)(?=^## \[|\Z)", changelog, re.MULTILINE | re.DOTALL)
    if found is None:
        raise SystemExit(f"CHANGELOG.md has no section [{version}]")
    return found[1].strip() + "\n"


def installing() -> list[Path]:
    """The files that say how to install."""
    pages = [path for path in (CHECKOUT / "docs").glob("*.md") if path.name != "releasing.md"]
    return [CHECKOUT / "README.md", CHECKOUT / "tracelens_graph/errors.py", *pages]


def on_index(text: str) -> str:
    """A page, or the module of messages, with the ways to install that a published package has."""
    text = text.replace(" in a clone of tracelens_graph", "").replace(" in a clone of the repository", "")
    text = text.replace(", in a clone of this repository", "")
    return re.sub(r"(pip install '?)\.(?=[\['\s])", r"\1tracelens_graph", text)


if __name__ == "__main__":
    if sys.argv[1:] == ["--on-index"]:
        for path in installing():
            path.write_text(on_index(path.read_text()))
        sys.exit()
    given, file = sys.argv[1:]
    known = (CHECKOUT / "tracelens_graph/_version.py").read_text().split('"')[1]
    Path(file).write_text(notes_of(given, known, (CHECKOUT / "CHANGELOG.md").read_text()))
