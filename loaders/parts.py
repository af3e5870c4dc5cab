"""Files that stand for one rank of another file."""

from __future__ import annotations

import os
import re
from pathlib import Path

PARTS = "tracelens_graph-fused-"
"""What names of folders begin with that hold a file for each rank of another file, and go with their process."""
_RANK = re.compile(r".*-rank(\d+)\.sqlite")
"""Name of a link in such a folder, which stands for one rank of the report to which it leads."""


def is_part(path: str | os.PathLike[str]) -> bool:
    """Whether a file is of one rank of a fused one, so that it vanishes with the process that took it apart."""
    return Path(path).parent.name.startswith(PARTS)


def rank_of(path: str | os.PathLike[str]) -> int | None:
    """The rank that is read of a report of several, where a path is a link for it; None for all that a file holds."""
    found = _RANK.fullmatch(Path(path).name) if is_part(path) and os.path.islink(path) else None
    return int(found[1]) if found else None
