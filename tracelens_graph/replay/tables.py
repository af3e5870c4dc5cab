"""Tables of event replay: what can be replayed, and what came of it."""

from __future__ import annotations

from tracelens_graph.tables.column import Column, Role
from tracelens_graph.tables.schema import TableSchema

_CALL = {
    "op": Column.key("operation that is replayed", "op"),
    "input_dims": Column("sizes of its arguments, as recorded", role=Role.key, heading="shapes", cells="list"),
    "input_types": Column("types of its arguments, as recorded", role=Role.key, cells="list"),
    "concrete_inputs": Column("values of its arguments that are not tensors, as recorded", role=Role.key, cells="list"),
}
_TRACE = Column(
    "the trace that the programs are of; where a device has results of several, each is compared by itself",
    role=Role.key,
    heading="trace",
    drop_priority=0,
)

REPLAY_SIGNATURES = TableSchema(
    "replay_signatures",
    "Which operations can be replayed, by name and arguments.",
    {
        **_CALL,
        "calls": Column.count("calls with these arguments; where any launches GPU work, those that do", "calls"),
        "time_us": Column(
            "sum of the durations of the GPU work charged to them: all that is below them, which is in no other row",
            "us",
            Role.sum,
            heading="GPU us",
            drop_priority=2,
        ),
        "percent": Column.share("share of the GPU time of the window, work under no op included", "%"),
        "could_be_won_us": Column(
            "the part of it above the time at the roof; absent unless operations are ordered by it",
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
        "median_us": Column("median over the calls of the GPU work charged to each", "us", Role.spread),
        "kernels": Column.listed("names of the GPU work below the call that is planned, in order of launch"),
        "kernel": Column("of these the longest", role=Role.text, heading="kernel", drop_priority=2),
        "uid": Column(
            "the call that is planned: that with the most GPU time", role=Role.uid, heading="uid", drop_priority=1
        ),
        "plan": Column(
            "`yes`, `assumed` where the trace does not give all arguments, or `no`",
            role=Role.key,
            heading="replay",
            drop_priority=-1,
            wraps=True,
        ),
        "why": Column.text("what is assumed, or why it cannot be replayed"),
        "remedy": Column.text("what would help; empty where nothing would"),
        "file": Column.text("the script that was written; empty for none"),
    },
)

REPLAY_COVERAGE = TableSchema(
    "replay_coverage",
    "How much of the GPU time can be replayed, and what keeps the rest from it.",
    {
        "op": Column.key("operation that the GPU work is charged to; in brackets a name for work under no op", "op"),
        "signatures": Column.count("different names and arguments; 0 for work under no op"),
        "calls": Column("calls of them; 0 for work under no op", role=Role.sum, heading="calls"),
        "gpu_events": Column("kernels, copies and fills", role=Role.sum),
        "time_us": Column("sum of their durations", "us", Role.sum, heading="GPU us", compared="main", drop_priority=2),
        "percent": Column.share("share of the GPU time, the sum of the durations of all GPU events", "%"),
        "uid": Column.uid("the call with the most GPU time; of work under no op the longest GPU event"),
        "plan": Column.key("`yes`, `assumed` where the trace does not give all arguments, or `no`", "replay"),
        "why": Column.key("why it cannot be replayed, or where the work comes from"),
        "remedy": Column(
            "what would help; empty where nothing would",
            role=Role.text,
            heading="what helps",
            drop_priority=-1,
            wraps=True,
        ),
    },
    counts="signature",
)

OUTCOMES = {
    "equal": "recorded as in the trace",
    "equal but assumed": "the same, with arguments that the trace lacks",
    "equal arguments": "it ran on another kind of device, so that ops below and kernels are not compared",
    "new sizes": "no trace has these sizes: arguments are as asked for, the rest is not compared",
    "reference": "plain torch ran in place of the library: arguments are equal, the rest is not compared",
    "equal shapes": "of JAX: shape and type of the result are those of the trace, the rest is not compared",
    "ran": "a gradient, which is another operation on this kind of device, so that nothing is compared",
    "other kernel": "other kernels",
    "other children": "other ops below",
    "other arguments": "another name, or other types, shapes, strides or values",
    "failed": "it ended with an error, was killed or took too long",
    "refused": "the file is missing, or not as it was written",
    "not filled": "a kernel has no source: --kernel-source FILE puts it there",
    "needs ranks": "a collective, which several processes run together",
    "not run": "it needs more memory than there is",
    "no library": "the library of the operation cannot be imported; --reference runs plain torch in its place",
    "no torch": "PyTorch cannot be imported",
    "no jax": "JAX cannot be imported",
}
"""How a script, run once under the profiler, compares with the call of the trace, and what that means."""

REPLAY_VERIFY = TableSchema(
    "replay_verify",
    "Which scripts are recorded as the calls of the trace that they stand for.",
    {
        "file": Column.key("the script, in its folder", "file"),
        "op": Column.text("operation that it calls", "op"),
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
        "seconds": Column("how long the script took after importing PyTorch", "s", drop_priority=3),
    },
    ordered=True,
)

OF_DEVICE = "device_i_"
"""Before the names of columns that are there once for each device, with its letter in place of `i`."""

REPLAY_RESULTS = TableSchema(
    "replay_results",
    "How long operations of a trace take on several devices: those that differ most, weighted by calls, first.",
    {
        **_CALL,
        "count": Column(
            "calls in the trace, by which sums are weighted; 0 for sizes that it does not have",
            heading="calls",
            drop_priority=1,
        ),
        "trace": _TRACE,
        "fastest": Column("the devices with the least time", heading="fastest", cells="text", drop_priority=0),
        f"{OF_DEVICE}us": Column("median over the calls on the device", "us", heading=" us", drop_priority=-1),
        f"{OF_DEVICE}ratio": Column(
            "this median as multiple of that of device A: above 1 the device is slower", heading="/A", drop_priority=-1
        ),
        f"{OF_DEVICE}percent_of_roof": Column(
            "least time on the device by its model, as share of the median; absent where one is not known",
            "%",
            heading=" % of roof",
            drop_priority=1,
        ),
        f"{OF_DEVICE}tflops": Column("operations per second on the device", "TFLOP/s", drop_priority=0),
        f"{OF_DEVICE}tbytes_per_s": Column(
            "bytes that the operation has to move, per second on the device", "TB/s", drop_priority=0
        ),
        "traced_us": Column("GPU time of the call in the trace", "us", heading="traced us", drop_priority=1),
        "same_kernels": Column("whether all of them launched kernels of the same names", role=Role.flag),
        "largest_size": Column("sizes above this were shrunk to it; absent where they are those of the trace"),
    },
    ordered=True,
)

REPLAY_DEVICES = TableSchema(
    "replay_devices",
    "How long the operations of a trace take on each device in sum, and what the whole trace would take there.",
    {
        "device": Column.key("its letter in `replay_results`", "device", drop_priority=-1),
        "name": Column.text("its name", "name", drop_priority=-1),
        "trace": _TRACE,
        "file": Column.text("where its results are from"),
        "torch": Column.text("version of PyTorch", "torch"),
        "library": Column.text("version of CUDA or ROCm that PyTorch was built with", "library"),
        "driver": Column.text("version of the driver", "driver"),
        "clock_mhz": Column(
            "mean clock of its processors while programs measured", "MHz", heading="MHz", drop_priority=1
        ),
        "ops": Column("operations and argument sets that it measured"),
        "failed": Column("operations that failed, which are not in `ops`"),
        "compared": Column(
            "operations and argument sets that all devices have; the sums are over these", heading="ops"
        ),
        "calls": Column("calls of these in the trace", heading="calls"),
        "fastest": Column("compared operations for which it takes the least time", heading="fastest", drop_priority=-1),
        "sum_us": Column(
            "sum over the calls of the median of their operation", "us", heading="sum us", drop_priority=-1
        ),
        "ratio": Column("sum_us as multiple of that of device A", heading="/A", drop_priority=-1),
        "fastest_us": Column("the part of sum_us for operations that are fastest on it", "us"),
        "roof_us": Column("the same sum with the least time by the roof, for operations that have a model", "us"),
        "percent_of_roof": Column(
            "this as share of the time of these operations", "%", heading="% of roof", drop_priority=0
        ),
        "traced_us": Column("the same sum with the medians of the trace", "us", heading="traced us", drop_priority=0),
        "replayed_percent": Column(
            "share of the trace's GPU time that these operations take; an operation inside another one counts twice. "
            "Absent where results do not have it",
            "%",
            heading="% replayed",
            drop_priority=-1,
        ),
        "trace_us": Column(
            "estimated GPU time of the whole trace on it, if the rest scales like the replayed operations: GPU time of "
            "the trace * `sum_us` / `traced_us`",
            "us",
            heading="whole trace us",
            drop_priority=-1,
        ),
    },
    ordered=True,
)
