"""Writes memory_viz_figures.json: what PyTorch's own viewer says of the snapshots of the tests.

Run with an environment that has PyTorch; `recorded` is external/memory-snapshot/mosaic_output.pickle:

    PYTHONPATH=tests python tests/loaders/memory_viz_figures.py MOSAIC_OUTPUT.pickle

`torch.cuda._memory_viz` gives bytes by stack (`memory`), by segment and stack (`segments`), the text of `segsum`, and
the entries of the history (`trace`), of which allocations and completed releases are counted here. `before` counts the
blocks in use that the history does not allocate.
"""

from __future__ import annotations

import json
import pickle
import sys
from pathlib import Path
from typing import Any

from memory_snapshots import PIECES, SNAPSHOT


def figures(snapshot: dict[str, Any]) -> dict[str, Any]:
    """What the viewer says of a snapshot."""
    from torch.cuda import _memory_viz

    def plain(text: str) -> str:
        return text

    try:
        sums = _memory_viz.segsum(snapshot)
    except AssertionError as error:
        sums = f"AssertionError: {error}"
    lines = _memory_viz.trace(snapshot).splitlines()
    return {
        "memory": _memory_viz.memory(snapshot, plain),
        "segments": _memory_viz.segments(snapshot, plain),
        "segsum": sums,
        "allocations": sum(" = " in line and "cudaMalloc" not in line for line in lines),
        "releases": sum(line.startswith("# free completed") for line in lines),
        "before": _before(snapshot),
    }


def _before(snapshot: dict[str, Any]) -> int:
    held = set()
    for segment in snapshot["segments"]:
        address = segment["address"]
        for block in segment["blocks"]:
            if block["state"] != "inactive":
                held.add(block.get("address", address))
            address += block["size"]
    for entries in snapshot["device_traces"]:
        for entry in entries:
            if entry["action"] == "alloc":
                held.discard(entry["addr"])
            elif entry["action"] == "free_completed" and not any(
                one["action"] == "alloc" and one["addr"] == entry["addr"] for one in entries
            ):
                held.add(entry["addr"])
    return len(held)


def _sound(snapshot: dict[str, Any]) -> dict[str, Any]:
    """The snapshot with the keys that the viewer wants of each."""
    for segment in snapshot["segments"]:
        segment |= {"stream": 0, "allocated_size": segment["total_size"]}
        for block in segment["blocks"]:
            block.setdefault("requested_size", block["size"])
    return snapshot


if __name__ == "__main__":
    with open(sys.argv[1], "rb") as file:
        recorded = pickle.load(file)  # a file that is known
    found = {"handmade": figures(_sound(SNAPSHOT)), "pieces": figures(_sound(PIECES)), "recorded": figures(recorded)}
    Path(__file__).with_suffix(".json").write_text(json.dumps(found, indent=1) + "\n")
