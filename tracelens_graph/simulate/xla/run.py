"""A program, run on simulated devices, and the truth about that: from what was done, not from what was written."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

from tracelens_graph.simulate.xla.program import Builder, Instruction, Options, Work
from tracelens_graph.simulate.xla.training import FUNCTION, NAME

PROGRAM = 7
"""Number by which events name the program."""
COMPUTE, COPIES, COLLECTIVES = 7, 14, 20
"""Streams of each device."""
GAP_NS = 1_100
"""Shortest time between two pieces of work on one stream."""
TID = 4_200

Value = int | str


@dataclass(eq=False)
class Span:
    """An event on a thread or a stream; times are in ns. A text among `stats` that begins with & stands for a name."""

    line: tuple[str, int]
    name: str
    start: int
    end: int = -1
    stats: dict[str, Value] = field(default_factory=dict)
    uid: int = -1


@dataclass(eq=False)
class GpuSpan(Span):
    """A piece of work on a stream, and what is true of it."""

    device: int = 0
    kind: str = "Kernel"
    bytes: int | None = None
    launch: Span | None = None
    step: int = 0
    instruction: Instruction | None = None
    """What ran it; none for copies, and for what stands for a whole command buffer."""
    owner: Instruction | None = None
    """What it can be charged to, by what the profile shows."""
    rule: str = "no_op"


@dataclass(frozen=True)
class Unit:
    """What one range on the launching thread is for: an instruction, or a call of a command buffer."""

    instruction: Instruction
    inside: tuple[Instruction, ...]
    is_buffer: bool


def units(program: Builder) -> Iterator[Unit]:
    """What is launched, in its order."""
    for one in program.entry.instructions:
        buffers = [region for region in one.called if region.is_buffer]
        if buffers:
            yield Unit(one, tuple(inner for inner in buffers[0].instructions if inner.works), True)
        elif one.works:
            yield Unit(one, (one,), False)


class Device:
    """A device and the thread that launches its work."""

    def __init__(self, ordinal: int) -> None:
        self.ordinal = ordinal
        self.tid = TID + 10 + ordinal
        self.now = 0
        self.free = dict.fromkeys((COMPUTE, COPIES, COLLECTIVES), 0)


class Runner:
    """Runs all steps.

    Attributes:
        host, gpu: what happened, in the order in which it began on each thread and stream.
        steps: number, start and end of each step.
    """

    def __init__(self, options: Options, program: Builder) -> None:
        self._options = options
        self._units = list(units(program))
        self._graphs = {unit.instruction: number for number, unit in enumerate(self._units, 1) if unit.is_buffer}
        self._rng = random.Random(f"{options.seed}/xla")
        self._devices = [Device(ordinal) for ordinal in range(options.devices)]
        self._correlation = 0
        self.host: list[Span] = []
        self.gpu: list[GpuSpan] = []
        self.steps: list[tuple[int, int, int]] = []

    def run(self) -> None:
        """Run all steps, one after the other; each waits for its work."""
        now = 20_000
        for step in range(self._options.steps):
            now = self._step(step, now) + self._rng.randint(5_000, 9_000)

    # -- Python's thread ------------------------------------------------------------------------------------

    def _step(self, step: int, start: int) -> int:
        marked = self._python("train", start, step_num=step)
        frame = self._frame("$train.py:70 train", start + 500)
        batch = self._python("load batch", start + 2_000)
        now = start + 60_000
        for device in self._devices:
            now = self._copy_batch(device, now, step)
        batch.end = now + 1_000
        called = self._frame("$pjit.py:330 cache_miss", now + 2_000)
        jit = self._python(f"PjitFunction({FUNCTION})", now + 3_000)
        dispatched = now + 3_000 + self._rng.randint(60_000, 90_000)
        jit.end = dispatched
        called.end = dispatched + 400
        waiting = self._frame("$api.py:2980 block_until_ready", dispatched + 1_000)
        done = self._execute(dispatched - 20_000, step)
        waiting.end = done + self._rng.randint(4_000, 9_000)
        frame.end = waiting.end + 300
        marked.end = frame.end + 200
        self.steps.append((step, start, marked.end))
        return marked.end

    def _python(self, name: str, start: int, **stats: Value) -> Span:
        self.host.append(Span(("python", TID), name, start, stats=stats))
        return self.host[-1]

    def _frame(self, name: str, start: int) -> Span:
        span = Span(("python", TID), name, start)
        if self._options.python_stacks:
            self.host.append(span)
        return span

    def _copy_batch(self, device: Device, now: int, step: int) -> int:
        size = self._options.batch * self._options.tokens * 4
        self._correlation += 1
        call = Span((f"Host Threads/{TID}", TID), "cuMemcpyHtoDAsync_v2", now, now + self._rng.randint(3_000, 5_000))
        call.stats = {"device_id": device.ordinal, "correlation_id": self._correlation}
        self.host.append(call)
        details = f"kind_src:pinned kind_dst:device size:{size} dest:{device.ordinal} async:1"
        stats: dict[str, Value] = {"correlation_id": self._correlation, "memcpy_details": f"&{details}"}
        copied = self._queue(device, COPIES, "MemcpyH2D", 2_000 + size // 25, call, step, stats)
        copied.kind, copied.bytes = "Memcpy", size
        device.free[COMPUTE] = max(device.free[COMPUTE], copied.end)
        return call.end + 500

    # -- launches -------------------------------------------------------------------------------------------

    def _execute(self, start: int, step: int) -> int:
        """Launch the program on all devices; gives when its work has ended."""
        whole = []
        for device in self._devices:
            device.now = start + 3_000 * device.ordinal
            whole.append(Span((f"py_xla_execute/{device.tid}", device.tid), f"{NAME}:XLA GPU module", device.now))
            device.now += 2_500
        self.host += whole
        for unit in self._units:
            parts = [self._launch(device, unit, step) for device in self._devices]
            if unit.instruction.is_collective:
                end = max(part.start for part in parts) + parts[0].end - parts[0].start
                for part, device in zip(parts, self._devices, strict=True):
                    part.end = device.free[COLLECTIVES] = end
        for span, device in zip(whole, self._devices, strict=True):
            span.end = device.now + 900
        return max(max(*device.free.values(), device.now) for device in self._devices)

    def _launch(self, device: Device, unit: Unit, step: int) -> GpuSpan:
        """One range on the launching thread; gives the last of its work."""
        around = Span((f"py_xla_execute/{device.tid}", device.tid), unit.instruction.name, device.now)
        self.host.append(around)
        if "adam" in unit.instruction.scopes:
            device.free[COMPUTE] = max(device.free[COMPUTE], device.free[COLLECTIVES])
        stream = COLLECTIVES if unit.instruction.is_collective else COMPUTE
        if unit.instruction.is_collective:
            device.free[stream] = max(device.free[stream], device.free[COMPUTE])
        device.now += self._rng.randint(400, 900)
        works = [(one, work) for one in unit.inside for work in one.works]
        if unit.is_buffer:
            last = self._launch_buffer(device, unit.instruction, works, step)
        else:
            for one, work in works:
                call = self._call(device, "cuMemsetD32Async" if work.filled else "cuLaunchKernelEx", one.name)
                last = self._work(device, stream, one, work, call, step, one.name)
                last.owner, last.rule = one, "nearest_op"
        device.now += self._rng.randint(200, 400)
        around.end = device.now
        return last

    def _launch_buffer(
        self, device: Device, call_of: Instruction, works: list[tuple[Instruction, Work]], step: int
    ) -> GpuSpan:
        mode, graph = self._options.command_buffers, self._graphs[call_of]
        name = "" if mode == "unnamed" else call_of.name
        call = self._call(device, f"cuGraphLaunch (CudaGraph:{graph})", name, cuda_graph_id=graph)
        if mode == "whole":
            stats = call.stats | {"cuda_graph_exec_id": graph}
            duration = sum(work.duration + GAP_NS // 4 for _, work in works)
            exec_name = f"CudaGraphExec:{graph}"
            last = self._queue(device, COMPUTE, exec_name, duration, call, step, stats)
            last.owner, last.rule = call_of, "nearest_op"
            return last
        for node, (one, work) in enumerate(works, 1):
            named = {"instructions": one.name, "launch": name, "unnamed": ""}[mode]
            last = self._work(device, COMPUTE, one, work, call, step, named)
            last.stats |= {"cuda_graph_id": graph, "cuda_graph_node_id": (graph << 32) + node}
            last.owner = {"instructions": one, "launch": call_of}.get(mode)
            last.rule = {"instructions": "hlo", "launch": "nearest_op", "unnamed": "no_op"}[mode]
        return last

    def _call(self, device: Device, name: str, named: str, **stats: Value) -> Span:
        self._correlation += self._rng.randint(1, 4)
        start = device.now
        device.now += self._rng.randint(2_400, 3_800)
        recorded: dict[str, Value] = {"device_id": device.ordinal, "correlation_id": self._correlation, **stats}
        line = f"Host Threads/{device.tid}", device.tid
        self.host.append(Span(line, name, start, device.now, recorded | _annotation(named)))
        return self.host[-1]

    # -- streams --------------------------------------------------------------------------------------------

    def _work(
        self, device: Device, stream: int, one: Instruction, work: Work, call: Span, step: int, named: str
    ) -> GpuSpan:
        stats: dict[str, Value] = {"correlation_id": self._correlation, "context_id": "$$1"}
        if work.filled:
            stats["memset_details"] = f"&kind:device num_bytes:{work.filled} async:1"
        else:
            stats["kernel_details"] = "&regs:32 static_shared:0 dynamic_shared:0 grid:256,1,1 block:128,1,1 occ_pct:100"
        done = self._queue(device, stream, work.name, work.duration, call, step, stats | _annotation(named))
        done.instruction = one
        if work.filled:
            done.kind, done.bytes = "Memset", work.filled
        return done

    def _queue(
        self, device: Device, stream: int, name: str, duration: int, call: Span, step: int, stats: dict[str, Value]
    ) -> GpuSpan:
        ready = call.start + self._rng.randint(4_000, 6_000)
        start = max(ready, device.free[stream] + GAP_NS)
        device.free[stream] = start + duration
        line = f"Stream #{stream}", stream
        self.gpu.append(
            GpuSpan(line, name, start, start + duration, stats, device=device.ordinal, launch=call, step=step)
        )
        return self.gpu[-1]


def _annotation(named: str) -> dict[str, Value]:
    """What XLA's annotations say of a launch and of its work; "" for a launch without one."""
    if not named:
        return {}
    return {"tf_op": "&XlaModule:", "hlo_op": f"&{named}", "hlo_module": f"&{NAME}", "program_id": PROGRAM}


FORMAT = 1


def truth_of(options: Options, program: Builder, run: Runner) -> dict[str, Any]:
    """Truth as JSON. Events are named by uid, their position among all events of the file; times are in ns.

    gpu_events      columns, one entry per event, ordered by uid
    instructions    name -> opcode, where it comes from, shapes of operands and of the result, flops of products
    charged_ns      instruction -> GPU time that can be charged to it
    scopes_ns       scopes, joined by `/` -> GPU time of their forward pass, scopes inside included
    steps           number, start and end
    """
    gpus = sorted(run.gpu, key=lambda gpu: gpu.uid)
    charged: Counter[str] = Counter()
    scopes: Counter[str] = Counter()
    for gpu in gpus:
        duration = gpu.end - gpu.start
        if gpu.owner is not None:
            charged[gpu.owner.name] += duration
        if gpu.instruction is not None and gpu.instruction.part == "forward":
            for depth in range(len(gpu.instruction.scopes)):
                scopes["/".join(gpu.instruction.scopes[: depth + 1])] += duration
    rows = [_row(gpu) for gpu in gpus]
    return {
        "format": FORMAT,
        "options": asdict(options),
        "program": NAME,
        "function": FUNCTION,
        "steps": [list(step) for step in run.steps],
        "gpu_events": {key: [row[key] for row in rows] for key in rows[0]},
        "instructions": {one.name: _instruction(one) for region in program.regions for one in region.instructions},
        "charged_ns": dict(charged),
        "scopes_ns": dict(scopes),
    }


def _row(gpu: GpuSpan) -> dict[str, Any]:
    one = gpu.instruction
    return {
        "uid": gpu.uid,
        "name": gpu.name,
        "kind": gpu.kind,
        "device": gpu.device,
        "stream": gpu.line[1],
        "start_ns": gpu.start,
        "duration_ns": gpu.end - gpu.start,
        "bytes": gpu.bytes,
        "launch": None if gpu.launch is None else gpu.launch.uid,
        "instruction": None if one is None else one.name,
        "owner": None if gpu.owner is None else gpu.owner.name,
        "owner_rule": gpu.rule,
        "step": gpu.step,
    }


def _instruction(one: Instruction) -> dict[str, Any]:
    return {
        "opcode": one.opcode,
        "op_name": one.op_name,
        "scopes": list(one.scopes),
        "pass": one.part,
        "operands": [str(shape) for operand in one.operands for shape in operand.shapes],
        "result": [str(shape) for shape in one.shapes],
        "flops": one.flops,
    }
