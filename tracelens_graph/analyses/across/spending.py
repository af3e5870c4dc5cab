"""What traces spent GPU time on, build by build: facts of many traces as their database holds them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

from tracelens_graph.analyses.report.facts import Values, kernels_of, spent_by
from tracelens_graph.graph.trace_set import TraceMember, TraceSet

_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]*[1-9]|\.0)?")
"""As numbers are written; `1.10` is none."""

_VERSION = re.compile(r"v?([0-9]+([.-][0-9]+)*)([+].*)?")

_T = TypeVar("_T")

Of = Literal["kernel", "signature", "module"]
LABELS = {"kernel": "KernelName", "signature": "Signature", "module": "ModulePlace"}


@dataclass
class Build:
    """Traces that count together.

    Attributes:
        name: value of the label, or name of the run.
        traces: in their order.
    """

    name: str
    traces: list[TraceMember] = field(default_factory=list)


@dataclass
class Spending:
    """What was spent on one kernel, signature or place of a module, build by build.

    Attributes:
        node: its properties in a database.
        builds: numbers of the builds in which there is any of it.
        ns, n: GPU time and number in each of these.
    """

    node: Values
    builds: list[int] = field(default_factory=list)
    ns: list[int] = field(default_factory=list)
    n: list[int] = field(default_factory=list)


def builds_of(traces: TraceSet, label: str | None, named: str | None) -> list[Build]:
    """The builds of some traces, in the order of a label (`in_order`); else runs, in that of the traces."""
    found: dict[str, Build] = {}
    for one in traces:
        name = one.value_of(label) if label is not None else one.run or one.core.trace_id
        if name is not None and named in (None, one.name):
            found.setdefault(name, Build(name)).traces.append(one)
    return in_order(found.values(), lambda build: build.name, traces, label)


def in_order(
    things: Iterable[_T], value_of: Callable[[_T], str | None], traces: TraceSet, label: str | None
) -> list[_T]:
    """Things that have values of a label, in the order of these.

    Where all traces with the label have numbers, that is their order, and likewise of versions such as `1.10` or dates.
    Else, as for hashes of commits, things stay in the order in which they are given.

    Args:
        things: what is ordered.
        value_of: the value of one.
        traces: all traces, whose values say what the label holds.
        label: its key; None for no label.
    """
    found = (one.value_of(label) for one in traces) if label is not None else ()
    values = {value for value in found if value is not None}
    numbers = {value: [float(value)] for value in values if _NUMBER.fullmatch(value)}
    versions = {
        value: [float(part) for part in re.split("[.-]", version[1])]
        for value in values
        if (version := _VERSION.fullmatch(value))
    }
    places = next((places for places in (numbers, versions) if places.keys() == values), {})
    return sorted(things, key=lambda one: places.get(value_of(one) or "", []))


def spending(builds: Sequence[Build], of: Of) -> dict[str, Spending]:
    """What the builds spent on kernels, signatures or places of modules, by key, as far as there is any."""
    found: dict[str, Spending] = {}
    for number, build in enumerate(builds):
        for key, node, values in (one for trace in build.traces for one in trace.window.once(spent_by, LABELS[of])):
            ns, n = values.get("ns", 0), values.get("n", 0)
            one = found.setdefault(key, Spending(node))
            if not one.builds or one.builds[-1] != number:
                one.builds.append(number)
                one.ns.append(0)
                one.n.append(0)
            one.ns[-1] += ns
            one.n[-1] += n
    for one in found.values():
        kept = [at for at, (ns, n) in enumerate(zip(one.ns, one.n, strict=True)) if ns > 0 and n > 0]
        one.builds, one.ns, one.n = ([column[at] for at in kept] for column in (one.builds, one.ns, one.n))
    return {key: one for key, one in found.items() if one.builds}


def beside(trace: TraceMember, of: Of, key: str) -> dict[str, list[str]]:
    """What a kernel runs for in a trace, or which kernels run for a signature or place: names, most time first.

    Args:
        trace: the trace.
        of: what the key is one of.
        key: of the node.
    """
    ran = trace.window.whole.once(kernels_of)
    near = {one for one, kernels in ran.items() if key in kernels} if of == "kernel" else set(ran.get(key, ()))
    found: dict[str, list[str]] = {"kernels": [], "signatures": [], "modules": []}
    wanted = {"kernels": "KernelName", "signatures": "Signature", "modules": "ModulePlace"}
    for column, label in wanted.items():
        if (of == "kernel") == (column == "kernels"):
            continue
        time = "own_ns" if column == "modules" else "ns"
        rows = [
            (-values[time], other, node) for other, node, values in trace.window.once(spent_by, label) if other in near
        ]
        found[column] = [called(node) for _, _, node in sorted(rows, key=lambda row: row[:2])]
    return found


def called(node: Values) -> str:
    """A signature with its sizes, a module by its path, a kernel by its name."""
    name: Any = node.get("path") or node["name"]
    return f"{name} {node['input_dims']}" if node.get("input_dims") else str(name)
