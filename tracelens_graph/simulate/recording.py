"""Recordings that begin in mid-step: what began before is not in them."""

from __future__ import annotations

from collections.abc import Callable

from tracelens_graph.simulate.events import GpuEvent, HostEvent
from tracelens_graph.simulate.host import AutogradNode, Process

STEP = "ProfilerStep#"


def begin_late(process: Process) -> None:
    """Take out of a process what its recording does not hold where that begins `recording_begins_us` later.

    An event that began before is gone, also if it ended later; what it held hangs under the nearest event around it
    that is left. Work on the GPU that was launched before and began later is there, without a launch. A step of which
    the mark is gone is no step.

    Raises:
        ValueError: nothing is left.
    """
    options = process.options
    if not options.recording_begins_us or options.recording_begins_rank not in (None, process.rank):
        return
    process.start += round(1000 * options.recording_begins_us)
    gone = {event.step for event in process.hosts if event.start < process.start and event.name.startswith(STEP)}
    process.hosts = [event for event in process.hosts if _is_in(process, event)]
    process.gpus = [gpu for gpu in process.gpus if gpu.start >= process.start]
    if not process.hosts or not process.gpus:
        raise ValueError(f"recording_begins_us: rank {process.rank} has nothing left to record")
    process.syncs = [sync for sync in process.syncs if _is_in(process, sync.call)]
    process.memory = [instant for instant in process.memory if instant.time >= process.start]
    for event in process.hosts:
        event.parent = _kept(process, event.parent, lambda one: one.parent)
        event.annotation = _kept(process, event.annotation, lambda one: one.annotation)
        event.step = None if event.step in gone else event.step
    for gpu in process.gpus:
        _forget_launch(process, gpu)
    process.nodes = [node for node in process.nodes if _is_known(process, node)]
    for node in process.nodes:
        node.enclosing = [event for event in node.enclosing if _is_in(process, event)]
        node.twin = _kept(process, node.twin)
        node.evaluate = _kept(process, node.evaluate)


def _is_in(process: Process, event: HostEvent) -> bool:
    return event.start >= process.start


def _kept(
    process: Process, event: HostEvent | None, around: Callable[[HostEvent], HostEvent | None] = lambda _: None
) -> HostEvent | None:
    """An event, or the nearest around it, that is in the recording; None for none."""
    while event is not None and not _is_in(process, event):
        event = around(event)
    return event


def _forget_launch(process: Process, gpu: GpuEvent) -> None:
    if gpu.launch is not None and not _is_in(process, gpu.launch):
        gpu.launch = None


def _is_known(process: Process, node: AutogradNode) -> bool:
    """Whether both operators of an autograd node are in the recording."""
    return _is_in(process, node.forward) and (node.backward is None or _is_in(process, node.backward))
