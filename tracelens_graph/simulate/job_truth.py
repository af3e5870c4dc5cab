"""The truth about all ranks of a simulated job: clocks, groups, collectives, and what was planted."""

from __future__ import annotations

from typing import Any

from tracelens_graph.simulate.events import COMM_DTYPE, ITEM_BYTES, Collective, GpuEvent, Member
from tracelens_graph.simulate.host import Process
from tracelens_graph.simulate.places import START_NS, Group
from tracelens_graph.simulate.waits import late_steps

Json = dict[str, Any]
_BYTES = {short: ITEM_BYTES[dtype] for dtype, short in COMM_DTYPE.items()}


def truth_of_job(processes: list[Process]) -> Json:
    """Truth as JSON, equal for all ranks. Times are in nanoseconds, of the true clock unless named `recorded`.

    clocks       one record per rank: host, and how far its clock is ahead and goes faster
    places       one record per rank: its stage of a pipeline, and which expert of every layer it keeps
    groups       one record per process group that more than one rank is in
    collectives  one record per collective; lists have an entry for each of its `ranks`
    planted      what makes a rank late or slow, and what recordings lack
    """
    return {
        "clocks": [_clock(process) for process in processes],
        "places": [{"rank": p.rank, "stage": p.place.stage, "expert": p.place.expert} for p in processes],
        "groups": _groups(processes),
        "collectives": [_record(one, processes) for one in processes[0].collectives.values()],
        "planted": _planted(processes),
    }


def _clock(process: Process) -> Json:
    clock, place = process.clock, process.place
    return {
        "rank": process.rank,
        "node": place.node,
        "host_name": place.host_name,
        "offset_ns": clock.offset_ns,
        "drift_ppm": clock.drift_ppm,
        "at_ns": START_NS,
    }


def _groups(processes: list[Process]) -> list[Json]:
    groups = {(one.name, one.ranks): one for process in processes for one in process.place.groups}
    return [{"name": one.name, "description": one.description, "ranks": list(one.ranks)} for one in groups.values()]


def key_of(collective: Collective) -> str:
    """What identifies a collective: its group, its ends if it is a transfer, and its number there.

    One that a rank runs alone has the number of that before which it stands, and the rank.
    """
    group = collective.group
    ends = f":{collective.source}>{collective.target}" if collective.kind == "send_recv" else ""
    alone = f"+{collective.ranks[0]}" if collective.is_extra else ""
    return f"{group.name}[{','.join(map(str, group.ranks))}]{ends}#{collective.number}{alone}"


def _record(collective: Collective, processes: list[Process]) -> Json:
    members = [collective.members[rank] for rank in sorted(collective.members)]
    group: Group = collective.group
    starts = [member.gpu.start for member in members]
    ends = [member.gpu.end for member in members]
    clocks = [processes[member.rank].clock.recorded for member in members]
    sizes = [member.elements_in for member in members]
    return {
        "key": key_of(collective),
        "group": group.name,
        "description": group.description,
        "group_ranks": list(group.ranks),
        "seq": collective.sequence,
        "kind": collective.kind,
        "dtype": collective.dtype,
        "bytes": sizes[0] * _BYTES[collective.dtype],
        "source": collective.source,
        "target": collective.target,
        "step": collective.step,
        "ranks": [member.rank for member in members],
        "seqs": [member.sequence for member in members],
        "kernels": [_uid(member.gpu, processes[member.rank]) for member in members],
        "elements_in": sizes,
        "elements_out": [member.elements_out for member in members],
        "split_in": [list(member.split_in) for member in members],
        "split_out": [list(member.split_out) for member in members],
        "start_ns": starts,
        "end_ns": ends,
        "recorded_start_ns": [clock(start) for clock, start in zip(clocks, starts, strict=True)],
        "recorded_end_ns": [clock(end) for clock, end in zip(clocks, ends, strict=True)],
        "is_barrier": collective.is_barrier,
        "is_odd": collective.is_odd,
        "is_extra": collective.is_extra,
        "awaits": [None if member.awaits is None else list(member.awaits) for member in members],
        "waited_for": [_last_awaited(collective, member) for member in members],
        "wait_ns": [member.wait for member in members],
        "transfer_ns": max(member.transfer for member in members),
        "transfers_ns": [member.transfer for member in members],
        "latency_ns": collective.latency,
        "end_noise_ns": [member.end_noise for member in members],
        "skew_ns": max(starts) - min(starts),
        "last_rank": members[starts.index(max(starts))].rank,
    }


def _last_awaited(collective: Collective, member: Member) -> int:
    """The rank whose arrival a member's end had to wait for, which may be its own."""
    ranks = collective.ranks if member.awaits is None else member.awaits
    return max(ranks, key=lambda rank: collective.members[rank].gpu.start)


def _uid(gpu: GpuEvent, process: Process) -> int | None:
    is_recorded = gpu.uid >= 0 and process.rank not in process.options.missing_ranks
    return gpu.uid if is_recorded else None


def _planted(processes: list[Process]) -> list[Json]:
    o = processes[0].options
    found: list[Json] = []
    if o.dataloader_rank is not None:
        found.append(
            {"trouble": "late_rank", "rank": o.dataloader_rank, "reason": "data_loader", "us": o.dataloader_us}
        )
    if o.late_rank is not None:
        steps = late_steps(processes[o.late_rank])
        found.append(
            {"trouble": "late_rank", "rank": o.late_rank, "reason": o.late_reason, "us": o.late_us, "steps": steps}
        )
    if o.slow_rank is not None:
        found.append({"trouble": "slow_rank", "rank": o.slow_rank, "reason": "kernels", "factor": o.slow_factor})
    if o.slow_link_rank is not None:
        found.append({"trouble": "slow_link", "rank": o.slow_link_rank, "factor": o.slow_link_factor})
    if o.recording_begins_us:
        found.append({"trouble": "late_recording", "rank": o.recording_begins_rank, "us": o.recording_begins_us})
    found += [{"trouble": "missing_rank", "rank": rank} for rank in o.missing_ranks]
    for trouble, places in (("dropped_collective", o.dropped_collectives), ("extra_collective", o.extra_collectives)):
        for rank, place in places:
            joined = processes[rank].joined
            if place < len(joined):
                found.append({"trouble": trouble, "rank": rank, "place": place, "key": key_of(joined[place])})
    return found
