"""Tables as JSON."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tracelens_graph.tables.table import Table


def table_json(table: Table) -> str:
    """A table as one JSON object: `table`, `title`, `units`, `rows` (one object each) and `notes`.

    NaN and infinity, which JSON does not have, become null. Every row has a line of its own.
    """
    return laid_out(table_object(table), 2) + "\n"


def table_object(table: Table) -> dict[str, Any]:
    """What `table_json` writes, as Python objects."""
    return {
        "table": table.name,
        "title": sound(table.title),
        "units": {name: about.unit for name, about in table.about.items() if about.unit},
        "rows": [sound(record) for record in table.records()],
        "notes": sound(table.notes),
    }


def json_text(value: Any) -> str:
    """A value on one line of strict JSON."""
    return json.dumps(sound(value), allow_nan=False)


def laid_out(value: Any, depth: int, indent: str = "") -> str:
    """JSON text of a sound value with one line for each part, down to some depth, below it on one line."""
    if not depth or not value or not isinstance(value, dict | list):
        return json.dumps(value, allow_nan=False)
    inner = indent + "  "
    if isinstance(value, dict):
        parts = [f"{json.dumps(key)}: {laid_out(part, depth - 1, inner)}" for key, part in value.items()]
    else:
        parts = [laid_out(part, depth - 1, inner) for part in value]
    begin, end = "{}" if isinstance(value, dict) else "[]"
    return f"{begin}\n{inner}" + f",\n{inner}".join(parts) + f"\n{indent}{end}"


def sound(value: Any) -> Any:
    """A value that every JSON parser reads: no NaN, no infinity, no half of a surrogate pair."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, list | tuple):
        return [sound(part) for part in value]
    if isinstance(value, dict):
        return {sound(key): sound(part) for key, part in value.items()}
    return value
