"""TraceLens's program of many operations, by its name.

python -m tracelens_graph.compat.EventReplay.batched_replay event_replay_ir.json --json results.json

Where there is PyTorch and not this package, a file that `write` wrote does the same:

python -c "from tracelens_graph.compat.EventReplay.batched_replay import write; write('run.py')"
"""

from __future__ import annotations

import sys
from pathlib import Path

ABOUT = """Operations of a trace, called again one after another, from a list in JSON.

python FILE event_replay_ir.json --json results.json; it needs PyTorch and nothing else.
"""


def write(file: str) -> None:
    """Write the program as one file that needs PyTorch and nothing else."""
    from tracelens_graph.replay.program_text import program

    Path(file).write_text(program("full", ABOUT, []), encoding="utf-8")


if __name__ == "__main__":
    from tracelens_graph.replay.program.operations import main

    sys.exit(main())
