"""Tables across traces: comparisons, histories, the ranks of a job."""

from __future__ import annotations

from tracelens_graph.column import About, Column, Role, TableSchema
from tracelens_graph.schema.tables.shared import count, key, text, total

OVERVIEW: About = {
    "trace": key("name of the file", "trace"),
    "rank": Column("rank in the job, from the metadata, else from the name of the file", heading="rank"),
    "file": text("`cut short` if the end of the file is missing; the column is there only if one is"),
    "kind": text("what kind of run it is, as the headline of its verdict says", heading="kind of run"),
    "steps": Column("steps", heading="steps"),
    "step_ms": Column("mean duration of a step on the host", "ms", heading="step ms"),
    "total_ms": Column("from the first to the last GPU event", "ms", heading="total ms"),
    "busy_percent": Column("share of that time with a GPU event", "%", heading="busy % of total"),
    "computation_ms": Column("computation runs", "ms", heading="compute ms"),
    "communication_ms": Column("communication runs", "ms", heading="comm ms"),
    "exposed_communication_ms": Column("communication runs and no computation", "ms", heading="exposed comm ms"),
    "idle_ms": Column("nothing runs", "ms", heading="idle ms"),
}

COMPARISON: About = {
    "only_in": text("the runs that have the row, where others do not; else empty"),
    "RUN::COLUMN": Column("a column of the table that is compared, in one run"),
    "COLUMN__RUN_diff": Column("its value in a run less that in the first; a row that a run lacks counts as 0 in sums"),
    "COLUMN__RUN_pct": Column("that difference as share of the value in the first run", "%"),
}

_NAME: About = {"name": key("name of the op")}
_SIGNATURE: About = {
    **_NAME,
    "input_dims": key("dims of the inputs, JSON"),
    "input_types": key("types of the inputs, JSON"),
    "input_strides": key("strides of the inputs, JSON"),
    "concrete_inputs": key("values of the inputs that are no tensors, JSON"),
}
_COUNTS: About = {
    "count_a": count("calls in a that led to GPU work"),
    "count_b": count("calls in b that led to GPU work"),
}

COMMON_SIGNATURES: About = {
    **_SIGNATURE,
    **_COUNTS,
    "gpu_time_a_us": total("sum of the durations of the GPU events that are charged to the calls in a", "us"),
    "gpu_time_b_us": total("the same in b", "us"),
    "ratio": Column("GPU time of b over that of a; absent where a has none"),
    "difference_us": total("GPU time of b less that of a", "us"),
}

KERNEL_CHOICES: About = {
    **_SIGNATURE,
    "kernels_a": Column(
        "kernels, copies and fills charged to the calls in a, those with the most time first; short names, or whole "
        "ones where the short names of a and b are the same",
        cells="list",
    ),
    "kernels_b": Column("the same in b", cells="list"),
    **_COUNTS,
    "call_time_a_us": Column("GPU time charged to a call in a, on average", "us"),
    "call_time_b_us": Column("the same in b", "us"),
    "cost_us": total("GPU time of the calls in b beyond what as many took in a; negative where b gained", "us"),
}

OPS_ONLY_IN_ONE: About = {
    "only_in": key("the trace that has the op, `run/name`"),
    **_NAME,
    "count": count("calls"),
    "gpu_time_us": total("sum of the durations of the GPU events that are charged to the calls", "us"),
}

RUN_HISTORY: About = {
    "label_value": text("value of the label asked for"),
    "run": text("name of the run"),
    "trace": text("name of the trace"),
    "gpu_total_ms": Column("from the first start to the last end of a GPU event", "ms"),
    "gpu_busy_ms": Column("any GPU event runs", "ms"),
    "computation_ms": Column("a computation kernel or a fill runs", "ms"),
    "exposed_comm_ms": Column("communication runs and no computation", "ms"),
    "idle_percent": Column("share of the total in which nothing runs", "%"),
    "total_change_percent": Column("change of the total against the trace before", "%"),
    "busy_change_percent": Column("change of the busy time against the trace before", "%"),
}

COLLECTIVE_SPREAD: About = {
    "kind": text("kind of collective"),
    "group": text("what the program calls its process group, else the group's name; absent where not recorded"),
    "sequence": Column("number of the collective in its group; absent where not recorded"),
    "collective": key("key of the collective, the same on all ranks"),
    "ranks": Column("ranks whose traces have it"),
    "first_start_us": Column(
        "start of the rank that came first, from the first start of a trace of the run", "us", Role.time
    ),
    "last_start_us": Column("start of the rank that came last", "us", Role.time),
    "start_skew_us": Column("last start less first start", "us"),
    "end_skew_us": Column("last end less first end", "us"),
    "wait_us": total("sum over the ranks of the time from their own start to the last start", "us"),
    "shortest_us": Column("duration on the rank where it was shortest", "us", Role.min),
    "longest_us": Column("duration on the rank where it was longest", "us", Role.max),
    "duration_spread_us": Column("greatest less smallest duration", "us"),
    "last_trace": text("name of the trace of the rank that came last"),
    "last_rank": Column("number of that rank; absent where not recorded"),
}

SLOWEST_RANKS: About = {
    "trace": key("name of the rank's trace"),
    "rank": Column("number of the rank; absent where not recorded"),
    "collectives": count("collectives that it took part in together with others"),
    "times_last": count("collectives to which no rank came later"),
    "times_first": count("collectives to which no rank came earlier"),
    "wait_us": total("sum of the time from its own starts to the last starts", "us"),
    "mean_wait_us": Column("the same per collective", "us", Role.mean),
    "collective_us": total("sum of the durations of the collectives, waiting included", "us"),
}

INCOMPLETE_TRACES: About = {
    "run": key("name of the run"),
    "trace": key("name of the trace"),
    "rank": Column("rank in its job"),
    "state": text("loading, complete or dropping"),
    "damage": text("what was repaired in the file and what was lost; absent for a sound file"),
    "lean": Column("whether events were left out when it was pushed", role=Role.flag),
    "options": text("of a lean push, what was pushed, JSON"),
    "entries": Column("entries of the file's event list"),
    "nodes": Column("events that were pushed"),
}

SCHEMAS = {
    "overview": TableSchema("Several traces side by side, one row each.", OVERVIEW),
    "comparison": TableSchema(
        "One table of several runs side by side, with the differences of each run from the first.", COMPARISON
    ),
    "common_signatures": TableSchema(
        "Ops with the same arguments in two traces: how often, and how long the GPU worked for them.", COMMON_SIGNATURES
    ),
    "kernel_choices": TableSchema(
        "Where two traces run different kernels for the same op and arguments.", KERNEL_CHOICES
    ),
    "ops_only_in_one": TableSchema("Which ops only one of two traces has.", OPS_ONLY_IN_ONE),
    "run_history": TableSchema("How long the GPU took, trace after trace.", RUN_HISTORY, ordered=True),
    "collective_spread": TableSchema(
        "How far apart the ranks begin each collective, and who comes last.", COLLECTIVE_SPREAD
    ),
    "slowest_ranks": TableSchema("Which ranks the others wait for.", SLOWEST_RANKS),
    "incomplete_traces": TableSchema("Which traces lack something.", INCOMPLETE_TRACES),
}
