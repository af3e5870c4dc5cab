"""What kind of run a window shows, the first line of a diagnosis, or why a trace says too little about it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

import numpy as np

from tracelens_graph.analyses.diagnosis import thresholds as limits
from tracelens_graph.analyses.diagnosis.account import HOST, PARTS, QUEUED, Account
from tracelens_graph.analyses.diagnosis.families import ALL_OF_IT, LABELS, MATRIX, MEMORY, Families
from tracelens_graph.analyses.diagnosis.finding import Finding, brief, percent, shown_ms
from tracelens_graph.analyses.idle.host_states import Clock, ends
from tracelens_graph.analyses.idle.idle import Cause
from tracelens_graph.analyses.ops.programs import recorded_executions
from tracelens_graph.analyses.performance.judged_ops import device_of
from tracelens_graph.analyses.places.host_times import By, host_span, host_times, thread_name
from tracelens_graph.analyses.shared.gpu_work import calls_named
from tracelens_graph.analyses.shared.thinned import LAUNCH, is_thinned
from tracelens_graph.graph.intervals import length, merge
from tracelens_graph.graph.iterations import is_of_server
from tracelens_graph.graph.traversals import launches_of
from tracelens_graph.graph.user_code import Code, code_of
from tracelens_graph.graph.window import Window

if TYPE_CHECKING:
    from tracelens_graph.perf.devices import Architecture

_NAMED = 3
"""Ops that the headline of a trace without GPU events names."""

_CAPTURE = re.compile(r"^(?:cuda|hip|cu)(?:StreamBeginCapture|StreamEndCapture|GraphInstantiate)")


def no_gpu(w: Window) -> Finding:
    """The headline of a window without GPU events."""
    text = f"Host only: the {'window' if w.title else 'trace'} has no GPU events"
    if name := w.core.info.accelerator:
        text = f"The trace is of another accelerator ({name}), whose work is not read: the host's side is here"
    evidence: dict[str, int | float | str] = {
        "kind": "no_gpu", "percent": 0.0, "percent_of": "recording", "gpu_events": 0
    }  # fmt: skip
    took = _most_expensive(w, "op") if w.framework.calls_take_time else []
    if not w.framework.calls_take_time:
        text = "Memory only: the file records allocations and the stacks that made them, no work and no times"
    if took:
        span, whole = host_span(w)
        evidence |= {"host_ms": length(span) / 1e6, "host_ms_of": whole, "most_expensive": took[0][0],
                     "most_expensive_ms": took[0][1]}  # fmt: skip
        text += f". In {shown_ms(length(span))}, the {whole}, most was spent in {_listed(took, w)}"
        if lines := sorted(_most_expensive(w, "line"), key=lambda line: code_of(line[0]) != Code.user):
            text += f"; of the lines of Python, in {_listed(lines[:1])}"
    if w.framework.recording == "profiler" and not (w.core.info.accelerator or w.title):
        text += ". To have GPU events, record with ProfilerActivity.CUDA"
    ask_next = (
        "ask memory_peak TRACE" if not w.framework.calls_take_time
        else "ask programs TRACE" if w.core.programs
        else "ask host_times TRACE -p by=thread" if took
        else "tree TRACE"
    )  # fmt: skip
    return Finding("headline", text, evidence, ask_next=f"tracelens-graph {ask_next}")


def _most_expensive(w: Window, by: By) -> list[tuple[str, float, int, int]]:
    """The names with most host time of their own: ms, calls, and the uid of the longest; steps are not among them."""
    rows = (row for row in host_times(w, by).records() if row.get("kind") != "Step")
    columns = ("name", "self_ms", "calls", "uid")
    return [tuple(row[one] for one in columns) for row in islice(rows, _NAMED) if row["percent"] >= 1]


def _listed(found: list[tuple[str, float, int, int]], w: Window | None = None) -> str:
    """Names and times; given the window, of the first calls and threads, too."""
    texts = [f"{brief(name)} {shown_ms(round(1e6 * ms))}" for name, ms, *_ in found]
    if w is not None:
        c, (_, _, calls, uid) = w.core.columns, found[0]
        row = w.core.row(uid)
        alike = c.thread[w.holds(every := np.arange(len(c))) & (c.name[every] == c.name[row])]
        threads = len(np.unique(alike))
        where = (
            f"{threads} threads side by side" if threads > 1 else f"thread {thread_name(w.core, int(c.thread[row]))}"
        )
        texts[0] += f" ({calls:,} call{'s' if calls > 1 else ''} in {where}, up to {shown_ms(int(c.dur_ns[row]))})"
    return ", ".join(texts)


def other_accelerator(w: Window) -> Finding | None:
    """The headline of a trace of a device that is no GPU: what its events mean is not known."""
    name = w.core.info.accelerator
    if not name:
        return None
    text = f"The trace is of another accelerator ({name}): its times are shown, but what they mean is not known"
    evidence: dict[str, int | float | str] = {
        "kind": "other_accelerator", "percent": 0.0, "percent_of": "recording", "accelerator": name,
        "gpu_events": len(w.gpu_rows),
    }  # fmt: skip
    return Finding("headline", text, evidence, ask_next="tracelens-graph ask gpu_timeline TRACE")


def capture(w: Window) -> Finding | None:
    """The headline of a trace in which a graph is captured: most of its launches run nothing."""
    launches, c = calls_named(w, LAUNCH.search), w.core.columns
    if not len(launches) or not len(calls_named(w, _CAPTURE.search)):
        return None
    idle = launches[~np.isin(launches, launches_of(c, w.core.gpu_rows))]
    share = percent(len(idle), len(launches))
    if share < limits.CAPTURED_PERCENT:
        return None
    text = (
        f"Graph capture: {share:.1f} % of the launches ({len(idle):,} of {len(launches):,}) were recorded into a graph"
        " and ran nothing; the trace of a replay shows how fast the graph runs"
    )
    evidence: dict[str, int | float | str] = {
        "kind": "graph.capture", "percent": share, "percent_of": "launches", "launches": len(launches),
        "launches_without_gpu_event": len(idle), "gpu_events": len(w.gpu_rows),
    }  # fmt: skip
    return Finding("headline", text, evidence, advice=("replay_trace",), ask_next="tracelens-graph info TRACE")


def too_little(account: Account) -> Finding | None:
    """The headline of a window that holds too little GPU work, or too little of what launched it."""
    w = account.window
    c, rows = w.core.columns, w.gpu_rows
    busy, gpu = account.times["busy_time"], int(c.dur_ns[rows].sum())
    lone = int(c.dur_ns[rows[c.parent[rows] < 0]].sum())
    is_part = account.whole == "own_time"
    share, whole = 100 - percent(busy, account.window_ns), str(account.whole)
    advice: tuple[str, ...] = () if is_part else ("record_longer",)
    if len(rows) < limits.FEW_GPU_EVENTS and busy < limits.SHORT_BUSY_MS * 1e6:
        events = "1 GPU event" if len(rows) == 1 else f"{len(rows):,} GPU events"
        why = f"{events}, {shown_ms(busy)} of work"
        if len(rows) > 1 or account.whole == "steps":
            why += f"; the GPU was idle for {share:.1f} % of {account.base_text}"
    elif lone > limits.UNLINKED_PERCENT / 100 * gpu:
        share, whole = percent(lone, gpu), "gpu_time"
        why = f"the launches of {share:.1f} % of the GPU time are not in the trace"
        advice = ("record_launches",)
    elif percent((runs := recorded_executions(w)).lost_in_all, len(runs.row)) >= limits.LOST_EXECUTIONS_PERCENT:
        share, whole = percent(runs.lost_in_all, len(runs.row)), "executions"
        why = f"{runs.text}, so that time without any need not be idle time"
        advice = ()
    elif is_thinned(w):
        why = f"most events were left out of the file; in {share:.1f} % of {account.base_text} no GPU work is recorded"
    else:
        return None
    why += _left_out(account)
    evidence: dict[str, int | float | str] = {
        "kind": "too_little", "percent": share, "percent_of": whole, "gpu_events": len(rows),
        **({} if whole == "gpu_time" else {"percent_of_span": 100 - percent(busy, account.span_ns)}),
        "busy_ms": busy / 1e6, "busy_percent": percent(busy, account.span_ns), "unlinked_percent": percent(lone, gpu),
    }  # fmt: skip
    ask = "tracelens-graph info TRACE"
    text = f"Too little {'work to judge it as a run' if is_part else 'recorded to judge the run'}: {why}"
    return Finding("headline", text, evidence, advice=advice, ask_next=ask)


_INITIAL = re.compile(
    r"^(?:cuda|hip|cu)(?:\w*Module(?:Load|GetFunction)|Library(?:Load|GetKernel)|\w*Malloc|Free|Init|SetDevice|GetDevice"
    r"|Device(?:Get|Primary|Reset)|Ctx|FuncGetAttr|FuncSetAttr|StreamCreate|EventCreate|HostAlloc|OccupancyMax)"
)
"""Calls that create contexts and load code when they are the first of their kind."""

HOST_LEADS: Mapping[Cause, tuple[str, str]] = {
    Cause.data_loader: ("host.dataloader", "for the data loader"),
    Cause.synchronization: ("host.sync", "because the host had stopped to wait for the GPU"),
    Cause.host_to_device_copy: ("host.copies", "for copies to the device"),
    Cause.launches: ("host.launches", "for ops and launches"),
    Cause.python: ("host.python", "for Python"),
    Cause.allocation: ("host.other", "for memory to be allocated or released"),
    Cause.profiler: ("host.other", "for the profiler"),
    Cause.unknown_not_recorded: ("host.other", "for code that was not recorded"),
    Cause.compilation: ("host.compilation", "for programs to be compiled"),
    Cause.detokenise: ("host.python", "for detokenising"),
    Cause.sampling: ("host.python", "for sampling"),
    Cause.prepare: ("host.python", "for inputs to be made"),
    Cause.output: ("host.python", "for results to be handled"),
    Cause.scheduler: ("host.python", "for scheduling"),
}
"""Cause of idle time -> kind of run that it leads to, and what the GPU waited for; launches stand for queued work."""
_BETWEEN_KINDS: Mapping[str, str] = {"launch": "host.launches", "wait": "host.sync", "unrecorded": "host.other"}
"""Part of the host's work between the steps of a server -> kind of run; all others are Python."""
_NAMES: Mapping[str, str] = {
    "host.dataloader": "Data-loader-bound",
    "host.sync": "Synchronising",
    "host.copies": "Copy-bound",
    "host.launches": "Host-bound (launches)",
    "host.python": "Host-bound (Python)",
    "host.compilation": "Host-bound (compilation)",
    "host.other": "Host-bound",
    "comm.exposed": "Communication-bound",
    "compute.gemm": "Compute-bound",
    "compute.conv": "Compute-bound",
    "compute.attention": "Compute-bound",
    "compute.matrix": "Compute-bound",
    "memory.elementwise_norm": "Memory-bandwidth-bound",
    "mixture": "Compute- and memory-bandwidth-bound",
    "gpu_bound": "GPU-bound",
}


@dataclass(frozen=True)
class Headline:
    """What kind of run it is.

    Attributes:
        finding: the line.
        leads: the parts of PARTS that it names.
    """

    finding: Finding
    leads: tuple[str, ...]


def headline(account: Account, families: Families, arch: Architecture | None = None) -> Headline:
    """The greatest of computation, exposed communication, exposed copies, host time and unexplained idle time.

    What takes at least half of the window, or 1.5 times what comes second, bounds the run; else it is a mixture of
    these two. Host time is added up first and separated afterwards. Of computation the family of kernels that gives the
    run its name has to take that much.

    Args:
        families: of the kernels.
        arch: the device that says whether memory bounds products; None for the one that the trace describes.
    """
    leads = leading_parts(account, families)
    if leads == ("unexplained",):
        return Headline(_unexplained(account), leads)
    if len(leads) == 1:
        return Headline(_clear(account, families, leads[0], arch), leads)
    return Headline(_mixture(account, families, leads), leads)


def leading_parts(account: Account, families: Families) -> tuple[str, ...]:
    """The part of PARTS that bounds the run, or the two that do together; `unexplained` is never one of two."""
    parts = account.parts()
    first, second = sorted(parts, key=lambda part: -parts[part])[:2]
    leading = parts[first] * (families.leading_share if first == "computation" else 1)
    is_clear = (
        leading >= limits.DOMINANT_PERCENT / 100 * account.window_ns or leading >= limits.DOMINANT_RATIO * parts[second]
    )
    leads = (first,) if is_clear else (first, second)
    return ("unexplained",) if "unexplained" in leads else leads


def start_up(account: Account) -> Finding | None:
    """The headline of a run that is starting up, if most of the host's time lies in calls that happen once."""
    w = account.window
    core, c = w.core, w.core.columns
    host = account.parts()["host"]
    if host < limits.DOMINANT_PERCENT / 100 * account.window_ns:
        return None
    launches, others = calls_named(w.whole, LAUNCH.search), calls_named(w.whole, _INITIAL.search)
    median = float(np.median(c.dur_ns[launches])) if len(launches) else 0.0
    slow = launches[c.dur_ns[launches] >= limits.INITIAL_LAUNCH_RATIO * median]
    rows = np.union1d(slow, others)
    rows = rows[c.dur_ns[rows] >= limits.INITIAL_CALL_NS]
    waited, within = _waited(account, rows)
    if not within or within < limits.INITIAL_PERCENT / 100 * host:
        return None
    parts, in_span = account.parts(), account.parts(in_span=True)
    idle_ns = parts["host"] + parts["unexplained"]
    idle_share, share = percent(idle_ns, account.window_ns), percent(within, account.window_ns)
    most, count = int(waited.argmax()), int((waited > 0).sum())
    longest, took = int(rows[most]), int(waited[most])
    uid, name = int(c.uid[longest]), core.names[c.name[longest]]
    calls = f"{count:,} calls, up to {shown_ms(took)} in {brief(name)}, that load code or make contexts"
    if count == 1:
        calls = f"one call of {brief(name)}, which loads code or makes a context"
    idle = f"the GPU was idle for {idle_share:.1f} % of {account.base_text}"
    text = f"Start-up: {idle}, {percent(within, idle_ns):.1f} % of that in {calls} [uid {uid}]"
    of_span = percent(in_span["host"] + in_span["unexplained"], account.span_ns)
    evidence: dict[str, int | float | str] = {
        "kind": "host.init", "percent": idle_share, "percent_of": account.whole, "percent_of_span": of_span,
        "ms": within / 1e6, "start_up_percent": share, "calls": count, "uid": uid, "name": name,
        "longest_ms": took / 1e6, **_shares(account),
    }  # fmt: skip
    return Finding("headline", text, evidence, "major", ("warm_up",), f"tracelens-graph tree TRACE --uid {uid} --up")


def _utilisation(account: Account, families: Families, arch: Architecture | None) -> float | None:
    """Model FLOPs utilisation; None where the device is not known, nor the models of nearly all that counts."""
    device, _ = device_of(account.window, arch)
    if device is None or families.modelled_percent(account.window, device) < limits.MODELLED_PERCENT:
        return None
    from tracelens_graph.analyses.performance.model_flops import model_flops_of

    found = model_flops_of(account.window, device).utilisation(account.window_ns)
    return found if found and found <= 100 else None  # above, the device's rates cannot be right


def _waited(account: Account, rows: np.ndarray) -> tuple[np.ndarray, int]:
    """How long the GPU was idle during each of some calls, and during any of them; ns."""
    core, idle = account.window.core, account.idle
    start = core.columns.start_ns[rows]
    # A clock that stands still in the gaps: what it does not count of a call lies in them.
    clock = Clock(merge(idle.start, idle.end))

    def inside(begin: np.ndarray, end: np.ndarray) -> np.ndarray:
        return (end - begin) - (clock(end) - clock(begin))

    end = ends(core, rows)
    return inside(start, end), int(inside(*merge(start, end)).sum())


def host_causes(account: Account) -> list[Cause]:
    """The cause that leads the host's time; two if the second is nearly as great, and none where there is none."""
    causes = account.causes
    times = {cause: int(causes[cause]) for cause in HOST}
    times[Cause.launches] += times.pop(Cause.queued)
    first, second = sorted(times, key=lambda cause: -times[cause])[:2]
    if not times[first]:
        return []
    return [first] if times[first] > limits.DOMINANT_RATIO * times[second] else [first, second]


def _clear(account: Account, families: Families, part: str, arch: Architecture | None) -> Finding:
    if part == "computation":
        return _computing(account, families, arch)
    if part == "host":
        return _waiting(account)
    kind = {"communication": "comm.exposed", "copies": "host.copies"}[part]
    others = _others(account, part)
    text = f"{_NAMES[kind]}: {PARTS[part]} took {_share(account, part)}; {others}"
    return _headline(account, part, kind, text)


def _host_lead(account: Account) -> tuple[str, str, str]:
    """What leads the host's time: the kind of run, its name for a headline, and what the GPU waited for.

    On a server with most idle time between steps, that is what the host did there, not the call that it was in when the
    GPU had nothing to do.
    """
    if is_of_server(account.window.core):
        from tracelens_graph.analyses.diagnosis.server import doing_between, leading_between

        if part := leading_between(account):
            kind = _BETWEEN_KINDS.get(part, "host.python")
            return kind, _NAMES[kind], doing_between(part)
    causes = host_causes(account)
    kind = HOST_LEADS[causes[0]][0]
    doing = " and ".join(HOST_LEADS[one][1] for one in causes)
    return kind, "Host-bound" if len(causes) > 1 else _NAMES[kind], doing


def _waiting(account: Account) -> Finding:
    kind, name, doing = _host_lead(account)
    queued = percent(account.shown_parts[QUEUED], account.window_ns)
    between = f" ({queued:.1f} % {QUEUED})" if queued >= 1 else ""
    waited = f"for {_share(account, 'host')}{between} the GPU waited for the host, mostly {doing}"
    if account.has_stacks:
        waited += " (with_stack itself slows the host)"
    text = f"{name}: {waited}; {_others(account, 'host')}"
    return _headline(account, "host", kind, text, host_causes=", ".join(cause.name for cause in host_causes(account)))


def _computing(account: Account, families: Families, arch: Architecture | None) -> Finding:
    kind, parts = families.kind, account.parts()
    # Neither of the two comes near the computation, but together they take as much.
    is_rivalled = parts["communication"] + parts["host"] >= parts["computation"]
    others = f"; {_others(account, 'computation')}" if is_rivalled else ""
    share = families.percent(kind)
    if families.graph_percent >= limits.GRAPH_PERCENT:
        text = (
            f"Graph replay: {families.graph_percent:.1f} % of the GPU time comes from graph launches,"
            f" {_made_of(families)}; the GPU computed {_share(account, 'computation')}{others}"
        )
        evidence: dict[str, float | str] = {"percent": families.graph_percent, "percent_of": "gpu_time", "family": kind}
        return _headline(account, "computation", "graph.replay", text, **evidence)
    name, by_memory = _NAMES[kind], families.memory_bound_percent(account.window, arch)
    more: dict[str, float | str] = {"percent": share, "percent_of": "gpu_time"} if kind not in ALL_OF_IT else {}
    made_of = _made_of(families)
    if by_memory >= limits.MEMORY_BOUND_PERCENT:
        name, made_of = _NAMES[MEMORY], f"{made_of}; by its sizes, memory bounds {by_memory:.0f} % of that"
        more["memory_bound_percent"] = by_memory
    elif missing := _missing_for_roof(account, families, arch):
        label = LABELS.get(kind, "products")
        made_of = f"{share:.1f} % of the GPU time" if kind in LABELS else made_of
        name = f"{label[0].upper()}{label[1:]} {'leads' if kind == 'compute.attention' else 'lead'}"
        made_of += f"; whether memory bounds {'it' if kind == 'compute.attention' else 'them'} is not known: {missing}"
    text = f"{name}: {made_of}; the GPU computed {_share(account, 'computation')}{others}"
    if used := _utilisation(account, families, arch):
        more["mfu_percent"] = used
        text += f"; {used:.1f} % of the device's peak FLOPs are used (MFU)"
    return _headline(account, "computation", kind, text, **more)


def _missing_for_roof(account: Account, families: Families, arch: Architecture | None) -> str:
    """What is not known of the products of a server or of a replay; "" where it is known what bounds them.

    Products of few rows are bound by memory there, unlike those of a training step.
    """
    is_replay = families.replayed_percent >= limits.GRAPH_PERCENT
    if not families.kind.startswith("compute.") or not (is_replay or is_of_server(account.window.core)):
        return ""
    device, _ = device_of(account.window, arch)
    if device is None:
        return "the trace does not name its device (--arch does)"
    is_known = 2 * families.modelled_percent(account.window, device) >= 100
    return "" if is_known else "most of the sizes are unknown"


def _made_of(families: Families) -> str:
    """The categories that make most of the computation, in a few words."""
    kind = families.kind
    if kind in ALL_OF_IT:
        named = [f"{LABELS[one]} {percent(ns, families.gpu_ns):.0f} %" for one, ns in families.times.items()]
        return f"{', '.join(named[:3])} of the GPU time"
    if kind == MEMORY or kind == "compute.matrix":
        named = [f"{one} {percent(ns, families.gpu_ns):.0f} %" for one, ns in families.categories.items()
                 if (one in MATRIX) == (kind != MEMORY)]  # fmt: skip
        label = LABELS[MEMORY] if kind == MEMORY else "products, convolutions and attention"
        return f"{label} take {families.percent(kind):.1f} % of the GPU time ({', '.join(named[:3])})"
    take = "takes" if kind == "compute.attention" else "take"
    return f"{LABELS[kind]} {take} {families.percent(kind):.1f} % of the GPU time"


def _mixture(account: Account, families: Families, leads: tuple[str, ...]) -> Finding:
    named = []
    for part in leads:
        what = f"{PARTS[part]} {percent(account.parts()[part], account.window_ns):.1f} %"
        if part == "host":
            what += f" (mostly {_host_lead(account)[2]})"
        if part == "computation":
            what += f" ({_made_of(families)})"
        named.append(what)
    text = f"A mixture: {' and '.join(named)} of {account.base_text}"
    kinds = [_kind_of(part, account, families) for part in leads]
    share = percent(account.parts()[leads[0]], account.window_ns)
    return _headline(
        account, leads[0], "mixture", text, percent=share, percent_of=account.whole, first=kinds[0], second=kinds[1]
    )


def _kind_of(part: str, account: Account, families: Families) -> str:
    if part == "host":
        return _host_lead(account)[0]
    return {"computation": families.kind, "communication": "comm.exposed", "copies": "host.copies"}[part]


def _unexplained(account: Account) -> Finding:
    late, lone = (int(account.causes[cause]) for cause in (Cause.unknown_late_start, Cause.unknown_no_launch))
    queued = f"the next work had been launched long before ({shown_ms(late)})"
    unlinked = f"its launch is not in the trace ({shown_ms(lone)})"
    why = f"{queued} or {unlinked}" if late and lone else queued if late else unlinked
    text = (
        f"Not explained: for {_share(account, 'unexplained')} the trace has no GPU work and no reason for it: {why};"
        " nothing can be concluded from the rest"
    )
    return _headline(account, "unexplained", "too_little", text)


def _headline(account: Account, part: str, kind: str, text: str, **more: float | str) -> Finding:
    share = percent(account.parts()[part], account.window_ns)
    of_span = percent(account.parts(in_span=True)[part], account.span_ns)
    evidence: dict[str, int | float | str] = {
        "kind": kind, "percent": share, "percent_of": account.whole, "percent_of_span": of_span,
    }  # fmt: skip
    evidence |= {**_shares(account), **more}
    return Finding("headline", text + _left_out(account), evidence, ask_next="tracelens-graph ask gpu_timeline TRACE")


def _left_out(account: Account) -> str:
    """What is not judged, as the end of a line."""
    if not account.cut_off_ns:
        return ""
    return f"; left out: {shown_ms(account.cut_off_ns)} of waiting before that, for work launched earlier"


def _shares(account: Account) -> dict[str, int | float | str]:
    window, span = account.parts(), account.parts(in_span=True)
    evidence: dict[str, int | float | str] = {f"{part}_ms": ns / 1e6 for part, ns in window.items()}
    evidence |= {f"{part}_percent_of_span": percent(ns, account.span_ns) for part, ns in span.items()}
    evidence |= {
        "window_ms": account.window_ns / 1e6, "gpu_span_ms": account.gpu_span_ns / 1e6, "devices": account.devices,
        "busy_percent": percent(account.times["busy_time"], account.span_ns), "left_out_ms": account.cut_off_ns / 1e6,
        "gpu_events": len(account.window.gpu_rows),
    }  # fmt: skip
    if account.cut_off_ns:
        evidence["judged_span_ms"] = account.span_ns / 1e6
    return evidence


def _share(account: Account, part: str) -> str:
    """`76.2 % of the GPU span of 661 ms`, `91.3 % of the 4.42 ms of the steps`."""
    return f"{percent(account.parts()[part], account.window_ns):.1f} % of {account.base_text}"


def _others(account: Account, part: str) -> str:
    """What else took time, in a few words; shares are of the same."""
    parts = account.shown_parts
    is_shown = {PARTS[part], QUEUED} if part == "host" else {PARTS[part]}  # the host's time holds what is queued
    others = sorted(parts.keys() - is_shown, key=lambda one: (-parts[one], one))
    shares = {one: percent(parts[one], account.window_ns) for one in others}
    return ", ".join(f"{one} {share:.1f} %" for one, share in shares.items() if share >= 1) or "nothing else took 1 %"
