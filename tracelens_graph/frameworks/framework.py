"""The facts that differ between frameworks, and those of the frameworks whose traces are read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from tracelens_graph.schema import KIND_MEANING, OWNER_RULE_MEANING, Kind, OwnerRule

NAMESPACES = ("aten::", "prims::")
"""What names of ops begin with whose schema PyTorch has."""


@dataclass(frozen=True, eq=False)
class Framework:
    """What differs between traces of one framework and those of another.

    Attributes:
        name: what people call it.
        profiler: value of `profiler` in the metadata of its traces; empty for none.
        has_times: whether its traces have times. Starts and durations of others are places in the order of all begins
            and ends, so that calls nest; nobody is shown them.
        kind_meaning, owner_rule_meaning: what kinds of nodes are, and how GPU events are charged.
        short_kinds: kind -> the word in brackets before a name.
        step_mark: what marks a step in a program.
        entries: what the events of a file are.
        bytes: what a file consists of.
        missing_end: what usually stands at the end of a file; empty where it is known by the parts that are left.
        module, modules: what a module is called, and several.
        module_prefix: what stands before the name of one in a drawn tree.
        outside_modules: what GPU work in a module and in none of its modules is called.
        no_modules, no_place, no_backward, no_allocations, no_programs: notes on tables that lack modules, modules and
            lines of Python, links of both passes, allocations, compiled programs; empty for no note.
        uncharged: what GPU work under no operation is: reason, and what would help; None for the usual ones.
        advice: what is suggested for PyTorch -> what is suggested instead, by names in `diagnosis.finding.ADVICE`.
        recording: which options of a recording it has (`analyses.report.inventory`).
        host_collective: kind of the events on the host that stand for a collective.
        devices_are_ranks: whether one process drives several devices, each of which is a rank.
        compiles_programs: whether its ops are instructions of programs that are compiled during a run.
        waits_in_functions: whether functions wait for the GPU, and not only calls of the runtime.
        launches_from_pool: whether threads of a pool launch what one thread of Python gives them.
        calls_take_time: whether durations of calls mean anything.
    """

    name: str
    profiler: str
    has_times: bool
    kind_meaning: Mapping[Kind, str]
    owner_rule_meaning: Mapping[OwnerRule, str]
    short_kinds: Mapping[Kind, str]
    step_mark: str
    entries: str
    bytes: str
    missing_end: str
    module: str
    modules: str
    module_prefix: str
    outside_modules: str
    no_modules: str
    no_place: str
    no_backward: str
    no_allocations: str
    no_programs: str
    recording: Literal["profiler", "xla", "observer", "nsys", "rocprof", "snapshot", "generic"]
    host_collective: Kind
    uncharged: tuple[str, str] | None = None
    advice: Mapping[str, str] = field(default_factory=dict)
    devices_are_ranks: bool = False
    compiles_programs: bool = False
    waits_in_functions: bool = False
    launches_from_pool: bool = False
    calls_take_time: bool = True


PYTORCH = Framework(
    name="PyTorch",
    profiler="",
    has_times=True,
    kind_meaning=KIND_MEANING,
    owner_rule_meaning=OWNER_RULE_MEANING,
    short_kinds={
        Kind.Module: "python",
        Kind.PythonFunction: "python",
        Kind.Op: "cpu",
        Kind.RuntimeCall: "runtime",
        Kind.Kernel: "kernel",
        Kind.Memcpy: "memcpy",
        Kind.Memset: "memset",
        Kind.Annotation: "annotation",
        Kind.Step: "step",
        Kind.DeviceAnnotation: "device annotation",
        Kind.SyncEvent: "sync",
        Kind.Overhead: "overhead",
        Kind.MemoryEvent: "memory",
    },
    step_mark="ProfilerStep#n",
    entries="entries in the file",
    bytes="bytes of JSON",
    missing_end="and GPU events usually stand last",
    module="nn.Module",
    modules="modules",
    module_prefix="nn.Module: ",
    outside_modules="Non-nn.Module GPU Ops",
    no_modules="the trace has no nn.Module frames: record it with with_stack=True",
    no_place="the trace has no modules and no lines of Python: record it with with_stack=True",
    no_backward="",
    no_allocations="no allocation is recorded: record with profile_memory=True, or name a snapshot: --memory FILE",
    no_programs="only profiles of JAX say which compiled programs ran",
    recording="profiler",
    host_collective=Kind.Annotation,
)

EXECUTION_TRACE = replace(
    PYTORCH,
    has_times=False,
    missing_end="and callers stand behind their calls",
    recording="observer",
)
"""An execution trace of PyTorch alone."""

NSYS = replace(
    PYTORCH,
    profiler="Nsight Systems",
    kind_meaning=KIND_MEANING | {Kind.PythonFunction: "a function in which samples of the CPU found a thread"},
    step_mark="a range of NVTX named ProfilerStep#n",
    entries="entries, of all tables that are read",
    bytes="bytes",
    missing_end="",
    no_modules="no range of NVTX names a module: mark modules with ranges, as vLLM does with its layer-wise ranges",
    no_place="no range of NVTX names a module, and Python stacks are not read from reports of Nsight Systems",
    no_allocations="allocations are not read from reports of Nsight Systems",
    recording="nsys",
)
"""A program under Nsight Systems: ranges of NVTX stand for ops and annotations."""

ROCPROF = replace(
    NSYS,
    profiler="AMD ROCm",
    step_mark="a range of roctx named ProfilerStep#n",
    no_modules="no range of roctx names a module: mark modules with ranges",
    no_place="no range of roctx names a module, and Python stacks are not recorded",
    no_allocations="allocations are not read from what AMD's profilers write",
    advice={"record_launches": "hip_trace"},
    recording="rocprof",
)
"""A program under rocprofv3 or rocmProfileData."""

SNAPSHOT = replace(
    PYTORCH,
    profiler="CUDA memory snapshot",
    entries="allocations, releases and frames",
    bytes="bytes",
    missing_end="",
    no_modules="snapshots of memory name no modules; frames show where memory was allocated",
    no_place="snapshots of memory name no modules",
    recording="snapshot",
    calls_take_time=False,
    no_allocations="the snapshot has no history: call torch.cuda.memory._record_memory_history() before what it is of",
)
"""A snapshot of PyTorch's CUDA allocator: allocations and the stacks that made them, nothing else."""

GENERIC = replace(
    PYTORCH,
    profiler="another tool",
    kind_meaning=KIND_MEANING | {Kind.PythonFunction: "a function, or a range, that the tool recorded"},
    missing_end="",
    no_modules="traces of other tools name no modules",
    no_place="no function names its line",
    no_allocations="allocations are not read from traces of other tools",
    recording="generic",
)
"""A Chrome trace of a tool that is not known: what a host did, and nothing of a GPU."""

XLA = Framework(
    name="JAX",
    profiler="XLA",
    has_times=True,
    kind_meaning=KIND_MEANING
    | {
        Kind.Module: "a named scope (`jax.named_scope`), which Flax opens for its modules",
        Kind.PythonFunction: "a frame of the Python stack",
        Kind.Op: "an instruction of a compiled program, run once (`fusion.12`)",
        Kind.RuntimeCall: "a launch, or another step of XLA's runtime (`PjitFunction(f)`)",
        Kind.Annotation: "a range that the program marked (`jax.profiler.TraceAnnotation`)",
        Kind.Step: "a step (`jax.profiler.StepTraceAnnotation`)",
    },
    owner_rule_meaning=OWNER_RULE_MEANING
    | {
        OwnerRule.nearest_op: "charged to the instruction above its launch",
        OwnerRule.no_op: "launched for no known instruction, as copies and command buffers can be: charged to nothing",
    },
    short_kinds={**PYTORCH.short_kinds, Kind.Module: "scope", Kind.Op: "hlo"},
    step_mark="jax.profiler.StepTraceAnnotation",
    entries="entries, derived ones too",
    bytes="bytes",
    missing_end="",
    module="named scope",
    modules="named scopes",
    module_prefix="scope: ",
    outside_modules="outside of these scopes",
    no_modules="no instruction is in a named scope: open them with jax.named_scope, or use modules of Flax",
    no_place="the trace has no named scopes and no lines of Python: record it with "
    "ProfileOptions().python_tracer_level = 1",
    no_backward="no backward instruction has a forward one in its named scope: open scopes with jax.named_scope, "
    "or use Flax",
    no_allocations="profiles of JAX and XLA record no allocations that are read",
    no_programs="the profile holds no program that an event names",
    recording="xla",
    host_collective=Kind.Op,
    uncharged=("a copy, or other work of no instruction", "nothing: the profile names no instruction of it"),
    advice={
        "cuda_graphs": "one_program",
        "fewer_launches": "larger_programs",
        "python_tuning": "less_python",
        "data_loader": "batches_ahead",
        "remove_sync": "read_later",
        "pin_memory": "batches_ahead",
        "allocator": "donate",
        "warm_up": "run_before",
        "record_stacks": "python_tracer",
        "all_ranks": "devices",
        "overlap": "latency_hiding",
        "fusion": "own_kernels",
        "channels_last": "layouts",
        "convolution_kernels": "layouts",
        "attention_kernels": "library_attention",
        "timed_kernels": "more_tilings",
        "tensor_cores": "default_precision",
        "mixed_precision": "bfloat16",
    },
    devices_are_ranks=True,
    compiles_programs=True,
    waits_in_functions=True,
    launches_from_pool=True,
)
"""JAX, and whatever else runs on XLA: ops are instructions, and modules are named scopes."""


def framework_of(metadata: Mapping[str, Any], has_times: bool = True) -> Framework:
    """The framework that a trace comes from, by the metadata of its file and whether it has times."""
    if not has_times:
        return EXECUTION_TRACE
    return _BY_PROFILER.get(metadata.get("profiler", ""), PYTORCH)


_BY_PROFILER = {one.profiler: one for one in (PYTORCH, NSYS, ROCPROF, SNAPSHOT, GENERIC, XLA)}
PROFILERS = tuple(_BY_PROFILER)
"""Values of `profiler` in the metadata of traces."""
