"""Makes docs/schema.json, the JSON schema of what commands write, from the columns that tables declare.

    python docs/make_json_schema.py            write it
    python docs/make_json_schema.py --check    change nothing; end with 1 if it is out of date

A document of a command is valid under `#/$defs/` and the name in `DOCUMENTS`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from importlib import import_module
from typing import Any

from pages import DOCS, publish

from tracelens_graph.analyses.diagnosis.finding import TOPICS
from tracelens_graph.registry import HOMES
from tracelens_graph.reports.document import SCHEMA_VERSION
from tracelens_graph.tables.column import Column, Role
from tracelens_graph.tables.schema import DECLARED

PAGE = DOCS / "schema.json"
DOCUMENTS = {
    "report": "report", "diff": "diff", "diff --by-name": "by_name", "diff --within": "table", "ranks": "ranks",
    "ranks --path": "ranks", "info": "info", "link": "link",
    "modules": "table", "tree": "table", "roofline": "table", "ask": "table",
    "explain": "table", "tensor": "table", "cypher": "table", "replay": "table", "db list": "table",
    "db query": "table", "db queries": "table", "--table NAME of any": "table",
}  # fmt: skip
"""Command -> the schema of what its -f json prints, or its -o FILE.json writes."""

_NUMBERS = {Role.count, Role.sum, Role.share, Role.mean, Role.min, Role.max, Role.spread, Role.time}
_TEXT, _NUMBER, _WHOLE = ({"type": [kind, "null"]} for kind in ("string", "number", "integer"))
_TEXTS = {"type": "array", "items": {"type": "string"}}
_SOME_TEXT = {"type": "string"}
_ROWS = {"type": "array", "items": {"type": "object"}}


def schema() -> dict[str, Any]:
    """The schema of all documents, and under `$defs/rows` that of the rows of each table."""
    for home in HOMES.values():
        import_module(f"tracelens_graph.{home.module}")
    rows = {name: {"type": "array", "items": _object(_columns(table))} for name, table in sorted(DECLARED.items())}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "What tracelens-graph writes as JSON",
        "$comment": f"made by docs/make_json_schema.py; schema_version {SCHEMA_VERSION}",
        "$defs": {**_documents(), "rows": rows},
    }


def _documents() -> dict[str, Any]:
    tables = {"type": "object", "additionalProperties": {"$ref": "#/$defs/part"}}
    side = _object({"name": {"type": "string"}, "source": {"type": "string"}}, needed=("name", "source"))
    about = {
        "table": {"type": "string"}, "title": {"type": "string"}, "notes": _TEXTS,
        "units": {"type": "object", "additionalProperties": {"type": "string"}},
        "definitions": {"type": "object", "additionalProperties": {"type": "string"}},
        "rows_in_all": {"type": "integer", "minimum": 0}, "rows": _ROWS,
    }  # fmt: skip
    needed = ("table", "title", "notes", "units", "rows")
    of_tables = [
        {
            "if": {"properties": {"table": {"const": name}}},
            "then": {"properties": {"rows": {"$ref": f"#/$defs/rows/{name}"}}},
        }
        for name in sorted(DECLARED)
    ]
    part = {**_object(about, needed=needed), "allOf": of_tables}
    finding = _object(
        {
            "id": {"type": "string"}, "topic": {"enum": sorted(TOPICS)},
            "severity": {"enum": ["fact", "minor", "major"]}, "text": {"type": "string"},
            "evidence": {"type": "object", "additionalProperties": {"type": ["number", "string", "null"]}},
            "advice": _TEXTS, "suggestions": _TEXTS, "ask_next": {"type": "string"},
        },
        needed=("id", "topic", "severity", "text", "evidence", "advice", "suggestions", "ask_next"),
    )  # fmt: skip
    lists = ("software", "devices", "nodes", "left_out", "launches", "faults", "recording")
    headline = {"type": ["string", "array"], "items": {"type": "string"}}
    return {
        "finding": finding,
        "part": part,
        "table": _document({}, ref="part"),
        "report": _document(
            {
                "verdict": {"type": "array", "items": {"$ref": "#/$defs/finding"}}, "next": _TEXTS,
                "time_spent": _ROWS, "opportunities": {"$ref": "#/$defs/rows/opportunities"},
                "trace": _object({"source": {"type": "string"}, "events": {"type": "integer"}}, needed=("source",)),
                "window": _TEXT, "options": {"type": "object"}, "tables": tables,
            },
        ),
        "diff": _document({"headline": headline, "notes": _TEXTS, "a": side, "b": side, "tables": tables}),
        "by_name": _document({"headline": headline, "notes": _TEXTS, "runs": _TEXTS, "tables": tables}),
        "ranks": _document({"headline": headline, "ranks": _ROWS, "notes": _TEXTS, "tables": tables}),
        "link": _document({"method": {"type": "string"}, "ops": {"type": "array"}, "tables": tables}),
        "info": _document({"trace": {"type": "object"}, **dict.fromkeys(lists, _ROWS)}),
    }  # fmt: skip


def _document(keys: Mapping[str, Any], ref: str = "") -> dict[str, Any]:
    head = {
        "schema_version": {"const": SCHEMA_VERSION},
        "tool": _object({"name": {"const": "tracelens_graph"}, "version": _SOME_TEXT}, needed=("name", "version")),
        "cut_short": {"type": "string"},
    }
    found = _object({**head, **keys}, needed=("schema_version", "tool", *keys))
    return {**found, "$ref": f"#/$defs/{ref}"} if ref else found


def _object(properties: Mapping[str, Any], needed: tuple[str, ...] = ()) -> dict[str, Any]:
    return {"type": "object", "properties": dict(properties), **({"required": list(needed)} if needed else {})}


def _columns(table: Mapping[str, Column]) -> dict[str, Any]:
    """What is known of the cells by the roles of columns: numbers, and uids."""
    uids = {Role.uid: _WHOLE, Role.instance: _WHOLE}
    return {name: uids.get(about.role, _NUMBER) for name, about in table.items() if about.role in {*_NUMBERS, *uids}}


if __name__ == "__main__":
    sys.exit(publish({PAGE: json.dumps(schema(), indent=1) + "\n"}))
