"""The truth about a simulated profile, from what the simulation did, not from what it wrote."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from typing import Any

from tracelens_graph.simulate.xla.options import Options
from tracelens_graph.simulate.xla.program import Builder, Instruction
from tracelens_graph.simulate.xla.run import GpuSpan, Runner
from tracelens_graph.simulate.xla.training import FUNCTION, NAME

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
