"""The program of one operation."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from tracelens_graph.replay.program.measure import SHRINKS, measure, options, show, why
from tracelens_graph.replay.program.timing import write

OPERATION: dict[str, Any] = {}


def arguments() -> tuple[list[Any], dict[str, Any]]:
    """Make the arguments."""
    return [], {}


def main() -> int:
    """Measure the operation."""
    parser = options(__doc__)
    parser.add_argument("--cap-bytes", **SHRINKS)
    asked = parser.parse_args()
    try:
        result = measure(OPERATION, arguments, asked)
        show(result)
        if asked.json:
            write(asked.json, lambda part: Path(part).write_text(json.dumps([result], indent=1)))
    except KeyboardInterrupt:
        return 130
    except Exception as error:
        print(f"{OPERATION['op']}: {why(error, OPERATION['op'])}", file=sys.stderr)
        return 1
    return 0
