"""Tables as JSON."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tracelens_graph.table import Table


def table_json(table: Table) -> str:
    """A table as one JSON object: `table`, `title`, `units`, `rows` (one object each) and `notes`.

    NaN and infinity, which JSON does not have, become null.
    """
    return json.dumps(table_object(table), indent=2) + "\n"


def table_object(table: Table) -> dict[str, Any]:
    """What `table_json` writes, as Python objects."""
    return {
        "table": table.name,
        "title": table.title,
        "units": {name: about.unit for name, about in table.about.items() if about.unit},
        "rows": [{name: _finite(value) for name, value in record.items()} for record in table.records()],
        "notes": list(table.notes),
    }


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, list | tuple):
        return [_finite(part) for part in value]
    if isinstance(value, dict):
        return {key: _finite(part) for key, part in value.items()}
    return value
