"""Tables of places in the program: modules, levels of the graph, lines of Python, launches."""

from __future__ import annotations

from dataclasses import replace

from tracelens_graph.schema.tables.shared import (
    GPU_BUSY,
    GPU_SUM,
    count,
    instance,
    key,
    moment,
    share,
    shown,
    statistics,
    text,
    total,
    uid,
)
from tracelens_graph.tables.column import About, Column, Role, TableSchema

MODULE_TREE: About = {
    "path": key("names of the modules from the top, joined by /; only its end where it is very long"),
    "depth": Column("levels below the line for all GPU events"),
    "module": text("instance or class of the module; a line without uid is none"),
    "class": text("the name without the number of the instance"),
    "instances": Column("instances called in the window, at this place of the tree"),
    "calls": count("calls of these in the window, recomputation included"),
    "forward_us": Column("GPU time launched by the module, modules inside included; all that is not backward", "us"),
    "backward_us": Column("GPU time of the backward ops of forward ops in the module, modules inside included", "us"),
    "optimizer_us": Column("GPU time launched by `Optimizer.step` outside of modules", "us"),
    "total_us": Column("forward, backward and optimizer", "us"),
    "percent": Column("share of the sum over all GPU events", "%"),
    "uid": uid("the first call"),
}

MODULES: About = {
    "module_path": MODULE_TREE["path"],
    "depth": Column("1 for modules in no other", drop_priority=2),
    "module": replace(text("name of the module; a line without uid is none"), drop_priority=4),  # the path ends with it
    "class": replace(MODULE_TREE["class"], drop_priority=4),
    "calls": count("calls, recomputation included"),
    "forward_us": MODULE_TREE["forward_us"],
    "backward_us": MODULE_TREE["backward_us"],
    "optimizer_us": MODULE_TREE["optimizer_us"],
    "total_us": replace(MODULE_TREE["total_us"], compared="main", drop_priority=0),
    "own_us": total("the part of it that is in no module inside; adds up over all rows", "us", compared="diff"),
    "percent": Column("total_us as share of the sum over all GPU events", "%", drop_priority=0),
    "uid": replace(uid("the first call"), drop_priority=1),
}

ATTRIBUTION: About = {
    "name": key("name at this level; a line in brackets stands for GPU events that nobody here is charged with"),
    "count": count("nodes of this name with GPU work in their subtree"),
    "inclusive_sum_us": Column("sum of the durations of the GPU events in the subtrees, each event once", "us"),
    "inclusive_busy_us": Column("length of the union of those GPU events", "us"),
    "exclusive_sum_us": total(
        "sum of the durations of the GPU events charged to the nodes themselves", "us", compared="main"
    ),
    "exclusive_busy_us": Column("length of the union of those GPU events", "us"),
    "inclusive_percent": Column("inclusive_sum_us as share of the sum over all GPU events", "%"),
    "uid": uid("the first node of this name with GPU work; none for a line in brackets"),
}

_WORK: About = {
    "gpu_events": count("GPU events below them"),
    "gpu_sum_us": GPU_SUM,
    "gpu_busy_us": GPU_BUSY,
}

GPU_TIME_UNDER: About = {
    "kind": key("kind of the nodes right below"),
    "name": key("their name"),
    "nodes": count("nodes of this name with GPU work"),
    **_WORK,
    "percent": share("share of the sum over all rows"),
    "uid": replace(uid("the first of the nodes; ask for it to go on downwards"), drop_priority=0),
}

PYTHON_LINES: About = {
    "name": key(
        "`file(line): function` of the innermost such frame above the launch; in profiles of JAX without one "
        "`file:line` that the instruction comes from"
    ),
    "frames": count("calls of it with GPU work; of an instruction's line its instances"),
    **_WORK,
    "percent": share("share of the sum over all GPU events"),
    "uid": uid("the first of these calls or instances"),
}

RUNTIME_SUMMARY: About = {
    "name": key(
        "runtime or driver call; a line in brackets stands for GPU events without a launch in the trace", "runtime call"
    ),
    "calls": count("calls", "calls"),
    **shown(
        statistics("host_{}_us", "the durations of the calls", "us", ("sum", "mean", "median", "max")),
        host_sum_us="host us",
        host_mean_us="mean us",
    ),
    "host_self_us": total("sum of the durations without that of calls inside them", "us"),
    "gpu_events": count("GPU events that the calls launched", "GPU events"),
    "gpu_sum_us": total("sum of the durations of these", "us", "GPU us"),
    "calls_without_gpu": count("calls that launched no GPU event"),
    "delay_min_us": Column(
        "smallest delay from the start of a call to the start of its first GPU event", "us", Role.min
    ),
    "delay_median_us": Column("median of these delays", "us", Role.spread, "median delay us"),
    "delay_p90_us": Column("nine tenths of these delays are not longer", "us", Role.spread, "p90 us"),
    "delay_max_us": Column("greatest of these delays", "us", Role.max),
    "longest_uid": instance("uid of the longest call"),
}

LAUNCH_DELAY: About = {
    "name": key("op that the work is charged to, or call that launched it"),
    "launches": count("calls that launched GPU work"),
    **statistics(
        "delay_{}_us",
        "the times from the start of a call to the start of its first GPU event",
        "us",
        ("mean", "median"),
    ),
    "delay_p99_us": Column("99 of 100 of these times are not longer", "us", Role.spread),
    "delay_max_us": Column("greatest of these times", "us", Role.max),
    **statistics(
        "after_{}_us",
        "the times from the end of a call to the start of its first GPU event; negative where that starts before the "
        "call returns",
        "us",
        ("mean", "median"),
    ),
    "after_p99_us": Column("99 of 100 of these times are not longer", "us", Role.spread),
    "after_max_us": Column("greatest of these times", "us", Role.max),
    "longest_uid": uid("uid of the call with the longest delay"),
}

UNLAUNCHED_GPU_TIME: About = {
    "kind": key("Kernel, Memcpy or Memset"),
    "name": key("name of the GPU events"),
    "streams": Column("streams that they are on"),
    "gpu_events": count("GPU events without a launch in the trace"),
    "gpu_sum_us": GPU_SUM,
    "percent": share("share of the sum over all GPU events"),
    "early_events": count("those that began before the first runtime call of the trace: launched before recording"),
    "first_start_ms": moment("start of the first of them, as Perfetto UI shows it", "ms"),
    "last_end_ms": Column("end of the last of them", "ms", Role.max),
    "uid": uid("the one that starts first"),
}

UNLINKED: About = {
    "device": Column("index of the device"),
    "stream": Column("number of the stream"),
    "gpu_events": count("GPU events of the stream"),
    "unlinked_events": count("those without a launch in the trace"),
    "gpu_sum_us": total("sum of the durations of all of them", "us"),
    "unlinked_us": total("sum of the durations of those without a launch", "us"),
    "percent_of_stream": Column("unlinked_us as share of gpu_sum_us", "%"),
    "percent": share("unlinked_us as share of the sum over all GPU events"),
    "first_linked_ms": moment("start of the first that has a launch, as Perfetto UI shows it", "ms"),
    "last_unlinked_ms": Column("start of the last that has none", "ms", Role.max),
}

SCHEMAS = {
    "attribution": TableSchema(
        "GPU time per name at one level of the graph: modules, ops, launches or kernels.", ATTRIBUTION, counts="node"
    ),
    "module_tree": TableSchema(
        "GPU time of every nn.Module or named scope, forward and backward, in the order of the module tree.",
        MODULE_TREE,
        ordered=True,
    ),
    "modules": TableSchema("GPU time of every nn.Module or named scope by its place in the module tree.", MODULES),
    "gpu_time_under": TableSchema("GPU time below a node by what is right below it.", GPU_TIME_UNDER, counts="node"),
    "python_lines": TableSchema("Which lines of Python launch the GPU time.", PYTHON_LINES),
    "runtime_summary": TableSchema(
        "What the runtime and driver calls cost the host, what they launched, and how long that took to start.",
        RUNTIME_SUMMARY,
    ),
    "launch_delay": TableSchema("How long GPU work takes to start after its launch.", LAUNCH_DELAY),
    "unlaunched_gpu_time": TableSchema("Which GPU work has no launch in the trace, by name.", UNLAUNCHED_GPU_TIME),
    "unlinked": TableSchema("How much of each stream's time has no launch in the trace.", UNLINKED),
}
