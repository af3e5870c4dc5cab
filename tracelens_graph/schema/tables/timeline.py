"""Tables of time: the timeline, steps, collectives, streams, idle time."""

from __future__ import annotations

from dataclasses import replace

from tracelens_graph.schema.tables.shared import (
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

GPU_TIMELINE: About = {
    "type": key("what the time was spent on", "type"),
    "time ms": total("length of the union of the intervals concerned", "ms", "time ms", compared="main", figure="ms"),
    "percent": replace(share("share of total_time", "% of total time", "percent"), compared="beside"),
    "is_recompute": Column(
        "whether the block covers recomputation of activations", role=Role.key, heading="recompute", cells="flag"
    ),
    "gpu_pid": key("number of the GPU, from 1 on, in the layout of TraceLens of a JAX profile", "GPU", cells="number"),
}

STEP_SUMMARY: About = {
    "name": key("step; a line in brackets stands for GPU events launched in no step", "step"),
    "step": Column("number of the step"),
    "pid": text("process of the step"),
    "start_ms": moment("start of the step on the host, as Perfetto UI shows it", "ms"),
    "host_step_ms": Column("duration of the step on the host", "ms", heading="host step ms"),
    "device_step_ms": Column(
        "from the first start of its GPU work to the first start of that of later steps; of the last to the end of its "
        "work",
        "ms",
        heading="device step ms",
    ),
    "gpu_events": count("GPU events launched in the step", "GPU events"),
    "gpu_sum_ms": total("sum of their durations", "ms"),
    "computation_time_ms": Column("time in which one of them computes", "ms", heading="compute ms"),
    "exposed_comm_time_ms": Column(
        "time in which one of them communicates and none computes", "ms", heading="exp. comm ms"
    ),
    "exposed_memcpy_time_ms": Column("time in which one of them copies and none computes or communicates", "ms"),
    "busy_time_ms": Column("time in which any of them runs", "ms", heading="busy ms"),
    "idle_time_ms": Column(
        "total_time_ms without busy_time_ms; GPU events of other steps do not count", "ms", heading="idle ms"
    ),
    "total_time_ms": Column("from the first start to the last end of one of them", "ms"),
    "busy_percent": Column(
        "part of device_step_ms in which a GPU event runs, of whatever step", "%", heading="busy % of device step"
    ),
    "top_ops": Column(
        "ops charged with most GPU time: name, ms, percent of gpu_sum_ms", heading="top ops", cells="list"
    ),
    "uid": instance("uid of the step"),
}

STEPS: About = {name: column for name, column in STEP_SUMMARY.items() if name != "top_ops"}

_DURATIONS = statistics(
    "dur_{}",
    "the durations of the kernels, waiting for other ranks included",
    "us",
    ("sum", "mean", "std", "min", "max"),
)

COLL_ANALYSIS: About = {
    "rank": Column("rank in the job, 0 where the trace does not tell"),
    "Process Group Name": key("name of the process group", "group"),
    "Process Group Ranks": key("ranks in it; text where the trace does not list them all", cells="list"),
    "Collective name": key("operation", "collective"),
    "Group size": key("number of ranks in the process group", "ranks", "number"),
    "dtype": key("type of the elements", "type"),
    "In msg nelems": key("elements this rank puts in", cells="number"),
    "Out msg nelems": key("elements this rank gets out", cells="number"),
    "In split size": key("elements to each rank, of an uneven all-to-all", cells="list"),
    "Out split size": key("elements from each rank, of an uneven all-to-all", cells="list"),
    "stream": Column("stream on the device", heading="stream"),
    "In msg size (MB)_first": Column("elements put in times their size; 1 MB is 2^20 bytes", "MB", heading="in MB"),
    "Out msg size (MB)_first": Column("elements got out times their size; 1 MB is 2^20 bytes", "MB", heading="out MB"),
    **shown(_DURATIONS, dur_sum="sum us", dur_mean="mean us", dur_max="max us"),
    "operation_count": count("kernels", "kernels"),
}

EXPOSED_COMMUNICATION: About = {
    "collective": key("kind of collective; absent for kernels of which it is not known"),
    "group": key("name of the process group, else its key"),
    "group_description": text("what the program calls it"),
    "group_size": Column("number of ranks in it"),
    "kernels": count("number of kernels"),
    "total_us": total("sum of their durations", "us"),
    "exposed_us": total("sum of the parts of them without computation on the device", "us", compared="main"),
    "exposed_percent": Column("exposed_us as share of total_us", "%"),
    "mean_us": Column("mean of their durations", "us", Role.mean),
    "max_us": Column("greatest of their durations", "us", Role.max),
}

STREAM_OVERLAP: About = {
    "device": Column("index of the device"),
    "stream_a": Column("number of the first stream"),
    "events_a": count("its GPU events"),
    "busy_a_us": Column("time in which it works", "us"),
    "stream_b": Column("number of the second stream"),
    "events_b": count("its GPU events"),
    "busy_b_us": Column("time in which it works", "us"),
    "both_us": Column("time in which both work", "us"),
    "percent_of_a": Column("both_us as share of busy_a_us", "%"),
    "percent_of_b": Column("both_us as share of busy_b_us", "%"),
}

IDLE_CAUSES: About = {
    "cause": key("what the idle time is due to; the causes add up to the idle time, those unknown included", "cause"),
    "gaps": count("gaps between GPU events of which a part is due to it", "gaps", figure="count"),
    "idle_ms": total("idle time due to it, over all devices", "ms", "idle ms", compared="main", figure="ms"),
    "percent_of_idle": replace(share("share of the idle time", "% of idle"), drop_priority=2),
    "percent_of_total": share(
        "share of the GPU span, from the first to the last GPU event, or of the sum of those of several devices; what "
        "of the steps lies before and behind it does not count, as it does in the causes of a report",
        "% of GPU span",
        figure="percent",
    ),
    "longest_ms": Column("the longest part of one gap that is due to it", "ms", Role.max, heading="longest ms"),
    "gap_start_ms": Column(
        "where that gap begins, as Perfetto UI shows it", "ms", heading="gap start ms", drop_priority=2
    ),
    "ends_with_uid": replace(uid("the GPU event that ends it"), heading="ends with uid"),
    "because": replace(text("call or frame to which that part is due most", "because"), drop_priority=0),
    "because_uid": replace(uid("that call or frame"), heading="because uid", drop_priority=0),
    "meaning": text("the cause in words", "meaning"),
}

_PART = Column("its part in the gap", "us", drop_priority=2)

IDLE_GAPS: About = {
    "device": Column("index of the device", drop_priority=0),
    "gap_start_ms": moment("start of the gap, as Perfetto UI shows it", "ms"),
    "gap_us": Column("its length", "us", drop_priority=0),
    "next": text("the GPU event that ends it"),
    "next_uid": replace(uid("that GPU event"), drop_priority=0),
    "launch": replace(
        text("the runtime call that launched it; absent where its launch is not in the trace"), drop_priority=4
    ),
    "launch_begin_us": Column(
        "start of the launch, from the start of the gap; negative before the gap", "us", drop_priority=4
    ),
    "launch_end_us": Column(
        "end of the launch, from the start of the gap; negative where the work had been queued before",
        "us",
        drop_priority=4,
    ),
    "call": replace(text("runtime call on the launching thread in the gap"), drop_priority=0),
    "call_us": _PART,
    "op": replace(text("op on the launching thread in the gap"), drop_priority=0),
    "op_us": _PART,
    "frame": replace(text("module or Python function on the launching thread in the gap"), drop_priority=0),
    "frame_us": _PART,
}

SCHEMAS = {
    "gpu_timeline": TableSchema(
        "What the GPUs' time was spent on: computation, exposed communication, exposed copies, nothing.",
        GPU_TIMELINE,
        ordered=True,
    ),
    "step_summary": TableSchema("How long each step took, and what the GPU did for it.", STEP_SUMMARY),
    "steps": TableSchema("How long each step took, and what the GPU did for it, without its ops.", STEPS),
    "coll_analysis": TableSchema(
        "Which collectives ran, how large their messages were, and how long they took on this rank.", COLL_ANALYSIS
    ),
    "exposed_communication": TableSchema(
        "How much communication ran without computation beside it.", EXPOSED_COMMUNICATION, counts="kernel"
    ),
    "stream_overlap": TableSchema("How long two streams work at once.", STREAM_OVERLAP),
    "idle_causes": TableSchema(
        "What the host did in every gap in which the GPU had nothing to do.",
        IDLE_CAUSES,
        counts="gap",
        figure="idle",
    ),
    "idle_gaps": TableSchema("The longest gaps in which a device did nothing, one by one.", IDLE_GAPS, leads="gap_us"),
}
