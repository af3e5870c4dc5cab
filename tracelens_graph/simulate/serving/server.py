"""The engine: it captures its graphs, then schedules requests, runs a step on them, and hands out the tokens.

Host work between steps passes in frames of Python, one for each part; what each took is kept for the truth.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from tracelens_graph.simulate import aten, kernels
from tracelens_graph.simulate.events import GpuEvent, HostEvent, Tensor
from tracelens_graph.simulate.host import Process, Thread
from tracelens_graph.simulate.serving.decoder import Decoder, tensor
from tracelens_graph.simulate.serving.options import Options
from tracelens_graph.simulate.waits import Waits, synchronize, synchronize_stream

MOST_PREFILL = 2048
"""Tokens of prompts in one step, unless one prompt alone has more."""
EVERY = 3
"""Steps from one planted gap to the next."""
FRAMES = {
    "vllm": {
        "scheduler": "vllm/v1/core/sched/scheduler.py(212): schedule",
        "sampling": "vllm/v1/sample/logits_processor/builtin.py(57): apply",
        "detokenise": "vllm/v1/engine/detokenizer.py(95): update",
        "prepare": "vllm/v1/worker/gpu_model_runner.py(1169): _prepare_inputs",
        "execute": "vllm/v1/worker/gpu_model_runner.py(2740): execute_model",
        "replay": "vllm/compilation/cuda_graph.py(208): __call__",
        "loop": "vllm/v1/engine/core.py(1090): run_engine_core",
        "capture": "vllm/v1/worker/gpu_model_runner.py(5467): _capture_cudagraphs",
        "wait": "vllm/v1/worker/gpu_model_runner.py(213): get_output",
        "sampler": "vllm/v1/sample/sampler.py(67): forward",
        "dummy": "vllm/v1/worker/gpu_model_runner.py(4712): _dummy_run",
    },
    "sglang": {
        "scheduler": "sglang/srt/managers/scheduler.py(1789): get_next_batch_to_run",
        "sampling": "sglang/srt/sampling/penaltylib/orchestrator.py(88): apply",
        "detokenise": "sglang/srt/managers/detokenizer_manager.py(148): handle_batch_token_id_out",
        "prepare": "sglang/srt/managers/schedule_batch.py(1730): prepare_for_decode",
        "execute": "sglang/srt/model_executor/model_runner.py(2207): forward",
        "replay": "sglang/srt/model_executor/cuda_graph_runner.py(1310): replay",
        "loop": "sglang/srt/managers/scheduler.py(1012): event_loop_normal",
        "capture": "sglang/srt/model_executor/cuda_graph_runner.py(1201): capture_one_batch_size",
        "wait": "sglang/srt/managers/scheduler_output_processor_mixin.py(41): resolve",
        "sampler": "sglang/srt/layers/sampler.py(54): forward",
        "dummy": "sglang/srt/model_executor/cuda_graph_runner.py(1147): run_once",
    },
}
"""The frames of each engine, by what is done in them."""
PARTS = ("sampling", "detokenise", "scheduler", "prepare")
"""Host work from the end of one step's GPU work to the start of the next, in this order."""
PART_NS = {"scheduler": (40_000, 90_000), "sampling": (15_000, 40_000), "detokenise": (30_000, 80_000)}


@dataclass(eq=False, slots=True)
class Graph:
    """A captured graph: its nodes in the order of their launches, and where it was captured."""

    size: int
    mode: str
    piece: int
    nodes: list[GpuEvent]
    file: str


@dataclass(eq=False, slots=True)
class Request:
    """A request: tokens of its prompt that are yet to be computed, of its context, and still to be generated."""

    new: int
    left: int
    keys: int = 0


@dataclass(eq=False, slots=True)
class Iteration:
    """One step of the server: what was asked of it, and what it did."""

    number: int
    context: list[tuple[int, int]]
    """(new tokens, keys) of each request whose prompt is computed."""
    generation: list[tuple[int, int]]
    """The same of those that get one more token."""
    captured_size: int = 0
    """Of the graph that was replayed; 0 for an eager step."""
    annotation: HostEvent | None = None
    graphs: list[tuple[HostEvent, Graph]] = field(default_factory=list)
    parts: list[tuple[str, int, int]] = field(default_factory=list)
    """Host work before the step's GPU work: (part, start, end)."""
    planted: str = ""
    """The culprit whose planted time lies before the step's GPU work."""
    first: int = 0
    last: int = 0
    """Its GPU work, as a range of the process's GPU events."""

    @property
    def phase(self) -> str:
        """As TraceLens names it."""
        if self.context:
            return "prefilldecode" if self.generation else "prefill_only"
        return "decode_only"

    @property
    def tokens(self) -> int:
        """New tokens of all requests."""
        return sum(q for q, _ in self.context + self.generation)

    @property
    def keys(self) -> int:
        """Keys of all requests."""
        return sum(k for _, k in self.context + self.generation)

    @property
    def rows(self) -> int:
        """Tokens that are computed, padding included."""
        return self.captured_size or self.tokens


def name_of(step: Iteration, options: Options) -> str:
    """The engine's annotation of a step."""
    c, g = len(step.context), len(step.generation)
    context, generation = sum(q for q, _ in step.context), sum(q for q, _ in step.generation)
    detailed = options.annotations == "detailed"
    if options.engine == "vllm":
        if not detailed:
            return f"execute_context_{c}({context})_generation_{g}({generation})"
        sums = [_sums(part, "") for part in (step.context, step.generation)]
        joined = [f"({''.join(key + str(value) for key, value in part.items())})" for part in sums]
        return f"execute_{step.tokens}_context_{c}{joined[0]}_generation_{g}{joined[1]}"
    kind = "MIXED" if c and g else "EXTEND" if c else "DECODE"
    fields = {"bs": c + g, **({"toks": step.tokens} if c else {}), **({"c": c, "g": g} if c and g else {})}
    if detailed:
        fields |= (_sums(step.context, "c_") if c else {}) | (_sums(step.generation, "g_") if g else {})
    return f"step[{kind} {' '.join(f'{key}={value}' for key, value in fields.items())}]"


def _sums(requests: list[tuple[int, int]], prefix: str) -> dict[str, int]:
    sums = {"sq": sum(q for q, _ in requests), "sk": sum(k for _, k in requests)}
    sums |= {"sqsq": sum(q * q for q, _ in requests), "sqsk": sum(q * k for q, k in requests)}
    return {prefix + key: value for key, value in sums.items()}


class Server:
    """The engine in one process."""

    def __init__(self, process: Process, options: Options, graphs: dict[int, list[Graph]]) -> None:
        self.process, self._options, self._graphs = process, options, graphs
        self.decoder = Decoder(process, options)
        self.iterations: list[Iteration] = []
        self._rng = random.Random(f"{options.seed}/{process.rank}/requests")
        self._running = [self._request(begun=True) for _ in range(options.requests)]
        self._waiting: list[Request] = []
        self._parts: list[tuple[str, int, int]] = []
        self._culprit = self._planted = ""

    def frame(self, role: str) -> str:
        """The engine's frame for some work."""
        return FRAMES[self._options.engine][role]

    def run(self) -> Waits:
        """All steps; yields where the host waits for the device."""
        t = self.process.main
        with t.frame(self.frame("loop")):
            number = 0
            while number < self._options.steps:
                self._arrive()
                step = self._schedule(t, number)
                if step is None:
                    t.spend(900_000, 1_100_000)
                    continue
                yield from self._run(t, step)
                number += 1
        yield from synchronize(t)

    # -- requests -------------------------------------------------------------------------------------

    def _spread(self, mean: int) -> int:
        return max(1, round(mean * self._rng.uniform(0.5, 1.5)))

    def _request(self, begun: bool) -> Request:
        prompt, output = self._spread(self._options.prompt), self._spread(self._options.output)
        if not begun:
            return Request(prompt, output)
        done = self._rng.randrange(output)
        return Request(0, output - done, prompt + done)

    def _arrive(self) -> None:
        rate = self._options.arrivals
        wait = self._rng.expovariate(1)
        while wait < rate:
            self._waiting.append(self._request(begun=False))
            wait += self._rng.expovariate(1)

    def _admit(self) -> list[Request]:
        new: list[Request] = []
        while self._waiting and len(self._running) + len(new) < self._options.sizes[-1]:
            if new and sum(one.new for one in new) + self._waiting[0].new > MOST_PREFILL:
                break
            new.append(self._waiting.pop(0))
        return new

    def _schedule(self, t: Thread, number: int) -> Iteration | None:
        """The requests of the next step; None if there are none."""
        plan = number % EVERY == EVERY - 1 and self._options.culprit != "none"
        self._culprit = self._options.culprit if plan else ""
        with self._part(t, "scheduler"):
            new = self._admit()
        older = [] if new and self._options.engine == "sglang" else list(self._running)
        if not new and not older:
            return None
        step = Iteration(number, [(one.new, one.new) for one in new], [(1, one.keys + 1) for one in older])
        if self._graphs and not new:
            step.captured_size = next((size for size in sorted(self._graphs) if size >= len(older)), 0)
        for one in new + older:
            one.keys, one.new, one.left = one.keys + (one.new or 1), 0, one.left - 1
        self._running += new
        return step

    # -- a step ---------------------------------------------------------------------------------------

    @contextmanager
    def _part(self, t: Thread, part: str) -> Iterator[None]:
        """A part of the host's work."""
        start = t.now
        with t.frame(self.frame(part)):
            if part in PART_NS:
                t.spend(*PART_NS[part])
            if self._culprit == part:
                self._planted = part
                with t.frame(f"plugins/{part}_hook.py(31): run"):
                    t.now += round(1000 * self._options.culprit_us)
            yield
        self._parts.append((part, start, t.now))

    def _run(self, t: Thread, step: Iteration) -> Waits:
        process, options = self.process, self._options
        process.step, process.keys = step.number, step.keys
        step.first = len(process.gpus)
        whole = options.engine == "vllm"
        with t.frame(self.frame("execute")):
            if options.annotations != "none":
                step.annotation = t.begin_annotation(name_of(step, options))
            with self._part(t, "prepare"):
                self.prepare(t, step.tokens, step.rows)
            step.parts, step.planted, self._parts, self._planted = self._parts, self._planted, [], ""
            if step.captured_size:
                self._replay(t, step)
            else:
                self.decoder(t, step.rows)
            requests = len(step.context) + len(step.generation)
            logits = self.decoder.logits(t, requests)
            if step.annotation and not whole:
                t.end_annotation()
            copy = self.sample(t, logits)
            if step.annotation and whole:
                t.end_annotation()
        process.step = None
        with t.frame(self.frame("wait")):
            yield from synchronize_stream(t, copy)
        step.last = len(process.gpus)
        with self._part(t, "sampling"):
            pass
        with self._part(t, "detokenise"):
            self._running = [one for one in self._running if one.left > 0]
        self.iterations.append(step)

    def prepare(self, t: Thread, tokens: int, rows: int) -> None:
        """Bring the inputs of a step to the device."""
        indices = tensor(tokens, dtype="long int")
        with t.op("aten::copy_", tensor(rows, dtype="long int"), indices, True):
            t.memcpy("HtoD (Pinned -> Device)", indices.bytes)
        with t.op("aten::index_select", tensor(4096, 16, dtype="long int"), 0, indices):
            t.launch(kernels.elementwise("index_kernel_impl<OpaqueType<4> >", rows * 16, 2, 8))

    def _replay(self, t: Thread, step: Iteration) -> None:
        with t.frame(self.frame("replay")):
            for graph in self._graphs[step.captured_size]:
                step.graphs.append((t.launch_graph(graph.nodes), graph))
                if graph.mode == "PIECEWISE" and graph.piece < self._options.layers:
                    self.decoder.attention(t, graph.piece, step.rows)

    def sample(self, t: Thread, logits: Tensor) -> GpuEvent:
        """The next token of each request; gives the copy to the host."""
        rows, classes = logits.shape
        with t.frame(self.frame("sampler")):
            with t.op("aten::argmax", logits, -1, False):
                t.launch(kernels.reduce_sum(rows * classes, rows))
            with t.op("aten::copy_", tensor(rows, dtype="long int"), tensor(rows, dtype="long int"), True):
                return t.memcpy("DtoH (Device -> Pinned)", 8 * rows)


# -- captures -------------------------------------------------------------------------------------------


def capture_file(options: Options, rank: int, size: int) -> str:
    """The name of the trace of a capture, as the engine gives it."""
    if options.engine == "sglang":
        return f"bs_{size}_rank{rank}.json.gz"
    return f"graph_capture_rank_{rank}.{1773709742341309550 + 61_000_000_017 * size}.pt.trace.json.gz"


class Capture:
    """The capture of one batch size in a process of its own trace."""

    def __init__(self, process: Process, options: Options, size: int, file: str) -> None:
        self.process, self._options, self._size, self._file = process, options, size, file
        self._decoder = Decoder(process, options)
        self.mode = "PIECEWISE" if options.capture == "piecewise" else "FULL"
        self.graphs: list[Graph] = []

    def run(self) -> Waits:
        """Capture all graphs of the size."""
        t, options = self.process.main, self._options
        frames = FRAMES[options.engine]
        mode = "DECODE" if options.engine == "sglang" else self.mode
        with t.frame(frames["capture"]), t.annotation(f"capture_{self._size}_{mode}"):
            for _ in range(2):
                aten.fill(t, tensor(self._size, dtype="long int"), 0)
            with t.frame(frames["dummy"]):
                self._begin(t)
                self._decoder(t, self._size, self._between if self.mode == "PIECEWISE" else None)
                self._end(t)
        yield from synchronize(t)

    def _begin(self, t: Thread) -> None:
        with t.runtime("cudaStreamBeginCapture"):
            self.process.begin_capture()

    def _end(self, t: Thread) -> None:
        with t.runtime("cudaStreamEndCapture"):
            nodes = self.process.end_capture()
        with t.runtime("cudaGraphInstantiate"):
            t.spend(200_000, 400_000)
        if self._options.node_ids:
            graph_id = 1 + 1000 * self._size + len(self.graphs)
            for place, node in enumerate(nodes):
                node.args = node.args | {"graph id": graph_id, "graph node id": (graph_id << 32) + place}
        self.graphs.append(Graph(self._size, self.mode, len(self.graphs), nodes, self._file))

    def _between(self, layer: int, x: Tensor) -> None:
        t = self.process.main
        self._end(t)
        self._decoder.attention(t, layer, x.shape[0])
        self._begin(t)
