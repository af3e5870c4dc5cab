"""What a diagnosis says of a server: its steps by phase, the gaps between them, padding, stalls, fixed cost."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from tracelens_graph.analyses.diagnosis import thresholds as limits
from tracelens_graph.analyses.diagnosis.account import Account, account_of
from tracelens_graph.analyses.diagnosis.finding import Finding, Severity, brief, percent, shown_ms
from tracelens_graph.analyses.serving.gaps import host_parts_between
from tracelens_graph.analyses.serving.iterations import BETWEEN, Served, served_in
from tracelens_graph.analyses.serving.phases import phases, step_costs
from tracelens_graph.graph.arrays import is_kind
from tracelens_graph.graph.iterations import left_out_of
from tracelens_graph.graph.user_code import line_names, shown_name
from tracelens_graph.graph.window import Window
from tracelens_graph.schema import PYTHON_KINDS

_ASK = "tracelens-graph ask phases TRACE"

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

_PACKAGES: Mapping[str, str] = {"vllm": "vLLM", "sglang": "SGLang", "atom": "ATOM", "xfuser": "xDiT"}
_PACKAGE = re.compile(rf"(?:^|/)({'|'.join(_PACKAGES)})/\S+\.py\(")
"""Packages of engines -> the engines, and how functions of Python of theirs are named."""

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
    left = [one for one in causes if one.topic not in _IDLE_TOPICS or float(one.evidence["ms"]) > explained_ms]
    return [_steps(served, rows, costs), *gaps, *_prompts(rows), *_padding(rows), *_fixed(costs, served)], left


def _steps(served: Served, rows: Mapping[str, Mapping[str, Any]], costs: Mapping[Any, Mapping[str, Any]]) -> Finding:
    evidence: dict[str, Any] = {"iterations": len(served)}
    texts, lead = [], []
    for phase, row in rows.items():
        evidence |= {f"{phase}_iterations": row["iterations"]}
        if not row["iterations"] or not np.isfinite(row["step_ms"]):
            continue
        evidence |= {f"{phase}_step_ms": row["step_ms"], f"{phase}_token_us": row["token_us"]}
        texts.append(_phase_text(phase, row))
        top = [f"{one['name']} {one['percent']:.0f} %" for one in row["top_categories"][:2]]
        lead.append(f"{phase} is {' and '.join(top)}" if top else "")
    if prompt := costs.get(("mixed", "context token")) or costs.get(("prefill", "context token")):
        evidence["prompt_token_us"] = prompt["ns"] / 1e3
        texts.append(f"a token of a prompt costs {shown_ms(prompt['ns'])}")
    engine = _engine(served)
    text = f"A server's steps{f' ({engine})' if engine else ''}: {'; '.join(texts)}"
    if any(lead):
        text += f". By GPU time {', '.join(filter(None, lead))}"
    return Finding(
        "server", text, {name: value for name, value in evidence.items() if value is not None}, ask_next=_ASK
    )


def _engine(served: Served) -> str:
    """The engine whose files most functions are of, else that of the annotations; empty if neither shows one."""
    core = served.window.core
    functions = np.unique(core.columns.name[is_kind(core.columns.kind, PYTHON_KINDS)]).tolist()
    of_functions = Counter(match[1] for code in functions if (match := _PACKAGE.search(core.names[code])))
    if of_functions:
        return _PACKAGES[of_functions.most_common(1)[0][0]]
    return next((batch.engine for batch in served.batches if batch.engine), "")


def _phase_text(phase: str, row: Mapping[str, Any]) -> str:
    """`97 decode steps take 532 us in the median for 20.0 requests, 26.5 us per token in the mean`."""
    count = row["iterations"]
    text = f"{count:,} {phase} steps take {shown_ms(1e6 * row['step_ms'])} in the median"
    if count == 1:
        text = f"one {phase} step takes {shown_ms(1e6 * row['step_ms'])}"
    if np.isfinite(row["requests"]):
        text += f" for {row['requests']:,.3g} request{'s' if row['requests'] != 1 else ''}"
    if not np.isfinite(row["token_us"]):
        return text
    return f"{text}, {shown_ms(1e3 * row['token_us'])} per token{' in the mean' if count > 1 else ''}"


def _gaps(account: Account, served: Served) -> Iterator[Finding]:
    idle, core = served.idle, account.window.core
    time = int((idle.end - idle.start)[served.between].sum())
    share = percent(time, account.window_ns)
    if share < limits.WORTH_REPORTING_PERCENT:
        return
    parts = host_parts_between(served)
    shares = {part: percent(ns, time) for part, ns in sorted(parts.ns.items(), key=lambda item: -item[1])}
    named = [f"{_PARTS[part][0]} {part_share:.0f} %" for part, part_share in shares.items() if part_share >= 5][:4]
    due = parts.due[parts.leads]
    is_known = left_out_of(core) is None  # the file of some iterations has little of what the host did between them
    meanwhile = f"of that {', '.join(named)}" if is_known else "the whole trace shows what the host did meanwhile"
    text = (
        f"Between steps the GPU was idle for {shown_ms(time)}, {share:.1f} % of the {account.whole_text}, "
        f"{shown_ms(time / max(len(served), 1))} for each step; {meanwhile}"
    )
    evidence: dict[str, Any] = {
        "ms": time / 1e6, "percent": share, "percent_of": account.whole, "gaps": parts.gaps,
        "step_us": time / 1e3 / max(len(served), 1),
        **{f"{part}_ms": ns / 1e6 for part, ns in parts.ns.items() if is_known},
    }  # fmt: skip
    ask = "tracelens-graph ask iterations TRACE"
    if due.row >= 0 and is_known:
        line = line_names(account.window, np.array([due.row]))[0]
        name, uid = shown_name(core, due.row), int(core.columns.uid[due.row])
        evidence |= {"because": name, "because_ms": due.ns / 1e6, "uid": uid} | ({"python": line} if line else {})
        text += f". {shown_ms(due.due_ns)} is due to {brief(line or name)} [uid {uid}]"
        ask = f"tracelens-graph tree TRACE --uid {uid} --up"
    severity: Severity = "minor" if share < limits.MAJOR_PERCENT else "major"
    yield Finding("server_gaps", text, evidence, severity, (_PARTS[parts.leads][1],) * is_known, ask)


def _prompts(rows: Mapping[str, Mapping[str, Any]]) -> Iterator[Finding]:
    decode, with_prompts = rows.get("decode"), [rows[phase] for phase in ("prefill", "mixed") if phase in rows]
    share = sum(row["percent_of_device"] for row in with_prompts)
    count = sum(row["iterations"] for row in with_prompts)
    if decode is None or not count or share < limits.WORTH_REPORTING_PERCENT:
        return
    mean = sum(row["device_ms"] for row in with_prompts) / count
    of_decode = decode["device_ms"] / decode["iterations"]
    ratio = mean / of_decode if of_decode > 0 else 0
    if ratio < limits.STALL_RATIO:
        return
    text = (
        f"Prompts hold answers up: {count:,} steps with prompts take {ratio:.1f} times as long as a decode "
        f"step, both in the mean, and {share:.1f} % of the time of all steps on the GPU"
    )
    evidence = {"iterations": count, "ratio": ratio, "percent": share, "percent_of": "steps on the GPU"}
    yield Finding("server_prompts", text, evidence, "fact", ("smaller_chunks",), _ASK)


def _padding(rows: Mapping[str, Mapping[str, Any]]) -> Iterator[Finding]:
    phase, row = max(rows.items(), key=lambda item: np.nan_to_num(item[1]["padding_percent"]))
    share = row["padding_percent"]
    if not share >= limits.PADDING_PERCENT:
        return
    text = f"Captured batches are {share:.1f} % empty in {phase} steps: graphs compute places that no request has"
    evidence = {"percent": share, "percent_of": "captured places", "phase": phase, "iterations": row["iterations"]}
    ask = "tracelens-graph ask iterations TRACE"
    yield Finding("server_padding", text, evidence, "minor", ("capture_sizes",), ask)


def _fixed(costs: Mapping[Any, Mapping[str, Any]], served: Served) -> Iterator[Finding]:
    fixed = costs.get(("decode", "fixed"))
    if fixed is None or not limits.FIXED_PERCENT <= fixed["percent"] <= 100 or fixed["ns"] < 3 * fixed["std_error"]:
        return
    is_rough = bool(served.of_unknown_size[served.phases == "decode"].any())
    doubt = (
        "sizes of its captured graphs are not known" if is_rough else f"standard error {shown_ms(fixed['std_error'])}"
    )
    text = (
        f"A decode step costs {'about ' * is_rough}{shown_ms(fixed['ns'])} before its first token, "
        f"{fixed['percent']:.0f} % of its GPU time ({doubt}): larger batches come nearly free"
    )
    evidence = {
        "fixed_us": fixed["ns"] / 1e3, "std_error_us": fixed["std_error"] / 1e3, "r2": fixed["r2"],
        "percent": fixed["percent"], "percent_of": "GPU time of decode steps", "iterations": fixed["iterations"],
    }  # fmt: skip
    yield Finding("server_fixed", text, evidence, "fact", ("more_requests",), "tracelens-graph ask step_costs TRACE")
