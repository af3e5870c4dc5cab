"""Everything that the rules find in a window, ranked by the time that could be won."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from tracelens_graph.analyses.diagnosis.account import PARTS, account_of
from tracelens_graph.analyses.diagnosis.families import fitting
from tracelens_graph.analyses.diagnosis.finding import ADVICE, percent
from tracelens_graph.analyses.diagnosis.headline import capture, other_accelerator, too_little
from tracelens_graph.analyses.diagnosis.outside_steps import whole_note
from tracelens_graph.analyses.opportunities.opportunity import Opportunity
from tracelens_graph.analyses.opportunities.rules import RULES
from tracelens_graph.analyses.performance.judged_ops import device_notes, device_of
from tracelens_graph.analyses.performance.roofline_points import BELOW_ROOF
from tracelens_graph.analyses.shared.call_stacks import module_stacks
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.user_code import line_names
from tracelens_graph.graph.window import Window, class_of, window_of
from tracelens_graph.tables.column import Column
from tracelens_graph.tables.schema import TableSchema
from tracelens_graph.tables.table import Table

if TYPE_CHECKING:
    from tracelens_graph.perf.devices import Architecture

OPPORTUNITIES = TableSchema(
    "opportunities",
    "Where time could be won, and by what change, the most first.",
    {
        "id": Column.key("the rule and, after @, what it found; the same in every run of the program", "id"),
        "calls": Column.count("calls, kernels or gaps that it is made of"),
        "time_ms": Column.total("time that it takes now, devices added up", "ms", "time ms", compared="main"),
        "percent": Column("time_ms as share of the steps, without steps of the GPU span", "%"),
        "could_win_ms": Column.total(
            "the part of it that could be won under the assumption; absent where not known", "ms", "could win ms"
        ),
        "could_win_percent": Column(
            "could_win_ms as share of the same; opportunities may overlap", "%", heading="win %"
        ),
        "bound": Column.text("what bounds it at the roof: compute, memory or link; empty for what has no roof"),
        "percent_of_roof": replace(BELOW_ROOF["percent_of_roof"], heading="roof %"),
        "mean_percent_of_roof": replace(BELOW_ROOF["mean_percent_of_roof"], heading=None),
        "module": Column.text("the module that it is in"),
        "line": Column.text("the user's line that it comes from", "line", drop_priority=1),
        "uid": Column.uid("the node that stands for it", heading="uid", drop_priority=2),
        "assumption": Column.text("the condition under which that much could be won"),
        "advice": Column.text("what to try"),
        "what": Column.text("the facts in words, and what to try", "what", wraps=True, drop_priority=-1),
    },
    counts="call",
)


def opportunities(g: Core | Window, arch: Architecture | str | None = None) -> Table:
    """Where time could be won, by all rules of `rules.RULES`; the most first.

    Args:
        arch: the device, or its name; None for the one that the trace describes. Without a device rules that need its
            rates find nothing.

    Returns:
        One row per opportunity. They may overlap: time that two of them could win is won once.
    """
    w = window_of(g)
    device = device_named(arch)
    found = found_in(w, device)
    whole = account_of(w).window_ns if len(w.gpu_rows) else 0
    advice = ["; ".join(ADVICE[name] for name in fitting(w, one.advice, one.uid)) for one in found]
    return OPPORTUNITIES.of_records(
        [
            {
                "id": one.id, "what": f"{one.what}; try: {tried}" if tried else one.what,
                "module": one.module or module, "line": line, "calls": one.calls, "time_ms": one.ns / 1e6,
                "could_win_ms": None if one.won_ns is None else one.won_ns / 1e6, "percent": percent(one.ns, whole),
                "could_win_percent": None if one.won_ns is None else percent(one.won_ns, whole),
                "bound": one.evidence.get("bound", ""), "percent_of_roof": one.evidence.get("percent_of_roof"),
                "mean_percent_of_roof": one.evidence.get("mean_percent_of_roof"), "assumption": one.assumption,
                "advice": tried, "uid": one.uid,
            }
            for one, tried, (module, line) in zip(found, advice, places(w, [one.uid for one in found]), strict=True)
        ],
        w.titled("Opportunities"),
        _notes(w, device),
    )  # fmt: skip


def found_in(w: Window, arch: Architecture | None = None, parts: Collection[str] = PARTS) -> list[Opportunity]:
    """What the rules find, the greatest gain first; last what has no known gain.

    Args:
        arch: the device; None for the one that the trace describes.
        parts: the parts of the time that rules may shorten; others are not asked.
    """
    if _unjudged(w):
        return []
    if too_little(account_of(w)):
        parts = [part for part in parts if part != "host"]
    device, _ = device_of(w, arch)
    found = [one for rule in RULES.values() if rule.part in parts for one in rule.find(w, device)]
    return sorted(found, key=lambda one: (-(one.won_ns or 0), -one.ns, one.id))


def places(w: Window, uids: list[int]) -> Iterator[tuple[str, str]]:
    """The class of the innermost module around nodes, and the user's line that they come from; empty for none."""
    rows = np.array([w.core.row(uid) for uid in uids], np.int64)
    for modules, line in zip(module_stacks(w.core, rows), line_names(w, rows), strict=True):
        yield class_of(modules[-1].removeprefix("nn.Module: ")) if modules else "", line


def _unjudged(w: Window) -> str:
    """Why nothing could be won in a window, in words; empty where something might."""
    if not len(w.gpu_rows):
        return "no GPU events were recorded"
    stop = other_accelerator(w) or capture(w)
    return stop.text if stop else ""


def _notes(w: Window, arch: Architecture | None) -> Iterator[str]:
    """Why rules could not find anything."""
    if why := _unjudged(w):
        yield why
        return
    yield "rows may overlap: time that two of them could win is won once"
    if few := too_little(account_of(w)):
        yield f"{few.text}; waiting for the host is left out"
    yield from device_notes(w, arch, "rules that compare with a roof found nothing")
    if note := whole_note(w):
        yield note


def device_named(arch: Architecture | str | None) -> Architecture | None:
    """A device, or the one of a name; None for that of the trace.

    Raises:
        AnalysisError: no device has the name.
    """
    if not isinstance(arch, str):
        return arch
    from tracelens_graph.perf.devices import architecture

    return architecture(arch)
