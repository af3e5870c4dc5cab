"""Tables of the ranks of a job: their collectives, instance by instance and by kind, and how evenly they work."""

from __future__ import annotations

from dataclasses import replace

from tracelens_graph.schema.tables.shared import count, instance, key, text, total, uid
from tracelens_graph.tables.column import About, Column, Role, TableSchema

_ADDED_UP = (
    "one delay counts in each collective that it delays, so this is not time to win, which `ranks --what-if "
    "repair=RANK` tells"
)
_BANDWIDTHS: About = {
    "algbw_gb_s": Column(
        "algorithm bandwidth: size of the message over the latency, GB of 10^9 bytes; absent without sizes",
        "GB/s",
    ),
    "busbw_gb_s": Column(
        "bus bandwidth: algorithm bandwidth times the factor of NCCL's tests for its kind, to be held against the link",
        "GB/s",
    ),
    "peak_gb_s": Column("rate of the links of the device within a host; absent where not known", "GB/s"),
    "percent_of_peak": Column("bus bandwidth as share of that rate", "%"),
}

RANK_COLLECTIVES: About = {
    "collective": key("number of the collective, by first start", heading="#"),
    "kind": text("kind of collective", heading="kind"),
    "group": text("what the program calls its process group, else the group's name; absent where not recorded"),
    "sequence": Column("number of the collective in its group; absent where not recorded"),
    "step": Column("number of the step in which most ranks launched it; absent outside of steps", heading="step"),
    "ranks": Column("ranks whose traces have it", heading="ranks"),
    "group_size": Column("ranks of the process group; absent where not recorded"),
    "hosts": Column("hosts of these ranks; absent where not known"),
    "start_us": Column("when the first rank began, from the first start of a trace, clocks corrected", "us", Role.time),
    "start_skew_us": Column("last start less first start", "us", heading="start skew us"),
    "recorded_start_skew_us": Column("the same with clocks as recorded", "us"),
    "wait_us": total("sum over its ranks of the time until the last one came", "us", heading="wait us"),
    "latency_us": Column("how long it took the rank that came last: communication without waiting", "us",
                         heading="latency us"),
    "shortest_us": Column("shortest duration on any rank", "us", Role.min),
    "end_skew_us": Column("last end less first end", "us"),
    "message_bytes": Column("size of the message by the rule of its kind; absent where not recorded", "bytes"),
    **_BANDWIDTHS,
    "overlapped_us": total(
        "sum over its ranks of the time in which the same rank computes on the GPU, memory sets counted as computing; "
        "absent without GPU work",
        "us",
    ),
    "exposed_us": total("sum over its ranks of the time in which the same rank does not compute", "us"),
    "last_trace": text("name of the trace of the rank that came last"),
    "last_rank": Column("number of that rank; absent where not recorded", heading="last rank"),
    "key": text("key of the collective on the rank that came last"),
}  # fmt: skip

COLLECTIVE_KINDS: About = {
    "kind": key("kind of collective", "kind"),
    "ranks": key("ranks that take part", "ranks", cells="number"),
    "message_bytes": key("size of the message; absent where not recorded", cells="number"),
    "count": count("collectives", heading="count"),
    "message": text("the size of the message for people", heading="message"),
    "latency_ms": total("sum of their latencies: how long the ranks that came last took", "ms", heading="latency ms",
                        figure="latency_ms"),
    "wait_ms": total("sum over all ranks of the time until the last one came", "ms", figure="wait_ms"),
    "mean_wait_us": Column("mean over collectives and ranks of that time", "us", Role.mean, heading="mean wait us"),
    "median_latency_us": Column("median of the latencies", "us", Role.spread),
    "median_start_skew_us": Column("median of last start less first start", "us", Role.spread),
    "median_busbw_gb_s": Column("median of the bus bandwidths, GB of 10^9 bytes", "GB/s", Role.spread,
                                heading="bus GB/s", figure="bus_gb_s", drop_priority=0),
    "peak_gb_s": Column("rate of the links of the device within a host; absent where not known", "GB/s",
                        heading="peak GB/s"),
    "percent_of_peak": Column("median bus bandwidth as share of that rate", "%", Role.spread, heading="% of peak"),
}  # fmt: skip

RANK_BALANCE: About = {
    "trace": key("name of the rank's trace"),
    "rank": Column("number of the rank; absent where not recorded", heading="rank"),
    "host": Column("number of its host; absent where not known", heading="host", drop_priority=3),
    "span_ms": Column(
        "from the first to the last GPU event; of a trace without any its steps, else its collectives", "ms",
        heading="span ms",
    ),
    "computing_ms": Column("time in which computation runs on the GPU; absent without GPU work", "ms",
                           heading="compute ms"),
    "collectives": replace(
        count("collectives that it took part in together with others", heading="collectives"), drop_priority=2
    ),
    "wait_ms": total("sum of the time until the last rank came", "ms", heading="wait ms", figure="wait_ms"),
    "transfer_ms": total(
        "sum of the time from then on until the first rank left after all had come", "ms", heading="transfer ms"
    ),
    "end_skew_ms": total("sum of the time after that", "ms"),
    "exposed_ms": Column("part of its collectives in which it does not compute, counted once where they overlap", "ms",
                         heading="exposed ms", drop_priority=0),
    "exposed_wait_ms": Column("waiting in which it does not compute, counted once where waits overlap", "ms"),
    "times_last": count("collectives to which no rank came later", heading="last"),
    "held_up_ms": total(
        f"sum of how much later than the median of the others it came, where it was the last; {_ADDED_UP}", "ms",
        heading="held up ms", figure="held_up_ms",
    ),
    "percent_last": Column("share of its collectives to which it came last", "%"),
    "bubble_ms": Column(
        "of a pipeline stage: time of its steps in which it neither computes nor communicates; waiting for a transfer "
        "counts as doing nothing; absent for ranks that send and receive nothing, and without GPU work", "ms",
        heading="bubble ms", figure="bubble_ms",
    ),
    "exchanged_bytes": Column(
        "what it got in uneven all-to-alls, such as tokens for its experts; absent where there are none", "bytes",
        figure="exchanged_bytes",
    ),
    "unmatched": count("parts of collectives that are of no other rank's"),
}  # fmt: skip

LATE_ARRIVALS: About = {
    "collective": key("number of the collective, by first start", heading="#"),
    "kind": text("kind of collective", heading="kind"),
    "step": Column("number of the step in which most ranks launched it; absent outside of steps", heading="step"),
    "trace": text("name of the trace of the rank that came last"),
    "rank": Column("number of that rank; absent where not recorded", heading="rank", drop_priority=0),
    "late_us": Column("how much later it came than the median of the others", "us", heading="late us", drop_priority=0),
    "new_us": total("the part of it that was not there at the collective before", "us", heading="new us"),
    "reason": replace(text("one word for the reason: see the docs", heading="reason"), drop_priority=0),
    "what": replace(
        text("what the rank did that the median rank did not, or did longer", heading="what"),
        drop_priority=0,
        wraps=True,
    ),
    "evidence": text("its time against that of the median rank"),
    "median_trace": text("name of the trace of the rank with the median start, which it is compared with"),
    "key": text("key of the collective on the rank that came last"),
    "uid": instance("the call or GPU event on the late rank with most of the difference; without one, its kernel"),
}  # fmt: skip

LATE_RANKS: About = {
    "trace": key("name of the rank's trace"),
    "rank": Column("number of the rank; absent where not recorded", heading="rank", drop_priority=0),
    "kind": key("kind of collective", "kind"),
    "times_late": count("collectives of the kind to which it came last, and later than ranks differ anyhow",
                        heading="late"),
    "collectives": Column("collectives of the kind that it took part in together with others", heading="of"),
    "percent_late": Column("share of these to which it came late", "%", heading="% late"),
    "median_late_us": Column("median of how much later than the median of the others it came", "us", Role.spread,
                             heading="median late us"),
    "late_ms": total(f"sum of how much later it came; {_ADDED_UP}", "ms"),
    "new_ms": total("sum of the parts of it that were not there at the collective before", "ms", heading="new ms"),
    "reason": replace(text("the reason with most of this new lateness", heading="reason"), drop_priority=0),
    "percent_reason": Column("its share of the new lateness", "%", heading="% of new"),
    "times_reason": replace(count("late arrivals for this reason", heading="times"), drop_priority=1),
    "median_new_us": Column("median of their new lateness", "us", Role.spread, heading="median new us"),
    "what": replace(
        text("what the rank did in the worst case of this reason", heading="what"), drop_priority=0, wraps=True
    ),
    "evidence": text("its time there against that of the median rank"),
    "collective": Column("number of the collective of this case"),
    "uid": instance("the call or GPU event of this case"),
}  # fmt: skip

UNMATCHED_COLLECTIVES: About = {
    "trace": key("name of the rank's trace", "trace"),
    "rank": Column("number of the rank; absent where not recorded"),
    "kind": text("kind of collective", heading="kind"),
    "group": text("what the program calls its process group, else the group's name; absent where not recorded"),
    "sequence": Column("number of the collective in its group; absent where not recorded", heading="sequence"),
    "step": Column("number of the step that launched it; absent outside of steps", heading="step"),
    "start_us": Column("when it began, on the clock of the collectives that were matched", "us", Role.time,
                       heading="start us"),
    "duration_us": total("how long it took", "us", heading="duration us"),
    "reason": text("why it is of no other rank's", heading="reason"),
    "key": text("key of the collective"),
    "uid": uid("its first kernel, in the trace of the rank"),
}  # fmt: skip

RANK_TIMES: About = {
    "time": key("what is measured", "of a step"),
    "mean_ms": Column(
        "mean over steps on the device and ranks; without steps over the ranks, from first to last GPU event. The last "
        "step of a recording ends with its last GPU event, so it lacks the pause before the next one", "ms",
        heading="ms", figure="ms",
    ),
    "percent": Column("share of the steps", "%", heading="%", figure="percent"),
    "most_ms": Column("mean over the steps of the rank that has the most", "ms", heading="most ms", figure="most_ms"),
    "most_trace": text("name of the trace of that rank", "most on"),
    "least_ms": Column("mean over the steps of the rank that has the least", "ms", heading="least ms"),
    "least_trace": text("name of the trace of that rank", "least on"),
    "meaning": text("what it is, in words"),
}  # fmt: skip

RANK_STEPS: About = {
    "trace": key("name of the rank's trace", "trace"),
    "rank": Column("number of the rank; absent where not recorded"),
    "step": key("number of the step", "step", cells="number"),
    "device_step_ms": Column(
        "length of the step on the device: from the first start of its GPU work to that of the next step; of the last "
        "one to its last GPU end. On the host it is that of its `ProfilerStep`, see `host_step_ms` of `overview`", "ms",
        heading="device step ms",
    ),
    "collectives": count("collectives launched in it, with others"),
    "wait_ms": total("sum of the time until the last rank came", "ms", heading="wait ms"),
    "transfer_ms": total(
        "sum of the time from then on until the first rank left after all had come", "ms", heading="transfer ms"
    ),
    "exposed_wait_ms": Column("part of the waiting in which it does not compute, counted once where waits overlap",
                              "ms", heading="exposed wait ms"),
    "times_last": count("collectives to which it came last", heading="last"),
    "held_up_ms": total(
        f"sum of how much later than the median of the others it came to these; {_ADDED_UP}", "ms",
        heading="held up ms",
    ),
}  # fmt: skip

SCHEMAS = {
    "rank_times": TableSchema(
        "How long a step of a job takes, and how much of it is communication and waiting.", RANK_TIMES, ordered=True
    ),
    "rank_steps": TableSchema("How long each rank waited in each step, and for whom.", RANK_STEPS, ordered=True),
    "rank_collectives": TableSchema(
        "What each collective of a job cost: waiting, communication, bandwidth, and who came last.", RANK_COLLECTIVES
    ),
    "late_arrivals": TableSchema("Who came late to each collective, and why.", LATE_ARRIVALS),
    "late_ranks": TableSchema(
        "Which ranks come late to which collectives, how often, by how much, and why.", LATE_RANKS
    ),
    "collective_kinds": TableSchema("What collectives of equal kind and size cost.", COLLECTIVE_KINDS, figure="kind"),
    "unmatched_collectives": TableSchema(
        "Which parts of collectives are of no other rank's, and why.", UNMATCHED_COLLECTIVES
    ),
    "rank_balance": TableSchema(
        "How evenly the ranks of a job work, wait and communicate.", RANK_BALANCE, figure="rank"
    ),
}
