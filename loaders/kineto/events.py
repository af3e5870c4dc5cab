"""Joining what was collected into one table of events, and the metadata beside it."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np

from tracelens_graph.frameworks import PROFILERS
from tracelens_graph.graph.build import EventTable
from tracelens_graph.graph.info import LEFT_OUT_ITERATIONS, SEGMENTS
from tracelens_graph.loaders.kineto.collect import NODE_FAMILIES, Collected, dtype_of
from tracelens_graph.loaders.kineto.times import MOST_APART_NS
from tracelens_graph.schema import STORED, Kind, Property
from tracelens_graph.schema.categories import is_step_name
from tracelens_graph.utils.arrays import Ns, Numbering
from tracelens_graph.utils.hosts import hashed, is_hash, switch_in

_RAW_COLUMNS = tuple(p for p in STORED if p.name not in ("parent", "last", "depth", "owner", "owner_rule"))

_IDS = ("external_id", "correlation", "device", "stream", "sequence", "forward_thread")

KEPT_METADATA = (
    "schemaVersion", "deviceProperties", "distributedInfo", "trace_id", "displayTimeUnit",
    "baseTimeNanoseconds", "record_shapes", "with_stack", "with_modules", "with_flops", "profile_memory",
    "cupti_version", "cuda_runtime_version", "cuda_driver_version", "roctracer_version", "hip_runtime_version",
    "hip_driver_version", "nccl_version", "pytorch_version", "torch_version", "generator", "host_name", "host",
    "switch", "profiler", "nsys_version", LEFT_OUT_ITERATIONS, SEGMENTS,
)  # fmt: skip
"""Top-level keys that are kept. All others stay out: real traces carried tokens in them. Of the host's name a hash is
kept, so that ranks of one host know each other, and one of what hosts of one switch share in it; a piece cut out of a
trace has these as `host` and `switch`. Of the profiler's name only those that we write ourselves are kept."""

_TYPES = {"deviceProperties": list, "distributedInfo": dict, "generator": str, "host_name": str, "host": str,
          "switch": str, LEFT_OUT_ITERATIONS: dict, SEGMENTS: list}  # fmt: skip

_KEPT_DISTRIBUTED = (
    "backend", "rank", "world_size", "pg_count", "pg_config", "nccl_version", "ranks", "num_ranks", "group_size",
)  # fmt: skip


def merge(first: Collected, second: Collected) -> Collected:
    """Append to `first` what another process collected from the stretch that follows it."""
    codes = {
        "name": first.names.take_over(second.names),
        "thread": first.threads.take_over(second.threads),
        "argset": first.argsets.take_over(second.argsets),
    }
    odd = {-(2**62) - old: -(2**62) - new for old, new in enumerate(first.odd_ids.take_over(second.odd_ids))}
    for family, columns in second.columns.items():
        target = first.columns.setdefault(family, {})
        for name, column in columns.items():
            values = np.frombuffer(column, dtype_of(name))
            if name in codes:
                values = codes[name][values]
            elif name == "uid":
                values = values + first.events
            elif odd and name in _IDS:
                values = np.array([odd.get(value, value) for value in values.tolist()], np.int64)
            target.setdefault(name, bytearray()).extend(values.astype(dtype_of(name), copy=False).tobytes())
    for chunk in second.chunks:
        chunk.first += first.events
        first.chunks.append(chunk)
    first.autograd_flows.join(second.autograd_flows, codes["thread"])
    first.collectives += [(uid + first.events, args) for uid, args in second.collectives]
    first.metadata_events += second.metadata_events
    first.accelerators |= second.accelerators
    first.left_out.update(second.left_out)
    first.repairs.update(second.repairs)
    first.big_flows |= second.big_flows
    if first.doubtful_from is None and second.doubtful_from is not None:
        first.doubtful_from = first.events + second.doubtful_from
    first.note_first(second.first_times)
    for name in ("launch_flows", "lost_events", "lost_bytes", "events"):
        setattr(first, name, getattr(first, name) + getattr(second, name))
    return first


def first_ns(out: Collected, start_ns: Ns) -> int | None:
    """The earliest start of what viewers draw and is no node; None without any.

    It is believed if it lies no more than a day before the nodes: digits may be damaged.
    """
    earliest = int(start_ns.min()) - MOST_APART_NS if len(start_ns) else None
    return min((ns for ns in out.first_times if earliest is None or ns >= earliest), default=None)


def without_strays(table: EventTable) -> int:
    """Take events out of a table whose time is far from nearly all others, as damaged digits are; how many.

    Where more than one in a hundred is, they are of another clock, and they stay.
    """
    start = table.columns["start_ns"]
    if not len(start) or int(start.max()) - int(start.min()) <= MOST_APART_NS:
        return 0
    # The median, because strays move a mean, and are the extremes.
    far = np.abs(start - np.partition(start, len(start) // 2)[len(start) // 2]) > MOST_APART_NS
    strays = int(far.sum())
    if not strays or 100 * strays > len(start):
        return 0
    for name, column in table.columns.items():
        table.columns[name] = column[~far]
    return strays


def event_table(out: Collected) -> EventTable:
    """One column per property over all events that become nodes, with kinds known by name where names say it."""
    families = [out.columns[family.value] for family in NODE_FAMILIES if family.value in out.columns]
    sizes = [len(family["uid"]) // dtype_of("uid").itemsize for family in families]
    columns: dict[str, np.ndarray] = {}
    for prop in _RAW_COLUMNS:
        found = [family.pop(prop.name, None) for family in families]
        parts = [None if part is None else np.frombuffer(part, dtype_of(prop.name)) for part in found]
        columns[prop.name] = _filled(prop, parts, sizes)
    names = list(out.names)
    _refine_kinds(columns, names)
    for name in ("forward_thread", "external_id", "correlation"):  # sequence numbers count from zero
        columns[name][columns[name] == 0] = -1
    argsets = _canonical_argsets(columns, list(out.argsets))
    instructions = [one[4] for one in argsets] if any(one[4] for one in argsets) else []
    return EventTable(columns, names, list(out.threads), [one[:4] for one in argsets], instructions=instructions)


def _filled(prop: Property, parts: list[np.ndarray | None], sizes: list[int]) -> np.ndarray:
    """One column of the parts, absent values where a family lacks it; ids in 32 bits where all fit."""
    dtype = np.dtype(prop.dtype)
    if prop.name in _IDS and all(abs(part).max(initial=0) < 2**31 for part in parts if part is not None):
        dtype = np.dtype(np.int32)
    column = np.empty(sum(sizes), dtype)
    at = 0
    for part, size in zip(parts, sizes, strict=True):
        if part is None:
            column[at : at + size] = prop.absent or 0
        elif dtype == np.int32 and part.dtype != np.int32:
            column[at : at + size] = np.where(abs(part) < 2**31, part, -1)
        else:
            column[at : at + size] = part
        at += size
    return column


def _refine_kinds(columns: dict[str, np.ndarray], names: list[str]) -> None:
    """Module, Step: what the category does not say and the name does."""
    kind, name = columns["kind"], columns["name"]
    module = np.fromiter((n.startswith("nn.Module: ") for n in names), bool, len(names))
    step = np.fromiter((is_step_name(n) for n in names), bool, len(names))
    if module.any():
        kind[(kind == Kind.PythonFunction) & module[name]] = Kind.Module
    if step.any():
        # In 2021 and before all ranges were ops, steps among them. Where a step is recorded as both, the op is one more
        # range, and none that would be charged with what is launched in it.
        as_range, as_op = ((kind == one) & step[name] for one in (Kind.Annotation, Kind.Op))
        kind[as_op] = Kind.Annotation if as_range.any() else Kind.Step
        kind[as_range] = Kind.Step


def _canonical_argsets(columns: dict[str, np.ndarray], raw: list[bytes]) -> list[tuple[str, str, str, str, str]]:
    """Distinct argument sets without white space: (dims, types, strides, concrete inputs, instruction) as JSON text."""
    table = Numbering()
    codes = np.empty(len(raw) + 1, np.int32)
    codes[-1] = -1
    for code, key in enumerate(raw):
        parts = tuple(_compact(part) for part in key.split(b"\x1f"))
        codes[code] = table[parts] if any(parts) else -1
    columns["argset"] = codes[columns["argset"]]
    return list(table)


def _compact(text: bytes) -> str:
    if not text:
        return ""
    try:
        return msgspec.json.format(text, indent=-1).decode()
    except (msgspec.DecodeError, UnicodeDecodeError):
        return text.decode("utf-8", "replace")


def metadata_of(keys: dict[str, Any]) -> dict[str, Any]:
    """The top-level keys that may be kept, without host names and environment, and without what is damaged."""
    kept = {key: keys[key] for key in KEPT_METADATA if key in keys and isinstance(keys[key], _TYPES.get(key, object))}
    if kept.get("profiler") not in PROFILERS:
        kept.pop("profiler", None)
    if distributed := kept.get("distributedInfo"):
        kept["distributedInfo"] = {key: distributed[key] for key in _KEPT_DISTRIBUTED if key in distributed}
    if devices := kept.get("deviceProperties"):
        kept["deviceProperties"] = [
            device for device in devices if isinstance(device, dict) and isinstance(device.get("id", 0), int | str)
        ]
    host = kept.pop("host_name", None)
    if host:
        kept["host"] = hashed(host)
        kept["switch"] = hashed(switch) if (switch := switch_in(host)) else ""
    for name in ("host", "switch"):
        if not is_hash(kept.get(name, "")):
            kept.pop(name, None)
    return kept


def context_of(events: list[dict[str, Any]]) -> dict[str, Any]:
    """Names of processes and threads from the metadata events.

    Returns:
        `processes`: [pid, name, labels] and `threads`: [pid, tid, name] in file order.
    """
    processes: dict[Any, dict[str, Any]] = {}
    threads: dict[Any, Any] = {}
    for event in events:
        args = event.get("args")
        if not isinstance(args, dict):
            continue
        pid, tid, what = event.get("pid"), event.get("tid"), event.get("name")
        if what in ("process_name", "process_labels"):
            key = "name" if what == "process_name" else "labels"
            processes.setdefault(_plain(pid), {})[key] = str(args.get("name", args.get("labels", "")))
        elif what == "thread_name":
            threads[_plain(pid), _plain(tid)] = str(args.get("name", ""))
    return {
        "processes": [[pid, found.get("name", ""), found.get("labels", "")] for pid, found in processes.items()],
        "threads": [[pid, tid, name] for (pid, tid), name in threads.items()],
    }


def _plain(value: Any) -> Any:
    return value if isinstance(value, int | str) else str(value)
