"""Tables of event replay: what can be replayed, and what came of it."""

from __future__ import annotations

from tracelens_graph.schema.tables.shared import count, key, listed, share, text, uid
from tracelens_graph.tables.column import About, Column, Role, TableSchema

REPLAY_SIGNATURES: About = {
    "op": key("operation that is replayed", "op"),
    "input_dims": Column("sizes of its arguments, as recorded", role=Role.key, heading="shapes", cells="list"),
    "input_types": Column("types of its arguments, as recorded", role=Role.key, cells="list"),
    "concrete_inputs": Column("values of its arguments that are no tensors, as recorded", role=Role.key, cells="list"),
    "calls": count("calls with these arguments; where any launches GPU work, those that do", "calls"),
    "time_us": Column(
        "sum of the durations of the GPU work charged to them", "us", Role.sum, heading="GPU us", drop_priority=2
    ),
    "percent": share("share of the GPU time of the window, work under no op included", "%"),
    "could_be_won_us": Column(
        "of this the time above that at the roof; absent where operations are not ordered by it",
        "us",
        heading="above roof us",
        drop_priority=-1,
    ),
    "percent_of_roof": Column(
        "time at the roof as share of the GPU time; absent where `could_be_won_us` is",
        "%",
        heading="% of roof",
        drop_priority=0,
    ),
    "median_us": Column("median over the calls of the sum of the GPU work below each", "us", Role.spread),
    "kernels": listed("names of the GPU work below the call that is planned, in order of launch"),
    "kernel": Column("of these the longest", role=Role.text, heading="kernel", drop_priority=2),
    "uid": Column(
        "the call that is planned: that with the most GPU time", role=Role.uid, heading="uid", drop_priority=1
    ),
    "plan": Column(
        "`yes`, `assumed` where the trace does not tell all arguments, or `no`",
        role=Role.key,
        heading="replay",
        drop_priority=-1,
        wraps=True,
    ),
    "why": text("what is assumed, or why it cannot be replayed"),
    "remedy": text("what would help; empty where nothing would"),
    "file": text("the script that was written; empty for none"),
}

REPLAY_COVERAGE: About = {
    "op": key("operation that the GPU work is charged to; in brackets what stands for work under no op", "op"),
    "signatures": count("different names and arguments; 0 for work under no op"),
    "calls": Column("calls of them; 0 for work under no op", role=Role.sum, heading="calls"),
    "gpu_events": Column("kernels, copies and fills", role=Role.sum),
    "time_us": Column("sum of their durations", "us", Role.sum, heading="GPU us", compared="main", drop_priority=2),
    "percent": share("share of the GPU time, the sum of the durations of all GPU events", "%"),
    "uid": uid("the call with the most GPU time; of work under no op the longest GPU event"),
    "plan": key("`yes`, `assumed` where the trace does not tell all arguments, or `no`", "replay"),
    "why": key("why it cannot be replayed, or where the work comes from"),
    "remedy": Column(
        "what would help; empty where nothing would", role=Role.text, heading="what helps", drop_priority=-1, wraps=True
    ),
}

OUTCOMES = {
    "equal": "recorded as in the trace",
    "equal but assumed": "the same, with arguments that the trace does not tell",
    "equal arguments": "it ran on another kind of device, so that ops below and kernels are not compared",
    "other kernel": "other kernels",
    "other children": "other ops below",
    "other arguments": "another name, or other types, shapes, strides or values",
    "failed": "it ended with an error, was killed or took too long",
    "refused": "the file is not as it was written",
    "not filled": "a kernel has to be put in by hand first",
    "needs ranks": "a collective, which several processes run together",
    "not run": "it runs operations of a list, of which single scripts are verified, or needs more memory than there is",
    "no torch": "PyTorch cannot be imported",
}
"""How a script, run once under the profiler, compares with the call of the trace, and what that means."""

REPLAY_VERIFY: About = {
    "file": key("the script, in its folder", "file"),
    "op": text("operation that it calls", "op"),
    "outcome": Column(
        f"how it compares: {', '.join(f'`{one}`' for one in OUTCOMES)}",
        heading="outcome",
        cells="text",
        drop_priority=-1,
    ),
    "arguments": Column("whether it is recorded with the arguments of the trace", cells="text"),
    "children": Column("whether it calls the ops that the call of the trace calls, in their order", cells="text"),
    "kernels": Column("whether it launches the kernels that the call of the trace launches", cells="text"),
    "why": Column("what differs, or why it did not run", cells="text"),
    "seconds": Column("how long the script took, PyTorch imported already", "s", drop_priority=3),
}

REPLAY_RESULTS: About = {
    "op": key("operation that was replayed", "op"),
    "input_dims": Column("sizes of its arguments, as recorded", role=Role.key, heading="shapes", cells="list"),
    "input_types": Column("types of its arguments, as recorded", role=Role.key, cells="list"),
    "concrete_inputs": Column("values of its arguments that are no tensors, as recorded", role=Role.key, cells="list"),
    "device_a": text("where the first results are from"),
    "device_b": text("where the second results are from"),
    "median_us_a": Column("median over the first results' calls", "us", heading="A us", drop_priority=0),
    "median_us_b": Column("median over the second results' calls", "us", heading="B us", drop_priority=0),
    "difference_us": Column("the second median less the first", "us"),
    "ratio": Column(
        "the second median as multiple of the first: above 1 the second machine is slower",
        heading="B/A",
        drop_priority=-1,
    ),
    "tflops_a": Column("operations per second of the first results", "TFLOP/s", heading="A TFLOP/s", drop_priority=2),
    "tflops_b": Column("operations per second of the second results", "TFLOP/s", heading="B TFLOP/s", drop_priority=2),
    "traced_us": Column("GPU time of the call in the trace", "us", heading="traced us", drop_priority=1),
    "same_kernels": Column("whether both launched kernels of the same names", role=Role.flag),
    "largest_size": Column("sizes above this were shrunk to it; absent where they are those of the trace"),
}

SCHEMAS = {
    "replay_results": TableSchema(
        "How long operations of a trace take on two machines: those that differ most first.",
        REPLAY_RESULTS,
        ordered=True,
    ),
    "replay_verify": TableSchema(
        "Which scripts are recorded as the calls of the trace that they stand for.", REPLAY_VERIFY, ordered=True
    ),
    "replay_signatures": TableSchema("Which operations can be replayed, by name and arguments.", REPLAY_SIGNATURES),
    "replay_coverage": TableSchema(
        "How much of the GPU time can be replayed, and what keeps the rest from it.",
        REPLAY_COVERAGE,
        counts="signature",
    ),
}
