"""The calls of a trace as its facts have them: a graph that is made of the signatures it spent GPU time on.

A signature is known with its arguments, how often it was called, its times and the names of its kernels. So the graph
has that many calls of each, a launch in each, and below that GPU work. It answers what goes by operations and
arguments, such as `replay`, also where no event is in the database.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tracelens_graph.db.catalog import checked, resolve, traces
from tracelens_graph.db.connection import OpenDatabase
from tracelens_graph.db.pull import damaged
from tracelens_graph.errors import DatabaseError
from tracelens_graph.graph.arguments import ARGSET_PARTS
from tracelens_graph.graph.build import EventTable, build_core
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.info import OF_SIGNATURES, TraceInfo
from tracelens_graph.schema import STORED, Kind

_SPENT = (
    "MATCH (:Trace {id: $trace})-[e:SPENT]->(s:Signature) "
    "RETURN properties(s) AS signature, properties(e) AS spent ORDER BY e.ns DESC, s.key"
)
_KERNELS = "MATCH (:Trace {id: $trace})-[e:SPENT]->(k:KernelName) RETURN k.key, k.name, coalesce(e.median_ns, 1)"
_STRUCTURE = ("parent", "last", "depth", "owner", "owner_rule", "uid")
_CALL_NS = 4
"""From one call to the next on the host, which nothing is known of."""
_REST = "(GPU work of no operation)"


def read_signatures(db: OpenDatabase, wanted: str) -> Core:
    """A graph of the signatures that a trace spent GPU time on.

    The most expensive come first. The median of the GPU time of its calls, their number and their sum are those of the
    signature. A call has each kernel that ran for any of them; they share its time as their medians in the trace do.
    GPU work of no signature is one kernel.

    Args:
        db: the database.
        wanted: id, `run/name` or name of the trace.

    Raises:
        DatabaseError: there is no such trace; it is not complete, or pushed by another version; it has no
            signature with GPU time; or somebody changed it.
    """
    trace = checked(resolve(traces(db), wanted))
    with db.session(reads=True) as session:
        found = [tuple(row) for row in session.run(_SPENT, trace=trace["id"])]
        kernels = {key: (name, median) for key, name, median in session.run(_KERNELS, trace=trace["id"])}
    if not found:
        raise DatabaseError(f"{trace['path']} has no signature with GPU time in the database")
    try:
        return _graph(trace, [one for one, _ in found], [one for _, one in found], kernels)
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise damaged(trace, "a property is not what was pushed") from error


def _graph(
    trace: Mapping[str, Any],
    signatures: Sequence[Mapping[str, Any]],
    spent: Sequence[Mapping[str, Any]],
    kernels: Mapping[str, tuple[str, int]],
) -> Core:
    parts = [tuple(str(one.get(part, "")) for part in (*ARGSET_PARTS, "instruction")) for one in signatures]
    ran = [[kernels[key] for key in one.get("kernels", ()) if key in kernels] or [("", 1)] for one in spent]
    names = sorted({_REST, "launch", *(one["name"] for one in signatures), *(name for of in ran for name, _ in of)})
    code = {name: place for place, name in enumerate(names)}
    argsets = sorted({one for one in parts if any(one)})
    of_argset = {one: place for place, one in enumerate(argsets)}

    calls = np.array([one["n"] for one in spent], np.int64)
    if calls.min() < 1 or calls.sum() > trace["gpu_events"]:  # before memory is taken for them
        raise ValueError("no call is without GPU work")
    of = np.repeat(np.arange(len(signatures)), calls)  # the signature of each call
    work = np.concatenate([durations(one) for one in spent])
    width = np.array([len(one) for one in ran], np.int64)[of]
    call_of = np.repeat(np.arange(len(of)), width)  # the call of each kernel
    many = list(zip(ran, calls.tolist(), strict=True))
    weight = np.concatenate([np.tile([max(median, 1) for _, median in one], n) for one, n in many])
    kernel = np.concatenate([np.tile([code[name] for name, _ in one], n) for one, n in many])
    last = np.cumsum(width) - 1
    of_call = np.add.reduceat(weight, last + 1 - width)[call_of]
    dur = np.floor(work[call_of] * (weight / of_call)).astype(np.int64)
    dur[last] += work - np.add.reduceat(dur, last + 1 - width)
    rest = max(int(trace.get("gpu_sum_ns", 0)) - int(work.sum()), 0)
    if rest:
        kernel, dur, call_of = np.append(kernel, code[_REST]), np.append(dur, rest), np.append(call_of, len(of))

    ops, launches, host = len(of), len(of) + bool(rest), _CALL_NS * np.arange(len(of) + bool(rest))
    name = np.array([code[one["name"]] for one in signatures])
    argset = np.array([of_argset.get(one, -1) for one in parts])
    known = {
        "kind": np.repeat([Kind.Op, Kind.RuntimeCall, Kind.Kernel], (ops, launches, len(dur))),
        "name": np.concatenate((name[of], np.full(launches, code["launch"]), kernel)),
        "thread": np.repeat([0, 0, 1], (ops, launches, len(dur))),
        "start_ns": np.concatenate((host[:ops], host + 1, np.cumsum(dur) - dur)),
        "dur_ns": np.concatenate((np.full(ops, 3), np.full(launches, 1), dur)),
        "correlation": np.concatenate((np.full(ops, -1), np.arange(launches) + 1, call_of + 1)),
        "argset": np.concatenate((argset[of], np.full(launches + len(dur), -1))),
    }
    columns = {
        prop.name: np.array(known.get(prop.name, np.full(ops + launches + len(dur), prop.absent or 0)), prop.dtype)
        for prop in STORED
        if prop.name not in _STRUCTURE
    }
    info = TraceInfo(**json.loads(trace["info"]) | {"source": trace["path"], "replays": [], "inferred": OF_SIGNATURES})
    return build_core(
        EventTable(
            columns, names, [(0, 0), (0, 1)], [(one[0], one[1], one[2], one[3]) for one in argsets], info=info,
            instructions=[one[4] for one in argsets] if any(one[4] for one in argsets) else [],
        )
    )  # fmt: skip


def durations(spent: Mapping[str, Any]) -> np.ndarray:
    """GPU time of each call of a signature: their sum and their median are as they were, but for rounding."""
    n, total = spent["n"], spent["ns"]
    middle = spent.get("median_ns", total // n)
    found, others = np.full(n, middle, np.int64), max((n - 1) // 2, 1)  # as many lie on one side of the median
    each, rest = divmod(total - n * middle, others)
    found[:others] += each
    found[0] += rest
    return np.maximum(found, 0)
