"""Real pairs of a trace and an execution trace of one run, and a second, plain join of them to check ours against."""

from __future__ import annotations

import gzip
import json
from collections import Counter, defaultdict
from difflib import SequenceMatcher
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from corpus import CHECKOUT, CORPUS, needs_corpus

EXAMPLES = CHECKOUT / "examples/traces"


class Pair(NamedTuple):
    """Files of a pair."""

    trace: Path
    execution_trace: Path

    def documents(self) -> tuple[Any, Any]:
        """Both as JSON."""
        return document(self.trace), document(self.execution_trace)


@cache
def document(path: Path) -> Any:
    """A JSON file, read once for all tests of a process: who changes it copies it."""
    return json.loads(gzip.decompress(path.read_bytes()))


def linked(folder: Path, name: str) -> Pair:
    """A pair that `examples/record_pairs.py` recorded into a folder."""
    return Pair(folder / f"{name}.json.gz", folder / f"{name}.execution-trace.json.gz")


def _of_corpus() -> dict[str, Pair]:
    if not CORPUS:
        return {}
    linkage, dlrm = CORPUS / "linkage", CORPUS / "dlrm-8-ranks"
    return {
        "simple-add": Pair(linkage / "simple-add/kineto.json.gz", linkage / "simple-add/execution-trace.json.gz"),
        "resnet-ddp": Pair(
            CORPUS / "hta/resnet-ddp-nccl-args.json.gz", linkage / "resnet-ddp/execution-trace-1.0.3.json.gz"
        ),
    } | {
        f"dlrm-{rank}": Pair(dlrm / f"kineto/rank{rank}.json.gz", dlrm / f"execution-trace/rank{rank}.json.gz")
        for rank in range(8)
    }


OF_CORPUS = _of_corpus()

RECORDED = ("threads", "compiled", "lineage", "one-step")
"""Pairs that `examples/record_pairs.py` records."""


def parametrize_real() -> pytest.MarkDecorator:
    """Run a test once per real pair of the corpus, and of the tiny transformer; those recorded have a fixture."""
    cases = [pytest.param(pair, id=name, marks=needs_corpus) for name, pair in OF_CORPUS.items()]
    tiny = Pair(EXAMPLES / "tiny-transformer-cpu.json.gz", EXAMPLES / "tiny-transformer-cpu.execution-trace.json.gz")
    none = [] if cases else [pytest.param(None, id="none", marks=needs_corpus)]
    return pytest.mark.parametrize("pair", [pytest.param(tiny, id="tiny-transformer"), *cases, *none])


ENOUGH = 0.95


class Named(NamedTuple):
    key: int
    """Id of a node of the execution trace, or position of an event in the profiler's trace."""
    name: str
    thread: Any
    record: int
    external: int = 0


Pairs = list[tuple[Named, Named]]


def join(trace: Any, execution_trace: dict[str, Any]) -> tuple[str, set[tuple[int, int]]]:
    """How the two were joined ("none": not at all), and pairs of a node's id and an event's position."""
    nodes, events = nodes_of(execution_trace), events_of(trace)
    for method, join_by in WAYS:
        pairs = join_by(nodes, events)
        equal = sum(node.name == event.name for node, event in pairs)
        if equal and equal >= ENOUGH * min(len(nodes), len(events)):
            return method, {(node.key, event.key) for node, event in pairs}
    return "none", set()


def nodes_of(execution_trace: dict[str, Any]) -> list[Named]:
    """Operators and ranges in the order in which they began."""
    found = []
    for node in execution_trace["nodes"]:
        facts = node | {attribute["name"]: attribute["value"] for attribute in node.get("attrs", [])}
        if not node["name"].startswith("[pytorch|profiler|execution_"):
            found.append(Named(node["id"], node["name"], facts["tid"], facts["rf_id"]))
    return sorted(found)


def events_of(trace: Any) -> list[Named]:
    """Operators and ranges in the order in which they began, outer ones first."""
    found = []
    for position, event in enumerate(trace if isinstance(trace, list) else trace["traceEvents"]):
        if event.get("ph") == "X" and event.get("cat") in ("cpu_op", "user_annotation"):
            args = event.get("args", {})
            record, external = args.get("Record function id", 0), args.get("External id", 0)
            named = Named(position, event["name"], event["tid"], record, external)
            found.append((float(event["ts"]), -float(event["dur"]), position, named))
    return [named for *_, named in sorted(found, key=lambda one: one[:3])]


def by_record(nodes: list[Named], events: list[Named], offset: int = 0) -> Pairs:
    event_of = {event.record: event for event in events if event.record}
    found = ((node, event_of.get(node.record - offset)) for node in nodes if node.record)
    return [(node, event) for node, event in found if event]


def by_shifted_record(nodes: list[Named], events: list[Named]) -> Pairs:
    return by_record(nodes, events, voted_offset(nodes, events))


def by_external(nodes: list[Named], events: list[Named]) -> Pairs:
    event_of = {event.external: event for event in events if event.external}
    return [(node, event_of[node.record]) for node in nodes if node.record in event_of]


def voted_offset(nodes: list[Named], events: list[Named]) -> int:
    """How much larger the nodes' ids are than the events', by what rare names say."""
    records: dict[str, tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
    for side, found in enumerate((nodes, events)):
        for one in found:
            records[one.name][side].append(one.record)
    rare = (sides for sides in records.values() if 0 < max(map(len, sides)) <= 8)
    votes = Counter(node - event for sides in rare for node, event in product(*sides) if node and event)
    return votes.most_common(1)[0][0] if votes else 0


def by_order(nodes: list[Named], events: list[Named]) -> Pairs:
    """Threads are paired from the most alike on; within a pair the same names in the same order are the same."""
    aligned = []
    for of_node, of_event in product(by_thread(nodes), by_thread(events)):
        matcher = SequenceMatcher(None, [one.name for one in of_node], [one.name for one in of_event], autojunk=False)
        blocks = matcher.get_matching_blocks()
        pairs = [(of_node[a + i], of_event[b + i]) for a, b, size in blocks for i in range(size)]
        aligned.append((len(pairs), of_node[0].thread, of_event[0].thread, pairs))
    joined: Pairs = []
    taken: set[tuple[str, Any]] = set()
    for _, node_thread, event_thread, pairs in sorted(aligned, key=lambda one: -one[0]):
        threads = {("node", node_thread), ("event", event_thread)}
        if not taken & threads:
            taken |= threads
            joined += pairs
    return joined


def by_thread(found: list[Named]) -> list[list[Named]]:
    threads: dict[Any, list[Named]] = defaultdict(list)
    for one in found:
        threads[one.thread].append(one)
    return list(threads.values())


WAYS = (
    ("record id", by_record),
    ("offset", by_shifted_record),
    ("external id", by_external),
    ("order", by_order),
)
