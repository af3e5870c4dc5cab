"""What traces spent GPU time on, build by build: facts of many traces as their database holds them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from tracelens_graph.analyses.report.facts import Values, kernels_of, spent_by
from tracelens_graph.graph.trace_set import TraceMember, TraceSet

NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?")

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
    """The builds of some traces, in order: numbers that are values of a label, then others by pushing; else runs."""
    found: dict[str, Build] = {}
    for one in traces:
        name = one.value_of(label) if label is not None else one.run or one.core.trace_id
        if name is not None and named in (None, one.name):
            found.setdefault(name, Build(name)).traces.append(one)
    builds = list(found.values())
    return builds if label is None else sorted(builds, key=lambda build: number_of(build.name))


def number_of(value: str) -> float:
    """What values of a label are ordered by: numbers first; others, such as hashes, stay in the order of pushing."""
    return float(value) if NUMBER.fullmatch(value) else float("inf")


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


def beside(traces: Iterable[TraceMember], last: TraceMember, of: Of, key: str) -> dict[str, list[str]]:
    """What a kernel runs for in a trace, or which kernels run for a signature or place: names, most time first.

    Args:
        traces: those that know what runs for what.
        last: the trace whose times count.
        of: what the key is one of.
        key: of the node.
    """
    pairs = {pair for trace in traces for pair in trace.window.whole.once(kernels_of)}
    found: dict[str, list[str]] = {"kernels": [], "signatures": [], "modules": []}
    wanted = {"kernels": "KernelName", "signatures": "Signature", "modules": "ModulePlace"}
    for column, label in wanted.items():
        if (of == "kernel") == (column == "kernels"):
            continue
        near = {source if of == "kernel" else target for source, target in pairs if key in (source, target)}
        time = "own_ns" if column == "modules" else "ns"
        rows = [
            (-values[time], other, node) for other, node, values in last.window.once(spent_by, label) if other in near
        ]
        found[column] = [called(node) for _, _, node in sorted(rows, key=lambda row: row[:2])]
    return found


def called(node: Values) -> str:
    """A signature with its sizes, a module by its path, a kernel by its name."""
    name: Any = node.get("path") or node["name"]
    return f"{name} {node['input_dims']}" if node.get("input_dims") else str(name)
