"""How a graph shows itself at a prompt and in a notebook."""

from __future__ import annotations

import html
import os

import numpy as np

from tracelens_graph.graph.core import Core
from tracelens_graph.schema import Kind


def one_line(core: Core) -> str:
    """Source, size, GPU events, duration, devices; of an execution trace alone its threads instead."""
    c = core.columns
    if not core.framework.has_times:
        name = os.path.basename(core.info.source) or "execution trace"
        return f"{name}: {_count(len(c), 'node')} without times, {_count(len(core.threads), 'thread')}"
    devices = np.unique(c.device[core.gpu_rows])
    span = int(c.end_ns.max(initial=0)) / 1e6
    return (
        f"{os.path.basename(core.info.source) or 'trace'}: {_count(len(c), 'node')}, "
        f"{_count(len(core.gpu_rows), 'GPU event')}, {span:,.1f} ms, {_count(len(devices), 'device')}"
    )


def html_table(core: Core) -> str:
    """The same with a table of the kinds of nodes: how many, and the sum of their durations."""
    c = core.columns
    counts = np.bincount(c.kind, minlength=len(Kind))
    times = np.bincount(c.kind, weights=c.dur_ns, minlength=len(Kind)) / 1e6
    timed, meaning = core.framework.has_times, core.framework.kind_meaning
    rows = "".join(
        f"<tr><th style='text-align:left' title='{html.escape(meaning[kind], quote=True)}'>{kind.name}</th>"
        f"<td>{counts[kind]:,}</td>{f'<td>{times[kind]:,.3f}</td>' if timed else ''}</tr>"
        for kind in Kind
        if counts[kind]
    )
    head = f"<tr><th></th><th>nodes</th>{'<th>sum of durations, ms</th>' if timed else ''}</tr>"
    return f"<table><caption>{html.escape(one_line(core))}</caption>{head}{rows}</table>"


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"
