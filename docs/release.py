"""Check that a tag is that of this version, and write its part of the changelog.

python docs/release.py v0.1.0 dist/NOTES.md
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


if __name__ == "__main__":
    given, file = sys.argv[1:]
    known = (CHECKOUT / "tracelens_graph/_version.py").read_text().split('"')[1]
    Path(file).write_text(notes_of(given, known, (CHECKOUT / "CHANGELOG.md").read_text()))
