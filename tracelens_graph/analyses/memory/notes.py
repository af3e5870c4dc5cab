"""What tables of memory say beside their rows."""

from __future__ import annotations

import numpy as np

from tracelens_graph.analyses.memory.instants import NO_VALUE, Instants, instants_of
from tracelens_graph.graph.window import Window
from tracelens_graph.tables.schema import TableSchema
from tracelens_graph.tables.table import Table

_NOT_HERE = "no allocation or release is in this part of the trace"


def without_instants(schema: TableSchema, title: str, w: Window) -> Table:
    """The empty table of a window without allocations."""
    return schema.empty(title, [_why_none(w), *notes_on(w)])


def _why_none(w: Window) -> str:
    found = instants_of(w.core)
    if (unreadable := int(w.holds(found.unreadable).sum())) and not w.holds(found.rows).any():
        return f"{unreadable:,} allocations and releases are recorded, but no size can be read"
    if len(found) or len(found.unreadable):
        return _NOT_HERE
    return w.framework.no_allocations


def notes_on(w: Window) -> list[str]:
    """What the profiler did not record, and what went wrong in the program."""
    found, notes = instants_of(w.core), []
    if failed := int(w.holds(found.failed).sum()):
        notes.append(f"{failed:,} {'allocation' if failed == 1 else 'allocations'} failed: out of memory")
    here = int(w.holds(found.rows).sum())
    if here and (unreadable := int(w.holds(found.unreadable).sum())):
        notes.append(
            f"{unreadable:,} of {unreadable + here:,} allocations and releases have no readable size and do not count: "
            "what they allocated or released seems to be allocated earlier, or unreleased"
        )
    if spoilt := int((w.holds(found.rows) & found.is_spoilt).sum()):
        notes.append(f"{spoilt:,} of {here:,} allocations and releases have no readable total of the allocator")
    if summed := _devices(found, found.is_summed & ~found.has_totals):
        notes.append(
            f"totals of {summed} are not recorded: changes are summed up, so what was in use before and is not "
            "released is missing"
        )
    if partly := _devices(found, found.is_summed & found.has_totals):
        notes.append(f"not every total of {partly} is recorded: the others are sums of changes")
    lost = int((w.holds(found.rows) & (found.address == NO_VALUE)).sum())
    if lost:
        notes.append(f"{lost:,} of {len(found):,} changes have no address: nobody is told to hold what they allocate")
    return notes


def _devices(found: Instants, chosen: np.ndarray) -> str:
    return ", ".join(name for name, is_chosen in zip(found.devices, chosen.tolist(), strict=True) if is_chosen)
