"""Tables of critical paths over ranks, and of what would change them."""

from __future__ import annotations

from tracelens_graph.schema.tables.shared import count, instance, key, share, text, total, uid
from tracelens_graph.tables.column import About, Column, Role, TableSchema

CLASS_MEANING = {
    "host": "the host worked, or waited for something that is not GPU work",
    "launch": "from the launching call to the start of the GPU work",
    "computation": "a kernel or fill computed",
    "communication": "a collective moved data, after the last rank had come",
    "peer": "a collective waited for ranks that are not in the set: what it took longer than its shortest equal",
    "copy": "data was copied",
    "stream": "from the end of GPU work to the start of the next on its stream",
    "event": "from the end of GPU work to the start of work on a stream that waited for it",
    "sync": "from the end of GPU work to the return of a call that waited for it",
    "unrecorded": "nothing is recorded that explains it, such as before the first event",
}
"""Class of time on a critical path -> what happened."""

_CLASS = key(
    "what the time is: " + "; ".join(f"`{name}`: {meaning}" for name, meaning in CLASS_MEANING.items()), "class"
)
_RANK = Column("rank in the job, its place in the set where it is not known", heading="rank")
_PATH_TIME = total("time on the path", "ms", "time ms", figure="ms")
_PERCENT = share("share of the length of the path", "% of path", "percent")
_SEGMENTS = count("segments of the path", "segments")
_UID = instance("node of the longest segment, in the trace of its rank")

SEGMENTS: About = {
    "class": _CLASS,
    "rank": _RANK,
    "name": key("GPU work; of host time the innermost call with most of it; of launches and waits the call", "name"),
    "op": text("op that it is charged to, or that is around the call", "op"),
    "module": text("innermost module around that", "module"),
    "start_us": Column("when it begins, from the beginning of the path", "us", Role.time, heading="start us"),
    "dur_ns": total("how long it lasts", "ns", "ns"),
    "from_rank": Column("rank that the path comes from, where that is another one", heading="from rank"),
    "uid": instance("node, in the trace of its rank"),
}

PATH_OF_STEP: About = {
    "place": Column("place on the path, from 1", heading="place"),
    "class": _CLASS,
    "rank": _RANK,
    "trace": text("name of the trace of the rank"),
    "name": key("GPU work; of host time the innermost call with most of it; of launches and waits the call; else the "
                "class", "name"),
    **{name: SEGMENTS[name] for name in ("op", "start_us", "dur_ns", "from_rank", "uid")},
}  # fmt: skip

CLASSES: About = {
    "class": _CLASS,
    "time_ms": _PATH_TIME,
    "percent": _PERCENT,
    "segments": _SEGMENTS,
    "longest_us": Column("the longest segment", "us", Role.max, heading="longest us"),
    "longest_name": Column("name of the longest segment", heading="longest", cells="text"),
    "rank": Column("rank of the longest segment", heading="on rank"),
    "uid": _UID,
}

RANKS: About = {
    "rank": key("rank in the job, its place in the set where it is not known", "rank", "number"),
    "trace": text("name of the trace"),
    "time_ms": _PATH_TIME,
    "percent": _PERCENT,
    "segments": _SEGMENTS,
    **{f"{name}_ms": total(f"of that: {meaning}", "ms", f"{name} ms") for name, meaning in CLASS_MEANING.items()},
}

NAMES: About = {
    "class": _CLASS,
    "name": key("name, as in the segments of the path", "name"),
    "op": key("op, as there", "op"),
    "time_ms": _PATH_TIME,
    "percent": _PERCENT,
    "segments": _SEGMENTS,
    "ranks": Column("ranks that they are on", heading="ranks", cells="list"),
    "uid": _UID,
}

STEPS: About = {
    "step": key("number of the step", "step", "number"),
    "length_ms": total(
        "length of the path step: from the last GPU end of the steps before it to its own, over all ranks",
        "ms",
        "length ms",
    ),
    **{f"{name}_ms": total(f"on its path: {meaning}", "ms", f"{name} ms") for name, meaning in CLASS_MEANING.items()},
    "near_ties": count("points of its path with another cause close behind", "near ties"),
    "rank": Column("rank with most of its path", heading="most on rank"),
}

TIES: About = {
    "rank": _RANK,
    "name": key("what started or returned there", "name"),
    "bound_by": text("what it followed from", "bound by"),
    "bound_name": text("name of that"),
    "bound_rank": Column("rank of that", heading="bound on rank"),
    "other": text("what came nearly as late", "nearly by"),
    "other_name": text("name of that"),
    "other_rank": Column("rank of that", heading="on other rank"),
    "margin_us": Column("how much sooner that would have allowed it", "us", Role.min, heading="margin us"),
    "uid": instance("node, in the trace of its rank"),
}

SLACK: About = {
    "name": key("name of the GPU work", "name"),
    "gpu_events": count("its GPU events in the step, over all ranks", "GPU events"),
    "time_ms": total("sum of their durations", "ms", "time ms"),
    "on_path_ms": total("of that on the path", "ms", "on path ms"),
    "least_slack_us": Column(
        "how much later the most urgent of them could have ended without delaying the end of the path",
        "us", Role.min, heading="least slack us",
    ),
    "median_slack_us": Column("median over them; none where most delay nothing", "us", Role.spread, "median us"),
    "rank": Column("rank of the most urgent", heading="on rank"),
    "uid": uid("the most urgent"),
}  # fmt: skip

WHAT_IF: About = {
    "change": key("what is changed", "change"),
    "changed_durations": count(
        "how many durations are changed, in all steps and on all ranks: of GPU work, of transfers of collectives, and "
        "for a repaired rank of its host time between two calls", "durations changed",
    ),
    "recorded_ms": Column("length of the path step, or of the recording, as recorded", "ms", heading="now ms"),
    "changed_ms": Column("length with the change", "ms", heading="then ms", figure="changed_ms"),
    "saved_ms": Column("what is gained", "ms", heading="saved ms", figure="saved_ms"),
    "saved_percent": Column("share of the length as recorded", "%", heading="saved %", figure="saved_percent"),
    "least_ms": Column("length if causes that did not bind are as fast as the fastest", "ms", heading="least ms"),
    "most_ms": Column("length if they are as slow as the slowest that bound", "ms", heading="most ms"),
    "begins_earlier_ms": Column(
        "how much sooner the path step begins with the change, since the step before ends sooner; negative for later, "
        "absent without a step", "ms",
    ),
}  # fmt: skip

SCHEMAS = {
    "critical_path": TableSchema(
        "What bounds a step over all ranks: the critical path, segment by segment.", SEGMENTS, ordered=True
    ),
    "path_of_step": TableSchema(
        "What bounds a step of a run over all of its ranks, segment by segment.", PATH_OF_STEP, ordered=True
    ),
    "critical_path_classes": TableSchema("What the critical path of a step consists of, by class of time.", CLASSES),
    "critical_path_ranks": TableSchema("On which ranks the critical path of a step lies.", RANKS, figure="rank"),
    "critical_path_names": TableSchema("Which work the critical path of a step consists of.", NAMES),
    "critical_path_steps": TableSchema("How long the critical path of each step is, and of what.", STEPS, ordered=True),
    "critical_path_ties": TableSchema("Where the critical path might as well run otherwise.", TIES),
    "critical_path_slack": TableSchema(
        "Which GPU work could end later without delaying the step, and by how much.", SLACK
    ),
    "what_if": TableSchema("How long a step would be if something took another time.", WHAT_IF),
}
