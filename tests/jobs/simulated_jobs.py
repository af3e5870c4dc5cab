"""An event simulation of training jobs with planted causes; it shares no code with the product.

A job is a short description; `write` runs it and writes one Kineto file a rank. Every rank runs its program: host time,
launches, kernels in streams, collectives that start when the last rank is there, transfers between stages. Times are
true microseconds; a host's clock enters only where files are written.
"""

from __future__ import annotations

import gzip
import json
import random
from collections import deque
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

Json = dict[str, Any]

COMPUTE = 7
MAIN, BACKWARD, GLOO = 1000, 2000, 3000
BASE_US = 1_700_000_000_000_000.0
LAUNCH_US, CALL_US, GAP_US = 4.0, 5.0, 1.0
OF_HOST: Mapping[str, tuple[str, str, str]] = {
    "data_loader": ("user_annotation", "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__",
                    "torch/utils/data/dataloader.py(733): __next__"),
    "python": ("python_function", "gc.py(12): collect", "gc.py(12): collect"),
    "allocation": ("cuda_runtime", "cudaMalloc", "model.py(31): forward"),
    "op": ("cpu_op", "aten::index", "model.py(40): mask"),
}  # fmt: skip
"""Cause -> category and name of the host's span, and the line of Python around it."""
ON_GPU = ("slower_kernels", "other_inputs", "more_gpu_work")


@dataclass(frozen=True)
class Cause:
    """What makes ranks late.

    Attributes:
        kind: one of `OF_HOST`, `ON_GPU`, or `slow_host`, which stretches all host time.
        ranks: where it strikes.
        us: host time, or time of further kernels, in each step.
        factor: how much longer kernels, or host time, take.
        steps: numbers of the steps in which it strikes, from 0; None for all.
        moves: strikes one of the ranks a step, in turn.
    """

    kind: str
    ranks: tuple[int, ...]
    us: float = 0.0
    factor: float = 1.0
    steps: tuple[int, ...] | None = None
    moves: bool = False

    def strikes(self, rank: int, step: int) -> bool:
        """Whether it makes a rank late in a step."""
        if rank not in self.ranks or (self.steps is not None and step not in self.steps):
            return False
        return not self.moves or self.ranks[step % len(self.ranks)] == rank


@dataclass(frozen=True)
class Job:
    """A job: ranks are laid out as tensor, then data, then pipeline parallel.

    Attributes:
        ranks, per_host: ranks of the job, and on each host.
        tensor, pipeline: ranks that share a layer, and stages.
        virtual: stages of the model that each stage of the pipeline has, interleaved.
        steps, layers, microbatches: of a stage; micro-batches count in a pipeline alone.
        style: "ddp" (all-reduce of buckets), "fsdp" (all-gather, reduce-scatter of layers) or "moe" (all-to-all).
        kernel_us, host_us: duration of a forward kernel, and of the host's part of an op.
        jitter: standard deviation of all durations, as a share of them.
        biases: how much slower some ranks are always, as a share.
        sync: the host waits for the GPU at the end of a step.
        gloo: collectives run on the host, and nothing on a GPU.
        stacks: Python's calls are recorded.
        hosts, sequences, args: files name the host; collectives their sequence numbers; and anything at all.
        clocks_us: what the clock of each host is ahead, by its number.
        stage_factor: how much longer kernels of a stage take.
        slow: (ranks, factor): a link between two, or all links of a group, has this share of its bandwidth.
        share: the share of its bandwidth that the link from one rank to another has.
        host_name: what hosts are called, by their number.
        gb_s, between_gb_s: bandwidth within a host and between hosts, GB/s.
        missing, cut, foreign: ranks without a file, with a cut one, and with that of another job.
        begins: rank -> number of the step at which its recording begins.
        ends: rank -> number of the step after which its recording ends.
        lost: rank -> how many of its collectives' kernels were not recorded.
    """

    ranks: int = 8
    per_host: int = 8
    tensor: int = 1
    pipeline: int = 1
    virtual: int = 1
    steps: int = 5
    layers: int = 4
    microbatches: int = 4
    style: str = "ddp"
    kernel_us: float = 250.0
    host_us: float = 20.0
    jitter: float = 0.01
    biases: Mapping[int, float] = field(default_factory=dict)
    sync: bool = True
    gloo: bool = False
    stacks: bool = True
    hosts: bool = True
    sequences: bool = True
    args: bool = True
    clocks_us: Sequence[float] = ()
    stage_factor: Mapping[int, float] = field(default_factory=dict)
    slow: tuple[tuple[tuple[int, ...], float], ...] = ()
    share: Callable[[int, int], float] = lambda source, target: 1.0
    host_name: Callable[[int], str] = "node{}".format
    gb_s: float = 200.0
    between_gb_s: float = 40.0
    causes: tuple[Cause, ...] = ()
    missing: tuple[int, ...] = ()
    cut: tuple[int, ...] = ()
    foreign: tuple[int, ...] = ()
    begins: Mapping[int, int] = field(default_factory=dict)
    ends: Mapping[int, int] = field(default_factory=dict)
    lost: Mapping[int, int] = field(default_factory=dict)
    seed: int = 0

    @property
    def data(self) -> int:
        """Ranks that share a stage and a part of each layer."""
        return self.ranks // self.tensor // self.pipeline

    def stage(self, rank: int) -> int:
        """The stage of a rank."""
        return rank // (self.tensor * self.data)

    def host(self, rank: int) -> int:
        """The number of a rank's host."""
        return rank // self.per_host

    def of_data(self, rank: int) -> tuple[int, ...]:
        """The data-parallel group of a rank."""
        first = self.stage(rank) * self.tensor * self.data + rank % self.tensor
        return tuple(first + at * self.tensor for at in range(self.data))

    def of_tensor(self, rank: int) -> tuple[int, ...]:
        """The tensor-parallel group of a rank."""
        first = rank - rank % self.tensor
        return tuple(range(first, first + self.tensor))

    def neighbour(self, rank: int, ahead: int, wraps: bool = False) -> int | None:
        """The rank of the stage before (-1) or behind (1), if there is one, or the pipeline wraps."""
        inside = 0 <= self.stage(rank) + ahead < self.pipeline
        return (rank + ahead * self.tensor * self.data) % self.ranks if inside or wraps else None

    def transfer_us(self, group: Sequence[int], size: float, passes: float, one_way: bool) -> float:
        """How long a ring, or a pair, takes for so many bytes."""

        def rate(one: int, other: int) -> float:
            slow = [factor for ranks, factor in self.slow if {one, other} <= set(ranks)]
            whole = self.gb_s if self.host(one) == self.host(other) else self.between_gb_s
            return whole * min(slow, default=1.0) * self.share(one, other)

        ways = [group] if one_way else zip(group, (*group[1:], group[0]), strict=True)
        ring = min(rate(one, other) for one, other in ways)
        return 8.0 + 2.0 * (len(group) - 1) + passes * size / (ring * 1e3)


@dataclass
class Part:
    """A rank's part of a collective, or its end of a transfer."""

    rank: Rank
    key: tuple[Any, ...]
    group: tuple[int, ...]
    ready_us: float
    event: Json
    size: float
    passes: float
    sends: bool


Program = Generator[Part, float, None]

PASSES = {"allreduce": 2.0, "send": 1.0, "recv": 1.0}


class Rank:
    """A rank as it runs: its clocks, streams and events."""

    def __init__(self, job: Job, number: int, groups: dict[tuple[int, ...], str]) -> None:
        self.job, self.number, self.groups = job, number, groups
        self.now = 100.0 + number % 7
        self.free: dict[int, float] = {}
        self.events: list[Json] = []
        self.marks: list[float] = []
        self._random = random.Random(f"{job.seed}/{number}")
        self._ids = 0
        self._sequence: dict[tuple[Any, ...], int] = {}
        self._step = 0
        self._tid = MAIN

    # --- what a program is made of ---

    def _jitter(self) -> float:
        return max(0.2, self._random.gauss(1.0, self.job.jitter)) * (1 + self.job.biases.get(self.number, 0.0))

    def _causes(self, *kinds: str) -> list[Cause]:
        return [one for one in self.job.causes if one.kind in kinds and one.strikes(self.number, self._step)]

    def _factor(self, *kinds: str) -> float:
        found = 1.0
        for one in self._causes(*kinds):
            found *= one.factor
        return found

    def _event(self, cat: str, name: str, start: float, dur: float, tid: int | None = None, **args: Any) -> Json:
        on_gpu = "device" in args
        made = {"ph": "X", "cat": cat, "name": name, "pid": 0 if on_gpu else 50_000 + self.number,
                "tid": args["stream"] if on_gpu else tid or self._tid, "ts": start, "dur": dur,
                "args": args}  # fmt: skip
        self.events.append(made)
        return made

    def _next(self) -> int:
        self._ids += 1
        return self._ids

    def host(self, cat: str, name: str, us: float, **args: Any) -> Json:
        """Host time of one span."""
        dur = us * self._jitter() * self._factor("slow_host")
        made = self._event(cat, name, self.now, dur, **args)
        self.now += dur
        return made

    def _launch(self, op: str, call: str, **args: Any) -> tuple[int, float]:
        """An op with a launch in its end: correlation and the time at which the GPU may start."""
        of_op = self.host("cpu_op", op, self.job.host_us, **{"External id": self._next()}, **args)
        number = self._next()
        self._event("cuda_runtime", call, self.now, CALL_US, correlation=number)
        self.now += CALL_US + 1.0
        of_op["dur"] = self.now - of_op["ts"]
        self.now += 1.0
        return number, self.now - 3.0 + LAUNCH_US

    def work(self, op: str, name: str, us: float, dims: Sequence[Sequence[int]] = (), **more: Any) -> None:
        """An op of one kernel or copy in the compute stream; without a GPU, of host time."""
        dur = us * self._jitter() * self._factor("slower_kernels", "other_inputs")
        dur *= self.job.stage_factor.get(self.job.stage(self.number), 1.0)
        if dims and (larger := self._factor("other_inputs")) != 1.0:
            dims = [[round(dims[0][0] * larger), *dims[0][1:]], *dims[1:]]
        args = {"Input Dims": list(dims), "Input type": ["float"] * len(dims)} if dims else {}
        if self.job.gloo:
            self.host("cpu_op", op, dur, **args)
            return
        cat = "gpu_memcpy" if "Memcpy" in name else "kernel"
        number, may = self._launch(op, "cudaMemcpyAsync" if cat == "gpu_memcpy" else "cudaLaunchKernel", **args)
        start = max(may, self.free.get(COMPUTE, 0.0) + GAP_US)
        self._event(cat, name, start, dur, device=0, stream=COMPUTE, correlation=number, **more)
        self.free[COMPUTE] = start + dur

    def wait(self) -> None:
        """The host waits for the compute stream."""
        end = max(self.now + 3.0, self.free.get(COMPUTE, 0.0))
        if not self.job.gloo:
            self._event("cuda_runtime", "cudaDeviceSynchronize", self.now, end - self.now, correlation=self._next())
        self.now = end

    def collective(
        self, kind: str, group: tuple[int, ...], elements: int, stream: int, peer: int | None = None, after: bool = True
    ) -> Program:
        """Take part in a collective, behind the compute stream if `after`; a transfer has a peer."""
        if len(group) < 2:
            return
        ends = () if peer is None else (self.number, peer) if kind == "send" else (peer, self.number)
        lane = (group, ends)
        self._sequence[lane] = sequence = self._sequence.get(lane, 0) + 1
        n = len(group)
        into, out = elements, elements
        if kind == "_allgather_base":
            out = elements * n
        elif kind == "_reduce_scatter_base":
            into = elements * n
        args: Json = {"Collective name": kind, "In msg nelems": into, "Out msg nelems": out, "Group size": n,
                      "dtype": "Float", "In split size": "[]", "Out split size": "[]",
                      "Process Group Name": self.groups.setdefault(group, str(len(self.groups))),
                      "Process Group Description": "default_pg" if n == self.job.ranks else "mesh",
                      "Process Group Ranks": str(list(group))}  # fmt: skip
        if self.job.sequences:
            args["Seq"] = sequence
        if ends:
            args |= {"Src Rank": ends[0], "Dst Rank": ends[1]}
        if not self.job.args:
            args = {}
        passes = PASSES.get(kind, 1.0) * (1.0 if ends else (n - 1) / n)
        size = 4.0 * max(into, out)
        if self.job.gloo:
            name = {"allreduce": "gloo:all_reduce", "_allgather_base": "gloo:all_gather"}.get(kind, f"gloo:{kind}")
            dims = {"Input Dims": [[elements]], "Input type": ["float"]}
            self.host("cpu_op", "c10d::allreduce_", self.job.host_us)
            ready = max(self.now, self.free.get(stream, 0.0))
            event = self._event("user_annotation", name, ready, 0.0, GLOO + stream, **dims)
        else:
            number, may = self._launch("record_param_comms", "cudaLaunchKernel", **args)
            streams = (stream, COMPUTE) if after else (stream,)
            ready = max(may, *(self.free.get(one, 0.0) + GAP_US for one in streams))
            words = {"allreduce": "AllReduce_Sum_f32", "_allgather_base": "AllGather",
                     "_reduce_scatter_base": "ReduceScatter_Sum_f32"}  # fmt: skip
            word = words.get(kind, "SendRecv")
            name = f"ncclDevKernel_{word}_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
            event = self._event("kernel", name, ready, 0.0, device=0, stream=stream, correlation=number, **args)
        self.free[stream] = yield Part(
            self, (*lane, sequence), ends or group, ready, event, size, passes, kind == "send"
        )

    def stay(self, stream: int) -> None:
        """The compute stream, or without a GPU the host, waits for another stream."""
        if self.job.gloo:
            self.now = max(self.now, self.free.get(stream, 0.0))
        else:
            self.free[COMPUTE] = max(self.free.get(COMPUTE, 0.0), self.free.get(stream, 0.0))

    # --- the program ---

    def program(self) -> Program:
        """All steps of the rank."""
        for step in range(self.job.steps):
            self._step = step
            self.marks.append(self.now)
            outer = self._python("train.py(70): train_step", "train.py(10): main")
            self._strike("data_loader")
            self.host("user_annotation", OF_HOST["data_loader"][1], 60.0)
            self.work("aten::copy_", "Memcpy HtoD (Pinned -> Device)", 40.0, bytes=1 << 20)
            if self.job.pipeline < 2:
                yield from self._passes()
            else:
                yield from self._interleaved() if self.job.virtual > 1 else self._pipelined()
            yield from self._optimizer()
            if self.job.sync:
                self.wait()
            for call in outer:
                call["dur"] = self.now - call["ts"]
            self._event("user_annotation", f"ProfilerStep#{self._step + 3}", self.marks[-1], self.now - self.marks[-1])
        self.wait()
        self.marks.append(self.now)

    def _python(self, *names: str) -> list[Json]:
        if not self.job.stacks:
            return []
        return [
            self._event("python_function", name, self.now, 0.0, **{"Python id": self._next()}) for name in names[::-1]
        ]

    def _strike(self, *kinds: str) -> None:
        for one in self._causes(*kinds):
            cat, name, line = OF_HOST[one.kind]
            around = self._python(line) if line != name else []
            identity = {"python_function": "Python id", "cuda_runtime": "correlation"}.get(cat, "External id")
            self.host(cat, name, one.us, **{identity: self._next()})
            for outer in around:
                outer["dur"] = self.now - outer["ts"]

    def _passes(self) -> Program:
        yield from self._forward()
        yield from self._backward(last=True)

    def _pipelined(self) -> Program:
        """One forward, one backward, after so many forwards as there are stages behind."""
        warm = min(self.job.pipeline - self.job.stage(self.number) - 1, self.job.microbatches)
        for at in range(self.job.microbatches + warm):
            if at < self.job.microbatches:
                yield from self._stage(self._forward(), -1, 1)
            if at >= warm:
                yield from self._stage(self._backward(at == self.job.microbatches + warm - 1), 1, -1)

    def _interleaved(self) -> Program:
        """All forwards of one stage of the model after another, then all backwards."""
        chunks = range(self.job.virtual)
        for chunk in chunks:
            for _ in range(self.job.microbatches):
                yield from self._stage(self._forward(), -1, 1, (chunk > 0, chunk < chunks[-1]))
        for chunk in reversed(chunks):
            for at in range(self.job.microbatches):
                last = chunk == 0 and at == self.job.microbatches - 1
                yield from self._stage(self._backward(last), 1, -1, (chunk < chunks[-1], chunk > 0))

    def _stage(self, work: Program, source: int, target: int, wraps: tuple[bool, bool] = (False, False)) -> Program:
        elements = 1 << 20
        if (peer := self.job.neighbour(self.number, source, wraps[0])) is not None:
            stream = 40 + (source > 0)
            yield from self.collective("recv", self._column(), elements, stream, peer)
            self.stay(stream)
        yield from work
        if (peer := self.job.neighbour(self.number, target, wraps[1])) is not None:
            yield from self.collective("send", self._column(), elements, 50 + (target > 0), peer)

    def _column(self) -> tuple[int, ...]:
        width = self.job.tensor * self.job.data
        return tuple(range(self.number % width, self.job.ranks, width))

    def _layer(self, name: str, us: float) -> Program:
        if self.job.style == "fsdp":
            yield from self.collective("_allgather_base", self.job.of_data(self.number), 1 << 18, 20, after=False)
            self.stay(20)
        for op, kernel, share in (
            ("aten::mm", f"sm90_xmma_gemm_f32_{name}", 1.0),
            ("aten::add", "vectorized_add", 0.2),
        ):
            self.work(op, kernel, us * share, [[2048, 1024], [1024, 1024]])
        if self.job.style == "moe":
            yield from self.collective("all_to_allv", self.job.of_data(self.number), 1 << 18, 22)
            self.stay(22)
        if self.job.style == "ring":
            ring = self.job.of_data(self.number)
            at = ring.index(self.number)
            yield from self.collective("send", ring, 1 << 19, 50, ring[(at + 1) % len(ring)])
            yield from self.collective("recv", ring, 1 << 19, 40, ring[at - 1])
            self.stay(40)
        if self.job.tensor > 1:
            yield from self.collective("allreduce", self.job.of_tensor(self.number), 1 << 18, 24)
            self.stay(24)

    def _forward(self) -> Program:
        self._strike("python", "allocation", "op")
        for one in self._causes("more_gpu_work"):
            self.work("aten::sort", "radix_sort", one.us, [[4096, 64]])
        for _ in range(self.job.layers):
            yield from self._layer("fwd", self.job.kernel_us)

    def _backward(self, last: bool) -> Program:
        self._tid = MAIN if self.job.gloo else BACKWARD
        for layer in range(self.job.layers):
            yield from self._layer("bwd", 2 * self.job.kernel_us)
            group = self.job.of_data(self.number)
            if self.job.style == "fsdp":
                yield from self.collective("_reduce_scatter_base", group, 1 << 18, 21)
            elif last and layer % 2:
                yield from self.collective("allreduce", group, 1 << 22, 20)
        self._tid = MAIN

    def _optimizer(self) -> Program:
        for stream in (20, 21):
            self.stay(stream)
        if self.job.pipeline > 1 or self.job.tensor > 1:  # the norm of all gradients
            yield from self.collective("allreduce", tuple(range(self.job.ranks)), 1, 30)
            self.stay(30)
        self.work("aten::_foreach_add_", "multi_tensor_apply_kernel", self.job.kernel_us)


def simulated(job: Job) -> list[Rank]:
    """The ranks of a job, run to their end."""
    groups = {tuple(range(job.ranks)): "0"}
    ranks = [Rank(job, number, groups) for number in range(job.ranks)]
    programs = {rank.number: rank.program() for rank in ranks}
    waiting: dict[tuple[Any, ...], list[Part]] = {}
    noise = random.Random(job.seed)
    turn: deque[tuple[int, float | None]] = deque((rank.number, None) for rank in ranks)
    free: dict[tuple[int, ...], float] = {}  # when the stream of a sender to one rank is free
    while turn:
        number, answer = turn.popleft()
        try:
            part = programs[number].send(answer)  # type: ignore[arg-type]
        except StopIteration:
            continue
        there = waiting.setdefault(part.key, [])
        there.append(part)
        if part.sends:
            turn.append((number, 0.0))  # a send holds up nobody but the next send
        if len(there) < len(part.group):
            continue
        for one in there:
            if one.sends:
                one.ready_us = max(one.ready_us, free.get(one.group, 0.0) + GAP_US)
        one_way = any(one.sends for one in there)
        took = job.transfer_us(part.group, part.size, part.passes, one_way) * max(0.5, noise.gauss(1.0, 2 * job.jitter))
        end = max(one.ready_us for one in there) + took
        for one in waiting.pop(part.key):
            left = end + noise.uniform(0.0, 2.0)
            one.event |= {"ts": one.ready_us, "dur": left - one.ready_us}
            if one.sends:
                free[one.group] = left
            else:
                turn.append((one.rank.number, left))
    assert not waiting, "the programs of the ranks do not fit together"
    return ranks


def trace_of(rank: Rank) -> Json:
    """The Kineto file of a rank, as a dictionary."""
    job, number = rank.job, rank.number
    first = job.begins.get(number, 0)
    begin = rank.marks[first] - 5.0 if first else 0.0
    end = rank.marks[job.ends[number] + 1] if number in job.ends else float("inf")
    kept = [one for one in rank.events if begin <= one["ts"] < end]
    calls = {one["args"]["correlation"] for one in kept if one["cat"] == "cuda_runtime"}
    kept = [one for one in kept if "device" not in one["args"] or one["args"]["correlation"] in calls]
    nccl = [at for at, one in enumerate(kept) if one["name"].startswith("nccl")]
    lost = set(random.Random(job.seed + number).sample(nccl, min(job.lost.get(number, 0), len(nccl))))
    kept = [one for at, one in enumerate(kept) if at not in lost]
    host = job.host(number)
    ahead = job.clocks_us[host] if host < len(job.clocks_us) else 0.0
    events = [one | {"ts": round(one["ts"] + ahead, 3), "dur": round(one["dur"], 3)} for one in kept]
    span = {"ph": "X", "cat": "Trace", "ts": round(max(begin, 1.0) + ahead, 3), "dur": round(rank.now - begin, 3),
            "pid": "Spans", "tid": "PyTorch Profiler", "name": "PyTorch Profiler (0)", "args": {}}  # fmt: skip
    configs = [{"pg_name": name, "pg_desc": "default_pg" if name == "0" else "mesh", "pg_size": len(group),
                "backend_config": "cpu:gloo" if job.gloo else "cuda:nccl", "ranks": list(group)}
               for group, name in rank.groups.items() if number in group]  # fmt: skip
    devices = [] if job.gloo else [{"id": at, "name": "NVIDIA H100 80GB HBM3", "numSms": 132, "computeMajor": 9}
                                   for at in range(job.per_host)]  # fmt: skip
    info = {"backend": "gloo" if job.gloo else "nccl", "rank": number, "world_size": job.ranks,
            "pg_count": len(configs), "pg_config": configs}  # fmt: skip
    return {"schemaVersion": 1, "deviceProperties": devices, "distributedInfo": info,
            "baseTimeNanoseconds": int(BASE_US) * 1000, **({"host_name": job.host_name(host)} if job.hosts else {}),
            "traceEvents": [span, *events]}  # fmt: skip


def write(job: Job, folder: Path) -> Path:
    """The files of a job in a folder; `rank3.json.gz` is that of rank 3."""
    folder.mkdir(parents=True, exist_ok=True)
    others = simulated(replace(job, seed=job.seed + 1000, causes=(), layers=job.layers + 1)) if job.foreign else []
    for rank in simulated(job):
        if rank.number in job.missing:
            continue
        made = trace_of(others[rank.number] if rank.number in job.foreign else rank)
        data = gzip.compress(json.dumps(made).encode(), 1)
        if rank.number in job.cut:
            data = data[: len(data) * 3 // 5]
        (folder / f"rank{rank.number}.json.gz").write_bytes(data)
    return folder
