"""Several traces on the command line: files, folders of them, and patterns."""

from __future__ import annotations

from glob import glob, has_magic
from pathlib import Path

import typer

SUFFIXES = (".json", ".json.gz", ".json.zst", ".zip", ".tlg")
"""What the files of a folder that may be traces end with."""


def traces_named(arguments: list[str]) -> list[str]:
    """The files that a user named, each once, in the order named; those of a folder or pattern by name.

    Raises:
        typer.BadParameter: a folder holds none, or a pattern fits none.
    """
    found: dict[str, None] = {}
    for argument in arguments:
        if Path(argument).is_dir():
            inside = sorted(str(path) for path in Path(argument).iterdir() if path.name.endswith(SUFFIXES))
            if not inside:
                raise typer.BadParameter(f"{argument}: no file in it ends with {', '.join(SUFFIXES)}")
        elif has_magic(argument) and not Path(argument).exists():
            inside = sorted(glob(argument, recursive=True))
            if not inside:
                raise typer.BadParameter(f"no file fits {argument}")
        else:
            inside = [argument]
        found |= dict.fromkeys(inside)
    return list(found)
