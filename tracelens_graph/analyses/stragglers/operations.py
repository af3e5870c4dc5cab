"""Operations of pipelined training jobs, as ByteDance publishes them: a parquet file with one row per operation.

What an operation waits for follows from its type: those of one stream of a worker run one after the other; a
computation waits for what it receives, a send for its computation, the first forward pass of a model chunk for its
parameters, what reduces gradients for the last backward pass, and the optimizer for them all. Communication moves
data from when the last of its peers has come.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np

from tracelens_graph.analyses.critical_path.rerun import forward
from tracelens_graph.analyses.stragglers.work import Work
from tracelens_graph.errors import MissingExtraError, TraceError
from tracelens_graph.graph.arrays import distinct, expanded, positions_by
from tracelens_graph.utils.arrays import Codes, Mask, Ns, Rows

COLUMNS = ("dp_rank", "stage", "step", "optype", "start_ts", "duration", "seq_id", "mc", "gmc")

_TRANSFERS = ("forward-send", "forward-recv", "backward-send", "backward-recv")
_TYPES = {name: f"{name.partition('-')[0]}-pp-comm" for name in _TRANSFERS}
_PARAMETERS, _CLIP, _EMBEDDING = "params-all-gather", "optimizer-clip-main-grad", "embedding-grads-all-reduce"
_WITHIN_WORKER = "layernorm-grads-all-reduce"
"""Its peers are tensor-parallel ranks; one of them stands for all."""
_COMPUTE = "-compute"


def work_of_parquet(path: str) -> Work:
    """The operations of a job.

    Args:
        path: a parquet file with columns `dp_rank`, `stage`, `step`, `optype` (`forward-compute`, ...), `start_ts` and
            `duration` in seconds, `seq_id`, `mc` and `gmc`, the number of a model chunk on its stage and in the model.

    Raises:
        MissingExtraError: pyarrow is not installed.
        TraceError: the file is no such table, or its operations wait for each other.
    """
    try:
        import pyarrow as pa
        from pyarrow import parquet
    except ImportError:
        raise MissingExtraError("pyarrow", "parquet") from None
    name = os.path.basename(path)
    try:
        table = parquet.read_table(path)
    except (OSError, pa.ArrowException) as error:
        raise TraceError(f"{path}: no parquet file that can be read ({str(error).splitlines()[0]})") from None
    if absent := [one for one in COLUMNS if one not in table.column_names]:
        raise TraceError(f"{path}: no operations of a job: there is no column {absent[0]!r}")
    if not table.num_rows:
        raise TraceError(f"{path}: there are no operations in it")
    kinds = table["optype"].cast(pa.string()).to_pylist()
    try:
        columns = {one: np.asarray(table[one].to_numpy(), float) for one in COLUMNS if one != "optype"}
    except (ValueError, TypeError) as error:
        raise TraceError(f"{path}: a column of numbers holds something else ({error})") from None
    if any(not np.isfinite(values).all() for values in columns.values()) or None in kinds:
        raise TraceError(f"{path}: cells are empty")
    return _work(columns, np.array(kinds), name)


def _work(columns: Mapping[str, np.ndarray], kinds: np.ndarray, name: str) -> Work:
    ns = {one: np.rint(columns[one] * 1e9).astype(np.int64) for one in ("start_ts", "duration")}
    order = np.lexsort((ns["start_ts"] + ns["duration"], ns["start_ts"]))
    whole = {one: columns[one].astype(np.int64)[order] for one in ("dp_rank", "stage", "step", "seq_id", "mc", "gmc")}
    start, kind = ns["start_ts"][order], kinds[order]
    end = start + ns["duration"][order]
    # Both ends of a transfer are of one type, as published.
    types = np.array([_TYPES.get(one, one) for one in kind.tolist()])
    names, code = np.unique(types, return_inverse=True)
    dp, stage, step = whole["dp_rank"], whole["stage"], whole["step"]
    group = _peers(kind, whole)
    communicates = group >= 0
    first, second = _waits(kind, communicates, whole)
    count, groups = len(kind), int(group.max()) + 1
    met = np.full(groups, np.iinfo(np.int64).min)
    np.maximum.at(met, group[communicates], start[communicates])
    takes = end - start
    takes[communicates] = np.maximum(end[communicates] - met[group[communicates]], 0)
    ideal = _ideal(takes, np.unique(kind, return_inverse=True)[1], communicates)
    # Points: starts, ends, and where all peers have come.
    begins, ends, there = np.arange(count), count + np.arange(count), 2 * count + group
    alone, joint = np.flatnonzero(~communicates), np.flatnonzero(communicates)
    before: Rows = np.concatenate((ends[first], begins[joint], begins[alone], there[joint]))
    after: Rows = np.concatenate((begins[second], there[joint], ends[alone], ends[joint]))
    waits = np.zeros(len(first) + len(joint), np.int64)
    runs = np.concatenate((alone, joint))
    _, worker = distinct((dp - dp.min()) * (int(stage.max()) + 1) + stage)
    _, at = np.unique(worker, return_index=True)
    steps, step_at = distinct(step)
    order = _ordered(before, after, 2 * count + groups, name)
    nothing, last = np.zeros(2 * count + groups, np.int64), np.zeros(len(steps), np.int64)

    def length_ns(kept: Mask) -> float:
        now = np.where(kept[worker[runs], code[runs]], takes[runs], ideal[runs])
        moment = forward(before, after, np.concatenate((waits, now)), order, nothing)
        np.maximum.at(ended := last.copy(), step_at, moment[ends])
        return float(ended.mean())

    shape = len(at), len(names)
    excess = np.bincount(worker * len(names) + code, np.maximum(takes - ideal, 0), shape[0] * shape[1]).reshape(shape)
    return Work(
        kinds=names.tolist(),
        workers=[f"dp {dp[one]} stage {stage[one]}" for one in at.tolist()],
        stage=stage[at],
        dp_rank=dp[at],
        excess_ns=excess,
        length_ns=length_ns,
        explain=lambda of, at: _explained(takes, code, worker, names.tolist(), of, at),
        edges=len(before),
        mean_of=len(steps),
    )


def _explained(takes: Ns, code: Codes, worker: Codes, names: Sequence[str], of: int, at: int) -> tuple[str, str]:
    """What is slow on a worker: a type of operations, or computation; and how many times as long as usual it takes.

    Usual is the median of the other workers. Computation is named as a whole where several types of it have at least
    half of the excess of that with most.

    Args:
        takes, code, worker: of each operation how long it takes, its type, and its worker.
        names: of the types.
        of, at: places of the worker, and of the type with most of its excess.
    """
    shape = int(worker.max()) + 1, len(names)
    place = worker * len(names) + code
    count = np.bincount(place, minlength=shape[0] * shape[1]).reshape(shape)
    mean = np.bincount(place, takes, shape[0] * shape[1]).reshape(shape) / np.maximum(count, 1)
    factors, excess = {}, {}
    for one, name in enumerate(names):
        others = np.delete(mean[:, one], of)[np.delete(count[:, one], of) > 0]
        if count[of, one] and len(others) and (usual := float(np.median(others))) > 0:
            factors[name] = float(mean[of, one]) / usual
            excess[name] = float(count[of, one] * (mean[of, one] - usual))
    most = excess.get(names[at], 0.0)
    if most <= 0:
        return names[at], ""
    slow = [name for name in factors if name.endswith(_COMPUTE) and 2 * excess[name] >= most]
    if names[at] not in slow or len(slow) < 2:
        return names[at], f"{factors[names[at]]:.2f}x"
    slow.sort(key=lambda name: -factors[name])
    return "computation", ", ".join(f"{name.removesuffix(_COMPUTE)} {factors[name]:.2f}x" for name in slow)


def _ideal(takes: Ns, code: Codes, communicates: Mask) -> Ns:
    """What each operation takes where all of a type take the same: communication the median, all else the mean."""
    found = takes.copy()
    for _, of in positions_by(code):
        found[of] = int(np.median(takes[of]) if communicates[of[0]] else takes[of].mean())
    return found


def _peers(kind: np.ndarray, of: Mapping[str, np.ndarray]) -> Codes:
    """Per operation the number of the communication that it is a part of; -1 for computation."""
    forward = np.char.startswith(kind, "forward-")
    transfers = np.isin(kind, _TRANSFERS)
    sends = np.char.endswith(kind, "-send")
    stages = int(of["stage"].max()) + 1
    sender = np.where(sends, of["stage"], of["stage"] + np.where(forward, -1, 1)) % stages
    communicates = transfers | np.isin(kind, (_CLIP, _EMBEDDING, _WITHIN_WORKER))
    for end in ("-all-gather", "-reduce-scatter", "-all-reduce"):
        communicates |= np.char.endswith(kind, end)
    # All workers clip together, stages tie their embeddings within a pipeline, all else is between equal stages.
    everybody, pipeline, worker = kind == _CLIP, kind == _EMBEDDING, kind == _WITHIN_WORKER
    where = np.where(transfers, sender, np.where(everybody | pipeline, -1, of["stage"]))
    rank = np.where(transfers | pipeline | worker, of["dp_rank"], -1)
    what = np.where(transfers, np.where(forward, "forward", "backward"), kind)
    _, code = np.unique(what, return_inverse=True)
    keys = np.stack([code, where, rank, of["step"], of["seq_id"]], axis=1)[communicates]
    number = np.full(len(kind), -1)
    number[communicates] = np.unique(keys, axis=0, return_inverse=True)[1].reshape(-1)
    return number


def _waits(kind: np.ndarray, communicates: Mask, of: Mapping[str, np.ndarray]) -> tuple[Rows, Rows]:
    """Pairs of operations of a worker: the second cannot begin before the first has ended."""
    found: list[tuple[int, int]] = []
    transfers = np.isin(kind, _TRANSFERS)
    stream = np.where(transfers, kind, np.where(communicates, "data parallel", "compute"))
    last_chunk = int(of["gmc"].max())
    _, place = np.unique(np.stack([of["step"], of["dp_rank"], of["stage"]], axis=1), axis=0, return_inverse=True)
    for _, rows in positions_by(place.reshape(-1)):
        for name in np.unique(stream[rows]):
            found += pairwise(rows[stream[rows] == name].tolist())
        by = {name: rows[kind[rows] == name] for name in np.unique(kind[rows]).tolist()}
        none = rows[:0]
        for way, edge in (("forward", 0), ("backward", last_chunk)):
            computes = by.get(way + _COMPUTE, none)
            chunk = of["gmc"][computes]
            # The first chunk of the model receives nothing, and the last one sends nothing.
            found += zip(by.get(way + "-recv", none).tolist(), computes[chunk != edge].tolist(), strict=False)
            sends = computes[chunk != last_chunk - edge]
            found += zip(sends.tolist(), by.get(way + "-send", none).tolist(), strict=False)
        found += _around(rows, by, stream, of["mc"])
    pairs = np.array(found, np.int64).reshape(-1, 2)
    return pairs[:, 0], pairs[:, 1]


def _around(rows: Rows, by: Mapping[str, Rows], stream: np.ndarray, chunk: np.ndarray) -> list[tuple[int, int]]:
    """What parameters, gradients and the optimizer of a worker wait for, and what waits for them."""
    none = rows[:0]
    forward, backward = by.get("forward" + _COMPUTE, none), by.get("backward" + _COMPUTE, none)
    shared = rows[stream[rows] == "data parallel"]
    parameters = by.get(_PARAMETERS, none)
    gradients = shared[~np.isin(shared, parameters)]

    def like(computes: Rows, one: int) -> list[int]:
        same = computes[chunk[computes] == chunk[one]]
        return (same if len(same) else computes).tolist()

    found = [(one, use) for one in parameters.tolist() for use in like(forward, one)[:1]]
    found += [(last, one) for one in gradients.tolist() for last in like(backward, one)[-1:]]
    return found + [(last, one) for one in by.get("optimizer", none).tolist() for last in gradients[-1:].tolist()]


def _ordered(before: Rows, after: Rows, points: int, name: str) -> Rows:
    """Points in an order in which every edge leads forward."""
    out = np.argsort(before, kind="stable")
    low = np.searchsorted(before[out], np.arange(points + 1))
    missing = np.bincount(after, minlength=points)
    front = np.flatnonzero(missing == 0)
    found = [front]
    while len(front):
        reached = after[out[expanded(low[front], low[front + 1])[0]]]
        np.subtract.at(missing, reached, 1)
        front = np.unique(reached[missing[reached] == 0])
        found.append(front)
    order = np.concatenate(found)
    if len(order) < points:
        raise TraceError(f"{name}: operations wait for each other: sequence numbers do not fit their peers")
    return order
