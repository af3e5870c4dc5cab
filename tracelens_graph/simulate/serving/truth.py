"""The truth about a simulated server: its steps, what each replayed kernel is, and what was planted."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from tracelens_graph.simulate.events import GpuEvent, argument_columns
from tracelens_graph.simulate.host import Process
from tracelens_graph.simulate.job_truth import truth_of_job
from tracelens_graph.simulate.kernels import Kernel
from tracelens_graph.simulate.serving.options import Options
from tracelens_graph.simulate.serving.server import PARTS, Graph, Server
from tracelens_graph.simulate.truth import Columns, columns, timeline, truth_of

Json = dict[str, Any]


def truth_of_server(server: Server, options: Options, graphs: dict[int, list[Graph]], work: list[GpuEvent]) -> Json:
    """Truth as JSON: that about any run (see `simulate.truth.truth_of`), and besides

    server       the settings
    cost         what a step's kernels take, noise left out: fixed_ns, row_ns per token that is computed (padding
                 included), key_ns per key that attention reads, request_ns per request
    iterations   columns, one entry per step. gpu_sum_ns, gpu_busy_ns and gpu_span_ns are of the GPU work that the step
                 launched; gap_ns is from the end of the last step's GPU work to the start of its own, gap_parts what
                 the host did meanwhile, and gap_cause the longest of that; planted is a culprit within it
    graphs       one record per captured graph: file, size, mode, piece, and columns of its nodes: the captured call
                 (uid in the file), kernel, op and its uid, dims, modules (outermost first), frame
    replays      one record per launch of a graph: launch, iteration, place of the graph in `graphs`, kernels (uid by
                 node, None for a lost one)

    `work` is all GPU work in the order of the launches, lost kernels among it.
    """
    process = server.process
    flat = [graph for pieces in graphs.values() for graph in pieces]
    return {
        **truth_of(process, truth_of_job([process])),
        "server": asdict(options),
        "cost": cost(options, process),
        "iterations": _iterations(server, work),
        "graphs": [_graph(graph) for graph in flat],
        "replays": _replays(server, flat, work),
    }


def cost(options: Options, process: Process) -> dict[str, float]:
    """The coefficients of a step's kernels: of a step with 1 token and 1 request, and of ones with 1000 more."""

    def kernels(rows: int, requests: int) -> list[Kernel]:
        scratch = Process(process.place, process.options, 0, {})
        scratch.is_rocm = process.is_rocm
        server, t = Server(scratch, options, {}), scratch.main
        server.prepare(t, rows, rows)
        server.decoder(t, rows)
        server.sample(t, server.decoder.logits(t, requests))
        return [node.kernel for node in scratch.gpus if node.kernel is not None]

    one, rows, requests = (sum(kernel.duration for kernel in kernels(*size)) for size in ((1, 1), (1001, 1), (1, 1001)))
    row_ns, request_ns = (rows - one) / 1000, (requests - one) / 1000
    key_ns = sum(kernel.key_ns for kernel in kernels(1, 1))
    return {"fixed_ns": one - row_ns - request_ns, "row_ns": row_ns, "request_ns": request_ns, "key_ns": key_ns}


def _iterations(server: Server, work: list[GpuEvent]) -> Columns:
    rows: list[Json] = []
    before = None
    for step in server.iterations:
        gpus = [gpu for gpu in work[step.first : step.last] if not gpu.hidden]
        start, end = min(gpu.start for gpu in gpus), max(gpu.end for gpu in gpus)
        parts = dict.fromkeys(PARTS, 0)
        for part, begin, finish in step.parts:
            if before is not None:
                parts[part] += max(0, min(finish, start) - max(begin, before))
        rows.append(
            {
                "iteration": step.number,
                "annotation": None if step.annotation is None else step.annotation.uid,
                "phase": step.phase,
                "requests": len(step.context) + len(step.generation),
                "context_requests": len(step.context),
                "context_tokens": sum(q for q, _ in step.context),
                "generation_requests": len(step.generation),
                "keys": step.keys,
                "captured_size": step.captured_size,
                "padding": step.rows - step.tokens,
                "gpu_events": len(gpus),
                "gpu_sum_ns": sum(gpu.end - gpu.start for gpu in gpus),
                "gpu_busy_ns": timeline(gpus, server.process.clock.recorded)["busy"],
                "gpu_span_ns": end - start,
                "gap_ns": None if before is None else start - before,
                "gap_parts": parts,
                "gap_cause": None if before is None else max(parts, key=lambda part: parts[part]),
                "planted": step.planted,
            }
        )
        before = end
    return columns(rows)


def _graph(graph: Graph) -> Json:
    nodes = [_node(node) for node in graph.nodes]
    return {"file": graph.file, "size": graph.size, "mode": graph.mode, "piece": graph.piece, "nodes": columns(nodes)}


def _node(node: GpuEvent) -> Json:
    call, op = node.launch, node.owner
    assert call is not None
    assert op is not None
    above = call.ancestors()
    frames = [event for event in above if event.cat == "python_function" and not event.is_module]
    return {
        "call": call.uid,
        "kernel": node.name,
        "stream": node.stream,
        "op": op.name,
        "op_uid": op.uid,
        "dims": argument_columns(op.inputs)["Input Dims"],
        "modules": [event.name for event in reversed(above) if event.is_module],
        "frame": frames[0].name if frames else None,
    }


def _replays(server: Server, flat: list[Graph], work: list[GpuEvent]) -> list[Json]:
    place = {id(graph): index for index, graph in enumerate(flat)}
    by_launch: dict[int, list[GpuEvent]] = {}
    for gpu in work:
        if gpu.captured is not None:
            by_launch.setdefault(gpu.correlation, []).append(gpu)
    return [
        {
            "launch": call.uid,
            "iteration": step.number,
            "graph": place[id(graph)],
            "kernels": [None if gpu.hidden else gpu.uid for gpu in by_launch[call.correlation]],
        }
        for step in server.iterations
        for call, graph in step.graphs
    ]
