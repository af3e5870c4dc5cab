"""The program of one operation."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from tracelens_graph.replay.program.measure import measure, options, show
from tracelens_graph.replay.program.timing import write

OPERATION: dict[str, Any] = {}


def arguments() -> tuple[list[Any], dict[str, Any]]:
    """Make the arguments."""
    return [], {}


def main() -> int:
    """Measure the operation."""
    asked = options(__doc__).parse_args()
    try:
        result = measure(OPERATION, arguments, asked)
        show(result)
        if asked.json:
            write(asked.json, lambda part: Path(part).write_text(json.dumps([result], indent=1)))
    except KeyboardInterrupt:
        return 130
    except Exception as error:
        print(f"{OPERATION['op']}: {(str(error) or type(error).__name__).splitlines()[0][:300]}", file=sys.stderr)
        return 1
    return 0
