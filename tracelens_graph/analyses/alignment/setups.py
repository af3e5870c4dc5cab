"""What differs between two recordings beside the program: device, sizes, software, options; what that forbids."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from tracelens_graph.analyses.alignment.argument_words import other_sizes, other_types
from tracelens_graph.analyses.alignment.compared_steps import REPETITION
from tracelens_graph.analyses.alignment.difference import Diff
from tracelens_graph.analyses.alignment.forest import Forest
from tracelens_graph.analyses.shared.common_factor import agreed_factor
from tracelens_graph.analyses.shared.gpu_work import COMPUTATION, gpu_classes
from tracelens_graph.graph.classes import normal_name
from tracelens_graph.graph.core import Core
from tracelens_graph.graph.info import version_text
from tracelens_graph.graph.intervals import sum_by_group
from tracelens_graph.graph.window import Window
from tracelens_graph.schema import Kind
from tracelens_graph.tables.names import fitted
from tracelens_graph.utils.texts import quoted

_RECORDED = re.compile(r".*(clock|power|batch_size|input_length|repo_id|model_name|dtype).*", re.IGNORECASE)
"""Keys of a file, or of what it says of a device, that describe the run: their values are compared."""
_OPTIONS = {"with_stack": "Python stacks", "profile_memory": "memory events", "with_flops": "FLOPs"}
"""Options of the profiler that cost time of the host, by their keys -> what they record."""
_OF_DEVICE = "times of kernels cannot show a regression"
_SIZES = 0.5
"""Share of the time of shared work from which on other sizes, or types, of its arguments are those of the run."""
_MANY = 10
"""Calls of a kernel, on either side, from which on their number shows an amount of work."""
_SHORT = 76
"""Characters of both lines together that make one."""
_LONGEST = 98
"""Characters of a line; what has no room is counted."""


class Unlike(NamedTuple):
    """Something that differs between two recordings, and what may not be concluded because of it; "" for nothing."""

    what: str
    forbids: str = ""


def setup_lines(difference: Diff) -> list[str]:
    """What differs between two recordings beside the program, and what may not be concluded; at most two lines."""
    found = list(unlike(difference))
    if not found:
        return []
    forbidden = list(dict.fromkeys(one.forbids for one in found if one.forbids))
    what = _line("Unlike", [one.what for one in found])
    if not forbidden:
        return [what]
    so = _line("So", forbidden)
    return [f"{what}. {so}"] if len(what) + len(so) <= _SHORT else [what, so]


def unlike(difference: Diff) -> Iterator[Unlike]:
    """What differs between two recordings beside the program, the gravest first."""
    windows, sides = (difference.a, difference.b), difference.alignment.sides
    a, b = (window.core for window in windows)
    models = [_model(side) for side in sides]
    if all(models) and not any(model in _classes(side) for model, side in zip(models, sides[::-1], strict=True)):
        yield Unlike(f"models {quoted(models[0])} -> {quoted(models[1])}", "places pair work of other models")
    devices = [{str(one["name"]) for one in _described(core) if one.get("name")} for core in (a, b)]
    if all(devices) and devices[0] != devices[1]:
        yield Unlike("GPUs", _OF_DEVICE)
    yield from _of_recorded(a, b)
    yield from _of_arguments(difference)
    worlds = [core.info.world_size for core in (a, b)]
    if all(worlds) and worlds[0] != worlds[1]:
        yield Unlike(f"ranks {worlds[0]:,} -> {worlds[1]:,}", "collectives and work of a rank differ by its job")
    steps = [len(window.rows_of_kind(Kind.Step)) for window in windows]
    if all(steps) and steps[0] != steps[1]:
        yield Unlike(f"steps {steps[0]:,} -> {steps[1]:,}", "times are of other numbers of steps")
    if (work := amount_of_work(difference)) is not None:
        yield work
    yield from _of_software(a, b)
    yield from _of_recording(difference.names, windows)


def _line(label: str, parts: list[str]) -> str:
    """As many parts as one line has room for, the first in any case, cut where a file says more than a line."""
    parts = [fitted(part, _LONGEST - len(f"{label}: ; {len(parts)} more")) for part in parts]
    for number in range(len(parts), 0, -1):
        rest = f"; {len(parts) - number} more" if number < len(parts) else ""
        line = f"{label}: {'; '.join(parts[:number])}{rest}"
        if len(line) <= _LONGEST:
            break
    return line


def _model(side: Forest) -> str:
    """Class of the outermost module around most of the GPU time; "" where most has none."""
    core = side.window.core
    top = np.full(len(side.parent), -1, np.int64)
    for here in side.levels[1:]:
        is_module = core.columns.kind[side.row[here]] == Kind.Module
        above = top[side.parent[here]]
        top[here] = np.where((above < 0) & is_module, here, above)
    ns: Counter[int] = Counter()
    for node, time in zip(top[side.leaf_parent].tolist(), side.ns.tolist(), strict=True):
        ns[node] += time
    classes: Counter[str] = Counter()
    for node, time in ns.items():
        classes[_class(side, node) if node >= 0 else ""] += time
    return classes.most_common(1)[0][0] if classes else ""


def _class(side: Forest, node: int) -> str:
    core = side.window.core
    name = normal_name(Kind.Module, core.names[core.columns.name[side.row[node]]])
    return name.removeprefix("nn.Module: ")


def _classes(side: Forest) -> set[str]:
    """Classes of all modules of a side."""
    nodes = np.flatnonzero(side.row >= 0)
    kinds = side.window.core.columns.kind[side.row[nodes]]
    return {_class(side, node) for node in nodes[kinds == Kind.Module].tolist()}


def _described(core: Core) -> list[Mapping[str, Any]]:
    """What a file says of each device."""
    listed = core.info.metadata.get("deviceProperties")
    return [one for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []


def _of_recorded(a: Core, b: Core) -> Iterator[Unlike]:
    """Clocks, power, batch and models that files name, by key."""
    first, second = recorded_setup(a), recorded_setup(b)
    for key in first:
        if key in second and first[key] != second[key]:
            is_of_device = re.search("clock|power", key, re.IGNORECASE)
            forbids = _OF_DEVICE if is_of_device else "work may differ"
            yield Unlike(f"{key} {quoted(first[key])} -> {quoted(second[key])}", forbids)


def recorded_setup(core: Core) -> dict[str, str]:
    """Clocks, power, batch, types and models that a file names of the run, by their keys."""
    return dict(_scalars(core.info.metadata)) | {
        key: text for one in _described(core)[:1] for key, text in _scalars(one)
    }


def _scalars(values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Values by the keys that describe a run, at any depth."""
    todo = [values]
    while todo:
        for key, value in todo.pop().items():
            if isinstance(value, dict):
                todo.append(value)
            elif isinstance(value, str | int | float) and _RECORDED.fullmatch(str(key)):
                yield str(key), str(value)


def _of_arguments(difference: Diff) -> Iterator[Unlike]:
    """Other sizes and types of the arguments of most computation that both sides have: those of the longest work.
    Collectives, which may take most of the time, have sizes of parameters, which another batch leaves as they are."""
    ns = _time_by_arguments(difference)
    cores = difference.a.core, difference.b.core
    for what, field, in_words in (("sizes", 0, other_sizes), ("types", 1, other_types)):
        known: Counter[str] = Counter()
        for codes, time in ns.items():
            first, second = (core.argsets[code][field] for core, code in zip(cores, codes, strict=True))
            if first and second:
                known[in_words(first, second).partition(",")[0]] += time
        every = known.total()
        del known[""]
        if known and known.total() >= _SIZES * every:
            text = known.most_common(1)[0][0]
            text = text if len(text) <= _LONGEST // 2 else f"{what} of arguments"
            yield Unlike(text, f"times are not of equal work (other {what})")


def _time_by_arguments(difference: Diff) -> dict[tuple[int, int], int]:
    """Codes of the arguments on both sides -> time of the first side: of the ops of matched computation, and, where
    other kernels do the work of an op, of the op that both sides call."""
    a, b = difference.alignment.sides
    partner = difference.alignment.leaves[0]
    computes = gpu_classes(a.window.core, a.events[a.first_event[:-1]]) == COMPUTATION
    here = np.flatnonzero((partner >= 0) & computes)
    points = [
        (*point.container, int(a.ns[leaves[(partner[leaves] < 0) & computes[leaves]]].sum()))
        for place in difference.places
        for point in place.points
        if min(point.container) >= 0 and all(point.leaves)
        for leaves in [np.array(point.leaves[0])]
    ]
    of_points = np.array(points, np.int64).reshape(-1, 3)
    node, other, time = np.concatenate(
        (np.stack((a.leaf_parent[here], b.leaf_parent[partner[here]], a.ns[here]), 1), of_points)
    ).T
    first, second = _argsets(a)[node], _argsets(b)[other]
    known = (first >= 0) & (second >= 0)
    pairs, pair = np.unique(np.stack((first[known], second[known])), axis=1, return_inverse=True)
    ns = sum_by_group(pair.ravel(), time[known], pairs.shape[1])
    return dict(zip(map(tuple, pairs.T.tolist()), ns.tolist(), strict=True))


def _argsets(side: Forest) -> np.ndarray:
    """Per node the code of its arguments; -1 for what is no op, and without any."""
    return np.where(side.is_op, side.window.core.columns.argset[side.row], -1)


def amount_of_work(difference: Diff) -> Unlike | None:
    """That two equally long recordings without steps hold unlike amounts of the same work: of most kernels one has more
    calls by a common factor, which no fusion does. None where steps are compared, or this is not so."""
    windows = difference.a, difference.b
    if any(len(w.rows_of_kind(Kind.Step)) or w.all_iterations or REPETITION in w.title for w in windows):
        return None
    calls, others = map(_calls_of_kernels, windows)
    pairs = [(calls.get(name, (0, 0)), others.get(name, (0, 0))) for name in calls | others]
    many = np.array([(*one, *other) for one, other in pairs if max(one[0], other[0]) >= _MANY], float).reshape(-1, 4)
    (number, ns), (of_other, ns_of_other) = many.T[:2], many.T[2:]
    both = (number > 0) & (of_other > 0)
    if not both.any():
        return None
    # Half a call for none: no factor of many calls comes near it.
    ratios = np.maximum(of_other, 0.5) / np.maximum(number, 0.5)
    factor = agreed_factor(ratios, ns + ns_of_other, np.arange(len(many)))
    lengths = [max(w.span_ns(), 1) for w in windows]
    if factor is None or abs(np.log(lengths[1] / lengths[0])) > abs(np.log(factor)) / 2:
        return None
    each = ns_of_other[both].sum() / (ns * ratios)[both].sum()
    return Unlike(f"amount of work (calls {factor:.2f}x)", f"totals do not compare speed: a call takes {each:.2f}x")


def _calls_of_kernels(w: Window) -> dict[str, tuple[int, int]]:
    """Of each kernel that computes how many calls there are, and their time, ns."""
    c = w.core.columns
    rows = w.gpu_rows[gpu_classes(w.core, w.gpu_rows) == COMPUTATION]
    codes, code = np.unique(c.name[rows], return_inverse=True)
    number, ns = np.bincount(code, minlength=len(codes)), sum_by_group(code, c.dur_ns[rows], len(codes))
    names = (w.core.names[one] for one in codes.tolist())
    return dict(zip(names, zip(number.tolist(), ns.tolist(), strict=True), strict=True))


def _of_software(a: Core, b: Core) -> Iterator[Unlike]:
    first, second = ({k: v for k, v in core.info.metadata.items() if k.endswith("_version")} for core in (a, b))
    for key in first:
        texts = [version_text(key, versions.get(key)) for versions in (first, second)]
        if key in second and texts[0] != texts[1]:
            yield Unlike(f"{key.removesuffix('_version').replace('_', ' ')} {texts[0]} -> {texts[1]}")


def _of_recording(names: tuple[str, str], windows: tuple[Window, Window]) -> Iterator[Unlike]:
    """What only one side recorded."""
    shapes, stacks = ([held(window) for window in windows] for held in (_has_shapes, _has_stacks))
    if shapes[0] != shapes[1]:
        yield Unlike(f"shapes only in {names[shapes[1]]}", "other sizes of arguments would not be seen")
    if stacks[0] != stacks[1]:
        yield Unlike(f"Python stacks only in {names[stacks[1]]}", "idle time is not comparable (stacks slow the host)")
    for key, what in _OPTIONS.items():
        values = [bool(window.core.info.metadata.get(key)) for window in windows]
        is_known = any(key in window.core.info.metadata for window in windows)
        if is_known and values[0] != values[1] and not (key == "with_stack" and stacks[0] != stacks[1]):
            yield Unlike(f"{what} only in {names[values[1]]}", "idle time may differ by what was recorded")


def _has_shapes(window: Window) -> bool:
    ops = window.rows_of_kind(Kind.Op)
    return bool((window.core.columns.argset[ops] >= 0).any())


def _has_stacks(window: Window) -> bool:
    return len(window.rows_of_kind(Kind.PythonFunction, Kind.Module)) > 0
