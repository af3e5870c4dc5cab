"""What a diagnosis says of a server: its steps by phase, the gaps between them, padding, stalls, fixed cost."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from tracelens_graph.analyses.diagnosis import thresholds as limits
from tracelens_graph.analyses.diagnosis.account import Account, account_of
from tracelens_graph.analyses.diagnosis.finding import Finding, Severity, brief, percent, shown_ms
from tracelens_graph.analyses.idle.between_steps import engine_of
from tracelens_graph.analyses.idle.blame import Blamed, blame
from tracelens_graph.analyses.idle.idle import BETWEEN_STEPS, UNKNOWN, Cause
from tracelens_graph.analyses.serving.costs import step_costs
from tracelens_graph.analyses.serving.iterations import BETWEEN, Served, served_in
from tracelens_graph.analyses.serving.phases import phases
from tracelens_graph.graph.iterations import left_out_of
from tracelens_graph.graph.user_code import line_names, shown_name
from tracelens_graph.graph.window import Window

_ASK, _ASK_STEPS = "tracelens-graph ask phases TRACE", "tracelens-graph ask iterations TRACE"
_ASK_IDLE = "tracelens-graph ask idle_causes TRACE"

_PARTS: Mapping[str, tuple[str, str]] = {
    "detokenise": ("detokenising", "detokenise_beside"),
    "sampling": ("sampling", "sampling_on_gpu"),
    "prepare": ("making inputs", "next_inputs"),
    "output": ("handling results", "overlap_scheduling"),
    "scheduler": ("scheduling", "overlap_scheduling"),
    "launch": ("launching", "cuda_graphs"),
    "wait": ("waiting for the GPU", "overlap_scheduling"),
    "python": ("other Python", "overlap_scheduling"),
    "unrecorded": ("code that is not recorded", "record_stacks"),
}
"""Part of the host's work between steps -> in words, and what to try."""

_TOKENS: Mapping[str, str] = {
    "prefill": " of a prompt", "mixed": " of prompts and answers", "decode": " of an answer"
}  # fmt: skip
"""Phase -> what its tokens are of."""

_IDLE_TOPICS = {"synchronization", "python", "launches", "unrecorded", "unexplained"}
"""Causes of idle time that the gaps between steps explain better."""


def of_server(w: Window, causes: list[Finding]) -> tuple[list[Finding], list[Finding]]:
    """What there is to say of the steps of a server, and the causes that are left.

    Idle time that lies in the gaps between steps is explained there, and no more by the call that the host was in.
    """
    account = account_of(w)
    served = served_in(account.window)
    if not len(served):
        return [], causes
    rows = {row["phase"]: row for row in phases(account.window).records() if row["phase"] != BETWEEN}
    costs = {(row["phase"], row["term"]): row for row in step_costs(account.window).records()}
    gaps = list(_gaps(account, served))
    explained_ms = sum(float(one.evidence["ms"]) for one in gaps)
    work_ms = sum(float(one.evidence.get(f"{cause.name}_ms", 0)) for one in gaps for cause in BETWEEN_STEPS)
    beyond = {"python": work_ms}  # Python holds the work between steps, which is explained there
    left = [
        one
        for one in causes
        if one.topic not in _IDLE_TOPICS or float(one.evidence["ms"]) - beyond.get(one.topic, 0) > explained_ms
    ]
    return [_steps(served, rows, costs), *gaps, *_prompts(served, rows), *_padding(rows), *_fixed(costs)], left


def _steps(served: Served, rows: Mapping[str, Mapping[str, Any]], costs: Mapping[Any, Mapping[str, Any]]) -> Finding:
    evidence: dict[str, Any] = {"iterations": len(served)}
    texts, lead = [], []
    for phase, row in rows.items():
        evidence |= {f"{phase}_iterations": row["iterations"]}
        if not row["iterations"] or not np.isfinite(row["step_ms"]):
            continue
        evidence |= {f"{phase}_step_ms": row["step_ms"], f"{phase}_mean_ms": row["device_ms"] / row["iterations"],
                     f"{phase}_token_us": row["token_us"]}  # fmt: skip
        texts.append(_phase_text(phase, row))
        top = [f"{one['name']} {one['percent']:.0f} %" for one in row["top_categories"][:2]]
        lead.append(f"{phase} is {' and '.join(top)}" if top else "")
    if prompt := costs.get(("mixed", "context token")) or costs.get(("prefill", "context token")):
        evidence["prompt_token_us"] = prompt["ns"] / 1e3
    engine = engine_of(served.window.core) or next((one.engine for one in served.batches if one.engine), "")
    text = f"A server's steps{f' ({engine})' if engine else ''}: {'; '.join(texts)}"
    if any(lead):
        text += f". By GPU time {', '.join(filter(None, lead))}"
    return Finding(
        "server", text, {name: value for name, value in evidence.items() if value is not None}, ask_next=_ASK
    )


def _phase_text(phase: str, row: Mapping[str, Any]) -> str:
    """`97 decode steps take 532 us on average for 20.0 requests, 26.6 us per token of an answer`.

    All of it is means, so that the figures fit together; the median is added where it differs.
    """
    count, mean, median = row["iterations"], row["device_ms"] / row["iterations"], row["step_ms"]
    text = f"{count:,} {phase} steps take {shown_ms(1e6 * mean)} in the mean"
    if abs(mean - median) >= limits.APART_FROM_MEDIAN * median:
        text += f" (median {shown_ms(1e6 * median)})"
    if count == 1:
        text = f"one {phase} step takes {shown_ms(1e6 * mean)}"
    if np.isfinite(row["requests"]):
        text += f" for {row['requests']:,.3g} request{'s' if row['requests'] != 1 else ''}"
    return text + (f", {shown_ms(1e3 * row['token_us'])} per token{_TOKENS.get(phase, '')}"
                   if np.isfinite(row["token_us"]) else "")  # fmt: skip


def _gaps(account: Account, served: Served) -> Iterator[Finding]:
    idle, core = served.idle, account.window.core
    time = int((idle.end - idle.start)[served.between].sum())
    share = percent(time, account.window_ns)
    if share < limits.WORTH_REPORTING_PERCENT:
        return
    parts = host_parts_between(served)
    shares = {part: percent(ns, time) for part, ns in sorted(parts.ns.items(), key=lambda item: -item[1])}
    named = [f"{_PARTS[part][0]} {part_share:.0f} %" for part, part_share in shares.items() if part_share >= 5][:4]
    due = parts.due
    is_known = left_out_of(core) is None  # the file of some iterations has little of what the host did between them
    meanwhile = (
        f"What the host did in that time: {', '.join(named)}" if is_known else "The whole trace shows what it did"
    )
    text = (
        f"Between steps the GPU was idle for {shown_ms(time)}, {share:.1f} % of the {account.whole_text}, "
        f"{shown_ms(time / max(len(served), 1))} for each step. {meanwhile}"
    )
    evidence: dict[str, Any] = {
        "ms": time / 1e6, "percent": share, "percent_of": account.whole, "gaps": parts.gaps,
        "step_us": time / 1e3 / max(len(served), 1),
        **{f"{part}_ms": ns / 1e6 for part, ns in parts.ns.items() if is_known},
    }  # fmt: skip
    if due.row >= 0 and is_known:
        line = line_names(account.window, np.array([due.row]))[0]
        name, uid = shown_name(core, due.row), int(core.columns.uid[due.row])
        evidence |= {"because": name, "because_ms": due.ns / 1e6, "uid": uid} | ({"python": line} if line else {})
        text += f". {shown_ms(due.due_ns)} is due to {brief(line or name)} [uid {uid}]"
    severity: Severity = "minor" if share < limits.MAJOR_PERCENT else "major"
    yield Finding("server_gaps", text, evidence, severity, (_PARTS[parts.leads][1],) * is_known, _ASK_IDLE)


def _prompts(served: Served, rows: Mapping[str, Mapping[str, Any]]) -> Iterator[Finding]:
    with_prompts = np.isin(served.phases, ("prefill", "mixed"))
    share = sum(rows[phase]["percent_of_device"] for phase in ("prefill", "mixed") if phase in rows)
    decode, count = rows.get("decode"), int(with_prompts.sum())
    if decode is None or not count or share < limits.WORTH_REPORTING_PERCENT:
        return
    mean = sum(rows[phase]["device_ms"] for phase in ("prefill", "mixed") if phase in rows) / count
    of_decode = decode["device_ms"] / decode["iterations"]
    ratio = mean / of_decode if of_decode > 0 else 0.0
    if ratio < limits.STALL_RATIO:
        return
    text = f"Prompts hold answers up: {count:,} steps with prompts take {ratio:.1f} times a decode step (means)"
    if count == 1:
        text = f"Prompts hold answers up: the one step with prompts takes {ratio:.1f} times a decode step (mean)"
    text += f". Steps with prompts take {share:.1f} % of the time of all steps"
    evidence = {"iterations": count, "ratio": ratio, "percent": share, "percent_of": "steps on the GPU"}
    yield Finding("server_prompts", text, evidence, "fact", ("smaller_chunks",), _ASK)


def _padding(rows: Mapping[str, Mapping[str, Any]]) -> Iterator[Finding]:
    phase, row = max(rows.items(), key=lambda item: np.nan_to_num(item[1]["padding_percent"]))
    share = row["padding_percent"]
    if not share >= limits.PADDING_PERCENT:
        return
    text = f"Captured batches are {share:.1f} % empty in {phase} steps: graphs compute places that no request has"
    evidence = {"percent": share, "percent_of": "captured places", "phase": phase, "iterations": row["iterations"]}
    yield Finding("server_padding", text, evidence, "minor", ("capture_sizes",), _ASK_STEPS)


def _fixed(costs: Mapping[Any, Mapping[str, Any]]) -> Iterator[Finding]:
    fixed = costs.get(("decode", "fixed"))
    if fixed is None or not limits.FIXED_PERCENT <= fixed["percent"] <= 100 or fixed["ns"] < 3 * fixed["std_error"]:
        return
    text = (
        f"{shown_ms(fixed['ns'])} of a decode step, {fixed['percent']:.0f} % of its GPU time, do not depend on the "
        f"size of the batch (standard error {shown_ms(fixed['std_error'])})"
    )
    evidence = {
        "fixed_us": fixed["ns"] / 1e3, "std_error_us": fixed["std_error"] / 1e3, "r2": fixed["r2"],
        "percent": fixed["percent"], "percent_of": "GPU time of decode steps", "iterations": fixed["iterations"],
    }  # fmt: skip
    yield Finding("server_fixed", text, evidence, "fact", ("more_requests",), "tracelens-graph ask step_costs TRACE")


def leading_between(account: Account) -> str:
    """What the host did most between a server's steps; "" unless most idle time lies there."""
    served = served_in(account.window)
    if not len(served) or left_out_of(account.window.core) is not None:
        return ""
    parts = host_parts_between(served)
    return parts.leads if 2 * sum(parts.ns.values()) >= account.parts()["host"] > 0 else ""


def doing_between(part: str) -> str:
    """A part of the host's work between steps, in words."""
    return f"for {_PARTS[part][0]} between steps"


_OTHERS: Mapping[str, Sequence[Cause]] = {
    "launch": (Cause.launches, Cause.queued),
    "wait": (Cause.synchronization,),
    "unrecorded": UNKNOWN,
}
_CAUSES: Mapping[str, Sequence[Cause]] = {
    **{cause.name: (cause,) for cause in BETWEEN_STEPS},
    **_OTHERS,
    "python": [cause for cause in Cause if cause not in (*BETWEEN_STEPS, *sum(map(tuple, _OTHERS.values()), ()))],
}
"""What the host does between steps -> causes of idle time: its work, launches, waiting for the GPU, what was not
recorded, and all else, which is Python and ops."""


@dataclass(frozen=True, eq=False)
class HostParts:
    """Idle time between steps by what the host did, as `idle_causes` has it.

    Attributes:
        ns: part -> time, for all of _CAUSES; they add up to the gaps, over all devices.
        gaps: number of gaps.
    """

    served: Served
    ns: Mapping[str, int]
    gaps: int

    @property
    def leads(self) -> str:
        """The part with most of the time."""
        return max(self.ns, key=lambda part: self.ns[part])

    @cached_property
    def due(self) -> Blamed:
        """The function that most of that part is due to."""
        at = np.flatnonzero(self.served.between)
        return blame(self.served.window.core, self.served.idle, at, _CAUSES[self.leads])


def host_parts_between(served: Served) -> HostParts:
    """What the thread that launches did in the idle gaps between iterations; each instant goes to one part."""
    parts = served.idle.parts[:, served.between]
    return HostParts(served, {part: int(parts[list(causes)].sum()) for part, causes in _CAUSES.items()}, parts.shape[1])
