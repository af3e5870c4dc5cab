"""Structure: what repeats, what is unusual, where kernels come from, what is computed again, what outlives its caller.

GPU time is the sum of the durations of GPU events.
"""

from __future__ import annotations

from itertools import compress

import numpy as np

from tracelens_graph.analyses.idle.host_states import ends
from tracelens_graph.analyses.shared.call_columns import argument_codes
from tracelens_graph.analyses.shared.gpu_work import (
    COMMUNICATION,
    GPU_EVENTS,
    GPU_TIME,
    PERCENT,
    gpu_classes,
    names_of,
    percent,
)
from tracelens_graph.analyses.shared.grouping import Cells, cell_order, group_by, text_codes
from tracelens_graph.errors import AnalysisError
from tracelens_graph.graph.arrays import distinct, is_kind
from tracelens_graph.graph.autograd import autograd_of
from tracelens_graph.graph.classes import class_rows, distinct_classes, hex_of, normal_name, subtree_classes
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.intervals import sum_by_group
from tracelens_graph.graph.traversals import ancestors, launcher, nearest_above
from tracelens_graph.graph.user_code import Code, codes_of
from tracelens_graph.graph.window import Window, window_of
from tracelens_graph.schema import GPU_KINDS, PYTHON_KINDS, Flag, Kind
from tracelens_graph.tables.column import Column, Role
from tracelens_graph.tables.schema import TableSchema
from tracelens_graph.tables.table import Table

UNUSUAL_KERNELS = TableSchema(
    "unusual_kernels",
    "Which kernels a single call of an op runs, and no other call of it.",
    {
        "op": Column.key("op that the kernels are charged to"),
        "kernel": Column.key("name of the kernel"),
        "calls": Column("number of calls of the op with kernels"),
        "same_arguments": Column("how many of them have the arguments of this call, itself included"),
        "input_dims": Column.text("sizes of the inputs of this call, JSON"),
        "count": Column.count("number of kernels of that name in the call"),
        "gpu_time_us": Column.total("sum of their durations", "us"),
        "percent": Column("share of the time of all kernels of the op", "%"),
        "uid": Column.uid("the call"),
    },
)

REPEATED_SUBTREES = TableSchema(
    "repeated_subtrees",
    "Which parts of the call tree run again and again.",
    {
        "name": Column.key("name of the call, without what differs between instances"),
        "kind": Column.text("Module or Op"),
        "count": Column.count("number of calls that are alike"),
        "gpu_events": Column("number of GPU events in one of them"),
        "gpu_time_us": Column("sum of the durations of the GPU events of all of them", "us"),
        "mean_gpu_time_us": Column("the same per call", "us", Role.mean),
        "percent": Column(PERCENT.definition, "%"),
        "class": Column.key("what they are instances of"),
        "uid": Column.uid("the first of them"),
    },
)

PATH_TO_PYTHON = TableSchema(
    "path_to_python",
    "The calls that lead from a kernel up to the line of Python it comes from.",
    {
        "level": Column("0 for the kernel, 1 for its launch, and so on"),
        "link": Column.text("how it is tied to the level below: launched by, called by, backward of"),
        "kind": Column.text("what it is"),
        "name": Column.text("its name; that of a PythonFunction has file and line"),
        "uid": Column.uid("which event it is"),
        "dur_us": Column("how long it takes", "us"),
        "gpu_time_us": Column("sum of the durations of the GPU events below it", "us"),
    },
    ordered=True,
)

RECOMPUTED_SHARE = TableSchema(
    "recomputed_share",
    "What recomputation of activations costs, by op and module.",
    {
        "op": Column.key("op that the work is charged to, else the runtime call that launched it"),
        "module": Column.key("innermost nn.Module around it, without the number of the instance; absent for none"),
        "gpu_events": GPU_EVENTS,
        "gpu_time_us": GPU_TIME,
        "percent": PERCENT,
    },
)


_KINDS = {"Module": Kind.Module, "Op": Kind.Op}


def repeated_subtrees(g: Core | Window, kind: str | None = None, min_count: int = 2) -> Table:
    """Parts of the call tree that run again and again, the greatest time first.

    Calls are alike if they call the same, with the same arguments, down to the kernels. What only ever runs as a part
    of one larger call of the table that is repeated as often is left out. A part stands inside of others, so times of
    different rows do not add up.

    Args:
        kind: "Module" or "Op"; None for modules where the trace knows any, else ops.
        min_count: least number of repetitions.

    Raises:
        AnalysisError: there is no such kind.
    """
    if kind is not None and kind not in _KINDS:
        raise AnalysisError(f"kind is Module or Op, not {kind!r}")
    w = window_of(g)
    core, c, every = w.core, w.core.columns, class_rows(w.core)
    every = every[w.holds(every)]
    if kind is None:
        kind = "Module" if (c.kind[every] == Kind.Module).any() else "Op"
    rows = every[c.kind[every] == _KINDS[kind]]
    lanes = subtree_classes(core)[rows]
    first, number = distinct_classes(lanes)
    count, ns = np.bincount(number, minlength=len(first)), sum_by_group(number, core.gpu_sum_ns[rows], len(first))
    # All instances of a class hold the same, so one shows what they all stand in.
    above = nearest_above(c, rows[first], (_KINDS[kind],))
    around = np.where(above >= 0, count[number[np.searchsorted(rows, above)]], 0)
    kept = np.flatnonzero((count >= min_count) & (around != count))
    kept = kept[np.lexsort((first[kept], -ns[kept]))]
    root, count, ns = rows[first[kept]], count[kept], ns[kept]
    columns: dict[str, Cells] = {
        "name": [normal_name(_KINDS[kind], core.names[code]) for code in c.name[root].tolist()],
        "kind": [kind] * len(root),
        "count": count,
        "gpu_events": np.searchsorted(core.gpu_rows, c.last[root], "right") - np.searchsorted(core.gpu_rows, root),
        "gpu_time_us": ns / 1e3,
        "mean_gpu_time_us": ns / 1e3 / np.maximum(count, 1),
        "percent": percent(ns, int(c.dur_ns[core.gpu_rows].sum())),
        "class": [f"class:{key}" for key in hex_of(lanes[first[kept]])],
        "uid": c.uid[root],
    }
    return REPEATED_SUBTREES.table(columns, w.titled(f"Repeated subtrees: {kind}"))


def path_to_python(g: Core | Window, uid: int | None = None) -> Table:
    """The calls from a GPU event up to its line of Python.

    A backward op has no Python above it: where there is none, the way goes on with the forward op that the nearest
    backward op belongs to. Frames that do nothing but pass a call on, such as `_call_impl`, are left out, unless the
    window shows all frames.

    Args:
        uid: the kernel, copy or fill; None for the longest kernel with a launch in the trace, and no communication.

    Raises:
        NodeNotFoundError: no node has this uid.
        AnalysisError: the node is no GPU event.
    """
    w = window_of(g)
    core, c = w.core, w.core.columns
    kernel = _longest_kernel(w) if uid is None else _gpu_event(core, uid)
    way = [] if kernel is None else [kernel, *ancestors(c, kernel)]
    links: list[str | None] = [None, "launched by", *["called by"] * len(way)][: len(way)]
    if way and not is_kind(c.kind[way], PYTHON_KINDS).any():
        turn = next((i for i, row in enumerate(way) if len(autograd_of(core).forward_of(row))), None)
        if turn is not None:
            forward = min(autograd_of(core).forward_of(way[turn]), key=lambda row: (int(c.start_ns[row]), row))
            rest = ancestors(c, forward)
            way, links = (
                [*way[: turn + 1], forward, *rest],
                [*links[: turn + 1], "backward of", *["called by"] * len(rest)],
            )
    rows = np.array(way, np.int64)
    if not w.all_frames:
        shown = codes_of(core)[rows] != Code.passed_on
        rows, links = rows[shown], list(compress(links, shown.tolist()))
    columns: dict[str, Cells] = {
        "level": np.arange(len(rows)),
        "link": links,
        "kind": [Kind(kind).name for kind in c.kind[rows].tolist()],
        "name": names_of(core, rows),
        "uid": c.uid[rows],
        "dur_us": c.dur_ns[rows] / 1e3,
        "gpu_time_us": core.gpu_sum_ns[rows] / 1e3,
    }
    return PATH_TO_PYTHON.table(columns, "From kernel to Python")


def unusual_kernels(g: Core | Window, min_calls: int = 5) -> Table:
    """Kernels that a single call of an op runs, and no other call of that op, the greatest time first.

    Args:
        min_calls: how many calls of the op with kernels there must be.
    """
    w = window_of(g)
    core, c = w.core, w.core.columns
    kernels = w.rows_of_kind(Kind.Kernel)
    kernels = kernels[c.owner[kernels] >= 0]
    owner = c.owner[kernels]
    op, of_op = distinct(c.name[owner])
    calls, of_call = distinct(owner)
    number = np.bincount(distinct(c.name[calls])[1], minlength=len(op))
    total = sum_by_group(of_op, c.dur_ns[kernels], len(op))
    arguments = argument_codes(core)
    like, _ = group_by(c.name[calls], arguments[c.argset[calls]])
    alike = np.bincount(like)[like]

    group, first = group_by(owner, c.name[kernels])
    # Groups are one call and one kernel each, so a pair of op and kernel that occurs once is of a single call.
    pair, _ = group_by(c.name[owner[first]], c.name[kernels[first]])
    alone = np.bincount(pair)[pair] == 1
    found = np.flatnonzero(alone & (number[of_op[first]] >= min_calls))
    ns = sum_by_group(group, c.dur_ns[kernels], len(first))[found]
    at = first[found]
    columns: dict[str, Cells] = {
        "op": names_of(core, owner[at]),
        "kernel": names_of(core, kernels[at]),
        "calls": number[of_op[at]],
        "same_arguments": alike[of_call[at]],
        "input_dims": [(core.argsets[code][0] or None) if code >= 0 else None for code in c.argset[owner[at]].tolist()],
        "count": np.bincount(group, minlength=len(first))[found],
        "gpu_time_us": ns / 1e3,
        "percent": percent(ns, total[of_op[at]]),
        "uid": c.uid[owner[at]],
    }
    order = np.lexsort((columns["uid"], -ns))
    return UNUSUAL_KERNELS.table(columns, w.titled("Kernels that one call of an op runs")).take(order)


def recomputed_share(g: Core | Window) -> Table:
    """GPU time of recomputed activations by op and module, the greatest first."""
    w = window_of(g)
    core, c = w.core, w.core.columns
    again = w.gpu_rows[autograd_of(core).recompute[w.gpu_rows]]
    module = nearest_above(c, again, (Kind.Module,))
    plain = [normal_name(Kind.Module, name) for name in names_of(core, module) if name is not None]
    label = np.full(len(again), -1)
    label[module >= 0] = text_codes(plain)
    texts = dict(zip(label[module >= 0].tolist(), plain, strict=True))
    op = launcher(c, again)
    group, first = group_by(np.where(op >= 0, c.name[op], -1), label)
    ns = sum_by_group(group, c.dur_ns[again], len(first))
    columns: dict[str, Cells] = {
        "op": names_of(core, op[first]),
        "module": [texts.get(code) for code in label[first].tolist()],
        "gpu_events": np.bincount(group, minlength=len(first)),
        "gpu_time_us": ns / 1e3,
        "percent": percent(ns, int(c.dur_ns[w.gpu_rows].sum())),
    }
    order = cell_order(ns, columns["op"], columns["module"])
    return RECOMPUTED_SHARE.table(columns, w.titled("Recomputation by op and module")).take(order)


def _longest_kernel(w: Window) -> int | None:
    """Row of the longest kernel, of those with a launch that compute if there are any; None without kernels."""
    c = w.core.columns
    kernels = w.rows_of_kind(Kind.Kernel)
    communicates = gpu_classes(w.core, kernels) == COMMUNICATION
    order = np.lexsort((c.uid[kernels], -c.dur_ns[kernels], communicates, c.parent[kernels] < 0))
    return int(kernels[order[0]]) if len(order) else None


def _gpu_event(core: Core, uid: int) -> int:
    """Row of a GPU event by its uid."""
    row = core.row(uid)
    kind = Kind(int(core.columns.kind[row]))
    if kind not in GPU_KINDS:
        raise AnalysisError(f"uid {uid} is of kind {kind.name}, no kernel, copy or fill")
    return row


OUTLIVING_EVENTS = TableSchema(
    "outliving_events",
    "Which calls end after the call that they started in.",
    {
        "kind": Column.key("kind of the events"),
        "name": Column.key("name of the events"),
        "count": Column.count("how many of them end after the event that they started in"),
        "callees": Column.count("how many of these end after their caller"),
        "greatest_excess_us": Column("longest time by which one of these ends after its caller", "us", Role.max),
        "total_excess_us": Column.total("sum of these times", "us"),
        "caller": Column.text("the caller in the case of the greatest excess"),
        "uid": Column.uid("the event in that case, else the first"),
    },
)


def outliving_events(g: Core | Window) -> Table:
    """Calls that end after the call that they started in, by kind and name, the most frequent first.

    If at least half of such a call lies inside, it stays a callee of the other, which it then exceeds; else it stands
    beside it.
    """
    w = window_of(g)
    core, c = w.core, w.core.columns
    rows = np.flatnonzero((c.flags & Flag.outlives_parent.value) > 0)
    rows = rows[w.holds(rows)]
    caller = c.parent[rows].astype(np.int64)
    excess = np.where(caller >= 0, ends(core, rows) - ends(core, caller), 0)
    # The greatest excess first, so that the first of a group is its worst case.
    order = np.lexsort((rows, -np.maximum(excess, 0)))
    rows, excess = rows[order], excess[order]
    callee = excess > 0
    group, worst = group_by(c.kind[rows], c.name[rows])
    callees = np.bincount(group[callee], minlength=len(worst))
    total = sum_by_group(group, np.where(callee, excess, 0), len(worst))
    exceeds = callee[worst]
    columns: dict[str, Cells] = {
        "kind": [Kind(kind).name for kind in c.kind[rows[worst]].tolist()],
        "name": names_of(core, rows[worst]),
        "count": np.bincount(group, minlength=len(worst)),
        "callees": callees,
        "greatest_excess_us": np.where(exceeds, excess[worst] / 1e3, np.nan),
        "total_excess_us": np.where(exceeds, total / 1e3, np.nan),
        "caller": names_of(core, np.where(exceeds, c.parent[rows[worst]], -1)),
        "uid": c.uid[rows[worst]],
    }
    table = OUTLIVING_EVENTS.table(columns, w.titled("Calls that outlive their callers"))
    keys = list(zip(columns["count"], columns["kind"], columns["name"], strict=True))
    by_count = sorted(range(len(keys)), key=lambda at: (-keys[at][0], *keys[at][1:]))
    return table.take(np.array(by_count, np.int64))
