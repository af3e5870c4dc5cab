"""Tables across traces: comparisons, histories, the ranks of a job."""

from __future__ import annotations

from dataclasses import replace

from tracelens_graph.schema.tables.performance import SPEEDUP
from tracelens_graph.schema.tables.shared import count, key, share, text, total, uid
from tracelens_graph.tables.column import About, Column, Role, TableSchema

OVERVIEW: About = {
    "trace": key("name of the file", "trace"),
    "rank": Column("rank in the job, from the metadata, else from the name of the file", heading="rank"),
    "file": text("`cut short` if the end of the file is missing; the column is there only if one is"),
    "kind": text("what kind of run it is, as the headline of its verdict says", heading="kind of run"),
    "steps": Column("steps", heading="steps"),
    "host_step_ms": Column(
        "mean duration of a step on the host, that of its `ProfilerStep`; on the device it may last longer or shorter, "
        "see `device_step_ms` of `rank_steps`", "ms", heading="host step ms",
    ),
    "total_ms": Column("from the first to the last GPU event", "ms", heading="total ms"),
    "busy_percent": Column("share of that time with a GPU event", "%", heading="busy % of total"),
    "computation_ms": Column("computation runs", "ms", heading="compute ms"),
    "communication_ms": Column("communication runs", "ms", heading="comm ms"),
    "exposed_communication_ms": Column("communication runs and no computation", "ms", heading="exposed comm ms"),
    "idle_ms": Column("nothing runs", "ms", heading="idle ms"),
}  # fmt: skip

COMPARISON: About = {
    "only_in": text("the runs that have the row, where others do not; else empty"),
    "RUN::COLUMN": Column("a column of the table that is compared, in one run"),
    "COLUMN__RUN_diff": Column("its value in a run less that in the first; a row that a run lacks counts as 0 in sums"),
    "COLUMN__RUN_pct": Column("that difference as share of the value in the first run", "%"),
}

DIFF_PLACES: About = {
    "place": Column("number of the place, as `--point` takes it", heading="#", cells="number"),
    "change_ms": total("GPU time of b less that of a", "ms", heading="change ms", figure="ms"),
    "a_ms": replace(total("sum of the durations of the GPU events there in a", "ms", heading="A ms"), drop_priority=1),
    "b_ms": replace(total("the same in b", "ms", heading="B ms"), drop_priority=1),
    "times": replace(
        count("points of divergence: how often the program comes there", heading="times"), drop_priority=1
    ),
    "op": key("op, or what else launched the work; `x -> y` where b calls y in place of x", "op"),
    "module": key("classes of the modules around it, the outermost first", "module"),
    "reason": replace(text("why they differ: one word", "reason"), drop_priority=0),
    "why": text("why they differ: the evidence"),
    "events_a": replace(count("GPU events there in a"), drop_priority=2),
    "events_b": replace(count("GPU events there in b"), drop_priority=2),
    "kernels_a": Column(
        "short names of its kernels in a, those with the most time first", cells="list", drop_priority=2
    ),
    "kernels_b": Column("the same in b", cells="list", drop_priority=2),
    "line_a": text("innermost line of Python around what launched the longest of them in a"),
    "line_b": text("the same in b"),
    "shapes_a": text("dims of the arguments of the op that launched it in a, JSON"),
    "shapes_b": text("the same in b"),
    "types_a": text("types of these arguments in a, JSON"),
    "types_b": text("the same in b"),
    "uid_a": uid("what launched the longest of them in a"),
    "uid_b": uid("the same in b"),
}

_TIMES: About = {
    "gpu_time_a_us": total("sum of the durations of the GPU events there in a", "us"),
    "gpu_time_b_us": total("the same in b", "us"),
    "change_us": total("GPU time of b less that of a", "us"),
}
KERNEL_REPLACEMENTS: About = {
    "op": key("op that the GPU work is charged to, in a if it is there; absent for none"),
    "kernel_a": key("name of the GPU event in a; absent where only b has one"),
    "kernel_b": key("name of what belongs to it in b; absent where only a has one"),
    "events_a": count("GPU events of that name in a, as far as the row is about them"),
    "events_b": count("the same in b"),
    **_TIMES,
}
LAYER_DIFFERENCES: About = {
    "layer_a": key("the layer in a; absent where only b has it"),
    "layer_b": key("what belongs to it in b; absent where only a has it"),
    "inside": text("the module around it, in a if it is there; absent for none"),
    "kind": text(
        "how they resemble each other: identical, same structure, renamed, other arguments, wrapped, changed (what is "
        "below differs), only in a, only in b"
    ),
    **_TIMES,
    "uid_a": uid("the layer in a"),
    "uid_b": uid("what belongs to it in b"),
}

_CHANGE: About = {
    "change_ms": Column("the second less the first", "ms", heading="change ms", figure="ms"),
    "change_percent": Column("that as share of the first; absent where the first is 0", "%", figure="percent"),
}
DIFF_TOTALS: About = {
    "time": key("what is measured", "time"),
    "a_ms": Column("of a", "ms", heading="A ms"),
    "b_ms": Column("of b", "ms", heading="B ms"),
    **_CHANGE,
    "meaning": text("what it is, in words"),
}

DIFF_RUNS: About = {
    "run": key("the trace", "run"),
    "structure": Column(
        "number of the structure: runs of one number make the same calls with the same shapes and kinds of kernels",
        heading="structure",
    ),
    "gpu_ms": Column("sum of the durations of its GPU events", "ms", heading="GPU ms"),
    "change_ms": Column("that less that of the first run", "ms", heading="change ms"),
    "change_percent": Column("that as share of the first run", "%", heading="%"),
    "total_ms": Column("time from its first to its last GPU event", "ms", heading="total ms"),
    "shared_percent": Column("share of its GPU time in work that the first run has, too", "%", heading="shared %"),
    "most": text("the place with the most of the change", "most of the change"),
    "why": replace(text("why that place differs"), drop_priority=2),
}

DIFF_WITHIN: About = {
    "part": key("layer, step or rank", "part"),
    "name": key("which of them", "name"),
    "times": count("how many are odd in this way; the row tells of the one that is farthest off", heading="times"),
    "parts": Column("how many there are side by side", heading="of"),
    "alike": Column("how many of them have the usual structure", heading="alike"),
    "differs": text(
        "structure: other calls, shapes, types or kinds of kernels; time: the same in another time; spread: most share "
        "no structure, none is odd by its time, and the row compares the slowest with the fastest",
        "differs in",
    ),
    "gpu_ms": Column("sum of the durations of its GPU events", "ms", heading="GPU ms"),
    "usual_ms": Column(
        "the same of the usual one that it is compared with, the one of median time; for a spread the fastest",
        "ms",
        heading="usual ms",
    ),
    "change_ms": Column("the difference", "ms", heading="change ms"),
    "usual": text("that usual one"),
    "where": text("the place with the most of the change", "where"),
    "why": replace(text("why that place differs", "why"), drop_priority=0),
    "uid": uid("the layer; absent for steps and ranks"),
    "usual_uid": uid("the usual layer; absent for steps and ranks"),
}

DIFF_TIMES: About = {
    "part": key(
        "computation, exposed_communication, exposed_copies and idle add up to the time from the first to the last GPU "
        "event of a device; around: what of the steps lies before and behind it"
    ),
    "cause": key("what time without GPU work is due to; empty for GPU work"),
    "change_ms": total("time of b less that of a", "ms", heading="change ms"),
    "a_ms": total("time in a, over all devices", "ms", heading="A ms"),
    "b_ms": total("the same in b", "ms", heading="B ms"),
    "why": replace(text("what it is, and what of it changed"), drop_priority=0),
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
    "kind": replace(text("kind of collective"), drop_priority=0),
    "group": text("what the program calls its process group, else the group's name; absent where not recorded"),
    "sequence": Column("number of the collective in its group; absent where not recorded"),
    "collective": key("key of the collective on the rank that came last"),
    "ranks": Column("ranks whose traces have it"),
    "first_start_us": Column(
        "start of the rank that came first, from the first start of a trace of the run", "us", Role.time
    ),
    "last_start_us": Column("start of the rank that came last", "us", Role.time),
    "start_skew_us": Column("last start less first start", "us", drop_priority=0),
    "end_skew_us": Column("last end less first end", "us", drop_priority=2),
    "wait_us": total("sum over the ranks of the time from their own start to the last one, or to their own end", "us"),
    "shortest_us": Column("duration on the rank where it was shortest", "us", Role.min),
    "longest_us": Column("duration on the rank where it was longest", "us", Role.max),
    "duration_spread_us": Column("greatest less smallest duration", "us", drop_priority=2),
    "last_trace": replace(text("name of the trace of the rank that came last"), drop_priority=2),
    "last_rank": Column("number of that rank; absent where not recorded", drop_priority=0),
}

SLOWEST_RANKS: About = {
    "trace": key("name of the rank's trace"),
    "rank": Column("number of the rank; absent where not recorded", drop_priority=0),
    "collectives": count("collectives that it took part in together with others"),
    "times_last": count("collectives to which no rank came later"),
    "times_first": count("collectives to which no rank came earlier"),
    "wait_us": total("sum of the time from its own starts to the last starts, or to its own ends", "us"),
    "mean_wait_us": Column("the same per collective", "us", Role.mean),
    "collective_us": total("sum of the durations of the collectives, waiting included", "us"),
}

WAITS_BY_GROUP: About = {
    "group": key("what the program calls the process group, else its name; absent where not recorded"),
    "group_ranks": replace(text("ranks of the group, JSON; absent where not recorded"), drop_priority=3),
    "kind": key("kind of collective"),
    "ranks": Column("most ranks whose traces have one of them", drop_priority=2),
    "collectives": count("collectives"),
    "wait_us": total("sum over collectives and ranks of the time until the last rank came", "us"),
    "transfer_us": replace(total("sum of the time from then on until the first rank left", "us"), drop_priority=1),
    "end_skew_us": replace(total("sum of the time after the first rank left", "us"), drop_priority=2),
    "wait_percent": Column("waiting as share of these three", "%", drop_priority=0),
    "mean_wait_us": replace(Column("waiting per collective and rank", "us", Role.mean), drop_priority=1),
    "longest_wait_us": Column("longest that one rank waited", "us", Role.max),
    "last_trace": replace(
        text("name of the trace that was waited for longest: waiting counts for the rank that came last"),
        drop_priority=2,
    ),
    "last_rank": Column("number of that rank; absent where not recorded", drop_priority=0),
    "last_wait_us": Column("waiting for that rank, summed over the others", "us", drop_priority=0),
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

_TRACELENS_ARGUMENTS: About = {
    "Input Dims": Column("sizes of the arguments of the op that launched it", cells="list"),
    "Input Strides": Column("their strides", cells="list"),
    "Input type": Column("their types", cells="list"),
    "Concrete Inputs": Column("values of those that are no tensors", cells="list"),
}
_TRACELENS_MODULES: About = {
    "nn_module_stack": text("modules around the op, the outermost first, behind `root`; joined by `;`"),
    "nn_module_parent": text("the innermost of them"),
}

DIFF_STATS: About = {
    "name": key("the GPU event"),
    "cpu_op_name": text("the op that launched it"),
    "cpu_op_uid": uid("that op, in its own trace"),
    "source": text("`trace1` for the first trace, `trace2` for the second"),
    **_TRACELENS_ARGUMENTS,
    "kernel_time": total("its duration", "us"),
    "busy_time": Column("time with any GPU event of its trace below the LCA, the same in all their rows", "us"),
    "lowest_common_ancestor_name": text("the LCA: lowest node of both traces above it; `x | y` if called differently"),
    "lowest_common_ancestor_id": Column("number of the LCA in the merged tree; absent at the top of one trace alone"),
    "gpu_op_uid": uid("the GPU event, in its own trace"),
    **_TRACELENS_MODULES,
}
DIFF_STATS_SUMMARY: About = {
    "name": DIFF_STATS["name"],
    "operation_count": count("GPU events that differ in nothing of this row but their times"),
    **{
        name: DIFF_STATS[name]
        for name in (
            "cpu_op_name", "cpu_op_uid", "source", *_TRACELENS_ARGUMENTS, "busy_time", "lowest_common_ancestor_name",
            *_TRACELENS_MODULES,
        )
    },
    "kernel_time_mean": Column("mean of their durations", "us"),
    "kernel_time_sum": total("sum of their durations", "us"),
}  # fmt: skip
PERF_SUMMARY_BY_LCA: About = {
    "name": key("ops below the LCA that launched work in trace1, or else in trace2"),
    "lowest_common_ancestor_name": DIFF_STATS["lowest_common_ancestor_name"],
    "lowest_common_ancestor_id": DIFF_STATS["lowest_common_ancestor_id"],
    **{name: replace(column, definition=f"{column.definition}; of the first GPU event")
       for name, column in _TRACELENS_MODULES.items()},
    **{name: replace(_TRACELENS_ARGUMENTS[name], definition=f"{_TRACELENS_ARGUMENTS[name].definition}; of the first")
       for name in ("Input Dims", "Input type", "Input Strides", "Concrete Inputs")},
    "kernel_time_trace1_us": total("time with any GPU event of trace1 below the LCA", "us"),
    "kernel_time_trace2_us": total("the same of trace2", "us"),
    "gpu_sum_trace1_us": total("sum of the durations of these GPU events of trace1; ours", "us"),
    "gpu_sum_trace2_us": total("the same of trace2; ours", "us"),
    "num_kernels_trace1": count("these GPU events of trace1"),
    "num_kernels_trace2": count("the same of trace2"),
    "kernel_names_trace1": Column("their names in trace1", cells="list"),
    "kernel_names_trace2": Column("the same in trace2", cells="list"),
    **SPEEDUP,
    "delta_us (trace2 - trace1)": total("kernel_time_trace2_us less kernel_time_trace1_us", "us"),
    "pct_of_trace1_total (%)": share("share of the sum of kernel_time_trace1_us"),
    "cumulative_pct_trace1 (%)": Column("running sum of these shares", "%"),
    "pct_of_trace2_total (%)": share("share of the sum of kernel_time_trace2_us"),
}  # fmt: skip

SCHEMAS = {
    "overview": TableSchema("Several traces side by side, one row each.", OVERVIEW),
    "comparison": TableSchema(
        "One table of several runs side by side, with the differences of each run from the first.", COMPARISON
    ),
    "diff_totals": TableSchema("How long two traces take in all.", DIFF_TOTALS, ordered=True),
    "diff_places": TableSchema(
        "Where the GPU work of two traces differs by structure, and why; changes add up to that of all GPU time.",
        DIFF_PLACES,
        counts="point",
        figure="place",
    ),
    "divergences": TableSchema(
        "Where the GPU work of two traces differs by structure, and why.", DIFF_PLACES, counts="point"
    ),
    "kernel_replacements": TableSchema(
        "Which kernels of one trace took the place of which of another.", KERNEL_REPLACEMENTS
    ),
    "layer_differences": TableSchema("Which layers of two traces are not the same.", LAYER_DIFFERENCES),
    "diff_times": TableSchema(
        "What the change of the time from first to last GPU event is made of: GPU work and idle time by cause.",
        DIFF_TIMES,
        ordered=True,
    ),
    "diff_runs": TableSchema("Several traces against the first by structure.", DIFF_RUNS, ordered=True),
    "diff_within": TableSchema(
        "Which of equal layers, steps or ranks is not like the others.", DIFF_WITHIN, counts="part"
    ),
    "diff_stats": TableSchema("TraceLens's table of a comparison: GPU events by lowest common ancestor.", DIFF_STATS),
    "diff_stats_unique_args_summary": TableSchema(
        "TraceLens's summary of it: events that differ in their times alone.", DIFF_STATS_SUMMARY
    ),
    "perf_summary_by_lca": TableSchema(
        "TraceLens's table of lowest common ancestors, with both times.", PERF_SUMMARY_BY_LCA
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
    "waits_by_group": TableSchema("How long the ranks of each process group wait for one another.", WAITS_BY_GROUP),
    "incomplete_traces": TableSchema("Which traces lack something.", INCOMPLETE_TRACES),
}
