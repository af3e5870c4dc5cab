"""A whole report as one document, and tables alone, as JSON; what a report says of its trace, for all forms of it."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import numpy as np

from tracelens_graph._version import __version__
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.iterations import left_out_of
from tracelens_graph.graph.window import Window, window_of
from tracelens_graph.tables.table import Table
from tracelens_graph.tables.terminal import LONGEST_CELL
from tracelens_graph.utils.texts import file_name

if TYPE_CHECKING:
    from tracelens_graph.analyses.diagnosis.finding import Finding

SCHEMA_VERSION = 1
"""Grows when a key of the JSON document vanishes or changes its meaning; new keys may come at any time."""
_MADE_BY = {"schema_version": SCHEMA_VERSION, "tool": {"name": "tracelens_graph", "version": __version__}}
"""What every document begins with, which its files are known by."""

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_FINDING = ("id", "topic", "severity", "text", "evidence", "advice", "suggestions", "ask_next")


@dataclass(frozen=True)
class Facts:
    """What a report says of its trace beside the tables.

    Attributes:
        source: name of the file, without its folder.
        rank, world_size: place in a distributed job, where the file says.
        devices: names of the devices whose work is in the trace, and those that the file describes.
        events: entries of the file; nodes: those that are nodes of the graph.
        gpu_events: kernels, copies and fills in the window; unlinked_gpu_events: those without a launch in the trace.
        left_out: why -> entries of the file that are not nodes.
        damage: what was repaired in the file or lost; empty for a sound file.
        window: what the report was restricted to; empty for the whole trace.
        options: options of the report.
        linked: what it was linked or joined with, and what in it is inferred, a line each; empty for nothing.
    """

    source: str
    rank: int | None
    world_size: int | None
    devices: list[str]
    events: int
    nodes: int
    gpu_events: int
    unlinked_gpu_events: int
    left_out: Mapping[str, int]
    damage: str
    window: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)
    linked: str = ""


def facts(g: Core | Window, options: Mapping[str, Any] | None = None) -> Facts:
    """What there is to say of a graph or a window of it."""
    w = window_of(g)
    info = w.core.info
    return Facts(
        source=file_name(info.source),
        rank=info.rank,
        world_size=info.world_size,
        devices=_devices(w),
        events=info.events,
        nodes=len(w.core.columns),
        gpu_events=len(w.gpu_rows),
        unlinked_gpu_events=len(w.gpu_rows) - len(w.linked_gpu_rows),
        left_out=info.left_out,
        damage=info.damage,
        window=w.title,
        options=options or {},
        linked=_linked(w.core),
    )


def _linked(core: Core) -> str:
    """What else of the run the trace was put together with, a line each."""
    lines = [core.link.summary] if core.link is not None else []
    if core.info.replays:
        from tracelens_graph.analyses.launches.replays import joined_line

        lines.append(joined_line(core))
    if core.info.inferred:
        lines.append(core.info.inferred)
    if (left_out := left_out_of(core)) and left_out.count:
        lines.append(f"{left_out.count:,} iterations were left out between those in it; their time is not counted")
    return "\n".join(lines)


def report_json(
    findings: Sequence[Finding], tables: Mapping[str, Table], about: Facts, others: Sequence[Table] = (), note: str = ""
) -> str:
    """The report as one JSON object; docs/report-json.md describes it.

    Args:
        findings: the verdict.
        tables: the tables of the report.
        about: what there is to say of the trace.
        others: tables that stand beside the verdict, as lists of rows.
        note: what figures are of, where another form of the report is of another part; empty elsewhere.
    """
    trace = asdict(about)
    window, options = trace.pop("window"), trace.pop("options")
    if not about.linked:
        del trace["linked"]
    verdict = [{key: getattr(finding, key) for key in _FINDING} for finding in findings]
    head = {"verdict": verdict, "next": list(dict.fromkeys(one.ask_next for one in findings if one.ask_next))}
    head |= {table.name: table.records() for table in others}
    of = {"trace": trace, "window": window or None, **({"note": note} if note else {}), "options": options}
    return document_json({**head, **of}, tables)


def document_json(about: Mapping[str, Any], tables: Mapping[str, Table]) -> str:
    """Facts and tables as one JSON object, which says what made it.

    Strict JSON: NaN and infinity are null. Every row of a table has a line of its own.

    Args:
        about: the facts, what sums up the answer first.
        tables: the tables by name.
    """
    return laid_out({**_MADE_BY, **sound(dict(about)), "tables": objects(tables)}, 4) + "\n"


BRIEF = 20_000
"""Characters of JSON on standard output unless more is asked for; all of them are ASCII."""


def brief(text: str, way: str, most: int = BRIEF) -> str:
    """A document of at most so many characters: what sums it up, and the first rows of its lists and tables.

    Each has at most half of the room that those before it leave; what is left then goes to the first of them. Tables
    lose their definitions; those whose first row does not fit are left out.

    Args:
        text: the document as functions here write it.
        way: the option that gives all of it, for the key `cut_short`.
        most: characters.
    """
    if len(text) <= most:
        return text
    whole: dict[str, Any] = json.loads(text)
    cut = f"the first rows, as far as {most // 1000} kB hold them; {way} gives all"
    head = {**{key: whole.pop(key) for key in _MADE_BY}, "cut_short": cut}
    if "rows" in whole:
        return laid_out({**head, **_first_rows(whole, most - 300)}, 2) + "\n"
    tables = whole.pop("tables", {})
    parts = [(whole, key, {"rows": one}, 2) for key, one in whole.items() if isinstance(one, list)]
    kept: dict[str, Any] = {}
    parts += [(kept, name, table, 0) for name, table in tables.items()]
    left = most - 300 - len(laid_out({key: one for key, one in whole.items() if not isinstance(one, list)}, 4))
    taken = dict.fromkeys(range(len(parts)), 0)
    for share in (2, 1):
        for at, (among, name, table, depth) in enumerate(parts):
            found = _first_rows(table, taken[at] + left // share, depth)
            if not found["rows"] and table["rows"] and not depth:
                continue
            among[name] = found["rows"] if depth else found
            size = len(laid_out({name: among[name]}, 4 if depth else 3, "" if depth else 2 * " "))
            left, taken[at] = left + taken[at] - size, size
    in_order = {name: kept[name] for name in tables if name in kept}
    return laid_out({**head, **whole, **({"tables": in_order} if tables else {})}, 4) + "\n"


def _first_rows(table: Mapping[str, Any], room: int, depth: int = 0) -> dict[str, Any]:
    """A table with the rows, laid out down to some depth, that fit into so many characters, and the number of all."""
    about = {key: value for key, value in table.items() if key not in ("definitions", "rows")}
    room -= len(laid_out(about, 2, 4 * " ")) + 40
    sizes = accumulate(len(laid_out(row, depth, 8 * " ")) + 12 for row in table["rows"])
    kept = sum(size <= room for size in sizes)
    return {**about, "rows_in_all": table.get("rows_in_all", len(table["rows"])), "rows": table["rows"][:kept]}


def objects(tables: Mapping[str, Table]) -> dict[str, dict[str, Any]]:
    """Tables as they stand in a JSON document, with what their columns hold."""
    return {name: {"definitions": _definitions(table), **table_object(table)} for name, table in tables.items()}


def _devices(w: Window) -> list[str]:
    listed = w.core.info.metadata.get("deviceProperties")
    described = [d for d in listed if isinstance(d, dict)] if isinstance(listed, list) else []
    used = np.unique(w.core.columns.device[w.gpu_rows]).tolist()
    names = [str(d["name"]) for d in described if d.get("name") and d.get("id") in used]
    from tracelens_graph.perf.devices import by_properties

    alike = by_properties(listed)
    taken = [f"{alike[0].name} (by its compute units and memory)"] if len(alike) == 1 else []
    return names or list(dict.fromkeys(str(d["name"]) for d in described if d.get("name"))) or taken


def _definitions(table: Table) -> dict[str, str]:
    return {name: table.about[name].definition for name in table.columns if name in table.about}


def peaks(summary: Table) -> list[str]:
    """The peak of each GPU, of a trace without any that of the host: `cuda:0: 1.95 of 2.45 GiB reserved`.

    Args:
        summary: the table `memory_summary`.
    """
    rows = summary.records()
    of_gpus = [row for row in rows if row["device"] != "cpu"] or rows
    return [f"{row['device']}: {_peak(row['peak_bytes'], row['peak_reserved_bytes'])}" for row in of_gpus]


def _peak(allocated: int, reserved: int | None) -> str:
    power = min(max(max(allocated, reserved or 0).bit_length() - 1, 0) // 10, len(_UNITS) - 1)
    text = f"{allocated / 1024**power:,.{2 * (power > 0)}f}"
    if reserved is None:
        return f"{text} {_UNITS[power]}"
    return f"{text} of {reserved / 1024**power:,.{2 * (power > 0)}f} {_UNITS[power]} reserved"


def table_json(table: Table) -> str:
    """A table as one JSON object: `table`, `title`, `notes`, `units` and `rows`, one object each.

    NaN and infinity, which JSON does not have, become null. Every row has a line of its own.
    """
    return laid_out({**_MADE_BY, **table_object(table)}, 2) + "\n"


def document(parts: Mapping[str, Any]) -> str:
    """Facts and lists of rows as one JSON object, which says what made it."""
    return laid_out({**_MADE_BY, **parts}, 2) + "\n"


def table_object(table: Table) -> dict[str, Any]:
    """A table as it stands in a document, as Python objects."""
    return {
        "table": table.name,
        "title": sound(table.title),
        "notes": sound(table.notes),
        "units": {name: about.unit for name, about in table.about.items() if about.unit},
        **({"rows_in_all": len(table) + table.more} if table.more else {}),
        "rows": [sound(record) for record in table.records()],
    }


def json_text(value: Any) -> str:
    """A value on one line of strict JSON, with texts as long as they are."""
    return json.dumps(sound(value, sys.maxsize), allow_nan=False)


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


def sound(value: Any, longest: int = LONGEST_CELL) -> Any:
    """A value that every JSON parser reads: no NaN, no infinity, no half of a surrogate pair.

    Args:
        longest: characters of a text; of a longer one the beginning is kept, and how long it was.
    """
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, str):
        text = value if len(value) <= longest else f"{value[:longest]}... [cut: {len(value):,} characters]"
        return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, list | tuple):
        return [sound(part, longest) for part in value]
    if isinstance(value, dict):
        return {sound(key, longest): sound(part, longest) for key, part in value.items()}
    # Tables of an extension hold whatever its author put there.
    return value if isinstance(value, int | None) else str(value)
