"""What a database holds of the ranks of a run together: properties of collectives, clocks and critical paths."""

from __future__ import annotations

from collections.abc import Mapping

from tracelens_graph.schema.stored import Stored

RANK_PROPERTIES: Mapping[str, tuple[Stored, ...]] = {
    "Matching": (
        Stored("run", "str", "name of the run"),
        Stored("name", "str", "what was matched"),
        Stored("state", "str", "loading, complete or dropping; only a complete matching answers queries"),
        Stored("begun_ns", "int", "when it was first pushed, since 1970", "ns"),
        Stored("pushed_ns", "int", "when it was completed, since 1970", "ns"),
        Stored("traces", "strs", "ids of the traces of the ranks, in the order of these"),
        Stored("collectives", "int", "collectives that two ranks at least took part in"),
        Stored("parts", "int", "parts of ranks in collectives"),
        Stored("unmatched", "int", "those that match those of no other rank"),
        Stored("paths", "int", "critical paths: one of each step and one of everything; 0 without GPU work"),
        Stored("notes", "strs", "what was not matched and why, which ranks are missing, how clocks differ"),
        Stored("schema_version", "int", "version of the graph model"),
        Stored("tool_version", "str", "version of tracelens_graph that matched them"),
    ),
    "Meeting": (
        Stored("number", "int", "number of the collective, by first start"),
        Stored("name", "str", "kind of collective; `send` for a transfer"),
        Stored("key", "str", "key of its `Collective` node on the rank that came last"),
        Stored("process_group", "int", "number of its process group in the run"),
        Stored("group", "str", "what the program calls its process group, else the group's name"),
        Stored("group_ranks", "str", "ranks of the group, JSON"),
        Stored("group_size", "int", "number of ranks of the group"),
        Stored("source_rank", "int", "number of the rank that sends; absent unless both ends of a transfer are known"),
        Stored("target_rank", "int", "number of the rank that receives; absent likewise"),
        Stored("sequence", "int", "number of the collective in its group"),
        Stored("step", "int", "number of the step in which most ranks launched it"),
        Stored("ranks", "int", "ranks whose traces have it"),
        Stored("hosts", "int", "hosts of these ranks"),
        Stored(
            "start_ns", "int", "start of the rank that came first, from the first start of a trace of the run", "ns"
        ),
        Stored("dur_ns", "int", "from there to the last end", "ns"),
        Stored("start_skew_ns", "int", "last start less first start", "ns"),
        Stored("recorded_start_skew_ns", "int", "the same with clocks as recorded", "ns"),
        Stored("end_skew_ns", "int", "last end less first end", "ns"),
        Stored("wait_ns", "int", "sum over its ranks of the time until the last one came", "ns"),
        Stored("latency_ns", "int", "duration on the rank that came last: communication without waiting", "ns"),
        Stored("shortest_ns", "int", "shortest duration on any rank", "ns"),
        Stored("longest_ns", "int", "longest duration on any rank", "ns"),
        Stored("overlapped_ns", "int", "sum over its ranks of the time in which the same rank computes", "ns"),
        Stored("exposed_ns", "int", "sum over its ranks of the time in which the same rank does not compute", "ns"),
        Stored("message_bytes", "int", "size of the message by the rule of its kind", "B"),
        Stored("algbw_gb_s", "float", "algorithm bandwidth: size of the message over the latency", "GB/s"),
        Stored("busbw_gb_s", "float", "bus bandwidth: the same times the factor of NCCL's tests for the kind", "GB/s"),
        Stored("peak_gb_s", "float", "rate of the links of the device within a host", "GB/s"),
        Stored("percent_of_peak", "float", "bus bandwidth as share of that rate", "%"),
        Stored("last_trace", "str", "name of the trace of the rank that came last; of several the smallest rank's"),
        Stored("last_rank", "int", "number of that rank"),
    ),
    "CriticalPath": (
        Stored("number", "int", "number of the path: 0 for that of everything, then steps in their order"),
        Stored("name", "str", "what it is the path of"),
        Stored("step", "int", "number of the step; absent on the path of everything"),
        Stored("start_ns", "int", "when it begins, from the first start of a trace of the run", "ns"),
        Stored("dur_ns", "int", "its length, which its segments add up to: that of the step", "ns"),
        Stored("segments", "int", "segments of it"),
        Stored("near_ties", "int", "points of it with another cause close behind"),
        Stored("notes", "strs", "what was inferred, how far clocks can be trusted"),
    ),
    "PathSegment": (
        Stored("number", "int", "number of the segment among those of all paths of the run"),
        Stored("name", "str", "what accounts for it: GPU work or a call on the host; else its class"),
        Stored("place", "int", "place on its path, from 1"),
        Stored("class", "str", "what the time is, as in the table `critical_path`: host, launch, computation, ..."),
        Stored("rank", "int", "number of the rank; absent where nothing is recorded"),
        Stored("trace_name", "str", "name of the rank's trace"),
        Stored("uid", "int", "uid of what accounts for it; absent where nothing does"),
        Stored("op", "str", "op that it is charged to, or that is around the call"),
        Stored("module", "str", "innermost module around that"),
        Stored("start_ns", "int", "when it begins, from the first start of a trace of the run", "ns"),
        Stored("dur_ns", "int", "how long it lasts", "ns"),
        Stored("from_rank", "int", "rank that the path comes from, where that is another one"),
    ),
}
"""Label -> properties of what the ranks of a run have in common; all but a matching have `run` too."""

RANK_EDGE_PROPERTIES: Mapping[str, tuple[Stored, ...]] = {
    "MEMBER_OF": (
        Stored(
            "start_ns", "int", "start of the rank's part on the common clock, from the first start of a trace", "ns"
        ),
        Stored("end_ns", "int", "end of the part on that clock", "ns"),
        Stored("wait_ns", "int", "how long the rank waited for the last one", "ns"),
        Stored("transfer_ns", "int", "how long it communicated: from the last start to the first end", "ns"),
        Stored("end_skew_ns", "int", "how much later it left than the first; the three add up to its duration", "ns"),
        Stored("late_ns", "int", "how much later it came than the first rank", "ns"),
        Stored("behind_ns", "int", "of the rank that came last: how much later than the median of the others", "ns"),
        Stored("held_up_ns", "int", "the same without delays by slow links", "ns"),
    ),
    "SENDS": (
        Stored("meeting", "int", "number of the `Meeting`"),
        Stored("message_bytes", "int", "size of the message", "B"),
        Stored("start_skew_ns", "int", "how far apart both ranks began", "ns"),
        Stored("latency_ns", "int", "duration on the rank that came last", "ns"),
    ),
    "OF_RANK": (
        Stored("rank", "int", "number of the rank, by its metadata or the name of its file"),
        Stored("zero_ns", "int", "when the trace's time 0 is on the common clock", "ns"),
        Stored("offset_ns", "int", "what its clock showed too much there; 0 where clocks are taken as they are", "ns"),
        Stored("estimate_ns", "int", "how much it is ahead of the first rank's, by the ends of collectives", "ns"),
        Stored("error_ns", "float", "standard error of that estimate; absent where there is none", "ns"),
        Stored("host", "int", "number of its host"),
        Stored("span_ns", "int", "from the first to the last GPU event; without any its steps, else collectives", "ns"),
        Stored("computing_ns", "int", "computation runs on the GPU; absent without GPU work", "ns"),
        Stored("bubble_ns", "int", "of a pipeline stage: it neither computes nor communicates in its steps", "ns"),
        Stored("exchanged_bytes", "int", "what it got in uneven all-to-alls", "B"),
    ),
}
"""Type of edge -> its properties. Further types of edges have none."""
