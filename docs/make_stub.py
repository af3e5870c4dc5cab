"""Writes `tracelens_graph/__init__.pyi`: the public names, for type checkers.

python docs/make_stub.py
"""

from __future__ import annotations

from pathlib import Path

import tracelens_graph

STUB = Path(tracelens_graph.__file__).with_suffix(".pyi")


def text() -> str:
    """The stub, made of the one list of public names."""
    homes = {**tracelens_graph._HOME, "__version__": "_version"}
    ordered = sorted((home, name) for name, home in homes.items())
    lines = [f"from tracelens_graph.{home} import {name} as {name}" for home, name in ordered]
    return "\n".join(
        ["# Made by docs/make_stub.py of the list in __init__.py.", "", *lines, "", "__all__: list[str]", ""]
    )


if __name__ == "__main__":
    STUB.write_text(text())
