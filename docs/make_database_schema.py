"""Write docs/database-schema.md: labels, properties, edges, constraints and indexes, from the schema.

python docs/make_database_schema.py            write the page
python docs/make_database_schema.py --check    change nothing; end with 1 if it is out of date
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Mapping

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

HEAD = """# The graph in the database

What [`db push`](database.md) makes of a trace. Every node has `name`; every time has its unit in the property's name.
What was not recorded is no property.

![Labels and types of edges](pictures/schema.svg)

## Events

An event has the label `Event` and that of its kind; GPU work is `GpuEvent` too. It is identified by `trace`, the id of
its trace, and `uid`. The first 1 % of a kind by GPU time are `Hot`, the next 9 % `Warm`.
"""

CONTEXT = """## Context and knowledge

What `--label` says of a trace is a property of its `Trace` node: `--label batch=64` is `label_batch`, the number 64,
and `--label commit=3f2a9c` is `label_commit`, a text. `MATCH (t:Trace {label_batch: 64})` finds those traces.

The thread of an event n is `(:Thread {trace: n.trace, number: n.thread})`, and the innermost annotation or step over it
is `(:Event {trace: n.trace, uid: n.annotation})`.

Context belongs to one trace (`trace`) or one run (`run`). Knowledge (`Signature`, `Program`, `KernelName`,
`Category`, `SubtreeClass`, `ModulePlace`, `CollectiveKind`, `Finding`) is keyed by its content alone, and shared by all
traces of a database.

What the analyses of a trace find out is context of it. From a GPU event `IN_MODULE` leads to the call of a module whose
work it is, and `PART_OF` from there to its place in the module tree, a `ModulePath`, and to the top. Backward work is
that of the module that called the forward op. What `Optimizer.step` launches is `IN_MODULE` of that range. Work of no
module is `PART_OF` a place that says so. So each GPU event leads to exactly one place, and everything adds up. Of ops,
those with GPU work have `IN_MODULE`. `NEXT_LAYER` leads from layer to layer, an `OddLayer` to one that is not as the
others. An allocation (`MemoryEvent`) is `ALLOCATED_IN` a call, and `IN_MODULE` where GPU work of that call would be;
its release `RELEASES` it. A `Gap` lies between the GPU events that are `BEFORE` and `AFTER` it, and is `CAUSED_BY` what
the host did.
"""

FACTS = """## Facts

What the events of a trace add up to. Each fact is a cell of the answer to a question about the trace, or several cells
that are added up. A push with `--facts` writes these, and no event; `db forget-events` leaves these.
"""

DIFFS = """## Comparisons

What `db push-diff` makes of two traces, a and b, in that order: there is one comparison of them. `MATCHES` leads from
events of a to those of b. Every GPU event that was compared is in exactly one `Divergence`, by `IN_A` or `IN_B`, so
that the changes of all places add up to the change of the GPU time.
"""

RANKS = """## Ranks of a run

What `db push --run` makes of the ranks of a run that are pushed together: a `Meeting` for each collective that at least
two of them took part in. A `Collective` is what one rank calls it: ranks that count or name differently have different
ones, or one for what is two. A `Meeting` is what they did together. Its `MEMBER_OF` edges come from the first kernel of
each rank's part, so that sums count each part once, and have its times on one clock. A `CriticalPath` is what bounds a
step, and one more the path through everything. Its `PathSegment` nodes lie end to end: their durations add up to its
length. `ON_PATH` leads to them from the GPU work or the call on the host that accounts for the time.
"""

EDGES = """## Edges

Those between events are in the [reference](reference.md#edges-between-event-nodes). `DURING` is there after
`push --all-edges` alone, as `annotation` of the event says the same.
"""

INDEXES = """## Constraints and indexes

Made by the first push; `SHOW CONSTRAINTS` and `SHOW INDEXES` list them. Keys are unique. All
events of a kind in a trace are `MATCH (n:Op {trace: $trace})`, those of a name
`MATCH (n:Op {trace: $trace, short_name: 'aten::bmm'})`. No index holds whole names, as a name may be longer than an
index can hold. What lies below a node n, of whatever kind, has `pre` above `n.pre` and up to `n.last`; both bounds are
found by one index if they are written as `k.trace = n.trace AND k.pre > n.pre AND k.pre <= n.last`.

`trace` is the id of the trace. `db query STATEMENT -p trace=run/name`, and `db.query(statement, trace="run/name")` in
Python, give it to `$trace` for the name; other clients need the id itself, which
`MATCH (t:Trace {path: 'run/name'}) RETURN t.id` gives.

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
    return f"; after `push --all-edges` alone, as `{same}` of the event says the same" if same else ""


def _ends(labels: str) -> str:
    return ", ".join("any event" if label == "event" else f"`{label}`" for label in labels.split("|"))


def _properties(repeats: Repeats, heading: str, properties: Iterable[Stored]) -> str:
    rows = [(f"`{one.name}`", _type(one), one.meaning) for one in properties]
    own, elsewhere = repeats.split(heading, rows)
    shown = _items((f"{name} ({kind})", meaning) for name, kind, meaning in own)
    return "\n".join(filter(None, [shown, elsewhere]))


def _type(of: Stored) -> str:
    return ", ".join(filter(None, [of.type if of.type != "strs" else "list of str", of.unit]))


def _items(rows: Iterable[tuple[str, ...]]) -> str:
    return "".join(f"* {name}: {meaning}\n" for name, meaning in rows)


if __name__ == "__main__":
    sys.exit(publish({DOCS / "database-schema.md": schema_page()}))
