"""What a window's time went to, one finding per cause, each with its evidence and what to try."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from tracelens_graph.analyses.diagnosis import thresholds as limits
from tracelens_graph.analyses.diagnosis.account import UNEXPLAINED, WHOLES, Account, account_of
from tracelens_graph.analyses.diagnosis.families import LABELS, MEMORY, Families, Roof, families_of, far_below_roof
from tracelens_graph.analyses.diagnosis.finding import (
    ABOVE_ROOF,
    Finding,
    Severity,
    brief,
    percent,
    percent_text,
    shown_ms,
)
from tracelens_graph.analyses.diagnosis.headline import leading_parts
from tracelens_graph.analyses.idle.blame import Blamed, Spent, blamed, line_below, spent_in
from tracelens_graph.analyses.idle.first_calls import FirstCalls, first_calls_in
from tracelens_graph.analyses.idle.host_states import copies_to_device, ends, pageable
from tracelens_graph.analyses.idle.idle import BETWEEN_STEPS, Cause
from tracelens_graph.analyses.shared.gpu_work import COMMUNICATION, MEMCPY, gpu_classes
from tracelens_graph.graph.arrays import distinct, is_kind
from tracelens_graph.graph.collectives import collectives_of, kernels_of_collectives
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.intervals import sum_by_group, union_length_by_group
from tracelens_graph.graph.traversals import ancestors, launches_of, rows_of_kind
from tracelens_graph.graph.user_code import line_names, shown_name, user_lines
from tracelens_graph.graph.window import Window
from tracelens_graph.schema import HOST_KINDS, PYTHON_KINDS, Kind
from tracelens_graph.tables.names import short_name
from tracelens_graph.utils.arrays import Codes, Ns, Rows
from tracelens_graph.utils.texts import cut_end, quoted

if TYPE_CHECKING:
    from tracelens_graph.perf.devices import Architecture

_WAITS: Mapping[str, tuple[tuple[Cause, ...], str, tuple[str, ...]]] = {
    "data_loader": ((Cause.data_loader,), "Data loader", ("data_loader",)),
    "synchronization": ((Cause.synchronization,), "Synchronising calls", ("remove_sync",)),
    "allocation": ((Cause.allocation,), "Memory allocation", ("allocator",)),
    "profiler": ((Cause.profiler,), "The profiler itself", ()),
    "compilation": ((Cause.compilation,), "Tracing and compilation", ("compile_before",)),
    "python": ((Cause.python, *BETWEEN_STEPS), "Python code", ("python_tuning", "cuda_graphs")),
    "launches": ((Cause.launches, Cause.queued), "Ops and launches", ("cuda_graphs", "fewer_launches")),
    "unrecorded": ((Cause.unknown_not_recorded,), "Host code that was not recorded", ()),
    "unexplained": (UNEXPLAINED, "Unexplained idle time", ()),
    "outside": ((Cause.outside,), "Work that is not in the window", ()),
}
"""Topic -> causes of idle time, how it is called, what to try."""


def causes_of(w: Window, leads: Sequence[str], arch: Architecture | None = None) -> list[Finding]:
    """The causes that take enough time to be reported, the most expensive first.

    Args:
        w: the window; causes are those of its account.
        leads: the parts that the headline names; only for these kernels are worth tuning.
        arch: the device; None for the one that the trace describes.
    """
    account = account_of(w)
    found = [*losses_of(w), *_kernels(account, families_of(account.window), "computation" in leads, arch)]
    found.sort(key=lambda finding: -float(finding.evidence["ms"]))
    return list(_without_repetition(found))


def losses_of(w: Window) -> list[Finding]:
    """Idle time by cause, exposed copies and exposed communication, as far as they are reported; computed once."""
    return w.once(_losses)


def _losses(w: Window) -> list[Finding]:
    account = account_of(w)
    families = families_of(account.window)
    return [
        *(finding for topic, how in _WAITS.items() for finding in _waits(account, families, topic, *how)),
        *_copies(account, families),
        *_communication(account, "communication" in leading_parts(account, families)),
    ]


def _without_repetition(findings: Iterable[Finding]) -> Iterator[Finding]:
    """The findings; what one suggests the next ones do not."""
    given: set[str] = set()
    for finding in findings:
        yield replace(finding, advice=tuple(name for name in finding.advice if name not in given))
        given.update(finding.advice)


def _waits(
    account: Account, families: Families, topic: str, causes: Sequence[Cause], name: str, advice: tuple[str, ...]
) -> Iterator[Finding]:
    """Idle time of some causes, with its longest example."""
    idle, core = account.idle, account.window.core
    c = core.columns
    time = int(account.causes[list(causes)].sum())
    if not _is_reported(account, time):
        return
    part = idle.parts[list(causes)].sum(axis=0)
    longest, gaps = int(part.argmax()), int((part > 0).sum())
    spent = spent_in(core, idle, np.arange(len(idle.row)), causes)
    found = blamed(core, spent)
    row = found.row
    wraps = row >= 0 and _is_wrapper(core, found.rows)
    uid = int(c.uid[row if row >= 0 else idle.row[longest]])
    in_gaps = _gaps_text(part)
    text = f"{name} cost {_cost_text(account, time)}, {in_gaps}"
    own, queued = idle.parts[causes[0]], idle.parts[Cause.queued]
    if Cause.queued in causes and own.any() and queued.any():  # many gaps of little time beside few of much
        between = f"{shown_ms(int(queued.sum()))} in {int((queued > 0).sum()):,} gaps between queued kernels"
        text = f"{name} cost {_cost_text(account, time)}: {shown_ms(int(own.sum()))} {_gaps_text(own)}, {between}"
    evidence: dict[str, Any] = {
        **_cost(account, time), "percent_of_idle": percent(time, int((idle.end - idle.start).sum())), "gaps": gaps,
        "longest_ms": int(part[longest]) / 1e6, "gap_start_ms": core.info.shown_ms(int(idle.start[longest])),
        "uid": uid, **_culprit(account, found),
        **(_below(account.window, spent, found) if wraps else {}),
    }  # fmt: skip
    first = first_calls_in(core, spent)
    if is_first := topic in ("python", "launches") and _is_reported(account, first.ns):
        evidence |= {
            "first_calls": len(first.rows), "first_calls_ms": first.ns / 1e6,
            "first_call_uid": int(c.uid[first.longest]),
        }  # fmt: skip
        text += f"; {shown_ms(first.ns)} of it in {_first_text(core, first)}"
    if row >= 0:
        text += f"; {_culprit_text(core, found, evidence, wraps)}"
    if topic == "launches":
        gpu = account.window.gpu_rows
        short = int((c.dur_ns[gpu] < limits.SHORT_KERNEL_NS).sum())
        evidence |= {"short_gpu_events": short, "gpu_events": len(gpu)} | _launches(core, gpu)
        if calls := evidence.get("launches"):
            text += f"; {calls:,} launches of {evidence['median_launch_us']:.3g} us each (median)"
        text += f"; {evidence['short_gpu_events']:,} of {evidence['gpu_events']:,} GPU events are shorter than 5 us"
    if topic == "unrecorded" and not account.has_stacks:
        text, advice = f"{text}; the trace has no Python stacks", ("record_stacks",)
    if topic == "outside":  # which the window leaves out, so that it is not part of it
        share = percent(time, account.span_ns)
        evidence |= {"percent": share, "percent_of": account.span}
        text = f"{name} took {shown_ms(time)}, {share:.1f} % of the {WHOLES[account.span]}, {in_gaps}"
    if topic in ("unexplained", "outside"):
        yield Finding(topic, f"{text} [uid {uid}]", evidence, ask_next=_BY_CAUSE)
        return
    if not _are_short_launches(account, families, part):
        advice = tuple(one for one in advice if one not in _FOR_SHORT_LAUNCHES)
    if is_first:
        advice = ("warm_up", *(advice if 2 * first.ns < time else ()))
    if topic == "data_loader" and evidence["percent"] < limits.MAJOR_PERCENT and 2 * int(part[longest]) > time:
        advice = ()  # one wait, such as for the first batch, is no reason for more workers
    has_callers = row >= 0 and (c.parent[row] >= 0 or "python" in evidence)
    ask = f"tracelens-graph tree TRACE --uid {uid} --up" if has_callers else _BY_CAUSE
    if topic in ("python", "launches") and account.has_stacks:
        ask = _BY_LINE
    yield _loss(topic, f"{text} [uid {uid}]", evidence, advice, ask)


def _first_text(core: Core, first: FirstCalls) -> str:
    """`the first calls of 9 ops and sizes, each 10 times the op's median or more, most in aten::linear`."""
    op, slow = (
        brief(core.names[core.columns.name[first.longest]]),
        f"{limits.FIRST_CALL_RATIO:.0f} times the op's median",
    )
    if len(first.rows) == 1:
        return f"the first call of {op} with its sizes, {slow} or more"
    return f"the first calls of {len(first.rows):,} ops and sizes, each {slow} or more, most in {op}"


def _gaps_text(part: Ns) -> str:
    """`in 29 gaps up to 299 us`, of what is due to a cause in each gap."""
    gaps = int((part > 0).sum())
    return f"in {gaps:,} gap{'s'[: gaps > 1]} up to {shown_ms(int(part.max(initial=0)))}"


_FOR_SHORT_LAUNCHES = ("cuda_graphs", "fewer_launches")
"""Advice that only helps where many short launches are what the GPU waits for."""


def _are_short_launches(account: Account, families: Families, part: np.ndarray) -> bool:
    """Whether idle time lies before many short kernels: not before one after a long function, nor in a replay.

    Args:
        part: of each gap what is due to a cause, ns.
    """
    c, gpu = account.window.core.columns, account.window.gpu_rows
    if families.replayed_percent >= limits.GRAPH_PERCENT or len(gpu) < limits.MANY_LAUNCHES:
        return False
    longest = int(np.sort(part)[-limits.FEW_GAPS :].sum())
    return float(np.median(c.dur_ns[gpu])) < limits.SHORT_LAUNCH_NS and 2 * longest < int(part.sum())


def _launches(core: Core, gpu: Rows) -> dict[str, Any]:
    """How many calls launch some GPU events, and how long they take; nothing where no launch is in the trace."""
    calls = np.unique(launches_of(core.columns, gpu))
    calls = calls[calls >= 0]
    if not len(calls):
        return {}
    return {"launches": len(calls), "median_launch_us": float(np.median(core.columns.dur_ns[calls])) / 1e3}


def _culprit(account: Account, found: Blamed) -> dict[str, Any]:
    """What the gaps are due to: the call, its time in them, how many such calls, the op and the user's line around."""
    core, row = account.window.core, found.row
    c = core.columns
    if row < 0:
        return {"because": "", "because_ms": 0.0}
    because = shown_name(core, row)
    evidence = {
        "because": because, "because_ms": found.ns / 1e6, "because_calls": len(found.rows), "due_ms": found.due_ns / 1e6
    }  # fmt: skip
    ops = [above for above in ancestors(c, row) if c.kind[above] == Kind.Op]
    if c.kind[row] == Kind.RuntimeCall and ops:
        evidence["op"] = core.names[c.name[ops[-1]]]
    line = line_names(account.window, np.array([row]))[0]
    return evidence | ({"python": line} if line not in ("", because) else {})


def _below(w: Window, spent: Spent, found: Blamed) -> dict[str, Any]:
    """Of a function that only calls others, the user's line below it that took most, with the libraries that it calls;
    nothing without one.

    A line with a small share of the function's time is not the place to look at.
    """
    row, ns = line_below(w, spent, found)
    is_much = row >= 0 and percent(ns, found.ns) >= limits.MAJOR_PERCENT
    return {"below": shown_name(w.core, row), "below_ms": ns / 1e6} if is_much else {}


def _is_wrapper(core: Core, rows: Rows) -> bool:
    """Whether functions of Python spend less than half of their time outside of what they call."""
    c = core.columns
    if c.kind[rows[0]] not in PYTHON_KINDS:
        return False
    called = is_kind(c.kind, HOST_KINDS) & np.isin(c.parent, rows)
    return 2 * int(c.dur_ns[called].sum()) > int(c.dur_ns[rows].sum())


def _culprit_text(core: Core, found: Blamed, evidence: Mapping[str, Any], wraps: bool) -> str:
    """`3.10 ms of it in aten::item, from train.py(48): step`."""
    name = brief(shown_name(core, found.row))
    if op := evidence.get("op"):
        name = f"{brief(op)} ({name})"
    line = evidence.get("python")
    # A call that costs the host its lead may end long before the gaps do.
    where = "below" if wraps else "in"
    time = (
        f"{shown_ms(found.due_ns)} of it due to" if found.due_ns > found.ns else f"{shown_ms(found.ns)} of it {where}"
    )
    text = f"{time} {name}{f', from {brief(line)}' if line else ''}"
    if below := evidence.get("below"):
        ms = shown_ms(round(evidence["below_ms"] * 1e6))
        text += f", {ms} of that in {brief(below)} and the libraries it calls"
    return text


_LONGEST_OP = 120
"""Columns of the name of an op behind that of its kernel."""
_BY_CAUSE = "tracelens-graph report TRACE --table idle_causes"
_BY_LINE = "tracelens-graph ask host_times TRACE -p by=line"


def _copies(account: Account, families: Families) -> Iterator[Finding]:
    """Copies that nothing runs beside; those to the device together with the idle time because of them."""
    w, core = account.window, account.window.core
    waited = int(account.causes[Cause.host_to_device_copy])
    what = gpu_classes(core, w.gpu_rows)
    copies, work = w.gpu_rows[what == MEMCPY], w.gpu_rows[what != MEMCPY]
    up = copies_to_device(core, copies)
    # What copies add to the time in which other work runs is what nothing else hides.
    alone_up = _busy_ns(core, np.union1d(work, copies[up])) - _busy_ns(core, work)
    alone_else = account.times["exposed_memcpy_time"] - alone_up
    for topic, name, rows, alone, idle in (
        ("host_to_device_copy", "Copies to the device", copies[up], alone_up, waited),
        ("other_copies", "Copies on and from the device", copies[~up], alone_else, 0),
    ):
        time = alone + idle
        if not _is_reported(account, time):
            continue
        if not len(rows):  # the copies lie outside of the window
            yield from _waits(
                account, families, topic, (Cause.host_to_device_copy,), "Waiting for copies to the device", ()
            )
            continue
        evidence = {**_cost(account, time), **_volume(core, rows), "exposed_ms": alone / 1e6, "idle_ms": idle / 1e6}
        because = " with the idle time because of them" if idle else ""
        cost = f"{_cost_text(account, time)}{because}"
        text = f"{name} cost {cost}, in {len(rows):,} cop{'y' if len(rows) == 1 else 'ies'}"
        if "bytes" in evidence:
            together = " together" if len(rows) > 1 else ""
            text += f", {evidence['bytes'] / 1e6:,.1f} MB{together} at {evidence['gb_per_s']:.1f} GB/s"
        advice: tuple[str, ...] = ()
        if share := evidence["pageable_percent"]:
            text += f", {'all' if share == 100 else f'{share:.0f} % of their time'} pageable"
            advice = ("pin_memory",)
        uid = evidence["uid"]
        yield _loss(topic, f"{text} [uid {uid}]", evidence, advice, f"tracelens-graph tree TRACE --uid {uid} --up")


def _volume(core: Core, rows: np.ndarray) -> dict[str, Any]:
    """Number, bytes and bandwidth of copies, and the longest of them."""
    c = core.columns
    dur, size = c.dur_ns[rows], c.bytes[rows]
    known = size >= 0
    moved, took = int(size[known].sum()), int(dur[known].sum())
    found: dict[str, Any] = {"copies": len(rows), "uid": int(c.uid[rows[dur.argmax()]])}
    if moved and took:
        found |= {"bytes": moved, "gb_per_s": moved / took}
    found["pageable_percent"] = percent(int(dur[pageable(core, rows)].sum()), int(dur.sum()))
    return found


def _communication(account: Account, leads: bool) -> Iterator[Finding]:
    exposed = account.times["exposed_comm_time"]
    if not _is_reported(account, exposed):
        return
    w, core = account.window, account.window.core
    c = core.columns
    rows = w.gpu_rows[gpu_classes(core, w.gpu_rows) == COMMUNICATION]
    group = c.name[rows]
    time = sum_by_group(group, c.dur_ns[rows], len(core.names))
    longest = int(rows[c.dur_ns[rows].argmax()])
    uid, name = int(c.uid[longest]), core.names[int(time.argmax())]
    rate, busses = _bus_bandwidth(w)
    evidence: dict[str, Any] = {
        **_cost(account, exposed), "communication_ms": account.times["total_comm_time"] / 1e6, "gpu_events": len(rows),
        "longest_ms": int(c.dur_ns[longest]) / 1e6, "uid": uid, "name": name,
    }  # fmt: skip
    text = (
        f"Exposed communication cost {_cost_text(account, exposed)}; all communication:"
        f" {shown_ms(account.times['total_comm_time'])} in {len(rows):,} kernels, most of it in {brief(name)}"
    )
    if unnamed := _unnamed(core, rows):
        evidence |= unnamed
        share, name = unnamed["unnamed_percent"], unnamed["unnamed"]
        text += f"; {share:.0f} % of it is recognised by how it runs, not by a known name, most of that {brief(name)}"
    advice = ["all_ranks", "overlap"]
    if busses:
        text += f", bus bandwidth of the {busses:,} large ones {rate:.3g} GB/s"
        evidence |= {"bus_gb_per_s": rate, "collectives_with_size": busses}
        if leads and rate < limits.SLOW_BUS_GB_PER_S:
            advice.insert(0, "network")
    ask = "tracelens-graph ask exposed_communication TRACE"
    yield _loss("exposed_communication", f"{text} [uid {uid}]", evidence, tuple(advice), ask)


def _unnamed(core: Core, rows: np.ndarray) -> dict[str, Any]:
    """Share of communication that no name shows, and the name of most of it; empty where there is none."""
    c = core.columns
    own = rows[~np.isin(rows, np.concatenate(kernels_of_collectives(core)))]
    ns = sum_by_group(c.name[own], c.dur_ns[own], len(core.names))
    if not ns.any():
        return {}
    return {"unnamed_percent": percent(int(ns.sum()), int(c.dur_ns[rows].sum())), "unnamed": core.names[ns.argmax()]}


def _bus_bandwidth(w: Window) -> tuple[float, int]:
    """Bus bandwidth of this rank's large collectives in GB/s, their bytes over their time, and their number.

    Time spent waiting for late ranks is part of it. Broadcasts, reductions to one rank and transfers between two do
    not count.
    """
    every = collectives_of(w.core).nodes
    if not every:
        return 0.0, 0
    from tracelens_graph.analyses.ranks.sizes import Messages, rule_of

    # A whole trace holds every collective, so that none needs to be looked up.
    inside = set(w.core.columns.uid[w.gpu_rows].tolist()) if w.title else None
    nodes = [
        one
        for one in every
        if (rule := rule_of(one.kind))
        and rule.all_ranks
        and not one.on_host
        and (inside is None or inside.issuperset(one.uids))
    ]
    found = Messages.of(nodes)
    ns = np.array([one.end_ns - one.start_ns for one in nodes], float)
    large = (found.size >= limits.SLOW_BUS_BYTES) & (found.factor > 0)
    moved, took = float((found.size * found.factor)[large].sum()), float(ns[large].sum())
    return (moved / took if took else 0.0), int(large.sum())


def _kernels(account: Account, families: Families, leads: bool, arch: Architecture | None) -> Iterator[Finding]:
    """Families of kernels, each with the op and kernel that take most of its time."""
    core, c = account.window.core, account.window.core.columns
    overlaps = families.gpu_ns > account.window_ns
    gpu_time = f"the {shown_ms(families.gpu_ns)} of GPU time on all streams" if overlaps else "the GPU time"
    is_worth = percent(account.parts()["computation"], account.window_ns) >= limits.TUNING_PERCENT
    for kind, time in families.times.items():
        if not _is_reported(account, time):
            continue
        rows = families.rows[kind]
        by_name = sum_by_group(c.name[rows], c.dur_ns[rows], len(core.names))
        kernel = int(by_name.argmax())
        longest, is_all, line = _usual_call(account.window, rows[c.name[rows] == kernel])
        owner = int(c.owner[longest])
        where = [f"of {quoted(cut_end(core.names[c.name[owner]], _LONGEST_OP))}"] if owner >= 0 else []
        if line:
            where.append(f"from {line.rpartition('/')[2] if _line_of(core, owner) else brief(line)}")
        op = f", {'' if is_all else 'mostly '}{', '.join(where)}" if where else ""
        of_gpu, most = percent(time, families.gpu_ns), percent(int(by_name[kernel]), time)
        uid = int(c.uid[longest])
        text = (
            f"{LABELS[kind][0].upper()}{LABELS[kind][1:]} took {shown_ms(time)}, {of_gpu:.1f} % of {gpu_time};"
            f" {most:.0f} % of it in {_distinct_name(core, rows, kernel)} [uid {uid}{op}]"
        )
        evidence: dict[str, Any] = {
            **_cost(account, time), "percent_of_gpu_time": of_gpu, "kind": kind, "kernels": len(rows),
            "name": core.names[kernel], "op": core.names[c.name[owner]] if owner >= 0 else "", "uid": uid,
            **({"line": line} if line else {}),
        }  # fmt: skip
        # What no op owns has no sizes, so no roofline: a replayed graph, or a trace without ops.
        owned = int(c.dur_ns[rows[c.owner[rows] >= 0]].sum())
        advice = _tuning(families, kind) if leads and is_worth else ()
        has_shapes = account.window.framework.compiles_programs or bool((c.argset >= 0).any())
        if owned < time / 2 or not has_shapes:
            advice = tuple(name for name in advice if not name.endswith("_tuning"))
        if leads and is_worth and not has_shapes and kind == next(iter(families.times)):
            text += "; no sizes of inputs are recorded, so its roof is not known"
        roof = families.roof(account.window, arch, kind) if leads else None
        if "gemm_tuning" in advice and not far_below_roof(roof):
            advice = ()
        if roof:
            text += f"; {_roof_text(roof, time)}"
            evidence |= {
                "percent_of_roof": roof.percent, "could_win_ms": roof.above_ns / 1e6, "known_ms": roof.known_ns / 1e6
            }  # fmt: skip
        ask = "ask opportunities TRACE" if is_worth else f"tree TRACE --uid {uid} --up"
        yield Finding("kernels", text, evidence, "fact", advice, f"tracelens-graph {ask}", f"kernels@{kind}")


def _usual_call(w: Window, rows: Rows) -> tuple[int, bool, str]:
    """Of a kernel's calls the longest by the op and line that most of its time is of; whether all is; the line."""
    core, c = w.core, w.core.columns
    mine = _leading(c.dur_ns, rows, np.where(c.owner[rows] >= 0, c.name[c.owner[rows]], -1))
    line = _line_of(core, int(c.owner[mine[0]]))
    if not line:
        frames = user_lines(w, mine)
        mine = _leading(c.dur_ns, mine, np.where(frames >= 0, c.name[frames], -1))
        line = line_names(w, mine[:1])[0]
    return int(mine[c.dur_ns[mine].argmax()]), len(mine) == len(rows), line


def _leading(dur_ns: Ns, rows: Rows, key: Codes) -> Rows:
    """The rows of the key that takes most of their time."""
    keys, of = distinct(key)
    return rows[of == int(sum_by_group(of, dur_ns[rows], len(keys)).argmax())]


def _roof_text(roof: Roof, time: int) -> str:
    """What kernels reach of their roof, and in how much of their time, if the roof is known for a part only."""
    base = f" in the {shown_ms(roof.known_ns)} of ops with known sizes" if 100 * roof.known_ns < 99 * time else ""
    won = f"{shown_ms(roof.above_ns)} could be won" if roof.percent <= 100 else f"more than they can: {ABOVE_ROOF}"
    return f"they reach {percent_text(roof.percent)} % of their roof{base}, {won}"


def _distinct_name(core: Core, rows: np.ndarray, kernel: int) -> str:
    """The short name of a kernel; where others of these rows are called so, too, that it is one of them."""
    short, name = short_name(core.names[kernel]), brief(core.names[kernel])
    others = (core.names[code] for code in distinct(core.columns.name[rows])[0].tolist() if code != kernel)
    is_one = any(short in name and short_name(name) == short for name in others)
    return f"one instantiation of {name}" if is_one else name


def _line_of(core: Core, op: int) -> str:
    """The line of source that an instruction of JAX comes from; "" for none, and of all other ops."""
    if op < 0 or core.programs is None or not core.programs.sources:
        return ""
    place = int(core.programs.source_place[np.searchsorted(rows_of_kind(core.columns, (Kind.Op,)), op)])
    return core.programs.sources[place] if place >= 0 else ""


def _tuning(families: Families, kind: str) -> tuple[str, ...]:
    """What to try for a family of kernels, if it leads the computation."""
    if kind != next(iter(families.times)):
        return ()
    if families.kind == "mixture":
        return ("fusion",) if kind == MEMORY else ()
    if kind == MEMORY:
        layouts = percent(families.categories.get("Memory Ops", 0), families.gpu_ns) >= limits.WORTH_REPORTING_PERCENT
        return ("fusion", "channels_last") if layouts and "Convolution" in families.categories else ("fusion",)
    return {"compute.gemm": ("gemm_tuning",)}.get(kind, ("kernel_tuning",))


def _busy_ns(core: Core, rows: np.ndarray) -> int:
    """Length of the union of GPU events, added up over devices."""
    c = core.columns
    devices, device = np.unique(c.device[rows], return_inverse=True)
    return int(union_length_by_group(device, c.start_ns[rows], ends(core, rows), len(devices)).sum())


def _is_reported(account: Account, ns: int) -> bool:
    return ns > 0 and percent(ns, account.window_ns) >= limits.WORTH_REPORTING_PERCENT


def _cost(account: Account, ns: int) -> dict[str, Any]:
    return {"ms": ns / 1e6, "percent": percent(ns, account.window_ns), "percent_of": account.whole}


def _cost_text(account: Account, ns: int) -> str:
    """`4.15 ms, 12.3 % of the steps`."""
    return f"{shown_ms(ns)}, {percent(ns, account.window_ns):.1f} % of the {account.whole_text}"


def _loss(topic: str, text: str, evidence: dict[str, Any], advice: tuple[str, ...], ask_next: str) -> Finding:
    severity: Severity = "minor" if evidence["percent"] < limits.MAJOR_PERCENT else "major"
    return Finding(topic, text, evidence, severity, advice, ask_next)
