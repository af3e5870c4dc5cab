"""Write docs/database-schema.md: labels, properties, edges, constraints and indexes, from the schema.

python docs/make_database_schema.py            write the page
python docs/make_database_schema.py --check    change nothing; end with 1 if it is out of date
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from textwrap import indent

from pages import DOCS, publish
from repeats import Repeats

from tracelens_graph.db.statements import schema
from tracelens_graph.schema import (
    CONTEXT_EDGES,
    CONTEXT_KINDS,
    DIFF_EDGES,
    DIFF_KINDS,
    KIND_MEANING,
    RANK_EDGES,
    RANK_KINDS,
    EdgeType,
    Kind,
)
from tracelens_graph.schema.comparisons import DIFF_EDGE_PROPERTIES, DIFF_PROPERTIES
from tracelens_graph.schema.database import (
    CONTEXT_PROPERTIES,
    EDGE_PROPERTIES,
    EVENT_PROPERTIES,
    KEYS,
    REPEATED_EDGES,
    event_labels,
)
from tracelens_graph.schema.facts import SOURCES, SPENT_ON
from tracelens_graph.schema.jobs import RANK_EDGE_PROPERTIES, RANK_PROPERTIES
from tracelens_graph.schema.stored import Stored

_OF = re.compile(r"(of (?:an?|such an|the) [^:,]+): ")
_SAME = "of such an event", "of the event at which an iteration begins"

HEAD = """# The graph in the database

Nodes and edges that [`db push`](database.md) makes of a trace. Every node has `name`. A property of a time has its unit
in its name. A value that was not recorded has no property.

![Labels and types of edges](pictures/schema.svg)

## Events

An event has the label `Event` and that of its kind; GPU work also has `GpuEvent`. It is identified by `trace`, the id
of its trace, and `uid`. In each kind, the first 1 % by GPU time are `Hot`, the next 9 % `Warm`.
"""

CONTEXT = """## Context and knowledge

A `--label` becomes a property of the `Trace` node: `--label batch=64` is the number `label_batch`, and
`--label commit=3f2a9c` the text `label_commit`. `MATCH (t:Trace {label_batch: 64})` finds those traces.

The thread of an event n is `(:Thread {trace: n.trace, number: n.thread})`, and the innermost annotation or step over it
is `(:Event {trace: n.trace, uid: n.annotation})`.

Context belongs to one trace (`trace`) or one run (`run`). Knowledge (`Signature`, `Program`, `KernelName`,
`Category`, `SubtreeClass`, `ModulePlace`, `CollectiveKind`, `Finding`) is keyed by its content, and all traces of a
database share it.

Context includes what analyses of the trace found:

* **Modules.** `IN_MODULE` leads from a GPU event to the module call whose work it is. `PART_OF` leads from there to its
  place in the module tree, a `ModulePath`, and on to the top. Backward work belongs to the module that called the
  forward op, work that `Optimizer.step` launches to that range. Work of no module is `PART_OF` a place that says so. So
  each GPU event leads to exactly one place, and times add up. Ops with GPU work also have `IN_MODULE`.
* **Layers.** `NEXT_LAYER` leads from layer to layer. An `OddLayer` describes a layer that differs from the others.
* **Memory.** An allocation (`MemoryEvent`) is `ALLOCATED_IN` a call, and `IN_MODULE` like GPU work of that call; its
  release `RELEASES` it.
* **Idle time.** A `Gap` lies between the GPU events that are `BEFORE` and `AFTER` it, and is `CAUSED_BY` what the host
  did.
"""

FACTS = """## Facts

Facts are sums over the events of a trace: one or several cells of the answer to a question about it. `db push --facts`
writes only facts, and `db forget-events` keeps them.
"""

DIFFS = """## Comparisons

`db push-diff` stores a comparison of two traces, a and b in this order. `MATCHES` leads from events of a to those of b.
Every compared GPU event is in exactly one `Divergence`, by `IN_A` or `IN_B`, so the changes of all places add up to the
change of the GPU time.
"""

RANKS = """## Ranks of a run

`db push --run` stores this of ranks that are pushed together:

* A `Meeting` is a collective that at least two ranks took part in. A `Collective` is what ranks
  record of it: ranks that count or name differently have several for one meeting, or one for two meetings.
* `MEMBER_OF` edges of a `Meeting` come from the first kernel of each rank's part, so sums count each part once. Their
  times are on one clock.
* A `CriticalPath` is what bounds a step; another one is the path through everything. Its `PathSegment` nodes lie end to
  end, and their durations add up to its length. `ON_PATH` leads to a segment from the GPU work or host call that
  accounts for its time.
"""

EDGES = """## Edges

The [reference](reference.md#edges-between-event-nodes) lists edges between events. `DURING` is there only after
`push --all-edges`, because `annotation` of the event says the same.
"""

INDEXES = """## Constraints and indexes

The first push makes them; `SHOW CONSTRAINTS` and `SHOW INDEXES` list them. Keys are unique. The indexes find

* all events of a kind in a trace: `MATCH (n:Op {trace: $trace})`,
* those of a name: `MATCH (n:Op {trace: $trace, short_name: 'aten::bmm'})` (a whole name may be longer than an index can
  hold),
* what is below a node n of any kind: `k.trace = n.trace AND k.pre > n.pre AND k.pre <= n.last`. Written like this, one
  index finds both bounds.

`$trace` is the id of the trace. `db query STATEMENT -p trace=run/name`, and `db.query(statement, trace="run/name")` in
Python, find it by name. Other clients need the id itself: `MATCH (t:Trace {path: 'run/name'}) RETURN t.id`.

Indexes of several traces at once:
"""


def schema_page() -> str:
    """The page."""
    kinds = ((f"`{':'.join(event_labels(kind))}`", KIND_MEANING[kind]) for kind in Kind)
    repeats = Repeats()
    parts = [HEAD, _items(kinds), _properties(repeats, "Events", EVENT_PROPERTIES), CONTEXT]
    for label, meaning in CONTEXT_KINDS.items():
        key = KEYS[label]
        unique = f"`{key.name}`" + (f" within its {key.scope}" if key.scope else "")
        parts += [f"### `{label}`\n", f"{meaning[0].upper()}{meaning[1:]}. Key: {unique}.\n"]
        parts.append(_properties(repeats, label, CONTEXT_PROPERTIES[label]))
    parts += [EDGES, _items(_edge_rows(CONTEXT_EDGES))]
    for name, found in EDGE_PROPERTIES.items():
        parts += [f"Properties of `{name}`:\n", _properties(repeats, "Edges", found)]
    parts += [FACTS, _items(_fact_rows())]
    parts.append(DIFFS)
    parts += _section(repeats, "comparisons", DIFF_KINDS, DIFF_PROPERTIES, DIFF_EDGES, DIFF_EDGE_PROPERTIES)
    parts += [RANKS, *_section(repeats, "ranks", RANK_KINDS, RANK_PROPERTIES, RANK_EDGES, RANK_EDGE_PROPERTIES)]
    parts.append(INDEXES)
    parts.append("* " + "\n* ".join(_indexes()) + "\n")
    return "\n".join(parts)


def _indexes() -> Iterator[str]:
    """Labels and properties of the indexes, those of the same properties together."""
    by_properties: dict[str, list[str]] = {}
    for statement in schema().values():
        if found := re.search(r"^CREATE INDEX .* FOR \(n:(\w+)\) ON \((.*)\)", statement):
            by_properties.setdefault(found[2].replace("n.", ""), []).append(f"`{found[1]}`")
    return (f"`{properties}` of {', '.join(labels)}" for properties, labels in by_properties.items())


def _fact_rows() -> Iterator[tuple[str, ...]]:
    """What the facts of a question are about, the question, and the facts."""
    found: dict[tuple[str, str], list[str]] = {}
    for source in SOURCES:
        of = f"`SPENT` to `{source.of}`" if source.of in SPENT_ON else f"`{source.of}`"
        given = "".join(f", {name}={value}" for name, value in source.given.items())
        facts = ", ".join(f"`{fact.name}`" for fact in source.facts)
        found.setdefault((f"`{source.question}`{given}", facts), []).append(of)
    return ((f"{', '.join(of)}, of {question}", facts) for (question, facts), of in found.items())


def _section(
    repeats: Repeats,
    of: str,
    kinds: Mapping[str, str],
    properties: Mapping[str, Iterable[Stored]],
    edges: Iterable[EdgeType],
    edge_properties: Mapping[str, Iterable[Stored]],
) -> Iterator[str]:
    """Labels with their properties, then edges with theirs."""
    for label, meaning in kinds.items():
        yield from (
            f"### `{label}`\n",
            f"{meaning[0].upper()}{meaning[1:]}.\n",
            _properties(repeats, label, properties[label]),
        )
    yield from (f"### Edges of {of}\n", _items(_edge_rows(edges)))
    for name, found in edge_properties.items():
        yield from (f"Properties of `{name}`:\n", _properties(repeats, f"Edges of {of}", found))


def _edge_rows(edges: Iterable[EdgeType]) -> Iterator[tuple[str, ...]]:
    return (
        (f"`{one.name}`, {_ends(one.source)} to {_ends(one.target)}", one.meaning + _only(one.name)) for one in edges
    )


def _only(edge_type: str) -> str:
    """Which edges a push leaves out, and what says the same."""
    same = REPEATED_EDGES.get(edge_type)
    return f"; only after `push --all-edges`, because `{same}` of the event says the same" if same else ""


def _ends(labels: str) -> str:
    return ", ".join("any event" if label == "event" else f"`{label}`" for label in labels.split("|"))


def _properties(repeats: Repeats, heading: str, properties: Iterable[Stored]) -> str:
    rows = [(f"`{one.name}`", _type(one), one.meaning) for one in properties]
    own, elsewhere = repeats.split(heading, rows)
    groups = groupby(own, lambda row: _OF.match(row[2])[1].replace(*_SAME) if _OF.match(row[2]) else "")
    shown = "".join(_group(of, [*rows]) for of, rows in groups)
    return "\n".join(filter(None, [shown, elsewhere]))


def _group(of: str, rows: Sequence[tuple[str, ...]]) -> str:
    """Properties in a row that are of the same events: these are named once."""
    if not of or len(rows) == 1:
        return _items((f"{name} ({kind})", meaning) for name, kind, meaning in rows)
    inner = _items((f"{name} ({kind})", _OF.sub("", meaning)) for name, kind, meaning in rows)
    return f"* {of[0].upper()}{of[1:]}:\n{indent(inner, '    ')}"


def _type(of: Stored) -> str:
    return ", ".join(filter(None, [of.type if of.type != "strs" else "list of str", of.unit]))


def _items(rows: Iterable[tuple[str, ...]]) -> str:
    return "".join(f"* {name}: {meaning}\n" for name, meaning in rows)


if __name__ == "__main__":
    sys.exit(publish({DOCS / "database-schema.md": schema_page()}))
