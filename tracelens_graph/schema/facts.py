"""Facts of a trace: what stands in a database of all that its events add up to, and which question each comes from.

They are what people ask about many runs. A database holds them with the events of a trace, or without. Each is a cell
of a question's answer about the whole trace, or several cells folded; none is computed anew.

    (Trace)-[:SPENT]->(Signature|KernelName|Category|ModulePlace|CollectiveKind)
    (Trace)-[:SHOWS]->(Finding)
    (Trace)-[:TOOK]->(StepTime)
    (Device)-[:IN_TRACE]->(Trace)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from tracelens_graph.schema.stored import Stored, Type

Fold = Literal["only", "sum", "min", "max", "median", "count"]
"""What several cells become: `only` is their one value, and nothing where they differ."""

_MS, _US = 1e6, 1e3


@dataclass(frozen=True)
class Fact:
    """A property, and the cells of a table that it comes from.

    Attributes:
        name, type, meaning, unit: of the property.
        column: of the table.
        scale: what a cell is multiplied by.
        fold: what several cells become.
        row: of the table's first column; "" for all rows.
    """

    name: str
    type: Type
    meaning: str
    unit: str
    column: str
    scale: float = 1
    fold: Fold = "only"
    row: str = ""

    @property
    def stored(self) -> Stored:
        """The property."""
        return Stored(self.name, self.type, self.meaning, self.unit)


@dataclass(frozen=True)
class Source:
    """A question, and the facts that its answer holds.

    Attributes:
        of: label of the nodes that the facts stand on, or that edges with the facts lead to (`SPENT_ON`).
        question: its name.
        key: columns that say which node a row is about; none where all rows are about the trace.
        facts: what the rows hold.
        given: parameters of the question.
        without: values of the first column whose rows are left out.
    """

    of: str
    question: str
    key: tuple[str, ...]
    facts: tuple[Fact, ...]
    given: Mapping[str, Any] = field(default_factory=dict)
    without: tuple[str, ...] = ()


CAUSES = {
    "outside": "the GPU ran work that is not in the window",
    "data_loader": "the host waited for the next batch, or made it",
    "profiler": "the host was in the profiler's own code",
    "synchronization": "a call that waits for the GPU kept the host from launching ahead",
    "host_to_device_copy": "a copy to the device held the host",
    "allocation": "the host had the driver allocate or release memory",
    "launches": "the host was in ops and launch calls, or the launch was on its way to the GPU",
    "python": "the host was in Python, also in that of ops, or in the operating system",
    "queued": "the work had been launched already, and the GPU went from one piece to the next",
    "unknown_no_launch": "no known cause: the launch of the work that ends the gap is not in the trace",
    "unknown_not_recorded": "the host had yet to launch the next work, and nothing is recorded of what that thread did",
    "unknown_late_start": "no known cause: the work began long after its launch",
    "compilation": "the host traced or compiled a program",
    "detokenise": "between steps of a server the host made texts of tokens",
    "sampling": "between steps of a server the host was in functions that choose tokens",
    "prepare": "between steps of a server the host made the inputs of the next one",
    "output": "between steps of a server the host handled the results of one",
    "scheduler": "between steps of a server the host chose the requests of the next one",
}
"""Causes of idle time, as `idle_causes` has them."""

_TIMES = (
    Fact("gpu_total_ns", "int", "from the first start to the last end of a GPU event", "ns", "time ms", _MS,
         row="total_time"),
    Fact("gpu_busy_ns", "int", "any GPU event runs", "ns", "time ms", _MS, row="busy_time"),
    Fact("computation_ns", "int", "a computation kernel or a fill runs", "ns", "time ms", _MS, row="computation_time"),
    Fact("communication_ns", "int", "communication runs", "ns", "time ms", _MS, row="total_comm_time"),
    Fact("exposed_comm_ns", "int", "communication runs and no computation", "ns", "time ms", _MS,
         row="exposed_comm_time"),
    Fact("copies_ns", "int", "a copy runs", "ns", "time ms", _MS, row="total_memcpy_time"),
    Fact("exposed_copies_ns", "int", "a copy runs, and neither computation nor communication", "ns", "time ms", _MS,
         row="exposed_memcpy_time"),
    Fact("idle_ns", "int", "nothing runs", "ns", "time ms", _MS, row="idle_time"),
)  # fmt: skip
_IDLE = tuple(
    Fact(f"idle_{cause}_ns", "int", f"idle: {meaning}", "ns", "idle_ms", _MS, row=cause)
    for cause, meaning in CAUSES.items()
)
_MEMORY = (
    Fact("peak_memory_bytes", "int", "most bytes that are in use of the memory of a device", "B", "peak_bytes",
         fold="max"),
    Fact("peak_reserved_bytes", "int", "most bytes that the allocator holds of it", "B", "peak_reserved_bytes",
         fold="max"),
)  # fmt: skip
_STEP = (
    ("host_ns", "duration of the step on the host", "host_step_ms"),
    ("device_ns", "from the first start of its GPU work to the first start of that of later steps; of the last to the "
     "end of its work", "device_step_ms"),
    ("gpu_sum_ns", "sum of the durations of its GPU events", "gpu_sum_ms"),
    ("computation_ns", "one of them computes", "computation_time_ms"),
    ("exposed_comm_ns", "one of them communicates and none computes", "exposed_comm_time_ms"),
    ("exposed_copies_ns", "one of them copies and none computes or communicates", "exposed_memcpy_time_ms"),
    ("gpu_busy_ns", "any of them runs", "busy_time_ms"),
    ("idle_ns", "none of them runs", "idle_time_ms"),
    ("gpu_total_ns", "from the first start to the last end of one of them", "total_time_ms"),
)  # fmt: skip
_STEP_IDLE = (
    ("idle_runtime_ns", "the host is in a call of the runtime, and the GPU does nothing", "runtime_ms"),
    ("idle_data_loader_ns", "the host waits for the data loader, and the GPU does nothing", "data_loader_ms"),
    ("idle_op_ns", "the host is in an op, and the GPU does nothing", "op_ms"),
    ("idle_other_ns", "nothing of this is recorded, and the GPU does nothing", "other_ms"),
)


def _spent(what: str, ns: str, n: str, *further: Fact, scale: float = _US) -> tuple[Fact, ...]:
    """The facts of SPENT edges: total and number; further ones of some of their ends."""
    return (
        Fact("ns", "int", "GPU time of it", "ns", ns, scale, "sum"),
        Fact("n", "int", f"how often: {what}", "", n, 1, "sum"),
        *further,
    )


def _spread(low: str, middle: str, high: str) -> tuple[Fact, ...]:
    return (
        Fact("min_ns", "int", "least time of one", "ns", low, _US, "min"),
        Fact("median_ns", "int", "median time of one", "ns", middle, _US),
        Fact("max_ns", "int", "greatest time of one", "ns", high, _US, "max"),
    )


SOURCES = (
    Source("Trace", "gpu_timeline", (), _TIMES),
    Source("Trace", "idle_causes", (), _IDLE),
    Source("Trace", "category_shares", (), (
        Fact("gpu_sum_ns", "int", "sum of the durations of all GPU events", "ns", "gpu_time_us", _US, "sum"),
        Fact("gpu_events", "int", "number of GPU events", "", "count", 1, "sum"),
    )),
    Source("Trace", "step_summary", (), (
        Fact("steps", "int", "number of steps", "", "step", 1, "count"),
        Fact("step_median_ns", "int", "median length of a step on the device", "ns", "device_step_ms", _MS, "median"),
        Fact("step_min_ns", "int", "least length of a step on the device", "ns", "device_step_ms", _MS, "min"),
        Fact("step_max_ns", "int", "greatest length of a step on the device", "ns", "device_step_ms", _MS, "max"),
    )),
    Source("Trace", "phases", (), (
        Fact("iterations", "int", "iterations of a server", "", "iterations", 1, "sum"),
        Fact("context_tokens", "int", "tokens of prompts that a server read", "", "context_tokens", 1, "sum"),
        Fact("generation_tokens", "int", "tokens of answers that a server wrote", "", "generation_tokens", 1, "sum"),
        Fact("iterations_ns", "int", "sum of the lengths of its iterations on the device", "ns", "device_ms", _MS,
             "sum"),
    )),
    Source("Trace", "model_flops", (), (
        Fact("mfu_percent", "float", "model FLOPs utilisation: operations by the models of products, convolutions and "
             "attention as share of the device's peak", "%", "mfu_percent", row="(all)"),
    )),
    Source("Trace", "memory_summary", (), _MEMORY, without=("cpu",)),
    Source("Device", "gpu_timeline", (), _TIMES),
    Source("Device", "idle_causes", (), _IDLE),
    Source("Device", "device_use", ("device",), (
        Fact("utilization_percent", "float", "share of its time in which a kernel runs", "%", "utilization_percent"),
        Fact("sm_efficiency_percent", "float", "mean share of the multiprocessors with a block at least", "%",
             "sm_efficiency_percent"),
        Fact("occupancy_percent", "float", "occupancy as the profiler estimated it, mean weighted by duration", "%",
             "occupancy_percent"),
        Fact("tensor_core_percent", "float", "share of the kernels' time in those that use tensor cores, by their "
             "names", "%", "tensor_core_percent"),
    )),
    Source("Device", "memory_summary", ("device",), _MEMORY, without=("cpu",)),
    Source("StepTime", "step_summary", ("uid",), (
        Fact("name", "str", "name of the step", "", "name"),
        Fact("step", "int", "number of the step", "", "step"),
        Fact("gpu_events", "int", "GPU events launched in it", "", "gpu_events"),
        *(Fact(name, "int", meaning, "ns", column, _MS) for name, meaning, column in _STEP),
    )),
    Source("StepTime", "step_breakdown", ("uid",), tuple(
        Fact(name, "int", meaning, "ns", column, _MS) for name, meaning, column in _STEP_IDLE
    )),
    Source("KernelName", "attribution", ("name",), _spent(
        "GPU events", "exclusive_sum_us", "count", *_spread("min_us", "median_us", "max_us"),
    ), {"level": "kernel"}),
    Source("Signature", "op_signatures", ("uid",), _spent(
        "calls", "gpu_time_us", "calls", *_spread("min_us", "median_us", "max_us"),
        Fact("percent_of_roof", "float", "least time at the device's rates as share of the GPU time, mean over calls",
             "%", "percent_of_roof"),
    ), {"op": "*"}),
    Source("Category", "category_shares", ("category",), _spent(
        "GPU events", "gpu_time_us", "count", *_spread("min_us", "median_us", "max_us"),
    )),
    Source("ModulePlace", "modules", ("module_path",), _spent(
        "calls", "total_us", "calls",
        Fact("own_ns", "int", "the part of it that is in no module inside", "ns", "own_us", _US, "sum"),
    )),
    Source("CollectiveKind", "exposed_communication", ("collective", "group", "group_description", "group_size"),
           _spent(
        "kernels", "total_us", "kernels",
        Fact("exposed_ns", "int", "the part of it without computation beside it", "ns", "exposed_us", _US, "sum"),
        Fact("max_ns", "int", "greatest time of one", "ns", "max_us", _US, "max"),
    )),
)  # fmt: skip
"""Each fact with the question that it comes from."""

SPENT_ON = ("Signature", "KernelName", "Category", "ModulePlace", "CollectiveKind")
"""Labels that SPENT edges lead to."""


def facts_on(of: str) -> Iterator[Fact]:
    """The facts on nodes of a label, or on edges to them."""
    return (fact for source in SOURCES if source.of == of for fact in source.facts)


def stored_on(*of: str) -> tuple[Stored, ...]:
    """The properties that facts of some labels are, each once."""
    found = {fact.name: fact.stored for label in of for fact in facts_on(label)}
    return tuple(found.values())


KERNELS = Stored("kernels", "strs", "of a signature or place of a module: keys of the names of kernels that ran for it")
"""A property of SPENT that no question's answer holds."""

SHOWS = (
    Stored("place", "int", "its place in the verdict, from 0 on"),
    Stored("text", "str", "what it says"),
    Stored("severity", "str", "fact, minor or major"),
    Stored("kind", "str", "of the headline: what bounds the run"),
    Stored("percent", "float", "its share, of what `percent_of` says", "%"),
    Stored("percent_of", "str", "what the share is of"),
    Stored("evidence", "str", "the numbers behind it, JSON"),
)
"""Properties of SHOWS: what the verdict on a trace says."""

VERSIONS = ("cuda_runtime", "cuda_driver", "cupti", "hip_runtime", "hip_driver", "roctracer")
"""Software whose version a file may name."""

SETUP = (
    *(
        Stored(f"{name}_version", "str", f"version of {name.replace('_', ' ')} that the file names")
        for name in VERSIONS
    ),
    Stored("setup", "str", "clocks, power, batch and model that the file names, JSON; absent for none"),
    Stored("world_size", "int", "number of ranks of its job"),
)
"""Properties of a trace: what it ran on."""
