"""What a trace holds, what is odd about it, and what was not recorded in it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import numpy as np

from tracelens_graph.analyses.kernels.shares import GRAPH_LAUNCH_CALLS
from tracelens_graph.analyses.ops.programs import compilations, programs, recorded_executions
from tracelens_graph.analyses.shared.gpu_work import COMMUNICATION, gpu_classes
from tracelens_graph.graph.arrays import distinct_pairs, is_kind, positions_by
from tracelens_graph.graph.autograd import autograd_of
from tracelens_graph.graph.collectives import collectives_of
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.info import OLD_MEMORY, UNREADABLE, version_text
from tracelens_graph.graph.intervals import union_length
from tracelens_graph.graph.iterations import is_of_server
from tracelens_graph.graph.traversals import rows_of_kind
from tracelens_graph.graph.window import whole_window
from tracelens_graph.schema import (
    FLAG_MEANING,
    HOST_KINDS,
    PYTHON_KINDS,
    REPAIR_MEANING,
    Kind,
    OwnerRule,
)
from tracelens_graph.tables.table import Column, Table

if TYPE_CHECKING:
    from tracelens_graph.execution.link import Link

_EPOCH_FROM = 10**18
"""Starts before this (September 2001) are counted from something else than 1970."""


TABLES = ("trace", "software", "devices", "nodes", "left_out", "launches", "faults", "recording", "programs")


def inventory(g: Core) -> dict[str, Table]:
    """Tables of what a trace holds, by name.

    Returns:
        `trace`: facts of the whole; `software`: versions; `devices`; `nodes`: number of each kind; `left_out`:
        entries of the file that are not nodes, and why; `launches`: how GPU events are linked and charged;
        `faults`: what was repaired, lost, or looked odd; `recording`: what was recorded, what was not, and what
        is poorer for it; of a profile of JAX `programs`: compiled programs that ran. Numbers of `nodes` and `left_out`
        and the lost entries of `faults` add up to the number of entries in the file's event list.
    """
    tables = (
        _trace(g), _software(g), _devices(g), _nodes(g), _left_out(g), _launches(g), _faults(g), _recording(g),
        *([programs(g)] if g.programs else ()),
    )  # fmt: skip
    return {table.name: table for table in tables}


def _table(name: str, title: str, rows: Iterable[Sequence[Any]], about: Mapping[str, Column]) -> Table:
    """A table of rows, each with a cell for every column of `about`."""
    found = list(rows)
    return Table(name, {column: [row[at] for row in found] for at, column in enumerate(about)}, about, title)


def _threads(g: Core) -> int:
    return len(np.unique(g.columns.thread[is_kind(g.columns.kind, HOST_KINDS)]))


def _link(g: Core) -> Link | None:
    if g.link is None:
        return None
    from tracelens_graph.execution.link import link_of

    return link_of(g)


def _operators(g: Core) -> list[tuple[str, Any, str]]:
    """Facts of an execution trace alone."""
    link = _link(g)
    assert link is not None
    execution, lineage = link.execution, link.lineage
    return [
        ("recorded by", f"PyTorch's execution trace observer, schema {execution.info.schema or 'not named'}", ""),
        ("begun", execution.info.time or None, "local time"),
        ("ops that differ by name", len(np.unique(g.columns.name[rows_of_kind(g.columns, (Kind.Op,))])), ""),
        ("schemas of ops", len(execution.schemas) - 1, ""),
        ("tensors", len(lineage.tensors), ""),
        ("storages of tensors", len(lineage.storages), ""),
        ("devices of tensors", ", ".join(sorted(filter(None, lineage.uses.devices))) or None, ""),
        ("collectives", len(g.collective_args), ""),
    ]


def _trace(g: Core) -> Table:
    c, distributed = g.columns, g.info.metadata.get("distributedInfo") or {}
    steps = [g.names[code] for code in c.name[rows_of_kind(c, (Kind.Step,))].tolist()]
    times: list[tuple[str, Any, str]] = [
        ("absolute start", _absolute(g.info.start_epoch_ns), "UTC"),
        *([("start on the timeline", g.info.lead_ns / 1e6, "ms")] if g.info.lead_ns else ()),
        ("time covered", int(c.end_ns.max()) / 1e6 if len(c) else 0.0, "ms"),
        ("GPU span", whole_window(g).span_ns() / 1e6, "ms"),
    ]
    facts: list[tuple[str, Any, str]] = [
        ("source", g.info.source, ""),
        ("recorded with", g.framework.profiler or None, ""),
        (g.framework.entries, g.info.events, ""),
        ("nodes", len(c), ""),
        *(times if g.framework.has_times else _operators(g) if g.link else ()),
        ("steps", len(steps), ""),
        ("first step", steps[0] if steps else None, ""),
        ("last step", steps[-1] if steps else None, ""),
        *(_compiled(g) if g.framework.compiles_programs else ()),
        ("rank", g.info.rank, ""),
        ("world size", distributed.get("world_size"), ""),
        ("backend", distributed.get("backend"), ""),
        ("accelerator that is no GPU", g.info.accelerator or None, ""),
        ("threads", _threads(g), ""),
        ("streams", _streams(g), ""),
    ]
    return _table("trace", "Trace", facts, {
        "what": Column("a fact about the trace"),
        "value": Column("its value; empty where the file does not say"),
        "unit": Column("unit of the value"),
    })  # fmt: skip


def _compiled(g: Core) -> list[tuple[str, Any, str]]:
    """Facts of programs that JAX compiled during the recording."""
    found = compilations(whole_window(g))
    return [
        ("programs compiled", found.count or None, ""),
        ("tracing and compiling", found.ns / 1e6 if found.ns else None, "ms"),
    ]


def _streams(g: Core) -> int:
    rows, c = g.device_order, g.columns
    return len(distinct_pairs(c.device[rows], c.stream[rows])[0])


def _absolute(epoch_ns: int) -> str | None:
    """A time since 1970 as ISO text with all its nanoseconds; None if it cannot be one."""
    if epoch_ns < _EPOCH_FROM:
        return None
    seconds, ns = divmod(epoch_ns, 10**9)
    return f"{datetime.fromtimestamp(0, UTC) + timedelta(seconds=seconds):%Y-%m-%dT%H:%M:%S}.{ns:09d}"


def _software(g: Core) -> Table:
    metadata = g.info.metadata
    found = {key: metadata[key] for key in sorted(metadata) if key.endswith("_version")}
    if (nccl := (metadata.get("distributedInfo") or {}).get("nccl_version")) is not None:
        found.setdefault("nccl_version", nccl)
    rows = [(key.removesuffix("_version"), version_text(key, value)) for key, value in found.items()]
    about = {"software": Column("what the file names a version of"), "version": Column("the version, decoded")}
    return _table("software", "Software", rows, about)


def _devices(g: Core) -> Table:
    c, gpu, end_ns = g.columns, g.gpu_rows, g.columns.end_ns
    listed = {d["id"]: d for d in g.info.metadata.get("deviceProperties") or () if isinstance(d, dict) and "id" in d}
    names = {str(d.get("name", "")) for d in listed.values()}
    used = {device: gpu[at] for device, at in positions_by(c.device[gpu])}
    found: list[tuple[Any, ...]] = []
    for device in sorted({*listed, *used}, key=str):
        known = listed.get(device, {})
        rows = used.get(device, gpu[:0])
        memory = known.get("totalGlobalMem")
        found.append((
            device,
            # ROCm may number devices differently in events; the name is safe where all devices share it.
            str(known.get("name", "")) or (next(iter(names)) if len(names) == 1 else ""),
            memory / 2**30 if isinstance(memory, int | float) and memory < 2**63 else None,
            f"{known['computeMajor']}.{known.get('computeMinor', 0)}" if "computeMajor" in known else None,
            known.get("numSms"),
            len(rows),
            int(c.dur_ns[rows].sum()) / 1e6,
            union_length(c.start_ns[rows], end_ns[rows]) / 1e6,
        ))  # fmt: skip
    return _table("devices", "Devices", found, {
        "device": Column("number of the device"),
        "name": Column("its name"),
        "memory_gib": Column("its memory", "GiB", heading="memory GiB"),
        "compute": Column("compute capability (NVIDIA), gfx major and minor (AMD)"),
        "sms": Column("streaming multiprocessors or compute units", heading="SMs"),
        "gpu_events": Column("kernels, copies and fills on it", heading="GPU events"),
        "gpu_sum_ms": Column("sum of their durations", "ms", heading="sum ms"),
        "gpu_busy_ms": Column("length of their union", "ms", heading="busy ms"),
    })  # fmt: skip


def _nodes(g: Core) -> Table:
    count = np.bincount(g.columns.kind, minlength=len(Kind)).tolist()
    rows = [(kind.name, count[kind], g.framework.kind_meaning[kind]) for kind in Kind if count[kind]]
    about = {"kind": Column("kind of node"), "count": Column("number of nodes"), "meaning": Column("what it is")}
    return _table("nodes", "Nodes", rows, about)


def _left_out(g: Core) -> Table:
    kept = {why: count for why, count in g.info.left_out.items() if why not in UNREADABLE}
    reasons = sorted(kept.items(), key=lambda item: -item[1])
    about = {"why": Column("what the entries are"), "count": Column("number of entries")}
    return _table("left_out", "Entries that are not nodes", reasons, about)


def _launches(g: Core) -> Table:
    c, gpu = g.columns, g.gpu_rows
    total = int(c.dur_ns[gpu].sum())
    rules = [rule for rule in OwnerRule if rule is not OwnerRule.none and g.framework.has_times]
    rows = []
    for rule in rules:
        of_rule = gpu[c.owner_rule[gpu] == rule]
        if rule > OwnerRule.unlinked and not len(of_rule):
            continue  # rare
        ns = int(c.dur_ns[of_rule].sum())
        meaning = g.framework.owner_rule_meaning[rule]
        rows.append((rule.name, len(of_rule), ns / 1e6, 100 * ns / max(total, 1), meaning))
    return _table("launches", "Who launched the GPU's work", rows, {
        "rule": Column("how GPU events got the op they are charged to"),
        "gpu_events": Column("number of GPU events", heading="GPU events"),
        "gpu_sum_ms": Column("sum of their durations", "ms", heading="sum ms"),
        "percent": Column("share of the sum over all GPU events", "%"),
        "meaning": Column("what that says"),
    })  # fmt: skip


def _faults(g: Core) -> Table:
    info, flags = g.info, g.columns.flags
    found = [("repaired", REPAIR_MEANING.get(fault, fault), count) for fault, count in info.repairs.items()]
    at_least = ", at least" if info.lost_at_least else ""
    reasons = "; ".join(f"{why}: {info.left_out[why]:,}" for why in UNREADABLE if info.left_out.get(why))
    of_which = f" ({reasons})" if reasons else ""
    found.append(("lost", f"entries that no repair could save{at_least}{of_which}", info.lost_in_all))
    found.append(("lost", "bytes that no repair could save", info.lost_bytes))
    found.append(("lost", "the compressed file ends before its end", int(bool(info.cut_short))))
    if not info.has_times and (link := _link(g)):
        found.append(("lost", "tensors among arguments that cannot be read", link.lineage.uses.malformed))
    # What was repaired where the file was read, such as negative durations, is counted there.
    odd = {flag: meaning for flag, meaning in FLAG_MEANING.items() if flag.name not in info.repairs}
    found += [("flagged", meaning, int(np.count_nonzero(flags & flag))) for flag, meaning in odd.items()]
    if info.doubtful_from is not None:
        doubtful = f"nodes whose uid may be smaller than the position in the file: from {info.doubtful_from:,} on"
        if not info.lost_in_all:
            doubtful = f"nodes behind a place where entries may be lost: uids from {info.doubtful_from:,} on"
        found.append(("flagged", doubtful, int(np.count_nonzero(g.columns.uid >= info.doubtful_from))))
    unassigned = len(collectives_of(g).unassigned)
    found.append(("flagged", "communication kernels that belong to no known collective", unassigned))
    found.append(("flagged", "forward-backward arrows with an end on no op", autograd_of(g).lost_arrows))
    return _table("faults", "Repaired, lost, odd", [fault for fault in found if fault[2]], {
        "what": Column("repaired and complete, lost, or kept and flagged"),
        "fault": Column("what was wrong"),
        "count": Column("how often"),
    })  # fmt: skip


@dataclass(frozen=True)
class Option:
    """Something a trace may hold or not, depending on how it was recorded.

    Attributes:
        name: what is recorded.
        how: what to ask the profiler for; a function where that depends on the trace.
        applies: whether this trace could hold it.
        missing: how much of it this trace lacks, in words; "" if nothing.
        poorer: what is poorer without it.
        is_entries: whether it stands in entries of its own, which may be lost with the end of the file.
    """

    name: str
    how: str | Callable[[Core], str]
    applies: Callable[[Core], bool]
    missing: Callable[[Core], str]
    poorer: str
    is_entries: bool = True

    def asked(self, g: Core) -> str:
        """What to ask the profiler for."""
        return self.how if isinstance(self.how, str) else self.how(g)

    def recorded(self, g: Core, lack: str | None) -> bool | None:
        """Whether a trace with this lack was recorded with it; None if nobody can know."""
        if lack is None or (lack and g.info.ends_early and self.is_entries):
            return None
        return not lack


def _lacks(*kinds: Kind) -> Callable[[Core], str]:
    return lambda g: "" if np.isin(g.columns.kind, kinds).any() else "none"


def _memory_lacks(g: Core) -> str:
    old = g.info.left_out.get(OLD_MEMORY, 0)
    return f"{old:,} lack the address that a newer PyTorch records" if old else _lacks(Kind.MemoryEvent)(g)


def _has_ops(g: Core) -> bool:
    return len(rows_of_kind(g.columns, (Kind.Op,))) > 0


def _unlinked_share(g: Core) -> str:
    c, gpu = g.columns, g.gpu_rows
    lone = gpu[c.parent[gpu] < 0]
    share = 100 * int(c.dur_ns[lone].sum()) / max(int(c.dur_ns[gpu].sum()), 1)
    missing = f"missing for {len(lone):,} of {len(gpu):,} GPU events, {share:.1f} % of GPU time"
    return missing if len(lone) else ""


def _how_launches(g: Core) -> str:
    replays = any(name.startswith(GRAPH_LAUNCH_CALLS) for name in g.names)
    return f"start recording before the work is launched{'; capture traces for replayed graphs' if replays else ''}"


OPTIONS = (
    Option(
        "GPU work", "activities=[..., ProfilerActivity.CUDA]", lambda g: True,
        lambda g: "" if len(g.gpu_rows) else "none",
        "there is no GPU time to attribute, only host call trees",
    ),
    Option(
        "ops", "activities=[ProfilerActivity.CPU, ...]", lambda g: True, _lacks(Kind.Op),
        "GPU time can be shown by kernel only, not by op, module or shape",
    ),
    Option(
        "shapes", "record_shapes=True", _has_ops, lambda g: "" if (g.columns.argset >= 0).any() else "none",
        "calls of one op are not separated by size, and have no FLOPs or bytes", is_entries=False,
    ),
    Option(
        "Python stacks", "with_stack=True", _has_ops, _lacks(*PYTHON_KINDS),
        "call trees begin at ops and show no lines of source",
    ),
    Option(
        "module frames", "with_stack=True",
        lambda g: _has_ops(g) and not (_lacks(Kind.Module)(g) and not _lacks(*PYTHON_KINDS)(g)), _lacks(Kind.Module),
        "there is no time per nn.Module",
    ),
    Option(
        "steps", "prof.step() after every iteration", lambda g: not is_of_server(g), _lacks(Kind.Step),
        "there is no time per step, and warm-up cannot be separated from the rest",
    ),
    Option(
        "launches of GPU work", _how_launches,
        lambda g: len(g.gpu_rows) > 0 and _has_ops(g), _unlinked_share,
        "this GPU time is charged to no op and no module",
    ),
    Option(
        "collective arguments", "a PyTorch that writes them (2.2 or newer), with ops",
        lambda g: bool((gpu_classes(g, g.gpu_rows) == COMMUNICATION).any()),
        lambda g: "" if g.collective_args else "none",
        "there are no message sizes and no bandwidth, and ranks are matched by order alone", is_entries=False,
    ),
    Option(
        "memory events", "profile_memory=True", lambda g: True, _memory_lacks,
        "there is no memory use over time",
    ),
)  # fmt: skip
"""What `recording` asks of a trace."""


_OF_XLA = (
    replace(OPTIONS[0], how="a backend with a GPU"),
    Option(
        "GPU work of executions", "fewer steps, and jax.block_until_ready before the recording ends",
        lambda g: len(recorded_executions(whole_window(g)).row) > 0 and len(g.gpu_rows) > 0,
        lambda g: recorded_executions(whole_window(g)).text,
        "GPU times are those of the others, and time without GPU events need not be idle",
    ),
    Option(
        "shapes", "a profile that holds the programs (/host:metadata)", _has_ops,
        lambda g: "" if (g.columns.argset >= 0).any() else "none",
        "instructions have no shapes, FLOPs or bytes", is_entries=False,
    ),
    Option(
        "Python frames", "jax.profiler.ProfileOptions().python_tracer_level = 1", _has_ops,
        _lacks(Kind.PythonFunction), "call trees show no lines of source",
    ),
    Option(
        "named scopes", "jax.named_scope, which Flax opens for its modules", _has_ops, _lacks(Kind.Module),
        "there is no time per part of the model",
    ),
    Option(
        "steps", "jax.profiler.StepTraceAnnotation", lambda g: True, _lacks(Kind.Step),
        "there is no time per step, and warm-up cannot be separated from the rest",
    ),
)  # fmt: skip
"""The same of a profile of JAX."""


def _recorded_with(how: dict[str, str]) -> tuple[Option, ...]:
    """The options that another profiler has, too."""
    found = (replace(option, how=how[option.name]) for option in OPTIONS if option.name in how)
    # Launches may be missing in what has no ops, either: they are calls that such a profiler records by themselves.
    return tuple(
        replace(one, applies=lambda g: len(g.gpu_rows) > 0) if one.missing is _unlinked_share else one for one in found
    )


_KERNELS = Option(
    "kernels", "", lambda g: len(g.gpu_rows) > 0, _lacks(Kind.Kernel),
    "only copies and fills count as GPU work: the time of kernels that ran seems idle",
)  # fmt: skip

_OF_NSYS = (replace(_KERNELS, how="nsys profile --trace=cuda, and an export of all tables"), *_recorded_with({
    "GPU work": "nsys profile --trace=cuda,nvtx",
    "ops": "nsys profile --trace=cuda,nvtx, and torch.autograd.profiler.emit_nvtx() around the steps",
    "shapes": "emit_nvtx(record_shapes=True)",
    "module frames": "a range of NVTX around each module",
    "steps": "a range of NVTX named ProfilerStep#n around each step",
    "launches of GPU work": "start recording before the work is launched; --cuda-graph-trace=node for graphs",
}))  # fmt: skip
"""The same of a report of Nsight Systems."""

_OF_ROCPROF = (replace(_KERNELS, how="rocprofv3 --kernel-trace"), *_recorded_with({
    "GPU work": "rocprofv3 --kernel-trace --memory-copy-trace",
    "ops": "rocprofv3 --marker-trace, and a range of roctx around each op",
    "module frames": "a range of roctx around each module",
    "steps": "a range of roctx named ProfilerStep#n around each step",
    "launches of GPU work": "rocprofv3 --hip-trace",
}))  # fmt: skip
"""The same of what AMD's profilers write."""

_OF_SNAPSHOT = (
    Option(
        "frames", 'torch.cuda.memory._record_memory_history(stacks="python")', lambda g: True,
        _lacks(Kind.PythonFunction), "nothing shows where memory was allocated",
    ),
    Option(
        "releases", "torch.cuda.memory._record_memory_history() before the work begins", lambda g: True,
        lambda g: "" if (g.columns.bytes < 0).any() else "none",
        "there is no memory use over time, only what is held at the end",
    ),
)  # fmt: skip
"""The same of a snapshot of memory."""

_BY_RECORDING = {
    "profiler": OPTIONS, "xla": _OF_XLA, "nsys": _OF_NSYS, "rocprof": _OF_ROCPROF, "snapshot": _OF_SNAPSHOT,
    "generic": (),
}  # fmt: skip


def _options_of_execution(g: Core) -> tuple[Option, ...]:
    """The same of an execution trace alone."""
    return (
        Option(
            "times and kernels", f"torch.profiler in the same run, and link both: {g.info.link_command}",
            lambda g: True, lambda g: "none",
            "an execution trace says what was called, in which order, with which tensors, and not how long it took",
        ),
        Option(
            "schemas of ops", "a PyTorch that writes them", _has_ops,
            lambda g: "" if (link := _link(g)) is None or len(link.execution.schemas) > 1 else "none",
            "overloads of an op are not separated", is_entries=False,
        ),
        Option(
            "strides", "a PyTorch that writes schema 1.1.1 (2.5 or newer)", _has_ops,
            lambda g: "" if any(strides for _, _, strides, _ in g.argsets) else "none",
            "layouts of tensors are not known", is_entries=False,
        ),
    )  # fmt: skip


def _recording(g: Core) -> Table:
    recording = g.framework.recording
    options = _BY_RECORDING[recording] if recording in _BY_RECORDING else _options_of_execution(g)
    rows = []
    for option in options:
        lack = option.missing(g) if option.applies(g) else None
        rows.append((option.name, option.recorded(g, lack), lack, option.poorer, option.asked(g)))
    return _table("recording", "Recording", rows, {
        "what": Column("what a trace may hold"),
        "recorded": Column(
            "whether it is there, all of it; nothing where this trace could not hold it, or may have lost it with "
            "the end of the file"
        ),
        "missing": Column("how much is missing"),
        "poorer": Column("what is poorer without it"),
        "how": Column("what to ask the profiler for"),
    })  # fmt: skip
