"""Tables of structure: what repeats, which layer is not like the others, the way from a kernel to Python."""

from __future__ import annotations

from tracelens_graph.schema.tables.shared import GPU_EVENTS, GPU_TIME, PERCENT, count, key, text, total, uid
from tracelens_graph.tables.column import About, Column, Role, TableSchema

REPEATED_SUBTREES: About = {
    "name": key("name of the call, without what differs between instances"),
    "kind": text("Module or Op"),
    "count": count("number of calls that are alike"),
    "gpu_events": Column("number of GPU events in one of them"),
    "gpu_time_us": Column("sum of the durations of the GPU events of all of them", "us"),
    "mean_gpu_time_us": Column("the same per call", "us", Role.mean),
    "percent": Column(PERCENT.definition, "%"),
    "class": key("what they are instances of"),
    "uid": uid("the first of them"),
}

ODD_LAYERS: About = {
    "module": key("the odd layer, the first one of its kind"),
    "inside": text("the module around the layers"),
    "times": count("number of layers that are odd in this way"),
    "layers": Column("number of layers around this one, itself included"),
    "alike": Column("how many of them are as most are"),
    "differs": text("what departs first: call, arguments or kernel"),
    "departs_at": text("first call or kernel that differs; absent where the layer ends before the others"),
    "instead_of": text("what the others have in its place; absent where they end before"),
    "way": text("names of the calls from the layer to where it departs"),
    "gpu_time_us": Column("sum of the durations of the GPU events of the layer", "us"),
    "usual_gpu_time_us": Column("mean of those that are as most are", "us"),
    "uid": uid("the odd layer"),
    "departs_uid": uid("what departs_at names"),
    "usual_uid": uid("the first of those that are as most are"),
}

PATH_TO_PYTHON: About = {
    "level": Column("0 for the kernel, 1 for its launch, and so on"),
    "link": text("how it is tied to the level below: launched by, called by, backward of"),
    "kind": text("what it is"),
    "name": text("its name; that of a PythonFunction tells file and line"),
    "uid": uid("which event it is"),
    "dur_us": Column("how long it takes", "us"),
    "gpu_time_us": Column("sum of the durations of the GPU events below it", "us"),
}

RECOMPUTED_SHARE: About = {
    "op": key("op that the work is charged to, else the runtime call that launched it"),
    "module": key("innermost nn.Module around it, without the number of the instance; absent for none"),
    "gpu_events": GPU_EVENTS,
    "gpu_time_us": GPU_TIME,
    "percent": PERCENT,
}

OUTLIVING_EVENTS: About = {
    "kind": key("kind of the events"),
    "name": key("name of the events"),
    "count": count("how many of them end after the event that they started in"),
    "callees": count("how many of these end after their caller"),
    "greatest_excess_us": Column("longest time by which one of these ends after its caller", "us", Role.max),
    "total_excess_us": total("sum of these times", "us"),
    "caller": text("the caller in the case of the greatest excess"),
    "uid": uid("the event in that case, else the first"),
}

SCHEMAS = {
    "repeated_subtrees": TableSchema("Which parts of the call tree run again and again.", REPEATED_SUBTREES),
    "odd_layers": TableSchema("Which layers are not like those beside them, and where they depart.", ODD_LAYERS),
    "path_to_python": TableSchema(
        "The calls that lead from a kernel up to the line of Python it comes from.", PATH_TO_PYTHON, ordered=True
    ),
    "recomputed_share": TableSchema("What recomputation of activations costs, by op and module.", RECOMPUTED_SHARE),
    "outliving_events": TableSchema("Which calls end after the call that they started in.", OUTLIVING_EVENTS),
}
